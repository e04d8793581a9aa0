"""`/metrics` in Prometheus' text format, for who has the token.

Times of requests were counted by the site's processes; everything else is asked of the database
when somebody looks, so that it is the same whichever process answers.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterable, Iterator

from django.conf import settings
from django.db import Error
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from leaderboard.health import stand
from leaderboard.health.checks import UNCACHED
from leaderboard.health.requests import SECONDS
from leaderboard.samples import Folder
from leaderboard.samples import store as artifacts

logger = logging.getLogger(__name__)

PROCESSES = "PROMETHEUS_MULTIPROC_DIR"
"""The variable in which prometheus-client looks for the folder that the processes share."""


def metrics(request: HttpRequest) -> HttpResponse:
    """404 where no token is set, 401 without the right one."""
    if not settings.PLUMBLINE_METRICS_TOKEN:
        return _refused(404, "There are no metrics: PLUMBLINE_METRICS_TOKEN is not set.")
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    right = constant_time_compare(token.strip(), settings.PLUMBLINE_METRICS_TOKEN)
    if scheme.lower() != "bearer" or not right:
        refused = _refused(401, "Send Authorization: Bearer with the token of this site.")
        refused["WWW-Authenticate"] = "Bearer"
        return refused
    page = generate_latest(_registry())
    return HttpResponse(page, content_type=CONTENT_TYPE_LATEST, headers=UNCACHED)


def _refused(status: int, why: str) -> HttpResponse:
    return HttpResponse(f"{why}\n", status=status, content_type="text/plain", headers=UNCACHED)


def _registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    if os.environ.get(PROCESSES):
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    else:
        registry.register(SECONDS)
    registry.register(_Site())
    return registry


class _Site(Collector):
    """What is known beyond one process, as it is at the moment."""

    def describe(self) -> Iterable[Metric]:
        return []  # else the registry would ask the database for the names

    def collect(self) -> Iterator[Metric]:
        yield from _disks()
        try:
            yield from [*_queue(), *_pool(), *_board(), _gauge("database_up", _DATABASE, 1)]
        except Error as problem:
            logger.warning("no metrics of the database: %r", problem)
            yield _gauge("database_up", _DATABASE, 0)


_DATABASE = "Whether the database answered; where it did not, what it knows is missing here."


def _queue() -> Iterator[Metric]:
    now = timezone.now()
    waiting, ended = stand.waiting(now), stand.ended(now)
    live = {"queued": waiting.runs, "running": stand.running()}
    yield _gauges("runs", "Runs that wait or are evaluated.", "state", live)
    told = "Runs that came to their end in the last hour."
    yield _gauges("runs_ended_last_hour", told, "state", ended.runs)
    told = "Requests of the runs that were done in the last hour, over that hour."
    yield _gauge("requests_answered_per_second", told, ended.requests_per_second)
    told = "How long ago that run was queued which waits for longest; 0 where none waits."
    yield _gauge("queue_oldest_run_age_seconds", told, waiting.oldest_seconds or 0.0)


def _pool() -> Iterator[Metric]:
    now = timezone.now()
    pool = stand.pool(now)
    told = "Workers by what they are at; lost: not seen for minutes, but in the last week."
    yield _gauges("workers", told, "state", pool.workers)
    told = "Memory for models of the live workers, by device."
    yield _gauges("worker_memory_bytes", told, "device", pool.memory_bytes)
    yield from _devices(pool.in_use)
    told = "Tokens, read and written, of the runs that a worker finished, each request in full."
    tokens = CounterMetricFamily("plumbline_worker_tokens", told, labels=["worker"])
    for worker, n in pool.tokens.items():
        tokens.add_metric([worker], n)
    yield tokens
    told = "Seconds since the most silent worker that holds runs was seen; 0 where none does."
    yield _gauge("worker_oldest_heartbeat_age_seconds", told, stand.oldest_heartbeat(now) or 0.0)
    newest = stand.newest_heartbeat(now)
    if newest is not None:
        told = "Seconds since any worker was seen."
        yield _gauge("worker_newest_heartbeat_age_seconds", told, newest)


def _devices(in_use: dict[tuple[str, str], tuple[int, int]]) -> Iterator[Metric]:
    told = "Memory of a worker's device that is in use: of a GPU by anybody, else by the worker."
    used = GaugeMetricFamily("plumbline_device_memory_used_bytes", told, labels=_DEVICE)
    told = "Memory of a worker's device in all: of a processor what models may take."
    total = GaugeMetricFamily("plumbline_device_memory_total_bytes", told, labels=_DEVICE)
    for labels, (bytes_used, bytes_in_all) in in_use.items():
        used.add_metric(labels, bytes_used)
        total.add_metric(labels, bytes_in_all)
    yield from (used, total)


_DEVICE = ("worker", "device")


def _board() -> Iterator[Metric]:
    age = stand.board_age(timezone.now())
    if age is not None:
        told = "Seconds since the board was built; it is built again when something has changed."
        yield _gauge("snapshot_age_seconds", told, age)


def _disks() -> Iterator[Metric]:
    folders = {"home": str(settings.PLUMBLINE_HOME)}
    if isinstance(storage := artifacts.storage(), Folder):
        folders["artifacts"] = str(storage.here)
    free = {}
    for name, folder in folders.items():
        try:
            free[name] = shutil.disk_usage(folder).free
        except OSError as problem:
            logger.warning("free space of %s is not known: %s", folder, problem)
    yield _gauges("disk_free_bytes", "Free space where the site keeps files.", "folder", free)


def _gauge(name: str, told: str, value: float) -> Metric:
    return GaugeMetricFamily(f"plumbline_{name}", told, value=value)


def _gauges(name: str, told: str, label: str, values: dict[str, int]) -> Metric:
    family = GaugeMetricFamily(f"plumbline_{name}", told, labels=[label])
    for labelled, value in values.items():
        family.add_metric([labelled], value)
    return family
