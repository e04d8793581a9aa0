"""Moderators rule on reports, authors on their own model: who may, and what a ruling does.

An upheld report marks its model in the moderator's words, or its run is recalled. A model that its
author takes out of the ranking has no rank on the boards that are built from then on, what it waits
for is stopped, and nobody can submit it; what was measured stays readable. A struck report on a key
counts no more. A ruling is undone, never deleted.
"""

from __future__ import annotations

from django.utils import timezone

from leaderboard.corrections import recalls
from leaderboard.corrections.reports import RULED_ON, Kind, Refused, State, close, is_author
from leaderboard.corrections.second_figures import settle
from leaderboard.models import HubModel, Recall, Report, Ruling, Run, User
from leaderboard.models.edition import changing
from leaderboard.models.role import Visitor, may_moderate, may_operate
from leaderboard.models.run import State as RunState
from leaderboard.queue import claims

Effect, Side = Ruling.Effect, Ruling.Side
UPHOLD, RECALL, DISMISS, WITHHOLD, LIFT = "uphold", "recall", "dismiss", "withhold", "lift"
DOES = {
    UPHOLD: "Uphold it: the model is marked with these words and has no rank",
    RECALL: "Uphold it and recall the result: it leaves every board, rank and average",
    DISMISS: "Dismiss it: nothing changes, and the report stays listed",
    WITHHOLD: "Dismiss it and withhold its text, which nobody should read",
    LIFT: "Lift it: its effect is undone, the report stays listed",
}
NOTED = "Uphold it: it is noted here, and nothing else changes"
"""What upholding does to a benchmark, which has no rank to lose."""
_CLOSED_AS = {
    UPHOLD: (State.UPHELD, Effect.MARK),
    RECALL: (State.UPHELD, Effect.RECALL),
    DISMISS: (State.DISMISSED, Effect.NONE),
    WITHHOLD: (State.WITHHELD, Effect.WITHHELD),
}
STOPPED = "its author took the model out of the ranking"
"""What stands in the history of the runs that are stopped."""


# On what is reported of a model, a run or a benchmark


def choices(report: Report, visitor: Visitor) -> dict[str, str]:
    """What somebody may rule now, and what that does; nothing for whoever may not, as in their own
    matter, and of what is final."""
    if not may_moderate(visitor) or is_own(report, visitor) or report.kind not in RULED_ON:
        return {}
    if report.state == State.UPHELD:
        in_force = in_force_on(report)
        may_lift = not (in_force and in_force.recall) or may_operate(visitor)
        return {LIFT: DOES[LIFT]} if may_lift else {}
    if report.state != State.OPEN:
        return {}
    found = dict.fromkeys((UPHOLD, DISMISS, WITHHOLD))
    if report.run and report.run.state == RunState.DONE and may_operate(visitor):
        found = dict.fromkeys((UPHOLD, RECALL, DISMISS, WITHHOLD))
    return {
        ruling: NOTED if ruling == UPHOLD and not report.hub_model else DOES[ruling]
        for ruling in found
    }


def is_own(report: Report, visitor: Visitor) -> bool:
    """Whether it is about their own model, or their own word."""
    own_model = report.hub_model is not None and is_author(report.hub_model, visitor)
    return report.by_id == visitor.pk or own_model


def in_force_on(report: Report) -> Ruling | None:
    return report.rulings.filter(undone=None).first()


def rule(report: Report, ruling: str, words: str, *, by: User) -> None:
    """Rule on an open report, or lift an upheld one; `words` become the mark of an upheld model.

    Raises Refused where somebody was faster, PermissionError for who may not.
    """
    if not may_moderate(by) or is_own(report, by):
        raise PermissionError(f"{by} may not rule on {report}")
    if ruling not in choices(report, by):
        raise Refused(f"Report {report.pk} is {report.get_state_display().lower()}: choose anew.")
    if ruling == LIFT:
        _lift(report, words, by)
    elif ruling == RECALL:
        _recall(report, words, by)
    else:
        _close(report, ruling, words, by)
    report.refresh_from_db()


def _recall(report: Report, words: str, by: User) -> None:
    """The recall comes first, in transactions of its own: a ruling must not tell of one that did
    not happen."""
    named = [str(report.run_id)]
    made, _ = recalls.recall(Recall.Kind.RUNS, named, reason=words, by=str(by))
    try:
        _close(report, RECALL, words, by, recall=made)
    except Refused:
        recalls.undo(made, reason="the report was ruled on meanwhile", by=str(by))
        raise


def _close(
    report: Report, ruling: str, words: str, by: User, *, recall: Recall | None = None
) -> None:
    state, effect = _CLOSED_AS[ruling]
    if effect == Effect.MARK and not report.hub_model:
        effect = Effect.NONE
    with changing():
        if report.hub_model:
            _lock(report.hub_model)
        close(report, state)
        if effect == Effect.MARK and report.hub_model:
            _mark(report.hub_model, words)
        Ruling.objects.create(report=report, effect=effect, words=words, by=by, recall=recall)


def _lift(report: Report, words: str, by: User) -> None:
    lifted = in_force_on(report)
    with changing():
        if report.hub_model:
            _lock(report.hub_model)
        close(report, State.LIFTED, from_state=State.UPHELD)
        report.rulings.filter(undone=None).update(
            undone=timezone.now(), undone_by=by, undone_words=words
        )
        # A mark that an operator wrote in the administration stays.
        if lifted and report.hub_model and report.hub_model.flag_reason == lifted.words:
            others = Ruling.objects.filter(
                report__hub_model=report.hub_model, effect=Effect.MARK, undone=None
            )
            _mark(report.hub_model, others.values_list("words", flat=True).first() or "")
    if lifted and lifted.recall and lifted.recall.stands:
        recalls.undo(lifted.recall, reason=words, by=str(by))


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


def take_out(model: HubModel, words: str, *, by: User) -> Report:
    """Take it out of the ranking. Raises Refused; PermissionError for who may not."""
    side = _allowed(model, by)
    with changing():
        _lock(model)
        if model.departed:
            raise Refused(f"{model} is out of the ranking already.")
        now = timezone.now()
        made = Report.objects.create(
            kind=Kind.WISH, hub_model=model, reason=words, by=by, at=now, state=State.UPHELD,
            closed=now,
        )  # fmt: skip
        Ruling.objects.create(report=made, effect=Effect.OUT, words=words, side=side, by=by, at=now)
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
        lasting = lasting_wish(model)
        if lasting is None:
            raise Refused(f"{model} is in the ranking already.")
        close(lasting, State.LIFTED, from_state=State.UPHELD)
        lasting.rulings.filter(undone=None).update(undone=timezone.now(), undone_by=by)
        HubModel.objects.filter(pk=model.pk).update(departed=False)
    model.refresh_from_db()


def lasting_wish(model: HubModel) -> Report | None:
    """By which the model is out of the ranking."""
    return model.reports.filter(kind=Kind.WISH, state=State.UPHELD).first()


def _allowed(model: HubModel, by: User) -> str:
    side = side_in_ranking(model, by)
    if not side:
        raise PermissionError(f"{by} has no say in {model}")
    return side


def _lock(model: HubModel) -> None:
    """One at a time, as it is now; submitting takes the same lock before it looks (`submit.py`)."""
    now = HubModel.objects.select_for_update(no_key=True).get(pk=model.pk)
    model.departed, model.flag_reason = now.departed, now.flag_reason


# On a report on a key


def may_strike(report: Report, visitor: Visitor) -> bool:
    """Moderators, but none who has a report of their own on the question."""
    if report.state != State.OPEN or report.by_id == visitor.pk or not may_moderate(visitor):
        return False
    same = Report.objects.filter(
        task=report.task, docs_digest=report.docs_digest, part=report.part, doc_id=report.doc_id
    )
    return not same.filter(by=visitor.pk, state=State.OPEN).exists()


def strike(report: Report, words: str, *, by: User) -> None:
    """It counts no more, and its text is withheld. Raises Refused where it has ended,
    PermissionError for who may not."""
    if report.task is None or (report.state == State.OPEN and not may_strike(report, by)):
        raise PermissionError(f"{by} may not strike {report}")
    with changing():
        close(report, State.WITHHELD)
        Ruling.objects.create(report=report, effect=Effect.WITHHELD, words=words, by=by)
        settle(report.task, report.docs_digest)
