"""kill -9 at any moment, the same command again: nothing is scored twice, and nothing changes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evalcore.record import RunRecord, read_samples
from tests.hub import ROOT

MODEL = ROOT / "demo" / "content" / "models" / "plumbline-demo" / "scholar-llama"
DOCUMENTS = 40

DATA = """\
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
doc_to_text: "{{{{question}}}}"
"""

TASKS = {
    "choices": """\
task: choices
output_type: multiple_choice
doc_to_target: right
doc_to_choice: choices
metric_list: [{metric: acc}, {metric: acc_norm}]
""",
    "writing": """\
task: writing
output_type: generate_until
doc_to_target: "{{choices[right]}}"
generation_kwargs: {until: ["."], max_gen_toks: 8, do_sample: false}
metric_list: [{metric: exact_match}]
""",
    "guessing": """\
task: guessing
output_type: generate_until
doc_to_target: "{{choices[right]}}"
repeats: 3
generation_kwargs: {until: ["."], max_gen_toks: 8, do_sample: true, temperature: 0.9}
metric_list: [{metric: exact_match}]
""",
    "reading": """\
task: reading
output_type: loglikelihood_rolling
doc_to_target: "{{question}} {{choices | join(', ')}}"
""",
}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    generator = random.Random(7)
    things = ["the river", "a wooden table", "seven birds", "the old king", "a small house"]
    lines = []
    for number in range(DOCUMENTS):
        choices = generator.sample(things, 4)
        question = f"Question {number}: what stands by the {number % 9}th mill?\nAnswer:"
        lines.append(json.dumps({"question": question, "choices": choices, "right": number % 4}))
    data = folder / "docs.jsonl"
    data.write_text("\n".join(lines))
    for name, text in TASKS.items():
        (folder / f"{name}.yaml").write_text(text + DATA.format(data=data))
    return folder


def command(tasks: Path, out: Path, *more: str) -> list[str]:
    return [
        *(sys.executable, "-m", "evalcore", "run", "--include_path", str(tasks)),
        *("--model_args", f"pretrained={MODEL},dtype=float32", "--tasks", ",".join(TASKS)),
        *("--batch_size", "1", "--output_path", str(out), "--progress", "json", *more),
    ]


def environment() -> dict[str, str]:
    return {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}


def finish(arguments: list[str]) -> dict[str, tuple[RunRecord, list[dict[str, Any]]]]:
    done = subprocess.run(
        arguments, env=environment(), capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    events = [json.loads(line) for line in done.stdout.splitlines()]
    return {
        event["task"]: (
            RunRecord.read(Path(event["record"])),
            list(read_samples(Path(event["samples"]))),
        )
        for event in events
        if event["event"] == "task"
    }


def lines_of(journal: Path) -> list[dict[str, Any]]:
    texts = (
        text for path in journal.rglob("*.jsonl") for text in path.read_text().splitlines(True)
    )
    return [json.loads(text) for text in texts if text.endswith("\n")]


def kill_after(arguments: list[str], journal: Path, answers: int) -> None:
    """Starts the command, and kills it once the journal has so many answers."""
    process = subprocess.Popen(
        arguments, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT
    )
    try:
        while len(lines_of(journal)) < answers:
            assert process.poll() is None, f"it ended with {process.returncode} before {answers}"
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_a_run_that_is_killed_again_and_again_ends_as_if_it_had_not_been(
    tasks: Path, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    arguments = command(tasks, tmp_path / "killed", "--use_cache", str(journal))
    # Among the choices, and among the sampled texts.
    for answers in (30, 230):
        kill_after(arguments, journal, answers)
    kept = {line["key"]: line for line in lines_of(journal)}
    resumed = finish(arguments)

    keys = [line["key"] for line in lines_of(journal)]
    assert len(keys) == len(set(keys)), "a request was scored twice"
    assert sum(record.requests["journalled"] for record, _ in resumed.values()) >= len(kept)

    undisturbed = finish(command(tasks, tmp_path / "undisturbed"))
    assert undisturbed.keys() == resumed.keys() == TASKS.keys()
    kinds, changed = set(), 0
    for name, (_, samples) in resumed.items():
        for ours, plain in zip(samples, undisturbed[name][1], strict=True):
            for response, other in zip(ours["responses"], plain["responses"], strict=True):
                kinds.add(response["kind"])
                if response["key"] in kept:
                    assert_is_the_journalled(response, kept[response["key"]])
                assert response["text"] == other["text"]
                if response["loglikelihood"] is not None:
                    assert response["loglikelihood"] == pytest.approx(
                        other["loglikelihood"], abs=1e-4, rel=1e-6
                    )
            changed += ours["pick"] != plain["pick"]
    assert kinds == {"loglikelihood", "loglikelihood_rolling", "generate_until"}
    print(f"{changed} picks changed")
    assert changed == 0


def assert_is_the_journalled(response: Mapping[str, Any], line: Mapping[str, Any]) -> None:
    for field in ("loglikelihood", "is_greedy", "text", "finish_reason"):
        assert response[field] == line[field], field
    assert list(response["token_ids"]) == list(line["token_ids"])
