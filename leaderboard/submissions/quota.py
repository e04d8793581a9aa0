"""How many more models somebody may submit now, counted in the rows of what was submitted.

Any 24 hours count, not the day of a calendar: nobody gets two days' share around midnight.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from leaderboard.models import Quota, Submission, Suite, User
from leaderboard.web import Problem, Refused

PERIOD = timedelta(days=1)


@dataclass(frozen=True)
class Share:
    """What one account, one visitor or all visitors together have of the day."""

    whose: str
    most: int
    used: int
    frees_up: datetime | None
    """When the oldest that counts is a day old; None where nothing was submitted."""

    @property
    def left(self) -> int:
        return max(0, self.most - self.used)


def shares(submitter: User | None, visitor: str) -> list[Share]:
    """All that bound what they submit next; of who has no account, that of everybody, too."""
    recent = Submission.objects.filter(
        submitter=submitter, created__gt=timezone.now() - PERIOD
    ).order_by("-created")
    if submitter:
        return [_share(f"the account {submitter}", _most_of(submitter), recent)]
    own = recent.filter(visitor=visitor)
    one = _share("one visitor without an account", settings.PLUMBLINE_VISITOR_QUOTA, own)
    together = "all visitors without an account together"
    every = _share(together, settings.PLUMBLINE_OPEN_QUOTA, recent)
    return [one, every] if visitor else [every]


def tightest(submitter: User | None, visitor: str) -> Share:
    """What is told before somebody submits."""
    return min(shares(submitter, visitor), key=lambda share: share.left)


def refuse_beyond(submitter: User | None, visitor: str, suite: Suite) -> None:
    """Raises Refused where one of the shares is used up; within a transaction."""
    # The row lock makes two submissions at the same moment count each other.
    if submitter:
        User.objects.select_for_update(no_key=True).get(pk=submitter.pk)
    else:
        Suite.objects.select_for_update(no_key=True).get(pk=suite.pk)
    for share in shares(submitter, visitor):
        if not share.left:
            raise Refused(_used_up(share))


def _most_of(user: User) -> int:
    own = Quota.objects.filter(user=user).values_list("most", flat=True).first()
    return settings.PLUMBLINE_USER_QUOTA if own is None else own


def _share(whose: str, most: int, recent: QuerySet[Submission]) -> Share:
    counted = list(recent.values_list("created", flat=True)[:most])
    return Share(whose, most, len(counted), counted[-1] + PERIOD if counted else None)


def _used_up(share: Share) -> Problem:
    ending = "" if share.most == 1 else "s"
    message = f"The limit for {share.whose} is {share.most} submission{ending} in 24 hours."
    remedy = "None is taken at the moment; About says whom to ask."
    wait = int(PERIOD.total_seconds())
    if share.frees_up:
        wait = max(1, int((share.frees_up - timezone.now()).total_seconds()))
        remedy = f"The next one can be submitted at {share.frees_up:%H:%M UTC on %-d %B}."
    return Problem("form", "quota", message, remedy, wait_seconds=wait)
