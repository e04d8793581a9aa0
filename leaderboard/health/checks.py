"""Liveness and readiness: whether the process answers, and whether it can show what it has.

They are apart because they ask for different things. Who fails the first is started again; who
fails the second gets no readers until it passes, since a restart mends no database.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from functools import cache
from typing import Any

from django.conf import settings
from django.db import Error, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone

from leaderboard.catalogue import newest_suite
from leaderboard.health import stand
from leaderboard.models import Recall
from leaderboard.samples import Folder
from leaderboard.samples import store as artifacts
from leaderboard.snapshot import OWN, Unreadable, published

logger = logging.getLogger(__name__)

UNCACHED = {"Cache-Control": "no-store"}


class NotReady(Exception):
    """The site cannot do its work; the message says what is wrong and what to do."""


def healthz(_request: HttpRequest) -> HttpResponse:
    """200 where the process answers; nothing else is asked."""
    return HttpResponse("ok\n", content_type="text/plain", headers=UNCACHED)


def readyz(_request: HttpRequest) -> JsonResponse:
    """200 where database, tables, artifacts and board are there; else 503 with what is wrong.

    Seconds and bytes are null where they are not known. What is wrong stands in our words: the
    error itself, which may name hosts and users, is in the log.
    """
    facts: dict[str, Any] = {}
    wrong: list[str] = []
    # Without its database nothing else of this can be asked.
    checks = (_artifacts, _board, _left_out) if _passes(_database, facts, wrong) else (_artifacts,)
    for check in checks:
        _passes(check, facts, wrong)
    told = {"ready": not wrong, "wrong": wrong, **_UNKNOWN, **facts}
    return JsonResponse(told, status=503 if wrong else 200, headers=UNCACHED)


_UNKNOWN = dict.fromkeys(
    (
        *("runs_waiting", "oldest_waiting_seconds", "newest_heartbeat_seconds"),
        *("board_age_seconds", "free_disk_bytes", "recalled_by_the_site"),
    )
)


def _passes(check: Callable[[], dict[str, Any]], facts: dict[str, Any], wrong: list[str]) -> bool:
    try:
        facts.update(check())
    except NotReady as problem:
        logger.warning("not ready: %s (%r)", problem, problem.__cause__)
        wrong.append(str(problem))
        return False
    return True


def _database() -> dict[str, Any]:
    try:
        applied = MigrationRecorder(connection).applied_migrations()
        if missing := _newest_migrations() - applied.keys():
            names = ", ".join(sorted(f"{app}.{name}" for app, name in missing))
            raise NotReady(
                f"the database lacks migrations ({names}): run python -m runners prepare"
            )
        return _queue()
    except Error as problem:
        raise NotReady(
            "the database does not answer: "
            "see that it runs, and that PLUMBLINE_DATABASE_URL is right"
        ) from problem


@cache
def _newest_migrations() -> frozenset[tuple[str, str]]:
    return frozenset(MigrationLoader(None).graph.leaf_nodes())


def _queue() -> dict[str, Any]:
    """How long the queue is and waits, and when a worker was seen."""
    now = timezone.now()
    waiting = stand.waiting(now)
    return {
        "runs_waiting": waiting.runs,
        "oldest_waiting_seconds": waiting.oldest_seconds,
        "newest_heartbeat_seconds": stand.newest_heartbeat(now),
    }


def _left_out() -> dict[str, Any]:
    """The runs that no board could be built with, for an operator to look at."""
    own = Recall.objects.filter(undone=None, by=Recall.SITE)
    return {
        "recalled_by_the_site": [
            name for named in own.values_list("named", flat=True) for name in named
        ]
    }


def _artifacts() -> dict[str, Any]:
    """The free disk of this machine's files; into a folder of artifacts a byte was written."""
    storage = artifacts.storage()
    try:
        storage.check()
        return {"free_disk_bytes": shutil.disk_usage(storage.here).free}
    except OSError as problem:
        if not isinstance(storage, Folder):
            raise NotReady(
                "the bucket of the artifacts cannot be used: see that it is there, and that the "
                "PLUMBLINE_S3_… variables are right"
            ) from problem
        raise NotReady(
            f"the artifacts folder cannot be written ({problem.strerror}): make room on its disk, "
            "and let the site's user write into PLUMBLINE_HOME/artifacts"
        ) from problem


def _board() -> dict[str, Any]:
    name = settings.PLUMBLINE_SUITE
    try:
        suite = newest_suite(name)
        if suite is None:
            raise NotReady(
                f"there is no suite {name}: set PLUMBLINE_SUITE to one of tasks/suites, "
                "and run python -m runners prepare"
            )
        board = published.newest(suite, OWN)
    except Unreadable as problem:
        raise NotReady(
            f"the board of {name} cannot be read: its file is missing or damaged: "
            "the worker of the boards builds it again"
        ) from problem
    except OSError as problem:
        raise NotReady(
            f"the board of {name} cannot be unpacked ({problem.strerror}): make room on the disk "
            "of PLUMBLINE_HOME/artifacts"
        ) from problem
    except Error as problem:
        raise NotReady("the database does not answer any more") from problem
    if board is None:
        raise NotReady(
            f"no board of {name} was built yet: the worker of the boards (python -m runners "
            "boards) builds it within seconds where it runs"
        )
    return {"board_age_seconds": round((timezone.now() - board.built).total_seconds(), 1)}
