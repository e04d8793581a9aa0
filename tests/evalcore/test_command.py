"""`evalcore run` as its user starts it: in a process of its own, against the local Hub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from evalcore.cli import main
from evalcore.record import RunRecord, read_samples
from tests import tiny
from tests.evalcore.toys import write_toys
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
    last = [event for event in events(outcome.stdout) if event["event"] == "progress"][-1]
    assert last["done"] == last["total"] > 0
    assert last["tokens"] > last["total"]
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


@pytest.fixture
def toys(tmp_path) -> Path:
    return write_toys(tmp_path / "toys")


def run_toys(toys: Path, *arguments: object):
    """With the model that draws its answers, which takes a second."""
    return subprocess.run(
        command("--model", "dummy", "--include_path", toys, "--bootstrap_iters", 100, *arguments),
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_every_kind_of_task_goes_through_one_command(toys, tmp_path):
    outcome = run_toys(toys, "--tasks", "toy_group", "toy_plain", "-o", tmp_path / "out", "-s")
    assert outcome.returncode == 0, outcome.stderr
    folder = tmp_path / "out" / "fake"
    names = sorted(path.name.split("_20")[0] for path in folder.glob("*.json*"))
    leaves = ("choice", "likely", "rolling", "shots", "written")
    assert names == [
        "record_toy_group", "record_toy_plain", "results",
        *(f"samples_toy_{leaf}" for leaf in leaves),
    ]  # fmt: skip
    for metric in ("acc_norm", "bleu", "perplexity", "bits_per_byte"):
        assert metric in outcome.stdout
    assert main(["verify", str(folder)]) == 0


def test_a_config_file_describes_a_run(toys, tmp_path):
    config = {
        "model": "dummy",
        "tasks": ["toy_likely"],
        "include_path": str(toys),
        "limit": 3,
        "output_path": str(tmp_path / "out.json"),
        "seed": [0, 1234, 1234, 99],
    }
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(config))
    outcome = subprocess.run(
        command("run", "--config", file, "--limit", 5), capture_output=True, text=True
    )
    assert outcome.returncode == 0, outcome.stderr
    (results,) = tmp_path.glob("out_*.json")
    written = json.loads(results.read_text())
    assert written["n-samples"] == {"toy_likely": {"original": 12, "effective": 5}}
    assert written["config"]["fewshot_seed"] == 99
    assert written["config"]["model"] == "dummy"


def test_what_was_finished_is_written_where_the_next_task_fails(toys, tmp_path):
    (toys / "toy_bad.yaml").write_text(
        (toys / "toy_likely.yaml").read_text().replace("toy_likely", "toy_bad")
        + "description: '{{nothing}}'\n"
    )
    outcome = run_toys(toys, "--tasks", "toy_likely,toy_bad", "-o", tmp_path / "out")
    assert outcome.returncode == 11
    assert "nothing" in outcome.stderr
    assert "perplexity" in outcome.stdout
    (results,) = (tmp_path / "out").rglob("results_*.json")
    assert list(json.loads(results.read_text())["results"]) == ["toy_likely"]


def test_predictions_alone_are_written_without_a_score(toys, tmp_path):
    outcome = run_toys(toys, "--tasks", "toy_written", "-o", tmp_path / "out", "--predict_only")
    assert outcome.returncode == 0, outcome.stderr
    (lines,) = (tmp_path / "out").rglob("samples_*.jsonl")
    first = json.loads(lines.read_text().splitlines()[0])
    assert first["resps"] == [["lol", "lol"]]
    assert "exact_match" not in first


def test_the_prompts_and_the_results_can_be_printed(toys):
    outcome = run_toys(toys, "--tasks", "toy_shots", "--limit", 2, "--write_out", "--show_config")
    assert outcome.returncode == 0, outcome.stderr
    assert "Answer. What is the capital of land" in outcome.stderr
    text = outcome.stdout
    written, _ = json.JSONDecoder().raw_decode(text[text.index("{") :])
    assert written["n-shot"] == {"toy_shots": 2}


def test_show_prints_prompts_requests_and_tokens(hub, home):
    outcome = run(hub, home, "show", *MODEL, "--tasks", "arc_easy", "--num_fewshot", "1")
    assert outcome.returncode == 0, outcome.stderr
    assert "=== arc_easy, document 0 of test" in outcome.stdout
    assert outcome.stdout.count("--- request ") == 4
    assert outcome.stdout.count("tokens scored (") == 4


def test_validate_names_what_would_fail(toys):
    (toys / "toy_bad.yaml").write_text(
        (toys / "toy_likely.yaml").read_text().replace("toy_likely", "toy_bad")
        + "description: '{{nothing}}'\n"
    )
    outcome = subprocess.run(
        command("validate", "--tasks", "toy_plain,toy_bad", "--include_path", toys),
        capture_output=True,
        text=True,
    )
    assert outcome.returncode == 1, outcome.stderr
    said = outcome.stdout.splitlines()
    assert "toy_likely: ok, 4 requests" in said
    assert [line for line in said if line.startswith("toy_bad: fails: ") and "nothing" in line]
    assert said[-1] == "2 of 3 tasks can be built"


def test_clean_documents_have_numbers_of_their_own(toys, tmp_path):
    """One question stands in the training text, word for word."""
    said = "Land {0}, of {0} hills, has {0} rivers, {0} lakes and {0} towns, as {0} people say."
    planted = said.format(3)
    (tmp_path / "seen.txt").write_text("Of other things. " * 50 + planted)
    file = toys / "toy_likely.yaml"
    question = said.format("{{question[-2:-1]}}")
    file.write_text(file.read_text() + f"doc_to_decontamination_query: '{question}'\n")
    outcome = run_toys(
        toys, "--tasks", "toy_likely", "-o", tmp_path / "out", "--decontaminate",
        tmp_path / "seen.txt", "--decontaminate_n", 8,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stderr
    assert "clean n" in outcome.stdout
    (path,) = (tmp_path / "out").rglob("record_*.json")
    record = RunRecord.read(path)
    assert {row.n for row in record.results} == {12}
    assert 0 < record.clean_results[0].n < 12
    assert main(["verify", str(path)]) == 0
    content = json.loads(path.read_text())
    content["clean_results"][0]["value"] += 0.01
    path.write_text(json.dumps(content))
    assert main(["verify", str(path)]) == 1
