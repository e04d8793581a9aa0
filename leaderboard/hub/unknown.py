"""IDs that the Hub has just said it does not know: to ask once more would be three requests.

Kept for half a minute only, since whoever has just made the model tries again.
"""

from __future__ import annotations

from dataclasses import asdict

from django.conf import settings
from django.core.cache import cache

from evalcore.digest import digest_of
from leaderboard.web import Problem, Refused

SECONDS = 30
CODES = frozenset({"unknown_model", "no_owner", "not_a_model"})
"""Of problems that say there is no such model, whoever asks for whatever revision of it."""


def refuse(repo_id: str) -> None:
    """Raises Refused, as the Hub's answer did, where that was a moment ago."""
    if known := cache.get(_key(repo_id)):
        problem = Problem(**known)
        raise Refused(Problem(**{**known, "offers": tuple(problem.offers)}))


def note(repo_id: str, refused: Refused) -> None:
    """Keep what the Hub said, where it was that there is no such model."""
    for problem in refused.problems:
        if problem.code in CODES:
            cache.set(_key(repo_id), asdict(problem), SECONDS)


def _key(repo_id: str) -> str:
    return f"unknown-{digest_of([settings.HF_ENDPOINT, repo_id])}"
