"""Somebody reports a problem: the words, and their limits.

With a model, one of its runs, or a benchmark: then a moderator rules (`rulings.py`). Or with the
key of a question: such a report counts at once, by the rule in `second_figures.py`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from leaderboard.corrections.second_figures import settle
from leaderboard.models import (
    HubModel,
    Report,
    ReportAnswer,
    Run,
    TaskVersion,
    User,
    may_moderate,
)
from leaderboard.models.edition import changing
from leaderboard.models.role import Visitor

PERIOD = timedelta(days=1)
MAX_REPORTS, MAX_KEY_REPORTS, MAX_ANSWERS = 10, 30, 30
"""Of one account in PERIOD; changed reports on a key count as well."""
HUB = "huggingface"
"""The provider that vouches for the authors of models."""
_BIDI = {"RLE", "LRE", "RLO", "LRO", "PDF", "RLI", "LRI", "FSI", "PDI"}
Kind, State, Side = Report.Kind, Report.State, ReportAnswer.Side
RULED_ON = (Kind.NUMBER, Kind.CONTAMINATION, Kind.LICENCE)
"""What anybody reports of a model or a benchmark, and a moderator rules on."""


class Refused(ValueError):
    """Nothing was changed; the message says why and what to do."""


def cleaned(text: str) -> str:
    """What somebody wrote, without what would move or hide other text around it.

    Control characters and those that turn the direction of writing go; lines stay, two empty ones
    in a row become one.
    """
    text = text.replace("\r\n", "\n").replace("\t", " ")
    kept = [sign for sign in text if sign == "\n" or not _is_unseen(sign)]
    return re.sub(r"\n{3,}", "\n\n", "".join(kept)).strip()


def _is_unseen(sign: str) -> bool:
    return unicodedata.category(sign) in ("Cc", "Cs") or unicodedata.bidirectional(sign) in _BIDI


# Who somebody is to a model and to a report


def is_author(model: HubModel, visitor: Visitor) -> bool:
    """Whether Hugging Face vouches for this account under the name that the model's ID begins with,
    or as somebody who may write for the organisation of that name."""
    if settings.OIDC_ID != HUB:
        return False
    owner = model.owner.lower()
    vouched = SocialAccount.objects.filter(user_id=visitor.pk, provider=HUB)
    return any(
        name.lower() == owner
        for data in vouched.values_list("extra_data", flat=True)
        for name in _names(data)
    )


def _names(data: object) -> Iterator[str]:
    """What `leaderboard/accounts/told.py` kept at the last signing in."""
    if isinstance(data, dict):
        yield from (
            str(name) for name in (data.get("name"), *data.get("organisations", ())) if name
        )


def side_of(report: Report, visitor: Visitor) -> str:
    """As what somebody may answer a report; empty for who may not."""
    if not visitor.is_authenticated:
        return ""
    if report.hub_model and is_author(report.hub_model, visitor):
        return Side.AUTHOR
    if report.by_id == visitor.pk:
        return Side.REPORTER
    return Side.MODERATOR if may_moderate(visitor) else ""


# Models, runs and benchmarks


@dataclass(frozen=True)
class Target:
    """What a report is about: a model, and maybe one of its runs; or a benchmark."""

    model: HubModel | None = None
    run: Run | None = None
    task: TaskVersion | None = None

    @property
    def open_reports(self) -> QuerySet[Report]:
        waiting = Report.objects.filter(state=State.OPEN, kind__in=RULED_ON)
        if self.model:
            return waiting.filter(hub_model=self.model)
        return waiting.filter(task__name=self.task.name if self.task else "")

    def __str__(self) -> str:
        return str(self.model or (self.task and self.task.name))


def report(target: Target, *, kind: str, reason: str, evidence: str, by: User) -> Report:
    """A new report, which waits for a moderator. Raises Refused."""
    with changing():
        _lock(by)
        _refuse_beyond(MAX_REPORTS, "reports", Report.objects.filter(by=by, kind__in=RULED_ON))
        if waiting := target.open_reports.filter(by=by).first():
            raise Refused(
                f"You reported {target} already (report {waiting.pk}), and there is no ruling yet: "
                "add to that one."
            )
        if not reason or not evidence:
            raise Refused("Say what is wrong, and what shows it.")
        return Report.objects.create(
            kind=kind,
            hub_model=target.model,
            run=target.run,
            task=target.task,
            reason=reason,
            evidence=evidence,
            by=by,
        )


def answer(report: Report, text: str, *, by: User) -> ReportAnswer:
    """Add to what was said. Raises Refused; PermissionError for who has no part in it."""
    side = side_of(report, by)
    if not side:
        raise PermissionError(f"{by} has no part in {report}")
    with changing():
        _lock(by)
        _refuse_beyond(MAX_ANSWERS, "answers", ReportAnswer.objects.filter(by=by))
        return ReportAnswer.objects.create(report=report, by=by, side=side, text=text)


# Keys of questions


@dataclass(frozen=True)
class Question:
    """A question whose key is reported; the digests bind it to the very data that was asked."""

    task: TaskVersion
    docs_digest: str
    part: str
    doc_id: int
    doc_digest: str
    begins: str

    @property
    def reports(self) -> QuerySet[Report]:
        """All that was ever said, the newest first."""
        return Report.objects.filter(
            task=self.task, docs_digest=self.docs_digest, part=self.part, doc_id=self.doc_id
        )

    def standing_of(self, visitor: Visitor) -> Report | None:
        if not visitor.is_authenticated:
            return None
        return self.reports.filter(by=visitor.pk, state=State.OPEN).first()


def report_key(
    question: Question, *, verdict: str, answer: str, reason: str, evidence: str, by: User
) -> Report:
    """A report in place of the account's earlier one on this question. Raises Refused."""
    with changing():
        _lock(by)
        _refuse_beyond(MAX_KEY_REPORTS, "reports on keys", Report.objects.filter(by=by, kind="key"))
        said = {"verdict": verdict, "answer": answer, "reason": reason, "evidence": evidence}
        before = question.standing_of(by)
        if before is not None:
            if all(getattr(before, name) == value for name, value in said.items()):
                raise Refused("That is what you reported already: nothing was changed.")
            close(before, State.CHANGED)
        made = Report.objects.create(
            kind=Kind.KEY,
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


def withdraw(report: Report, *, by: User) -> None:
    """A report on a key counts no more. Raises Refused where it has ended, PermissionError for who
    did not make it."""
    if report.by_id != by.pk or report.task is None:
        raise PermissionError(f"{by} did not make {report}")
    with changing():
        close(report, State.WITHDRAWN)
        settle(report.task, report.docs_digest)


def close(report: Report, state: str, *, from_state: str = State.OPEN) -> None:
    """Give a report its next state. Raises Refused where somebody was faster."""
    unchanged = Report.objects.filter(pk=report.pk, state=from_state)
    if not unchanged.update(state=state, closed=timezone.now()):
        raise Refused("It has changed meanwhile: read what stands there now.")


def _lock(by: User) -> None:
    """One report or answer of an account at a time, so that limits hold."""
    User.objects.select_for_update(no_key=True).get(pk=by.pk)


def _refuse_beyond(most: int, what: str, given: QuerySet[Any]) -> None:
    recent = given.filter(at__gt=timezone.now() - PERIOD)
    if recent[most - 1 : most].exists():
        raise Refused(f"An account has {most} {what} in 24 hours. Go on tomorrow.")
