"""Scores by question: read from a sample file once, kept packed, loaded as a matrix over models.

Ranges of ranks, paired differences and item analysis come from these, never from sample files.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from math import isclose
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from django.db.models import Exists, OuterRef
from numpy.typing import NDArray

from evalcore.digest import digest_of
from evalcore.record import ResultRow, RunRecord
from evalcore.task.identity.digest import docs_digest
from leaderboard.models import Artifact, QuestionSet, Result, Run, ScoreVector
from leaderboard.models.edition import SITE, changing, note
from leaderboard.samples import store as artifacts
from leaderboard.samples.facts import Numbered
from leaderboard.web import Recent

Weighting = ScoreVector.Weighting
LAYOUTS = 1024
"""Layouts that a process keeps in memory, some ten kilobytes each."""
_layouts: Recent[Layout] = Recent(LAYOUTS)
Packed = tuple[str, str, bytes]
"""A vector as it is stored: the digest of its questions, its weighting, its scores."""
SAME = 1e-9
"""A result within this of the mean of its vector is that mean."""
MOST_SCORES = 2**27
"""Of one run: 1 GB in memory. 600,000 documents with 20 numbers each are a tenth of it."""


class OtherQuestions(ValueError):
    """Results that stand in one column and did not answer what the others did."""

    def __init__(self, results: Sequence[int]) -> None:
        super().__init__(f"results {', '.join(map(str, results))} answer other questions")
        self.results = results
        """Primary keys."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Layout(Numbered):
    """The questions of a run, and what decides how their scores are counted."""

    docs_digest: str
    cluster: NDArray[np.int32] | None
    """Questions with the same number may depend on each other; None where all are on their own."""

    @property
    def strata(self) -> NDArray[np.int32] | None:
        """The fixed parts that its result is pooled over; None for a single task."""
        return self.task if len(self.tasks) > 1 else None


@dataclass(frozen=True, eq=False)
class Vector:
    """One result's scores by question."""

    layout: Layout
    by_part: bool
    """Whether the result is the mean over its parts' means."""
    scores: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Matrix:
    """Scores of several results on the same questions."""

    layout: Layout
    scores: NDArray[np.float32]
    """Shape (results, questions); a row of NaN for a result without a vector."""
    weighting: str
    """`documents` or `parts`, as ScoreVector says."""


@dataclass(frozen=True, eq=False)
class Read:
    """What a sample file holds: its layout, and by metric and filter a packed vector."""

    layout: Layout
    vectors: dict[tuple[str, str], tuple[Weighting, bytes]]


def read(
    samples: Path, own_results: Sequence[ResultRow | Result], *, same_questions: bool = False
) -> Read:
    """The vectors of the results that are about a whole run, from its samples.

    With `same_questions` the run's tasks ask the same ones (in other languages, say), so that a
    question depends on itself over all of them. Raises ValueError for more scores than any run has.
    """
    with pq.ParquetFile(samples) as file:
        rows = file.metadata.num_rows
    if rows * len(own_results) > MOST_SCORES:
        raise ValueError(f"{len(own_results)} numbers over {rows} documents: no run has so many")
    table = pq.read_table(
        samples, columns=["task", "doc_id", "doc_digest", "subset", "cluster", "scores"]
    )
    layout = _layout(table, same_questions=same_questions)
    vectors: dict[tuple[str, str], tuple[Weighting, bytes]] = {}
    wanted = [(result.metric, result.filter) for result in own_results]
    by_metric = _scores_by_metric(table, set(wanted))
    for key, result in zip(wanted, own_results, strict=True):
        values = by_metric.get(key)
        weighting = _weighting(values, result.value, layout)
        packed = b"" if weighting is Weighting.NONE or values is None else pack_values(values)
        vectors[key] = (weighting, packed)
    return Read(layout, vectors)


def scores_in(samples: Path, metric: str, filter: str) -> NDArray[np.float64] | None:
    """Every question's score by one metric, in the order of the file; None where one has none."""
    table = pq.read_table(samples, columns=["scores"])
    return _scores_by_metric(table, {(metric, filter)}).get((metric, filter))


def store(results: Sequence[Result], found: Read) -> None:
    """Insert a vector for each of a run's own results; the caller holds the transaction."""
    questions = questions_row(found.layout)
    ScoreVector.objects.bulk_create(
        ScoreVector(
            result=result,
            questions=None if weighting is Weighting.NONE else questions,
            weighting=weighting,
            values=values,
        )
        for result in results
        for weighting, values in [found.vectors[result.metric, result.filter]]
    )


def questions_row(layout: Layout) -> QuestionSet:
    """The row of these questions, which many runs share."""
    packed = pack_layout(layout)
    digest = digest_of(
        [layout.docs_digest, layout.tasks, layout.parts]
        + [
            None if numbers is None else numbers.tolist()
            for numbers in (layout.task, layout.doc_id, layout.part, layout.cluster)
        ]
    )
    QuestionSet.objects.bulk_create(
        [QuestionSet(digest=digest, docs_digest=layout.docs_digest, n=layout.n, layout=packed)],
        ignore_conflicts=True,
    )
    return QuestionSet.objects.get(digest=digest)


def fill_missing(limit: int = 200) -> int:
    """Read the vectors of finished runs that have none yet; how many runs were looked at.

    Where the sample file is lost, the result counts as one without scores by question.
    """
    without = Result.objects.filter(
        ~Exists(ScoreVector.objects.filter(result=OuterRef("pk"))),
        subset="",
        run__state=Run.State.DONE,
        task_name=OuterRef("task__name"),
        run=OuterRef("pk"),
    )
    samples = Artifact.objects.filter(run=OuterRef("pk"), kind=Artifact.Kind.SAMPLES)
    runs = Run.objects.filter(Exists(without), Exists(samples)).select_related("task")[:limit]
    for run in runs:
        path = artifacts.path_of(run.artifacts.get(kind=Artifact.Kind.SAMPLES).sha256)
        own = list(run.results.filter(subset="", task_name=run.task.name, vector=None))
        found = None
        if path.is_file():
            record = run.artifacts.get(kind=Artifact.Kind.RECORD)
            about = RunRecord.read(artifacts.path_of(record.sha256))
            found = read(path, own, same_questions=asks_the_same_questions(about))
        with changing():
            note("pages", of=[SITE])  # of models and comparisons, which pair by question
            if found is not None:
                store(own, found)
            else:
                ScoreVector.objects.bulk_create(
                    ScoreVector(result=result, weighting=Weighting.NONE) for result in own
                )
    return len(runs)


def asks_the_same_questions(record: RunRecord) -> bool:
    """Whether the tasks of a group ask the same questions, as its file says."""
    return bool(record.groups.get(record.task, {}).get("same_questions"))


def by_result(results: Collection[int]) -> dict[int, Vector]:
    """By primary key the vector of each result that has one, with two queries for all of them.

    For a handful of models on many sets of questions; `matrix` is for many models on one.
    """
    rows = ScoreVector.objects.filter(result_id__in=results, questions__isnull=False)
    found = list(rows.values_list("result_id", "questions__digest", "weighting", "values"))
    layouts = layouts_of(digest for _, digest, _, _ in found)
    return {
        pk: Vector(
            layouts[digest],
            weighting == Weighting.PARTS,
            unpack_values(bytes(values), layouts[digest].n).astype(np.float64),
        )
        for pk, digest, weighting, values in found
    }


def matrix(results: Sequence[int], kept: dict[int, Packed] | None = None) -> Matrix | None:
    """The vectors of results (primary keys) that were asked the same questions.

    `kept`, from one call to the next, spares reading those of the last results once more. None
    where none of them has a vector. Raises OtherQuestions where some were not.
    """
    before = {} if kept is None else {pk: kept[pk] for pk in results if pk in kept}
    new = [pk for pk in results if pk not in before] if before else results
    rows = ScoreVector.objects.filter(result_id__in=new, questions__isnull=False)
    found = before | {
        pk: (questions, weighting, bytes(values))
        for pk, questions, weighting, values in rows.values_list(
            "result_id", "questions__digest", "weighting", "values"
        )
    }
    if kept is not None:
        kept.clear()
        kept.update(found)
    if not found:
        return None
    layouts = layouts_of(digest for digest, _, _ in found.values())
    if len({layout.docs_digest for layout in layouts.values()}) > 1:
        asked = {pk: layouts[digest].docs_digest for pk, (digest, _, _) in found.items()}
        raise OtherQuestions(_not_asked_as_others(asked))
    # Of equal questions, layouts may differ in their parts: that of most, and of as many the first.
    usual = Counter(found[pk][0] for pk in results if pk in found).most_common(1)[0][0]
    layout = layouts[usual]
    scores = np.full((len(results), layout.n), np.nan, dtype=np.float32)
    for place, pk in enumerate(results):
        if pk in found:
            values = unpack_values(found[pk][2], layout.n)
            if len(values) != layout.n:
                raise OtherQuestions([pk])
            scores[place] = values
    weighting = next(found[pk][1] for pk in results if pk in found)
    return Matrix(layout, scores, weighting)


def _not_asked_as_others(asked: Mapping[int, str]) -> list[int]:
    """By primary key the digest of its questions: those at fault.

    Whose sample file has others than its record says; where each has what it says, the fewer, and
    of as many the later ones.
    """
    runs = Result.objects.filter(pk__in=asked).values_list("pk", "run__docs_digest")
    told = dict(runs)
    false = [pk for pk, digest in sorted(asked.items()) if told.get(pk) != digest]
    if false and len(false) < len(asked):
        return false
    counts = Counter(digest for _, digest in sorted(asked.items()))
    usual = counts.most_common(1)[0][0]
    return [pk for pk, digest in sorted(asked.items()) if digest != usual]


def layouts_of(digests: Iterable[str]) -> dict[str, Layout]:
    """Several layouts by digest, those that are not in memory with one query."""
    wanted = set(digests)
    found = {digest: layout for digest in wanted if (layout := _layouts.get(digest))}
    for row in QuestionSet.objects.filter(digest__in=wanted - found.keys()):
        layout = unpack_layout(bytes(row.layout), row.docs_digest)
        found[row.digest] = _layouts.put(row.digest, layout)
    return found


def pack_values(values: NDArray[Any]) -> bytes:
    """Scores as bytes: a bit each where all are 0 or 1, else four bytes each."""
    if np.isin(values, (0.0, 1.0)).all():
        return np.packbits(values.astype(np.uint8)).tobytes()
    return values.astype("<f4").tobytes()


def unpack_values(packed: bytes, n: int) -> NDArray[np.float32]:
    """The n scores that `pack_values` packed."""
    if len(packed) == (n + 7) // 8:
        return np.unpackbits(np.frombuffer(packed, np.uint8), count=n).astype(np.float32)
    return np.frombuffer(packed, "<f4").astype(np.float32)


def pack_layout(layout: Layout) -> bytes:
    """The layout as a file of numpy's; its docs_digest is kept beside it."""
    file = BytesIO()
    arrays: dict[str, Any] = {
        "tasks": _packed_names(layout.tasks),
        "task": layout.task,
        "doc_id": layout.doc_id,
        "parts": _packed_names(layout.parts),
        "part": layout.part,
    }
    if layout.cluster is not None:
        arrays["cluster"] = layout.cluster
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def _packed_names(names: Sequence[str]) -> NDArray[np.uint8]:
    # As an array of texts, each would take the room of the longest.
    return np.frombuffer(json.dumps(names).encode(), np.uint8)


def _unpacked_names(packed: NDArray[Any]) -> tuple[str, ...]:
    """Rows of before hold an array of texts."""
    if packed.dtype == np.uint8:
        return tuple(json.loads(packed.tobytes()))
    return tuple(packed.tolist())


def unpack_layout(packed: bytes, docs_digest: str) -> Layout:
    with np.load(BytesIO(packed), allow_pickle=False) as arrays:
        return Layout(
            docs_digest=docs_digest,
            tasks=_unpacked_names(arrays["tasks"]),
            task=arrays["task"],
            doc_id=arrays["doc_id"],
            parts=_unpacked_names(arrays["parts"]),
            part=arrays["part"],
            cluster=arrays.get("cluster"),
        )


def _layout(table: Any, *, same_questions: bool) -> Layout:
    columns = {name: table[name].to_pylist() for name in ("task", "doc_id", "subset", "cluster")}
    tasks, task = _numbered(columns["task"])
    subsets = columns["subset"]
    names = [subset or of for subset, of in zip(subsets, columns["task"], strict=True)]
    parts, part = _numbered(names)
    cluster = None
    if same_questions and len(tasks) > 1:
        cluster = _numbered(_over_tasks(columns))[1]
    elif any(label is not None for label in columns["cluster"]):
        # A label counts within its task only.
        _, cluster = _numbered(list(zip(columns["task"], columns["cluster"], strict=True)))
    return Layout(
        docs_digest=docs_digest(table["doc_digest"].to_pylist()),
        tasks=tasks,
        task=task,
        doc_id=table["doc_id"].to_numpy().astype(np.int32),
        parts=parts,
        part=part,
        cluster=cluster,
    )


def _over_tasks(columns: dict[str, list[Any]]) -> list[Any]:
    """A label for each row that is the same for the same question in every task.

    That of its cluster where all tasks name theirs alike; else the cluster's place among those of
    its task, as where passages are translated; without clusters the row.
    """
    of_task: dict[str, dict[Any, int]] = {}
    for task, label in zip(columns["task"], columns["cluster"], strict=True):
        places = of_task.setdefault(task, {})
        places.setdefault(label, len(places))
    if any(None in places for places in of_task.values()):
        return columns["doc_id"]
    if len({frozenset(places) for places in of_task.values()}) == 1:
        return columns["cluster"]
    return [
        of_task[task][label]
        for task, label in zip(columns["task"], columns["cluster"], strict=True)
    ]


def _numbered(labels: Sequence[Any]) -> tuple[tuple[Any, ...], NDArray[np.int32]]:
    """The distinct labels in order of appearance, and the place of each label among them."""
    places: dict[Any, int] = {}
    numbers = [places.setdefault(label, len(places)) for label in labels]
    return tuple(places), np.array(numbers, dtype=np.int32)


def _scores_by_metric(
    table: Any, wanted: Container[tuple[str, str]]
) -> dict[tuple[str, str], NDArray[np.float64]]:
    """By metric and filter, of those `wanted`, the score of each row, where every row has one."""
    column = table["scores"].combine_chunks()
    row = pc.list_parent_indices(column).to_numpy()
    flat = column.flatten()
    metrics, filters = (flat.field(name).to_pylist() for name in ("metric", "filter"))
    values = flat.field("value").to_numpy(zero_copy_only=False)
    by_metric: dict[tuple[str, str], NDArray[np.float64]] = {}
    for key, at, value in zip(zip(metrics, filters, strict=True), row, values, strict=True):
        if key not in by_metric:
            if key not in wanted:
                continue
            by_metric[key] = np.full(len(table), np.nan)
        by_metric[key][at] = value
    return {key: scores for key, scores in by_metric.items() if np.isfinite(scores).all()}


def _weighting(values: NDArray[Any] | None, value: float, layout: Layout) -> Weighting:
    if values is None:
        return Weighting.NONE
    if isclose(values.mean(), value, abs_tol=SAME):
        return Weighting.DOCUMENTS
    sizes = np.bincount(layout.task)
    means = np.bincount(layout.task, weights=values) / sizes
    if isclose(means.mean(), value, abs_tol=SAME):
        return Weighting.PARTS
    return Weighting.NONE
