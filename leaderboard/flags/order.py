"""To raise a flag, to answer it, and to decide it; what a decision does to the model's mark."""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from leaderboard.flags.authors import is_author
from leaderboard.models import Flag, FlagAnswer, HubModel, User, may_moderate
from leaderboard.models.edition import changing
from leaderboard.models.role import Visitor

PERIOD = timedelta(days=1)
FLAGS, ANSWERS = 10, 30
"""That one account may raise, and give, in PERIOD."""
State, Side = Flag.State, FlagAnswer.Side
NEXT: dict[str, tuple[str, ...]] = {
    State.OPEN: (State.UPHELD, State.DISMISSED, State.WITHHELD),
    State.UPHELD: (State.LIFTED,),
}
"""What a moderator may make of a flag in a state; the others are final."""
_KEPT = "\n"
_BIDI = {"RLE", "LRE", "RLO", "LRO", "PDF", "RLI", "LRI", "FSI", "PDI"}


class Refused(ValueError):
    """Nothing was changed; the message says why and what to do."""


def cleaned(text: str) -> str:
    """What somebody wrote, without what would move or hide other text around it.

    Control characters and those that turn the direction of writing go; lines stay, two empty ones
    in a row become one.
    """
    text = text.replace("\r\n", "\n").replace("\t", " ")
    kept = [sign for sign in text if sign in _KEPT or not _is_unseen(sign)]
    return re.sub(r"\n{3,}", "\n\n", "".join(kept)).strip()


def _is_unseen(sign: str) -> bool:
    return unicodedata.category(sign) in ("Cc", "Cs") or unicodedata.bidirectional(sign) in _BIDI


def raise_flag(model: HubModel, *, reason: str, evidence: str, by: User) -> Flag:
    """A new flag, which waits for a moderator. Raises Refused."""
    with changing():
        User.objects.select_for_update(no_key=True).get(pk=by.pk)
        _refuse_beyond(FLAGS, "flags", Flag.objects.filter(by=by, at__gt=_recently()))
        if open_one := Flag.objects.filter(hub_model=model, by=by, state=State.OPEN).first():
            raise Refused(
                f"You flagged {model} already (No. {open_one.pk}), and it is not decided yet: add "
                "to that one."
            )
        try:
            return Flag.objects.create(hub_model=model, reason=reason, evidence=evidence, by=by)
        except IntegrityError:
            raise Refused("Say why, and what shows it.") from None


def side_of(flag: Flag, visitor: Visitor) -> str:
    """As what somebody may answer a flag; empty for who may not."""
    if not visitor.is_authenticated:
        return ""
    if is_author(flag.hub_model, visitor):
        return Side.AUTHOR
    if flag.by_id == visitor.pk:
        return Side.RAISED
    return Side.MODERATOR if may_moderate(visitor) else ""


def answer(flag: Flag, text: str, *, by: User) -> FlagAnswer:
    """Add to what was said. Raises Refused; PermissionError for who has no part in it."""
    side = side_of(flag, by)
    if not side:
        raise PermissionError(f"{by} has no part in {flag}")
    with changing():
        User.objects.select_for_update(no_key=True).get(pk=by.pk)
        given = FlagAnswer.objects.filter(by=by, at__gt=_recently())
        _refuse_beyond(ANSWERS, "answers", given)
        return FlagAnswer.objects.create(flag=flag, by=by, side=side, text=text)


def may_decide(flag: Flag, visitor: Visitor) -> bool:
    """Moderators, but nobody in their own matter; what is final, nobody."""
    return flag.state in NEXT and may_moderate(visitor) and not is_own(flag, visitor)


def is_own(flag: Flag, visitor: Visitor) -> bool:
    """Whether it is about their own model, or their own word."""
    return flag.by_id == visitor.pk or is_author(flag.hub_model, visitor)


def decide(flag: Flag, state: str, words: str, *, by: User) -> None:
    """Decide an open flag, or lift an upheld one; `words` become the mark of an upheld model.

    Raises Refused where somebody was faster, PermissionError for who may not.
    """
    if not may_moderate(by) or is_own(flag, by):
        raise PermissionError(f"{by} may not decide {flag}")
    if state not in NEXT.get(flag.state, ()):
        raise Refused(f"A flag that is {flag.state} cannot become {state!r}.")
    with changing():
        model = HubModel.objects.select_for_update(no_key=True).get(pk=flag.hub_model_id)
        open_still = Flag.objects.filter(pk=flag.pk, state=flag.state)
        before = flag.decision
        if not open_still.update(state=state, decision=words, decided=Now(), decided_by=by):
            raise Refused("Somebody decided it meanwhile: read what stands there now.")
        if state == State.UPHELD:
            _mark(model, words)
        elif state == State.LIFTED and model.flag_reason == before:
            others = Flag.objects.filter(hub_model=model, state=State.UPHELD)
            _mark(model, others.values_list("decision", flat=True).first() or "")
    flag.refresh_from_db()


def _mark(model: HubModel, words: str) -> None:
    HubModel.objects.filter(pk=model.pk).update(flag_reason=words)


def _recently() -> datetime:
    return timezone.now() - PERIOD


def _refuse_beyond(most: int, what: str, recent: QuerySet[Any]) -> None:
    if recent[most - 1 : most].exists():
        raise Refused(f"An account has {most} {what} in 24 hours. Go on tomorrow.")
