"""`evalcore run` as its user starts it: in a process of its own, against the local Hub."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evalcore.record import RunRecord, read_samples
from tests import tiny
from tests.hub import client_environment, serve

TASKS = "arc_easy,arc_challenge_mmlu"


@pytest.fixture(scope="module")
def hub(test_data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    (folder / "models" / "tiny").mkdir(parents=True)
    tiny.make(folder / "models" / "tiny" / "llama", positions=1024)
    with serve([folder, test_data / "hub"]) as url:
        yield url


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("hf")


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "evalcore", *map(str, arguments)]


def run(hub: str, home: Path, *arguments: object, **environment: str):
    return subprocess.run(
        command(*arguments),
        env=client_environment(hub, home, **environment),
        capture_output=True,
        text=True,
        timeout=300,
    )


def events(output: str) -> list[dict]:
    return [json.loads(line) for line in output.splitlines()]


MODEL = ("--model_args", "pretrained=tiny/llama,dtype=float32")


def test_a_run_writes_a_record_whose_numbers_follow_from_its_samples(hub, home, tmp_path):
    outcome = run(
        hub, home, "run", *MODEL, "--tasks", TASKS, "--limit", 30, "--num_fewshot", 2,
        "--output_path", tmp_path, "--progress", "json", "--mode", "strict",
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stderr
    finished = [event for event in events(outcome.stdout) if event["event"] == "task"]
    assert [event["task"] for event in finished] == TASKS.split(",")
    for event in finished:
        record = RunRecord.read(Path(event["record"]))
        samples = list(read_samples(Path(event["samples"])))
        assert record.samples.rows == len(samples) == 30
        assert record.model["repository"] == "tiny/llama"
        assert len(record.model["commit"]) == 40
        assert len(record.datasets[record.task]["commit"]) == 40
        assert record.mode == "strict"
        whole = {row.metric: row for row in record.own_results()}
        for metric, row in whole.items():
            scores = [s["value"] for x in samples for s in x["scores"] if s["metric"] == metric]
            assert row.value == pytest.approx(sum(scores) / len(scores), abs=1e-12)
            assert row.low <= row.value <= row.high
        for sample in samples:
            assert len(sample["shots"]) == 2
            assert sample["arguments"][0]["context"] == sample["prompt"]
            likeliest = max(x["loglikelihood"] for x in sample["responses"])
            assert sample["responses"][sample["pick"]]["loglikelihood"] == likeliest
            assert sample["correct"] == float(sample["pick"] in sample["gold"])


def test_a_command_without_a_subcommand_runs(hub, home, tmp_path):
    outcome = run(
        hub, home, "--model", "hf", *MODEL, "--tasks", "arc_easy", "--limit", 4,
        "--output_path", tmp_path, "--log_samples",
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stderr
    names = sorted(path.name.split("_20")[0] for path in (tmp_path / "tiny__llama").iterdir())
    assert names == ["record_arc_easy", "results", "samples_arc_easy", "samples_arc_easy"]


def test_fetch_then_run_without_network_gives_the_same_samples(hub, home, tmp_path):
    own = tmp_path / "hf"
    fetched = run(hub, own, "fetch", *MODEL, "--tasks", "arc_easy")
    assert fetched.returncode == 0, fetched.stderr
    rows = {}
    for name, cache, extra in (
        ("online", home, {}),
        ("offline", own, {"HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:9"}),
    ):
        outcome = run(
            hub, cache, "run", *MODEL, "--tasks", "arc_easy", "--limit", 5,
            "--output_path", tmp_path / name, "--progress", "json", **extra,
        )  # fmt: skip
        assert outcome.returncode == 0, outcome.stderr
        (event,) = [event for event in events(outcome.stdout) if event["event"] == "task"]
        record = RunRecord.read(Path(event["record"]))
        rows[name] = (record.model["commit"], record.datasets, list(read_samples(event["samples"])))
    assert rows["online"] == rows["offline"]


def test_a_run_killed_in_the_middle_scores_nothing_twice(hub, home, tmp_path):
    """kill -9 after the first packs; the same command again ends the run from the journal."""
    journal = tmp_path / "journal"
    arguments = (
        "run", *MODEL, "--tasks", "arc_challenge_mmlu", "--num_fewshot", 4, "--batch_size", 1,
        "--output_path", tmp_path / "out", "--use_cache", journal, "--progress", "json",
    )  # fmt: skip
    process = subprocess.Popen(
        command(*arguments),
        env=client_environment(hub, home),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "progress" and 0 < event["done"] < event["total"]:
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = answered_keys(journal)
    assert kept

    outcome = run(hub, home, *arguments)
    assert outcome.returncode == 0, outcome.stderr
    (task,) = [event for event in events(outcome.stdout) if event["event"] == "task"]
    record = RunRecord.read(Path(task["record"]))
    assert record.requests["journalled"] >= len(kept)
    everything = answered_keys(journal)
    assert len(everything) == len(set(everything)), "a request was scored twice"

    undisturbed = run(
        hub, home, *arguments[:-6], "--output_path", tmp_path / "plain", "--progress", "json"
    )
    (other,) = [event for event in events(undisturbed.stdout) if event["event"] == "task"]
    for one, two in zip(read_samples(task["samples"]), read_samples(other["samples"]), strict=True):
        for a, b in zip(one["responses"], two["responses"], strict=True):
            assert abs(a["loglikelihood"] - b["loglikelihood"]) <= 1e-4
        assert one["pick"] == two["pick"]


def answered_keys(journal: Path) -> list[str]:
    lines = (
        line for path in journal.rglob("*.jsonl") for line in path.read_text().splitlines(True)
    )
    return [json.loads(line)["key"] for line in lines if line.endswith("\n")]


def test_sigterm_ends_a_run_after_its_pack_with_its_own_status(hub, home, tmp_path):
    process = subprocess.Popen(
        command("run", *MODEL, "--tasks", "arc_challenge_mmlu", "--num_fewshot", 20,
                "--batch_size", 1, "--use_cache", tmp_path, "--progress", "json"),
        env=client_environment(hub, home),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )  # fmt: skip
    for line in process.stdout:
        if json.loads(line)["event"] == "progress":
            break
    asked = time.monotonic()
    process.terminate()
    assert process.wait(timeout=10) == 75
    assert time.monotonic() - asked < 10
    process.stdout.close()


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--model_args", "pretrained=tiny/nothing", "--tasks", "arc_easy"), 10, "tiny/nothing"),
        (("--model_args", "dtype=float32", "--tasks", "arc_easy"), 10, "pretrained"),
        ((*MODEL, "--tasks", "arc_eesy"), 11, "arc_easy"),
        ((*MODEL, "--tasks", "arc_easy", "--limit", "0"), 2, "share below 1"),
        ((*MODEL, "--tasks", "arc_easy", "--num_fewshot", "-1"), 2, "num_fewshot"),
        (("--tasks", "arc_easy"), 2, "model_args"),
    ],
)
def test_bad_input_ends_with_its_class_and_a_remedy(hub, home, arguments, status, said):
    outcome = run(hub, home, "run", *arguments)
    assert outcome.returncode == status
    assert said in outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_a_hub_that_is_down_is_nobody_elses_fault(home, tmp_path):
    outcome = run(
        "http://127.0.0.1:9", tmp_path, "run", *MODEL, "--tasks", "arc_easy", "--progress", "json"
    )
    assert outcome.returncode == 12
    (error,) = [event for event in events(outcome.stdout) if event["event"] == "error"]
    assert error["class"] == "InfraError"
    assert "tiny/llama" in error["message"]
    assert f"InfraError: {error['message']}" in outcome.stderr


def test_help_and_ls_answer_at_once():
    for arguments in (("--help",), ("run", "--help"), ("ls",)):
        outcome = subprocess.run(
            command(*arguments), capture_output=True, text=True, env=os.environ
        )
        assert outcome.returncode == 0, outcome.stderr
        assert outcome.stdout
