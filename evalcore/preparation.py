"""Tasks made ready to be asked: documents read, prompts written, requests encoded."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from evalcore.building import tasks_of
from evalcore.errors import EvalError, ModelError, TaskError
from evalcore.model.base import LM, EncodedRequest, Request
from evalcore.model.refusals import Need, refuse
from evalcore.settings import Settings
from evalcore.task.asking.chat import Chat
from evalcore.task.asking.task import Item, Task
from evalcore.task.config import GroupSpec, TaskSpec

if TYPE_CHECKING:
    from evalcore.contamination.decontaminate import Decontamination, Overlaps

Spec = TaskSpec | GroupSpec


@dataclass(kw_only=True)
class Prepared:
    """One task or group, ready to be asked."""

    spec: Spec
    tasks: list[Task]
    items: list[list[Item]]
    """By task."""
    overlaps: Sequence[list[Overlaps] | None]
    """By task: the passages of each document in the training text, where that is searched."""
    started: datetime
    prompt_seconds: float
    """Reading the documents and writing their prompts."""
    token_seconds: float = 0.0
    encoded: list[EncodedRequest] = field(default_factory=list)
    """In the order of the items' requests, each as often as it is repeated."""

    @property
    def requests(self) -> list[Request]:
        return [request for items in self.items for item in items for request in item.requests]


@dataclass
class Benchmark:
    """Tasks and groups that are asked together, because their requests share what they begin with.

    They are styles or subjects of one benchmark, and all that could be prepared.
    """

    parts: list[Prepared]
    failed: list[TaskError] = field(default_factory=list)
    """Why others of them could not; each names its task."""
    error: EvalError | None = None
    """What ended the preparation of all that follow; it is no task's fault."""

    @property
    def is_whole(self) -> bool:
        return not self.failed and self.error is None

    def fail(self, spec: Spec, error: EvalError) -> None:
        if isinstance(error, TaskError):
            error.task = spec.name
            self.failed.append(error)
        else:
            self.error = error


def benchmarks_of(specs: Sequence[Spec]) -> list[list[Spec]]:
    """Those of one benchmark together, wherever they stand; in the order of each one's first."""
    together: dict[str, list[Spec]] = {}
    for spec in specs:
        together.setdefault(_benchmark(spec), []).append(spec)
    return list(together.values())


def _benchmark(spec: Spec) -> str:
    """What the metadata name; of a group what all its tasks name."""
    named = {leaf.about.benchmark for leaf in spec.leaves()}
    return named.pop() if len(named) == 1 else spec.about.benchmark


class Cancelled(Exception):
    """Nobody waits for the preparation any more."""


class Preparer:
    """Prepares benchmarks for one model."""

    def __init__(self, model: LM, settings: Settings, chat: Chat | None) -> None:
        """Raises TaskError where the training text to search is none."""
        self._model = model
        self.works_ahead = bool(getattr(model, "reads_ahead", False))
        """Whether the next benchmark is prepared while the model answers to one."""
        self._settings = settings
        self._chat = chat
        self._search: Decontamination | None = None
        if settings.decontaminate:
            # Few runs search training text, whose formats have libraries of their own.
            from evalcore.contamination.decontaminate import Decontamination

            self._search = Decontamination(settings.decontaminate, n=settings.decontaminate_n)

    def prepare(self, specs: Sequence[Spec], cancelled: threading.Event) -> Benchmark:
        """All specs but those that fail, up to an error that is no task's. Raises Cancelled."""
        benchmark = Benchmark([])
        for spec in specs:
            try:
                benchmark.parts.append(self._rendered(spec, cancelled))
            except EvalError as error:
                benchmark.fail(spec, error)
            if benchmark.error:
                break
        try:
            self._encode(benchmark.parts)
        except EvalError:
            self._encode_one_by_one(benchmark)
        return benchmark

    def _rendered(self, spec: Spec, cancelled: threading.Event) -> Prepared:
        started, clock = datetime.now(UTC), time.monotonic()
        tasks: list[Task] = []
        items: list[list[Item]] = []
        for task in tasks_of(spec, self._settings, self._chat):
            tasks.append(task)
            items.append(task.items())
            if cancelled.is_set():
                raise Cancelled
        overlaps: Sequence[list[Overlaps] | None] = [None] * len(tasks)
        if self._search:
            each = zip(tasks, items, strict=True)
            asked = [[task.query_of(item) for item in of_task] for task, of_task in each]
            overlaps = self._search.search(asked)
        return Prepared(
            spec=spec,
            tasks=tasks,
            items=items,
            overlaps=overlaps,
            started=started,
            prompt_seconds=time.monotonic() - clock,
        )

    def _encode(self, parts: Sequence[Prepared]) -> None:
        """All requests at once, so that what several parts ask is tokenised once."""
        clock = time.monotonic()
        requests = [request for part in parts for request in part.requests]
        # Of tasks that are classes only this says what they ask.
        needs: set[Need] = {request.kind for request in requests}
        if any(request.images for request in requests):
            needs.add("images")
        if any(request.sounds for request in requests):
            needs.add("sounds")
        refuse(self._model.capabilities, dict.fromkeys(needs, ()))
        pending = iter(self._model.encode(requests, seed=self._settings.seed) if requests else [])
        seconds = time.monotonic() - clock
        for part in parts:
            asked = part.requests
            part.encoded = [next(pending) for request in asked for _ in range(request.repeats)]
            part.token_seconds = seconds * len(asked) / len(requests) if requests else 0.0
            if self._settings.forbid_truncation:
                self._refuse_truncated(part)

    def _encode_one_by_one(self, benchmark: Benchmark) -> None:
        """Finds the parts that cannot be encoded. Those before a fault of the model are kept."""
        waiting, benchmark.parts = benchmark.parts, []
        for part in waiting:
            try:
                self._encode([part])
                benchmark.parts.append(part)
            except EvalError as error:
                if isinstance(error, ModelError):
                    # The model may be right for tasks with other texts.
                    error.task = part.spec.name
                benchmark.fail(part.spec, error)
            if benchmark.error:
                return

    def _refuse_truncated(self, part: Prepared) -> None:
        if cut := sum(request.n_truncated > 0 for request in part.encoded):
            raise ModelError(
                f"{cut} of {len(part.encoded)} requests do not fit the model's window of "
                f"{self._model.info.max_length} tokens, and truncation is forbidden: ask with "
                "fewer examples, or allow it"
            )
