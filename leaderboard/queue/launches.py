"""What becomes of the workers that an engine was asked for; each change one conditional UPDATE."""

from __future__ import annotations

from uuid import UUID

from django.db.models import F
from django.db.models.functions import Now

from leaderboard.models import Launch

State = Launch.State


def came(launch: UUID) -> bool:
    """Its worker is there, whatever was thought of it; False for a launch that nobody knows."""
    before = Launch.objects.filter(pk=launch).exclude(state=State.UP)
    if before.update(state=State.UP, came=Now(), ended=None, why=""):
        return True
    return Launch.objects.filter(pk=launch).exists()


def took(launch: UUID) -> None:
    """Its worker took runs."""
    Launch.objects.filter(pk=launch).update(claims=F("claims") + 1)


def handed(launch: UUID, handle: str) -> None:
    """The engine took it and calls it so. Its worker may have been quicker."""
    Launch.objects.filter(pk=launch).update(handle=handle)
    Launch.objects.filter(pk=launch, state=State.ASKING).update(state=State.WAITING)


def end(launch: UUID, why: str) -> bool:
    """It is over: well where its worker came, else a failure; False where that is known."""
    still = Launch.objects.filter(pk=launch)
    ended = still.filter(state=State.UP).update(state=State.ENDED, ended=Now(), why=why)
    return bool(
        ended
        or still.filter(state__in=(State.ASKING, State.WAITING)).update(
            state=State.FAILED, ended=Now(), why=why
        )
    )
