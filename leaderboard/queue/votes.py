"""Votes: what many want to see comes a little sooner, and nobody waits much longer for it.

A vote for a submission counts its waiting runs as asked for a quarter of an hour earlier. Of each
run eight votes count at most, so whoever is overtaken is overtaken by those who asked within two
hours after them, and by nobody else.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from django.db.models import F, Q, QuerySet

from leaderboard.models import Run, Submission, User, Vote
from leaderboard.models.run import MOST_VOTES, State
from leaderboard.queue.fairness import VOTE


class NotCounted(ValueError):
    """The vote changes nothing; the message says why."""


@dataclass(frozen=True)
class Votes:
    """As the page of a submission shows them to one reader."""

    n: int
    waits: bool
    own: bool
    """Whether the reader submitted it."""
    voted: bool

    @property
    def may_vote(self) -> bool:
        return self.waits and not (self.own or self.voted)

    @property
    def sooner(self) -> timedelta:
        return VOTE * min(self.n, MOST_VOTES)


def shown(submission: Submission, user: User | AnonymousUser, visitor: str) -> Votes:
    """The votes for a submission as this reader sees them."""
    votes = Vote.objects.filter(submission=submission)
    return Votes(
        n=votes.count(),
        waits=_waiting(submission).exists(),
        own=_own(submission, user, visitor),
        voted=votes.filter(_by(user, visitor)).exists(),
    )


def cast(submission: Submission, user: User | AnonymousUser, visitor: str) -> None:
    """Count a vote; one that was given before changes nothing. Raises NotCounted."""
    if _own(submission, user, visitor):
        raise NotCounted("You submitted this model yourself: a vote is for the models of others.")
    voter = user if isinstance(user, User) else None
    with transaction.atomic():
        if not _waiting(submission).exists():
            raise NotCounted("Nothing of this submission waits any more: there is nothing to vote.")
        _, is_new = Vote.objects.get_or_create(
            submission=submission, voter=voter, visitor="" if voter else visitor
        )
        if is_new:
            _waiting(submission).filter(votes__lt=MOST_VOTES).update(
                due=F("due") - VOTE, votes=F("votes") + 1
            )


def _waiting(submission: Submission) -> QuerySet[Run]:
    return Run.objects.filter(
        submissions=submission,
        submissions__state=Submission.State.ACTIVE,
        state=State.QUEUED,
    )


def _own(submission: Submission, user: User | AnonymousUser, visitor: str) -> bool:
    if isinstance(user, User):
        return submission.submitter_id == user.pk
    return submission.submitter_id is None and submission.visitor == visitor


def _by(user: User | AnonymousUser, visitor: str) -> Q:
    return Q(voter=user) if isinstance(user, User) else Q(voter=None, visitor=visitor)
