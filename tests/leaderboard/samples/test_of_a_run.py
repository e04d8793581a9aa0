"""What is kept of a run's file: its scores by question, and what it took on which machine."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from evalcore.record import RunRecord, write_samples
from leaderboard.models import (
    Artifact,
    Edition,
    QuestionSet,
    Result,
    Run,
    RunCost,
    ScoreVector,
    Suite,
    Worker,
)
from leaderboard.samples import costs, vectors
from leaderboard.samples import store as artifacts
from tests.leaderboard import factories as make

SKILL = {"cloze": 0.7, "mmlu": 0.5, "hybrid": 0.6}


@pytest.fixture
def measured(db: None) -> Suite:
    suite = make.make_suite(benchmarks=("facts",))
    make.evaluated("lab/one", suite, SKILL, n=30)
    make.evaluated("lab/two", suite, SKILL, n=30)
    return suite


def own_results(run: Run) -> list[Result]:
    return list(run.results.filter(task_name=run.task.name, subset=""))


def test_every_own_result_has_its_scores_by_question_and_runs_share_their_layout(
    measured: Suite,
) -> None:
    for run in Run.objects.all():
        samples = make.samples_of(run)
        for result in own_results(run):
            found = vectors.matrix([result.pk])
            assert found.scores[0].tolist() == [sample["correct"] for sample in samples]
            assert found.layout.doc_id.tolist() == [sample["doc_id"] for sample in samples]
            assert found.layout.docs_digest == run.docs_digest
    assert QuestionSet.objects.count() == 3, "one for each task name"
    assert QuestionSet.objects.values("docs_digest").distinct().count() == 1
    digests = QuestionSet.objects.values_list("digest", flat=True)
    layouts = list(vectors.layouts_of(digests).values())
    for layout in layouts:
        assert layout.parts == make.PARTS
        assert layout.part.tolist() == [number % 3 for number in range(30)]
        assert layout.cluster is None


def test_a_matrix_has_a_row_for_each_result_on_the_same_questions(measured: Suite) -> None:
    first, second = Result.objects.filter(task_name="facts", metric="acc", subset="")
    ScoreVector.objects.filter(result=second).delete()
    found = vectors.matrix([second.pk, first.pk])
    assert np.isnan(found.scores[0]).all()
    assert found.scores[1].mean() == pytest.approx(first.value)
    assert vectors.matrix([second.pk]) is None
    fewer = make.make_suite("other", benchmarks=("facts",), styles=("cloze",), version="2.0")
    fewer.entries.update(run_key="another")
    make.evaluated("lab/three", fewer, SKILL, n=20)
    results = Result.objects.filter(task_name="facts", metric="acc", subset="")
    with pytest.raises(vectors.OtherQuestions):
        vectors.matrix([result.pk for result in results])


def test_a_result_that_is_no_mean_over_questions_is_kept_as_such(measured: Suite) -> None:
    run = Run.objects.filter(task__name="facts")[0]
    result = own_results(run)[0]
    result.value = result.value / 2
    found = vectors.read(make.samples_path(run), [result])
    assert found.vectors[result.metric, result.filter] == (ScoreVector.Weighting.NONE, b"")


def test_runs_of_an_earlier_version_get_their_vectors_from_their_files(measured: Suite) -> None:
    before = dict(ScoreVector.objects.values_list("result_id", "values"))
    ScoreVector.objects.all().delete()
    lost = Run.objects.all()[0]
    make.samples_path(lost).unlink()
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


def sample(task: str, doc_id: int, cluster: str | None) -> dict[str, object]:
    score = {"metric": "acc", "filter": "none", "value": 1.0}
    digest = f"{task}{doc_id}"
    return {
        "task": task, "doc_id": doc_id, "doc_digest": digest, "cluster": cluster, "scores": [score]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("english", "french", "apart", "together"),
    [
        ([None] * 3, [None] * 3, None, [0, 1, 2, 0, 1, 2]),
        (["a", "a", "b"], ["a", "a", "b"], [0, 0, 1, 2, 2, 3], [0, 0, 1, 0, 0, 1]),
        (["day", "night", "day"], ["jour", "nuit", "jour"], [0, 1, 0, 2, 3, 2], [0, 1, 0, 0, 1, 0]),
    ],
    ids=["none", "the same labels", "translated labels"],
)
def test_tasks_that_ask_the_same_questions_share_their_clusters(
    tmp_path: Path, english: Any, french: Any, apart: list[int] | None, together: list[int]
) -> None:
    path = tmp_path / "samples.parquet"
    labels = {"english": english, "french": french}
    rows = [sample(task, n, x) for task, found in labels.items() for n, x in enumerate(found)]
    write_samples(path, rows)
    alone = vectors.read(path, []).layout
    assert (alone.cluster if alone.cluster is None else alone.cluster.tolist()) == apart
    same = vectors.read(path, [], same_questions=True).layout
    assert same.cluster.tolist() == together


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


GPU = "1 x Workshop G1"
RAPL = {"source": "RAPL", "part": "package-0", "joules": 30.0}
NVML = {"source": "NVML", "part": "Workshop G1, 0", "joules": 90.0}


@pytest.fixture
def suite(db: None) -> Suite:
    return make.make_suite(benchmarks=("facts",), styles=("mmlu",))


def finished(suite: Suite, name: str = "lab/one", **record: Any) -> Run:
    variant = make.make_variant(name)
    run = make.make_submission(variant, suite).runs.get()
    return make.finish(run, n=30, record=record)


def environment(**more: str) -> dict[str, Any]:
    return {"environment": {"device": "cuda:0", **more}}


def test_tokens_are_those_of_every_request_read_and_written(suite: Suite) -> None:
    run = finished(suite)
    expected = sum(
        response["n_context_tokens"] + len(response["token_ids"])
        for sample in make.samples_of(run)
        for response in sample["responses"]
    )
    assert (run.cost.questions, run.cost.tokens) == (30, expected)


@pytest.mark.parametrize(
    ("broken", "counted"),
    [
        ({"n_context_tokens": None}, False),
        ({"n_context_tokens": 0}, False),
        ({"token_ids": []}, False),
        ({"kind": "generate_until", "text": "seven", "token_ids": []}, False),
        ({"kind": "generate_until", "text": "", "token_ids": []}, True),
        ({"kind": "generate_until", "text": "seven", "token_ids": [3, 4]}, True),
    ],
)
def test_where_one_request_does_not_say_there_is_no_sum(
    suite: Suite, tmp_path: Path, broken: dict[str, Any], counted: bool
) -> None:
    samples = make.samples_of(finished(suite))
    samples[7]["responses"][1] |= broken
    write_samples(tmp_path / "samples.parquet", samples)
    assert (costs.tokens_in(tmp_path / "samples.parquet") is not None) is counted


def test_seconds_and_energy_are_those_in_which_the_model_answered(suite: Suite) -> None:
    run = finished(
        suite,
        seconds=70.0,
        timing={"prompts": 5.0, "answers": 60.0, "load": 40.0},
        energy=[RAPL, NVML],
        **environment(hardware=GPU),
    )
    cost = run.cost
    assert (cost.seconds, cost.joules) == (60.0, 120.0)
    assert (cost.hardware, cost.counters) == (GPU, "GPU + processor")


def test_on_an_unknown_machine_or_by_an_earlier_process_there_are_tokens_alone(
    suite: Suite,
) -> None:
    run = finished(suite, timing={"answers": 60.0}, energy=[NVML], **environment())
    assert run.worker is None or run.worker.device == "cpu"
    assert run.cost.tokens
    assert (run.cost.seconds, run.cost.joules, run.cost.hardware) == (None, None, "")
    asked = {"total": 120, "journalled": 3, "truncated": 0}
    known = {"timing": {"answers": 60.0}, "energy": [NVML], **environment(hardware=GPU)}
    run = finished(suite, "lab/two", requests=asked, **known)
    assert run.cost.tokens
    assert (run.cost.seconds, run.cost.joules) == (None, None)


@pytest.mark.parametrize("told", [-1.0, 0.0, "60", None])
def test_what_is_no_time_is_none_and_loses_no_evaluation(suite: Suite, told: Any) -> None:
    run = finished(suite, timing={"answers": told}, **environment(hardware=GPU))
    assert run.state == Run.State.DONE
    assert run.cost.seconds is None


def test_a_backend_of_its_own_is_another_kind_of_machine(suite: Suite) -> None:
    run = finished(suite, timing={"answers": 60.0}, **environment(hardware=GPU))
    record = RunRecord.read(artifacts.path_of(run.artifacts.get(kind=Artifact.Kind.RECORD).sha256))
    record.model["computed_by"] = {"name": "vllm", "version": "1"}
    assert costs.read(run, record, None).hardware == f"{GPU}, vllm"


def test_runs_of_an_earlier_version_get_theirs_from_their_files(suite: Suite) -> None:
    kept = finished(suite, timing={"answers": 60.0}, **environment(hardware=GPU)).cost
    lost = finished(suite, "lab/two")
    RunCost.objects.all().delete()
    make.samples_path(lost).unlink(missing_ok=True)
    before = Edition.objects.get(of=suite.pk).data
    assert costs.fill_missing(limit=1) == 1
    assert Edition.objects.get(of=suite.pk).data == before, "boards wait for the last one"
    assert costs.fill_missing() == 1
    assert costs.fill_missing() == 0
    again = RunCost.objects.get(run=kept.run_id)
    assert (again.seconds, again.hardware) == (60.0, GPU)
    assert Edition.objects.get(of=suite.pk).data > before, "so that boards are built anew"


def test_no_run_ends_a_workers_count_of_its_tokens(measured: Suite) -> None:
    most = 2**63 - 1
    Worker.objects.update(tokens=most - 5)
    make.evaluated("lab/three", measured, SKILL, n=30)
    assert set(Worker.objects.values_list("tokens", flat=True)) == {most}
    run = Run.objects.filter(variant__hub_model__repo_id="lab/three").earliest("pk")
    assert run.state == "done"
    assert run.cost.tokens > 5


def without_choices(samples: Path) -> pa.Table:
    return pq.read_table(samples).drop_columns(["choices"])


def documents(text: str | None) -> Callable[[Path], pa.Table]:
    def change(samples: Path) -> pa.Table:
        table = pq.read_table(samples)
        at = table.schema.get_field_index("doc")
        return table.set_column(at, "doc", pa.array([text] * len(table), pa.string()))

    return change


@pytest.mark.parametrize(
    "change",
    [
        without_choices,
        documents(None),
        documents("{'question'"),
        documents("[" * 100_000),
        documents('{"question": ' + "9" * 5_000 + "}"),
        documents("[1, 2]"),
    ],
    ids=["no choices", "null", "no JSON", "deep", "digits", "a list"],
)
def test_pages_survive_a_file_from_before_all_were_checked(
    measured: Suite, client: Client, change: Callable[[Path], pa.Table]
) -> None:
    make.publish(measured)
    run = Run.objects.filter(task__name="facts").latest("finished")
    path = make.samples_path(run)
    changed = change(path)
    path.chmod(0o644)
    pq.write_table(changed, path)
    pages = [
        run.get_absolute_url(),
        f"{run.get_absolute_url()}?doc=3",
        f"{run.get_absolute_url()}?q=tool&page=2",
        run.task.get_absolute_url(),
        "/compare?models=lab/one,lab/two",
        "/compare?models=lab/one,lab/two&benchmark=facts&doc=3",
    ]
    found = {page: client.get(page, follow=True) for page in pages}
    assert {page: answer.status_code for page, answer in found.items()} == dict.fromkeys(pages, 200)
