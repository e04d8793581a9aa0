"""How often one visitor may ask for what costs us or the Hub; counted in the process's memory.

A GET writes nothing to the database, so each process of the site counts for itself. What must hold
across processes and restarts, submissions in a day, is counted in rows (submissions.py).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from django.conf import settings
from django.core.cache import caches
from django.http import HttpRequest

from leaderboard.web import visitor
from leaderboard.web.problem import Problem


@dataclass(frozen=True)
class Limit:
    """So many times in so many seconds, counted anew after them."""

    name: str
    setting: str
    """Of how many times; 0 there means without a limit."""
    seconds: int


CHECKS = Limit("checks", "PLUMBLINE_CHECKS_PER_MINUTE", 60)
SIGN_INS = Limit("sign-ins", "PLUMBLINE_SIGN_INS_PER_MINUTE", 60)


def too_many_checks(request: HttpRequest) -> Problem | None:
    """Count a look at a model on the Hub; what to say where it is one too many."""
    seconds = wait(CHECKS, request)
    if not seconds:
        return None
    return Problem(
        "form",
        "throttled",
        f"More than {settings.PLUMBLINE_CHECKS_PER_MINUTE} models were checked from your network "
        "in a minute.",
        f"Check again in {seconds} s.",
        wait_seconds=seconds,
    )


def wait(limit: Limit, request: HttpRequest) -> int:
    """Count one request of this visitor; the seconds to wait where it is one too many, else 0."""
    times = getattr(settings, limit.setting)
    if not times:
        return 0
    now = time.time()
    turn = int(now // limit.seconds)
    key = f"{limit.name}-{turn}-{visitor.digest_of(visitor.of(request))}"
    counts = caches["throttle"]
    counts.add(key, 0, 2 * limit.seconds)
    try:
        asked = counts.incr(key)
    except ValueError:  # dropped in between, as one of very many
        return 0
    return 0 if asked <= times else math.ceil((turn + 1) * limit.seconds - now) or 1
