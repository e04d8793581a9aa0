"""How models do on a column beside its sister: the pairs of a suite, analysed in the background.

`analyse_due` is a chore; pages read the rows that it stored.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from time import monotonic
from urllib.parse import urlencode

import numpy as np
from django.db.models import Count, Q, QuerySet
from django.urls import reverse
from django.utils import timezone

from evalcore.digest import digest_of
from leaderboard.models import SisterAnalysis, SisterGap, Suite, SuiteEntry
from leaderboard.models.edition import SITE, changing, note
from leaderboard.samples import vectors
from leaderboard.stats import Redrawn, SisterGaps, Unanswered, redrawn, sister_gaps
from leaderboard.tasks import health, items

REST = 3600.0
"""Seconds between two looks at a pair."""
SECONDS = 10.0
"""No pair is begun after so long: boards wait behind it."""
AT_ONCE = 2**22
"""Scores held at once, about."""
FORM = 1
"""What an analysis holds: those of an earlier form are made anew."""
SEED = 0


@dataclass(frozen=True)
class Pair:
    """Two columns of a suite that ask for the same skill."""

    column: SuiteEntry
    sister: SuiteEntry
    differs: str
    """How the sister's questions are others, or are put in another way."""

    @property
    def name(self) -> str:
        """As addresses have it."""
        return f"{self.column.task.name}:{self.sister.task.name}"

    @property
    def title(self) -> str:
        """“MMLU: MMLU-style beside hybrid”, or both in full where the benchmarks differ."""
        if self.column.title == self.sister.title:
            ways = f"{self.column.task.style_words} beside {self.sister.task.style_words}"
            return f"{self.column.title}: {ways}"
        return f"{self.column.task_title}, beside {self.sister.task_title}"

    @property
    def url(self) -> str:
        query = urlencode({"suite": self.column.suite.name, "pair": self.name})
        return f"{reverse('sisters')}?{query}"

    @property
    def keys(self) -> tuple[str, str] | None:
        """None before both columns have a number."""
        keys = self.column.comparability_key, self.sister.comparability_key
        return keys if all(keys) else None


@dataclass(frozen=True)
class _Both:
    """A model's numbers on both columns, by primary key."""

    variant: int
    result: int
    sister: int


LONG = tuple(f"task__{name}" for name in ("changelog", "origin", "known_gaps", "answer_extraction"))
"""Texts of a task that nobody asks a pair for."""


def pairs_of(suites: Sequence[Suite]) -> list[Pair]:
    """In the order of the suites' files; one query for all of them."""
    named = {
        pair[side] for suite in suites for pair in suite.sisters for side in ("task", "sister")
    }
    entries = SuiteEntry.objects.filter(
        suite__in=[suite for suite in suites if suite.sisters], task__name__in=named
    )
    of: dict[tuple[int, str], SuiteEntry] = {}
    known = {suite.pk: suite for suite in suites}
    for entry in entries.filter(draw=0).select_related("task").defer(*LONG):
        entry.suite = known[entry.suite_id]
        of[entry.suite_id, entry.task.name] = entry
    return [
        Pair(of[suite.pk, pair["task"]], of[suite.pk, pair["sister"]], pair["differs"])
        for suite in suites
        for pair in suite.sisters
    ]


def pairs_about(comparability_key: str) -> list[Pair]:
    """Those of every suite whose benchmark or sister is this column, the newest suite first."""
    asking = SuiteEntry.objects.filter(comparability_key=comparability_key, draw=0)
    suites = Suite.objects.filter(pk__in=asking.values("suite")).order_by("-created", "-pk")
    return [pair for pair in pairs_of(list(suites)) if pair.keys and comparability_key in pair.keys]


def newest(pairs: Sequence[Pair]) -> dict[tuple[str, str], SisterAnalysis]:
    """The newest analysis of each pair by its keys; one query."""
    of = [pair.keys[0] for pair in pairs if pair.keys]
    rows = SisterAnalysis.objects.filter(comparability_key__in=of)
    wanted = {pair.keys for pair in pairs}
    return {
        keys: row
        for row in rows.order_by("built", "pk")
        if (keys := (row.comparability_key, row.sister_key)) in wanted
    }


@dataclass(frozen=True)
class Told:
    """How many models stand out in a pair."""

    pair: Pair
    models: int
    above: int
    below: int


def told_about(comparability_key: str) -> list[Told]:
    """Of each pair with this column in it that could be analysed, once for all suites."""
    pairs = pairs_about(comparability_key)
    rows = newest(pairs)
    of = {keys: row for keys, row in rows.items() if not row.unanswered}
    out = SisterGap.objects.filter(analysis__in=rows.values(), stands_out=True)
    counted = {
        pk: (above, below)
        for pk, above, below in out.order_by()
        .values_list("analysis")
        .annotate(above=Count("pk", filter=Q(gap__gt=0)), below=Count("pk", filter=Q(gap__lt=0)))
    }
    first = _each_once(pairs)
    return [
        Told(pair, of[keys].models_n, *counted.get(of[keys].pk, (0, 0)))
        for keys, pair in first.items()
        if keys in of
    ]


def of_variant(variant: int, suites: Sequence[Suite]) -> list[tuple[Pair, SisterGap]]:
    """What a variant's gaps are in the pairs of these suites, each pair once."""
    gaps = SisterGap.objects.filter(variant=variant).select_related("analysis").order_by("pk")
    found = {(gap.analysis.comparability_key, gap.analysis.sister_key): gap for gap in gaps}
    pairs = _each_once(pairs_of(suites)) if found else {}
    return [(pair, found[keys]) for keys, pair in pairs.items() if keys in found]


def _each_once(pairs: Sequence[Pair]) -> dict[tuple[str, str], Pair]:
    """Those with numbers, by their keys: of several suites' same ones the first."""
    found: dict[tuple[str, str], Pair] = {}
    for pair in pairs:
        if pair.keys:
            found.setdefault(pair.keys, pair)
    return found


def analyse_due() -> int:
    """Analyse the pairs in which runs were finished since; how many. Each is looked at once an
    hour."""
    begun, analysed = monotonic(), 0
    pairs = _each_once(pairs_of(list(Suite.objects.all())))
    versions = {keys: row.data_version for keys, row in newest(list(pairs.values())).items()}
    for keys in sorted(pairs, key=lambda keys: _looked.get(keys, 0.0)):
        rested = monotonic() - _looked.get(keys, -REST) >= REST
        if not rested or monotonic() - begun > SECONDS:
            break
        _looked[keys] = monotonic()
        version = _version(keys)
        if version != versions.get(keys):
            analyse(keys, version)
            analysed += 1
    return analysed


_looked: dict[tuple[str, str], float] = {}
"""By pair when it was last looked at, by this process's clock."""


def _version(keys: tuple[str, str]) -> str:
    found = [items.numbers_in(key) for key in keys]
    return f"{FORM} {digest_of(found)[:40]}"


def analyse(keys: tuple[str, str], data_version: str) -> SisterAnalysis:
    """Analyse a pair now, in place of an earlier analysis."""
    both = one_of_each(keys)
    known, found = _gaps(both)
    row = SisterAnalysis(
        comparability_key=keys[0],
        sister_key=keys[1],
        models_n=len(known),
        unanswered="" if isinstance(found, SisterGaps) else found,
        scatter=found.scatter if isinstance(found, SisterGaps) else None,
        built=timezone.now(),
        data_version=data_version,
    )
    with changing():
        of_pair(keys).delete()
        row.save()
        if isinstance(found, SisterGaps):
            SisterGap.objects.bulk_create(_rows(row, known, found), batch_size=500)
        note("pages", of=[SITE])
    return row


def one_of_each(keys: tuple[str, str]) -> list[_Both]:
    """Of each model, and of the same weights, the variant with numbers in both columns whose run of
    the first is the newest: a family's many copies would else be each other's reference."""
    column, sister = (
        items.results_of(key)
        .order_by("-run__finished", "-pk")
        .values_list(
            "pk", "run__variant", "run__variant__hub_model", "run__variant__weights_digest"
        )
        for key in keys
    )
    beside: dict[int, int] = {}
    for pk, variant, _, _ in sister:
        beside.setdefault(variant, pk)
    seen: set[object] = set()
    chosen = []
    for pk, variant, model, weights in column:
        if variant not in beside:
            continue
        if model not in seen and weights not in seen:
            chosen.append(_Both(variant, pk, beside[variant]))
        seen |= {model, weights} - {""}
    return chosen


def _gaps(both: Sequence[_Both]) -> tuple[list[_Both], SisterGaps | Unanswered]:
    """Of the models that have scores by question in both columns."""
    known: list[_Both] = []
    redrawn_parts: tuple[list[Redrawn], list[Redrawn]] = ([], [])
    step, start = 1, 0
    while start < len(both):
        some = both[start : start + step]
        start += step
        matrices = [
            vectors.matrix([one.result for one in some]),
            vectors.matrix([one.sister for one in some]),
        ]
        if any(matrix is None for matrix in matrices):
            continue
        first, second = (matrix for matrix in matrices if matrix)
        step = max(1, AT_ONCE // max(first.layout.n, second.layout.n))
        there = np.isfinite(first.scores.sum(axis=1) + second.scores.sum(axis=1))
        if not there.any():
            continue
        blocks = [health.errors_of(matrix.scores[there], matrix) for matrix in (first, second)]
        if any(block is None for block in blocks):
            return known, Unanswered.NOISE
        known += [one for one, is_there in zip(some, there.tolist(), strict=True) if is_there]
        seeds = SEED, SEED if _same_units(first.layout, second.layout) else SEED + 1
        for parts, block, seed in zip(redrawn_parts, blocks, seeds, strict=True):
            if block is not None:
                parts.append(redrawn(block, seed=seed))
    if not known:
        return [], Unanswered.FEW_MODELS
    column, sister = (
        Redrawn(
            np.concatenate([part.scores for part in parts]),
            np.concatenate([part.replicates for part in parts]),
        )
        for parts in redrawn_parts
    )
    return known, sister_gaps(column, sister, seed=SEED)


def _same_units(first: vectors.Layout, second: vectors.Layout) -> bool:
    """Whether both ask the same questions in one order, which then are drawn together."""
    same_clusters = (
        np.array_equal(first.cluster, second.cluster)
        if first.cluster is not None and second.cluster is not None
        else first.cluster is second.cluster
    )
    return first.docs_digest == second.docs_digest and same_clusters


def _rows(row: SisterAnalysis, known: Sequence[_Both], found: SisterGaps) -> list[SisterGap]:
    return [
        SisterGap(
            analysis=row,
            variant_id=one.variant,
            score=float(found.expected[at] + found.gap[at]),
            sister=float(found.sister[at]),
            expected=float(found.expected[at]),
            gap=float(found.gap[at]),
            low=float(found.low[at]),
            high=float(found.high[at]),
            p_value=float(found.p_value[at]),
            stands_out=bool(found.stands_out[at]),
            beyond=bool(found.beyond[at]),
        )
        for at, one in enumerate(known)
    ]


def of_pair(keys: tuple[str, str]) -> QuerySet[SisterAnalysis]:
    return SisterAnalysis.objects.filter(comparability_key=keys[0], sister_key=keys[1])


def forget(comparability_keys: Collection[str]) -> None:
    """Remove the analyses of columns whose numbers were found to be wrong; they are made anew."""
    either = Q(comparability_key__in=comparability_keys) | Q(sister_key__in=comparability_keys)
    SisterAnalysis.objects.filter(either).delete()
    for keys in [keys for keys in _looked if set(keys) & set(comparability_keys)]:
        _looked.pop(keys)
