"""What a worker attends to while a child works: its lease, its progress and the child's limits.

A run's time is bounded so generously that only what is wrong takes longer. A watch for silence
alone is not enough: a tokenizer that repeats text, or a model of a thousand thin layers, gives
signs of life for hours.

    budget of a run = factor x (START_SECONDS + requests x request)
    request = REQUEST_SECONDS + 2 x parameters x tokens / speed

2 x parameters is the work for one token in floating-point operations (Kaplan et al. 2020, section
2.1). Our engine has needed a tenth of that or less: prompts share what they have in common, and
processors are faster. What is generated comes token by token and counts sixteen times.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from contextvars import copy_context
from dataclasses import asdict
from functools import partial
from time import monotonic
from typing import Self
from uuid import UUID

import psutil
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.db.models import Max
from django.db.models.functions import Now

from evalcore.watch import LOOKS
from leaderboard.models import Run, Worker
from leaderboard.models.run import ErrorClass
from leaderboard.models.task import Style
from leaderboard.queue import claims, orders
from leaderboard.stats import Standing, standing
from runners.devices import MemoryMeter, host_memory
from runners.failures import Failed, Stopping, Taken
from runners.folders import Footprint
from runners.process import Child, Event, Look, Phase, Progress, Use, Waits
from runners.registration import persistently

STORE_EVERY = 1.0
STOP_GRACE = 3.0
"""How long a child may finish its pack when the worker stops; well inside the supervisor's 5 s."""
HEARD_WITHIN = 2.0
"""Seconds after which a worker has heard a signal that its child has heard."""
STALLED = {"download": 600.0, "load": 900.0, "prepare": 900.0, "evaluate": 1800.0}
"""Seconds without a sign of life after which a child is given up, by phase."""
DOWNLOAD, DOWNLOAD_SPEED = 3600.0, 2e6
"""Seconds, and bytes in a second: a download that takes longer is given up."""
PRINTED_BYTES = 1 << 30
"""A day of progress is some 50 MB; an endless output is more within seconds."""
NEARLY_FULL = 0.85
ANSWERING = ("prepare", "evaluate")
"""Phases in which a child is at certain tasks; before, it works for all of them."""


class Watch:
    """Over the children that work on `runs`, by task name, one child after the other."""

    def __init__(
        self,
        claim: claims.Claim,
        worker: Worker,
        heartbeat: Heartbeat,
        runs: dict[str, Run],
        stopping: threading.Event,
    ) -> None:
        self.token = claim.token
        self.claimed = claim.runs
        self.runs = runs
        self.stopping = stopping
        self.device = worker.device
        self.documents: dict[str, str] = {}
        """By task the digest of its documents, where the download was asked for it."""
        self._worker = worker
        self._heartbeat = heartbeat
        self._phase = "download"
        self._counts: dict[str, tuple[int, int]] = {}
        self._task_at_work: str | None = None
        self._unsaved_tasks: set[str] = set()
        self._looks: dict[str, list[Standing]] = {}
        """By task where its score stood so far."""
        self._request_counts: dict[str, tuple[int, int]] = {}
        """By task the requests that the child has counted, and as many as we believe."""
        self._allowed_seconds: dict[str, float] = {}
        self._stored_at = 0.0
        self._child_began = monotonic()
        self._alive_at = monotonic()
        self._asked_to_stop: float | None = None
        self._memory_limit = host_memory()
        if worker.device.startswith("cpu"):
            self._memory_limit = min(self._memory_limit, worker.memory_bytes)
        self._use = Use(0, 0)
        self._footprint = Footprint(())
        self._peak_bytes = 0
        self._machine_full = False

    def follow(self, child: Child, phase: str, footprint: Footprint) -> Iterator[Event]:
        """What the child says until it ends or waits; `footprint` is what it may not outgrow.

        Raises Taken, Stopping, or Failed where the child went past a limit; the caller's `with`
        then kills it.
        """
        self._enter(phase)
        self._child_began, self._allowed_seconds = monotonic(), {}
        self._footprint = footprint
        while not child.has_ended():
            event = child.next_event(0.2)
            if event is not None:
                self._note(event)
                yield event
                if isinstance(event, Waits):
                    return
            self.attend(child)

    def attend(self, child: Child) -> None:
        """Look at the child, and hear what is asked of the worker; raises what `follow` does."""
        now = monotonic()
        self._heartbeat.hear()
        if self._heartbeat.has_lost(self.runs.values()):
            raise Taken
        if now - self._stored_at >= STORE_EVERY:
            self._stored_at = now
            self._store_progress()
            self._check_limits(child)
        if self.must_stop():
            self._stop(child)

    def must_stop(self) -> bool:
        """Whether the worker was asked to stop, or to give back what it has."""
        return self.stopping.is_set() or self._heartbeat.drains()

    def hears_that_it_must_stop(self) -> bool:
        """The same, in a moment: what is sent to all processes may reach the child before us."""
        until = monotonic() + HEARD_WITHIN
        while not self.must_stop() and monotonic() < until:
            self.stopping.wait(0.1)
        return self.must_stop()

    def end_run(self, task: str) -> None:
        """The run of this task has ended; it is no longer watched."""
        del self.runs[task]
        counts = self._counts
        self._begin(self._phase)
        # Those that were answered together with it keep what was counted.
        self._counts = {other: counts[other] for other in counts if other != task}

    def longest(self) -> float:
        """Seconds that all runs together may take at most, however many requests they have."""
        runs = self.runs.values()
        return sum(seconds_allowed(run, self._worker, MAX_REQUESTS) for run in runs)

    def longest_download(self) -> float:
        """Seconds that the download for them may take."""
        return DOWNLOAD + next(iter(self.runs.values())).needed_bytes / DOWNLOAD_SPEED

    def begun_runs(self) -> list[Run]:
        """The runs that the child was at: all of them until it has begun to answer."""
        if self._phase not in ANSWERING:
            return list(self.runs.values())
        return [run for task, run in self.runs.items() if self._standing(task)[0] != claims.WAITS]

    def out_of_memory(self) -> Failed | None:
        """What is to be said of a child that was just killed, if memory is why.

        The model is to blame for what its own process took. Where others had filled the machine,
        it is not.
        """
        if self._peak_bytes > NEARLY_FULL * self._memory_limit:
            return Failed(ErrorClass.MODEL, "out of memory: the system killed the model's process")
        if self._machine_full:
            return Failed(
                ErrorClass.INFRA,
                "the worker's machine ran out of memory, of which the model's process had "
                f"{self._peak_bytes / 2**30:.1f} GiB",
                no_room=True,
            )
        return None

    def check_disk(self, failure: Failed) -> Failed:
        """What is to be said of a disk that is told to be full, now that the child is dead.

        A hostile model may end with that status, or fill the disk itself for a moment: either is
        a failure like any other, which is charged.
        """
        if self._footprint.is_without_room():
            return Failed(ErrorClass.INFRA, failure.message, no_room=True)
        message = (
            f"{failure.message} (so it was said, but without what the model's process had written "
            f"the fullest disk has {self._footprint.free() / 2**30:,.1f} GiB free)"
        )
        return Failed(ErrorClass.INFRA, message)

    def _enter(self, phase: str) -> None:
        self._alive_at = monotonic()
        self._use = Use(0, 0)
        self._begin(phase)

    def _begin(self, phase: str) -> None:
        """What was counted before says nothing of what comes now."""
        self._phase = phase
        self._counts = {}
        # The engine takes the tasks in the order of its command line, which is that of the runs.
        self._task_at_work = next(iter(self.runs), None)
        self._unsaved_tasks = set(self.runs)

    def _note(self, event: Event) -> None:
        self._alive_at = monotonic()
        if isinstance(event, Phase):
            self._enter(event.phase)
        elif isinstance(event, Progress):
            self._count(event)
        elif isinstance(event, Look):
            self._look(event)

    def _count(self, event: Progress) -> None:
        """Data sets while they are downloaded, for all runs; else requests of the task named."""
        counted = (event.done, event.total)
        if self._phase == "download":
            self._unsaved_tasks = set(self.runs)
            self._counts = dict.fromkeys(self.runs, counted)
            return
        if event.task not in self.runs:
            return
        if event.task != self._task_at_work and not self._counts:
            self._unsaved_tasks = set(self.runs)
            self._task_at_work = event.task
        self._unsaved_tasks.add(event.task)
        self._counts[event.task] = counted

    def _look(self, event: Look) -> None:
        """Told again by a child that goes on with what another had begun; more than the engine
        takes, or fewer questions than before, a model has made up."""
        run = self.runs.get(event.task)
        if run is None:
            return
        known = self._looks.setdefault(event.task, [])
        if len(known) == LOOKS:
            return
        earlier = known[-1] if known else None
        now = standing(event.strata, looks=LOOKS, earlier=earlier)
        if earlier and (now.documents, now.answered) <= (earlier.documents, earlier.answered):
            return
        known.append(now)
        stored = [asdict(one) for one in known]
        store = partial(claims.look, self.token, run, metric=event.metric, looks=stored)
        if not persistently(store):
            raise Taken

    def _store_progress(self) -> None:
        for task in sorted(self._unsaved_tasks):
            report = partial(claims.report, self.token, self.runs[task])
            phase, done, total = self._standing(task)
            if not persistently(partial(report, phase=phase, done=done, total=total)):
                raise Taken
        self._unsaved_tasks.clear()

    def _standing(self, task: str) -> tuple[str, int, int]:
        """Phase and counts of a run. Tasks of one benchmark are answered together, others wait."""
        counts = self._counts.get(task)
        if self._phase in ANSWERING and counts is None and task != self._task_at_work:
            return claims.WAITS, 0, 0
        return self._phase, *(counts or (0, 0))

    def _check_limits(self, child: Child) -> None:
        use = child.use()
        if self._phase == "download" and use.written_bytes > self._use.written_bytes:
            self._alive_at = monotonic()
        self._use = use
        self._peak_bytes = max(self._peak_bytes, use.memory_bytes)
        machine = psutil.virtual_memory()
        self._machine_full = machine.available < (1 - NEARLY_FULL) / 3 * machine.total
        if use.memory_bytes > self._memory_limit:
            raise Failed(
                ErrorClass.MODEL,
                f"out of memory: the model's process took {use.memory_bytes / 2**30:.1f} GiB, "
                f"this worker has {self._memory_limit / 2**30:.1f} GiB for it",
            )
        if use.printed_bytes > PRINTED_BYTES:
            raise Failed(
                ErrorClass.MODEL,
                f"the process printed {use.printed_bytes >> 20} MiB, and {PRINTED_BYTES >> 20} MiB "
                "is the most",
            )
        if taken := self._footprint.too_large():
            raise Failed(ErrorClass.MODEL, f"the model's process {taken}")
        if self._footprint.fills_the_disk():
            raise Failed(ErrorClass.INFRA, "the worker's disk is full", disk_full=True)
        if monotonic() - self._alive_at > STALLED[self._phase]:
            raise Failed(
                ErrorClass.INFRA,
                f"no sign of life for {STALLED[self._phase] / 60:.0f} minutes "
                f"in phase {self._phase!r}",
            )

        self._check_time()

    def _check_time(self) -> None:
        taken = monotonic() - self._child_began
        if self._phase == "download":
            if self.runs and taken > self.longest_download():
                raise Failed(ErrorClass.INFRA, f"the download took {taken / 3600:.1f} hours")
            return
        # Before anything is answered, the load has the time of the first.
        for run in self.begun_runs() if self._phase in ANSWERING else [*self.runs.values()][:1]:
            counted = self._counts.get(run.task.name, (0, 0))[1]
            known = self._request_counts.get(run.task.name)
            if known is None or known[0] != counted:
                believed = persistently(partial(believable_requests, run, counted))
                known = self._request_counts[run.task.name] = (counted, believed)
            self._allowed_seconds[run.task.name] = seconds_allowed(run, self._worker, known[1])
        allowed = sum(self._allowed_seconds.values())
        if self.runs and taken > allowed:
            run = self.runs.get(self._task_at_work or "") or next(iter(self.runs.values()))
            raise Failed(ErrorClass.MODEL, over_time_message(run, allowed))

    def _stop(self, child: Child) -> None:
        if self._asked_to_stop is None:
            self._asked_to_stop = monotonic()
            child.ask_to_stop()
        elif monotonic() - self._asked_to_stop > STOP_GRACE:
            raise Stopping


RENEW_EVERY = 10.0
TRY_AGAIN = 1.0
"""Seconds until the next attempt where the database did not answer."""
LONGEST_SILENCE = 3600.0
"""Seconds without a sign of the worker's own loop after which its runs are left to others."""

logger = logging.getLogger(__name__)


class Heartbeat:
    """Over the runs of one claim, as long as the `with` statement lasts."""

    def __init__(self, claim: claims.Claim, worker: Worker) -> None:
        self._token = claim.token
        self._worker = worker.pk
        self._ours: frozenset[UUID] = frozenset(run.pk for run in claim.runs)
        self._heard_at = self._renewed_at = monotonic()
        self._drains = False
        self._memory = MemoryMeter(worker.device, worker.memory_bytes)
        self._ends = threading.Event()
        # What it logs is about the same claim as what the worker's own thread logs.
        about = copy_context()
        self._thread = threading.Thread(
            target=about.run, args=(self._beat,), name="heartbeat", daemon=True
        )

    def has_lost(self, runs: Iterable[Run]) -> bool:
        """Whether one of these runs went to somebody else, as far as the last beat knows.

        From the end of a lease that could not be renewed, anybody may have taken them all.
        """
        return self.has_run_out() or any(run.pk not in self._ours for run in runs)

    def has_run_out(self) -> bool:
        """Whether the lease was not renewed for as long as it lasts: others may have the runs."""
        # Counted from when the renewal was asked for, not answered: the database counts from later.
        return monotonic() - self._renewed_at > claims.LEASE.total_seconds()

    def wants_runs_back(self) -> bool:
        """Whether they go back to the queue whatever the worker does: drained, or lost."""
        return self._drains or self.has_run_out()

    def why_given_back(self) -> str:
        if self.has_run_out():
            return f"{self._worker} could not renew its lease on the run"
        return f"{self._worker} was {'drained' if self._drains else 'stopped'}"

    def drains(self) -> bool:
        """Whether the operator wants the runs back, as far as the last beat knows."""
        return self._drains

    def hear(self) -> None:
        """The worker's loop goes on."""
        self._heard_at = monotonic()

    def __enter__(self) -> Self:
        self._memory.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._memory.end()
        self._ends.set()
        self._thread.join(RENEW_EVERY)

    def _beat(self) -> None:
        pause = 0.0
        while not self._ends.wait(pause):
            if monotonic() - self._heard_at > LONGEST_SILENCE:
                logger.error("%s: the worker does not go on: its lease may run out", self._token)
                break
            pause = RENEW_EVERY if self._renewed() else TRY_AGAIN
            if self.has_run_out():
                break
        if self.has_run_out():
            logger.error("%s: the lease has run out: the work on it stops", self._token)
        connection.close()

    def _renewed(self) -> bool:
        asked = monotonic()
        try:
            ours = claims.renew(self._token)
            reading = self._memory.reading
            memory = {} if reading is None else {"memory_in_use": reading}
            Worker.objects.filter(pk=self._worker).update(seen=Now(), **memory)
            self._drains = orders.drains(self._worker)
        except (DatabaseError, InterfaceError) as problem:
            logger.warning("%s: the lease could not be renewed: %s", self._token, problem)
            with suppress(DatabaseError, InterfaceError):
                connection.close()
            return False
        self._ours, self._renewed_at = frozenset(ours), asked
        return True


START_SECONDS = 1800.0
"""Seconds for loading, for the data and their prompts, and for scores."""
REQUEST_SECONDS = 0.1
"""Seconds that each request may take whatever the model's size: its text, its tokens, its pass."""
REQUEST_TOKENS = 2048
"""Of a request."""
GENERATION_FACTOR = 16
GENERATES = (Style.GENERATE, Style.COT, Style.HELM_GENERATE)
CPU_SPEED, GPU_SPEED = 5e10, 5e13
"""Floating-point operations in a second, with everything that stands around them."""
UNCOUNTED_REQUESTS = 20_000
"""Requests of a run while nobody has counted them."""
MAX_REQUESTS = 1_000_000
"""As many as count where no such run was ever finished: it is the model's process that counts."""


def seconds_allowed(run: Run, worker: Worker, counted: int) -> float:
    """Wall-clock seconds for one run from when it is asked, of `counted` requests (0: not yet)."""
    requests = min(counted or UNCOUNTED_REQUESTS, MAX_REQUESTS)
    speed = CPU_SPEED if worker.device.startswith("cpu") else GPU_SPEED
    tokens = REQUEST_TOKENS * (GENERATION_FACTOR if run.task.style in GENERATES else 1)
    each = REQUEST_SECONDS + 2 * run.variant.parameters * tokens / speed
    return settings.PLUMBLINE_TIME_FACTOR * (START_SECONDS + requests * each)


def believable_requests(run: Run, counted: int) -> int:
    """`counted`, at most twice the requests of any run of this task that was finished."""
    usual = Run.objects.filter(task=run.task, state=Run.State.DONE).aggregate(
        most=Max("progress_total")
    )["most"]
    return min(counted, 2 * usual) if usual else counted


def over_time_message(run: Run, allowed: float) -> str:
    """Why a run was ended that took longer."""
    return (
        f"{run.task.name} took longer than the {allowed / 3600:.1f} hours that a model of "
        f"{run.variant.parameters:,} parameters is given for it"
    )
