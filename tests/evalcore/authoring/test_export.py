"""`evalcore export`: tasks as files; `evalcore show --file`: one of them, in full."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from evalcore.cli import main
from evalcore.task.config import TaskSpec
from evalcore.task.library.load import TaskLibrary

FAMILY = """\
family: birds
keys:
  {include: _base, doc_to_text: "{{q}}", dataset_name: <<name>>, process_docs: !function own.run}
metadata: {version: 1.10, changelog: {1.10: "first"}}
styles: {likelihood: {suffix: "", keys: {doc_to_target: a, tag: feathered}}}
members: [{name: owl}, {name: swift, keys: {include: _swift, doc_to_target: b}}]
groups: {keys: {}}
"""
FILES = {
    "birds/family.yaml": FAMILY,
    "birds/_base": "dataset_path: org/birds\ntest_split: test\n",
    "birds/_swift": "include: _base\ndescription: Fast.\ndoc_to_text: not this one\n",
    "birds/own.py": "def run(docs):\n    return docs\n",
    "birds/heron.yaml": "include: likelihood/birds_owl.yaml\ntask: heron\nmetadata: {version: 1}\n",
    "words/words.yaml": "task: words\ndataset_path: x\ntest_split: test\ndoc_to_text: q\n",
}
OURS = ("--tasks", "birds,words", "--include_path")


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        file = tmp_path / "tasks" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "tasks"


def exported(tasks: Path, *names: str) -> list[str]:
    """The files that were written for these names, besides the folder's code."""
    out = tasks.parent / "out" / "-".join(names)
    arguments = ["export", str(out), "--to", "lm-eval", "--include_path", str(tasks)]
    assert main([*arguments, "--tasks", *names]) == 0
    return sorted(str(path.relative_to(out)) for path in out.rglob("*.*") if path.suffix != ".py")


def test_what_is_exported_loads_as_the_same_tasks(tasks: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["export", str(out), "--to", "lm-eval", "--include_path", str(tasks)]
    assert main([*arguments, "--tasks", "birds", "heron", "words"]) == 0
    here, there = TaskLibrary([tasks]), TaskLibrary([out])
    assert there.tasks == here.tasks == ["birds_owl", "birds_swift", "heron", "words"]
    assert (there.groups, there.tags) == (here.groups, here.tags) == (["birds"], ["feathered"])
    for name in here.tasks:
        one, other = here.one(name), there.one(name)
        assert isinstance(one, TaskSpec)
        assert isinstance(other, TaskSpec)
        for key in ("doc_to_text", "doc_to_target", "dataset_name", "description", "version"):
            assert getattr(one, key) == getattr(other, key), (name, key)
    swift = there.one("birds_swift")
    assert isinstance(swift, TaskSpec)
    assert (swift.description, swift.doc_to_text, swift.version) == ("Fast.", "{{q}}", "1.10")
    assert swift.process_docs is not None
    assert swift.process_docs.load()([7]) == [7]


def test_only_what_is_named_and_what_it_needs_is_written(tasks: Path) -> None:
    birds = ["birds/likelihood/birds_owl.yaml", "birds/likelihood/birds_swift.yaml"]
    assert exported(tasks, "words") == ["words/words.yaml"]
    assert exported(tasks, "birds_owl") == birds[:1]
    assert exported(tasks, "heron") == ["birds/heron.yaml", birds[0]]
    assert exported(tasks, "birds") == ["birds/birds.yaml", *birds]
    assert exported(tasks, "feathered") == ["birds/heron.yaml", *birds]
    out = tasks.parent / "out" / "birds_owl" / "birds"
    assert sorted(path.name for path in out.iterdir()) == [
        *("_base", "_likelihood", "likelihood", "own.py"),
    ]


def test_a_task_under_one_of_several_prompts_is_exported_as_the_task(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["export", str(out), "--to", "lm-eval", "--tasks", "demo_facts@*"]) == 0
    assert (out / "demo" / "demo_facts.yaml").is_file()


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["--to", "lm_eval", *OURS], 2, "--to: expected lm-eval, got 'lm_eval' (did you mean lm-"),
        (OURS, 2, "--to: expected lm-eval, got nothing: write --to lm-eval"),
        (
            ["--to", "lm-eval", "--tasks", "wrods", "--include_path"],
            11,
            "--tasks: There is no task, group or tag 'wrods' (did you mean words",
        ),
    ],
)
def test_a_wrong_option_is_told_in_a_sentence_and_nothing_is_written(
    tasks: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    status: int,
    told: str,
) -> None:
    assert main(["export", str(tmp_path / "out"), *arguments, str(tasks)]) == status
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_something_is_left_as_it_is(
    tasks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in tasks.rglob("*")}
    assert main(["export", str(tasks), "--to", "lm-eval"]) == 2
    assert f"DIR: {tasks} is not empty: name a new or empty folder" in capsys.readouterr().err
    assert main(["export", str(tasks / "birds" / "_base"), "--to", "lm-eval"]) == 2
    assert "is a file: name a new or empty folder" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in tasks.rglob("*")} == before


def test_two_files_for_one_place_are_told(
    tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other" / "words" / "words.yaml"
    other.parent.mkdir(parents=True)
    other.write_text(FILES["words/words.yaml"].replace("task: words", "task: phrases"))
    arguments = ["export", str(tmp_path / "out"), "--to", "lm-eval", "--tasks", "words,phrases"]
    assert main([*arguments, "--include_path", str(tasks), str(tmp_path / "other")]) == 11
    assert "would both be written to words/words.yaml" in capsys.readouterr().err


def test_a_file_outside_the_folders_of_tasks_is_told(
    tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "elsewhere").write_text("dataset_path: x\n")
    (tasks / "words" / "words.yaml").write_text(
        "include: ../../elsewhere\ntask: words\ntest_split: test\n"
    )
    arguments = ["export", str(tmp_path / "out"), "--to", "lm-eval", "--tasks", "words"]
    assert main([*arguments, "--include_path", str(tasks)]) == 11
    assert f"{tmp_path}/elsewhere lies in none of the folders" in capsys.readouterr().err


def test_a_tasks_file_is_shown_in_full(tasks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--include_path", str(tasks)]
    assert main(["show", "--file", "--tasks", "birds_swift,heron", *where]) == 0
    task, heron = capsys.readouterr().out.split("\n\n")
    assert task.startswith(f"# birds_swift, of {tasks}/birds/family.yaml\ntask: birds_swift\n")
    assert heron.startswith(f"# heron, of {tasks}/birds/heron.yaml\ntask: heron\n")
    assert yaml.safe_load(task.replace("!function ", "")) == {
        "task": "birds_swift",
        "dataset_path": "org/birds",
        "test_split": "test",
        "description": "Fast.",
        "doc_to_text": "{{q}}",
        "dataset_name": "swift",
        "process_docs": "own.run",
        "doc_to_target": "b",
        "tag": "feathered",
        "metadata": {
            "benchmark": "birds",
            "version": 1.1,
            "style": "likelihood",
            "changelog": {"1.10": "first"},
        },
    }
    assert "version: 1.10\n" in task
    assert main(["show", "--file", "--tasks", "birds", *where]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["task"] == ["birds_owl", "birds_swift"]
