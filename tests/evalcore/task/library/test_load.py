"""Our own tasks and suites, lm-eval's folder, and the digest of what a task asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalcore.errors import TaskError
from evalcore.refusals import check_supported
from evalcore.task.asking.task import Item
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.identity.digest import config_digest, doc_digest, docs_digest, resolved_config
from evalcore.task.library.load import TaskLibrary
from evalcore.task.library.suite import load_suite
from evalcore.task.metadata import STYLES
from evalcore.task.yaml_file import OWN_TASKS
from tests.evalcore.worlds import World, write_tasks
from tests.hub import TEST_DATA
from tests.services import missing


@pytest.fixture(scope="module")
def library() -> TaskLibrary:
    return TaskLibrary([OWN_TASKS])


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


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


@pytest.mark.parametrize("name", ["mmlu", "mmlu_hybrid"])
def test_mmlu_has_57_subjects_in_four_fields(library: TaskLibrary, name: str) -> None:
    mmlu = library.one(name)
    assert isinstance(mmlu, GroupSpec)
    fields = [group for group in mmlu.groups() if group is not mmlu]
    assert [len(list(field.leaves())) for field in fields] == [19, 13, 12, 13]
    assert len({leaf.dataset_name for leaf in mmlu.leaves()}) == 57
    assert all(
        leaf.description.endswith(f"about {str(leaf.dataset_name).replace('_', ' ')}.\n\n")
        for leaf in mmlu.leaves()
    )
    # Weighted by the number of questions, at every level.
    for group in mmlu.groups():
        assert all(entry.weight_by_size for entry in group.aggregate_metric_list)


# What our prompts look like


def asked(world: World, library: TaskLibrary, name: str, doc: dict[str, Any]) -> Item:
    """The document as the library's task of that name asks it."""
    spec = library.one(name)
    assert isinstance(spec, TaskSpec)
    keys = resolved_config(spec)
    keys.pop("dataset_name")
    (item,) = world.task(**{**keys, **world.data(train=[doc], dev=[doc], test=[doc])}).items()
    return item


def arc_row(labels: str, right: str) -> dict[str, Any]:
    texts = [f"text {label}" for label in labels]
    return {
        "question": "Which? ",
        "choices": {"text": texts, "label": list(labels)},
        "answerKey": right,
    }


@pytest.mark.parametrize(("labels", "right"), [("ABCD", "B"), ("1234", "2"), ("ABC", "B")])
def test_arc_uses_the_labels_of_the_row(
    world: World, library: TaskLibrary, labels: str, right: str
) -> None:
    row = arc_row(labels, right)
    cloze = asked(world, library, "arc_easy", row)
    mmlu = asked(world, library, "arc_easy_mmlu", row)
    hybrid = asked(world, library, "arc_easy_hybrid", row)
    listed = "".join(f"{label}. text {label}\n" for label in labels)
    assert cloze.prompt == "Question: Which? \nAnswer:"
    assert mmlu.prompt == hybrid.prompt == f"Which?\n{listed}Answer:"
    assert mmlu.choices == list(labels)
    assert cloze.choices == hybrid.choices == [f"text {label}" for label in labels]
    assert cloze.gold == mmlu.gold == hybrid.gold == [1]


def test_mmlu_is_asked_as_hendrycks_asks_it(world: World, library: TaskLibrary) -> None:
    row = {
        "question": "What is it?",
        "subject": "high_school_physics",
        "choices": ["a thing", "none", "all", "both"],
        "answer": 3,
    }
    mmlu = asked(world, library, "mmlu_high_school_physics", row)
    hybrid = asked(world, library, "mmlu_hybrid_high_school_physics", row)
    assert mmlu.prompt == hybrid.prompt
    assert mmlu.prompt == (
        "The following are multiple choice questions (with answers) about high school physics.\n\n"
        "What is it?\nA. a thing\nB. none\nC. all\nD. both\nAnswer:"
    )
    assert [request.continuation for request in mmlu.requests] == [" A", " B", " C", " D"]
    assert hybrid.requests[0].continuation == " a thing"
    assert mmlu.gold == hybrid.gold == [3]


# Suites


SHOTS = {
    "open-llm-v1": [25, 10, 5, 0, 5, 5],
    "open-llm-v2": [0, 3, 4, 0, 0, 5],
    "styles": [0, 0],
    "styles-5shot": [5, 5],
}


@pytest.mark.parametrize(
    "file", sorted((OWN_TASKS / "suites").glob("*.yaml")), ids=lambda file: file.stem
)
def test_every_suite_of_ours_names_tasks_that_are_what_it_says(
    library: TaskLibrary, file: Path
) -> None:
    suite = load_suite(file, library)
    assert suite.suite == file.stem
    assert suite.version in suite.changelog
    shots = [entry.shots for entry in suite.benchmarks]
    assert shots == SHOTS.get(suite.suite, [0] * len(shots))


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


def test_a_suite_among_the_tasks_is_no_task(library: TaskLibrary) -> None:
    assert "styles" not in (*library.tasks, *library.groups, *library.tags)


# Digests


def digest_with(tmp_path: Path, **keys: Any) -> str:
    return config_digest(World(tmp_path).spec(dataset_path="org/data", **keys))


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
        spec = library.one(name)
        assert isinstance(spec, TaskSpec)
        again = write_tasks(tmp_path, {f"{name}.yaml": yaml.safe_dump(resolved_config(spec))})
        assert config_digest(again.one(name)) == config_digest(spec)
    assert "description" not in resolved_config(library.one("arc_easy"))  # its default


def test_the_digest_changes_with_the_source_of_a_function(tmp_path: Path) -> None:
    world = World(tmp_path)
    digests = set()
    for source in ("def run(docs): return docs", "def run(docs): return list(docs)"):
        world.code(source)
        spec = world.spec(dataset_path="org/data", functions={"process_docs": "run"})
        digests.add(config_digest(spec))
    assert len(digests) == 2


def test_a_functions_module_is_run_again_when_its_file_changes(tmp_path: Path) -> None:
    world = World(tmp_path)
    results = []
    for source in ("def run(): return 'old'", "def run(): return 'new'"):
        world.code(source)
        function = world.spec(dataset_path="x", functions={"process_docs": "run"}).process_docs
        assert function is not None
        results.append(function.load()())
    assert results == ["old", "new"]


def test_documents_have_digests_of_their_content() -> None:
    doc = {"question": "é", "choices": ["a", "b"], "score": float("nan"), "raw": b"\x00"}
    assert doc_digest(doc) == doc_digest(dict(reversed(doc.items())))
    assert doc_digest(doc) != doc_digest({**doc, "raw": b"\x01"})
    assert docs_digest(["a", "b"]) != docs_digest(["b", "a"])
    with pytest.raises(TaskError, match="the column 'image': object has no place in JSON"):
        doc_digest({"image": object()})


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
