"""Families: tasks that a list means, in the styles of one file; nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalcore.errors import TaskError
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.library.load import TaskLibrary
from tests.evalcore.worlds import group_in, task_in

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


def task(folder: Path, name: str) -> TaskSpec:
    return task_in(TaskLibrary([folder]), name)


def group(folder: Path, name: str) -> GroupSpec:
    return group_in(TaskLibrary([folder]), name)


def changed(family: Path, old: str, new: str) -> None:
    text = family.read_text()
    assert old in text
    family.write_text(text.replace(old, new))


def line_of(file: Path, text: str) -> str:
    """`file:line` of the first line in which the text stands."""
    (line, *_) = (n for n, line in enumerate(file.read_text().splitlines(), 1) if text in line)
    return f"{file}:{line}: "


def test_a_family_is_asked_in_each_style_for_each_member(birds: Path, tmp_path: Path) -> None:
    library = TaskLibrary([tmp_path])
    assert not library.unreadable
    assert sorted(library.tasks) == [
        *("birds_owl", "birds_swift", "birds_upside_down_owl", "birds_upside_down_swift"),
        *("birds_upside_down_wren", "birds_wren"),
    ]
    owl, reversed_wren = task(tmp_path, "birds_owl"), task(tmp_path, "birds_upside_down_wren")
    assert owl.doc_to_text == "Q: {{question}}\nA:"
    assert reversed_wren.doc_to_text == "A: {{question}}"
    assert owl.dataset_name == "owl"
    assert owl.metadata == {"benchmark": "birds", "version": 2.0, "style": "cloze"}
    assert owl.source == birds
    assert reversed_wren.metadata["known_gaps"] == "Few rows."
    assert [path.name for path in birds.parent.iterdir()] == ["family.yaml"]


def test_a_familys_groups_follow_the_key_of_its_members_and_may_aggregate_one_filter(
    birds: Path, tmp_path: Path
) -> None:
    whole = group(tmp_path, "birds")
    assert [(group.name, group.alias) for group in whole.groups()] == [
        ("birds", "Birds"),
        ("birds_night", "At night"),
        ("birds_day", "day"),
    ]
    assert [leaf.name for leaf in whole.leaves()] == ["birds_owl", "birds_swift", "birds_wren"]

    changed(birds, "groups: {by", "groups: {filters: letter, by")
    for one in group(tmp_path, "birds").groups():
        assert [how.filter_list for how in one.aggregate_metric_list] == [("letter",)]


def test_a_folder_or_its_list_stands_for_the_whole_family(birds: Path) -> None:
    for name in (birds.parent, birds):
        specs = TaskLibrary([]).select([str(name)])
        assert [spec.name for spec in specs] == ["birds", "birds_upside_down"]


# Names are known before anything is made


def test_a_change_of_a_list_or_of_the_styles_is_seen_at_once(birds: Path, tmp_path: Path) -> None:
    assert task(tmp_path, "birds_owl").doc_to_text == "Q: {{question}}\nA:"
    changed(tmp_path / "styles.yaml", '"Q: "', '"Question: "')
    assert task(tmp_path, "birds_owl").doc_to_text == "Question: {{question}}\nA:"
    changed(birds, "name: owl", "name: eagle owl")
    assert "birds_eagle owl" in TaskLibrary([tmp_path]).tasks


def test_tags_come_from_the_family_and_from_what_it_includes(birds: Path, tmp_path: Path) -> None:
    (birds.parent / "_base").write_text("tag: feathered\ndataset_path: org/birds\n")
    changed(birds, "dataset_path: org/birds", "include: _base")
    changed(birds, "{name: owl,", "{name: owl, keys: {tag: [hooting, '<<kind>>']},")
    library = TaskLibrary([tmp_path])
    assert library.tags == ["feathered", "hooting", "night"]
    assert {spec.name for spec in library.select(["hooting"])} == {
        *("birds_owl", "birds_upside_down_owl"),
    }
    assert len(library.select(["feathered"])) == 4
    assert task(tmp_path, "birds_owl").dataset_path == "org/birds"


# Files beside a family


def test_a_task_of_its_own_may_include_what_a_style_or_a_task_of_the_family_says(
    birds: Path, tmp_path: Path
) -> None:
    (birds.parent / "_birds.yaml").write_text(
        "include: _upside-down\ntask: by_style\ndataset_name: heron\n"
    )
    (birds.parent / "heron.yaml").write_text("include: cloze/birds_owl.yaml\ntask: by_task\n")
    library = TaskLibrary([tmp_path])
    assert not library.unreadable
    assert task(tmp_path, "by_style").doc_to_text == "A: {{question}}"
    assert task(tmp_path, "by_style").dataset_name == "heron"
    assert task(tmp_path, "by_style").metadata == {}, "one member has metadata of its own"
    assert task(tmp_path, "by_task").dataset_name == "owl"
    assert task(tmp_path, "by_task").doc_to_text == "Q: {{question}}\nA:"


def test_code_lies_beside_the_family_whichever_file_names_it(birds: Path, tmp_path: Path) -> None:
    named = "process_docs: !function own.run\n      metric_list: ["
    changed(tmp_path / "styles.yaml", "metric_list: [", named)
    (birds.parent / "own.py").write_text("def run(docs):\n    return docs\n")
    function = task(tmp_path, "birds_owl").process_docs
    assert function is not None
    assert function.folder == birds.parent
    assert function.load()([1]) == [1]


def test_a_file_that_an_older_release_wrote_is_no_task(birds: Path, tmp_path: Path) -> None:
    """It may say what the list once said."""
    old = birds.parent / "cloze" / "birds_owl.yaml"
    old.parent.mkdir()
    old.write_text(
        "# Written by `evalcore families` from family.yaml: change that and run it again.\n"
        "task: birds_owl\ndataset_path: org/old\ntest_split: test\n"
    )
    library = TaskLibrary([tmp_path])
    assert f"{old} is left over from a release" in library.unreadable[old]
    assert "delete the file" in library.unreadable[old]
    assert task(tmp_path, "birds_owl").dataset_path == "org/birds"


def test_what_the_list_means_is_not_changed_by_a_file_of_that_name(
    birds: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (birds.parent / "a.yaml").write_text("task: birds_owl\ndataset_path: x\ntest_split: t\n")
    assert task(tmp_path, "birds_owl").dataset_path == "org/birds"
    assert "birds_owl is defined twice" in caplog.text
    assert "a.yaml is ignored" in caplog.text


# Mistakes


@pytest.mark.parametrize(
    ("change", "line", "told"),
    [
        (("cloze, upside-down]", "cloze, sideways]"), "styles:", "styles of styles.yaml, or one"),
        (("styles: [cloze,", "styles: 3 #"), "styles:", "expected a list or a mapping of keys"),
        (("{name: owl,", "{nam: owl,"), "nam: owl", "each member has a `name`"),
        (("{name: swift,", "{name: owl,"), "owl, kind: day", "named twice: owl"),
        (
            ("{name: swift,", "{name: swift, keys: 3,"),
            "swift",
            "expected a mapping of keys",
        ),
        (("family: birds", "famly: birds"), "famly", "unknown key (did you mean family"),
        (("title: Birds", "title: [3]"), "title", "expected text, got list"),
        (("groups: {by:", "groups: {bye:"), "groups:", "groups.bye: unknown key (did you mean by"),
        (("members:", "members: 3\nnot:"), "members:", "expected a list of mappings, got int 3"),
        (("title: Birds", "names: birds"), "styles:", "birds is the name of two tasks"),
        (("title: Birds", "names: <<1>>"), "names:", "names: expected text, got 1"),
    ],
)
def test_a_wrong_list_says_what_is_wrong_and_on_which_line(
    birds: Path, tmp_path: Path, change: tuple[str, str], line: str, told: str
) -> None:
    changed(birds, *change)
    library = TaskLibrary([tmp_path])
    reason = library.unreadable[birds]
    assert told in reason
    assert line_of(birds, line) in reason
    if "famly" not in change[1]:
        with pytest.raises(TaskError) as caught:
            library.one("birds_owl")
        assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("change", "line", "told"),
    [
        (("<<name>>", "<<nam>>"), "keys:", "dataset_name: '<<nam>>' cannot be filled in: 'nam'"),
        (("<<name>>", "<<name +>>"), "keys:", "'<<name +>>' cannot be filled in"),
        (("<<name>>", "'<<[1] | map(\"string\")>>'"), "keys:", "it gives a generator, which no"),
        (("doc_to_target:", "doc_to_targt:"), "keys:", "unknown key (did you mean doc_to_target"),
        (("test_split: test", "test_split: 3"), "keys:", "test_split: expected text"),
        (("owl, kind: night", "owl, keys: {test_split: null}"), "owl", "test_split: missing"),
        (("version: 2.0", "publish_samples: odd"), "metadata:", "expected one of full"),
        (("owl, kind: night", "owl, metadata: {chance: 7}"), "owl", "metadata.chance: expected"),
    ],
)  # fmt: skip
def test_a_wrong_task_names_the_line_of_the_list(
    birds: Path, tmp_path: Path, change: tuple[str, str], line: str, told: str
) -> None:
    changed(birds, *change)
    with pytest.raises(TaskError) as caught:
        task(tmp_path, "birds_owl")
    assert told in str(caught.value)
    assert line_of(birds, line) in str(caught.value)


def test_a_mistake_that_shows_in_a_style_names_both_lines(birds: Path, tmp_path: Path) -> None:
    changed(birds, "rows: {question: question, choices: choices}", "rows: {choices: c}")
    with pytest.raises(TaskError) as caught:
        task(tmp_path, "birds_owl")
    said = str(caught.value)
    assert "'question' is undefined" in said
    assert line_of(tmp_path / "styles.yaml", "doc_to_text") in said
    assert "(for the member 'owl' in the style cloze, " in said
    assert f"{birds}:6)" in said
