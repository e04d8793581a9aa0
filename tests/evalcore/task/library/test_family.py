"""Families: task files written from one list, in the styles of one file."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from evalcore.cli import main
from evalcore.errors import TaskError
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.family_files import differences, family_files, write
from evalcore.task.library.family import files_of
from evalcore.task.library.load import TaskLibrary
from evalcore.task.yaml_file import OWN_TASKS

STYLES = """\
rows: {before: "Q: ", after: "A:"}
styles:
  cloze:
    suffix: ""
    title: ""
    keys:
      doc_to_text: "<<before>>{{<<question>>}}\\n<<after>>"
      doc_to_choice: "{{<<choices>>}}"
      output_type: multiple_choice
      metric_list: [{metric: acc}]
  upside-down:
    suffix: _upside_down
    keys:
      doc_to_text: "<<after>> {{<<question>>}}"
      doc_to_choice: "{{<<choices>>}}"
      output_type: multiple_choice
      metric_list: [{metric: acc}]
    metadata: {style: hybrid}
"""
FAMILY = """\
family: birds
title: Birds
rows: {question: question, choices: choices}
keys: {dataset_path: org/birds, test_split: test, doc_to_target: answer, dataset_name: <<name>>}
metadata: {version: 2.0}
styles: [cloze, upside-down]
members:
  - {name: owl, kind: night}
  - {name: swift, kind: day}
  - {name: wren, kind: day, metadata: {known_gaps: "Few rows."}}
groups: {by: kind, titles: {night: At night}}
"""


@pytest.fixture
def birds(tmp_path: Path) -> Path:
    (tmp_path / "styles.yaml").write_text(STYLES)
    folder = tmp_path / "birds"
    folder.mkdir()
    (folder / "family.yaml").write_text(FAMILY)
    return folder / "family.yaml"


def test_a_family_is_asked_in_each_style_for_each_member(birds: Path, tmp_path: Path) -> None:
    write(birds)
    library = TaskLibrary([tmp_path])
    assert not library.unreadable
    assert sorted(library.tasks) == [
        *("birds_owl", "birds_swift", "birds_upside_down_owl", "birds_upside_down_swift"),
        *("birds_upside_down_wren", "birds_wren"),
    ]
    owl, reversed_wren = library.one("birds_owl"), library.one("birds_upside_down_wren")
    assert isinstance(owl, TaskSpec)
    assert isinstance(reversed_wren, TaskSpec)
    assert owl.doc_to_text == "Q: {{question}}\nA:"
    assert reversed_wren.doc_to_text == "A: {{question}}"
    assert owl.dataset_name == "owl"
    assert owl.metadata == {"benchmark": "birds", "version": 2.0, "style": "cloze"}
    assert reversed_wren.metadata["known_gaps"] == "Few rows."


def test_a_familys_groups_follow_the_key_of_its_members(birds: Path, tmp_path: Path) -> None:
    write(birds)
    whole = TaskLibrary([tmp_path]).one("birds")
    assert isinstance(whole, GroupSpec)
    assert [(group.name, group.alias) for group in whole.groups()] == [
        ("birds", "Birds"),
        ("birds_night", "At night"),
        ("birds_day", "day"),
    ]
    assert [leaf.name for leaf in whole.leaves()] == ["birds_owl", "birds_swift", "birds_wren"]


def test_a_familys_groups_may_aggregate_one_filter(birds: Path, tmp_path: Path) -> None:
    stated = birds.read_text()
    birds.write_text(stated.replace("groups: {by", "groups: {filters: letter, by"))
    write(birds)
    whole = TaskLibrary([tmp_path]).one("birds")
    assert isinstance(whole, GroupSpec)
    for group in whole.groups():
        assert [one.filter_list for one in group.aggregate_metric_list] == [("letter",)]


def test_what_the_list_no_longer_means_is_removed_and_what_people_wrote_stays(birds: Path) -> None:
    assert len(write(birds).wrong) == len(files_of(birds))
    assert not differences(birds)
    by_hand = birds.parent / "birds_by_hand.yaml"
    by_hand.write_text("task: birds_by_hand\n")
    birds.write_text(FAMILY.replace("  - {name: owl, kind: night}\n", ""))
    changes = differences(birds)
    assert {file.name for file in changes.left_over} == {
        *("birds_owl.yaml", "birds_upside_down_owl.yaml"),
        *("birds_night.yaml", "birds_upside_down_night.yaml"),
    }
    write(birds)
    assert not differences(birds)
    assert by_hand.exists()
    assert not (birds.parent / "cloze" / "birds_owl.yaml").exists()


def test_a_file_changed_by_hand_is_told_by_check_and_put_right(
    birds: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(birds.parent)
    assert main(["families", folder]) == 0
    assert main(["families", "--check", folder]) == 0
    changed = birds.parent / "cloze" / "birds_owl.yaml"
    changed.write_text(changed.read_text() + "num_fewshot: 3\n")
    capsys.readouterr()
    assert main(["families", "--check", folder]) == 1
    assert f"not as its list says: {changed}" in capsys.readouterr().out
    assert main(["families", folder]) == 0
    assert "num_fewshot" not in changed.read_text()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("styles: [cloze, upside-down]", "styles: [cloze, sideways]"), "sideways"),
        (("rows: {question: question, choices: choices}", "rows: {choices: c}"), "question"),
        (("{name: owl,", "{nam: owl,"), "each member has a `name`"),
        (("{name: swift,", "{name: owl,"), "named twice: owl"),
        (("family: birds", "famly: birds"), "unknown key (did you mean family"),
        (("groups: {by:", "groups: {bye:"), "groups.bye: unknown key (did you mean by"),
    ],
)
def test_a_wrong_list_says_what_is_wrong(birds: Path, change: tuple[str, str], told: str) -> None:
    birds.write_text(FAMILY.replace(*change))
    with pytest.raises(TaskError) as caught:
        files_of(birds)
    assert told in str(caught.value)


@given(text=st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=40))
def test_texts_come_through_unchanged(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    if "<<" in text or "<%" in text or "<#" in text:
        return
    folder = tmp_path_factory.mktemp("any") / "any"
    folder.mkdir()
    family = folder / "family.yaml"
    family.write_text(
        yaml.safe_dump({"family": "any", "keys": {"description": f"{text}\n{text} "}})
    )
    write(family)
    assert yaml.safe_load((folder / "any.yaml").read_text())["description"] == f"{text}\n{text} "


def test_our_own_families_files_are_as_their_lists_say() -> None:
    assert family_files(OWN_TASKS)
    for family in family_files(OWN_TASKS):
        assert not differences(family), f"run `evalcore families {family.parent}`"
