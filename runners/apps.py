"""Connects the queue to the broker: runs that were queued become a message to the workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig
from django.core.checks import register

from runners.prctl import hide_from_peers

if TYPE_CHECKING:
    from leaderboard.models import Run


class RunnersConfig(AppConfig):
    name = "runners"

    def ready(self) -> None:
        from leaderboard.signals import runs_queued
        from runners import checks

        # Site, workers and beat all hold secrets; models run under the same user.
        hide_from_peers()
        register(checks.models_are_confined, checks.CONFINEMENT)
        runs_queued.connect(hint_of_queued, dispatch_uid="hint")


def hint_of_queued(runs: Sequence[Run], **_: Any) -> None:
    """Send one message for all, about the first of them."""
    from leaderboard.queue import claims
    from runners.celery import send_hint

    send_hint(**claims.summary(runs[0]))
