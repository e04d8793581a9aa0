"""Answers that no model could give: those of a `doc_to_target` that does not mean what it should.

lm-evaluation-harness scores 0 where no choice is right, and any text that was meant to be a column
stands as itself. compat does as it does; who validates a task is told.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from evalcore.errors import TaskError, did_you_mean
from evalcore.task.asking.gold import NO_CHOICE
from evalcore.task.asking.item import Item
from evalcore.task.asking.task import Task

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_answers(task: Task, items: Sequence[Item]) -> None:
    """Raises TaskError that names the first document whose right answer cannot be one."""
    if task.own_process_results is not None or not items:
        return
    source, columns = task.spec.doc_to_target, items[0].doc
    no_column = ""
    if isinstance(source, str) and _NAME.fullmatch(source) and source not in columns:
        hint = did_you_mean(source, columns) or f": there are {', '.join(columns)}"
        no_column = f"; there is no column {source!r}{hint}"
    for item in items:
        place = f"document {item.doc_id} of {item.split}"
        if NO_CHOICE in item.gold:
            raise TaskError(
                f"doc_to_target: {place}: the right answer is {item.answer!r}, which is none of "
                f"the {len(item.choices)} choices, so that no answer would be right{no_column}"
            )
    if no_column and task.spec.output_type in ("generate_until", "loglikelihood"):
        raise TaskError(f"doc_to_target: the answer to every document is {source!r}{no_column}")
