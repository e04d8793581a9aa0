"""`--stay`: one process for several runs gives what a process for each of them gives."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from evalcore.record import RunRecord, read_samples
from tests import warm
from tests.hub import client_environment, serve
from tests.runners import place

COUNTS = """
import sys
from evalcore.model.hf import loading

real = loading._load_alone
loading._load_alone = lambda *given: print("weights are read", file=sys.stderr) or real(*given)
from evalcore.cli import main

sys.exit(main(sys.argv[1:]))
"""
"""The command, which says each time that it reads weights from their files."""
READ = "weights are read"
TIMES = ("started", "seconds", "timing", "energy", "samples")


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with serve([place.write_content(tmp_path_factory.mktemp("content"), rows=12)]) as url:
        yield client_environment(url, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return place.write_tasks(tmp_path_factory.mktemp("places") / "tasks")


class Engine:
    def __init__(self, variables: dict[str, str], tasks: Path) -> None:
        self._variables = variables
        self._tasks = tasks

    def arguments(self, out: Path, shots: int, dtype: str = "float32", *more: str) -> list[str]:
        return [
            *("run", "--model_args", f"pretrained={place.MODEL},dtype={dtype}"),
            *("--tasks", "counting,counting_mmlu", "--num_fewshot", str(shots)),
            *("--include_path", str(self._tasks), "--output_path", str(out)),
            *("--use_cache", str(out / "journal"), "--progress", "json", "--check_again", *more),
        ]

    def run(self, first: Sequence[str], *following: object) -> tuple[int, list[Any], str]:
        """Its exit status, what it says to a program, and what it says in words."""
        lines = "".join(f"{json.dumps(each)}\n" for each in following)
        ended = warm.run(
            ["-c", COUNTS, *first], env=self._variables, cwd=place.ROOT, timeout=300, input=lines
        )
        events = [json.loads(line) for line in ended.stdout.splitlines()]
        return ended.returncode, events, ended.stderr


@pytest.fixture
def engine(variables: dict[str, str], tasks: Path) -> Engine:
    return Engine(variables, tasks)


def records(folder: Path) -> dict[str, RunRecord]:
    found = [RunRecord.read(file) for file in folder.rglob("record_*.json")]
    return {record.task: record for record in found}


def lasting(record: RunRecord) -> dict[str, Any]:
    return {name: value for name, value in asdict(record).items() if name not in TIMES}


def answers(folder: Path) -> list[Any]:
    return [list(read_samples(file)) for file in sorted(folder.rglob("samples_*.parquet"))]


def test_runs_of_one_process_are_those_of_a_process_each_to_the_last_bit(
    engine: Engine, tmp_path: Path
) -> None:
    shots = {"first": 1, "second": 3, "again": 1}
    together, alone = tmp_path / "together", tmp_path / "alone"
    first, *following = (engine.arguments(together / name, shots[name]) for name in shots)
    status, events, said = engine.run([*first, "--stay"], *([*one, "--stay"] for one in following))
    assert status == 0, said
    assert [event["event"] for event in events].count("waits") == 3
    assert said.count(READ) == 1
    for name in shots:
        status, _, said = engine.run(engine.arguments(alone / name, shots[name]))
        assert status == 0, said
        ours, theirs = records(together / name), records(alone / name)
        assert {*ours} == {"counting", "counting_mmlu"}
        assert {task: lasting(one) for task, one in ours.items()} == {
            task: lasting(one) for task, one in theirs.items()
        }
        assert answers(together / name) == answers(alone / name)
    assert records(together / "first")["counting"].results != (
        records(together / "second")["counting"].results
    )


def test_the_time_of_a_run_does_not_count_those_before_it(engine: Engine, tmp_path: Path) -> None:
    names = ("first", "second")
    first, second = (engine.arguments(tmp_path / name, 1, "float32", "--stay") for name in names)
    assert engine.run(first, second)[0] == 0
    for name in names:
        for record in records(tmp_path / name).values():
            timing = record.timing
            assert 0 < timing["load"] < timing["first_forward"]
    before, after = (records(tmp_path / name)["counting"].timing for name in names)
    assert after["first_forward"] < before["first_forward"]


def test_other_weights_are_read(engine: Engine, tmp_path: Path) -> None:
    kinds = ("float32", "bfloat16", "float32")
    runs = [
        engine.arguments(tmp_path / str(number), 1, kind, "--stay")
        for number, kind in enumerate(kinds)
    ]
    status, _, said = engine.run(runs[0], *runs[1:])
    assert (status, said.count(READ)) == (0, 3)
    assert records(tmp_path / "1")["counting"].model["dtype"] == "bfloat16"


def test_a_run_that_fails_ends_the_process(engine: Engine, tmp_path: Path) -> None:
    wrong = [*engine.arguments(tmp_path / "b", 1), "--stay", "--tasks", "no_such_task"]
    never = engine.arguments(tmp_path / "c", 1, "float32", "--stay")
    first = engine.arguments(tmp_path / "a", 1, "float32", "--stay")
    status, events, _ = engine.run(first, wrong, never)
    assert status != 0
    assert [event["event"] for event in events].count("waits") == 1
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("line", [{"run": 1}, ["--tasks", 7], "counting"])
def test_a_line_that_is_no_command_is_named(engine: Engine, tmp_path: Path, line: object) -> None:
    first = engine.arguments(tmp_path, 1, "float32", "--stay")
    status, _, said = engine.run(first, line)
    assert status == 2
    assert (
        f"--stay: standard input: expected a JSON list of arguments, got '{json.dumps(line)}"
        in said
    )


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (["--progress", "bar"], "add --progress json"),
        (["--adapters", "awkward/one"], "leave --adapters"),
        (["--data_parallel", "2", "--device", "cpu"], "leave --adapters, --data_parallel"),
    ],
)
def test_what_does_not_go_with_it_is_refused(
    engine: Engine, tmp_path: Path, options: list[str], remedy: str
) -> None:
    first = engine.arguments(tmp_path, 1, "float32", "--stay")
    status, _, said = engine.run([*first, *options])
    assert status == 2
    assert remedy in said
