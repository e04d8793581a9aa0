"""Copies and parts of a model whose processes a signal ends, and those that a launcher starts."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from evalcore.cli import main
from evalcore.errors import InfraError
from evalcore.model.parallel.replicas import Replicas, replicas_of
from tests.evalcore.model.asking import answers_to, written_in
from tests.evalcore.model.parallel.test_replicas import (
    check_equal,
    loading_of,
    requests,
)
from tests.hub import ROOT, client_environment

SECONDS_TO_END = 300.0


def test_a_copy_that_is_killed_is_named_and_the_others_end_with_who_asked(folder):
    model = replicas_of(loading_of(folder), ["cpu", "cpu"])
    first, second = (replica.members[0].process for replica in model._replicas)
    assert first is not None
    assert second is not None
    second.send_signal(signal.SIGKILL)
    with pytest.raises(
        InfraError, match=r"copy 2 of 2 of the model, on cpu, ended by signal 9.*--use_cache"
    ):
        answers_to(model, model.encode(requests(40)))
    for replica in model._replicas:
        replica.members[0].connection.close()  # as the system does for a process that is killed
    assert first.wait(SECONDS_TO_END) == 0


@pytest.fixture(scope="module")
def divided(folder) -> Replicas:
    return replicas_of(loading_of(folder, tp_plan="auto"), ["cpu", "cpu"])


def test_a_divided_model_says_what_the_whole_one_says(divided, one):
    assert divided.info.model_key == one.info.model_key
    assert divided.info.parameters == one.info.parameters
    encoded = divided.encode(requests(120))
    check_equal(answers_to(divided, encoded), answers_to(one, encoded))
    # Who stops reading finds both processes in step again.
    for _ in divided.answer(encoded):
        break
    check_equal(answers_to(divided, encoded[::-1]), answers_to(one, encoded[::-1]))


def test_a_part_that_is_killed_ends_the_model(divided):
    second = divided._replicas[0].members[1].process
    assert second is not None
    second.send_signal(signal.SIGKILL)
    with pytest.raises(InfraError, match="part 2 of 2 of the model, on cpu, ended by signal 9"):
        answers_to(divided, divided.encode(requests(8)))


def test_two_processes_of_a_launcher_write_once_what_one_process_writes(folder, toys, tmp_path):
    """Started anew: what a launcher says stands in the environment."""
    command = [
        *("run", "--model_args", f"pretrained={folder},dtype=float32", "--device", "cpu"),
        *("--tasks", "toy_choice", "--include_path", str(toys), "--bootstrap_iters", "0"),
    ]
    assert main([*command, "--output_path", str(tmp_path / "alone")]) == 0
    together = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc_per_node", "2", "-m", "evalcore", *command),
            *("--output_path", str(tmp_path / "together")),
        ],
        cwd=ROOT,
        env=client_environment("http://127.0.0.1:9", tmp_path),
        capture_output=True,
        text=True,
    )
    assert together.returncode == 0, together.stderr
    record, samples = written_in(tmp_path / "together")
    expected, expected_samples = written_in(tmp_path / "alone")
    assert record.run_key == expected.run_key
    assert record.model["model_key"] == expected.model["model_key"]
    assert record.results == expected.results
    assert record.execution["loglikelihood"]["copies"] in (1, 2)
    assert record.model["device"] == "cpu, cpu"
    for sample, same in zip(samples, expected_samples, strict=True):
        for ours, theirs in zip(sample["responses"], same["responses"], strict=True):
            assert ours["key"] == theirs["key"]
            assert ours["loglikelihood"] == pytest.approx(theirs["loglikelihood"], abs=1e-4)
