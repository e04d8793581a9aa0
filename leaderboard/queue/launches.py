"""What becomes of the workers that an engine was asked for; each change one conditional UPDATE."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import F, Q
from django.db.models.functions import Now

from leaderboard.models import Launch

State = Launch.State
FIRST_REST, LONGEST_REST = timedelta(minutes=5), timedelta(hours=6)
"""How long no worker of a kind is asked for after one failed; twice as long after each further."""
DAY = timedelta(hours=24)
SHOWN = 20


def ask(kind: str, engine: str, *, gpus: int, hours: float, price: float, at: datetime) -> Launch:
    """Before the engine is asked, so that none that costs something is forgotten."""
    return Launch.objects.create(
        kind=kind, engine=engine, gpus=gpus, hours=hours, price=price, asked=at
    )


def withdraw(launch: UUID, why: str) -> bool:
    """It is not wanted any more; False where its worker came meanwhile."""
    waiting = Launch.objects.filter(pk=launch, state=State.WAITING)
    return bool(waiting.update(state=State.ENDED, ended=Now(), why=why))


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


def resting_until(kind: str, of: Iterable[Launch]) -> datetime | None:
    """Until when no worker of this kind is asked for, since the last ones failed."""
    failures = 0
    last: datetime | None = None
    for launch in of:
        if launch.kind != kind or (launch.state in Launch.OPEN and not launch.claims):
            continue
        if not failed(launch):
            break
        failures += 1
        last = last or launch.ended
    if last is None:
        return None
    rest = min(FIRST_REST * (1 << min(failures - 1, 10)), LONGEST_REST)
    return last + rest


def failed(launch: Launch) -> bool:
    """It never came, or came and found nothing that fitted it: its like will not do better."""
    if launch.state == State.FAILED:
        return True
    return launch.state == State.ENDED and launch.came is not None and not launch.claims


@dataclass(frozen=True)
class Shown:
    """What the page of workers tells of launches."""

    launches: list[Launch]
    """The open ones, and those of the last day that failed; the newest first."""
    rests: dict[str, datetime]
    """By kind until when no worker of it is asked for."""


def shown(now: datetime) -> Shown:
    known = list(Launch.objects.filter(Q(state__in=Launch.OPEN) | Q(ended__gte=now - DAY)))
    found = {kind: resting_until(kind, known) for kind in sorted({one.kind for one in known})}
    told = [one for one in known if one.state in Launch.OPEN or failed(one)]
    rests = {kind: until for kind, until in found.items() if until and until > now}
    return Shown(told[:SHOWN], rests)
