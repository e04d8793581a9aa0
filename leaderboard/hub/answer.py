"""The Hub's answer about one model, as far as this site reads it, through the cleaning door."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from huggingface_hub import ModelInfo
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

from leaderboard.hub import cleaning
from leaderboard.hub import weights as hub_weights
from leaderboard.hub.weights import Weights

LONGEST_ID = 200
MOST_FILES = 20_000
MOST_TAGS = 1000
MAX_FILE_BYTES = 2**50
DATES_KEPT_SINCE = datetime(2022, 3, 2, 23, 29, 5, tzinfo=UTC)
"""The Hub gives every older repository one date just before this, which is not its own."""
COMMIT, SHA256 = re.compile("[0-9a-f]{40}"), re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the Hub said of a model at one commit, every text and number of it within bounds."""

    repo_id: str
    commit: str
    sizes: Mapping[str, int | None]
    """Its files, each with its bytes where the Hub tells."""
    digests: Mapping[str, str]
    """SHA-256 of the files that it keeps outside git."""
    card: Mapping[str, Any]
    """What the head of the model's card states."""
    tags: frozenset[str]
    repeated: Mapping[str, Any]
    """The parts of config.json and of the tokenizer's configuration that the Hub repeats."""
    weights: Weights | None
    """How many parameters; None where nothing tells."""
    released: datetime | None
    """When the repository was made; None where the Hub does not know it."""


def answer_of(info: ModelInfo, card: object, longest_template: int) -> Answer:
    """Raises ValueError where it names no model or no commit."""
    repo_id = repo_id_of(info.id)
    commit = cleaning.text(info.sha)
    if not COMMIT.fullmatch(commit):
        raise ValueError(f"{commit!r} is no commit")
    files = list(islice(info.siblings or (), MOST_FILES))
    named = {name: file for file in files if (name := cleaning.text(file.rfilename))}
    digests = {name: cleaning.text(getattr(f.lfs, "sha256", None)) for name, f in named.items()}
    told = info.safetensors
    config = cleaning.cleaned(info.config, longest_template)
    return Answer(
        repo_id=repo_id,
        commit=commit,
        sizes={name: cleaning.count(f.size, MAX_FILE_BYTES) for name, f in named.items()},
        digests={n: digest for n, digest in digests.items() if SHA256.fullmatch(digest)},
        card=cleaning.cleaned(card) if isinstance(card, dict) else {},
        tags=frozenset(filter(None, map(cleaning.text, islice(info.tags or (), MOST_TAGS)))),
        repeated=config if isinstance(config, dict) else {},
        weights=hub_weights.as_counted(told.total, told.parameters) if told else None,
        released=release_of(info),
    )


def release_of(info: ModelInfo) -> datetime | None:
    """When the repository was made; None where the Hub does not know it, or names a future day."""
    made = info.created_at
    if not isinstance(made, datetime) or made.tzinfo is None:
        return None
    tomorrow = datetime.now(UTC) + timedelta(days=1)  # clocks differ
    return made if DATES_KEPT_SINCE <= made <= tomorrow else None


def repo_id_of(named: object) -> str:
    """The name under which the Hub knows a model. Raises ValueError where that is no name."""
    repo_id = cleaning.text(named, LONGEST_ID + 1)
    try:
        validate_repo_id(repo_id)
    except HFValidationError:
        raise ValueError("it names no model") from None
    if len(repo_id) > LONGEST_ID:
        raise ValueError("the name of the model is too long")
    return repo_id
