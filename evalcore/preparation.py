"""Tasks made ready to be asked: benchmark by benchmark, the next one while one is computed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING

from evalcore.errors import EvalError, ModelError, TaskError
from evalcore.model.base import LM, EncodedRequest, Request
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.task import Item, Task

if TYPE_CHECKING:
    from evalcore.score.decontaminate import Overlaps

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

    They are styles or subjects of one benchmark, and all that could be prepared: `error` is what
    the one after them failed with.
    """

    parts: list[Prepared]
    error: EvalError | None = None


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
        """All specs, or those before the first that fails. Raises Cancelled."""
        benchmark = Benchmark([])
        for spec in specs:
            try:
                benchmark.parts.append(self._rendered(spec, cancelled))
            except EvalError as error:
                if isinstance(error, TaskError):
                    error.task = spec.name
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
        pending = iter(self._model.encode(requests, seed=self._seed) if requests else [])
        seconds = time.monotonic() - clock
        for part in parts:
            asked = part.requests
            part.encoded = [next(pending) for request in asked for _ in range(request.repeats)]
            part.token_seconds = seconds * len(asked) / len(requests) if requests else 0.0
            if self._forbid_truncation:
                self._refuse_truncated(part)

    def _encode_one_by_one(self, benchmark: Benchmark) -> None:
        """Finds the part that cannot be encoded; those before it are kept."""
        for place, part in enumerate(benchmark.parts):
            try:
                self._encode([part])
            except EvalError as error:
                if isinstance(error, TaskError | ModelError):
                    # The model may be right for tasks with other texts.
                    error.task = part.spec.name
                benchmark.error = error
                del benchmark.parts[place:]
                return

    def _refuse_truncated(self, part: Prepared) -> None:
        if cut := sum(one.n_truncated > 0 for one in part.encoded):
            raise ModelError(
                f"{cut} of {len(part.encoded)} requests do not fit the model's window of "
                f"{self._model.info.max_length} tokens, and truncation is forbidden: ask with "
                "fewer examples, or allow it"
            )


def prepared(
    preparer: Preparer, specs: Sequence[Spec], begin: Callable[[], None], *, ahead: bool
) -> Iterator[Benchmark]:
    """The benchmarks of the specs in turn, up to the first that fails; `begin` is told of each.

    With `ahead` the next one is prepared in a thread while the caller works on the one at hand.
    What fails there is tried again in the caller's own thread when it is its turn: some code works
    in no other.
    """
    waiting = benchmarks_of(specs)
    cancelled = threading.Event()
    with ThreadPoolExecutor(1, thread_name_prefix="evalcore-prepare") as thread:
        coming: Future[Benchmark] | None = None
        try:
            for place, alike in enumerate(waiting):
                begin()
                benchmark = _outcome(coming) or preparer.prepare(alike, cancelled)
                if ahead and not benchmark.error and place + 1 < len(waiting):
                    coming = thread.submit(preparer.prepare, waiting[place + 1], cancelled)
                yield benchmark
                if benchmark.error:
                    return
        finally:
            cancelled.set()


def _outcome(coming: Future[Benchmark] | None) -> Benchmark | None:
    """What the thread prepared; None where it failed, or had nothing to do."""
    if coming is None or coming.exception() is not None or coming.result().error:
        return None
    return coming.result()
