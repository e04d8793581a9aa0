"""A worker that evaluates: Celery's own worker, with devices, a row, and options for when it ends.

    celery -A runners worker --queues evaluate --devices 0 --until-idle 10

Read `Evaluator` first. Runs are claimed from the database by lease. A message only hints that runs
wait: one that is lost, doubled or late costs seconds. So the worker looks for runs itself every few
seconds, and sends a hint to its own queue, so that Celery's tools show what it computes. Without a
broker it goes on all the same.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any

from celery import bootsteps
from celery.apps import worker as celery_worker
from celery.signals import celeryd_init, worker_shutdown, worker_shutting_down
from celery.utils.nodenames import worker_direct
from celery.worker import state as celery_state
from django.conf import settings
from django.db import connection

from leaderboard.models import Run, Worker
from leaderboard.models.run import State
from leaderboard.queue import claims
from runners import broker, devices, registration, sandboxed
from runners.celery import EVALUATE, DevicePool, app, send_hint
from runners.cleanup import Sweeper
from runners.devices import Gpu, NoSuchDevice
from runners.engine import Keeper
from runners.evaluate import evaluate_claim
from runners.registration import Registration, own_name, persistently

logger = logging.getLogger(__name__)

LOOK_EVERY = 5.0
"""Seconds: what a lost hint costs at most."""
HINT_SECONDS = 2 * LOOK_EVERY
"""Seconds after which a hint that this worker sent to itself counts as lost."""
FAULT_PAUSE = 30.0
"""Seconds without a look after a fault of the worker's own."""
GPU_PAUSE = 60.0
"""Seconds until a GPU that could not be used is tried again."""
END_SECONDS = 7.0
"""Seconds for Celery to end once the runs are given back: a broker that hangs can hold it."""


@dataclass(frozen=True)
class Place:
    """Where this worker computes, and the name that no other worker has while it lives."""

    name: str
    gpus: list[Gpu]
    refusal: str | None
    """Why no model can be run on these GPUs, where that is so."""
    locks: ExitStack


_place: Place | None = None
evaluator: Evaluator | None = None
"""That of this process; a worker of chores has none."""


class ReentrantEvent(threading.Event):
    """An event that a signal's handler may set.

    A second signal interrupts the handler of the first in the same thread, which would wait for
    ever for an ordinary event's lock: that it holds itself.
    """

    def __init__(self) -> None:
        super().__init__()
        self._cond = threading.Condition(threading.RLock())


class Evaluator(bootsteps.StartStopStep):  # type: ignore[misc]
    """The part of the worker that evaluates.

    Two threads take part. The pool's thread has one claim at a time (`work`). The look thread
    announces the worker while it is free, and hints that something waits.
    """

    requires = ("celery.worker.components:Pool",)

    def __init__(
        self,
        parent: Any,
        drain: bool = False,
        until_idle: float | None = None,
        **_: Any,
    ) -> None:
        self.stopping = ReentrantEvent()
        self._longest_idle = 0.0 if drain else (until_idle or math.inf) * 60
        self._wake = ReentrantEvent()
        self._at_work = threading.Lock()
        self._claim: claims.Claim | None = None
        self._interrupted = ReentrantEvent()
        self._task_id = ""
        self._progress: dict[str, str] = {}
        self._hinted: float | None = None
        self._busy_until = monotonic()
        self._rests_until = 0.0
        self._refusal: str | None = None
        self._finished = threading.Lock()
        self._thread = threading.Thread(target=self._look, name="look", daemon=True)
        super().__init__(parent)
        if _place is not None:
            self._place, self._refusal = _place, _place.refusal
            self._keeper = Keeper()
            self._sweeper = Sweeper(self.stopping)
            self._registration = Registration(_place.name, devices.device_option(_place.gpus))

    def include_if(self, _parent: Any) -> bool:
        """Workers of chores have no devices."""
        return _place is not None

    def create(self, parent: Any) -> None:
        global evaluator  # a process has one
        self._pool_of = parent
        evaluator = self

    def start(self, _parent: Any) -> None:
        self._sweeper.sweep_if_due()
        self._thread.start()

    def stop(self, _parent: Any) -> None:
        """Give back what is computed, and wait for that: the pool is stopped after this step."""
        self.stop_soon()
        with self._at_work:
            self.finish()

    terminate = stop

    def stop_soon(self) -> None:
        """Take nothing more, and give back what is computed. Returns at once."""
        self.stopping.set()
        self.give_back()
        registration.hurry()
        self._wake.set()

    def give_back(self) -> None:
        """Interrupt the claim that is computed, if there is one."""
        self._interrupted.set()

    def finish(self) -> None:
        """Write into the row that this worker has ended, once."""
        if self._finished.acquire(blocking=False):
            self._keeper.release()
            self._sweeper.wait()
            self._registration.end()
            self._place.locks.close()

    def work(self, task_id: str = "") -> None:
        """Claim the runs of one model that fit, and evaluate them; in the pool's thread."""
        with self._at_work:
            self._hinted = None
            if self.stopping.is_set() or self._refusal:
                return
            self._interrupted.clear()
            if self.stopping.is_set():  # in between
                self._interrupted.set()
            try:
                worker = self._announce()
                claim = persistently(partial(claims.claim_next, worker))
                if claim is None:
                    return
                self._claim, self._task_id, self._progress = claim, task_id, {}
                self._wake.set()  # the look thread tells of it
                evaluate_claim(claim, worker, self._interrupted, self._keeper)
            except Exception:
                # The runs are queued again when their lease ends; this worker may do others.
                logger.exception("%s goes on after a fault", self._place.name)
                self._rests_until = monotonic() + FAULT_PAUSE
            finally:
                if self._claim:
                    self._busy_until = monotonic()
                self._claim = None
                self._wake.set()

    def computing(self) -> dict[str, Any]:
        """The model that is computed and how far each of its runs was at the last look."""
        claim = self._claim
        if claim is None:
            return {"model": None}
        return {**claims.summary(claim.runs[0]), "runs": self._progress}

    def _announce(self) -> Worker:
        return self._registration.announce(holds_a_model=self._keeper.holds_a_model)

    def _look(self) -> None:
        while not self.stopping.is_set():
            self._wake.clear()
            try:
                with self._free() as free:
                    if free:
                        self._look_for_work()
                if not free:
                    self._report_progress()
            except Exception:
                logger.exception("%s looks again after a fault", self._place.name)
                self._rests_until = monotonic() + FAULT_PAUSE
                if self._is_idle():
                    self._end("it cannot look for runs", os.EX_UNAVAILABLE)
            self._wake.wait(LOOK_EVERY)
        connection.close()
        self._end_without_broker()

    @contextmanager
    def _free(self) -> Iterator[bool]:
        """Whether nothing is computed, and nothing begins to be within the statement."""
        free = self._at_work.acquire(blocking=False)
        try:
            yield free
        finally:
            if free:
                self._at_work.release()

    def _look_for_work(self) -> None:
        now = monotonic()
        if now < self._rests_until or self._is_refused():
            return
        worker = self._announce()
        waiting = persistently(partial(claims.first_fitting, worker))
        if waiting is not None:
            self._busy_until = now
            self._hint(waiting)
            return
        if self._is_idle():
            self._end("nothing that waits fits it", os.EX_OK)
        self._keeper.release_idle()
        self._sweeper.sweep_if_due()

    def _is_idle(self) -> bool:
        """Whether it had nothing to compute for as long as its options say."""
        return monotonic() - self._busy_until >= self._longest_idle

    def _end(self, why: str, status: int) -> None:
        logger.info("%s ends: %s", self._place.name, why)
        celery_state.should_stop = status
        self.stop_soon()

    def _is_refused(self) -> bool:
        """Whether no model can be run on these GPUs. Asked anew each minute while it is so."""
        if self._refusal is None:
            return False
        sys.stderr.write(f"{_refusal_line(self._place.gpus, self._refusal)}\n")
        registration.write_refusal(self._place.name, self._place.gpus, self._refusal)
        # The site in the same tree, and other workers, go on.
        if not self.stopping.wait(GPU_PAUSE):
            self._refusal = sandboxed.cuda_refusal()
        return self._refusal is not None

    def _hint(self, run: Run) -> None:
        """Have the pool begin: by a message that Celery shows, or else directly."""
        sent = self._hinted
        if sent is not None and monotonic() - sent < HINT_SECONDS:
            return
        queue = worker_direct(self._place.name)
        lost = sent is not None
        self._hinted = monotonic()
        if lost or not send_hint(queue, **claims.summary(run)):
            self._pool_of.pool.apply_async(self.work, callback=_ignore)

    def _report_progress(self) -> None:
        """Send how far the runs are, as their rows say, to Flower and keep it for `computing`."""
        claim = self._claim
        if claim is None:
            return
        running = Run.objects.filter(lease_token=claim.token, state=State.RUNNING)
        rows = running.order_by("task__name").values_list(
            "task__name", "phase", "progress_done", "progress_total"
        )
        self._progress = {
            task: f"{phase}, {done:,} of {total:,}" if total else phase
            for task, phase, done, total in rows
        }
        if self._task_id:
            with app.events.default_dispatcher(hostname=self._place.name) as events:
                events.send(
                    "task-progress",
                    uuid=self._task_id,
                    kwargs=repr(self.computing()),
                    retry=False,
                )

    def _end_without_broker(self) -> None:
        """End the process if Celery does not, once all runs are given back: its broker may hang."""
        with self._at_work:
            self.finish()
        threading.Event().wait(END_SECONDS)  # a thread that ends with the process
        logger.warning("%s ends without its broker", self._place.name)
        os._exit(celery_state.should_stop or os.EX_OK)


def _ignore(_: object) -> None:
    """The pool wants a callback for the end of a task; nothing waits for that here."""


@celeryd_init.connect  # type: ignore[untyped-decorator]
def _begin(instance: Any, conf: Any, options: dict[str, Any], **_: Any) -> None:
    """Before anything else of a worker: Celery would log what fails here, and go on with a worker
    that takes hints and evaluates nothing."""
    celery_worker._reload_current_worker = _begin_anew
    try:
        _take_place(instance, conf, options)
    except OSError as problem:
        sys.exit(f"plumbline: {problem}")
    except Exception:
        logger.exception("a worker could not begin")
        sys.exit(1)


def _begin_anew() -> None:
    """At SIGHUP, when all else has ended. Celery would run the file that `python -m celery` means
    as a program by itself, which ends at once."""
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606


def _take_place(instance: Any, conf: Any, options: dict[str, Any]) -> None:
    """Of a worker that evaluates: its devices, its name, its confinement."""
    global _place  # a process has one
    if why := _wrong_options(options):
        sys.exit(f"plumbline: {why}")
    if EVALUATE not in (options.get("queues") or ()):
        return
    if why := sandboxed.refusal():
        sys.exit(f"plumbline: {why}")
    locks = ExitStack()
    try:
        gpus = devices.find_gpus(options.get("devices") or "")
        name = locks.enter_context(own_name(settings.PLUMBLINE_HOME, gpus))
    except NoSuchDevice as problem:
        sys.exit(f"plumbline: --devices: {problem}")
    devices.keep_to(gpus)
    why = None
    if gpus:
        sandboxed.make_cuda_device()
        why = sandboxed.cuda_refusal()
    if why and (options.get("drain") or options.get("until_idle") is not None):
        sys.exit(_refusal_line(gpus, why))
    broker.forget_commands(settings.PLUMBLINE_HOME / "broker", name)
    _place = Place(name, gpus, why, locks)
    instance.hostname = name
    conf.worker_direct = True
    conf.worker_enable_remote_control = True
    conf.worker_send_task_events = True


def _wrong_options(options: dict[str, Any]) -> str | None:
    """What to change in a command of which Celery would leave a part unheeded."""
    queues, until_idle = options.get("queues") or (), options.get("until_idle")
    if EVALUATE not in queues:
        for name in ("devices", "drain", "until_idle"):
            if options.get(name):
                option = name.replace("_", "-")
                return f"--{option} is for workers that evaluate: add --queues {EVALUATE}"
        return None
    if set(queues) != {EVALUATE}:
        # A chore would wait behind a model for hours.
        return f"--queues: a worker that evaluates has no other queue than {EVALUATE}"
    if options["pool"] is not DevicePool or options["concurrency"] != 1 or options.get("autoscale"):
        return (
            "a worker that evaluates has one device and one thread: leave --pool, --concurrency "
            "and --autoscale out"
        )
    if options.get("beat"):
        return "--beat: a worker that evaluates sends no chores, `python -m runners beat` does"
    if until_idle is not None and math.isnan(until_idle):
        return "--until-idle: nan is no number of minutes"
    return None


def _refusal_line(gpus: list[Gpu], why: str) -> str:
    return f"plumbline: --devices {devices.device_option(gpus)}: {why}"


# Celery sends this from its handlers, which wait for an ordinary lock as they would for an event's.
worker_shutting_down.lock = threading.RLock()


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _hear_signal(**_: Any) -> None:
    if evaluator:
        evaluator.stop_soon()


@worker_shutdown.connect  # type: ignore[untyped-decorator]
def _finish(**_: Any) -> None:
    if evaluator:
        evaluator.stop_soon()
        evaluator.finish()
