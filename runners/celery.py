"""The Celery app: chores by the clock. Its messages carry nothing; workers that evaluate are none
of its own (worker.py)."""

from __future__ import annotations

import logging.config
import os
import warnings
from typing import Any

import structlog
from celery import Celery, Task
from celery.platforms import SecurityWarning
from celery.signals import setup_logging, task_postrun, task_prerun
from django.conf import settings

from runners import broker

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "leaderboard.settings")

# That a worker should not run as root: our messages are JSON, and in a container it is root.
warnings.filterwarnings("ignore", category=SecurityWarning)

EVERY = 5.0
"""Seconds between looks at what is due."""
EXPIRES = 30.0

app = Celery("plumbline", include=["runners.jobs"])
app.conf.update(
    broker_url=settings.PLUMBLINE_BROKER_URL,
    broker_connection_retry_on_startup=True,
    task_ignore_result=True,
    task_acks_late=False,
    task_routes={
        "build_boards": {"queue": "boards"},
        "analyse_items": {"queue": "boards"},
        "analyse_sisters": {"queue": "boards"},
        "leave_out_disputed": {"queue": "boards"},
        "compare_backends": {"queue": "boards"},
        "*": {"queue": "chores"},
    },
    task_default_queue="chores",
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,
    beat_schedule={
        name: {"task": name, "schedule": seconds, "options": {"expires": EXPIRES}}
        for name, seconds in (
            ("release_stalled", EVERY),
            ("build_boards", EVERY),
            ("analyse_items", 60.0),
            ("analyse_sisters", 60.0),
            ("leave_out_disputed", 15.0),
            ("compare_backends", 60.0),
            ("look_at_hub", 60.0),
            ("launch_workers", 15.0),
            ("read_costs", 15.0),
            ("tell_of_endings", 60.0),
            ("sweep", 60.0),
        )
    },
)
if settings.PLUMBLINE_BROKER_URL.startswith("filesystem:"):
    app.conf.update(
        broker_url="filesystem://localhost//",  # kombu warns of an address without a host
        broker_transport="runners.broker:Transport",
        broker_transport_options=broker.options(settings.PLUMBLINE_HOME / "broker"),
    )
else:
    if settings.PLUMBLINE_BROKER_URL.startswith("redis:"):
        app.conf.broker_transport = "runners.broker:BoundedRedis"
    # The site speaks to this broker within a request: it may not wait for long.
    app.conf.broker_transport_options = {"socket_connect_timeout": 1.0, "socket_timeout": 5.0}


def log_like_the_site(**_: Any) -> None:
    """Django's configuration for all; of Celery only what is wrong: every hint would be a line."""
    logging.config.dictConfig(settings.LOGGING)
    logging.getLogger("celery").setLevel(logging.WARNING)


def name_job(task: Task, **_: Any) -> None:
    structlog.contextvars.bind_contextvars(job=task.name, worker=task.request.hostname)


def forget_job(**_: Any) -> None:
    structlog.contextvars.clear_contextvars()


setup_logging.connect(log_like_the_site)
task_prerun.connect(name_job)
task_postrun.connect(forget_job)
