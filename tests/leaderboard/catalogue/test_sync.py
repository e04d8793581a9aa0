"""The tasks folder as rows: repeatable, all problems at once, and no silent change of a task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from evalcore.keys import run_key
from evalcore.task.library.load import TaskLibrary
from evalcore.task.metadata import STYLES
from leaderboard.catalogue import sync as catalogue
from leaderboard.catalogue.sync import CatalogueError
from leaderboard.models import Suite, SuiteEntry, TaskVersion
from leaderboard.models.task import Style
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_suites_become_columns_with_the_keys_of_their_runs(tasks: Path) -> None:
    synced = catalogue.sync(tasks)
    assert synced.tasks == ["facts 1.0", "facts_mmlu 1.0"]
    assert synced.suites == ["Small 1.0"]
    entries = list(SuiteEntry.objects.all())
    assert [(e.task.name, e.style, e.own) for e in entries] == [
        ("facts", "cloze", True),
        ("facts_mmlu", "mmlu", False),
    ]
    spec = TaskLibrary([tasks]).one("facts")
    chat = {"template": "own", "multiturn": True}
    assert entries[0].run_key == run_key(spec, shots=0, mode="strict")
    assert entries[0].chat_run_key == run_key(spec, shots=0, mode="strict", chat=chat)
    task = entries[0].task
    assert (task.primary_metric, task.chance, task.dataset) == ("acc", 0.25, "org/questions")


def test_a_changed_task_under_its_old_version_is_refused_with_both_digests(tasks: Path) -> None:
    catalogue.sync(tasks)
    old = TaskVersion.objects.get(name="facts").config_digest
    change(tasks / "facts.yaml", "Question:", "Q:")
    with pytest.raises(CatalogueError) as refused:
        catalogue.sync(tasks)
    problem = refused.value.problems[0]
    assert problem.startswith("facts.yaml: facts has changed")
    assert old in problem
    assert "raise metadata.version" in problem
    assert TaskVersion.objects.get(name="facts").config_digest == old
    change(tasks / "facts.yaml", "Q:", "Question:")
    change(tasks / "facts.yaml", "chance: 0.25", "chance: 0.5")
    with pytest.raises(CatalogueError, match=r"chance was 0\.25, is 0\.5"):
        catalogue.sync(tasks)


def test_a_changed_task_needs_a_new_version_of_the_suite_too(tasks: Path) -> None:
    catalogue.sync(tasks)
    change(tasks / "facts.yaml", "Question:", "Q:")
    change(tasks / "facts.yaml", "version: 1.0", "version: 1.1")
    with pytest.raises(CatalogueError, match=r"small\.yaml: the columns .* raise its version"):
        catalogue.sync(tasks)
    change(tasks / "suites" / "small.yaml", "version: 1.0", "version: 1.1")
    assert catalogue.sync(tasks).tasks == ["facts 1.1"]
    assert TaskVersion.objects.filter(name="facts").count() == 2
    assert Suite.objects.count() == 2, "the old columns stay readable"


def test_where_a_task_comes_from_is_read_from_its_readme(tasks: Path) -> None:
    catalogue.sync(tasks)
    assert set(TaskVersion.objects.values_list("origin", flat=True)) == {""}
    text = "# Facts\n\n- **Source**: ada 1843,\n  *Notes*.\n- **Shots**: 0.\n"
    (tasks / "README.md").write_text(text)
    catalogue.sync(tasks)
    assert TaskVersion.objects.get(name="facts").origin == "Ada 1843, *Notes*."


def test_words_of_a_suite_and_what_people_score_change_without_a_new_version(tasks: Path) -> None:
    catalogue.sync(tasks)
    before = Suite.objects.get().digest
    file = tasks / "suites" / "small.yaml"
    change(file, "notice: null", "notice: Only a test.")
    change(file, "title: Facts", "title: Known facts")
    people = 'metric: acc\n    people: {score: 0.9, source: "Ada et al. 1843: engineers"}'
    change(file, "metric: acc", people)
    SuiteEntry.objects.update(chat_run_key="")  # as on a site from before there were any
    catalogue.sync(tasks)
    assert not SuiteEntry.objects.filter(chat_run_key="").exists()
    assert (Suite.objects.get().notice, Suite.objects.get().digest) == ("Only a test.", before)
    assert set(SuiteEntry.objects.values_list("title", flat=True)) == {"Known facts"}
    entry = SuiteEntry.objects.filter(own=True).get()
    assert (entry.people, entry.people_source) == (0.9, "Ada et al. 1843: engineers")
    change(file, people, "metric: acc")
    catalogue.sync(tasks)
    assert not SuiteEntry.objects.exclude(people=None, people_source="").exists()


def test_all_problems_are_told_at_once_and_nothing_is_stored(tasks: Path) -> None:
    suite = (tasks / "suites" / "small.yaml").read_text()
    (tasks / "suites" / "typo.yaml").write_text(
        suite.replace("suite: small", "suite: typo").replace("mmlu: facts_mmlu", "mmlu: fakts")
    )
    (tasks / "suites" / "twice.yaml").write_text(
        suite.replace("suite: small", "suite: twice\nfewshot_seeds: [1, 1]")
    )
    with pytest.raises(CatalogueError) as refused:
        catalogue.sync(tasks)
    assert "fakts" in str(refused.value)
    assert "fewshot_seeds: expected at least one number, none of them twice" in str(refused.value)
    assert Suite.objects.count() == TaskVersion.objects.count() == 0
    change(tasks / "facts.yaml", "version: 1.0, ", "")
    with pytest.raises(CatalogueError, match=r"facts: metadata\.version is missing"):
        catalogue.sync(tasks)
    with pytest.raises(CatalogueError, match="nowhere"):
        catalogue.sync(tasks / "nowhere")


def test_the_board_knows_every_style_that_a_task_may_have() -> None:
    assert set(Style.values) == set(STYLES)


def test_the_projects_own_tasks_can_be_taken_over(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("sync_tasks")
    assert "new suite: " in capsys.readouterr().out
    call_command("sync_tasks")
    assert capsys.readouterr().out == "nothing new\n"
    for entry in SuiteEntry.objects.select_related("task"):
        assert (entry.task.benchmark, entry.task.style) == (entry.benchmark, entry.style)


def test_a_site_whose_suite_is_not_in_the_folder_is_told(tasks: Path, settings: Any) -> None:
    settings.PLUMBLINE_TASKS = tasks
    settings.PLUMBLINE_SUITE = "styles"
    with pytest.raises(CommandError, match="use one of small"):
        call_command("sync_tasks")


def test_a_new_version_of_a_suite_shows_what_was_measured_before(tasks: Path) -> None:
    catalogue.sync(tasks)
    first = Suite.objects.get()
    make.evaluated("lab/one", first, {"cloze": 0.7, "mmlu": 0.5})
    file = tasks / "suites" / "small.yaml"
    file.write_text(file.read_text().replace("version: 1.0", "version: 2.0"))
    catalogue.sync(tasks)
    second = Suite.objects.get(version="2.0")
    board = make.built(second)
    assert [model.repo_id for model in board.models] == ["lab/one"]
    assert board.ranked == 1
