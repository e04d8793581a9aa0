"""What each version of a task asks and how it scores is pinned, and a change is told."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from evalcore.authoring.pin import Pinner, problem_with
from evalcore.cli import main
from evalcore.errors import TaskError
from evalcore.task.identity.lock import LOCK, Pin, pinned_commit, read_pins
from evalcore.task.library.load import TaskLibrary
from evalcore.task.yaml_file import OWN_TASKS
from tests.hub import ROOT, run_client, serve


def test_every_task_of_ours_is_as_pinned() -> None:
    """Where this fails, the message says what to do."""
    library, pinner, pins = TaskLibrary([OWN_TASKS]), Pinner(OWN_TASKS), read_pins(OWN_TASKS / LOCK)
    names = [*library.tasks, *library.groups]
    assert len(names) > 3000
    wrong = [problem_with(pinner.pin(library.one(name)), pins) for name in names]
    assert not [problem for problem in wrong if problem]


def test_no_commit_is_invented() -> None:
    """Until somebody reads them from the Hub, by `evalcore pin --update`, all are null."""
    commits = {pin.commit for pin in read_pins(OWN_TASKS / LOCK).values()} - {None}
    assert all(len(str(commit)) == 40 for commit in commits)
    read = [pin for pin in read_pins(OWN_TASKS / LOCK).values() if pin.commit]
    assert not any(pin.dataset.startswith("plumbline/") for pin in read)


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """A folder with the demo's tasks, pinned."""
    for part in ("demo", "samples/datasets/plumbline"):
        shutil.copytree(OWN_TASKS / part, tmp_path / "tasks" / part)
    assert main(["pin", str(tmp_path / "tasks")]) == 0
    return tmp_path / "tasks"


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def check(tasks: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    capsys.readouterr()
    return main(["pin", "--check", str(tasks)]), capsys.readouterr().out


def test_a_changed_prompt_needs_a_new_version(
    tasks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(tasks, capsys) == (0, "")
    change(tasks / "demo" / "_cloze", "Question:", "Q:")
    status, told = check(tasks, capsys)
    assert status == 1
    assert "demo_facts 1.0: what it asks and its configuration changed under the same" in told
    assert "give the task a new metadata.version" in told
    assert main(["pin", str(tasks)]) == 1, "what is pinned is never overwritten"
    assert check(tasks, capsys)[0] == 1
    for name in ("demo_facts", "demo_sums"):
        change(tasks / "demo" / f"{name}.yaml", "version: 1.0", "version: 1.1")
    status, told = check(tasks, capsys)
    assert status == 1
    assert "demo_facts 1.1 is not pinned: run `evalcore pin`" in told
    assert main(["pin", str(tasks)]) == 0
    assert {("demo_facts", "1.0"), ("demo_facts", "1.1")} <= read_pins(tasks / LOCK).keys()
    assert check(tasks, capsys)[0] == 0


def test_what_changes_only_the_score_is_noticed_too(
    tasks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(tasks / "demo" / "_demo", "higher_is_better: true", "higher_is_better: false")
    status, told = check(tasks, capsys)
    assert status == 1
    assert "demo_facts 1.0: its configuration changed" in told


def test_words_about_a_task_may_change(tasks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(tasks / "demo" / "demo_facts.yaml", "A made-up world", "An invented world")
    assert check(tasks, capsys) == (0, "")


def test_without_rows_a_task_cannot_be_pinned(
    tasks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(tasks / "samples")
    status, told = check(tasks, capsys)
    assert status == 1
    assert "demo_facts cannot be pinned: The sample rows of plumbline/demo-world" in told
    assert "there are none: write" in told


@pytest.mark.parametrize(
    ("line", "told"),
    [("demo_facts 1.0 asks:x", "no pin"), ("{first}", "is pinned twice")],
)
def test_a_damaged_lock_names_its_line(tasks: Path, line: str, told: str) -> None:
    lock = tasks / LOCK
    first = next(entry for entry in lock.read_text().splitlines() if not entry.startswith("#"))
    lock.write_text(f"{lock.read_text()}{line.format(first=first)}\n")
    with pytest.raises(TaskError, match=rf"{LOCK}:\d+: .*{told}"):
        read_pins(lock)


def test_update_reads_commits_from_the_hub_and_never_a_local_hubs_for_our_own(
    tasks: Path, tmp_path: Path
) -> None:
    command = "from evalcore.cli import main; raise SystemExit(main(['pin', '--update', {}]))"
    with serve([ROOT / "demo" / "content"]) as url:
        run_client(command.format(repr(str(tasks))), url, tmp_path / "home")
        with pytest.raises(AssertionError, match="--update: the commits of our own tasks are"):
            run_client(command.format(repr(str(OWN_TASKS))), url, tmp_path / "home")
    pins = read_pins(tasks / LOCK).values()
    commits = {pin.commit for pin in pins if pin.dataset == "plumbline/demo-world"}
    assert len(commits) == 1
    assert len(str(commits.pop())) == 40
    written = (tasks / LOCK).read_bytes()
    with pytest.raises(AssertionError, match=r"InfraError: --update: .* does not answer .*nothing"):
        run_client(command.format(repr(str(tasks))), url, tmp_path / "home")
    assert (tasks / LOCK).read_bytes() == written


def test_a_pinned_commit_is_read_from_the_public_hub_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    from evalcore.task.config import TaskSpec
    from evalcore.task.identity import lock as pins

    spec: Any = TaskLibrary([OWN_TASKS]).one("arc_easy")
    assert isinstance(spec, TaskSpec)
    pinned = Pin("arc_easy", spec.version, "a", "c", "allenai/ai2_arc", "f" * 40)
    monkeypatch.setattr(pins, "_own_pins", lambda: {pinned.key: pinned})
    monkeypatch.setattr(constants, "ENDPOINT", pins.PUBLIC_HUB)
    assert pinned_commit(spec) == "f" * 40
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:7777")
    assert pinned_commit(spec) is None
