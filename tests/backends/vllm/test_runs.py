"""`evalcore run --model vllm` from end to end, beside `--model hf` on the same model; and the same
requests by lm-evaluation-harness's own backend of vLLM, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.backends import asking
from bench.workloads import WORKLOADS
from evalcore.library import evaluate
from tests.backends.conftest import BLOCK
from tests.evalcore.toys import write_toys
from tests.hub import client_environment, serve

ROOT = Path(__file__).resolve().parents[3]
MODEL = ROOT / "demo" / "content" / "models" / "plumbline-demo" / "scholar-llama"
"""A llama that was really trained, with heads of 32, which vLLM's build for processors takes."""

DATA = Path(os.environ.get("PLUMBLINE_TEST_DATA", ROOT.parent / "shared" / "data")) / "hub"
TASKS = "arc_challenge,demo_facts_mmlu,gsm8k"
NATS = 1e-4


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The records and samples of both, by backend."""
    folder = tmp_path_factory.mktemp("runs")
    with serve([ROOT / "demo" / "content", DATA]) as url:
        return {
            name: run(folder, url, name, extra)
            for name, extra in {
                "hf": "",
                "vllm": f",enforce_eager=True,block_size={BLOCK}",
            }.items()
        }


def run(folder, url, name, extra):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "evalcore", "run", "--model", name, "--tasks", TASKS),
            *("--model_args", f"pretrained={MODEL},dtype=float32{extra}", "--limit", "8"),
            *("--num_fewshot", "3", "--gen_kwargs", "max_gen_toks=24", "--log_samples"),
            *("--output_path", str(folder / name), "--mode", "strict"),
        ],
        cwd=ROOT,
        env=client_environment(url, folder / "home"),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    records = {}
    for file in (folder / name).rglob("*.json"):
        record = json.loads(file.read_text())
        if "run_key" in record:
            records[record["task"]] = record
    samples = {}
    for file in (folder / name).rglob("*.jsonl"):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        task = file.stem.removeprefix("samples_").rpartition("_")[0]
        samples |= {(task, row["doc_id"]): row for row in rows}
    return records, samples


def test_prompts_are_the_same_and_so_are_the_columns(runs):
    (records, samples), (others, theirs) = runs["vllm"], runs["hf"]
    assert set(records) == set(others) == set(TASKS.split(","))
    assert len(samples) == 24
    for key, sample in samples.items():
        assert sample["arguments"] == theirs[key]["arguments"]
        assert sample["target"] == theirs[key]["target"]
    for task, record in records.items():
        assert record["run_key"] == others[task]["run_key"]
        assert [row["comparability_key"] for row in record["results"]] == [
            row["comparability_key"] for row in others[task]["results"]
        ]
        assert record["model"]["computed_by"] == {"name": "vllm", "version": "0.32.0"}
        assert "computed_by" not in others[task]["model"]
        assert record["model"]["model_key"] != others[task]["model"]["model_key"]
        assert record["model"]["parameters"] == others[task]["model"]["parameters"]


def test_answers_are_within_the_stated_bound(runs):
    (records, samples), (others, theirs) = runs["vllm"], runs["hf"]
    compared = 0
    for key, sample in samples.items():
        for one, other in zip(sample["resps"], theirs[key]["resps"], strict=True):
            if isinstance(one[0], str):  # a text
                assert one == other
                continue
            ours, expected = float(one[0][0]), float(other[0][0])
            assert ours == pytest.approx(expected, abs=NATS + 1e-6 * abs(expected))
            assert one[0][1] == other[0][1]
            compared += 1
    assert compared == 64
    for task, record in records.items():
        assert [row["value"] for row in record["results"]] == [
            row["value"] for row in others[task]["results"]
        ]
    assert records["arc_challenge"]["paths"]["shared"] > 20
    assert records["demo_facts_mmlu"]["execution"]["loglikelihood"]["path"] == "shared"
    assert records["gsm8k"]["execution"]["generate_until"]["step"] == "together"


class Interrupted(BaseException):
    """What a signal does in the middle of a run."""


def test_an_interrupted_run_goes_on_where_it_stopped(lm, tmp_path, monkeypatch):
    tasks = write_toys(tmp_path / "tasks")
    asked = ["toy_choice", "toy_written", "toy_rolling"]

    def evaluated(cache=None):
        options = {"include_path": str(tasks), "use_cache": cache}
        return [done.record for done in evaluate(lm, tasks=asked, **options)]

    whole = evaluated()
    cache = str(tmp_path / "cache")
    own, packs = lm.answer, []

    def interrupted(requests):
        for pack in own(requests):
            yield pack
            packs.append(pack)
            if len(packs) == 3:
                raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(lm, "answer", interrupted)
        with pytest.raises(Interrupted):
            evaluated(cache)
    resumed = evaluated(cache)
    kept = sum(record.requests["journalled"] for record in resumed)
    assert kept == sum(map(len, packs)) > 0
    assert [record.results for record in resumed] == [record.results for record in whole]


NAMES = ("arc_0_shot", "piqa_0_shot", "gsm8k_stops")
"""Short of the length of the model: of longer prompts theirs reads a token less."""


BACKENDS = ("vllm", "lm_eval", "lm_eval_hf")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    work = tmp_path_factory.mktemp("work")
    asks = {name: asking.asks_of(WORKLOADS[name].with_documents(3), work / name) for name in NAMES}
    order = asking.Order(asks, dict.fromkeys(asks, 1))
    return asks, {backend: asking.run(backend, MODEL, order, work) for backend in BACKENDS}


def test_the_numbers_and_texts_are_theirs(found):
    asks, by_backend = found
    for name in NAMES:
        ours, *others = (by_backend[backend]["workloads"][name]["answers"] for backend in BACKENDS)
        for theirs in others:
            assert len(ours) == len(theirs) == len(asks[name]) > 0
            far = asking.apart(ours, theirs)
            assert far["nats"] < 1e-4 or name == "gsm8k_stops"
            assert (far["beyond_bound"], far["different"]) == (0, 0), name
