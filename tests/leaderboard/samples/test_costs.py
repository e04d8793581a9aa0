"""What a run took: counted from its files, once, and with the kind of machine it is of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evalcore.record import RunRecord, read_samples, write_samples
from leaderboard.models import Artifact, Edition, Run, RunCost, Suite
from leaderboard.samples import costs
from leaderboard.samples import store as artifacts
from tests.leaderboard import factories as make

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
    file = run.artifacts.get(kind=Artifact.Kind.SAMPLES)
    expected = sum(
        response["n_context_tokens"] + len(response["token_ids"])
        for sample in read_samples(artifacts.path_of(file.sha256))
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
    file = finished(suite).artifacts.get(kind=Artifact.Kind.SAMPLES)
    samples = list(read_samples(artifacts.path_of(file.sha256)))
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


def test_on_a_machine_that_nobody_knows_there_are_tokens_alone(suite: Suite) -> None:
    run = finished(suite, timing={"answers": 60.0}, energy=[NVML], **environment())
    assert run.worker is None or run.worker.device == "cpu"
    assert run.cost.tokens
    assert (run.cost.seconds, run.cost.joules, run.cost.hardware) == (None, None, "")


def test_answers_of_an_earlier_process_have_no_time(suite: Suite) -> None:
    asked = {"total": 120, "journalled": 3, "truncated": 0}
    run = finished(
        suite, timing={"answers": 60.0}, requests=asked, energy=[NVML], **environment(hardware=GPU)
    )
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
    artifacts.path_of(lost.artifacts.get(kind=Artifact.Kind.SAMPLES).sha256).unlink(missing_ok=True)
    before = Edition.objects.get(of=suite.pk).data
    assert costs.fill_missing(limit=1) == 1
    assert Edition.objects.get(of=suite.pk).data == before, "boards wait for the last one"
    assert costs.fill_missing() == 1
    assert costs.fill_missing() == 0
    again = RunCost.objects.get(run=kept.run_id)
    assert (again.seconds, again.hardware) == (60.0, GPU)
    assert Edition.objects.get(of=suite.pk).data > before, "so that boards are built anew"


def test_of_runs_of_before_only_gpus_are_known(suite: Suite) -> None:
    run = finished(suite, timing={"answers": 60.0}, **environment())
    record = RunRecord.read(artifacts.path_of(run.artifacts.get(kind=Artifact.Kind.RECORD).sha256))
    run.worker = make.make_worker()
    for device, hardware in (("cpu, 8 cores", ""), ("2 x NVIDIA L4", "2 x NVIDIA L4")):
        run.worker.device = device
        assert costs.read(run, record, None).hardware == hardware
