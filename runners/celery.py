"""The Celery app: its queues, its schedule of chores, and the options of workers that evaluate.

Messages carry no work: the database has that.
"""

from __future__ import annotations

import logging.config
import os
import sys
import warnings
from time import time
from typing import Any

import click
import structlog
from celery import Celery, Task
from celery.beat import Scheduler
from celery.concurrency.thread import TaskPool
from celery.exceptions import InvalidTaskError
from celery.platforms import SecurityWarning
from celery.signals import setup_logging, task_postrun, task_prerun
from celery.worker.control import inspect_command
from celery.worker.request import Request
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from kombu.entity import Queue
from kombu.exceptions import ChannelError, OperationalError

from runners import broker

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "leaderboard.settings")

# That a worker should not run as root: our messages are JSON, and in a container it is root.
warnings.filterwarnings("ignore", category=SecurityWarning)

logger = logging.getLogger(__name__)

CHORES = {
    "release_stalled": ("chores", 5.0),
    "build_boards": ("boards", 5.0),
    "analyse_items": ("boards", 60.0),
    "leave_out_disputed": ("boards", 15.0),
    "compare_backends": ("boards", 60.0),
    "look_at_hub": ("chores", 60.0),
    "read_costs": ("chores", 15.0),
    "tell_of_endings": ("chores", 60.0),
    "sweep": ("chores", 60.0),
}
"""By task its queue, and the seconds from one look at what is due to the next."""
EXPIRES = 30.0
"""Seconds after which a message that nobody took is worth nothing."""
EVALUATE = "evaluate"
"""The task, and the queue whose workers evaluate."""
IDLE_MINUTES = 10.0
"""What `--until-idle` means without a number."""


class ChoreScheduler(Scheduler):  # type: ignore[misc]
    """Beat's own, that goes on when the machine's clock is set back.

    Celery's would send nothing until the clock shows the time again that it had shown.
    """

    _latest = 0.0

    def tick(self, *arguments: Any, **options: Any) -> float:
        now = time()
        if now < self._latest - 1:
            for entry in self.schedule.values():
                entry.last_run_at = entry.default_now()
            self._heap = None  # of moments by the old time
        self._latest = now
        return float(super().tick(*arguments, **options))


class DevicePool(TaskPool):  # type: ignore[misc]
    """One thread for one device, so that the worker answers while a model computes."""

    def terminate_job(self, *_: object) -> None:
        """Celery's way to end one task (`control terminate`, SIGQUIT): its runs are given back."""
        from runners import worker

        if worker.evaluator:
            worker.evaluator.give_back()


class CheckedRequest(Request):  # type: ignore[misc]
    """A message whose body is no task's is thrown away: it would end each worker that takes it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        try:
            super().__init__(*arguments, **options)
        except (TypeError, ValueError) as problem:
            raise InvalidTaskError(f"a body that is no task's: {problem}") from problem


class CheckedTask(Task):  # type: ignore[misc]
    Request = CheckedRequest


try:
    BROKER_URL = settings.PLUMBLINE_BROKER_URL
except ImproperlyConfigured as problem:  # of Celery's commands, which read the settings here
    sys.exit(f"plumbline: {problem}")

app = Celery("plumbline", include=["runners.jobs"], task_cls=CheckedTask)
app.conf.update(
    broker_url=BROKER_URL,
    broker_connection_retry_on_startup=True,
    task_ignore_result=True,
    task_acks_late=False,
    task_routes={
        EVALUATE: {"queue": EVALUATE},
        **{name: {"queue": queue} for name, (queue, _) in CHORES.items()},
    },
    task_default_queue="chores",
    # One thread for one device; the chores name a pool of their own (supervisor.py).
    worker_pool="runners.celery:DevicePool",
    worker_concurrency=1,
    worker_prefetch_multiplier=1,
    # Workers that evaluate answer, and turn this on themselves.
    worker_enable_remote_control=False,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    broker_connection_max_retries=None,
    beat_schedule={
        name: {"task": name, "schedule": seconds, "options": {"expires": EXPIRES}}
        for name, (_, seconds) in CHORES.items()
    },
)
if BROKER_URL.startswith("filesystem:"):
    app.conf.update(
        broker_url="filesystem://localhost//",  # kombu warns of an address without a host
        broker_transport="runners.broker:Transport",
        broker_transport_options=broker.transport_options(settings.PLUMBLINE_HOME / "broker"),
    )
else:
    if BROKER_URL.startswith("redis:"):
        app.conf.broker_transport = "runners.broker:BoundedRedis"
    # The site speaks to this broker within a request: it may not wait for long.
    app.conf.broker_transport_options = {"socket_connect_timeout": 1.0, "socket_timeout": 5.0}

app.user_options["worker"].update(
    [
        click.Option(
            ["--devices"],
            metavar="0,1|cpu",
            help="Evaluate on these GPUs, by index or UUID, or on the processor. "
            "Without: on all GPUs that there are.",
        ),
        click.Option(["--drain"], is_flag=True, help="End as soon as nothing that waits fits."),
        click.Option(
            ["--until-idle"],
            is_flag=False,
            flag_value=IDLE_MINUTES,
            type=click.FloatRange(min=0, min_open=True, max=365 * 24 * 60),
            metavar="MINUTES",
            help=f"End when nothing has fitted for so long; {IDLE_MINUTES:.0f} without a number.",
        ),
    ]
)
app.steps["worker"].add("runners.worker:Evaluator")


@inspect_command()  # type: ignore[untyped-decorator]
def computing(_state: Any) -> dict[str, Any]:
    """The model at work and how far each of its runs is."""
    from runners import worker

    return worker.evaluator.computing() if worker.evaluator else {}


def send_hint(queue: str | Queue = EVALUATE, **about: str) -> bool:
    """Tell a worker that runs wait, and for those who look what they are about.

    False where the broker does not take it, which costs seconds: workers look for themselves.
    """
    try:
        app.send_task(EVALUATE, kwargs=about, queue=queue, expires=EXPIRES, retry=False)
    except (OperationalError, ChannelError, OSError) as problem:
        logger.warning("no message to the workers (%s): they look for themselves soon", problem)
        return False
    return True


def log_like_the_site(logfile: str | None = None, **_: Any) -> None:
    """Django's configuration for all, into a worker's `--logfile` where it has one.

    Of Celery only what is wrong: every hint would be a line.
    """
    configuration = settings.LOGGING
    if logfile:
        # Opened anew where logrotate has moved the file away.
        file = {"class": "logging.handlers.WatchedFileHandler", "filename": logfile}
        console = {**configuration["handlers"]["console"], **file}
        configuration = {**configuration, "handlers": {"console": console}}
    logging.config.dictConfig(configuration)
    logging.getLogger("celery").setLevel(logging.WARNING)


def name_job(task: Task, **_: Any) -> None:
    structlog.contextvars.bind_contextvars(job=task.name, worker=task.request.hostname)


def forget_job(**_: Any) -> None:
    structlog.contextvars.clear_contextvars()


setup_logging.connect(log_like_the_site)
task_prerun.connect(name_job)
task_postrun.connect(forget_job)
