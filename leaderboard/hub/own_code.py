"""Models that bring code of their own: what of it would be run, and whether that is trusted here.

`PLUMBLINE_TRUSTED_CODE` lists repositories, each at a commit, whose code the operator has read.
Nothing else is run, and code in another repository (`owner/name--module.Class`) only where that one
is listed, too.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings

from evalcore.model.hf import code
from leaderboard.web import Problem

NATIVE = "Submit a version whose architecture is part of transformers."
ASK = "or ask the operator of this site to read the code and to list it."


def pins(config: dict[str, Any], repo_id: str, commit: str) -> tuple[str, ...]:
    """The repositories whose code would be run, each with @ and its commit; of another one that is
    not listed, or at several commits, nothing."""
    named = code.references(config)
    own = (f"{repo_id}@{commit}",) if code.has_own(named) else ()
    listed = ((name, sorted(_trusted(name))) for name in code.others(named))
    return (*own, *(f"{name}@{commits[0]}" for name, commits in listed if len(commits) == 1))


def problem_with(config: dict[str, Any], repo_id: str, commit: str, needs: str) -> Problem | None:
    """Why the code that a model needs is not run, or None where it is. `needs`: the architecture
    that transformers does not have."""
    message = f"{repo_id} needs its own code ({needs or 'auto_map'} is not in transformers), and "
    if not settings.PLUMBLINE_TRUSTED_CODE:
        return _problem(f"{message}code from the Hub is never run here.", NATIVE)
    named = code.references(config)
    others = code.others(named)
    if code.has_own(named) and commit not in (known := _trusted(repo_id)):
        message += f"the operator of this site has not listed {repo_id} at commit {commit[:8]}."
        if known:
            return _problem(message, f"Submit the revision {sorted(known)[0]}, {ASK}")
        return _problem(message, f"{NATIVE[:-1]}, {ASK}")
    if len(others) > 1:
        message += f"takes it from several repositories ({', '.join(others)[:200]})."
        return _problem(message, "Put the code into one repository.")
    for other in others:
        if not _trusted(other):
            message += f"takes code from {other[:96]}, which the operator has not listed."
            return _problem(message, f"{NATIVE[:-1]}, {ASK}")
        if len(_trusted(other)) > 1:
            message += f"takes code from {other[:96]}, which is listed at several commits."
            return _problem(message, "The operator of this site has to list one of them.")
    return None


def note_on(pinned: tuple[str, ...]) -> Problem:
    """What is said of a model whose code is trusted."""
    return Problem(
        "model",
        "own_code",
        "Its own code is run, which the operator of this site has listed as trusted: "
        f"{', '.join(pinned)}.",
        "It has no network, and can write nowhere else.",
    )


def _trusted(repo_id: str) -> frozenset[str]:
    commits: frozenset[str] = settings.PLUMBLINE_TRUSTED_CODE.get(repo_id, frozenset())
    return commits


def _problem(message: str, remedy: str) -> Problem:
    return Problem("model", "custom_code", message, remedy)
