"""`evalcore export`, `show --file` and `validate`: tasks as files, in full, and whether they build;
`new-task` and `pin`: a task that is written, and what each version of it asks."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalcore.authoring.build_check import BuildReport, build_checks
from evalcore.authoring.checklist import PLACEHOLDER
from evalcore.cli import main
from evalcore.errors import TaskError
from evalcore.task.identity import lock as pins
from evalcore.task.identity.lock import LOCK, Pin, pinned_commit, read_pins
from evalcore.task.library.load import TaskLibrary
from evalcore.task.yaml_file import OWN_TASKS
from tests.evalcore.toys import records_in, write_toy, write_toys
from tests.evalcore.worlds import task_in, write_tasks
from tests.hub import ROOT, run_client, serve

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
    exported(tasks, "birds", "heron", "words")
    here, there = TaskLibrary([tasks]), TaskLibrary([tmp_path / "out" / "birds-heron-words"])
    assert there.tasks == here.tasks == ["birds_owl", "birds_swift", "heron", "words"]
    assert (there.groups, there.tags) == (here.groups, here.tags) == (["birds"], ["feathered"])
    for name in here.tasks:
        one, other = task_in(here, name), task_in(there, name)
        for key in ("doc_to_text", "doc_to_target", "dataset_name", "description", "version"):
            assert getattr(one, key) == getattr(other, key), (name, key)
    swift = task_in(there, "birds_swift")
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


# `evalcore validate` really builds tasks, and survives what their code does


CODE = """
import os, sys, time
def leave(docs):
    sys.exit("I leave")
def crash(docs):
    os.abort()
def hang(docs):
    time.sleep(6000)
def shout(docs):
    print("noise")
    return docs
"""
CHOICE = {"output_type": "multiple_choice", "doc_to_choice": ["a", "b"]}


def reports(
    folder: Path, tasks: Mapping[str, Mapping[str, Any]], seconds: float = 600
) -> dict[str, BuildReport]:
    """Builds a task with these keys for each entry; `code` names its process_docs."""
    (folder / "code.py").write_text(CODE)
    rows = folder / "rows.jsonl"
    rows.write_text('{"question": "one?", "answer": "a"}\n' * 3)
    defaults = {
        "dataset_path": "json",
        "dataset_kwargs": {
            "data_files": {"test": str(rows)},
            "cache_dir": str(folder.parent / "cache"),
        },
        "test_split": "test",
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{answer}}",
    }
    files = {}
    for name, stated in tasks.items():
        keys = {"task": name, **defaults, **stated}
        function = keys.pop("code", None)
        text = f"process_docs: !function code.{function}\n" if function else ""
        files[f"{name}.yaml"] = yaml.safe_dump(keys) + text
    specs = write_tasks(folder, files).select(sorted(tasks))
    return {report.task: report for report in build_checks(specs, time_limit=seconds, limit=2)}


def test_a_task_that_exits_crashes_or_hangs_takes_no_other_with_it(tmp_path: Path) -> None:
    functions = {"b": "leave", "c": "crash", "d": "shout", "e": "nowhere"}
    tasks = {name: {"code": function} for name, function in functions.items()}
    found = reports(tmp_path, {"a": {}, **tasks, "f": {}})
    assert list(found) == ["a", "b", "c", "d", "e", "f"]
    assert [name for name, report in found.items() if report.ok] == ["a", "d", "f"]
    assert found["a"] == BuildReport(task="a", ok=True, requests=2)
    assert "SystemExit: I leave" in found["b"].reason
    assert "ended the process (exit status -6)" in found["c"].reason
    assert "!function code.nowhere" in found["e"].reason
    assert found["d"].capability == "functions"

    found = reports(tmp_path, {"a": {"code": "hang"}}, seconds=0.5)
    assert "longer than 0.5 s" in found["a"].reason


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "example": ({"num_fewshot": 1, "fewshot_config": {"samples": [{"question": "x"}]}}, "answer"),
    "metric": ({"metric_list": [{"metric": "exact_mach"}]}, "there is no metric 'exact_mach'"),
    "column": (
        {**CHOICE, "doc_to_target": "anwser"},
        "there is no column 'anwser' (did you mean answer",
    ),
    "number": (
        {**CHOICE, "doc_to_target": 7},
        "the right answer is 7, which is none of the 2 choices",
    ),
    "text": (
        {**CHOICE, "doc_to_choice": ["b", "c"]},
        "the right answer is 'a', which is none",
    ),
    "constant": (
        {"doc_to_target": "key"},
        "is 'key'; there is no column 'key': there are question, answ",
    ),
}


def test_wrong_examples_scores_and_answers_that_none_could_give_are_told(tmp_path: Path) -> None:
    tasks = {name: keys for name, (keys, _) in WRONG.items()}
    right = {"empty": {"doc_to_target": ""}, "choice": {**CHOICE, "doc_to_target": "b"}}
    found = reports(tmp_path, {**tasks, **right})
    assert [name for name in found if found[name].ok] == ["choice", "empty"]
    for name, (_, complaint) in WRONG.items():
        assert complaint in found[name].reason


def test_compat_scores_such_documents_0_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = write_toys(tmp_path)
    write_toy(tasks, "toy_choice", doc_to_target="anwser")
    command = ["run", "--model", "dummy", "--tasks", "toy_choice", "--include_path", str(tasks)]
    assert main([*command, "--limit", "5", "--output_path", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "toy_choice: of 5 documents the right answer is none of the choices" in said
    assert records_in(tmp_path)["toy_choice"].unanswerable == {"toy_choice": 5}


# `new-task` makes a folder, `validate` says what is missing, `pin` holds what a version asks


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "tasks"


def made(folder: Path, *more: str) -> int:
    return main(["new-task", "riddles", "--dataset", "org/riddles", "--folder", str(folder), *more])


def filled_in(folder: Path) -> None:
    """Everything that the author has to say, said."""
    for file in folder.rglob("*"):
        if file.is_file() and PLACEHOLDER in (text := file.read_text()):
            file.write_text(text.replace(PLACEHOLDER, "Said"))


def valid(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    capsys.readouterr()
    where = ["--include_path", str(folder)]
    return main(["validate", "--own_rows", "--tasks", "riddles*", *where]), capsys.readouterr().out


@pytest.mark.parametrize(("kind", "count"), [("choice", 4), ("generate", 1)])
def test_a_new_task_is_one_folder_that_becomes_valid_once_it_is_filled_in(
    folder: Path, capsys: pytest.CaptureFixture[str], kind: str, count: int
) -> None:
    assert made(folder, "--kind", kind) == 0
    steps = capsys.readouterr().out
    assert f"evalcore validate --own_rows --tasks riddles --include_path {folder}" in steps
    status, told = valid(folder, capsys)
    assert status == 1
    assert f"{count} of {count} tasks can be built" in told
    assert f"README.md: it still says {PLACEHOLDER}" in told
    assert f"the sample rows still say {PLACEHOLDER}" in told
    filled_in(folder)
    status, told = valid(folder, capsys)
    assert f"{count} of {count} tasks pass the checklist" in told
    assert status == 0
    where = ["--include_path", str(folder)]
    assert main(["show", "--own_rows", "--tasks", "riddles", *where]) == 0
    assert "Question: Said 0?\nAnswer:" in capsys.readouterr().out
    assert main(["pin", str(folder)]) == 0


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
    folder: Path, capsys: pytest.CaptureFixture[str], file: str, old: str, new: str, told: str
) -> None:
    made(folder)
    filled_in(folder)
    (folder / "riddles" / "own.py").write_text("def run(docs):\n    return docs\n")
    path = folder / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    status, said = valid(folder, capsys)
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
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    before = sorted(folder.rglob("*"))
    assert main(["new-task", *arguments, "--folder", str(folder)]) == 2
    assert told in capsys.readouterr().err
    assert sorted(folder.rglob("*")) == before


def test_a_folder_that_is_there_is_not_written_over(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert made(folder) == 0
    assert made(folder) == 2
    assert "is already there: choose another name" in capsys.readouterr().err


@pytest.fixture
def pinned(tmp_path: Path) -> Path:
    """A folder with the demo's tasks, pinned."""
    for part in ("demo", "samples/datasets/plumbline"):
        shutil.copytree(OWN_TASKS / part, tmp_path / "tasks" / part)
    assert main(["pin", str(tmp_path / "tasks")]) == 0
    return tmp_path / "tasks"


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def check(pinned: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    capsys.readouterr()
    return main(["pin", "--check", str(pinned)]), capsys.readouterr().out


def test_a_changed_prompt_needs_a_new_version(
    pinned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(pinned, capsys) == (0, "")
    change(pinned / "demo" / "_cloze", "Question:", "Q:")
    status, told = check(pinned, capsys)
    assert status == 1
    assert "demo_facts 1.0: what it asks and its configuration changed under the same" in told
    assert "give the task a new metadata.version" in told
    assert main(["pin", str(pinned)]) == 1, "what is pinned is never overwritten"
    assert check(pinned, capsys)[0] == 1
    for name in ("demo_facts", "demo_sums"):
        change(pinned / "demo" / f"{name}.yaml", "version: 1.0", "version: 1.1")
    status, told = check(pinned, capsys)
    assert status == 1
    assert "demo_facts 1.1 is not pinned: run `evalcore pin`" in told
    assert main(["pin", str(pinned)]) == 0
    assert {("demo_facts", "1.0"), ("demo_facts", "1.1")} <= read_pins(pinned / LOCK).keys()
    assert check(pinned, capsys)[0] == 0


def test_words_about_a_task_may_change_and_what_changes_the_score_may_not(
    pinned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(pinned / "demo" / "demo_facts.yaml", "A made-up world", "An invented world")
    assert check(pinned, capsys) == (0, "")

    change(pinned / "demo" / "_demo", "higher_is_better: true", "higher_is_better: false")
    status, told = check(pinned, capsys)
    assert status == 1
    assert "demo_facts 1.0: its configuration changed" in told


def test_without_rows_a_task_cannot_be_pinned(
    pinned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(pinned / "samples")
    status, told = check(pinned, capsys)
    assert status == 1
    assert "demo_facts cannot be pinned: The sample rows of plumbline/demo-world" in told
    assert "there are none: write" in told


@pytest.mark.parametrize(
    ("line", "told"),
    [("demo_facts 1.0 asks:x", "no pin"), ("{first}", "is pinned twice")],
)
def test_a_damaged_lock_names_its_line(pinned: Path, line: str, told: str) -> None:
    lock = pinned / LOCK
    first = next(entry for entry in lock.read_text().splitlines() if not entry.startswith("#"))
    lock.write_text(f"{lock.read_text()}{line.format(first=first)}\n")
    with pytest.raises(TaskError, match=rf"{LOCK}:\d+: .*{told}"):
        read_pins(lock)


def test_update_reads_commits_from_the_hub_and_never_a_local_hubs_for_our_own(
    pinned: Path, tmp_path: Path
) -> None:
    command = "from evalcore.cli import main; raise SystemExit(main(['pin', '--update', {}]))"
    with serve([ROOT / "demo" / "content"]) as url:
        run_client(command.format(repr(str(pinned))), url, tmp_path / "home")
        with pytest.raises(AssertionError, match="--update: the commits of our own tasks are"):
            run_client(command.format(repr(str(OWN_TASKS))), url, tmp_path / "home")
    written = read_pins(pinned / LOCK).values()
    commits = {pin.commit for pin in written if pin.dataset == "plumbline/demo-world"}
    assert len(commits) == 1
    assert len(str(commits.pop())) == 40
    before = (pinned / LOCK).read_bytes()
    with pytest.raises(AssertionError, match=r"InfraError: --update: .* does not answer .*nothing"):
        run_client(command.format(repr(str(pinned))), url, tmp_path / "home")
    assert (pinned / LOCK).read_bytes() == before


def test_a_pinned_commit_is_read_from_the_public_hub_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    spec = task_in(TaskLibrary([OWN_TASKS]), "arc_easy")
    pinned = Pin("arc_easy", spec.version, "a", "c", "allenai/ai2_arc", "f" * 40)
    monkeypatch.setattr(pins, "_own_pins", lambda: {pinned.key: pinned})
    monkeypatch.setattr(constants, "ENDPOINT", pins.PUBLIC_HUB)
    assert pinned_commit(spec) == "f" * 40
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:7777")
    assert pinned_commit(spec) is None
