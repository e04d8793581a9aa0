"""All kinds of faults, by the name that tests, reports and docs/reliability.md have for them."""

from __future__ import annotations

import signal

from tests.chaos import clock, faults, messages
from tests.chaos.arena import FAR_WORKER, Arena
from tests.chaos.faults import Strike

WHILE_IT_ANSWERS = "child killed while it answers"
"""Strikes when there are answers in the journal, which the next child has to take from it."""

EVERYWHERE: dict[str, Strike] = {
    "worker killed": faults.worker_killed,
    "child killed": faults.child_killed,
    WHILE_IT_ANSWERS: faults.child_killed,
    "supervisor killed": faults.supervisor_killed,
    "worker stopped beyond its lease": faults.worker_stopped_beyond_its_lease,
    "worker asked to stop": faults.asking_to_stop(signal.SIGTERM),
    "worker told to quit": faults.asking_to_stop(signal.SIGQUIT),
    "task terminated": messages.task_terminated,
    "dies before it claims": messages.dies_before_it_claims,
    "two workers of one name": messages.two_of_one_name,
    "ten workers more": faults.many_workers,
    "two beats": messages.two_beats,
    "messages repeated": messages.messages_repeated,
    "disk full": faults.disk_full,
}
WITH_SERVICES: dict[str, Strike] = {
    "Redis killed and flushed": messages.redis_flushed,
    "Redis restarted with its data": messages.redis_restarted,
    "Redis hangs": messages.redis_hangs,
    "Redis's clock wrong": messages.redis_with_a_wrong_clock,
    "message delivered again": messages.message_redelivered,
    "PostgreSQL restarted": faults.postgresql_restarted,
    "connections cut": faults.connections_cut,
    "cut off beyond its lease": faults.cut_off_beyond_its_lease,
    "clock two hours ahead": faults.disturbing_clock(2),
    "clock two hours behind": faults.disturbing_clock(-2),
    "Hub down": faults.hub_down,
    "Hub slow": faults.hub_faulty(delay=3),
    "Hub says 429": faults.hub_faulty(status=429, retry_after=1),
    "Hub cuts its answers": faults.hub_faulty(truncate=100),
}
"""The Hub's faults are here, as neither database nor broker takes part in them; and workers with a
clock of their own, as all that share SQLite are on one machine."""
EMBEDDED: dict[str, Strike] = {
    "clock set ahead": faults.setting_the_clock(2),
    "clock set back": faults.setting_the_clock(-2),
    "database locked": faults.database_locked,
    "messages deleted": messages.messages_deleted,
    "broker's folder gone": messages.broker_folder_gone,
}

AT_THE_BEGINNING = ("Hub", "clock two", "ten", "dies", "two workers")
"""Kinds that strike what comes first, or take time to begin."""

COMPILER = "a C compiler, for a clock that is wrong"
NEEDS = {
    "disk full": "root, for a file system of its own",
    "cut off beyond its lease": "root and `ip`, for a network of its own",
    "clock two hours ahead": COMPILER,
    "clock two hours behind": COMPILER,
    "clock set ahead": COMPILER,
    "clock set back": COMPILER,
    "Redis's clock wrong": COMPILER,
}
"""What cannot be done everywhere, and what it takes."""


def of(*, embedded: bool) -> dict[str, Strike]:
    """All kinds that are played in such an arena, by name."""
    return EVERYWHERE | (EMBEDDED if embedded else WITH_SERVICES)


def can_play(arena: Arena, kind: str) -> bool:
    """Whether this machine has what the kind takes."""
    if kind == "disk full":
        return arena.has_own_disk
    if kind == "cut off beyond its lease":
        return arena.namespace is not None
    return NEEDS.get(kind) != COMPILER or clock.can_be_wrong()


def hold_back(arena: Arena, kind: str) -> list[str | None]:
    """Have only those take the model that is submitted next whom the fault wants to have it.

    Who was told not to; None is everybody, also those to come.
    """
    told: list[str | None] = []
    if kind.startswith("ten"):
        told = [None]
    elif kind.startswith(("clock two", "dies")):
        told = [*arena.living()]
    elif kind.startswith("two workers"):
        told = [*arena.living()[1:], None]  # the twin will have the first's name
    elif kind.startswith("cut off"):
        far = arena.name_of(FAR_WORKER)
        told = [name for name in arena.living() if name != far]
    for worker in told:
        faults.order(arena, "drain", worker)
    return told
