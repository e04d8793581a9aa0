"""How a command asks for copies of a model: by an option, or by a launcher that starts it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from evalcore.cli import main
from evalcore.errors import ModelError
from evalcore.model.parallel.launch import Launched, copies_wanted, devices_of, launched
from evalcore.record import RunRecord, read_samples
from tests import tiny
from tests.evalcore.toys import write_toys
from tests.hub import ROOT, client_environment

LAUNCHER = ("torch.distributed.run", "--standalone", "--nproc_per_node", "2", "-m")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.make(tmp_path_factory.mktemp("model") / "llama", positions=1024)


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    return write_toys(tmp_path_factory.mktemp("toys") / "toys")


def run(folder, toys, out, *more, launcher=()):
    """Started anew: what a launcher says stands in the environment."""
    return subprocess.run(
        [
            sys.executable, "-m", *launcher, "evalcore", "run", "--model_args",
            f"pretrained={folder},dtype=float32", "--device", "cpu", "--tasks", "toy_choice",
            "--include_path", str(toys), "--bootstrap_iters", "0", "--output_path", str(out), *more,
        ],
        cwd=ROOT, env=client_environment("http://127.0.0.1:9", out), capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip


def written_in(out):
    (record,) = out.glob("*/record_*.json")
    (samples,) = out.glob("*/samples_*.parquet")
    return RunRecord.read(record), list(read_samples(samples))


def test_two_processes_of_a_launcher_write_once_what_one_process_writes(folder, toys, tmp_path):
    alone = run(folder, toys, tmp_path / "alone")
    assert alone.returncode == 0, alone.stderr
    together = run(folder, toys, tmp_path / "together", launcher=LAUNCHER)
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


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--data_parallel", "2"], "--data_parallel 2: this machine has no GPU"),
        (["--data_parallel", "0"], "--data_parallel: expected a count from 1, or auto, got '0'"),
        (
            ["--data_parallel", "2", "--device", "cuda:1"],
            "--device cuda:1: --data_parallel puts each copy on a device of its own",
        ),
        (
            ["--data_parallel", "2", "--device", "cpu", "--model", "dummy"],
            "--model dummy is not divided among processes",
        ),
        (
            ["--data_parallel", "2", "--device", "cpu", "--max_cost", "5", "--prices", "p.yaml"],
            "a model that is run here has no price",
        ),
        (
            ["--data_parallel", "2", "--device", "cpu", "--model_args", "parallelize=True"],
            "parallelize=True spreads a model over all GPUs",
        ),
        (
            ["--model", "vllm", "--model_args", "data_parallel_size=2"],
            "--data_parallel 2: this machine has no GPU",
        ),
        (
            ["--model", "vllm", "--model_args", "data_parallel_size=two"],
            "data_parallel_size: expected a whole number from 1, got 'two'",
        ),
        (
            ["--model", "vllm", "--model_args", "data_parallel_size=2", "--data_parallel", "3"],
            "--data_parallel 3 and data_parallel_size=2 say how many copies there are to be",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_copies_that_cannot_be_are_refused_in_one_sentence(given, said, folder, toys, capsys):
    stated = ["--model_args", f"pretrained={folder}", "--include_path", str(toys)]
    assert main(["run", *stated, "--tasks", "toy_choice", *given]) in (2, 10)
    assert said in capsys.readouterr().err


def test_one_copy_is_the_model_as_it_is(folder, toys, tmp_path):
    """On any machine, as by default."""
    stated = ["--model_args", f"pretrained={folder},dtype=float32", "--include_path", str(toys)]
    told = [*stated, "--tasks", "toy_choice", "--output_path", str(tmp_path)]
    assert main(["run", *told, "--data_parallel", "1"]) == 0
    record, _ = written_in(tmp_path)
    assert "copies" not in record.execution["loglikelihood"]


def test_each_copy_has_a_gpu_of_its_own():
    assert devices_of("auto", None, 3) == ["cuda:0", "cuda:1", "cuda:2"]
    assert devices_of(2, None, 3) == ["cuda:0", "cuda:1"]
    assert devices_of("auto", None, 0) == ["cpu"]
    with pytest.raises(ModelError, match="--data_parallel 4: this machine has 3 GPUs"):
        devices_of(4, None, 3)
    cores = os.cpu_count() or 1
    with pytest.raises(ModelError, match=f"has {cores} processor cores"):
        devices_of(cores + 1, "cpu", 0)


def test_a_launchers_processes_are_the_copies():
    assert copies_wanted(None, None) is None
    assert copies_wanted("auto", None) == "auto"
    assert copies_wanted(None, Launched(0, 2, 2)) == 2
    with pytest.raises(ModelError, match="the launcher has started 2 processes"):
        copies_wanted(3, Launched(0, 2, 2))
    with pytest.raises(ModelError, match="4 processes, 2 of them on this machine"):
        copies_wanted(None, Launched(0, 4, 2))


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}, Launched(1, 2, 2)),
        ({"RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}, Launched(1, 4, 2)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, None),
        ({"RANK": "1"}, None),
        ({"RANK": "major", "WORLD_SIZE": "2"}, None),
        ({"WORLD_SIZE": "8"}, None),
        ({}, None),
    ],
    ids=str,
)
def test_a_rank_without_a_number_of_processes_is_somebody_elses_variable(environment, found):
    assert launched(environment) == found
