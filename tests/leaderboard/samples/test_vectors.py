"""Scores by question: kept with each result, packed, and read back in the order of the file."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from evalcore.record import read_samples, write_samples
from leaderboard.models import Artifact, QuestionSet, Result, Run, ScoreVector, Suite
from leaderboard.samples import store as artifacts
from leaderboard.samples import vectors
from tests.leaderboard import factories as make

SKILL = {"cloze": 0.7, "mmlu": 0.5, "hybrid": 0.6}


@pytest.fixture
def suite(db: None) -> Suite:
    suite = make.make_suite(benchmarks=("facts",))
    make.evaluated("lab/one", suite, SKILL, n=30)
    make.evaluated("lab/two", suite, SKILL, n=30)
    return suite


def own_results(run: Run) -> list[Result]:
    return list(run.results.filter(task_name=run.task.name, subset=""))


def test_every_own_result_has_its_scores_by_question(suite: Suite) -> None:
    for run in Run.objects.all():
        file = run.artifacts.get(kind=Artifact.Kind.SAMPLES)
        samples = list(read_samples(artifacts.path_of(file.sha256)))
        for result in own_results(run):
            found = vectors.matrix([result.pk])
            assert found is not None
            assert found.scores[0].tolist() == [sample["correct"] for sample in samples]
            assert found.layout.doc_id.tolist() == [sample["doc_id"] for sample in samples]
            assert found.layout.docs_digest == run.docs_digest


def test_runs_on_the_same_questions_share_their_layout(suite: Suite) -> None:
    assert QuestionSet.objects.count() == 3, "one for each task name"
    assert QuestionSet.objects.values("docs_digest").distinct().count() == 1
    digests = QuestionSet.objects.values_list("digest", flat=True)
    layouts = list(vectors.layouts_of(digests).values())
    for layout in layouts:
        assert layout.parts == make.PARTS
        assert layout.part.tolist() == [number % 3 for number in range(30)]
        assert layout.cluster is None


def test_a_matrix_has_a_row_for_each_result_and_none_for_one_without_scores(suite: Suite) -> None:
    first, second = Result.objects.filter(task_name="facts", metric="acc", subset="")
    ScoreVector.objects.filter(result=second).delete()
    found = vectors.matrix([second.pk, first.pk])
    assert found is not None
    assert np.isnan(found.scores[0]).all()
    assert found.scores[1].mean() == pytest.approx(first.value)
    assert vectors.matrix([second.pk]) is None


def test_results_on_different_questions_are_no_matrix(suite: Suite) -> None:
    fewer = make.make_suite("other", benchmarks=("facts",), styles=("cloze",), version="2.0")
    fewer.entries.update(run_key="another")
    make.evaluated("lab/three", fewer, SKILL, n=20)
    results = Result.objects.filter(task_name="facts", metric="acc", subset="")
    with pytest.raises(ValueError, match="2 different sets of questions"):
        vectors.matrix([result.pk for result in results])


def test_a_result_that_is_no_mean_over_questions_is_kept_as_such(suite: Suite) -> None:
    run = Run.objects.filter(task__name="facts").first()
    assert run is not None
    file = run.artifacts.get(kind=Artifact.Kind.SAMPLES)
    result = own_results(run)[0]
    result.value = result.value / 2
    found = vectors.read(artifacts.path_of(file.sha256), [result])
    assert found.vectors[result.metric, result.filter] == (ScoreVector.Weighting.NONE, b"")


def test_runs_of_an_earlier_version_get_their_vectors_from_their_files(suite: Suite) -> None:
    before = dict(ScoreVector.objects.values_list("result_id", "values"))
    ScoreVector.objects.all().delete()
    lost = Run.objects.first()
    assert lost is not None
    artifacts.path_of(lost.artifacts.get(kind=Artifact.Kind.SAMPLES).sha256).unlink()
    assert vectors.fill_missing() == 6
    assert vectors.fill_missing() == 0
    without = {result.pk for result in own_results(lost)}
    for pk, values in ScoreVector.objects.values_list("result_id", "values"):
        assert bytes(values) == (b"" if pk in without else bytes(before[pk]))


@given(arrays(np.float32, st.integers(1, 50), elements=st.floats(0, 1, width=32)))
def test_what_is_packed_is_read_back(values: np.ndarray) -> None:
    assert vectors.unpack_values(vectors.pack_values(values), len(values)).tolist() == (
        values.tolist()
    )


@given(arrays(np.float32, st.integers(1, 50), elements=st.sampled_from([0.0, 1.0])))
def test_right_and_wrong_take_a_bit_each(values: np.ndarray) -> None:
    packed = vectors.pack_values(values)
    assert len(packed) == (len(values) + 7) // 8
    assert vectors.unpack_values(packed, len(values)).tolist() == values.tolist()


def sample(task: str, doc_id: int, cluster: str | None) -> dict[str, object]:
    score = {"metric": "acc", "filter": "none", "value": 1.0}
    digest = f"{task}{doc_id}"
    return {
        "task": task, "doc_id": doc_id, "doc_digest": digest, "cluster": cluster, "scores": [score]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("clusters", "apart", "together"),
    [
        ([None, None, None], None, [0, 1, 2, 0, 1, 2]),
        (["a", "a", "b"], [0, 0, 1, 2, 2, 3], [0, 0, 1, 0, 0, 1]),
    ],
)
def test_tasks_that_ask_the_same_questions_share_their_clusters(
    tmp_path: Path, clusters: list[str | None], apart: list[int] | None, together: list[int]
) -> None:
    path = tmp_path / "samples.parquet"
    languages = ("english", "french")
    write_samples(
        path, [sample(task, n, label) for task in languages for n, label in enumerate(clusters)]
    )
    alone = vectors.read(path, []).layout
    assert (alone.cluster if alone.cluster is None else alone.cluster.tolist()) == apart
    same = vectors.read(path, [], same_questions=True).layout
    assert same.cluster is not None
    assert same.cluster.tolist() == together


def test_translated_labels_are_matched_by_their_order(tmp_path: Path) -> None:
    path = tmp_path / "samples.parquet"
    labels = {"english": ["day", "night", "day"], "french": ["jour", "nuit", "jour"]}
    rows = [sample(task, n, x) for task, found in labels.items() for n, x in enumerate(found)]
    write_samples(path, rows)
    same = vectors.read(path, [], same_questions=True).layout
    assert same.cluster is not None
    assert same.cluster.tolist() == [0, 1, 0, 0, 1, 0]


def test_scores_that_no_number_is_about_take_no_memory(tmp_path: Path) -> None:
    """A hostile file may name a metric of its own for each document."""
    file = tmp_path / "samples.parquet"
    score = {"filter": "none", "value": 0.5}
    rows = (sample("arc", n, None) for n in range(3000))
    write_samples(
        file, ({**row, "scores": [{"metric": f"m{n}", **score}]} for n, row in enumerate(rows))
    )
    tracemalloc.start()
    try:
        vectors.read(
            file, [Result(metric=name, filter="none", value=0.5) for name in ("acc", "m7")]
        )
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_more_numbers_than_a_run_has_are_refused(tmp_path: Path, monkeypatch: Any) -> None:
    file = tmp_path / "samples.parquet"
    write_samples(file, [sample("arc", n, None) for n in range(20)])
    accuracy = Result(metric="acc", filter="none", value=1.0)
    monkeypatch.setattr(vectors, "MOST_SCORES", 40)
    vectors.read(file, [accuracy] * 2)
    with pytest.raises(ValueError, match="3 numbers over 20 documents"):
        vectors.read(file, [accuracy] * 3)
