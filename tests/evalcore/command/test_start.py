"""Processes of the command: each imports nothing heavy that it has no use for, and by `--stay` one
for several runs gives what a process for each of them gives."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from evalcore.record import RunRecord, read_samples
from tests import warm
from tests.evalcore.toys import records_in
from tests.hub import client_environment, serve
from tests.runners import place

UNUSED = {
    "IPython", "aiohttp", "datasets", "librosa", "lm_eval", "matplotlib", "nltk", "pandas", "peft",
    "requests", "sacrebleu", "sklearn", "tensorflow", "torchao", "torchvision", "vllm",
}  # fmt: skip
"""What no command has any use for before a model is first asked a question in text."""

OF_MODELS = UNUSED | {"torch", "transformers", "accelerate", "sympy", "tokenizers", "PIL"}
"""And what is there to compute a model alone."""

OF_DATA = OF_MODELS | {"scipy", "numpy", "pyarrow", "huggingface_hub", "httpx2", "jinja2"}
"""And what reads data, downloads them, or writes prompts of them."""

PARTS = {
    "pyarrow.compute", "pyarrow.dataset", "scipy.optimize", "scipy.stats",
    "torch._dynamo.convert_frame", "torch._inductor", "torch.distributed.tensor",
}  # fmt: skip
"""Parts of packages that take longest to import, where the packages are used."""

AT_THE_END = """
import json, sys
from evalcore.cli import main
try:
    status = main(sys.argv[1:])
except SystemExit as end:
    status = end.code
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
sys.exit(status)
"""

AT_THE_FIRST_PASS = """
import json, sys
from torch.nn import functional
from evalcore.cli import main
embedding = functional.embedding
def first(tokens, *others, **named):
    functional.embedding = embedding
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
    return embedding(tokens, *others, **named)
functional.embedding = first
sys.exit(main(sys.argv[1:]))
"""

MODEL = ("--model_args", "pretrained=tiny/llama,dtype=float32")


@pytest.fixture(scope="module")
def environment(hub: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A home that has the model and the data of a task already, as a second run has."""
    environment = client_environment(hub, tmp_path_factory.mktemp("hf"))
    imported(environment, AT_THE_END, "fetch", *MODEL, "--tasks", "arc_easy")
    return environment


def imported(environment: dict[str, str], program: str, *arguments: object) -> set[str]:
    """The modules that were there, by their whole names, at the moment that the program has."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return set(next(json.loads(line) for line in done.stderr.splitlines() if line[:1] == "["))


def packages(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (("run", "--help"), OF_DATA),
        (("ls", "tasks"), OF_DATA - {"jinja2"}),
        (("fetch", *MODEL, "--tasks", "arc_easy"), OF_MODELS | {"scipy"}),
        (("export", "folder", "--to", "lm-eval", "--tasks", "arc_easy"), OF_DATA - {"jinja2"}),
    ],
    ids=lambda given: given[0] if isinstance(given, tuple) else "",
)
def test_a_command_that_asks_no_model_imports_nothing_that_does(
    environment: dict[str, str], tmp_path: Path, arguments: tuple[str, ...], unwanted: set[str]
) -> None:
    given = [tmp_path / "new" if argument == "folder" else argument for argument in arguments]
    modules = imported(environment, AT_THE_END, *given)
    assert packages(modules) & unwanted == set()
    assert modules & PARTS == set()


def test_a_model_is_asked_before_anything_is_imported_that_it_does_not_need(
    environment: dict[str, str], tmp_path: Path
) -> None:
    arguments = ("run", *MODEL, "--tasks", "arc_easy", "--limit", 4, "--output_path", tmp_path)
    modules = imported(environment, AT_THE_FIRST_PASS, *arguments)
    assert {"torch", "transformers"} <= packages(modules)
    assert packages(modules) & UNUSED == set()
    assert modules & PARTS == set()
    for command in (("verify", tmp_path), ("compare", tmp_path, tmp_path)):
        modules = imported(environment, AT_THE_END, *command)
        assert packages(modules) & (OF_MODELS - {"tokenizers"}) == set()
        assert "pyarrow.dataset" not in modules


# `--stay`


COUNTS = """
import io, sys
from evalcore.model.hf import loading

sys.stdin = io.StringIO(sys.argv.pop(1))
real = loading._load_alone
loading._load_alone = lambda *given: print("weights are read", file=sys.stderr) or real(*given)
from evalcore.cli import main

sys.exit(main(sys.argv[1:]))
"""
"""The command, which reads its first argument as if it came from standard input, and says each time
that it reads weights from their files."""
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
            ["-c", COUNTS, lines, *first], env=self._variables, cwd=place.ROOT, timeout=300
        )
        events = [json.loads(line) for line in ended.stdout.splitlines()]
        return ended.returncode, events, ended.stderr


@pytest.fixture
def engine(variables: dict[str, str], tasks: Path) -> Engine:
    return Engine(variables, tasks)


def lasting(record: RunRecord) -> dict[str, Any]:
    return {name: value for name, value in asdict(record).items() if name not in TIMES}


def answers(folder: Path) -> list[Any]:
    return [list(read_samples(file)) for file in sorted(folder.rglob("samples_*.parquet"))]


SHOTS = {"first": 1, "second": 3, "again": 1}


@pytest.fixture(scope="module")
def together(variables: dict[str, str], tasks: Path, tmp_path_factory) -> Path:
    """The runs of SHOTS, all by one process."""
    folder, engine = tmp_path_factory.mktemp("together"), Engine(variables, tasks)
    first, *following = (
        engine.arguments(folder / name, shots, "float32", "--stay") for name, shots in SHOTS.items()
    )
    status, events, said = engine.run(first, *following)
    assert status == 0, said
    assert [event["event"] for event in events].count("waits") == 3
    assert said.count(READ) == 1
    return folder


def test_runs_of_one_process_are_those_of_a_process_each_to_the_last_bit(
    engine: Engine, together: Path, tmp_path: Path
) -> None:
    for name in ("first", "second"):
        status, _, said = engine.run(engine.arguments(tmp_path / name, SHOTS[name]))
        assert status == 0, said
        ours, theirs = records_in(together / name), records_in(tmp_path / name)
        assert {*ours} == {"counting", "counting_mmlu"}
        assert {task: lasting(one) for task, one in ours.items()} == {
            task: lasting(one) for task, one in theirs.items()
        }
        assert answers(together / name) == answers(tmp_path / name)
    assert answers(together / "again") == answers(together / "first")
    first, second = (records_in(together / name) for name in ("first", "second"))
    assert first["counting"].results != second["counting"].results

    for name in SHOTS:
        for record in records_in(together / name).values():
            assert 0 < record.timing["load"] < record.timing["first_forward"]
    before, after = (records_in(together / name)["counting"].timing for name in ("first", "again"))
    assert after["first_forward"] < before["first_forward"]


def test_other_weights_are_read(engine: Engine, tmp_path: Path) -> None:
    kinds = ("float32", "bfloat16")
    runs = [
        engine.arguments(tmp_path / str(number), 1, kind, "--stay")
        for number, kind in enumerate(kinds)
    ]
    status, _, said = engine.run(*runs)
    assert (status, said.count(READ)) == (0, 2)
    assert records_in(tmp_path / "1")["counting"].model["dtype"] == "bfloat16"


def test_a_run_that_fails_ends_the_process(engine: Engine, tmp_path: Path) -> None:
    wrong = [*engine.arguments(tmp_path / "b", 1), "--stay", "--tasks", "no_such_task"]
    never = engine.arguments(tmp_path / "c", 1, "float32", "--stay")
    first = engine.arguments(tmp_path / "a", 1, "float32", "--stay")
    status, events, _ = engine.run(first, wrong, never)
    assert status != 0
    assert [event["event"] for event in events].count("waits") == 1
    assert not (tmp_path / "c").exists()


def test_a_line_that_is_no_command_is_named(engine: Engine, tmp_path: Path) -> None:
    first = engine.arguments(tmp_path, 1, "float32", "--stay")
    status, _, said = engine.run(first, ["--tasks", 7])
    assert status == 2
    reason = '--stay: standard input: expected a JSON list of arguments, got \'["--tasks", 7]'
    assert reason in said


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (["--progress", "bar"], "add --progress json"),
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
