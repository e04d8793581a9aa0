"""The same files, data and model through both engines' commands: the same numbers.

fp32 on the CPU, lm-eval one request at a time. The models are the demo's, which were trained: their
answers differ from choice to choice, and some of their continuations are greedy.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.hub import ROOT, client_environment, serve

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(
        importlib.util.find_spec("lm_eval") is None,
        reason="lm_eval is not installed (extra `peer`)",
    ),
]

MODELS = ROOT / "demo" / "content" / "models" / "plumbline-demo"
DEMO_TASKS = tuple(
    f"{benchmark}{style}"
    for benchmark in ("demo_facts", "demo_sums")
    for style in ("", "_mmlu", "_hybrid")
)
REAL_TASKS = ("arc_easy", "arc_challenge", "arc_easy_mmlu", "arc_challenge_hybrid")
GROUP = "mmlu_social_sciences"


@dataclass(frozen=True)
class Files:
    """What one engine wrote: its results JSON, and its samples by task and document."""

    results: dict[str, Any]
    samples: dict[tuple[str, int], dict[str, Any]]


@pytest.fixture(scope="module")
def hub(test_data: Path) -> Iterator[str]:
    with serve([ROOT / "demo" / "content", test_data / "hub"]) as url:
        yield url


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hf_home")


def evaluate(
    engine: str, hub: str, home: Path, model: str, tasks: Sequence[str], shots: int, out: Path
) -> Files:
    command = [sys.executable, "-m", engine, "run", "--model", "hf"]
    command += ["--model_args", f"pretrained=plumbline-demo/{model},dtype=float32"]
    command += ["--tasks", ",".join(tasks), "--num_fewshot", str(shots), "--limit", "40"]
    command += ["--output_path", str(out), "--log_samples", "--device", "cpu"]
    if engine == "lm_eval":
        command += ["--batch_size", "1", "--include_path", str(ROOT / "tasks")]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=client_environment(hub, home),
        capture_output=True,
        text=True,
        timeout=560,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (results,) = out.rglob("results_*.json")
    samples = {}
    for path in out.rglob("samples_*.jsonl"):
        task = path.name.removeprefix("samples_").rsplit("_", 1)[0]
        for line in path.read_text().splitlines():
            sample = json.loads(line)
            samples[task, sample["doc_id"]] = sample
    return Files(json.loads(results.read_text()), samples)


NAMES = sorted(path.name for path in MODELS.iterdir())
CASES = [
    *(pytest.param((name, DEMO_TASKS, 0), id=f"{name}, demo tasks") for name in NAMES),
    pytest.param((NAMES[0], (*REAL_TASKS, GROUP), 2), id=f"{NAMES[0]}, ARC and MMLU"),
]


@pytest.fixture(scope="module", params=CASES)
def both(
    request: pytest.FixtureRequest,
    hub: str,
    home: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Files, Files]:
    """Ours and theirs, for one model and some tasks."""
    model, tasks, shots = request.param
    folder = tmp_path_factory.mktemp("both")
    ours = evaluate("evalcore", hub, home, model, tasks, shots, folder / "ours")
    theirs = evaluate("lm_eval", hub, home, model, tasks, shots, folder / "theirs")
    return ours, theirs


def test_every_request_and_hash_is_the_same(both: tuple[Files, Files]) -> None:
    ours, theirs = both
    assert ours.samples.keys() == theirs.samples.keys()
    assert len(ours.samples) >= 160
    for key, sample in theirs.samples.items():
        for field in ("arguments", "target", "doc", "doc_hash", "prompt_hash", "target_hash"):
            assert ours.samples[key][field] == sample[field], (key, field)
    assert ours.results["task_hashes"] == theirs.results["task_hashes"]


def test_loglikelihoods_agree_within_float_noise(both: tuple[Files, Files]) -> None:
    ours, theirs = both
    largest = 0.0
    for key, sample in theirs.samples.items():
        pairs = zip(ours.samples[key]["filtered_resps"], sample["filtered_resps"], strict=True)
        for (our_sum, our_flag), (their_sum, their_flag) in pairs:
            off = abs(float(our_sum) - float(their_sum))
            assert off <= 1e-4 + 1e-6 * abs(float(their_sum)), key
            assert our_flag == their_flag, key
            largest = max(largest, off)
    print(f"largest difference {largest:.1e} over {len(theirs.samples)} documents")


def test_every_score_and_standard_error_is_the_same(both: tuple[Files, Files]) -> None:
    ours, theirs = both
    for key, sample in theirs.samples.items():
        assert sample["metrics"] == ours.samples[key]["metrics"]
        for metric in sample["metrics"]:
            assert ours.samples[key][metric] == sample[metric], (key, metric)
    compared = 0
    for task, scores in theirs.results["results"].items():
        for name, value in scores.items():
            found = ours.results["results"][task][name]
            if isinstance(value, float):
                assert found == pytest.approx(value, abs=1e-9), (task, name)
                compared += 1
            else:
                assert found == value, (task, name)
    assert compared >= 10
    assert ours.results.get("groups", {}).keys() == theirs.results.get("groups", {}).keys()
