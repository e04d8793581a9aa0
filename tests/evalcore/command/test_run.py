"""`evalcore run` as its user starts it: in a process of its own, against the local Hub.

What is asked by `command` is a start, what by `run` and `run_toys` a fork (`tests/warm.py`)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml

from evalcore.cli import main
from evalcore.record import RunRecord, read_samples
from tests import warm
from tests.evalcore.toys import records_in, write_toy
from tests.hub import client_environment

TASKS = "arc_easy,arc_challenge_mmlu"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("hf")


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "evalcore", *map(str, arguments)]


def run(hub: str, home: Path, *arguments: object, **environment: str):
    return warm.run(
        ["-m", "evalcore", *arguments],
        env=client_environment(hub, home, **environment),
        timeout=300,
    )


def events(output: str) -> list[dict]:
    return [json.loads(line) for line in output.splitlines()]


MODEL = ("--model_args", "pretrained=tiny/llama,dtype=float32")


@pytest.fixture(scope="module")
def started(hub, home, tmp_path_factory):
    """What ended of a run that was started, and the folder of its files."""
    folder = tmp_path_factory.mktemp("run")
    outcome = subprocess.run(
        command("run", *MODEL, "--tasks", TASKS, "--limit", 10, "--num_fewshot", 2,
                "--output_path", folder, "--progress", "json", "--mode", "strict"),
        env=client_environment(hub, home), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stderr
    return outcome, folder


def test_a_run_writes_a_record_whose_numbers_follow_from_its_samples(started):
    outcome, _ = started
    finished = [event for event in events(outcome.stdout) if event["event"] == "task"]
    assert [event["task"] for event in finished] == TASKS.split(",")
    last = [event for event in events(outcome.stdout) if event["event"] == "progress"][-1]
    assert last["done"] == last["total"] > 0
    assert last["tokens"] > last["total"]
    for event in finished:
        record = RunRecord.read(Path(event["record"]))
        samples = list(read_samples(Path(event["samples"])))
        assert record.samples.rows == len(samples) == 10
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

    outcome, folder = started
    said = re.search(r"pass (\S+) s after the start; loading .* (\S+) s", outcome.stderr)
    first, load = (float(seconds) for seconds in said.groups())
    records = records_in(folder)
    assert len(records) == 2
    for record in records.values():
        assert record.timing["first_forward"] == pytest.approx(first, abs=0.06)
        assert record.timing["load"] == pytest.approx(load, abs=0.06)
        assert 0 < load < first


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
    process.terminate()
    assert process.wait(timeout=300) == 75
    process.stdout.close()


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--model_args", "pretrained=tiny/nothing", "--tasks", "arc_easy"), 10, "tiny/nothing"),
        ((*MODEL, "--tasks", "arc_eesy"), 11, "arc_easy"),
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


def run_toys(toys: Path, *arguments: object):
    """With the model that draws its answers, which takes a second."""
    dummy = ("--model", "dummy", "--include_path", toys, "--bootstrap_iters", 100)
    return warm.run(["-m", "evalcore", *dummy, *arguments], timeout=300)


def test_every_kind_of_task_goes_through_one_command(toys, tmp_path):
    outcome = run_toys(toys, "--tasks", "toy_group", "toy_plain", "-o", tmp_path / "out", "-s")
    assert outcome.returncode == 0, outcome.stderr
    folder = tmp_path / "out" / "dummy"
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
    outcome = warm.run(["-m", "evalcore", "run", "--config", file, "--limit", 5], timeout=300)
    assert outcome.returncode == 0, outcome.stderr
    (results,) = tmp_path.glob("out_*.json")
    written = json.loads(results.read_text())
    assert written["n-samples"] == {"toy_likely": {"original": 12, "effective": 5}}
    assert written["config"]["fewshot_seed"] == 99
    assert written["config"]["model"] == "dummy"


@pytest.fixture
def bad_task(toys) -> str:
    """A task whose prompts cannot be written."""
    write_toy(toys, "toy_bad", "toy_likely", description="{{nothing}}")
    return "toy_bad"


def test_what_was_finished_is_written_where_the_next_task_fails(toys, bad_task, tmp_path):
    outcome = run_toys(toys, "--tasks", f"toy_likely,{bad_task}", "-o", tmp_path / "out")
    assert outcome.returncode == 11
    assert "nothing" in outcome.stderr
    assert "perplexity" in outcome.stdout
    (results,) = (tmp_path / "out").rglob("results_*.json")
    assert list(json.loads(results.read_text())["results"]) == ["toy_likely"]


BROKEN = """
import sys

class Panic(BaseException):
    pass

def raises(doc, results):
    raise ValueError("no such thing")

def leaves(doc, results):
    sys.exit(3)

def interrupts(doc, results):
    raise KeyboardInterrupt

def panics(doc, results):
    raise Panic("unwrap on None")

def nameless(doc, results):
    return {1: 1.0}

def nothing(doc, results):
    return {}

def leaves_quietly(*_):
    sys.exit(0)
"""
BROKEN_TASKS = {
    "raises": ("process_results", "ValueError: no such thing (and 11 more documents)"),
    "leaves": ("process_results", "SystemExit: 3"),
    "interrupts": ("process_results", "KeyboardInterrupt"),
    "panics": ("process_results", "Panic: unwrap on None"),
    "nameless": ("process_results", "must be text that can be printed, got 1"),
    "nothing": ("process_results", "no metric gave one for any document"),
    "leaves_quietly": ("doc_to_text", "SystemExit: 0"),
}


@pytest.fixture
def broken(toys) -> list[str]:
    """Tasks whose code ends in every way, between two that are well."""
    (toys / "broken.py").write_text(BROKEN)
    names = []
    for function, (key, _) in BROKEN_TASKS.items():
        names.append(f"toy_{function}")
        keys = {key: f"!function broken.{function}", "metric_list": [{"metric": "acc"}]}
        write_toy(toys, names[-1], "toy_likely", **keys)
    metric = {"metric": "acc", "aggregation": "!function broken.leaves_quietly"}
    write_toy(toys, "toy_unaggregated", "toy_likely", metric_list=[metric])
    return ["toy_likely", *names, "toy_unaggregated", "toy_rolling"]


def test_a_task_without_a_number_is_a_failure_and_the_others_are_written(toys, broken, tmp_path):
    outcome = run_toys(toys, "--tasks", ",".join(broken), "-o", tmp_path, "--progress", "json")
    assert outcome.returncode == 11
    assert "Traceback" not in outcome.stderr
    said = [line for line in outcome.stderr.splitlines() if "TaskError" in line]
    reasons = {f"toy_{name}": why for name, (_, why) in BROKEN_TASKS.items()}
    reasons["toy_unaggregated"] = "the aggregation leaves_quietly failed: SystemExit: 0"
    for name, reason in reasons.items():
        assert [line for line in said if name in line and reason in line], name
    assert len(said) == len(reasons)

    told = events(outcome.stdout)
    well = ["toy_likely", "toy_rolling"]
    assert [event["task"] for event in told if event["event"] == "task"] == well
    failed = [(event["task"], event["class"]) for event in told if event["event"] == "error"]
    assert sorted(failed) == sorted((name, "TaskError") for name in broken[1:-1])

    records = records_in(tmp_path / "dummy")
    numbers = {task: bool(record.results) for task, record in records.items()}
    asked = set(broken) - {"toy_leaves_quietly"}
    assert numbers == {name: name in well for name in asked}
    assert {record.requests["total"] for record in records.values()} == {12}
    (results,) = tmp_path.rglob("results_*.json")
    assert {*well} <= set(json.loads(results.read_text())["results"])


def test_predictions_alone_are_written_without_a_score(toys, tmp_path):
    outcome = run_toys(toys, "--tasks", "toy_written", "-o", tmp_path / "out", "--predict_only")
    assert outcome.returncode == 0, outcome.stderr
    (lines,) = (tmp_path / "out").rglob("samples_*.jsonl")
    first = json.loads(lines.read_text().splitlines()[0])
    assert first["resps"] == [["lol", "lol"]]
    assert "exact_match" not in first


def test_what_a_killed_command_had_begun_to_write_goes_after_a_day(toys, tmp_path):
    out = tmp_path / "out" / "dummy"
    out.mkdir(parents=True)
    fresh, old = out / ".1-fresh.unfinished", out / ".2-old.unfinished"
    for file in (fresh, old):
        file.touch()
    two_days_ago = time.time() - 2 * 24 * 3600
    os.utime(old, (two_days_ago, two_days_ago))
    outcome = run_toys(toys, "--tasks", "toy_likely", "-o", tmp_path / "out")
    assert outcome.returncode == 0, outcome.stderr
    assert [*out.glob("*.unfinished")] == [fresh]


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


def test_clean_documents_have_numbers_of_their_own(toys, tmp_path):
    """One question stands in the training text, word for word; another is too short to tell."""
    said = "Land {0}, of {0} hills, has {0} rivers, {0} lakes and {0} towns, as {0} people say."
    planted = said.format(3)
    (tmp_path / "seen.txt").write_text("Of other things. " * 50 + planted)
    query = said.format("{{question[-2:-1]}}")
    question = f'{{% if "7" in question %}}Too short{{% else %}}{query}{{% endif %}}'
    write_toy(toys, "toy_likely", doc_to_decontamination_query=question)
    outcome = run_toys(
        toys, "--tasks", "toy_likely", "-o", tmp_path / "out", "--decontaminate",
        tmp_path / "seen.txt", "--decontaminate_n", 8,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stderr
    assert "Clean n" in outcome.stdout
    (path,) = (tmp_path / "out").rglob("record_*.json")
    record = RunRecord.read(path)
    assert {row.n for row in record.results} == {12}
    marked = [
        sample["contaminated"] for sample in read_samples(path.with_name(record.samples.file))
    ]
    assert {*marked} == {True, False, None}
    assert record.clean_results[0].n == marked.count(False)
    assert main(["verify", str(path)]) == 0
    content = json.loads(path.read_text())
    content["clean_results"][0]["value"] += 0.01
    path.write_text(json.dumps(content))
    assert main(["verify", str(path)]) == 1


@pytest.mark.parametrize(
    ("told", "status", "said"),
    [
        # A GPU that is missing is nobody's fault who chose or published the model.
        (["--device", "cuda:99"], {12}, "--device cuda:99: this machine does not have it"),
        (["--model_args", "pretrained=tiny/llama,tp_plan=auto"], {10, 11}, "torchrun --nproc_per"),
        (["--tasks", "toy_heard"], {10, 11}, "hf hears no sounds, which toy_heard needs: leave"),
    ],
    ids=["device", "processes", "sound"],
)
def test_what_a_run_asks_in_vain_is_said_before_weights_are_fetched(
    hub, toys, tmp_path, told, status, said
):
    if "tp_plan" in told[-1] and torch.cuda.device_count() > 1:
        pytest.skip("several GPUs divide it among themselves")
    write_toy(toys, "toy_heard", "toy_written", doc_to_audio="question")
    outcome = run(
        hub, tmp_path / "home", "run", *MODEL, "--tasks", "toy_choice", "--limit", "1",
        "--include_path", toys, "--output_path", tmp_path / "out", *told,
    )  # fmt: skip
    assert outcome.returncode in status, outcome.stderr
    assert said in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert not list((tmp_path / "home").rglob("*.safetensors"))


def test_a_name_that_is_too_long_for_a_file_ends_no_other_task(toys, tmp_path):
    """A file's name has 255 bytes; a task's may have more, and two may begin alike."""
    names = [f"toy_{'é' * 120}{end}" for end in "ab"]
    for name in names:
        write_toy(toys, name, "toy_likely")
    out = tmp_path / "out"
    options = ["--model", "dummy", "--include_path", str(toys), "--bootstrap_iters", "0"]
    tasks = ",".join([*names, "toy_rolling"])
    assert main(["run", *options, "--tasks", tasks, "-o", str(out), "--log_samples"]) == 0
    assert records_in(out).keys() == {*names, "toy_rolling"}
    assert main(["verify", str(out)]) == 0
    assert main(["convert", str(out), "--to", "lm-eval", "--output_path", str(tmp_path / "l")]) == 0
    for folder in (out, tmp_path / "l"):
        assert len(list(folder.rglob("samples_*.jsonl"))) == 3
    (results,) = (tmp_path / "l").rglob("results_*.json")
    assert main(["verify", str(results)]) == 0
    for form in ("record", "parquet", "every-eval-ever"):
        assert main(["convert", str(out), "--to", form, "--output_path", str(tmp_path / form)]) == 0
