"""Connects the queue to the broker: runs that were queued become a message to the workers."""

from __future__ import annotations

import logging
from typing import Any

from django.apps import AppConfig
from django.core.checks import register

from runners.prctl import hide_from_peers

logger = logging.getLogger(__name__)


class RunnersConfig(AppConfig):
    name = "runners"

    def ready(self) -> None:
        from leaderboard.signals import runs_queued
        from runners import checks

        # Site, workers and beat all hold secrets; models run under the same user.
        hide_from_peers()
        register(checks.models_are_confined, checks.CONFINEMENT)
        runs_queued.connect(send_hint, dispatch_uid="hint")


def send_hint(**_: Any) -> None:
    """Tell a worker that runs wait. A broker that is down costs seconds, never the submission."""
    from kombu.exceptions import ChannelError, OperationalError

    from runners import hints

    try:
        hints.send()
    except (OperationalError, ChannelError, OSError) as problem:
        logger.warning("no message to the workers (%s); they look for themselves soon", problem)
