"""Moderators rule on reports, authors on their own model: who may, and what a ruling does.

An upheld report marks its model in the moderator's words. A model that its author takes out of the
ranking has no rank on the boards that are built from then on, what it waits for is stopped, and
nobody can submit it; what was measured stays readable. A struck report on a key counts no more.
"""

from __future__ import annotations

from django.db.models.functions import Now

from leaderboard.corrections.reports import Refused, end, is_author
from leaderboard.corrections.second_figures import settle
from leaderboard.models import Departure, Flag, HubModel, Ruling, Run, User, may_moderate
from leaderboard.models.edition import changing
from leaderboard.models.role import Visitor
from leaderboard.models.run import State as RunState
from leaderboard.queue import claims

State, Side = Flag.State, Departure.Side
NEXT: dict[str, tuple[str, ...]] = {
    State.OPEN: (State.UPHELD, State.DISMISSED, State.WITHHELD),
    State.UPHELD: (State.LIFTED,),
}
"""What a moderator may make of a report in a state; the others are final."""
STOPPED = "its author took the model out of the ranking"
"""What stands in the history of the runs that are stopped."""


# On a model's numbers


def may_rule(report: Flag, visitor: Visitor) -> bool:
    """Moderators, but nobody in their own matter; what is final, nobody."""
    return report.state in NEXT and may_moderate(visitor) and not is_own(report, visitor)


def is_own(report: Flag, visitor: Visitor) -> bool:
    """Whether it is about their own model, or their own word."""
    return report.by_id == visitor.pk or is_author(report.hub_model, visitor)


def rule(report: Flag, state: str, words: str, *, by: User) -> None:
    """Rule on an open report, or lift an upheld one; `words` become the mark of an upheld model.

    Raises Refused where somebody was faster, PermissionError for who may not.
    """
    if not may_moderate(by) or is_own(report, by):
        raise PermissionError(f"{by} may not rule on {report}")
    if state not in NEXT.get(report.state, ()):
        raise Refused(f"A report that is {report.state} cannot become {state!r}.")
    with changing():
        model = HubModel.objects.select_for_update(no_key=True).get(pk=report.hub_model_id)
        unchanged = Flag.objects.filter(pk=report.pk, state=report.state)
        before = report.decision
        if not unchanged.update(state=state, decision=words, decided=Now(), decided_by=by):
            raise Refused("Somebody ruled on it meanwhile: read what stands there now.")
        if state == State.UPHELD:
            _mark(model, words)
        elif state == State.LIFTED and model.flag_reason == before:
            others = Flag.objects.filter(hub_model=model, state=State.UPHELD)
            _mark(model, others.values_list("decision", flat=True).first() or "")
    report.refresh_from_db()


def _mark(model: HubModel, words: str) -> None:
    HubModel.objects.filter(pk=model.pk).update(flag_reason=words)


# On an author's wish


def side_in_ranking(model: HubModel, visitor: Visitor) -> str:
    """As what somebody may take it out and bring it back; empty for who may not."""
    if not visitor.is_authenticated:
        return ""
    if is_author(model, visitor):
        return Side.AUTHOR
    return Side.MODERATOR if may_moderate(visitor) else ""


def take_out(model: HubModel, words: str, *, by: User) -> Departure:
    """Take it out of the ranking. Raises Refused; PermissionError for who may not."""
    side = _allowed(model, by)
    with changing():
        _lock(model)
        if model.departed:
            raise Refused(f"{model} is out of the ranking already.")
        made = Departure.objects.create(hub_model=model, by=by, side=side, words=words)
        HubModel.objects.filter(pk=model.pk).update(departed=True)
        for run in Run.objects.filter(
            variant__hub_model=model, state__in=(RunState.QUEUED, RunState.RUNNING)
        ):
            claims.cancel(run, by=str(by), why=STOPPED)
    model.refresh_from_db()
    return made


def bring_back(model: HubModel, *, by: User) -> None:
    """Rank it again, with what was measured; what was stopped is submitted anew by who wants it.

    Raises Refused; PermissionError for who may not.
    """
    _allowed(model, by)
    with changing():
        _lock(model)
        lasting = Departure.objects.filter(hub_model=model, ended=None)
        if not lasting.update(ended=Now(), ended_by=by):
            raise Refused(f"{model} is in the ranking already.")
        HubModel.objects.filter(pk=model.pk).update(departed=False)
    model.refresh_from_db()


def _allowed(model: HubModel, by: User) -> str:
    side = side_in_ranking(model, by)
    if not side:
        raise PermissionError(f"{by} has no say in {model}")
    return side


def _lock(model: HubModel) -> None:
    """One at a time; submitting takes the same lock before it looks (`submit.py`)."""
    model.departed = HubModel.objects.select_for_update(no_key=True).get(pk=model.pk).departed


# On a report on a key


def may_strike(report: Ruling, visitor: Visitor) -> bool:
    """Moderators, but none who has a report of their own on the question."""
    if report.ended or report.by_id == visitor.pk or not may_moderate(visitor):
        return False
    same = Ruling.objects.filter(
        task=report.task, docs_digest=report.docs_digest, part=report.part, doc_id=report.doc_id
    )
    return not same.filter(by=visitor.pk, ended=None).exists()


def strike(report: Ruling, words: str, *, by: User) -> None:
    """It counts no more, and its text is withheld. Raises Refused where it has ended,
    PermissionError for who may not."""
    if not report.ended and not may_strike(report, by):
        raise PermissionError(f"{by} may not strike {report}")
    with changing():
        end(report, Ruling.Ending.STRUCK, by, words)
        settle(report.task, report.docs_digest)
