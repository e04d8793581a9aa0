"""Who else is of a model's family, and how often one submitter tried.

The best of many tries looks better than it is, so all tries of one submitter stay in sight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, Q, QuerySet

from leaderboard.models import HubModel, Submission, Variant


@dataclass(frozen=True)
class Tries:
    """What one submitter has asked for of one family."""

    submitter: str
    """Empty for visitors without an account, who may be many."""
    models: int
    variants: int
    """Commits and precisions."""
    submissions: int


def base_of(model: HubModel, variant: Variant | None, variants: Sequence[Variant]) -> str:
    """The model that its family is called by: a base that one of its commits states, or itself.

    `variants` are all of the model's, the newest first; `variant`, if any, is asked before them.
    """
    stated = (one.base_model for one in (variant, *variants) if one and one.base_model)
    return next(stated, model.repo_id)


def relatives(model: HubModel, base: str) -> QuerySet[HubModel]:
    """The others of the family: the base, and all that state it as theirs."""
    return _family(model, base).exclude(pk=model.pk).order_by("repo_id")


def _family(model: HubModel, base: str) -> QuerySet[HubModel]:
    stated = Variant.objects.filter(base_model=base).values("hub_model")
    named = HubModel.objects.filter(Q(repo_id=base) | Q(pk=model.pk)).values("pk")
    # As one condition with OR the database would read every model that there is.
    return HubModel.objects.filter(pk__in=stated.union(named))


def tries(model: HubModel, base: str) -> list[Tries]:
    """Of each who submitted this model and more of its family: how much; most tries first."""
    submitters = Submission.objects.filter(variant__hub_model=model).values("submitter")
    of_family = Submission.objects.filter(variant__hub_model__in=_family(model, base).values("pk"))
    by_them = Q(submitter__in=submitters.exclude(submitter=None))
    if_visitors = Q(submitter=None, variant__hub_model=model)
    rows = (
        of_family.filter(by_them | if_visitors)
        .order_by()
        .values_list("submitter__username")
        .annotate(
            models=Count("variant__hub_model", distinct=True),
            variants=Count("variant", distinct=True),
            submissions=Count("pk", distinct=True),
        )
        .order_by("-variants", "submitter__username")
    )
    return [Tries(name or "", *counts) for name, *counts in rows if counts[1] > 1]


def same_weights(variant: Variant) -> QuerySet[Variant]:
    """The same weight files under other names."""
    if not variant.weights_digest:
        return Variant.objects.none()
    others = Variant.objects.filter(weights_digest=variant.weights_digest)
    named = others.exclude(hub_model=variant.hub_model_id).select_related("hub_model")
    return named.order_by("hub_model__repo_id", "pk")
