"""The index of a large folder is kept on disk, and is never out of date."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evalcore.errors import TaskError
from evalcore.task import yaml_file
from evalcore.task.config import TaskSpec
from evalcore.task.library.load import TaskLibrary

MANY = 600


def text(name: str, tag: str = "all") -> str:
    return f"task: {name}\ntag: {tag}\ndataset_path: x\ntest_split: test\ndoc_to_text: q\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A large folder of tasks; what is kept of it lies beside it."""
    monkeypatch.setenv("EVALCORE_CACHE", str(tmp_path / "cache"))
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    for number in range(MANY):
        (tasks / f"t{number}.yaml").write_text(text(f"t{number}"))
    (tasks / "broken.yaml").write_text("task: [")
    (tasks / "g.yaml").write_text("group: g\ntask: [t1, t2]\n")
    return tasks


def names(folder: Path) -> tuple[list[str], list[str], list[str], dict[Path, str]]:
    library = TaskLibrary([folder])
    return library.tasks, library.groups, library.tags, library.unreadable


def kept_in(folder: Path) -> list[Path]:
    return list((folder.parent / "cache").rglob("*.*"))


def test_a_kept_index_says_the_same_and_reads_no_task_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = names(folder)
    assert (len(made[0]), made[1], made[2]) == (MANY, ["g"], ["all"])
    assert [path.name for path in made[3]] == ["broken.yaml"]
    library = TaskLibrary([folder])
    assert [spec.name for spec in library.one("g").leaves()] == ["t1", "t2"]
    assert len(library.select(["all"])) == MANY

    def unwanted(path: Path) -> None:
        raise AssertionError(path)

    monkeypatch.setattr(yaml_file, "_parse", unwanted)
    assert names(folder) == made


def test_a_changed_new_or_lost_file_is_seen(folder: Path) -> None:
    names(folder)
    (folder / "t0.yaml").write_text(text("other", tag="new"))
    (folder / "deep").mkdir()
    (folder / "deep" / "more.yaml").write_text(text("more"))
    (folder / "t1.yaml").unlink()
    tasks, _, tags, _ = names(folder)
    assert {"other", "more"} <= set(tasks)
    assert not {"t0", "t1"} & set(tasks)
    assert tags == ["all", "new"]


def test_a_change_of_an_included_file_in_another_folder_is_seen(folder: Path) -> None:
    shared = folder.parent / "shared"
    shared.write_text("tag: old\n")
    (folder / "t0.yaml").write_text("include: ../shared\ntask: t0\n")
    assert "old" in names(folder)[2]
    shared.write_text("tag: newer\n")
    assert "newer" in names(folder)[2]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"state": 1}'])
def test_a_damaged_index_is_made_anew(folder: Path, damage: str) -> None:
    made = names(folder)
    (kept,) = kept_in(folder)
    kept.write_text(damage)
    assert names(folder) == made
    assert json.loads(kept.read_text())["entries"]


def test_a_cache_that_cannot_be_written_is_no_fault(folder: Path) -> None:
    (folder.parent / "cache").write_text("a file, in which nobody, root neither, can make a folder")
    assert names(folder)[1] == ["g"]
    assert (folder.parent / "cache").is_file()


def test_a_folder_of_families_is_kept_by_their_names_and_styles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVALCORE_CACHE", str(tmp_path / "cache"))
    tasks = tmp_path / "all" / "tasks"
    for number in range(12):
        (tasks / f"f{number}").mkdir(parents=True)
        (tasks / f"f{number}" / "family.yaml").write_text(
            f"family: f{number}\nkeys: {{tag: all, dataset_path: x, test_split: t}}\n"
            "members: [{name: a}, {name: b}]\ngroups: {}\n"
        )
    (tasks / "family.yaml").write_text("family: f\nstyles: [plain]\n")
    made = names(tasks)
    assert (len(made[0]), len(made[1]), made[2]) == (24, 12, ["all"])
    assert "styles of styles.yaml" in made[3][tasks / "family.yaml"]

    def unwanted(path: Path) -> None:
        raise AssertionError(path)

    with monkeypatch.context() as patch:
        patch.setattr(yaml_file, "_parse", unwanted)
        assert names(tasks) == made
    # What a family looked for beside the folder, and did not find there, comes to be.
    (tmp_path / "all" / "styles.yaml").write_text("styles: {plain: {keys: {tag: new}}}\n")
    tasks_now, _, tags, unreadable = names(tasks)
    assert "f_plain" in tasks_now
    assert (tags, unreadable) == (["all", "new"], {})


def test_a_small_folder_is_kept_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALCORE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "t.yaml").write_text(text("t"))
    assert isinstance(TaskLibrary([tmp_path]).one("t"), TaskSpec)
    assert not (tmp_path / "cache").exists()


# Names that are paths


def test_a_folder_a_file_and_a_pattern_of_files_are_names(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(text(name))
    (tmp_path / "g.yaml").write_text("group: g\ntask: [a, b]\n")
    (tmp_path / "template.yaml").write_text("dataset_path: x\n")
    library = TaskLibrary([])
    assert [spec.name for spec in library.select([str(tmp_path / "[ab].yaml")])] == ["a", "b"]
    assert [spec.name for spec in library.select([str(tmp_path / "a.yaml")])] == ["a"]
    (tmp_path / "a.yaml").unlink()
    (tmp_path / "g.yaml").unlink()
    assert [spec.name for spec in library.select([str(tmp_path)])] == ["b"]


def test_a_group_of_a_folder_may_name_the_tasks_beside_it(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(text("t"))
    (tmp_path / "g.yaml").write_text("group: g\ntask: [t]\n")
    assert [spec.name for spec in TaskLibrary([]).select([str(tmp_path)])] == ["g"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(TaskError, match="There is no task, group or tag"):
        TaskLibrary([]).select([str(tmp_path / "empty")])


def test_an_old_name_is_answered_with_the_new_one(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(text("t"))
    with pytest.raises(TaskError, match=r"an old name: write mmlu_anatomy"):
        TaskLibrary([tmp_path]).select(["hendrycksTest-anatomy"])
