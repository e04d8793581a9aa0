"""Two runs on the same questions: their paired differences, or why there is none.

Numbers are compared where their comparability keys agree; where they do not, the refusal names what
differs. Source of the statistics: evalcore/stats/difference.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from operator import gt, lt
from typing import Any

from evalcore.formats.lmeval.results import leaves_of
from evalcore.formats.run_files import Run
from evalcore.keys import cuts_thoughts, own_generation_of
from evalcore.record import ResultRow, RunRecord
from evalcore.stats import PairedDifference, holm, mcnemar, paired_difference

TOLERANCE = 1e-9
"""Between a stated number and the mean of its documents' scores."""


@dataclass(frozen=True, kw_only=True)
class Number:
    """One number of a task, of a group, or of a part of one."""

    task: str
    subset: str
    metric: str
    filter: str

    @property
    def name(self) -> str:
        """A task, or a part of one; a task that is a part of a group goes by its own name."""
        part = self.subset if self.subset != self.task else ""
        return f"{self.task}: {part}" if part else self.task


@dataclass(frozen=True, kw_only=True)
class Difference(Number):
    """One number in both runs; differences are a minus b."""

    n: int
    a: float
    b: float
    paired: PairedDifference
    p_holm: float
    """The p-value corrected for all numbers of the comparison (Holm 1979)."""
    only_a: int | None
    """Of 0/1 scores: documents that a alone got right; else None, as the next two."""
    only_b: int | None
    p_mcnemar: float | None
    higher_is_better: bool


@dataclass(frozen=True, kw_only=True)
class Refusal(Number):
    """A number that cannot be compared."""

    reason: str


def compare(a: Sequence[Run], b: Sequence[Run]) -> tuple[list[Difference], list[Refusal]]:
    """Every number of a that b has, too, and every one that cannot be compared."""
    differences: list[Difference] = []
    refusals: list[Refusal] = []
    others = {run.record.task: run for run in b}
    for run in a:
        for row in run.record.results:
            found = _difference(run, row, others.get(run.record.task))
            if isinstance(found, Difference):
                differences.append(found)
            else:
                refusals.append(Refusal(**row.place._asdict(), reason=found))
    if differences:
        adjusted = holm([difference.paired.p_value for difference in differences])
        differences = [
            replace(difference, p_holm=float(p))
            for difference, p in zip(differences, adjusted, strict=True)
        ]
    return differences, refusals


def _difference(run: Run, row: ResultRow, other: Run | None) -> Difference | str:
    """Both runs' scores of a number compared, document by document; else why not.

    The p-value is still that of this number alone.
    """
    if other is None:
        return "the other run does not have this task"
    twin = next((result for result in other.record.results if result.place == row.place), None)
    if twin is None:
        return "the other run does not have this number"
    if row.comparability_key != twin.comparability_key:
        return f"not comparable: {_what_differs(run.record, other.record)}"
    if not run.samples or not other.samples:
        return "the samples are not beside the record"
    scores_a, scores_b = _scores(run, row), _scores(other, row)
    if scores_a.keys() != scores_b.keys():
        return f"{len(scores_a.keys() ^ scores_b.keys())} documents are in one run alone"
    if missing := [key for key in scores_a if None in (scores_a[key][0], scores_b[key][0])]:
        return f"{len(missing)} of {len(scores_a)} documents have no score of their own"
    if len(scores_a) < 2:
        return "one document has no spread"
    a = [value for value, _ in scores_a.values()]
    b = [scores_b[key][0] for key in scores_a]
    if not (_is_mean(row, a) and _is_mean(twin, b)):
        return "it is no mean over documents"
    clusters = [cluster for _, cluster in scores_a.values()]
    clustered = None not in clusters and len(set(clusters)) > 1
    paired = paired_difference(a, b, clusters if clustered else None)
    only_a, only_b = sum(map(gt, a, b)), sum(map(lt, a, b))
    binary = all(score in (0.0, 1.0) for score in (*a, *b))
    return Difference(
        **row.place._asdict(),
        n=len(a),
        a=row.value,
        b=twin.value,
        paired=paired,
        p_holm=paired.p_value,
        only_a=only_a if binary else None,
        only_b=only_b if binary else None,
        p_mcnemar=mcnemar(only_a, only_b) if binary else None,
        higher_is_better=row.higher_is_better,
    )


def _scores(run: Run, row: ResultRow) -> dict[tuple[str, int, str], tuple[Any, Any]]:
    """By document (task, row and digest) its score and its cluster."""
    record = run.record
    in_group = row.task in record.groups
    tasks = set(leaves_of(row.task, record.groups)) if in_group else {row.task}
    found = {}
    for sample in run.samples:
        part = not in_group and row.subset and row.task == record.task
        if sample["task"] not in tasks or (part and sample["subset"] != row.subset):
            continue
        for score in sample["scores"]:
            if (score["metric"], score["filter"]) == (row.metric, row.filter):
                key = (sample["task"], sample["doc_id"], sample["doc_digest"])
                cluster = sample["cluster"]
                found[key] = (score["value"], cluster and f"{sample['task']}/{cluster}")
    return found


def _is_mean(row: ResultRow, values: Sequence[float]) -> bool:
    mean = sum(values) / len(values)
    return abs(mean - row.value) <= TOLERANCE * max(1.0, abs(mean))


def _what_differs(a: RunRecord, b: RunRecord) -> str:
    if {a.engine["name"], b.engine["name"]} == {"evalcore", "lm_eval"}:
        return "one is lm-evaluation-harness's: convert the other by `convert --to lm-eval`"
    differences = [
        f"{name} ({_shown(of(a))} and {_shown(of(b))})"
        for name, of in _DECISIVE.items()
        if of(a) != of(b)
    ]
    return ", ".join(differences) or "the metric's arguments, or the documents of this part"


_DECISIVE: Mapping[str, Callable[[RunRecord], Any]] = {
    "engine": lambda record: record.engine["name"],
    "engine version": lambda record: (
        record.engine["version"] if record.engine["scoring_version"] is None else None
    ),
    "scoring version": lambda record: record.engine["scoring_version"],
    "task version": lambda record: record.version,
    "task configuration": lambda record: record.config_digest,
    "documents": lambda record: record.docs_digest,
    "limit": lambda record: record.limit,
    "shots": lambda record: record.shots,
    "rule of the examples": lambda record: record.shot_rule,
    "seed of the examples": lambda record: record.shot_seed,
    "mode": lambda record: record.mode,
    "chat": lambda record: record.chat and (record.chat.get("name"), record.chat.get("multiturn")),
    "arguments of the chat template": lambda record: (record.chat or {}).get("arguments") or None,
    "whether thoughts are cut": lambda record: cuts_thoughts(record.model.get("arguments") or {}),
    "thinking budget": lambda record: (record.model.get("arguments") or {}).get("thinking_budget"),
    "system instruction": lambda record: record.system_instruction,
    "generation arguments": lambda record: record.generation,
    "the model's own generation arguments": lambda record: own_generation_of(
        record.model.get("generation") or {}, record.generation.values(), record.mode
    ),
    "seed of sampled answers": lambda record: record.settings.get("seed"),
}
"""What stands in a comparability key, in the words of a refusal."""


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 24 else f"{text[:12]}…"


def as_json(differences: Sequence[Difference], refusals: Sequence[Refusal]) -> dict[str, Any]:
    numbers = []
    for difference in differences:
        fields = {name: value for name, value in vars(difference).items() if name != "paired"}
        paired = difference.paired
        resolution = paired.q if isfinite(paired.q) else None  # JSON has no infinity
        numbers.append({**fields, **vars(paired), "q": resolution})
    return {"numbers": numbers, "refused": [vars(refusal) for refusal in refusals]}
