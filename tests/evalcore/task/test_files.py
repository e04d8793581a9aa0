"""Reading task files: includes, names, groups, and mistakes told all at once."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.errors import TaskError
from evalcore.keys import run_key
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.library.load import TaskLibrary
from evalcore.task.parse import TASK_KINDS
from evalcore.task.yaml_file import OWN_TASKS, TaskFileReader
from tests.evalcore.worlds import write_tasks
from tests.hub import ROOT

CLOZE = """
dataset_path: org/data
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: choices
doc_to_target: answer
"""


def task_of(library: TaskLibrary, name: str) -> TaskSpec:
    spec = library.one(name)
    assert isinstance(spec, TaskSpec)
    return spec


def group_of(library: TaskLibrary, name: str) -> GroupSpec:
    spec = library.one(name)
    assert isinstance(spec, GroupSpec)
    return spec


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
    spec = task_of(library, "a")
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
    assert task_of(library, "a").metadata == {"version": 2}
    assert task_of(library, "b").metadata == {"version": 1, "note": "base"}


def test_two_files_may_include_the_same_third(tmp_path: Path) -> None:
    library = write_tasks(
        tmp_path,
        {
            "_root": CLOZE,
            "_left": "include: _root\ndescription: left",
            "_right": "include: _root\ngen_prefix: right",
            "a.yaml": "include: [_left, _right]\ntask: a",
        },
    )
    spec = task_of(library, "a")
    assert (spec.description, spec.gen_prefix) == ("left", "right")


def test_a_missing_include_names_the_file_that_asks_for_it(tmp_path: Path) -> None:
    library = write_tasks(tmp_path, {"a.yaml": "include: nowhere\ntask: a"})
    for name in (str(tmp_path / "a.yaml"), "a"):
        with pytest.raises(TaskError, match=r"a\.yaml:1: include: there is no file .*nowhere"):
            library.select([name])
    with pytest.raises(TaskError, match=r"no task, group or tag 'b'.*1 task files could not be"):
        library.select(["b"])


@given(
    edges=st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=10, unique=True
    )
)
def test_a_cycle_of_includes_is_an_error_and_nothing_else_is(
    edges: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("includes")
    for file in range(6):
        included = [f"f{to}.yaml" for origin, to in edges if origin == file]
        (folder / f"f{file}.yaml").write_text(f"include: {included}\nkey{file}: {file}\n")
    reached, cyclic = _walk(edges, 0)
    if cyclic:
        with pytest.raises(TaskError, match="cycle"):
            TaskFileReader().read(folder / "f0.yaml")
    else:
        values = TaskFileReader().read(folder / "f0.yaml").values
        assert values == {f"key{file}": file for file in reached}


def _walk(edges: list[tuple[int, int]], start: int) -> tuple[set[int], bool]:
    """What is reachable from `start`, and whether some path from it comes back to itself."""
    reached: set[int] = set()
    paths: list[tuple[int, ...]] = [(start,)]
    while paths:
        path = paths.pop()
        reached.add(path[-1])
        for origin, to in edges:
            if origin == path[-1]:
                if to in path:
                    return reached, True
                paths.append((*path, to))
    return reached, False


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


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("output_type: multiple-choice", "output_type: expected one of multiple_choice"),
        ("fewshot_config: {sampler: first_n, splits: dev}", r"fewshot_config\.splits: unknown key"),
        ("filter_list: [{name: x}]", r"filter_list\[0\]\.filter: expected a list of mappings"),
        ("metadata: {benchmark: b, style: clozed}", r"metadata\.style: expected one of cloze"),
        ("metadata: {benchmark: b, primary_metrik: acc}", "did you mean primary_metric"),
        ("metadata: {benchmark: b, chance: 25}", r"metadata\.chance: expected a number from 0 to"),
        ("doc_to_choice: null", "doc_to_choice: missing"),
        ("repeats: 0", "repeats: expected a whole number from 1, got int 0"),
        ("generation_kwargs: {until: 3}", r"generation_kwargs\.until: expected text or a list"),
        ("dataset_kwargs: {revision: 12}", r"dataset_kwargs\.revision: expected text or null"),
        ("fewshot_config: {fewshot_indices: [a]}", "expected a list of whole numbers from 0"),
        (
            "filter_list: [{name: x, filter: []}, {name: x, filter: []}]",
            r"filter_list\[1\]\.name: 'x' is the name of another one",
        ),
        ("gold_alias: answer", r"gold_alias: unknown key \(doc_to_target says what is right\)"),
        ("metric_list:\n  - metric: acc\n  - {metric: 3}", r"a\.yaml:5: metric_list\[1\]\.metric"),
    ],
)
def test_each_kind_of_mistake_has_its_sentence(tmp_path: Path, line: str, complaint: str) -> None:
    library = write_tasks(tmp_path, {"_base": CLOZE, "a.yaml": f"include: _base\ntask: a\n{line}"})
    with pytest.raises(TaskError, match=complaint):
        library.select(["a"])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.floats(0, 2) | st.sampled_from(["", "acc"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["metric", "name", "filter", "function", "task"]), inner)
    ),
    max_leaves=4,
)


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
    assert task_of(write_tasks(tmp_path, files), "a").task == "a"
    assert warning in caplog.text


def test_a_weight_that_is_no_flag_is_refused_in_our_own_files_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = "group: g\ntask: [a]\naggregate_metric_list: [{metric: acc, weight_by_size: truez}]"
    files = {"a.yaml": CLOZE + "task: a", "g.yaml": group}
    (entry,) = group_of(write_tasks(tmp_path, files), "g").aggregate_metric_list
    assert entry.weight_by_size is True  # as in lm-eval, for any text
    assert "g.yaml:3: aggregate_metric_list[0].weight_by_size: expected true or" in caplog.text
    monkeypatch.setattr("evalcore.task.yaml_file.OWN_TASKS", tmp_path)
    with pytest.raises(TaskError, match="weight_by_size: expected true or false, got 'truez'"):
        group_of(write_tasks(tmp_path, files), "g")


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


@given(
    values=st.dictionaries(st.sampled_from([*TASK_KINDS, "include", "group", "what"]), VALUES),
)
@settings(max_examples=150, deadline=None)
def test_whatever_a_file_says_it_is_a_task_or_a_mistake_that_is_told(values: Any) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.yaml"
        path.write_text(yaml.safe_dump({"task": "a", **values}))
        with suppress(TaskError):
            for spec in TaskLibrary([]).select([str(path)]):
                assert isinstance(spec, TaskSpec | GroupSpec)


def test_other_peoples_metadata_may_say_what_it_likes(tmp_path: Path) -> None:
    library = write_tasks(
        tmp_path, {"a.yaml": CLOZE + "task: a\nmetadata: {version: 2.0, style: haiku, chance: low}"}
    )
    about = task_of(library, "a").about
    assert (about.version, about.style, about.benchmark) == ("2.0", None, "a")


def test_version_1_10_is_not_version_1_1(tmp_path: Path) -> None:
    metadata = "{{version: {0}, benchmark: b, changelog: {{1.1: older, 1.10: newer}}}}"
    files = {
        f"{name}.yaml": f"{CLOZE}task: {name}\nmetadata: {metadata.format(version)}\n"
        for name, version in {"a": "1.10", "b": "1.1", "c": "'1.10'", "d": "2"}.items()
    }
    library = write_tasks(tmp_path, {**files, "e.yaml": "include: a.yaml\ntask: e\n"})
    specs = {name: task_of(library, name) for name in "abcde"}
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


def test_an_unknown_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    library = write_tasks(tmp_path, {"a.yaml": CLOZE + "task: arc_easy"})
    with pytest.raises(TaskError, match=r"'arc_eazy' \(did you mean arc_easy\?\)"):
        library.select(["arc_eazy"])
    with pytest.raises(TaskError, match="no task, group or tag 'z\\*'"):
        library.select(["z*"])


def test_a_task_in_two_selected_groups_is_refused(tmp_path: Path) -> None:
    library = write_tasks(tmp_path, {"a.yaml": CLOZE + "task: a", "g.yaml": "group: g\ntask: [a]"})
    with pytest.raises(TaskError, match="The task a is asked for twice, by g and by a"):
        library.select(["g", "a"])


def test_a_later_folder_overrides_an_earlier_one(tmp_path: Path) -> None:
    write_tasks(tmp_path / "one", {"a.yaml": CLOZE + "task: a\ndescription: one"})
    write_tasks(tmp_path / "two", {"x.yaml": CLOZE + "task: a\ndescription: two"})
    library = TaskLibrary([tmp_path / "one", tmp_path / "two"])
    assert task_of(library, "a").description == "two"


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="no folder of tasks"):
        TaskLibrary([tmp_path / "nowhere"])


@pytest.mark.parametrize("group", ["[ai2_arc]", "ai2_arc"])
def test_the_old_key_group_in_a_task_file_is_a_tag(
    tmp_path: Path, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    library = write_tasks(tmp_path, {"a.yaml": CLOZE + f"task: a\ngroup: {group}"})
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
    outer = group_of(library, "outer")
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
    a, b, c = group_of(library, "g").leaves()
    assert (a.num_fewshot, b.num_fewshot, b.alias) == (2, 5, "Bee")
    # What the outer group says wins over the inner group's own.
    assert (c.num_fewshot, c.repeats) == (2, 3)
    assert task_of(library, "a").num_fewshot is None


def test_groups_and_tasks_may_be_defined_inside_a_group(tmp_path: Path) -> None:
    library = write_tasks(
        tmp_path,
        GROUPS
        | {
            "g.yaml": "group: g\ntask:\n  - {group: part, task: [a, b]}\n"
            "  - {task: d, dataset_path: org/d, test_split: test}",
        },
    )
    outer = group_of(library, "g")
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


def test_reading_tasks_runs_no_task_code_and_imports_nothing_heavy(tmp_path: Path) -> None:
    write_tasks(
        tmp_path,
        {
            "a.yaml": CLOZE + "task: a\nprocess_docs: !function bomb.process",
            "bomb.py": "raise SystemExit('task code was run')",
        },
    )
    code = (
        "import sys; from pathlib import Path; from evalcore.task.library.load import TaskLibrary\n"
        "from evalcore.task.identity.digest import config_digest\n"
        "import evalcore.task.library.suite\n"
        f"library = TaskLibrary([Path({str(tmp_path)!r}), Path('tasks')])\n"
        "print([config_digest(library.one(name))[:0] for name in ('a', 'mmlu')])\n"
        "heavy = {'torch', 'datasets', 'transformers', 'django', 'celery'} & set(sys.modules)\n"
        "sys.exit(','.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


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
        function = task_of(library, name).process_docs
        assert function is not None
        return function.load()("docs")

    # A function belongs to the file that names it, also when that file is included elsewhere.
    assert [run(name) for name in "abcd"] == ["base folder", "base folder", "subfolder", '"docs"']


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("process", "has no module"),
        ("utils.proces", "cannot be loaded: AttributeError"),
        ("nowhere.process", "cannot be loaded: ModuleNotFoundError"),
        ("exits.process", "cannot be loaded: SystemExit"),
        ("utils.number", "is a int, not a function"),
    ],
)
def test_a_function_that_cannot_be_had_says_why(tmp_path: Path, name: str, complaint: str) -> None:
    library = write_tasks(
        tmp_path,
        {
            "a.yaml": CLOZE + f"task: a\nprocess_docs: !function {name}",
            "utils.py": "number = 3",
            "exits.py": "import sys; sys.exit(3)",
        },
    )
    function = task_of(library, "a").process_docs
    assert function is not None
    with pytest.raises(TaskError, match=complaint):
        function.load()


def test_metadata_that_are_no_mapping_state_no_version_as_in_lm_eval(
    tmp_path: Path, caplog
) -> None:
    text = "task: a\ndataset_path: x\ntest_split: test\nmetadata: [{version: 2}]\n"
    spec = write_tasks(tmp_path, {"a.yaml": text}).one("a")
    assert (spec.metadata, spec.about.version) == ({"_metadata": [{"version": 2}]}, "Yaml")
    assert "a.yaml:4: metadata: expected a mapping" in caplog.text
