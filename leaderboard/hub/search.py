"""Models of the Hub that are called nearly as somebody typed; no answer is as good as none."""

from __future__ import annotations

from django.conf import settings
from huggingface_hub.utils import (  # type: ignore[attr-defined]
    build_hf_headers,
    get_session,
    hf_raise_for_status,
)

from leaderboard.hub import trouble
from leaderboard.hub.answer import repo_id_of
from leaderboard.hub.model_id import Asked
from leaderboard.hub.trouble import Deadline, HubSilent
from leaderboard.web.problem import Refused

MOST = 5


def called(name: str, seconds: float) -> tuple[str, ...]:
    """The IDs of the most downloaded models with this in their name, found within so many seconds.

    Those called exactly so come first.
    """
    try:
        found = trouble.within(Deadline(seconds), lambda: _search(name, Deadline(seconds)))
    except (HubSilent, Refused):
        return ()
    return tuple(sorted(found, key=lambda one: one.partition("/")[2].lower() != name.lower()))


def _search(name: str, deadline: Deadline) -> list[str]:
    # Not by the client's own search, which asks again and again where the Hub is in trouble.
    with trouble.complaints(Asked(name, "main"), deadline):
        response = get_session().get(
            f"{settings.HF_ENDPOINT}/api/models",
            params={"search": name, "sort": "downloads", "limit": MOST},
            headers=build_hf_headers(token=False),
            timeout=deadline.left(),
        )
        hf_raise_for_status(response)
        found = [repo_id_of(one["id"]) for one in response.json()[:MOST]]
        return [repo_id for repo_id in found if "/" in repo_id]
