"""Each task of ours brings what the task guide asks for, as far as a program can tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalcore.authoring.checklist import PLACEHOLDER, problems_of
from evalcore.cli import main
from evalcore.task.config import TaskSpec
from evalcore.task.library.load import TaskLibrary
from evalcore.task.yaml_file import OWN_TASKS


def test_every_task_of_ours_passes_the_checklist() -> None:
    library = TaskLibrary([OWN_TASKS])
    lacking: dict[str, list[str]] = {}
    for name in library.tasks:
        spec = library.one(name)
        assert isinstance(spec, TaskSpec)
        for problem in problems_of(spec, OWN_TASKS):
            lacking.setdefault(problem, []).append(name)
    assert not lacking


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    return tmp_path / "tasks"


def made(tasks: Path, *more: str) -> int:
    return main(["new-task", "riddles", "--dataset", "org/riddles", "--folder", str(tasks), *more])


def filled_in(tasks: Path) -> None:
    """Everything that the author has to say, said."""
    for file in tasks.rglob("*"):
        if file.is_file() and PLACEHOLDER in (text := file.read_text()):
            file.write_text(text.replace(PLACEHOLDER, "Said"))


def valid(tasks: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    capsys.readouterr()
    where = ["--include_path", str(tasks)]
    return main(["validate", "--own_rows", "--tasks", "riddles*", *where]), capsys.readouterr().out


@pytest.mark.parametrize(("kind", "count"), [("choice", 4), ("generate", 1)])
def test_a_new_task_is_one_folder_that_becomes_valid_once_it_is_filled_in(
    tasks: Path, capsys: pytest.CaptureFixture[str], kind: str, count: int
) -> None:
    assert made(tasks, "--kind", kind) == 0
    steps = capsys.readouterr().out
    assert f"evalcore validate --own_rows --tasks riddles --include_path {tasks}" in steps
    status, told = valid(tasks, capsys)
    assert status == 1
    assert f"{count} of {count} tasks can be built" in told
    assert f"README.md: it still says {PLACEHOLDER}" in told
    assert f"the sample rows still say {PLACEHOLDER}" in told
    filled_in(tasks)
    status, told = valid(tasks, capsys)
    assert f"{count} of {count} tasks pass the checklist" in told
    assert status == 0
    where = ["--include_path", str(tasks)]
    assert main(["show", "--own_rows", "--tasks", "riddles", *where]) == 0
    assert "Question: Said 0?\nAnswer:" in capsys.readouterr().out
    assert main(["pin", str(tasks)]) == 0


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        ("riddles/README.md", "**Metric**", "Metric", "no line that begins with **Metric**"),
        ("riddles/README.md", "| 1.0 |", "| 0.9 |", "the table of versions has no line for 1.0"),
        ("riddles/README.md", "https://", "", "the source has no link"),
        ("riddles/family.yaml", "  chance: 0.25\n", "", "metadata.chance is missing"),
        ("riddles/family.yaml", '{1.0: "first', '{0.9: "first', "no line for version 1.0"),
        (
            "riddles/_base",
            "test_split",
            "process_docs: !function own.run\ntest_split",
            "of its own",
        ),
        ("samples/datasets/org/riddles/test.jsonl", "\n", " ", "is not JSON Lines"),
    ],
)
def test_what_is_missing_is_said(
    tasks: Path, capsys: pytest.CaptureFixture[str], file: str, old: str, new: str, told: str
) -> None:
    made(tasks)
    filled_in(tasks)
    (tasks / "riddles" / "own.py").write_text("def run(docs):\n    return docs\n")
    path = tasks / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    status, said = valid(tasks, capsys)
    assert status == 1
    assert told in said


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["Riddles", "--dataset", "org/x"], "NAME: expected small letters"),
        (["riddles", "--dataset", "riddles"], "--dataset: expected ORG/NAME"),
    ],
)
def test_a_wrong_name_is_refused_and_nothing_is_written(
    tasks: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    before = sorted(tasks.rglob("*"))
    assert main(["new-task", *arguments, "--folder", str(tasks)]) == 2
    assert told in capsys.readouterr().err
    assert sorted(tasks.rglob("*")) == before


def test_a_folder_that_is_there_is_not_written_over(
    tasks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert made(tasks) == 0
    assert made(tasks) == 2
    assert "is already there: choose another name" in capsys.readouterr().err
