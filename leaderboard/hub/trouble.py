"""What it means that the Hub does not answer as hoped, and how long it is waited for.

A model that is missing, private or gated is the submitter's to know (Refused); a Hub that is slow,
busy or down says nothing of the model (HubSilent).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

import httpx2
from django.conf import settings
from huggingface_hub.errors import (
    DisabledRepoError,
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import parse_ratelimit_headers  # type: ignore[attr-defined]

from leaderboard.hub import cleaning
from leaderboard.hub.model_id import Asked
from leaderboard.web import Problem, Refused

logger = logging.getLogger(__name__)

MAX_READINGS = 16
LONGEST_REASON = 200
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


class HubSilent(Exception):
    """The Hub gave no usable answer: nothing is known of the model."""

    def __init__(self, code: str, message: str, remedy: str, wait_seconds: int = 0) -> None:
        self.problem = Problem("model", code, message, remedy, wait_seconds=wait_seconds)
        super().__init__(str(self.problem))


class Deadline:
    """A point in time that several requests share."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds that are left. Raises HubSilent where none are."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise too_slow(self.seconds)
        return left


@contextmanager
def complaints(asked: Asked, deadline: Deadline) -> Iterator[None]:
    """The client's errors as what they mean to the submitter."""
    try:
        yield
    except GatedRepoError:
        raise Refused(gated(asked.repo_id)) from None
    except RepositoryNotFoundError:
        raise Refused(missing(asked.repo_id)) from None
    except RevisionNotFoundError:
        raise Refused(no_revision(asked)) from None
    except DisabledRepoError:
        raise Refused(disabled(asked.repo_id)) from None
    except RemoteEntryNotFoundError as error:
        raise no_sense(error) from error
    except HfHubHTTPError as error:
        raise _answered_with(error) from error
    except httpx2.TimeoutException as error:
        raise too_slow(deadline.seconds) from error
    except (httpx2.HTTPError, OfflineModeIsEnabled) as error:
        raise HubSilent(
            "hub_down",
            f"The Hub at {settings.HF_ENDPOINT} cannot be reached "
            f"({cleaning.text(str(error), LONGEST_REASON)}).",
            "Try again in a few minutes.",
        ) from error
    except UNREADABLE as error:
        logger.warning("what the Hub says of %s cannot be read", asked.repo_id, exc_info=error)
        raise no_sense(error) from error


def within(deadline: Deadline, question: Callable[[], Answer]) -> Answer:
    """Ask in a thread of its own: a time limit of a request does not end a trickling answer."""
    if not _free_readings.acquire(timeout=deadline.left()):
        raise too_slow(deadline.seconds)
    future: Future[Answer] = Future()

    def ask() -> None:
        try:
            future.set_result(question())
        except BaseException as error:
            future.set_exception(error)
        finally:
            _free_readings.release()

    threading.Thread(target=ask, name="hub", daemon=True).start()
    try:
        return future.result(timeout=deadline.left())
    except TimeoutError:
        raise too_slow(deadline.seconds) from None


def missing(repo_id: str) -> Problem:
    return Problem(
        "model",
        "unknown_model",
        f"There is no model {repo_id} on the Hub, or it is private.",
        "Check the spelling on its page; a private model has to be made public first.",
    )


def no_owner(name: str, offers: tuple[str, ...]) -> Problem:
    return Problem(
        "model",
        "no_owner",
        f"“{name}” is a name without its owner: an ID has both, owner/name.",
        "Choose one of those on the Hub:" if offers else "Copy the ID from the model's page.",
        offers,
    )


def gated(repo_id: str) -> Problem:
    return Problem(
        "model",
        "gated",
        f"{repo_id} is gated: its files are only for people whom its authors have let in.",
        "Submit a model that anyone can download, so that others can check the scores.",
    )


def disabled(repo_id: str) -> Problem:
    return Problem(
        "model",
        "disabled",
        f"The Hub has disabled {repo_id}.",
        "Its authors can ask the Hub why; submit another model.",
    )


def no_revision(asked: Asked) -> Problem:
    return Problem(
        "revision",
        "unknown_revision",
        f"{asked.repo_id} has no branch, tag or commit “{asked.revision}”.",
        "Leave the field empty for the main branch, or copy the name from the model's page.",
    )


def too_slow(seconds: float) -> HubSilent:
    return HubSilent(
        "hub_slow", f"The Hub did not answer within {seconds:g} s.", "Try again in a minute."
    )


def no_sense(error: Exception) -> HubSilent:
    reason = cleaning.text(str(error), LONGEST_REASON)
    return HubSilent(
        "hub_error",
        f"The Hub's answer could not be read ({type(error).__name__}: {reason}).",
        "Try again in a few minutes.",
    )


def _answered_with(error: HfHubHTTPError) -> HubSilent:
    status = error.response.status_code
    if status != 429:
        return HubSilent(
            "hub_error",
            f"The Hub answered with an error ({status}).",
            "Try again in a few minutes.",
        )
    limit = parse_ratelimit_headers(error.response.headers)
    wait = f"{limit.reset_in_seconds} s" if limit else "a minute"
    return HubSilent(
        "hub_busy", "The Hub takes no more requests from us for now (429).", f"Try again in {wait}."
    )
