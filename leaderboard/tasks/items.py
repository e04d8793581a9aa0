"""How hard each question of a column is, and whether it tells models apart: over all models.

Background work: `analyse_due` is a chore, the task page reads what it stored. The table by question
lies in the artifact store; a row of ItemAnalysis says for which column and of how many models.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from django.db.models import F, QuerySet
from django.utils import timezone
from numpy.typing import NDArray

from evalcore.digest import digest_of
from evalcore.stats import kendall_interval
from leaderboard.models import ItemAnalysis, Result, Run, SuiteEntry
from leaderboard.models.edition import SITE, changing, note
from leaderboard.models.task import is_share
from leaderboard.samples import Numbered, vectors
from leaderboard.samples import store as artifacts
from leaderboard.snapshot import OWN, Board, published
from leaderboard.stats import item_analysis
from leaderboard.tasks import health

SEED = 0
FEWEST, MOST_ORDERED = 10, 1_000
"""Models: with fewer the interval says nothing, of more so many are drawn."""


@dataclass(frozen=True)
class Agreement:
    """Kendall's τ_b of a column with the mean of its suite's other columns, over models."""

    suite: str
    version: str
    style: str
    tau: float
    low: float
    high: float
    """95 %, had other models been measured (docs/method.md)."""
    models: int


def agreements_of(comparability_key: str) -> list[Agreement]:
    """One for each suite that counts this column and has a board of enough models."""
    entries = SuiteEntry.objects.filter(comparability_key=comparability_key, draw=0)
    found = []
    for entry in entries.select_related("suite").order_by("-suite__created", "suite_id"):
        board = published.newest(entry.suite, OWN if entry.own else entry.style)
        if board and (agreement := _agreement(board, comparability_key)):
            found.append(agreement)
    return found


def _agreement(board: Board, key: str) -> Agreement | None:
    column = next(
        (c for c, other in enumerate(board.columns) if other.comparability_key == key), None
    )
    others = [
        place
        for place, other in enumerate(board.columns)
        if other.counts and place != column and is_share(other.metric)
    ]
    if column is None or not others:
        return None
    scores = board.normalised.value if board.by_chance else board.scores.value
    rows = np.flatnonzero(board.ranks.rank > 0)
    if len(rows) > MOST_ORDERED:
        rows = np.sort(np.random.default_rng(SEED).choice(rows, MOST_ORDERED, replace=False))
    if len(rows) < FEWEST:
        return None
    sign = 1.0 if is_share(board.columns[column].metric) else -1.0
    try:
        found = kendall_interval(sign * scores[rows, column], scores[rows][:, others].mean(axis=1))
    except ValueError:  # models that are all equal, or all but one, have no order
        return None
    about = (board.suite, board.version, board.style)
    return Agreement(*about, found.value, found.low, found.high, len(rows))


logger = logging.getLogger(__name__)

ENOUGH = 10
"""Models: with fewer nothing can be said of a question."""
MOST = 1_000
"""Of more models so many are drawn."""
REST = 3600.0
"""Seconds between two looks at a column."""
SECONDS = 10.0
"""No column is begun after so long: boards wait behind it."""
FORM = 2
"""What an analysis holds: those of an earlier form are made anew."""
ABOUT = b"plumbline"

Scores = NDArray[np.float32]


@dataclass(frozen=True, eq=False, kw_only=True)
class Table(Numbered):
    """What is known of each question of a column."""

    row: ItemAnalysis
    difficulty: Scores
    """Share of the models that are right."""
    discrimination: Scores
    """Correlation with the rest of the test."""
    defined: NDArray[np.bool_]
    suspicious: NDArray[np.bool_]
    """Better models get it wrong more often, by more than chance: its key is likely wrong."""
    agreements: tuple[Agreement, ...]
    results: frozenset[int] | None
    """Of the models, by primary key; None in files of before they were noted."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Every question, in the order of the benchmark."""
        yield pa.RecordBatch.from_pydict(
            {
                "task": [self.tasks[place] for place in self.task.tolist()],
                "doc_id": pa.array(self.doc_id),
                "part": [self.parts[place] for place in self.part.tolist()],
                "difficulty": pa.array(self.difficulty),
                "discrimination": pa.array(self.discrimination, mask=~self.defined),
                "suspicious": pa.array(self.suspicious),
            }
        )


def newest(comparability_key: str) -> ItemAnalysis | None:
    """The newest analysis of a column; None where there is none, or its file is lost."""
    rows = ItemAnalysis.objects.filter(comparability_key=comparability_key)
    row = rows.order_by("-built", "-pk").first()
    return row if row and artifacts.holds(row.sha256) else None


def table(analysis: ItemAnalysis) -> Table:
    return Table(row=analysis, **_columns(analysis.sha256))


def models_of(comparability_key: str) -> int:
    """How many models have a number in a column, counted up to ENOUGH."""
    of_models = results_of(comparability_key).order_by()
    # The first so many rows: to tell all models apart, the database would have to read them all.
    found = of_models.values_list("run__variant__hub_model", flat=True)[: 50 * ENOUGH]
    return min(len(set(found)), ENOUGH)


def analyse_due() -> int:
    """Analyse the columns in which runs were finished since; how many.

    Each column is looked at once an hour, whether it has changed or not: counting the runs of all
    of them takes a database of thousands of models seconds.
    """
    begun, analysed = monotonic(), 0
    entries = SuiteEntry.objects.filter(draw=0).exclude(comparability_key="")
    keys = set(entries.values_list("comparability_key", flat=True))
    versions = dict(
        ItemAnalysis.objects.filter(comparability_key__in=keys)
        .order_by("built", "pk")
        .values_list("comparability_key", "data_version")
    )
    for key in sorted(keys, key=lambda key: _looked.get(key, 0.0)):
        rested = monotonic() - _looked.get(key, -REST) >= REST
        if not rested or monotonic() - begun > SECONDS:
            break
        _looked[key] = monotonic()
        version = _version(key)
        if version and version != versions.get(key):
            analysed += analyse(key, version) is not None
    return analysed


_looked: dict[str, float] = {}
"""By column when it was last looked at, by this process's clock."""


def _version(comparability_key: str) -> str:
    """What the finished runs of a column are known by, empty for too few of them."""
    results = numbers_in(comparability_key)
    return f"{FORM} {digest_of(results)[:40]}" if len(results) >= ENOUGH else ""


def numbers_in(comparability_key: str) -> list[int]:
    """The numbers that stand in a column, by primary key in order. One may go as another comes: a
    flag is set and another is lifted."""
    return sorted(results_of(comparability_key).order_by().values_list("pk", flat=True))


def results_of(comparability_key: str) -> QuerySet[Result]:
    """The numbers that stand in columns: of whole runs that are done, and of no model that is
    flagged or that its author took out of the ranking."""
    return Result.objects.filter(
        comparability_key=comparability_key,
        subset="",
        task_name=F("run__task__name"),
        run__state=Run.State.DONE,
        run__variant__hub_model__flag_reason="",
        run__variant__hub_model__departed=False,
    )


def analyse(comparability_key: str, data_version: str) -> ItemAnalysis | None:
    """Analyse a column now, in place of an earlier analysis; None where too few models allow it."""
    chosen = one_of_each(comparability_key)
    if len(chosen) > MOST:
        drawn = np.random.default_rng(0).choice(len(chosen), MOST, replace=False)
        chosen = [chosen[place] for place in np.sort(drawn)]
    found = vectors.matrix(chosen)
    if found is None:
        return None
    known = np.isfinite(found.scores).all(axis=1)
    scores = found.scores[known]
    if len(scores) < ENOUGH or found.layout.n < 2:
        return None
    items = item_analysis(scores)
    results = np.array(chosen)[known].tolist()
    errors = health.errors_of(scores, found)
    told = health.of_column(comparability_key, results, scores, items.suspicious, errors)
    found_agreements = agreements_of(comparability_key)
    layout = found.layout
    columns = {
        "task": pa.DictionaryArray.from_arrays(layout.task, list(layout.tasks)),
        "doc_id": layout.doc_id,
        "part": pa.DictionaryArray.from_arrays(layout.part, list(layout.parts)),
        "difficulty": items.difficulty.astype(np.float32),
        "discrimination": items.discrimination.astype(np.float32),
        "defined": items.defined,
        "suspicious": items.suspicious,
    }
    about = {
        "models": len(scores),
        "results": results,
        "agreements": [asdict(agreement) for agreement in found_agreements],
    }
    table = pa.table(columns).replace_schema_metadata({ABOUT: json.dumps(about)})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "items.parquet")
        pq.write_table(table, file, compression="zstd")
        stored = artifacts.store(file, kind="items", rows=layout.n)
    row = ItemAnalysis(
        comparability_key=comparability_key,
        docs_digest=layout.docs_digest,
        models_n=len(scores),
        detectable=health.detectable(errors) if errors else None,
        built=timezone.now(),
        data_version=data_version,
        sha256=stored.sha256,
        health=told.as_json,
        marks=told.marks(float(items.suspicious.mean())),
    )
    with changing():
        row.save()
        note("pages", of=[SITE, *_suites_of(comparability_key)])
    _forget_before(row)
    return row


def _suites_of(comparability_key: str) -> list[int]:
    """By primary key those whose boards warn of the column."""
    entries = SuiteEntry.objects.filter(comparability_key=comparability_key)
    return list(entries.order_by().values_list("suite", flat=True).distinct())


def one_of_each(comparability_key: str) -> list[int]:
    """Results by primary key: of each model and of the same weights one, the newest."""
    rows = results_of(comparability_key).order_by("-run__finished", "-pk")
    seen: set[object] = set()
    chosen = []
    for pk, model, weights in rows.values_list(
        "pk", "run__variant__hub_model", "run__variant__weights_digest"
    ):
        if model not in seen and weights not in seen:
            chosen.append(pk)
        seen |= {model, weights} - {""}
    return chosen


def forget(comparability_keys: Collection[str]) -> None:
    """Remove the analyses of columns whose numbers were found to be wrong; they are made anew."""
    _remove(ItemAnalysis.objects.filter(comparability_key__in=comparability_keys))
    for key in comparability_keys:
        _looked.pop(key, None)


def _forget_before(row: ItemAnalysis) -> None:
    same = ItemAnalysis.objects.filter(comparability_key=row.comparability_key)
    _remove(same.filter(pk__lt=row.pk))


def _remove(older: QuerySet[ItemAnalysis]) -> None:
    digests = set(older.values_list("sha256", flat=True))
    older.delete()
    kept = set(ItemAnalysis.objects.filter(sha256__in=digests).values_list("sha256", flat=True))
    for sha256 in digests - kept:
        artifacts.remove(sha256)


@lru_cache(maxsize=64)
def _columns(sha256: str) -> dict[str, Any]:
    """The fields of a Table as they lie in the store, where nothing ever changes."""
    table = pq.read_table(artifacts.path_of(sha256))
    about: dict[str, Any] = json.loads((table.schema.metadata or {})[ABOUT])
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    fields: dict[str, Any] = {
        name: columns[name].to_numpy(zero_copy_only=False)
        for name in ("doc_id", "difficulty", "discrimination", "defined", "suspicious")
    }
    for name in ("task", "part"):
        fields[name] = columns[name].indices.to_numpy()
        fields[f"{name}s"] = tuple(columns[name].dictionary.to_pylist())
    fields["results"] = frozenset(about["results"]) if "results" in about else None
    fields["agreements"] = tuple(Agreement(**agreement) for agreement in about["agreements"])
    return fields
