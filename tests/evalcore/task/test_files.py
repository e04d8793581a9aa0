"""Reading task files: includes, names, groups, and mistakes told all at once; and what this version
cannot run, refused by task, key and value before any data is loaded."""

from __future__ import annotations

import copy
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalcore.errors import TaskError
from evalcore.keys import run_key
from evalcore.refusals import check_supported
from evalcore.task.config import GroupSpec
from evalcore.task.functions import FunctionRef
from evalcore.task.identity.digest import config_digest
from evalcore.task.library.load import TaskLibrary
from evalcore.task.yaml_file import OWN_TASKS, TaskFileReader
from tests.evalcore.worlds import World, group_in, task_in, write_tasks
from tests.hub import ROOT

CLOZE = """
dataset_path: org/data
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: choices
doc_to_target: answer
"""


def names_in(spec: GroupSpec) -> list[str]:
    return [leaf.name for leaf in spec.leaves()]


# Includes


def test_own_keys_win_over_includes_and_later_includes_over_earlier(tmp_path: Path) -> None:
    library = write_tasks(
        tmp_path,
        {
            "_base": CLOZE + "description: base\ntarget_delimiter: base\nfewshot_delimiter: base",
            "_more": "target_delimiter: more\nfewshot_delimiter: more",
            "a.yaml": "include: [_base, _more]\ntask: a\nfewshot_delimiter: own",
        },
    )
    spec = task_in(library, "a")
    assert (spec.description, spec.target_delimiter, spec.fewshot_delimiter) == (
        "base",
        "more",
        "own",
    )


def test_an_include_is_replaced_key_by_key_not_merged_into(tmp_path: Path) -> None:
    library = write_tasks(
        tmp_path,
        {
            "_base": CLOZE + "metadata: {version: 1, note: base}",
            "deep/a.yaml": "include: ../_base\ntask: a\nmetadata: {version: 2}",
            "b.yaml": f"include: {tmp_path}/_base\ntask: b",
        },
    )
    assert task_in(library, "a").metadata == {"version": 2}
    assert task_in(library, "b").metadata == {"version": 1, "note": "base"}


def test_an_include_that_cannot_be_followed_is_told(tmp_path: Path) -> None:
    library = write_tasks(tmp_path, {"a.yaml": "include: nowhere\ntask: a"})
    for name in (str(tmp_path / "a.yaml"), "a"):
        with pytest.raises(TaskError, match=r"a\.yaml:1: include: there is no file .*nowhere"):
            library.select([name])
    with pytest.raises(TaskError, match=r"no task, group or tag 'b'.*1 task files could not be"):
        library.select(["b"])

    (tmp_path / "a.yaml").write_text("include: [3]\n")
    with pytest.raises(TaskError, match=r"a\.yaml:1: include: expected a file name, got 3"):
        TaskFileReader().read(tmp_path / "a.yaml")

    for file, included in {"a": "b", "b": "c", "c": "b"}.items():
        (tmp_path / f"{file}.yaml").write_text(f"include: {included}.yaml\n")
    with pytest.raises(TaskError, match="cycle"):
        TaskFileReader().read(tmp_path / "a.yaml")


# Mistakes


def test_all_mistakes_of_a_file_are_told_at_once_with_line_and_remedy(tmp_path: Path) -> None:
    text = CLOZE.replace("test_split", "tset_split") + "num_fewshot: five\nrepeats: -1\ntask: a\n"
    library = write_tasks(
        tmp_path, {"_base": text, "a.yaml": "include: _base\nmetric_list: [{metric: 3}, {}]"}
    )
    with pytest.raises(TaskError) as caught:
        library.select(["a"])
    message = str(caught.value)
    assert "The task a has 6 problems" in message
    assert f"{tmp_path}/_base:3: tset_split: unknown key (did you mean test_split" in message
    assert "test_split: missing: name the split to score" in message
    assert "_base:8: num_fewshot: expected a whole number from 0 or null, got str 'five'" in message
    assert "_base:9: repeats: expected a whole number from 1, got int -1" in message
    assert f"{tmp_path}/a.yaml:2: metric_list[0].metric: expected text or !function" in message
    assert "metric_list[1].metric: missing" in message


def test_each_kind_of_mistake_has_its_sentence(tmp_path: Path) -> None:
    wrong = """
include: _base
task: a
output_type: multiple-choice
fewshot_config: {splits: dev, fewshot_indices: [a]}
filter_list: [{name: x}, {name: x, filter: []}]
metadata: {benchmark: b, style: clozed, primary_metrik: acc, chance: 25}
repeats: 0
generation_kwargs: {until: 3}
dataset_kwargs: {revision: 12}
gold_alias: answer
metric_list:
  - metric: acc
  - {metric: 3}
"""
    without_choices = "include: _base\ntask: b\ndoc_to_choice: null"
    library = write_tasks(tmp_path, {"_base": CLOZE, "a.yaml": wrong, "b.yaml": without_choices})
    with pytest.raises(TaskError) as caught:
        library.select(["a"])
    for complaint in (
        "output_type: expected one of multiple_choice",
        "fewshot_config.splits: unknown key",
        "fewshot_config.fewshot_indices: expected a list of whole numbers from 0",
        "filter_list[0].filter: expected a list of mappings",
        "filter_list[1].name: 'x' is the name of another one",
        "metadata.style: expected one of cloze",
        "did you mean primary_metric",
        "metadata.chance: expected a number from 0 to",
        "repeats: expected a whole number from 1, got int 0",
        "generation_kwargs.until: expected text or a list",
        "dataset_kwargs.revision: expected text or null",
        "gold_alias: unknown key (doc_to_target says what is right)",
        "a.yaml:14: metric_list[1].metric",
    ):
        assert complaint in str(caught.value)
    with pytest.raises(TaskError, match="doc_to_choice: missing"):
        library.select(["b"])


@pytest.mark.parametrize(
    ("line", "warning"),
    [
        ("doc_to_text: b\ndoc_to_text: c", "a.yaml:4: the key 'doc_to_text' is given twice"),
        ("metadata: {x: {y: 1, y: 2}}", "a.yaml:3: the key 'y' is given twice; this one counts"),
        (
            "metric_list: [{metric: acc, agregation: mean}]",
            "a.yaml:3: metric_list[0].agregation: the metric itself is given this (did you mean",
        ),
    ],
)
def test_what_lm_eval_lets_pass_and_nobody_means_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, line: str, warning: str
) -> None:
    files = {"_base": CLOZE, "a.yaml": f"include: _base\ntask: a\n{line}"}
    assert task_in(write_tasks(tmp_path, files), "a").task == "a"
    assert warning in caplog.text


def test_a_weight_that_is_no_flag_is_refused_in_our_own_files_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = "group: g\ntask: [a]\naggregate_metric_list: [{metric: acc, weight_by_size: truez}]"
    files = {"a.yaml": CLOZE + "task: a", "g.yaml": group}
    (entry,) = group_in(write_tasks(tmp_path, files), "g").aggregate_metric_list
    assert entry.weight_by_size is True  # as in lm-eval, for any text
    assert "g.yaml:3: aggregate_metric_list[0].weight_by_size: expected true or" in caplog.text
    monkeypatch.setattr("evalcore.task.yaml_file.OWN_TASKS", tmp_path)
    with pytest.raises(TaskError, match="weight_by_size: expected true or false, got 'truez'"):
        group_in(write_tasks(tmp_path, files), "g")


def test_a_mistake_in_what_a_group_overrides_is_placed_in_the_groups_file(tmp_path: Path) -> None:
    entry = "group: g\ntask:\n  - task: a\n    num_fewshots: 3\nrepeatz: 2"
    with pytest.raises(TaskError) as caught:
        write_tasks(tmp_path, {"a.yaml": CLOZE + "task: a", "g.yaml": entry}).select(["g"])
    assert "g.yaml:4: num_fewshots: unknown key (did you mean num_fewshot" in str(caught.value)
    assert "g.yaml:5: repeatz: unknown key (did you mean repeats" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"task: a\ndescription: caf\xe9\n", "a.yaml:2: the line is not UTF-8"),
        (b"task: 5\n", "a.yaml:1: task: expected text, got 5: quote it"),
    ],
)
def test_a_file_whose_name_or_text_cannot_be_read_is_reported(
    tmp_path: Path, content: bytes, complaint: str
) -> None:
    (tmp_path / "a.yaml").write_bytes(content)
    (reason,) = TaskLibrary([tmp_path]).unreadable.values()
    assert complaint in reason


def test_other_peoples_metadata_may_say_what_it_likes(tmp_path: Path) -> None:
    library = write_tasks(
        tmp_path, {"a.yaml": CLOZE + "task: a\nmetadata: {version: 2.0, style: haiku, chance: low}"}
    )
    about = task_in(library, "a").about
    assert (about.version, about.style, about.benchmark) == ("2.0", None, "a")


def test_version_1_10_is_not_version_1_1(tmp_path: Path) -> None:
    metadata = "{{version: {0}, benchmark: b, changelog: {{1.1: older, 1.10: newer}}}}"
    files = {
        f"{name}.yaml": f"{CLOZE}task: {name}\nmetadata: {metadata.format(version)}\n"
        for name, version in {"a": "1.10", "b": "1.1", "c": "'1.10'", "d": "2"}.items()
    }
    library = write_tasks(tmp_path, {**files, "e.yaml": "include: a.yaml\ntask: e\n"})
    specs = {name: task_in(library, name) for name in "abcde"}
    versions = {name: spec.version for name, spec in specs.items()}
    assert versions == {"a": "1.10", "b": "1.1", "c": "1.10", "d": "2", "e": "1.10"}
    assert specs["a"].about.changelog == {"1.1": "older", "1.10": "newer"}
    keys = {name: run_key(spec, shots=0, mode="strict") for name, spec in specs.items()}
    assert keys["a"] != keys["b"]
    # Task code, and lm-eval's own files, have the number.
    copied = copy.deepcopy(specs["a"])
    assert copied.version == "1.10"
    assert json.dumps(copied.metadata["version"]) == "1.1"
    (again,) = library.select(["a"], metadata={"note": "more"})
    assert again.version == "1.10"


def test_what_is_no_yaml_is_reported_and_harms_no_other_file(tmp_path: Path) -> None:
    library = write_tasks(
        tmp_path,
        {"a.yaml": CLOZE + "task: a", "b.yaml": "task: [", "c.yaml": "- list", "d.yaml": "x: y"},
    )
    assert library.tasks == ["a"]
    assert sorted(path.name for path in library.unreadable) == ["b.yaml", "c.yaml"]


def test_our_own_files_may_neither_repeat_a_key_nor_write_a_number_that_yaml_reads_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twice = tmp_path / "twice.yaml"
    twice.write_text("task: a\ntask: b\n")
    exponent = tmp_path / "exponent.yaml"
    exponent.write_text("metadata: {rate: 1e-3}\n")
    assert TaskFileReader().read(twice).values == {"task": "b"}
    assert TaskFileReader().read(exponent).values == {"metadata": {"rate": "1e-3"}}

    monkeypatch.setattr("evalcore.task.yaml_file.OWN_TASKS", tmp_path)
    with pytest.raises(TaskError, match="the key 'task' is given twice"):
        TaskFileReader().read(twice)
    with pytest.raises(TaskError, match="1e-3 is read as text"):
        TaskFileReader().read(exponent)
    assert OWN_TASKS == ROOT / "tasks"


# Names


def test_names_mean_tasks_groups_tags_patterns_and_files(tmp_path: Path) -> None:
    library = write_tasks(
        tmp_path,
        {
            "_base": CLOZE,
            "a1.yaml": "include: _base\ntask: a1\ntag: letters",
            "a2.yaml": "include: _base\ntask: a2\ntag: [letters, even]",
            "b.yaml": "include: _base\ntask: b",
            "g.yaml": "group: g\ntask: [b]",
        },
    )
    assert (library.tasks, library.groups, library.tags) == (
        ["a1", "a2", "b"],
        ["g"],
        ["even", "letters"],
    )

    def selected(*names: str) -> list[str]:
        return [spec.name for spec in library.select(names)]

    assert selected("letters", "g") == ["a1", "a2", "g"]
    assert selected("a*") == ["a1", "a2"]
    assert selected("a2", "even", "a1") == ["a2", "a1"]
    assert selected(str(tmp_path / "b.yaml")) == ["b"]


def test_names_that_mean_nothing_or_one_task_twice_are_refused(tmp_path: Path) -> None:
    library = write_tasks(tmp_path, {"a.yaml": CLOZE + "task: arc_easy"})
    with pytest.raises(TaskError, match=r"'arc_eazy' \(did you mean arc_easy\?\)"):
        library.select(["arc_eazy"])
    with pytest.raises(TaskError, match="no task, group or tag 'z\\*'"):
        library.select(["z*"])

    library = write_tasks(tmp_path, {"a.yaml": CLOZE + "task: a", "g.yaml": "group: g\ntask: [a]"})
    with pytest.raises(TaskError, match="The task a is asked for twice, by g and by a"):
        library.select(["g", "a"])


def test_a_later_folder_overrides_an_earlier_one(tmp_path: Path) -> None:
    write_tasks(tmp_path / "one", {"a.yaml": CLOZE + "task: a\ndescription: one"})
    write_tasks(tmp_path / "two", {"x.yaml": CLOZE + "task: a\ndescription: two"})
    library = TaskLibrary([tmp_path / "one", tmp_path / "two"])
    assert task_in(library, "a").description == "two"


def test_a_name_that_a_later_folder_takes_over_is_told_where_it_is_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A task of one's own that joins `ai2_arc` is all that there is of it then."""
    ours = {f"{name}.yaml": CLOZE + f"task: {name}\ntag: [pair, all]" for name in "abcdef"}
    write_tasks(tmp_path / "ours", ours | {"g.yaml": "group: g\ntask: [a, b, c, d, e, f]"})
    own = {"x.yaml": CLOZE + "task: x\ntag: pair", "a.yaml": CLOZE + "task: a", "g.yaml": ""}
    write_tasks(tmp_path / "own", own)
    library = TaskLibrary([tmp_path / "ours", tmp_path / "own"])
    library.select(["b", "all"])
    asked = [record.getMessage() for record in caplog.records]
    assert asked == [f"a is {tmp_path}/own/a.yaml, which replaces {tmp_path}/ours/a.yaml"]
    caplog.clear()
    assert [spec.name for spec in library.select(["pai*"])] == ["x"]
    (told,) = [record.getMessage() for record in caplog.records]
    assert told == "pair is the tag of x, which replaces the tag of a, b, c and 3 more"
    caplog.clear()
    library.select(["g"])
    assert "a is " in caplog.text
    caplog.clear()
    TaskLibrary([tmp_path / "ours", tmp_path / "ours"]).select(["g"])
    assert not caplog.records
    write_tasks(tmp_path / "all", {f"{n}.yaml": CLOZE + f"task: {n}" for n in "abcdef"})
    TaskLibrary([tmp_path / "ours", tmp_path / "all"]).select(["g"])
    assert len(caplog.records) == 4
    assert caplog.records[-1].getMessage().startswith("so it is with 3 more names under ")


def test_the_old_key_group_in_a_task_file_is_a_tag(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    library = write_tasks(tmp_path, {"a.yaml": CLOZE + "task: a\ngroup: [ai2_arc]"})
    assert [spec.name for spec in library.select(["ai2_arc"])] == ["a"]
    assert (library.groups, library.tags) == ([], ["ai2_arc"])
    assert "a.yaml:9: group in the file of one task is read as tag" in caplog.text


# Groups


GROUPS = {
    "_base": CLOZE,
    "a.yaml": "include: _base\ntask: a\ntag: pair",
    "b.yaml": "include: _base\ntask: b\ntag: pair",
    "c.yaml": "include: _base\ntask: c",
}


def test_groups_nest_and_take_tags_apart(tmp_path: Path) -> None:
    library = write_tasks(
        tmp_path,
        GROUPS
        | {
            "inner.yaml": "group: inner\ngroup_alias: Inner\ntask: [pair]",
            "outer.yaml": "group: outer\ntask: [inner, c]\nmetadata: {version: 3}\n"
            "aggregate_metric_list: {metric: acc, filter_list: none}",
        },
    )
    outer = group_in(library, "outer")
    assert names_in(outer) == ["a", "b", "c"]
    assert [group.alias for group in outer.groups()] == ["outer", "Inner"]
    assert outer.version == "3"
    (aggregate,) = outer.aggregate_metric_list
    assert (aggregate.metric, aggregate.filter_list, aggregate.weight_by_size) == (
        "acc",
        ("none",),
        True,
    )


def test_a_group_overrides_its_tasks_and_an_entry_overrides_the_group(tmp_path: Path) -> None:
    library = write_tasks(
        tmp_path,
        GROUPS
        | {
            "g.yaml": "group: g\nnum_fewshot: 2\ntask:\n"
            "  - a\n  - {task: b, num_fewshot: 5, task_alias: Bee}\n  - {group: inner, repeats: 3}",
            "inner.yaml": "group: inner\ntask: [c]\nnum_fewshot: 7",
        },
    )
    a, b, c = group_in(library, "g").leaves()
    assert (a.num_fewshot, b.num_fewshot, b.alias) == (2, 5, "Bee")
    # What the outer group says wins over the inner group's own.
    assert (c.num_fewshot, c.repeats) == (2, 3)
    assert task_in(library, "a").num_fewshot is None


def test_groups_and_tasks_may_be_defined_inside_a_group(tmp_path: Path) -> None:
    library = write_tasks(
        tmp_path,
        GROUPS
        | {
            "g.yaml": "group: g\ntask:\n  - {group: part, task: [a, b]}\n"
            "  - {task: d, dataset_path: org/d, test_split: test}",
        },
    )
    outer = group_in(library, "g")
    assert [group.name for group in outer.groups()] == ["g", "g::part"]
    assert names_in(outer) == ["a", "b", "g::d"]


@pytest.mark.parametrize(
    ("members", "complaint"),
    [
        ("[a, bb]", r"g\.yaml:2: task: the group g names 'bb', which is no task.*"),
        ("[3]", "task: expected names, or mappings"),
        ("[g]", "the groups form a cycle: g -> g"),
    ],
)
def test_a_group_with_a_wrong_member_says_which(
    tmp_path: Path, members: str, complaint: str
) -> None:
    library = write_tasks(tmp_path, GROUPS | {"g.yaml": f"group: g\ntask: {members}"})
    with pytest.raises(TaskError, match=complaint):
        library.select(["g"])


# Code in task files


def test_reading_tasks_runs_no_task_code(tmp_path: Path) -> None:
    library = write_tasks(
        tmp_path,
        {
            "a.yaml": CLOZE + "task: a\nprocess_docs: !function bomb.process",
            "bomb.py": "raise SystemExit('task code was run')",
        },
    )
    assert len(config_digest(library.one("a"))) == 64


def test_a_function_is_found_beside_its_file_in_folders_and_in_installed_modules(
    tmp_path: Path,
) -> None:
    library = write_tasks(
        tmp_path,
        {
            "_base": CLOZE + "process_docs: !function utils.process",
            "utils.py": "def process(docs): return 'base folder'",
            "deep/utils.py": "def process(docs): return 'own folder'",
            "deep/more/code.py": "def process(docs): return 'subfolder'",
            "a.yaml": "include: _base\ntask: a",
            "deep/b.yaml": "include: ../_base\ntask: b",
            "deep/c.yaml": "include: ../_base\ntask: c\nprocess_docs: !function more.code.process",
            "deep/d.yaml": "include: ../_base\ntask: d\nprocess_docs: !function json.dumps",
        },
    )

    def run(name: str) -> object:
        function = task_in(library, name).process_docs
        assert function is not None
        return function.load()("docs")

    # A function belongs to the file that names it, also when that file is included elsewhere.
    assert [run(name) for name in "abcd"] == ["base folder", "base folder", "subfolder", '"docs"']


def test_a_function_that_cannot_be_had_says_why(tmp_path: Path) -> None:
    (tmp_path / "utils.py").write_text("number = 3")
    (tmp_path / "exits.py").write_text("import sys; sys.exit(3)")
    for name, complaint in (
        ("process", "has no module"),
        ("utils.proces", "cannot be loaded: AttributeError"),
        ("nowhere.process", "cannot be loaded: ModuleNotFoundError"),
        ("exits.process", "cannot be loaded: SystemExit"),
        ("utils.number", "is a int, not a function"),
        ("../utils.process", r"there is no such file\. A function is named by .* put the file"),
        ("/tmp/utils.process", "there is no such file"),
        (".utils.process", "there is no such file"),
    ):
        with pytest.raises(TaskError, match=complaint):
            FunctionRef(name, tmp_path).load()


# What cannot be run


ACC = {"metric": "acc"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        (
            {"doc_to_image": "picture", "output_type": "loglikelihood_rolling"},
            "doc_to_image: picture (output_type: loglikelihood_rolling asks how likely a text is,",
        ),
        ({"unsafe_code": True}, "unsafe_code: true (scoring runs code that the model wrote)"),
        (
            {"fewshot_config": {"sampler": "ballanced"}},
            "fewshot_config.sampler: ballanced is not known: write default or first_n or balanced",
        ),
        (
            {"metric_list": [ACC, {"metric": "acc_nrom"}]},
            "metric_list[1].metric: there is no metric 'acc_nrom' (did you mean acc_norm",
        ),
        (
            {"metric_list": [{**ACC, "aggregation": "meen"}]},
            "metric_list[0].aggregation: meen is not known (did you mean mean",
        ),
        ({"metric_list": []}, "metric_list: empty: name at least one"),
        ({"metric_list": [ACC, ACC]}, "metric_list: acc stands there 2 times: name it once"),
        (
            {"filter_list": [{"name": "x", "filter": [{"function": "take_furst"}]}]},
            "filter_list[0].filter[0].function: take_furst is not known (did you mean take_first",
        ),
        ({"filter_list": []}, "filter_list: empty"),
        (
            {"metadata": {"benchmark": "b", "primary_metric": "acc_norm"}},
            "metadata.primary_metric: acc_norm is not in metric_list, which has acc: name one",
        ),
    ],
)
def test_a_task_is_refused_by_key_value_and_remedy(
    world: World, monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any], complaint: str
) -> None:
    # Importing it takes seconds, and changes the environment of the tests that follow.
    monkeypatch.setitem(sys.modules, "evaluate", None)
    with pytest.raises(TaskError, match="capitals: " + re.escape(complaint)):
        check_supported(world.spec(dataset_path="nowhere", **keys))


def test_all_that_is_wrong_is_told_at_once(world: World) -> None:
    spec = world.spec(dataset_path="nowhere", unsafe_code=True, filter_list=[])
    with pytest.raises(TaskError) as caught:
        check_supported(spec)
    first, *lines = str(caught.value).splitlines()
    assert first.endswith("The task capitals cannot be run:")
    assert [line.split(":")[1] for line in lines] == [" unsafe_code", " filter_list"]


# Groups


def task_file(name: str, **keys: Any) -> str:
    return f"{CLOZE}task: {name}\n" + yaml.safe_dump({"metric_list": [ACC], **keys})


def library_of_group(folder: Path, **keys: Any) -> TaskLibrary:
    """A library with the group `g` of the tasks a and b, of which only b has acc_norm."""
    group = {"group": "g", "task": ["a", "b"], "aggregate_metric_list": [ACC], **keys}
    both = [ACC, {"metric": "acc_norm"}]
    files = {
        "a.yaml": task_file("a"),
        "b.yaml": task_file("b", metric_list=both),
        "g.yaml": yaml.safe_dump(group),
    }
    return write_tasks(folder, files)


def test_a_group_may_aggregate_a_metric_otherwise_under_another_filter(tmp_path: Path) -> None:
    entries = [
        {**ACC, "filter_list": "x"},
        {**ACC, "filter_list": "y", "weight_by_size": False},
        {"metric": "of_no_task"},  # lm-eval passes it over, and 18 of its groups have one
    ]
    check_supported(library_of_group(tmp_path, aggregate_metric_list=entries).one("g"))


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ({"aggregate_metric_list": [ACC, ACC]}, "g: aggregate_metric_list: acc stands there 2"),
        (
            {
                "aggregate_metric_list": [
                    {**ACC, "filter_list": ["x", "y"]},
                    {**ACC, "filter_list": "y"},
                ]
            },
            "g: aggregate_metric_list: acc under y stands there 2",
        ),
        (
            {"task": ["a", {"group": "inner", "task": ["a"]}]},
            "g: task: a is in it 2 times and would count as often",
        ),
        ({"task": []}, "g: task: it has no task: name at least one"),
        (
            {"metadata": {"benchmark": "b", "primary_metric": "acc_norm"}},
            "g: metadata.primary_metric: acc_norm is not in aggregate_metric_list, which has acc",
        ),
        ({"filter_list": []}, "a, b: filter_list: empty"),
    ],
)
def test_a_group_is_refused_by_key_value_and_remedy(
    tmp_path: Path, keys: dict[str, Any], complaint: str
) -> None:
    group = library_of_group(tmp_path, **keys).one("g")
    with pytest.raises(TaskError, match=re.escape(complaint)) as caught:
        check_supported(group)
    assert "The group g cannot be run:\n" in str(caught.value)


def test_a_problem_of_many_tasks_is_told_once(tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(57)]
    files = {f"{name}.yaml": task_file(name, filter_list=[]) for name in names}
    library = write_tasks(
        tmp_path, {**files, "g.yaml": yaml.safe_dump({"group": "g", "task": names})}
    )
    with pytest.raises(TaskError) as caught:
        check_supported(library.one("g"))
    assert str(caught.value).splitlines()[1:] == [
        "  t0, t1, t2 and 54 more: filter_list: empty, so nothing would be scored: name a filter, "
        "or leave it out"
    ]
