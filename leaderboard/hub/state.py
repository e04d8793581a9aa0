"""What became of the models on the Hub since they were submitted; each is asked for about daily.

A model that is gone, renamed or private since keeps its rows and its numbers; the pages add a note.
A Hub that is silent changes nothing. The Hub answers a visitor without an account with 401 for a
private repository and for one that does not exist, so only a 404 is said to be gone.
"""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now
from huggingface_hub import HfApi
from huggingface_hub.errors import DisabledRepoError, GatedRepoError, RepositoryNotFoundError

from leaderboard.hub import client
from leaderboard.hub.client import Deadline
from leaderboard.hub.model_id import ModelReference
from leaderboard.hub.origin import origin_of
from leaderboard.hub.problem import HubSilent, Refused
from leaderboard.hub.repository import read_repository, release_of, repo_id_of
from leaderboard.models import HubModel

logger = logging.getLogger(__name__)

AGE = timedelta(days=1)
MODELS_PER_LOOK = 8
"""With a look a minute, more than ten thousand models in a day."""
LOOK_SECONDS = 15.0
"""No model is begun after so long: other chores wait behind a look."""
SECONDS = 5.0
"""For all requests about one model together."""

State = HubModel.HubState


@dataclass(frozen=True)
class StateOnHub:
    """What the Hub says of a model now."""

    state: str
    renamed_to: str = ""
    released: datetime | None = None


def under_name(model: HubModel, repo_id: str, released: datetime | None) -> StateOnHub:
    """What became of a model that the Hub serves to everybody under this name."""
    if model.repo_id == repo_id:
        return StateOnHub(State.PRESENT, released=released)
    return StateOnHub(State.RENAMED, repo_id, released)


def look() -> int:
    """Ask the Hub about some models that it was not asked about for a day; how many it knew.

    A silent Hub ends the look. Which models are asked about is drawn, so that one about which the
    Hub never answers stands in nobody's way.
    """
    long_ago = Q(hub_checked=None) | Q(hub_checked__lt=Now() - AGE)
    due = list(HubModel.objects.filter(long_ago).values_list("pk", flat=True))
    drawn = random.sample(due, min(len(due), MODELS_PER_LOOK))
    begun, answered = monotonic(), 0
    for model in HubModel.objects.filter(pk__in=drawn):
        if monotonic() - begun > LOOK_SECONDS:
            break
        try:
            note(model, ask(model.repo_id))
            answered += 1
            describe(model)
        except (HubSilent, Refused) as silent:
            logger.warning("no word of %s: %s", model.repo_id, silent)
            break
    return answered


def ask(repo_id: str) -> StateOnHub:
    """What became of a model. Raises HubSilent."""
    deadline = Deadline(SECONDS)
    return client.ask(ModelReference(repo_id), deadline, lambda: _ask(repo_id, deadline))


def _ask(repo_id: str, deadline: Deadline) -> StateOnHub:
    try:
        info = HfApi(endpoint=settings.HF_ENDPOINT, token=False).model_info(
            repo_id, timeout=deadline.left()
        )
    except (GatedRepoError, DisabledRepoError):
        return StateOnHub(State.PRIVATE)
    except RepositoryNotFoundError as error:
        gone = error.response.status_code == 404
        return StateOnHub(State.GONE if gone else State.PRIVATE)
    current = repo_id_of(info.id)
    renamed_to = current if current != repo_id else ""
    state = State.RENAMED if renamed_to else State.PRESENT
    if info.gated or info.private or info.disabled:
        state = State.PRIVATE
    return StateOnHub(state, renamed_to, release_of(info))


def note(model: HubModel, state: StateOnHub) -> None:
    fields: dict[str, Any] = {"hub_state": state.state, "renamed_to": state.renamed_to}
    if state.released:
        fields["released"] = state.released
    row = HubModel.objects.filter(pk=model.pk)
    if row.exclude(**fields).exists():  # boards are built anew for it
        row.update(**fields)
    row.update(hub_checked=Now())


def describe(model: HubModel) -> None:
    """Complete what is stored of variants that nobody described when they were submitted.

    Raises HubSilent.
    """
    # An adapter's origin is told by the model under it as well: it was described with that.
    for variant in model.variants.filter(weights_digest="", adapter_base=""):
        try:
            reference = ModelReference(model.repo_id, variant.commit)
            repository = read_repository(reference, SECONDS, thorough=True)
        except Refused:
            return
        model.variants.filter(pk=variant.pk).update(**origin_of(repository).fields())
