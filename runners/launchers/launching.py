"""A look every few seconds: what became of the workers asked for, and which are missing.

The database is the truth: a launch is a row before the engine hears of it, its worker's own row
says that it came, and its lease that it works. What the engine says is used where it knows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, Max, OuterRef, Q

from leaderboard.models import Launch, Worker
from leaderboard.queue import clock, estimate, launches, unserved
from runners.launchers.engine import EngineTrouble, Launcher, NoAnswer, Order, launcher_of, name_of
from runners.launchers.kinds import Configuration, Kind, WrongFile, read
from runners.launchers.looks import Looks
from runners.launchers.need import DAY, Standing, superfluous, wanted

logger = logging.getLogger(__name__)

AT_MOST = 20
"""Workers that one look asks for."""
NO_ANSWER = timedelta(minutes=5)
"""Since the engine was asked: what it does not have then, it will not get any more."""
BIRTH = timedelta(minutes=5)
"""In which a worker that has come finds out what it holds; 40 seconds on a busy machine."""
OVERTIME = timedelta(minutes=10)
"""After which a worker is cancelled that its engine should have ended."""
LOOKS = Looks()
LOCK = 0x504C_554D
"""Of PostgreSQL, for the one who decides; SQLite has one writer anyway."""
State = Launch.State


def look() -> None:
    """Asks for nothing where PLUMBLINE_LAUNCH names no file."""
    if not settings.PLUMBLINE_LAUNCH:
        return
    try:
        plan = read(Path(settings.PLUMBLINE_LAUNCH))
        engine = launcher_of(plan)
    except WrongFile as problem:
        logger.error("no worker is launched: %s", problem)
        return
    settle(plan, engine)
    if LOOKS.resumed:
        return  # workers that live will have said so by the next look
    for _ in range(AT_MOST):
        if (order := decide(plan)) is None or not hand_over(order, engine):
            break


def settle(plan: Configuration, engine: Launcher) -> None:
    """Note which launches are over, and cancel those that should be."""
    now = clock.now()
    LOOKS.note(now)
    for launch in list(Launch.objects.filter(state__in=Launch.OPEN)):
        if why := _over(launch, plan, engine, now):
            _end(launch, engine, why)
    for launch in superfluous(standing(plan, now), plan):
        if launches.withdraw(launch.pk, "nothing waits for it any more"):
            _cancel(launch, engine)


def decide(plan: Configuration) -> Order | None:
    """Write down the next launch; one process decides at a time, and sees what others wrote."""
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        if unserved.all_rest():
            return None
        now = clock.now()
        kind = wanted(standing(plan, now), plan)
        if kind is None:
            return None
        launch = launches.ask(
            kind.name, plan.engine, gpus=kind.gpus, hours=kind.hours, price=kind.price, at=now
        )
    return Order(launch.pk, kind)


def hand_over(order: Order, engine: Launcher) -> bool:
    """Ask the engine; False where it refused, or what it did is not known."""
    try:
        handle = engine.launch(order)
    except NoAnswer as trouble:
        logger.warning("perhaps a worker of kind %s: %s", order.kind.name, trouble)
        return False
    except EngineTrouble as trouble:
        logger.warning("no worker of kind %s: %s", order.kind.name, trouble)
        launches.end(order.launch, f"the engine refused it: {trouble}")
        return False
    logger.info("asked for a worker of kind %s: %s", order.kind.name, handle)
    launches.handed(order.launch, handle)
    return True


def standing(plan: Configuration, now: datetime) -> Standing:
    known = Launch.objects.filter(
        Q(state__in=Launch.OPEN) | Q(asked__gte=now - DAY) | Q(ended__gte=now - DAY)
    )
    return Standing(
        now=now,
        waiting=unserved.groups(),
        workers=unserved.takers(),
        launches=list(known.order_by("-asked")),
        measured=_measured(plan.kinds, now),
        arriving=_arriving(),
    )


def _arriving() -> frozenset[UUID]:
    """Launches whose worker has come, and has not said yet what it holds."""
    said = Worker.objects.filter(launch=OuterRef("pk"), seen__gte=OuterRef("came"))
    come = Launch.objects.filter(~Exists(said), state=State.UP)
    return frozenset(come.values_list("pk", flat=True))


def _measured(kinds: Iterable[Kind], now: datetime) -> dict[str, int]:
    """What the last worker of each kind found free, where that is not long ago."""
    lately = Worker.objects.filter(seen__gte=now - DAY, launch__isnull=False)
    found = lately.order_by("seen").values_list("launch__kind", "memory_bytes")
    names = {kind.name for kind in kinds}
    return {kind: memory for kind, memory in found if kind in names}


def _over(launch: Launch, plan: Configuration, engine: Launcher, now: datetime) -> str:
    """Why a launch is at its end; empty where it is not."""
    attentive = LOOKS.lasted(now) > estimate.ALIVE
    if launch.state == State.ASKING:
        return _unanswered(launch, plan, engine, now)
    if launch.state == State.WAITING:
        if _alive(launch, engine) is False:
            return "the engine has ended it, and its worker never came"
        if attentive and now - launch.asked > timedelta(minutes=plan.show_up_minutes):
            return f"its worker did not come within {plan.show_up_minutes:g} minutes"
        return ""
    if attentive and _is_silent(launch, now):
        return "its worker is not seen any more"
    if launch.came and now - launch.came > timedelta(hours=launch.hours) + OVERTIME:
        return f"its {launch.hours:g} hours are over"
    return ""


def _unanswered(launch: Launch, plan: Configuration, engine: Launcher, now: datetime) -> str:
    """Its answer was lost, or who asked died over it: the engine may have the worker, or get it.

    Until that is known it is one of the budget, and no other is asked for in its place.
    """
    waited = now - launch.asked
    try:
        handle = engine.find(name_of(launch.pk))
    except EngineTrouble as trouble:
        logger.warning("%s: what became of it is not known: %s", launch, trouble)
        late = waited > timedelta(minutes=plan.show_up_minutes)
        return "nobody knows what the engine answered" if late else ""
    if handle:
        launches.handed(launch.pk, handle)
        return ""
    return "the engine has no such worker" if waited > NO_ANSWER else ""


def _is_silent(launch: Launch, now: datetime) -> bool:
    """A worker's row is written a while after it came; what is there of before says nothing."""
    came = launch.came or launch.asked
    seen = launch.workers.aggregate(seen=Max("seen"))["seen"]
    if seen is None or seen < came:
        return now - came > BIRTH
    return bool(now - seen > estimate.ALIVE)


def _alive(launch: Launch, engine: Launcher) -> bool | None:
    try:
        return engine.alive(launch.handle)
    except EngineTrouble as trouble:
        logger.warning("%s %s: %s", launch, launch.handle, trouble)
        return None


def _end(launch: Launch, engine: Launcher, why: str) -> None:
    if launches.end(launch.pk, why):
        logger.warning("%s %s is over: %s", launch, launch.handle, why)
        _cancel(launch, engine)


def _cancel(launch: Launch, engine: Launcher) -> None:
    with suppress(EngineTrouble):
        if handle := launch.handle or engine.find(name_of(launch.pk)):
            engine.cancel(handle)
