"""Our own tasks and suites, lm-eval's folder, and the digest of what a task asks."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from evalcore.errors import TaskError
from evalcore.refusals import check_supported
from evalcore.task import yaml_file
from evalcore.task.identity.digest import (
    config_digest,
    doc_digest,
    doc_json,
    docs_digest,
    resolved_config,
)
from evalcore.task.library import index_file
from evalcore.task.library.load import TaskLibrary
from evalcore.task.library.suite import load_suite
from evalcore.task.metadata import STYLES
from evalcore.task.yaml_file import OWN_TASKS
from tests.evalcore.worlds import World, task_in, write_tasks
from tests.hub import TEST_DATA
from tests.services import missing


@pytest.fixture(scope="module")
def library() -> TaskLibrary:
    return TaskLibrary([OWN_TASKS])


def test_every_task_of_ours_can_be_read_and_says_what_the_board_needs(
    library: TaskLibrary,
) -> None:
    assert not library.unreadable
    for name in (*library.tasks, *library.groups):
        spec = library.one(name)
        check_supported(spec, confirm_unsafe=True)
        about = spec.about
        assert about.version != "Yaml", name
        assert about.style in STYLES, name
        assert about.primary_metric, name
        assert about.version in about.changelog, name


# Digests


def digest_with(tmp_path: Path, **keys: Any) -> str:
    return config_digest(World(tmp_path).spec(dataset_path="org/data", **keys))


def test_superglue_goes_under_its_tag_of_lm_eval(library: TaskLibrary) -> None:
    """Its diagnostics, which have a test split only, are no part of it there."""
    found = [spec.name for spec in library.select(["super-glue-lm-eval-v1"])]
    assert found == ["boolq", "cb", "copa", "multirc", "record", "sglue_rte", "wic", "wsc"]


def test_the_digest_of_a_task_is_that_of_what_it_asks_and_scores(tmp_path: Path) -> None:
    plain = digest_with(tmp_path)
    for same in (
        {"task": "renamed"},
        {"task_alias": "Renamed", "tag": ["some"]},
        {"metadata": {"version": 2, "benchmark": "b", "changelog": {1: "first"}}},
        {"num_fewshot": 3},
        {"dataset_kwargs": {"revision": "v2"}},
        {"description": ""},
        {"should_decontaminate": True, "doc_to_decontamination_query": "question"},
    ):
        assert digest_with(tmp_path, **same) == plain, same
    different = [
        {"doc_to_text": "{{question}}"},
        {"target_delimiter": "  "},
        {"description": "Answer."},
        {"dataset_name": "easy"},
        {"dataset_kwargs": {"data_files": "x"}},
        {"test_split": "train"},
        {"fewshot_config": {"sampler": "first_n"}},
        {"metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}]},
        {"filter_list": [{"name": "x", "filter": [{"function": "take_first"}]}]},
    ]
    digests = {digest_with(tmp_path, **keys) for keys in different}
    assert plain not in digests
    assert len(digests) == len(different)


def test_the_resolved_configuration_says_the_same_as_the_file(
    tmp_path: Path, library: TaskLibrary
) -> None:
    for name in ("arc_easy_mmlu", "mmlu_hybrid_virology"):
        spec = task_in(library, name)
        again = write_tasks(tmp_path, {f"{name}.yaml": yaml.safe_dump(resolved_config(spec))})
        assert config_digest(again.one(name)) == config_digest(spec)
    assert "description" not in resolved_config(library.one("arc_easy"))  # its default


def test_a_changed_function_is_loaded_again_and_changes_the_digest(tmp_path: Path) -> None:
    world = World(tmp_path)
    digests, results = set(), []
    for word in ("old", "new"):
        world.code(f"def run(docs): return {word!r}")
        spec = world.spec(dataset_path="org/data", functions={"process_docs": "run"})
        assert spec.process_docs is not None
        digests.add(config_digest(spec))
        results.append(spec.process_docs.load()([]))
    assert len(digests) == 2
    assert results == ["old", "new"]


def test_documents_have_digests_of_their_content() -> None:
    doc = {"question": "é", "choices": ["a", "b"], "score": float("nan"), "raw": b"\x00"}
    assert doc_digest(doc) == doc_digest(dict(reversed(doc.items())))
    assert doc_digest(doc) != doc_digest({**doc, "raw": b"\x01"})
    assert docs_digest(["a", "b"]) != docs_digest(["b", "a"])
    with pytest.raises(TaskError, match="the column 'image': object has no place in JSON"):
        doc_digest({"image": object()})


KEYS = [None, True, False, 3, 2.5, float("nan"), np.int64(7), datetime.date(2026, 1, 2), (1, 2)]


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_a_document_keeps_its_digest_once_it_was_written(key: Any) -> None:
    """A mapping's key may be anything; JSON knows texts alone."""
    for doc in ({"options": {key: "a"}}, {"options": [{key: 1}]}, {key: "a", "question": "b"}):
        assert doc_digest(json.loads(doc_json(doc))) == doc_digest(doc)


def test_a_group_digest_follows_its_members_and_its_weights(tmp_path: Path) -> None:
    def digest(text: str, weight: bool) -> str:
        library = write_tasks(
            tmp_path,
            {
                "a.yaml": "task: a\ndataset_path: x\ntest_split: test\noutput_type: loglikelihood\n"
                f"doc_to_text: {text}",
                "g.yaml": "group: g\ntask: [a]\naggregate_metric_list:\n"
                f"  - {{metric: acc, weight_by_size: {str(weight).lower()}}}",
            },
        )
        return config_digest(library.one("g"))

    assert digest("x", True) == digest("x", True)
    assert len({digest("x", True), digest("y", True), digest("x", False)}) == 3


@pytest.mark.parametrize("name", ["broken", "named_otherwise"])
def test_a_broken_file_that_is_asked_for_is_told_of_by_its_own_name(tmp_path, name):
    files = {
        "a_first.yaml": "task: [",
        "broken.yaml": "task: named_otherwise\nmetric_list: {",
        "fine.yaml": "task: fine\n",
    }
    library = write_tasks(tmp_path, files)
    with pytest.raises(TaskError, match=r"broken\.yaml is not valid YAML") as refused:
        library.one(name)
    assert "a_first" not in str(refused.value)


# Suites


SHOTS = {
    "open-llm-v1": [25, 10, 5, 0, 5, 5],
    "open-llm-v2": [0, 3, 4, 0, 0, 5],
    "styles": [0, 0],
    "styles-5shot": [5, 5],
}


def test_every_suite_of_ours_names_tasks_that_are_what_it_says(library: TaskLibrary) -> None:
    for file in (OWN_TASKS / "suites").glob("*.yaml"):
        suite = load_suite(file, library)
        assert suite.suite == file.stem
        assert suite.version in suite.changelog
        shots = [entry.shots for entry in suite.benchmarks]
        assert shots == SHOTS.get(suite.suite, [0] * len(shots)), suite.suite


def test_published_figures_stand_beside_the_suite_of_styles_as_reported_elsewhere(
    library: TaskLibrary,
) -> None:
    reported = load_suite(OWN_TASKS / "suites" / "styles.yaml", library).reported_elsewhere
    assert reported is not None
    golden = TEST_DATA.parent.parent / "golden" / "table1.json"
    if not golden.is_file():
        missing(f"the reference figures, {golden}")
    table = json.loads(golden.read_text())
    asked = [library.one(name).about for name in reported.columns]
    assert [f"{about.benchmark} {about.style}" for about in asked] == table["columns"]
    assert {model: [list(cell) for cell in row] for model, row in reported.rows.items()} == (
        table["rows"]
    )


def test_a_wrong_suite_tells_all_that_is_wrong(tmp_path: Path, library: TaskLibrary) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(
        "suite: wrong\ntitel: Wrong\nversion: 1\ndescription: ''\nbenchmarks:\n"
        "  - {benchmark: arc_easy, title: t, own: mmlu, shots: -1, metric: accc,\n"
        "     people: {score: 94, sorce: s},\n"
        "     styles: {cloze: arc_eazy, hybrid: arc_easy_mmlu}}\n"
        "reported_elsewhere: {source: s, columns: [piqa], rows: {some-model: [1.0]}}\n"
    )
    with pytest.raises(TaskError) as caught:
        load_suite(path, library)
    message = str(caught.value)
    for part in (
        "wrong.yaml:2: titel: unknown key (did you mean title",
        "title: missing",
        "benchmarks[0].own: expected one of cloze, hybrid, got str 'mmlu'",
        "benchmarks[0].shots: expected a whole number from 0",
        "benchmarks[0].people.score: expected a number from 0 to 1, got int 94",
        "benchmarks[0].people.sorce: unknown key (did you mean source",
        "benchmarks[0].people.source: missing",
        "reported_elsewhere.link: missing",
        "reported_elsewhere.columns: piqa is no task of this suite",
        "reported_elsewhere.rows: expected [value, half width] × 1",
        "benchmarks[0].styles.cloze: There is no task, group or tag 'arc_eazy' (did you mean arc_",
        "benchmarks[0].styles.hybrid: arc_easy_mmlu says that it is arc_easy in the style mmlu",
        "benchmarks[0].metric: expected a metric of arc_easy_mmlu (acc)",
    ):
        assert part in message


# The index of a large folder, which is kept on disk


MANY = 20


def text(name: str, tag: str = "all") -> str:
    return f"task: {name}\ntag: {tag}\ndataset_path: x\ntest_split: test\ndoc_to_text: q\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A large folder of tasks; what is kept of it lies beside it."""
    monkeypatch.setenv("EVALCORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(index_file, "_LARGE", MANY)
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


def test_a_change_of_a_file_or_of_what_it_includes_is_seen(folder: Path) -> None:
    names(folder)
    (folder / "t0.yaml").write_text(text("other", tag="new"))
    (folder / "deep").mkdir()
    (folder / "deep" / "more.yaml").write_text(text("more"))
    (folder / "t1.yaml").unlink()
    tasks, _, tags, _ = names(folder)
    assert {"other", "more"} <= set(tasks)
    assert not {"t0", "t1"} & set(tasks)
    assert tags == ["all", "new"]

    shared = folder.parent / "shared"
    shared.write_text("tag: old\n")
    (folder / "t0.yaml").write_text("include: ../shared\ntask: t0\n")
    assert "old" in names(folder)[2]
    shared.write_text("tag: newer\n")
    assert "newer" in names(folder)[2]


def test_a_damaged_index_is_made_anew(folder: Path) -> None:
    made = names(folder)
    (kept,) = kept_in(folder)
    for damage in ("{", "[]", '{"state": 1}'):
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


# Names that are paths


def test_names_may_be_paths(tmp_path: Path) -> None:
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

    (tmp_path / "g.yaml").write_text("group: g\ntask: [b]\n")
    assert [spec.name for spec in TaskLibrary([]).select([str(tmp_path)])] == ["g"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(TaskError, match="There is no task, group or tag"):
        TaskLibrary([]).select([str(tmp_path / "empty")])


def test_an_old_name_is_answered_with_the_new_one(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(text("t"))
    with pytest.raises(TaskError, match=r"an old name: write mmlu_anatomy"):
        TaskLibrary([tmp_path]).select(["hendrycksTest-anatomy"])
