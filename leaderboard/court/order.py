"""To rule on a question's key, to change or withdraw a ruling, and to strike somebody's abuse."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from leaderboard.disputed import settle
from leaderboard.models import Ruling, TaskVersion, User, may_moderate
from leaderboard.models.edition import changing
from leaderboard.models.role import Visitor

PERIOD = timedelta(days=1)
RULINGS = 30
"""That one account may give in PERIOD, changed ones among them."""
Verdict, Ending = Ruling.Verdict, Ruling.Ending


class Refused(ValueError):
    """Nothing was changed; the message says why and what to do."""


@dataclass(frozen=True)
class Question:
    """What is ruled on; the digests bind it to the very data that was asked."""

    task: TaskVersion
    docs_digest: str
    part: str
    doc_id: int
    doc_digest: str
    begins: str

    @property
    def rulings(self) -> QuerySet[Ruling]:
        """All that was ever said, the newest first."""
        return Ruling.objects.filter(
            task=self.task, docs_digest=self.docs_digest, part=self.part, doc_id=self.doc_id
        )

    def standing_of(self, visitor: Visitor) -> Ruling | None:
        if not visitor.is_authenticated:
            return None
        return self.rulings.filter(by=visitor.pk, ended=None).first()


def rule(
    question: Question, *, verdict: str, answer: str, reason: str, source: str, by: User
) -> Ruling:
    """A ruling in place of the account's earlier one on this question. Raises Refused."""
    with changing():
        User.objects.select_for_update(no_key=True).get(pk=by.pk)
        recent = Ruling.objects.filter(by=by, at__gt=timezone.now() - PERIOD)
        if recent[RULINGS - 1 : RULINGS].exists():
            raise Refused(f"An account has {RULINGS} rulings in 24 hours. Go on tomorrow.")
        said = {"verdict": verdict, "answer": answer, "reason": reason, "source": source}
        before = question.standing_of(by)
        if before is not None:
            if all(getattr(before, name) == value for name, value in said.items()):
                raise Refused("That is what you ruled already: nothing was changed.")
            _end(before, Ending.CHANGED, by)
        made = Ruling.objects.create(
            task=question.task,
            docs_digest=question.docs_digest,
            part=question.part,
            doc_id=question.doc_id,
            doc_digest=question.doc_digest,
            question=question.begins,
            by=by,
            **said,
        )
        settle(question.task, question.docs_digest)
    return made


def withdraw(ruling: Ruling, *, by: User) -> None:
    """Raises Refused where it has ended, PermissionError for who did not give it."""
    if ruling.by_id != by.pk:
        raise PermissionError(f"{by} did not give {ruling}")
    with changing():
        _end(ruling, Ending.WITHDRAWN, by)
        settle(ruling.task, ruling.docs_digest)


def may_strike(ruling: Ruling, visitor: Visitor) -> bool:
    """Moderators, but none who has a ruling of their own on the question."""
    if ruling.ended or ruling.by_id == visitor.pk or not may_moderate(visitor):
        return False
    same = Ruling.objects.filter(
        task=ruling.task, docs_digest=ruling.docs_digest, part=ruling.part, doc_id=ruling.doc_id
    )
    return not same.filter(by=visitor.pk, ended=None).exists()


def strike(ruling: Ruling, words: str, *, by: User) -> None:
    """It counts no more, and its text is withheld. Raises Refused where it has ended,
    PermissionError for who may not."""
    if not ruling.ended and not may_strike(ruling, by):
        raise PermissionError(f"{by} may not strike {ruling}")
    with changing():
        _end(ruling, Ending.STRUCK, by, words)
        settle(ruling.task, ruling.docs_digest)


def _end(ruling: Ruling, ending: Ruling.Ending, by: User, words: str = "") -> None:
    standing = Ruling.objects.filter(pk=ruling.pk, ended=None)
    if not standing.update(ended=Now(), ending=ending, ended_by=by, ending_words=words):
        raise Refused("It has ended meanwhile: read what stands there now.")
