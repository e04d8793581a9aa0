"""Whose a model is: for whom Hugging Face vouches under the name that its ID begins with."""

from __future__ import annotations

from collections.abc import Iterator

from allauth.socialaccount.models import SocialAccount
from django.conf import settings

from leaderboard.models import HubModel
from leaderboard.models.role import Visitor

HUB = "huggingface"


def is_author(model: HubModel, visitor: Visitor) -> bool:
    """Whether this account is the model's owner on the Hub, or may write for that organisation."""
    if settings.OIDC_ID != HUB:
        return False
    owner = model.owner.lower()
    told = SocialAccount.objects.filter(user_id=visitor.pk, provider=HUB)
    return any(
        name.lower() == owner
        for one in told.values_list("extra_data", flat=True)
        for name in _names(one)
    )


def _names(told: object) -> Iterator[str]:
    """What `leaderboard/accounts/told.py` kept at the last signing in."""
    if isinstance(told, dict):
        yield from (
            str(name) for name in (told.get("name"), *told.get("organisations", ())) if name
        )
