"""The one story of the engine: tasks → documents → requests → responses → scores → record."""

from __future__ import annotations

import platform
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import evalcore
from evalcore.errors import InfraError, ModelError, TaskError
from evalcore.journal import Journal
from evalcore.model.base import LM, SCORING_VERSION, Request, Response
from evalcore.record import (
    RunRecord,
    SampleFile,
    Shots,
    draws_at_random,
    run_key,
    shot_rule,
    write_samples,
)
from evalcore.score.aggregate import ScoredTask, aggregate
from evalcore.score.sample import sample_of
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.digest import config_digest, docs_digest, resolved_config
from evalcore.task.support import check_supported
from evalcore.task.task import Item, Mode, Task


class Watch(Protocol):
    """Who looks on: a progress bar, or a worker that reads lines."""

    def phase(self, name: str) -> None: ...

    def progress(self, task: str, done: int, total: int) -> None: ...

    def wants_stop(self) -> bool:
        """Asked after each pack; what was answered until then is in the journal."""
        ...


class Stopped(Exception):
    """Somebody asked us to stop; the journal has every response so far."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the caller may choose for a whole evaluation."""

    mode: Mode = "compat"
    """compat: lm-evaluation-harness to the draw; strict: free of its quirks (docs/engine.md)."""
    num_fewshot: int | None = None
    fewshot_seed: int = 1234
    limit: float | None = None
    """Documents of each task: a count, or below 1 a share."""


@dataclass(frozen=True)
class Evaluation:
    """A finished task or group, not yet on disk."""

    record: RunRecord
    samples: Sequence[Mapping[str, Any]]

    def write(self, folder: Path, stem: str) -> tuple[Path, Path]:
        """Writes `record_<stem>.json` and `samples_<stem>.parquet`; returns their paths."""
        samples = folder / f"samples_{stem}.parquet"
        record = folder / f"record_{stem}.json"
        replace(self.record, samples=write_samples(samples, self.samples)).write(record)
        return record, samples


def evaluate(
    model: LM,
    specs: Sequence[TaskSpec | GroupSpec],
    settings: Settings,
    watch: Watch,
    journal: Journal | None = None,
) -> Iterator[Evaluation]:
    """Evaluate each task or group in turn; what is done is handed out before the next begins.

    Raises TaskError, ModelError or InfraError by whose fault it is, and Stopped.
    """
    for spec in specs:
        check_supported(spec)
    for spec in specs:
        try:
            evaluation = _evaluate_one(model, spec, settings, watch, journal)
        except TaskError as error:
            error.task = spec.name
            raise
        yield evaluation


def _evaluate_one(
    model: LM,
    spec: TaskSpec | GroupSpec,
    settings: Settings,
    watch: Watch,
    journal: Journal | None,
) -> Evaluation:
    started, clock = datetime.now(UTC), time.monotonic()
    watch.phase("prepare")
    tasks = [
        Task(
            leaf,
            mode=settings.mode,
            num_fewshot=settings.num_fewshot,
            fewshot_seed=settings.fewshot_seed,
            limit=settings.limit,
        )
        for leaf in spec.leaves()
    ]
    items = [task.items() for task in tasks]
    requests = [request for of_task in items for item in of_task for request in item.requests]

    watch.phase("evaluate")
    responses, journalled = _answer(model, requests, spec.name, watch, journal)

    pending = iter(responses)
    scored = [
        ScoredTask(task.spec, _samples(spec, task, of_task, pending))
        for task, of_task in zip(tasks, items, strict=True)
    ]
    samples = [sample for task in scored for sample in task.samples]
    keys = _run_keys(spec, tasks, settings)
    shots = _shots(spec, tasks)
    rule = shot_rule(spec, shots)
    record = RunRecord(
        **_identity(spec),
        shots=shots,
        shot_rule=rule,
        shot_seed=settings.fewshot_seed if draws_at_random(rule) else None,
        mode=settings.mode,
        limit=settings.limit,
        docs_digest=docs_digest(sample["doc_digest"] for sample in samples),
        run_key=keys[spec.name],
        results=aggregate(spec, scored, keys),
        samples=SampleFile(file="", sha256="", rows=len(samples)),
        model=model.info.as_json(),
        datasets={task.spec.name: _dataset(task) for task in tasks},
        settings=asdict(settings),
        environment=_environment(model),
        requests={
            "total": len(responses),
            "journalled": journalled,
            "truncated": sum(response.n_truncated > 0 for response in responses),
        },
        paths=dict(Counter(response.path for response in responses)),
        started=started.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - clock, 3),
    )
    return Evaluation(record, samples)


def _samples(
    spec: TaskSpec | GroupSpec, task: Task, items: Sequence[Item], pending: Iterator[Response]
) -> list[dict[str, Any]]:
    part = task.name if isinstance(spec, GroupSpec) else None
    return [sample_of(task, item, pending, part) for item in items]


def _identity(spec: TaskSpec | GroupSpec) -> dict[str, Any]:
    """The fields of a record that say what was asked, and by which engine."""
    return {
        "task": spec.name,
        "version": spec.version,
        "benchmark": spec.about.benchmark,
        "style": spec.about.style or "",
        "primary_metric": _primary_metric(spec),
        "chance": spec.about.chance,
        "config_digest": config_digest(spec),
        "groups": _groups(spec),
        "configs": {leaf.name: resolved_config(leaf) for leaf in spec.leaves()},
        "engine": {
            "name": "evalcore",
            "version": evalcore.__version__,
            "scoring_version": SCORING_VERSION,
        },
    }


def _answer(
    model: LM,
    requests: Sequence[Request],
    task: str,
    watch: Watch,
    journal: Journal | None,
) -> tuple[list[Response], int]:
    """The response to each request, in order, and how many of them the journal already had.

    Equal requests are asked once. Raises Stopped after a pack when the watch wants it.
    """
    try:
        encoded = model.encode(requests)
    except ModelError as error:
        error.task = task  # the model may be right for tasks with other texts
        raise
    known = {one.key: journal[one.key] for one in encoded if journal and one.key in journal}
    journalled = sum(one.key in known for one in encoded)
    waiting = {one.key: one for one in encoded if one.key not in known}
    asked_by = Counter(one.key for one in encoded)
    done = journalled
    watch.progress(task, done, len(encoded))
    for pack in model.answer(list(waiting.values())):
        responses = [response for _, response in pack]
        if journal:
            journal.append(responses)
        known.update({response.key: response for response in responses})
        done += sum(asked_by[response.key] for response in responses)
        watch.progress(task, done, len(encoded))
        if watch.wants_stop():
            raise Stopped
    if missing := [one.key for one in encoded if one.key not in known]:
        raise InfraError(f"{task}: {len(missing)} of {len(encoded)} requests were not answered")
    # Equal requests may have lost different beginnings: that much is each one's own.
    return [
        replace(known[one.key], n_context_tokens=one.n_context_tokens, n_truncated=one.n_truncated)
        for one in encoded
    ], journalled


def _run_keys(
    spec: TaskSpec | GroupSpec, tasks: Sequence[Task], settings: Settings
) -> dict[str, str]:
    """The run key of every task and group in `spec`."""
    specs: list[TaskSpec | GroupSpec] = [*spec.leaves()]
    if isinstance(spec, GroupSpec):
        specs.extend(spec.groups())
    return {
        one.name: run_key(
            one,
            shots=_shots(one, tasks),
            mode=settings.mode,
            fewshot_seed=settings.fewshot_seed,
        )
        for one in specs
    }


def _shots(spec: TaskSpec | GroupSpec, tasks: Sequence[Task]) -> Shots:
    """The shots of the tasks in `spec`: one number where they agree, else by task."""
    names = {leaf.name for leaf in spec.leaves()}
    shots = {task.spec.name: task.shots for task in tasks if task.spec.name in names}
    different = set(shots.values())
    return different.pop() if len(different) == 1 else shots


def _primary_metric(spec: TaskSpec | GroupSpec) -> str:
    """The board's metric: the one that is named, else the first that is measured."""
    if spec.about.primary_metric:
        return spec.about.primary_metric
    if isinstance(spec, TaskSpec):
        return spec.metric_list[0].name
    if spec.aggregate_metric_list:
        return str(spec.aggregate_metric_list[0].metric)
    return next(spec.leaves()).metric_list[0].name


def _groups(spec: TaskSpec | GroupSpec) -> dict[str, Any]:
    if isinstance(spec, TaskSpec):
        return {}
    return {
        group.name: {
            "alias": group.alias,
            "version": group.version,
            "members": [member.name for member in group.members],
        }
        for group in spec.groups()
    }


def _dataset(task: Task) -> dict[str, Any]:
    return {
        "path": task.spec.dataset_path,
        "name": task.spec.dataset_name,
        "split": task.split,
        "commit": task.dataset_commit,
        "documents": task.n_original,
    }


def _environment(model: LM) -> dict[str, Any]:
    packages = ("torch", "transformers", "tokenizers", "datasets", "numpy")
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": model.info.device,
        **{package: version(package) for package in packages},
    }
