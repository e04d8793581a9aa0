"""The Django application of the runners: queued runs become a message to the workers, and
`manage.py check` says whether models are confined here."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from evalcore.sandbox.prctl import hide_from_peers

if TYPE_CHECKING:
    from leaderboard.models import Run


CONFINEMENT = "confinement"


class RunnersConfig(AppConfig):
    name = "runners"

    def ready(self) -> None:
        from leaderboard.signals import runs_queued

        # Site, workers and beat all hold secrets; models run under the same user.
        hide_from_peers()
        register(models_are_confined, CONFINEMENT)
        runs_queued.connect(hint_of_queued, dispatch_uid="hint")


def hint_of_queued(runs: Sequence[Run], **_: Any) -> None:
    """Send one message for all, about the first of them."""
    from leaderboard.queue import claims
    from runners.celery import send_hint

    send_hint(**claims.summary(runs[0]))


def models_are_confined(**_: Any) -> list[CheckMessage]:
    """Of `manage.py check`: an error where models would run with nothing around them, against the
    operator's word."""
    from runners import sandboxed

    computes = find_spec("torch") is not None or settings.PLUMBLINE_VLLM_PYTHON
    # Asked last: it starts a process to see what works.
    if not computes or settings.PLUMBLINE_UNCONFINED or not sandboxed.refusal():
        return []
    return [
        Error(
            "Nothing on this machine confines the process that runs a model: it could read the "
            "database and the secret key.",
            hint=sandboxed.HINT,
            id="runners.E001",
        )
    ]
