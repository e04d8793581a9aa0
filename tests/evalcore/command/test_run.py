"""`evalcore run` as its user starts it: in a process of its own, against the local Hub.

What is asked by `command` is a start, what by `run` and `run_toys` a fork (`tests/warm.py`)."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from evalcore.cli import main
from evalcore.record import RunRecord, read_samples
from tests import tiny, warm
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
    return warm.run(
        ["-m", "evalcore", *arguments],
        env=client_environment(hub, home, **environment),
        timeout=300,
    )


def events(output: str) -> list[dict]:
    return [json.loads(line) for line in output.splitlines()]


MODEL = ("--model_args", "pretrained=tiny/llama,dtype=float32")


def test_a_run_writes_a_record_whose_numbers_follow_from_its_samples(hub, home, tmp_path):
    outcome = subprocess.run(
        command("run", *MODEL, "--tasks", TASKS, "--limit", 30, "--num_fewshot", 2,
                "--output_path", tmp_path, "--progress", "json", "--mode", "strict"),
        env=client_environment(hub, home), capture_output=True, text=True, timeout=300,
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


SLOW = """
import time
from pathlib import Path

def raises_nothing(docs):
    Path(__file__).with_name("begun").touch()
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass

def sleeps(docs):
    Path(__file__).with_name("begun").touch()
    time.sleep(60)

def scores(doc, results):
    return {"acc": 1.0}
"""


def write_like(toys: Path, name: str, other: str, **functions: str) -> None:
    """The task `name`, as `other` but for the functions of `slow.py`."""
    (toys / "slow.py").write_text(SLOW)
    base = yaml.safe_load((toys / f"{other}.yaml").read_text())
    keys = "".join(f"{key}: !function slow.{value}\n" for key, value in functions.items())
    (toys / f"{name}.yaml").write_text(yaml.safe_dump({**base, "task": name}) + keys)


def ended(process: subprocess.Popen[str]) -> int:
    """The exit status after SIGTERM, which must come soon."""
    asked = time.monotonic()
    process.terminate()
    status = process.wait(timeout=20)
    assert time.monotonic() - asked < 10
    process.stdout.close()
    return status


def journalled(folder: Path) -> int:
    return sum(len(file.read_bytes().splitlines()) for file in folder.rglob("*.jsonl"))


@pytest.mark.parametrize(
    ("function", "before"), [("raises_nothing", []), ("sleeps", ["toy_likely"])]
)
def test_sigterm_ends_a_run_while_prompts_are_written(toys, tmp_path, function, before):
    """In the command's own thread, and in the one that works ahead."""
    write_like(toys, "toy_slow", "toy_likely", process_docs=function)
    process = subprocess.Popen(
        command("--model", "dummy", "--include_path", toys, "--bootstrap_iters", 0, "--progress",
                "json", "--use_cache", tmp_path / "journal",
                "--tasks", ",".join([*before, "toy_slow"])),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )  # fmt: skip
    finished = []
    while len(finished) < len(before):
        event = json.loads(process.stdout.readline())
        finished += [event["task"]] if event["event"] == "task" else []
    while not (toys / "begun").exists():
        assert process.poll() is None
        time.sleep(0.05)
    assert ended(process) == 75
    assert finished == before
    assert journalled(tmp_path / "journal") == 12 * len(before)


@pytest.fixture
def stuck_hub(test_data):
    """A Hub that has data sets and does not hand them out."""
    faults = [{"match": "GET *.parquet", "delay": 120}, {"match": "*/resolve/*", "delay": 120}]
    with serve([test_data / "hub"], faults) as url:
        yield url


@pytest.mark.parametrize("name", ["run", "fetch"])
def test_sigterm_ends_a_command_whose_download_hangs(stuck_hub, toys, tmp_path, name):
    """What was answered before is scored and written meanwhile, by a task's own code, too."""
    write_like(toys, "toy_own", "toy_likely", process_results="scores")
    (tmp_path / "model.safetensors").touch()  # a fetch asks for no more of a local model
    own = {
        "run": ("--model", "dummy", "--bootstrap_iters", 0, "--use_cache", tmp_path / "journal"),
        "fetch": ("--model_args", f"pretrained={tmp_path}"),
    }
    process = subprocess.Popen(
        command(name, *own[name], "--include_path", toys,
                "--tasks", "toy_own,arc_easy", "--progress", "json"),
        env=client_environment(stuck_hub, tmp_path / "hf"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )  # fmt: skip
    last = "task" if name == "run" else "progress"
    while True:
        event = json.loads(process.stdout.readline())
        if (event["event"], event.get("task")) == (last, "toy_own"):
            break
    time.sleep(2)
    assert process.poll() is None
    assert ended(process) == 75
    if name == "run":
        assert journalled(tmp_path / "journal") == 12


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
    for arguments in (("--help",), ("run", "--help"), ("ls", "tasks")):
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
    base = yaml.safe_load((toys / "toy_likely.yaml").read_text())
    names = []
    for function, (key, _) in BROKEN_TASKS.items():
        names.append(f"toy_{function}")
        text = yaml.safe_dump({**base, "task": names[-1], "metric_list": [{"metric": "acc"}]})
        (toys / f"{names[-1]}.yaml").write_text(f"{text}{key}: !function broken.{function}\n")
    aggregation = "metric_list:\n- {metric: acc, aggregation: !function broken.leaves_quietly}\n"
    text = yaml.safe_dump({**base, "task": "toy_unaggregated"})
    (toys / "toy_unaggregated.yaml").write_text(text + aggregation)
    return ["toy_likely", *names, "toy_unaggregated", "toy_rolling"]


def test_a_task_without_a_number_is_a_failure_and_the_others_are_written(toys, broken, tmp_path):
    outcome = run_toys(toys, "--tasks", ",".join(broken), "-o", tmp_path / "out")
    assert outcome.returncode == 11
    assert "Traceback" not in outcome.stderr
    said = [line for line in outcome.stderr.splitlines() if "TaskError" in line]
    reasons = {f"toy_{name}": why for name, (_, why) in BROKEN_TASKS.items()}
    reasons["toy_unaggregated"] = "the aggregation leaves_quietly failed: SystemExit: 0"
    for name, reason in reasons.items():
        assert [line for line in said if name in line and reason in line], name
    assert len(said) == len(reasons)
    for metric in ("perplexity", "bits_per_byte"):
        assert metric in outcome.stdout
    records = [RunRecord.read(path) for path in (tmp_path / "out").rglob("record_*.json")]
    numbers = {record.task: bool(record.results) for record in records}
    well = ("toy_likely", "toy_rolling")
    asked = set(broken) - {"toy_leaves_quietly"}
    assert numbers == {name: name in well for name in asked}
    assert {record.requests["total"] for record in records} == {12}
    (results,) = (tmp_path / "out").rglob("results_*.json")
    assert {*well} <= set(json.loads(results.read_text())["results"])


def test_a_worker_is_told_of_no_task_that_has_no_number(toys, broken, tmp_path):
    outcome = run_toys(
        toys, "--tasks", ",".join(broken), "-o", tmp_path, "--progress", "json", "--limit", 3
    )
    told = events(outcome.stdout)
    finished = [event["task"] for event in told if event["event"] == "task"]
    failed = [(event["task"], event["class"]) for event in told if event["event"] == "error"]
    assert finished == ["toy_likely", "toy_rolling"]
    assert sorted(failed) == sorted((name, "TaskError") for name in broken[1:-1])


@pytest.mark.parametrize(("kilobytes", "records"), [(24, 0), (68, 2)])
def test_a_full_disk_is_our_fault_and_leaves_no_part_of_a_file(toys, tmp_path, kilobytes, records):
    """A disk of that size, full when the first record or the last lines are written."""
    full, kept = tmp_path / "full", tmp_path / "kept"
    full.mkdir()
    arguments = command(
        "--model", "dummy", "--include_path", toys, "--bootstrap_iters", 0, "--log_samples",
        "--tasks", "toy_likely,toy_rolling", "-o", full,
    )  # fmt: skip
    program = (
        f"mount -t tmpfs -o size={kilobytes}k none {full} && {shlex.join(arguments)}; "
        f"status=$?; cp -a {full} {kept}; exit $status"
    )
    outcome = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", program], capture_output=True, text=True, timeout=300
    )
    assert outcome.returncode == 13, outcome.stderr
    assert "No space left on device. No part of it is left: make room" in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert len(list(kept.rglob("record_*.json"))) == records
    assert not list(kept.rglob("results_*.json"))
    assert not list(kept.rglob("*.unfinished"))
    for record in kept.rglob("record_*.json"):
        assert main(["verify", str(record)]) == 0
    for lines in kept.rglob("*.jsonl"):
        assert len([json.loads(line) for line in lines.read_text().splitlines()]) == 12
    assert len(list(kept.rglob("samples_*.parquet"))) == records


def test_what_cannot_be_printed_for_want_of_room_is_our_fault_too(toys):
    with Path("/dev/full").open("w") as full:
        outcome = subprocess.run(
            command("--model", "dummy", "--include_path", toys, "--tasks", "toy_likely"),
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=300,
        )  # fmt: skip
    assert outcome.returncode == 13
    assert "Traceback" not in outcome.stderr


def test_what_a_killed_run_left_goes_when_the_same_is_done_again(toys, tmp_path):
    """Its records of other tasks stay, and so does what a run at work has written."""
    write_like(toys, "toy_slow", "toy_likely", process_docs="sleeps")
    folder = tmp_path / "dummy"

    def begin(*names: str) -> subprocess.Popen[str]:
        """A run that has written all but its last task, at which it is."""
        (toys / "begun").unlink(missing_ok=True)
        least = len(list(folder.glob("record_*"))) + len(names)
        process = subprocess.Popen(
            command("--model", "dummy", "--include_path", toys, "--bootstrap_iters", 0,
                    "--tasks", ",".join([*names, "toy_slow"]), "-o", tmp_path),
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        while not (toys / "begun").exists() or len(list(folder.glob("record_*"))) < least:
            assert process.poll() is None
            time.sleep(0.05)
        return process

    killed = begin("toy_likely", "toy_rolling")
    killed.kill()
    killed.wait()
    before = set(folder.glob("record_*"))
    at_work = begin("toy_likely", "toy_rolling", "toy_choice")
    working = set(folder.glob("record_*")) - before
    assert run_toys(toys, "--tasks", "toy_likely", "-o", tmp_path).returncode == 0
    at_work.kill()
    at_work.wait()
    records = set(folder.glob("record_*"))
    assert sorted(path.name.split("_20")[0] for path in before & records) == ["record_toy_rolling"]
    assert working <= records
    assert len(records - before - working) == 1
    samples = {path.name for path in folder.glob("samples_*.parquet")}
    assert samples == {RunRecord.read(path).samples.file for path in records}


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
    outcome = subprocess.run(
        command("show", *MODEL, "--tasks", "arc_easy", "--num_fewshot", "1"),
        env=client_environment(hub, home),
        capture_output=True,
        text=True,
        timeout=300,
    )
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
    """One question stands in the training text, word for word; another is too short to tell."""
    said = "Land {0}, of {0} hills, has {0} rivers, {0} lakes and {0} towns, as {0} people say."
    planted = said.format(3)
    (tmp_path / "seen.txt").write_text("Of other things. " * 50 + planted)
    file = toys / "toy_likely.yaml"
    query = said.format("{{question[-2:-1]}}")
    question = f'{{% if "7" in question %}}Too short{{% else %}}{query}{{% endif %}}'
    file.write_text(file.read_text() + f"doc_to_decontamination_query: '{question}'\n")
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
