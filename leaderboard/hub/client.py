"""Asking the Hub: one deadline for all requests of a question, and what each failure means.

A model that is missing, private or gated is the submitter's to know (Refused); a Hub that is slow,
busy or down says nothing of the model (HubSilent). Requests carry no token: what an anonymous
visitor of the Hub cannot read is not evaluated.
"""

from __future__ import annotations

import difflib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict
from typing import TypeVar

import httpx2
from django.conf import settings
from django.core.cache import cache
from huggingface_hub import HfApi
from huggingface_hub.errors import (
    DisabledRepoError,
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import (  # type: ignore[attr-defined]
    build_hf_headers,
    get_session,
    hf_raise_for_status,
    parse_ratelimit_headers,
)

from evalcore.digest import digest_of
from leaderboard.hub.model_id import ModelReference, is_full_id, other_repository
from leaderboard.hub.problem import HubSilent, Problem, Refused

logger = logging.getLogger(__name__)

MAX_READINGS = 16
MAX_REASON_LENGTH = 200
MAX_OFFERS, MAX_SUGGESTED = 5, 10
MAX_SEARCHED = 50
"""Models that a search of the Hub returns, the most downloaded first."""
UNKNOWN_SECONDS = 30
"""So long an ID that the Hub did not know is not asked for again: that would be three requests.
No longer, since whoever has just made the model tries again."""
UNKNOWN_CODES = frozenset({"unknown_model", "no_owner", "not_a_model"})
"""Of problems that say there is no such model, whoever asks for whatever revision of it."""
UNREADABLE = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""What the client raises for an answer that is not of the form that it expects."""

_free_readings = threading.BoundedSemaphore(MAX_READINGS)
Answer = TypeVar("Answer")


class Deadline:
    """A point in time that several requests share."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds that are left. Raises HubSilent where none are."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise _too_slow(self)
        return left


def ask(reference: ModelReference, deadline: Deadline, question: Callable[[], Answer]) -> Answer:
    """The answer to a question of several requests. Raises Refused and HubSilent.

    Asked in a thread of its own: a time limit of a request does not end a trickling answer.
    """
    if not _free_readings.acquire(timeout=deadline.left()):
        raise _too_slow(deadline)
    future: Future[Answer] = Future()

    def work() -> None:
        try:
            with _complaints(reference, deadline):
                future.set_result(question())
        except BaseException as error:
            future.set_exception(error)
        finally:
            _free_readings.release()

    threading.Thread(target=work, name="hub", daemon=True).start()
    try:
        return future.result(timeout=deadline.left())
    except TimeoutError:
        raise _too_slow(deadline) from None


def ask_unless_unknown(
    reference: ModelReference, deadline: Deadline, question: Callable[[], Answer]
) -> Answer:
    """The same, but for an ID that the Hub did not know a moment ago, which is refused so again."""
    key = f"unknown-{digest_of([settings.HF_ENDPOINT, reference.repo_id])}"
    if cached := cache.get(key):
        raise Refused(Problem(**{**cached, "offers": tuple(cached["offers"])}))
    try:
        return ask(reference, deadline, question)
    except Refused as refused:
        for problem in refused.problems:
            if problem.code in UNKNOWN_CODES:
                cache.set(key, asdict(problem), UNKNOWN_SECONDS)
        raise


@contextmanager
def _complaints(reference: ModelReference, deadline: Deadline) -> Iterator[None]:
    """The client's errors as what they mean to the submitter."""
    try:
        yield
    except GatedRepoError:
        raise Refused(Problem("gated", "model", reference.repo_id)) from None
    except RepositoryNotFoundError:
        raise Refused(Problem("unknown_model", "model", reference.repo_id)) from None
    except RevisionNotFoundError:
        model = {"model": reference.repo_id}
        raise Refused(Problem("unknown_revision", "revision", reference.revision, model)) from None
    except DisabledRepoError:
        raise Refused(Problem("disabled", "model", reference.repo_id)) from None
    except RemoteEntryNotFoundError as error:
        raise _unreadable(error) from error
    except HfHubHTTPError as error:
        raise _answered_with(error) from error
    except httpx2.TimeoutException as error:
        raise _too_slow(deadline) from error
    except (httpx2.HTTPError, OfflineModeIsEnabled) as error:
        reason = str(error)[:MAX_REASON_LENGTH]
        details = {"address": settings.HF_ENDPOINT, "reason": reason}
        raise HubSilent(Problem("hub_down", details=details)) from error
    except UNREADABLE as error:
        logger.warning("what the Hub says of %s cannot be read", reference.repo_id, exc_info=error)
        raise _unreadable(error) from error


def _too_slow(deadline: Deadline) -> HubSilent:
    return HubSilent(Problem("hub_slow", details={"seconds": deadline.seconds}))


def _unreadable(error: Exception) -> HubSilent:
    reason = f"{type(error).__name__}: {str(error)[:MAX_REASON_LENGTH]}"
    return HubSilent(Problem("hub_error.unreadable", details={"reason": reason}))


def _answered_with(error: HfHubHTTPError) -> HubSilent:
    status = error.response.status_code
    if status != 429:
        return HubSilent(Problem("hub_error.status", details={"status": status}))
    limit = parse_ratelimit_headers(error.response.headers)
    pause = f"{limit.reset_in_seconds} s" if limit else "a minute"
    return HubSilent(Problem("hub_busy", details={"pause": pause}))


def why_not_found(repo_id: str, deadline: Deadline) -> Problem:
    """Why there is no such model: its owner is missing, it is a data set or a space, or it is
    spelt otherwise."""
    if "/" not in repo_id:
        offers = models_like(repo_id, deadline.left() / 2)
        fault = "no_owner.near" if offers else "no_owner"
        return Problem(fault, "model", repo_id, offers=offers)
    api = HfApi(endpoint=settings.HF_ENDPOINT, token=False)
    for repo_type, kind in (("dataset", "data set"), ("space", "space")):
        try:
            api.repo_info(repo_id, repo_type=repo_type, timeout=deadline.left())
        except GatedRepoError:
            return other_repository(repo_id, kind)
        except RepositoryNotFoundError:
            continue
        return other_repository(repo_id, kind)
    offers = models_like(repo_id, deadline.left() / 2)
    return Problem(
        "unknown_model.near" if offers else "unknown_model", value=repo_id, offers=offers
    )


def models_like(typed: str, seconds: float) -> tuple[str, ...]:
    """The IDs of models on the Hub that may have been meant, found within so many seconds.

    Of a name without an owner the most downloaded that have it in theirs, those called exactly so
    first; of a whole ID the same name by another owner, and near names by the same. No answer is
    as good as none.
    """
    owner, _, name = typed.rpartition("/")
    deadline = Deadline(seconds)
    queries = [{"search": name}, *([{"author": owner}] if owner else [])]
    try:
        matches = ask(ModelReference(typed), deadline, lambda: _search(queries, deadline))
    except (HubSilent, Refused):
        return ()
    exact = [repo_id for repo_id in matches if repo_id.partition("/")[2].lower() == name.lower()]
    if not owner:
        return tuple(dict.fromkeys([*exact, *matches]))[:MAX_OFFERS]
    near = difflib.get_close_matches(typed, matches, MAX_OFFERS, cutoff=0.8)
    return tuple(dict.fromkeys([*near, *exact]))[:MAX_OFFERS]


def models_with(typed: str, seconds: float) -> tuple[str, ...]:
    """The IDs of the most downloaded models on the Hub with this text in theirs; perhaps none."""
    deadline = Deadline(seconds)
    try:
        matches = ask(
            ModelReference(typed), deadline, lambda: _search([{"search": typed}], deadline)
        )
    except (HubSilent, Refused):
        return ()
    return tuple(matches[:MAX_SUGGESTED])


def _search(queries: list[dict[str, str]], deadline: Deadline) -> list[str]:
    # Not by the client's own search, which asks again and again where the Hub is in trouble.
    repo_ids = []
    for query in queries:
        response = get_session().get(
            f"{settings.HF_ENDPOINT}/api/models",
            params={**query, "sort": "downloads", "limit": MAX_SEARCHED},
            headers=build_hf_headers(token=False),
            timeout=deadline.left(),
        )
        hf_raise_for_status(response)
        repo_ids += [model["id"] for model in response.json()[:MAX_SEARCHED]]
    return [repo_id for repo_id in repo_ids if is_full_id(repo_id)]
