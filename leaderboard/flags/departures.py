"""An author takes a model out of the ranking, and brings it back.

What was measured stays readable, as what was said of public weights; the model has no rank on the
boards that are built from then on, what it waits for is stopped, and nobody can submit it.
"""

from __future__ import annotations

from django.db.models.functions import Now

from leaderboard.flags.authors import is_author
from leaderboard.flags.order import Refused
from leaderboard.models import Departure, HubModel, Run, User, may_moderate
from leaderboard.models.edition import changing
from leaderboard.models.role import Visitor
from leaderboard.models.run import State
from leaderboard.queue import claims

Side = Departure.Side
WHY = "its author took the model out of the ranking"
"""What stands in the history of the runs that are stopped."""


def side_of(model: HubModel, visitor: Visitor) -> str:
    """As what somebody may take it out and bring it back; empty for who may not."""
    if not visitor.is_authenticated:
        return ""
    if is_author(model, visitor):
        return Side.AUTHOR
    return Side.MODERATOR if may_moderate(visitor) else ""


def leave(model: HubModel, words: str, *, by: User) -> Departure:
    """Take it out of the ranking. Raises Refused; PermissionError for who may not."""
    side = _allowed(model, by)
    with changing():
        _lock(model)
        if model.departed:
            raise Refused(f"{model} is out of the ranking already.")
        made = Departure.objects.create(hub_model=model, by=by, side=side, words=words)
        HubModel.objects.filter(pk=model.pk).update(departed=True)
        for run in Run.objects.filter(
            variant__hub_model=model, state__in=(State.QUEUED, State.RUNNING)
        ):
            claims.cancel(run, by=str(by), why=WHY)
    model.refresh_from_db()
    return made


def come_back(model: HubModel, *, by: User) -> None:
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
    side = side_of(model, by)
    if not side:
        raise PermissionError(f"{by} has no say in {model}")
    return side


def _lock(model: HubModel) -> None:
    """One at a time; submitting takes the same lock before it looks (`submit.py`)."""
    model.departed = HubModel.objects.select_for_update(no_key=True).get(pk=model.pk).departed
