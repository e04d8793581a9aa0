"""What this site has of a model already, under every name that it knows the model by.

A repository keeps its commits when it is renamed, and the Hub goes on answering to its old names.
Other repositories may have the same commit, so a commit alone makes no two models one.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Q, QuerySet

from leaderboard.hub import HubSilent
from leaderboard.hub import state as hub_state
from leaderboard.models import HubModel, Variant
from leaderboard.submissions.facts import Facts
from leaderboard.web import Refused

MOST_ASKED = 3
"""Other names of a commit about which the Hub is asked."""
NAMED_BESIDE_COMMIT = ("adapter_base", "code")
"""Fields of a variant that name repositories, each of which is pinned to a commit as well."""


def rows_of(*names: str) -> QuerySet[HubModel]:
    """The rows of a model that has these names now, the earliest first."""
    return HubModel.objects.filter(Q(repo_id__in=names) | Q(renamed_to__in=names)).order_by("pk")


def variants_of(facts: Facts, *former: str) -> list[Variant]:
    """Those of the same commits, asked in the same way; `former`: other names of the model."""
    identity = {
        name: value for name, value in facts.identity.items() if name not in NAMED_BESIDE_COMMIT
    }
    found = Variant.objects.filter(hub_model__in=rows_of(facts.repo_id, *former), **identity)
    return [
        variant
        for variant in found.order_by("pk")
        if _commits(variant.code) == _commits(",".join(facts.code))
        and bool(variant.adapter_base) == bool(facts.adapter_base)
    ]


def row_of(rows: Sequence[HubModel], commit: str) -> HubModel:
    """Under which of the rows of a model a commit of it stands, or is to stand."""
    with_commit = set(
        Variant.objects.filter(hub_model__in=rows, commit=commit).values_list(
            "hub_model", flat=True
        )
    )
    return next((row for row in rows if row.pk in with_commit), rows[0])


def learn(facts: Facts) -> None:
    """Ask the Hub what became of the models under whose names the same commit was submitted."""
    others = HubModel.objects.filter(variants__commit=facts.commit).exclude(repo_id=facts.repo_id)
    for model in others.exclude(renamed_to=facts.repo_id).distinct()[:MOST_ASKED]:
        try:
            hub_state.note(model, hub_state.ask(model.repo_id))
        except (HubSilent, Refused):
            return


def _commits(code: str) -> list[str]:
    return [pin.rpartition("@")[2] for pin in code.split(",") if pin]
