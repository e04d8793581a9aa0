"""Tasks made ready to be asked: benchmark by benchmark, the next one while one is computed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from evalcore.errors import EvalError, ModelError, Stopped, TaskError
from evalcore.model.base import LM, EncodedRequest, Request
from evalcore.model.refusals import refuse_kinds
from evalcore.task.asking.task import Item, Task
from evalcore.task.config import GroupSpec, TaskSpec

if TYPE_CHECKING:
    from evalcore.contamination.decontaminate import Overlaps

Spec = TaskSpec | GroupSpec

SECONDS_BETWEEN_LOOKS = 0.1
SECONDS_TO_END = 1.0


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


def benchmarks_of(specs: Sequence[Spec]) -> list[list[Spec]]:
    """Neighbours that are of one benchmark."""
    return [list(alike) for _, alike in groupby(specs, key=_benchmark)]


def _benchmark(spec: Spec) -> str:
    """What the metadata name; of a group what all its tasks name."""
    named = {leaf.about.benchmark for leaf in spec.leaves()}
    return named.pop() if len(named) == 1 else spec.about.benchmark


class Cancelled(Exception):
    """Nobody waits for the preparation any more."""


class Preparer:
    """Prepares benchmarks for one model."""

    def __init__(
        self,
        model: LM,
        render: Callable[[Spec], Iterator[tuple[Task, list[Item]]]],
        search: Callable[[Sequence[Task], Sequence[list[Item]]], Sequence[list[Overlaps] | None]],
        *,
        seed: int,
        forbid_truncation: bool,
    ) -> None:
        """`render` gives the tasks of a spec with their documents as they are asked; `search` the
        passages of those that training text has, too."""
        self._model = model
        self._render = render
        self._search = search
        self._seed = seed
        self._forbid_truncation = forbid_truncation

    def prepare(self, specs: Sequence[Spec], cancelled: threading.Event) -> Benchmark:
        """All specs but those that fail, up to an error that is no task's. Raises Cancelled."""
        benchmark = Benchmark([])
        for spec in specs:
            try:
                benchmark.parts.append(self._rendered(spec, cancelled))
            except TaskError as error:
                error.task = spec.name
                benchmark.failed.append(error)
            except EvalError as error:
                benchmark.error = error
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
        for task, of_task in self._render(spec):
            if cancelled.is_set():
                raise Cancelled
            tasks.append(task)
            items.append(of_task)
        return Prepared(
            spec=spec,
            tasks=tasks,
            items=items,
            overlaps=self._search(tasks, items),
            started=started,
            prompt_seconds=time.monotonic() - clock,
        )

    def _encode(self, parts: Sequence[Prepared]) -> None:
        """All requests at once, so that what several parts ask is tokenised once."""
        clock = time.monotonic()
        requests = [request for part in parts for request in part.requests]
        # Of tasks that are classes only this says what they ask.
        refuse_kinds(self._model.capabilities, {request.kind for request in requests})
        pending = iter(self._model.encode(requests, seed=self._seed) if requests else [])
        seconds = time.monotonic() - clock
        for part in parts:
            asked = part.requests
            part.encoded = [next(pending) for request in asked for _ in range(request.repeats)]
            part.token_seconds = seconds * len(asked) / len(requests) if requests else 0.0
            if self._forbid_truncation:
                self._refuse_truncated(part)

    def _encode_one_by_one(self, benchmark: Benchmark) -> None:
        """Finds the parts that cannot be encoded. Those before a fault of the model are kept."""
        waiting, benchmark.parts = benchmark.parts, []
        for part in waiting:
            try:
                self._encode([part])
            except TaskError as error:
                error.task = part.spec.name
                benchmark.failed.append(error)
            except EvalError as error:
                if isinstance(error, ModelError):
                    # The model may be right for tasks with other texts.
                    error.task = part.spec.name
                benchmark.error = error
                return
            else:
                benchmark.parts.append(part)

    def _refuse_truncated(self, part: Prepared) -> None:
        if cut := sum(one.n_truncated > 0 for one in part.encoded):
            raise ModelError(
                f"{cut} of {len(part.encoded)} requests do not fit the model's window of "
                f"{self._model.info.max_length} tokens, and truncation is forbidden: ask with "
                "fewer examples, or allow it"
            )


class Ahead:
    """A benchmark that is being prepared in a thread of its own."""

    def __init__(self, prepare: Callable[[], Benchmark]) -> None:
        self._prepare = prepare
        self._outcome: Benchmark | None = None
        # Nobody waits at the end for a download that hangs.
        self._thread = threading.Thread(target=self._run, name="evalcore-prepare", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with suppress(BaseException):  # whatever it is, it is met again in the caller's thread
            self._outcome = self._prepare()

    def outcome(self, wants_stop: Callable[[], bool]) -> Benchmark | None:
        """What was prepared; None where something failed. Raises Stopped."""
        while self._thread.is_alive():
            if wants_stop():
                raise Stopped
            self._thread.join(SECONDS_BETWEEN_LOOKS)
        return self._outcome if self._outcome and self._outcome.is_whole else None

    def end(self) -> None:
        """Waits a little for a thread that was told to end."""
        self._thread.join(SECONDS_TO_END)


def prepared(
    preparer: Preparer,
    specs: Sequence[Spec],
    begin: Callable[[], None],
    wants_stop: Callable[[], bool],
    *,
    ahead: bool,
) -> Iterator[Benchmark]:
    """The benchmarks of the specs in turn, up to one with an `error`; `begin` is told of each.

    With `ahead` the next one is prepared in a thread while the caller works on the one at hand.
    What fails there is tried again in the caller's own thread when it is its turn: some code works
    in no other. Raises Stopped when it waits for that thread and the caller wants to stop.
    """
    waiting = benchmarks_of(specs)
    cancelled = threading.Event()
    coming: Ahead | None = None
    try:
        for place, alike in enumerate(waiting):
            begin()
            benchmark = coming.outcome(wants_stop) if coming else None
            benchmark = benchmark or preparer.prepare(alike, cancelled)
            coming = None
            if ahead and not benchmark.error and place + 1 < len(waiting):
                coming = Ahead(partial(preparer.prepare, waiting[place + 1], cancelled))
            yield benchmark
            if benchmark.error:
                return
    finally:
        cancelled.set()
        if coming:
            coming.end()
