"""A run that is ended, killed or out of room: what is left of it, and what is not.

The command is started as its user starts it, since signals and a kill are what is tested.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evalcore.cli import main
from evalcore.command.superseded import MARK
from evalcore.record import RunRecord
from tests.evalcore.toys import write_toy
from tests.hub import client_environment, serve


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "evalcore", *map(str, arguments)]


SLOW = """
import time
from pathlib import Path

def raises_nothing(docs):
    Path(__file__).with_name("begun").touch()
    while True:
        try:
            time.sleep(3600)
        except BaseException:
            pass

def sleeps(docs):
    Path(__file__).with_name("begun").touch()
    time.sleep(3600)

def scores(doc, results):
    return {"acc": 1.0}
"""


def write_slow(toys: Path, name: str, **functions: str) -> None:
    """The task `name`, as `toy_likely` but for the functions of `slow.py`."""
    (toys / "slow.py").write_text(SLOW)
    keys = {key: f"!function slow.{function}" for key, function in functions.items()}
    write_toy(toys, name, "toy_likely", **keys)


def ended(process: subprocess.Popen[str]) -> int:
    """The exit status after SIGTERM."""
    process.terminate()
    try:
        return process.wait(timeout=300)
    finally:
        process.kill()
        process.stdout.close()


def journalled(folder: Path) -> int:
    return sum(len(file.read_bytes().splitlines()) for file in folder.rglob("*.jsonl"))


@pytest.mark.parametrize(
    ("function", "before"), [("raises_nothing", []), ("sleeps", ["toy_likely"])]
)
def test_sigterm_ends_a_run_while_prompts_are_written(toys, tmp_path, function, before):
    """In the command's own thread, and in the one that works ahead."""
    write_slow(toys, "toy_slow", process_docs=function)
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
    faults = [{"match": "GET *.parquet", "delay": 3600}, {"match": "*/resolve/*", "delay": 3600}]
    with serve([test_data / "hub"], faults) as url:
        yield url


@pytest.mark.parametrize("name", ["run", "fetch"])
def test_sigterm_ends_a_command_whose_download_hangs(stuck_hub, toys, tmp_path, name):
    """What was answered before is scored and written meanwhile, by a task's own code, too."""
    write_slow(toys, "toy_own", process_results="scores")
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
    assert process.poll() is None
    assert ended(process) == 75
    if name == "run":
        assert journalled(tmp_path / "journal") == 12


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
    write_slow(toys, "toy_slow", process_docs="sleeps")
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
    again = command("--model", "dummy", "--include_path", toys, "--bootstrap_iters", 100,
                    "--tasks", "toy_likely", "-o", tmp_path)  # fmt: skip
    subprocess.run(again, capture_output=True, check=True)
    at_work.kill()
    at_work.wait()
    records = set(folder.glob("record_*"))
    assert sorted(path.name.split("_20")[0] for path in before & records) == ["record_toy_rolling"]
    assert working <= records
    assert len(records - before - working) == 1
    samples = {path.name for path in folder.glob("samples_*.parquet")}
    assert samples == {RunRecord.read(path).samples.file for path in records}


def test_what_a_killed_run_drew_under_another_seed_stays(toys, tmp_path):
    """Other answers, other numbers: the run key has the seed where answers are drawn."""

    def run(seed: int) -> None:
        assert main(["run", "--model", "dummy", "--include_path", str(toys), "--seed",
                     f"0,1234,{seed},1234", "--bootstrap_iters", "0", "-o", str(tmp_path),
                     "--tasks", "toy_written,toy_likely"]) == 0  # fmt: skip

    run(1)
    folder = tmp_path / "dummy"
    (results,) = folder.glob("results_*.json")
    results.unlink()
    (folder / f"{MARK}{results.stem.removeprefix('results_')}").touch()  # as a kill leaves it
    drawn, scored = sorted(folder.glob("record_*"), reverse=True)
    run(2)
    assert drawn.exists()
    assert not scored.exists()
    keys = {RunRecord.read(path).run_key for path in folder.glob("record_toy_written_*")}
    assert len(keys) == 2
    assert main(["verify", str(folder)]) == 0
