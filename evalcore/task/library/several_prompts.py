"""One task asked by several prompts: `--tasks x@*`, or by one of them: `--tasks x@name`.

The prompts are PromptSource's templates for the task's data set (see promptsource.py), those of our
own in `promptsource_templates/` beside the tasks. A pattern makes a group whose members are the
task under each prompt.
"""

from __future__ import annotations

import dataclasses

from evalcore.errors import TaskError
from evalcore.task.config import AggregateSpec, GroupSpec, TaskSpec
from evalcore.task.library.promptsource import expanded

SIGN = "@"
"""Between the name of a task and that of a prompt, or a pattern of such."""


def prompted(spec: TaskSpec | GroupSpec, wanted: str, place: str) -> TaskSpec | GroupSpec:
    """The task under the prompt `wanted`, or under all prompts that the pattern `wanted` means.

    Raises TaskError for a group, and where there is no such prompt; `place` says what asked.
    """
    if isinstance(spec, GroupSpec):
        raise TaskError(f"{place}: {spec.name} is a group: name one of its tasks before the {SIGN}")
    asked = dataclasses.replace(spec, use_prompt=f"promptsource:{wanted}")
    tasks = [_named(spec, task) for task in expanded(asked, lambda _: place)]
    if not _is_pattern(wanted):
        (task,) = tasks
        return dataclasses.replace(task, task=f"{spec.task}{SIGN}{wanted}")
    metrics = dict.fromkeys(metric.name for metric in spec.metric_list)
    return GroupSpec(
        group=f"{spec.task}{SIGN}{wanted}",
        group_alias=f"{spec.alias}, {len(tasks)} prompts",
        members=tuple(tasks),
        aggregate_metric_list=tuple(AggregateSpec(metric=metric) for metric in metrics),
        metadata=spec.metadata,
        about=spec.about,
        source=spec.source,
    )


def is_prompted(name: str) -> bool:
    """Whether a group of this name is one task under several prompts."""
    return SIGN in name


def _named(spec: TaskSpec, task: TaskSpec) -> TaskSpec:
    """With the sign of the command line in its name in place of a file's `::`."""
    prompt = task.task.removeprefix(f"{spec.task}::")
    return dataclasses.replace(task, task=f"{spec.task}{SIGN}{prompt}")


def _is_pattern(wanted: str) -> bool:
    return any(sign in wanted for sign in "*?[")
