"""What a task must bring besides a file that loads: the part of the task guide a program can check.

A task is that of its benchmark's folder, directly below the folder of tasks: `README.md` with
source, styles, shots, metric, chance and versions; rows of our own for its data set; complete
metadata; prompts that tokenise well.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from evalcore.errors import TaskError
from evalcore.refusals import check_supported
from evalcore.task.asking.item import Item
from evalcore.task.asking.task import Task
from evalcore.task.config import TaskSpec
from evalcore.task.data.sample_rows import sample_data
from evalcore.task.functions import functions_in
from evalcore.task.metadata import UNVERSIONED

PLACEHOLDER = "FILL IN"
"""Stands in a new task's files wherever its author has something to say."""
SCORED_ROWS = 5
EXAMPLE_ROWS = 6
_README_PARTS = ("Source", "Styles", "Shots", "Metric")
_REVIEWED = "evalcore."
"""Functions that a task file may name: those of this package, which somebody reviewed."""


def problems_of(spec: TaskSpec, tasks: Path) -> list[str]:
    """What a task in the folder `tasks` lacks; nothing if all is well."""
    problems = [*_of_readme(spec, tasks), *_of_metadata(spec), *_of_code(spec)]
    try:
        problems += _of_rows(spec, tasks)
        problems += _of_prompts(spec, tasks)
    except TaskError as error:
        problems.append(error.reason)
    return list(dict.fromkeys(problems))


def _of_code(spec: TaskSpec) -> Iterator[str]:
    for function in functions_in(spec):
        if not function.name.startswith(_REVIEWED):
            yield (
                f"!function {function.name}: a task brings no code of its own: write it as a "
                "reviewed function in evalcore/task/transforms/"
            )


def _of_readme(spec: TaskSpec, tasks: Path) -> Iterator[str]:
    # In the folder directly below `tasks` in which the task's file lies.
    folder = spec.source.relative_to(tasks).parts[0] if spec.source else ""
    readme = tasks / folder / "README.md"
    if not readme.is_file():
        yield f"{readme} is missing: say {', '.join(_README_PARTS)}, Chance and the versions"
        return
    text = readme.read_text(encoding="utf-8")
    for part in _README_PARTS:
        if f"**{part}" not in text:
            yield f"{readme}: there is no line that begins with **{part}**"
    if spec.about.chance is not None and "**Chance" not in text:
        yield f"{readme}: there is no line that begins with **Chance**"
    if not re.search(r"https?://", text):
        yield f"{readme}: the source has no link: give the paper's and the data set's"
    if not re.search(rf"^\|\s*{re.escape(spec.version)}\s*\|", text, re.MULTILINE):
        yield f"{readme}: the table of versions has no line for {spec.version}"
    if PLACEHOLDER in text:
        yield f"{readme}: it still says {PLACEHOLDER}"


def _of_metadata(spec: TaskSpec) -> Iterator[str]:
    about = spec.about
    if about.version == UNVERSIONED:
        yield "metadata.version is missing: begin with 1.0"
    elif about.version not in about.changelog:
        yield f"metadata.changelog has no line for version {about.version}"
    if about.style is None:
        yield "metadata.style is missing: say how the question is put"
    if about.primary_metric is None:
        yield "metadata.primary_metric is missing: name the metric of the board's column"
    if about.chance is None and about.choices is None and spec.output_type == "multiple_choice":
        yield "metadata.chance is missing: the score of a random guesser (or metadata.choices)"
    if about.answer_extraction is None and spec.output_type == "generate_until":
        yield "metadata.answer_extraction is missing: say in a sentence how the answer is found"
    told = (*about.changelog.values(), about.known_gaps, about.answer_extraction)
    if any(PLACEHOLDER in (words or "") for words in told):
        yield f"metadata: it still says {PLACEHOLDER}"


def _of_rows(spec: TaskSpec, tasks: Path) -> Iterator[str]:
    data = sample_data(spec, tasks)
    scored = len(data.split(str(spec.eval_split)))
    if scored < SCORED_ROWS:
        yield f"{data.described}: {scored} in {spec.eval_split}, at least {SCORED_ROWS} are needed"
    few = spec.fewshot
    pool = few.split or (None if few.samples else spec.training_split or spec.validation_split)
    if spec.output_type == "loglikelihood_rolling" or not pool or few.sampler == "first_n":
        return
    examples = len(data.split(pool))
    if examples < EXAMPLE_ROWS:
        yield (
            f"{data.described}: {examples} in {pool}, of which examples are drawn: at least "
            f"{EXAMPLE_ROWS} are needed"
        )


def _of_prompts(spec: TaskSpec, tasks: Path) -> Iterator[str]:
    """What is so in every row: a single one may be meant to be awkward."""
    check_supported(spec, confirm_unsafe=True)
    items = Task(spec, num_fewshot=0, data=sample_data(spec, tasks)).items()
    rows = Counter(problem for item in items for problem in dict.fromkeys(_of_item(spec, item)))
    yield from (problem for problem, count in rows.items() if count == len(items))


def _of_item(spec: TaskSpec, item: Item) -> Iterator[str]:
    gaps = spec.about.known_gaps or ""
    for request in item.requests:
        if PLACEHOLDER in (request.context or ""):
            yield f"the sample rows still say {PLACEHOLDER}"
        if spec.output_type != "multiple_choice" or item.choices_are_contexts:
            continue
        if request.context and request.context[-1:] == " " and "space" not in gaps:
            yield (
                "the prompt ends with a space: leave it to target_delimiter, or say in "
                "metadata.known_gaps why the space must be there"
            )
        if (request.continuation or "").startswith("  ") and not item.choices[0].startswith(" "):
            yield "the answer begins with two spaces: take one out of the choices or the delimiter"
    if spec.output_type == "multiple_choice" and len(item.choices) < 2:
        yield f"there is {len(item.choices)} choice"
