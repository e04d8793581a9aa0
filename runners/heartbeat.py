"""A claim's lease is renewed by a thread of its own: nothing that its worker does lets it run out.

Like every write for a claim it names the claim's token, so it renews nothing that was taken away.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from contextlib import suppress
from contextvars import copy_context
from time import monotonic
from types import TracebackType
from typing import Self
from uuid import UUID

from django.db import DatabaseError, InterfaceError, connection
from django.db.models.functions import Now

from leaderboard.models import Run, Worker
from leaderboard.queue import claims, orders
from runners.occupancy import Measuring

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
        self._heard = self._renewed_at = monotonic()
        self._drains = False
        self._memory = Measuring(worker.device, worker.memory_bytes)
        self._over = threading.Event()
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

    def drains(self) -> bool:
        """Whether the operator wants the runs back, as far as the last beat knows."""
        return self._drains

    def hear(self) -> None:
        """The worker's loop goes on."""
        self._heard = monotonic()

    def __enter__(self) -> Self:
        self._memory.start()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._memory.end()
        self._over.set()
        self._thread.join(RENEW_EVERY)

    def _beat(self) -> None:
        pause = 0.0
        while not self._over.wait(pause):
            if monotonic() - self._heard > LONGEST_SILENCE:
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
            found = self._memory.found
            told = {} if found is None else {"memory_in_use": found}
            Worker.objects.filter(pk=self._worker).update(seen=Now(), **told)
            self._drains = orders.drains(self._worker)
        except (DatabaseError, InterfaceError) as problem:
            logger.warning("%s: the lease could not be renewed: %s", self._token, problem)
            with suppress(DatabaseError, InterfaceError):
                connection.close()
            return False
        self._ours, self._renewed_at = frozenset(ours), asked
        return True
