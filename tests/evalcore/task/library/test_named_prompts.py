"""Tasks that are asked by a named prompt, and one task under all its prompts."""

from __future__ import annotations

import json
import pickle
import statistics
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalcore.cli import main
from evalcore.errors import TaskError
from evalcore.library import evaluate
from evalcore.record import RunRecord
from evalcore.selection import library_of
from evalcore.stats import spread, standard_error
from evalcore.task.asking.prompt import DocReader
from evalcore.task.config import TaskSpec
from evalcore.task.functions import FunctionRef
from evalcore.task.identity.digest import config_digest
from evalcore.task.library.load import TaskLibrary
from tests.evalcore.toys import ToyLM, write_run
from tests.evalcore.worlds import World, capitals, group_in, task_in, write_tasks

TEMPLATES = """
dataset: user/sense
subset: easy
templates:
  0001: !Template
    answer_choices: Yes ||| No
    id: '0001'
    jinja: "{{premise}} Is it so that {{hypothesis}}? ||| {{ answer_choices[label] }}"
    metadata: !TemplateMetadata
      choices_in_prompt: false
      metrics: [Accuracy]
      original_task: true
    name: is it so
    reference: ''
  0002: !Template
    answer_choices: null
    id: '0002'
    jinja: "Go on: {{premise}} ||| {{hypothesis}}"
    metadata: !TemplateMetadata {}
    name: go on
    reference: ''
"""

DOC = {"premise": "A cat | b ||| sleeps.", "hypothesis": "a cat sleeps", "label": 1}


def library_with(folder: Path, templates: str = TEMPLATES, **keys: Any) -> TaskLibrary:
    """A library_with with the task `sense`, its prompts beside it, and a group of it."""
    data = folder.parent / "data"
    data.mkdir(exist_ok=True)
    rows = [{**DOC, "hypothesis": f"cat {number} sleeps"} for number in range(3)]
    (data / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    values = {
        "task": "sense",
        "dataset_path": "user/sense",
        "dataset_name": "easy",
        "validation_split": "validation",
        "output_type": "multiple_choice",
        **keys,
    }
    return write_tasks(
        folder,
        {
            "promptsource_templates/user/sense/easy/templates.yaml": templates,
            "deep/sense.yaml": yaml.safe_dump(values),
            "deep/own.yaml": "prompts:\n  short: {doc_to_text: '{{premise}} so', "
            "doc_to_target: '{{hypothesis}}'}\n",
            "g.yaml": "group: g\ntask: [sense]\n",
        },
    )


def asked(spec: TaskSpec) -> tuple[str, list[str], str]:
    """Prompt, choices and target of the document, through the sources of the task."""
    reader = DocReader(DOC.keys(), spec.doc_to_choice is not None)
    choices = reader.choices(spec.doc_to_choice, DOC) if spec.doc_to_choice else []
    return (
        reader.text(spec.doc_to_text, DOC),
        choices,
        str(reader.target(spec.doc_to_target, DOC)),
    )


def only(found: list[Any]) -> TaskSpec:
    (spec,) = found
    assert isinstance(spec, TaskSpec)
    return spec


def test_a_template_gives_question_choices_and_answer_and_changes_the_digest(
    tmp_path: Path,
) -> None:
    spec = only(library_with(tmp_path / "t", use_prompt="promptsource:is it so").select(["sense"]))
    assert spec.name == "sense"
    assert asked(spec) == (
        "A cat | b ||| sleeps. Is it so that a cat sleeps?",
        ["Yes", "No"],
        "No",
    )
    # An example is asked by the same prompt.
    assert spec.fewshot.doc_to_text == spec.doc_to_text
    assert pickle.loads(pickle.dumps(spec)) == spec

    keys = {"use_prompt": "promptsource:is it so"}
    one = config_digest(library_with(tmp_path / "t", **keys).one("sense"))
    assert config_digest(library_with(tmp_path / "t", **keys).one("sense")) == one
    changed = TEMPLATES.replace("Is it so that", "Is it true that")
    assert config_digest(library_with(tmp_path / "t", changed, **keys).one("sense")) != one


def test_a_star_means_every_prompt_and_a_pattern_some(tmp_path: Path) -> None:
    keys = {"output_type": "generate_until"}
    every = library_with(tmp_path / "t", use_prompt="promptsource:*", **keys)
    assert [spec.name for spec in every.select(["sense"])] == ["sense::is it so", "sense::go on"]
    (group,) = every.select(["g"])
    assert [leaf.name for leaf in group.leaves()] == ["sense::is it so", "sense::go on"]
    assert [spec.name for spec in every.select(["sense::go on"])] == ["sense::go on"]
    with pytest.raises(TaskError, match="sense has no part 'sense::go off'"):
        every.select(["sense::go off"])
    some = library_with(tmp_path / "t", use_prompt="promptsource:go*", **keys).select(["sense"])
    assert asked(only(some)) == ("Go on: A cat | b ||| sleeps.", [], "a cat sleeps")


def test_templates_may_draw_count_and_ask_for_what_is_not_there(tmp_path: Path) -> None:
    jinja = (
        "{{ ['a', 'b', 'c', 'd'] | choice }}{{ absent }} {{ [1, 2, 2] | most_frequent }} ||| "
        "{{ ['a', 'b', 'c', 'd'] | choice }} {{ ('x' * 3000) }}"
    )
    templates = TEMPLATES.replace("Go on: {{premise}} ||| {{hypothesis}}", jinja)
    keys = {"use_prompt": "promptsource:go on", "output_type": "generate_until"}
    text, _, target = asked(only(library_with(tmp_path / "t", templates, **keys).select(["sense"])))
    drawn, frequent = text.split()
    assert frequent == "[2]"
    # Question and answer draw alike; a value is cut after 2048 characters.
    assert target == f"{drawn} {'x' * 2045}..."


def test_a_file_of_prompts_and_the_basic_ones(tmp_path: Path) -> None:
    keys = {"output_type": "generate_until", "doc_to_target": "{{hypothesis}}"}
    spec = only(library_with(tmp_path / "t", use_prompt="own.yaml:short", **keys).select(["sense"]))
    assert asked(spec) == ("A cat | b ||| sleeps. so", [], "a cat sleeps")
    library = library_with(tmp_path / "t", use_prompt="qa-basic:q-newline-a", **keys)
    basic = task_in(library, "sense")
    assert isinstance(basic.doc_to_text, FunctionRef)
    assert basic.doc_to_text.load()({"question": "why?"}) == "Q: why?\nA:"


def test_a_prompt_that_is_not_there_is_named(tmp_path: Path) -> None:
    for use_prompt, complaint in (
        ("is it so", "expected `promptsource:<name>`, `<file>.yaml:<name>` or `qa-basic:<name>`"),
        ("promptsource:is it", r"promptsource has no prompt 'is it' \(did you mean is it so"),
        ("promptsource:go on", "go on has no answer choices, which multiple_choice needs"),
        ("elsewhere:x", "there are no prompts 'elsewhere'"),
        ("absent.yaml:x", r"absent\.yaml cannot be read: No such file"),
    ):
        with pytest.raises(TaskError, match=complaint):
            library_with(tmp_path / "t", use_prompt=use_prompt).select(["sense"])
    with pytest.raises(TaskError, match=r"no templates for other: install promptsource, or write"):
        library_with(
            tmp_path / "t", use_prompt="promptsource:*", dataset_path="other", dataset_name=None
        ).select(["sense"])


# `--tasks x@*`: one task under all its prompts, and how far they lie apart


PROMPTS = {
    "plain": "{{question}}",
    "asked": "Tell me: {{question}}",
    "shouted": "HEY! {{question}}",
}


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """A folder with the task `capitals` on local data, and three prompts for it."""
    world = World(tmp_path)
    data = world.data(train=capitals(6), test=capitals(30)[6:])
    world.spec(**data, metadata={"version": 1, "benchmark": "capitals", "style": "cloze"})
    folder = tmp_path / "tasks" / "promptsource_templates" / "json"
    folder.mkdir(parents=True)
    entries = {
        number: {
            "name": name,
            "answer_choices": '{{choices | join("|||")}}',
            "jinja": f"{text} |||\n{{{{answer_choices[answer]}}}}",
        }
        for number, (name, text) in enumerate(PROMPTS.items())
    }
    (folder / "templates.yaml").write_text(yaml.safe_dump({"templates": entries}))
    return tmp_path / "tasks"


def test_a_pattern_is_a_group_of_the_task_under_each_prompt(tasks: Path) -> None:
    group = group_in(library_of([tasks]), "capitals@*")
    assert [leaf.name for leaf in group.leaves()] == [f"capitals@{name}" for name in PROMPTS]
    assert (group.version, group.about.style, group.alias) == ("1", "cloze", "capitals, 3 prompts")
    assert task_in(library_of([tasks]), "capitals@asked").name == "capitals@asked"
    assert [leaf.name for leaf in library_of([tasks]).one("capitals@*ed").leaves()] == [
        *("capitals@asked", "capitals@shouted"),
    ]


def test_a_name_with_a_prompt_that_is_not_there_is_refused(tasks: Path) -> None:
    library = library_of([tasks])
    for name, complaint in (
        ("capitals@askd", "has no prompt 'askd' (did you mean asked"),
        ("capitals@x*", "has no prompt 'x*'"),
        ("capitls@*", "There is no task, group or tag 'capitls@*'"),
        ("mmlu@*", "--tasks mmlu@*: mmlu is a group: name one of its tasks before the @"),
        ("piqa@*", "there are no templates for baber/piqa"),
    ):
        with pytest.raises(TaskError) as caught:
            library.one(name)
        assert complaint in str(caught.value)


def test_the_record_shows_the_distribution_and_the_means_error_is_of_the_questions(
    tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (done,) = evaluate(ToyLM(), ["capitals@*"], include_path=tasks, mode="strict")
    rows = {row.task: row for row in done.record.results if row.metric == "acc"}
    values = [rows[f"capitals@{name}"].value for name in PROMPTS]
    (found,) = done.record.distribution
    assert (found["metric"], found["k"]) == ("acc", 3)
    assert (found["lowest"], found["highest"]) == (min(values), max(values))
    assert found["median"] == statistics.median(values)
    assert found["sd"] == pytest.approx(statistics.stdev(values))
    whole = rows["capitals@*"]
    assert whole.n == 24, "each question counts once"
    assert whole.value == pytest.approx(sum(values) / 3)
    of_question: dict[str, list[float]] = {}
    for sample in done.samples:
        of_question.setdefault(sample["doc_digest"], []).append(sample["correct"])
    means = [sum(scores) / 3 for scores in of_question.values()]
    assert whole.stderr == pytest.approx(standard_error(means))
    write_run(tmp_path / "run", [done])
    (written,) = (tmp_path / "run").glob("record_*.json")
    assert RunRecord.read(written).distribution == done.record.distribution
    assert main(["verify", str(tmp_path / "run"), "--include_path", str(tasks)]) == 0, (
        capsys.readouterr().out
    )


def test_one_value_has_no_spread_and_no_value_is_an_error() -> None:
    assert spread([0.5]).sd is None
    with pytest.raises(ValueError, match="values: expected a non-empty list"):
        spread([])
