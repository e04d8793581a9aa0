"""Tasks made of what their files say, as the settings say to ask them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from evalcore.model.base import LM
from evalcore.peer.python_task import PythonTask
from evalcore.refusals import check_supported
from evalcore.settings import Settings
from evalcore.task.asking.chat import Chat
from evalcore.task.asking.task import Task
from evalcore.task.config import GroupSpec, MetricSpec, TaskSpec
from evalcore.task.data.dataset import TaskData


def task_of(spec: TaskSpec, **options: Any) -> Task:
    """The task of a file, or of the Python class that the file names; options as of `Task`.

    Raises TaskError for a task that this version cannot run. Whether a task's unsafe code may run
    is asked by who runs it: to ask it harms nobody.
    """
    if spec.python_class is None:
        check_supported(spec, confirm_unsafe=True)
        return Task(spec, **options)
    task = PythonTask(spec, **options)
    check_supported(task.spec, confirm_unsafe=True)
    return task


def tasks_of(
    spec: TaskSpec | GroupSpec,
    settings: Settings,
    chat: Chat | None = None,
    data_of: Callable[[TaskSpec], TaskData] | None = None,
) -> list[Task]:
    """The tasks of `spec`, ready to be asked as `settings` say; `data_of` gives other data."""
    # Without metrics nothing is asked that only a metric needs.
    unscored: dict[str, Any] = {
        "metric_list": (MetricSpec(metric="bypass"),),
        "process_results": None,
    }
    return [
        task_of(
            replace(leaf, **unscored) if settings.predict_only else leaf,
            mode=settings.mode,
            num_fewshot=settings.num_fewshot,
            fewshot_seed=settings.fewshot_seed,
            fewshot_draw=settings.fewshot_draw,
            limit=settings.limit,
            samples=(settings.samples or {}).get(leaf.name),
            system_instruction=settings.system_instruction,
            chat=chat,
            generation=settings.gen_kwargs,
            data=data_of(leaf) if data_of else None,
        )
        for leaf in spec.leaves()
    ]


def chat_of(model: LM, settings: Settings) -> Chat | None:
    """How prompts become conversations, if they do. Raises ModelError without such a template."""
    if not settings.apply_chat_template:
        return None
    name = settings.apply_chat_template
    multiturn = settings.fewshot_as_multiturn is not False
    return Chat(model.chat_template(name if isinstance(name, str) else None), multiturn)
