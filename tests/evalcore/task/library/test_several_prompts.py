"""`--tasks x@*`: one task under all its prompts, and how far they lie apart."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
import yaml

from evalcore.cli import main
from evalcore.errors import TaskError
from evalcore.library import evaluate
from evalcore.record import RunRecord
from evalcore.selection import library_of
from evalcore.stats import spread, standard_error
from evalcore.task.config import GroupSpec, TaskSpec
from tests.evalcore.toys import ToyLM, write_run
from tests.evalcore.worlds import World, capitals

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
    group = library_of([tasks]).one("capitals@*")
    assert isinstance(group, GroupSpec)
    assert [leaf.name for leaf in group.leaves()] == [f"capitals@{name}" for name in PROMPTS]
    assert (group.version, group.about.style, group.alias) == ("1", "cloze", "capitals, 3 prompts")
    one = library_of([tasks]).one("capitals@asked")
    assert isinstance(one, TaskSpec)
    assert one.name == "capitals@asked"
    assert [leaf.name for leaf in library_of([tasks]).one("capitals@*ed").leaves()] == [
        *("capitals@asked", "capitals@shouted"),
    ]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("capitals@askd", "has no prompt 'askd' (did you mean asked"),
        ("capitals@x*", "has no prompt 'x*'"),
        ("capitls@*", "There is no task, group or tag 'capitls@*'"),
        ("mmlu@*", "--tasks mmlu@*: mmlu is a group: name one of its tasks before the @"),
        ("arc_easy_mmlu@nothing", "has no prompt 'nothing'"),
        ("piqa@*", "there are no templates for baber/piqa"),
    ],
)
def test_what_cannot_be_asked_so_is_said(tasks: Path, name: str, told: str) -> None:
    with pytest.raises(TaskError) as caught:
        library_of([tasks]).one(name)
    assert told in str(caught.value)


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


def test_spread_of_one_and_of_none() -> None:
    assert spread([0.5]).sd is None
    with pytest.raises(ValueError, match="values: expected a non-empty list"):
        spread([])
