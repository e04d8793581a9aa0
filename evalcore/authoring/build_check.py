"""Whether tasks can be built: code loaded, data read, prompts written; without any model.

Task code may call sys.exit, hang or crash. So the tasks of a folder are built in a process of their
own, which is replaced when one of them took it down; the others are still told of.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from evalcore.errors import EvalError, TaskError, did_you_mean, keep_ours
from evalcore.task.asking.gold import NO_CHOICE
from evalcore.task.asking.item import Item
from evalcore.task.asking.task import Task
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.functions import functions_in

_START_SECONDS = 300
"""For a new process to import what building needs, on a busy machine."""

_END_SECONDS = 10
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildReport:
    """Whether one task could be built."""

    task: str
    ok: bool
    requests: int = 0
    """Requests of the first documents."""
    reason: str = ""
    """Why not."""
    capability: str = ""
    """What the task needs besides data and templates."""


def build_checks(
    specs: Sequence[TaskSpec | GroupSpec],
    *,
    time_limit: float = 120.0,
    limit: int = 2,
    rows: Mapping[str, Path] | None = None,
) -> Iterator[BuildReport]:
    """Builds the first `limit` documents of every task, with no examples and with its own.

    `time_limit`: seconds for one task. `rows`: by task the folder of tasks whose sample rows are
    asked instead of the data set. Reports come folder by folder.
    """
    leaves = {leaf.name: leaf for spec in specs for leaf in spec.leaves()}
    by_folder: dict[Path | None, list[TaskSpec]] = {}
    for leaf in leaves.values():
        by_folder.setdefault(leaf.source and leaf.source.parent, []).append(leaf)
    for waiting in by_folder.values():
        while waiting:
            for report in _built_in_one_process(list(waiting), time_limit, limit, rows or {}):
                yield report
                waiting.pop(0)


def capability(spec: TaskSpec) -> str:
    """What a task needs besides data and templates, in words."""
    needs = {
        "a Python class": spec.python_class,
        "functions": any(functions_in(spec)) and not spec.python_class,
        "custom_dataset": spec.custom_dataset,
        "unsafe_code": spec.unsafe_code,
        "the library evaluate": any(metric.hf_evaluate for metric in spec.metric_list),
        "images": spec.doc_to_image,
        "sound": spec.doc_to_audio,
    }
    return ", ".join(name for name, needed in needs.items() if needed)


def _built_in_one_process(
    specs: Sequence[TaskSpec], time_limit: float, limit: int, rows: Mapping[str, Path]
) -> Iterator[BuildReport]:
    """Reports in order, until all are built or one took the process down, which is the last."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_build_all, args=(list(specs), limit, rows, theirs), daemon=True
    )
    process.start()
    theirs.close()
    try:
        started = ours.poll(_START_SECONDS) and _received(ours) is not None
        for spec in specs:
            if started and not ours.poll(time_limit):
                reason = f"it took longer than {time_limit:g} s"
                yield _failed(spec, reason)
                return
            report = _received(ours) if started else None
            if report is None:
                process.join(1)
                yield _failed(spec, f"its code ended the process (exit status {process.exitcode})")
                return
            yield report
        process.join(_END_SECONDS)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.kill()
        process.join()


def _received(connection: Connection[Any, Any]) -> Any:
    try:
        return connection.recv()
    except (EOFError, OSError):
        return None


def _failed(spec: TaskSpec, reason: str) -> BuildReport:
    return BuildReport(task=spec.name, ok=False, reason=reason, capability=capability(spec))


# In the process of its own


def _build_all(
    specs: Sequence[TaskSpec],
    limit: int,
    rows: Mapping[str, Path],
    connection: Connection[Any, Any],
) -> None:
    os.setsid()  # what task code starts ends with it
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    import datasets  # noqa: F401 (the seconds that this takes are no task's)

    connection.send("started")
    for spec in specs:
        connection.send(_build(spec, limit, rows.get(spec.name)))


def _build(spec: TaskSpec, limit: int, rows: Path | None) -> BuildReport:
    try:
        requests = _requests_of(spec, limit, rows)
    except EvalError as error:
        return _failed(spec, error.reason)
    except BaseException as error:  # somebody else's code
        keep_ours(error)
        return _failed(spec, f"{type(error).__name__}: {error}")
    return BuildReport(task=spec.name, ok=True, requests=requests, capability=capability(spec))


def _requests_of(spec: TaskSpec, limit: int, rows: Path | None) -> int:
    """Builds the task without examples, then with its own; how many requests that makes."""
    from evalcore.building import task_of
    from evalcore.score.filters.registry import pipelines_of
    from evalcore.task.data.sample_rows import sample_data

    given = {"data": sample_data(spec, rows)} if rows else {}
    for function in functions_in(spec):
        function.value()
    items = []
    for shots in dict.fromkeys((0, spec.num_fewshot or 0)):
        task = task_of(spec, mode="compat", num_fewshot=shots, limit=limit, **given)
        items = task.items()
        _check_answers(task, items)
        pipelines_of(task.spec)
        _ = task.own_process_results, task.own_aggregations
    return sum(len(item.requests) for item in items)


def _check_answers(task: Task, items: Sequence[Item]) -> None:
    """Raises TaskError that names the first document whose right answer no model could give.

    lm-evaluation-harness scores 0 where no choice is right, and any text that was meant to be a
    column stands as itself. compat does as it does; who validates a task is told.
    """
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
