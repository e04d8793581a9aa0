"""What is known of where a model's weights come from: its card's words, its tags, its files.

Nothing here is proof. The kind is what the authors state; only equal digests of weights are facts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evalcore.digest import digest_of
from leaderboard.hub.client import TEMPLATE, Repository
from leaderboard.models.variant import Kind

EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
"""Keys of config.json for the number of experts, of which each token uses some."""
MERGE_TAGS = frozenset({"merge", "mergekit"})
RELATIONS = ("finetune", "merge", "adapter", "quantized")
REPOSITORY = re.compile(r"[\w.-]{1,96}(/[\w.-]{1,96})?", re.ASCII)


@dataclass(frozen=True)
class Origin:
    """As stored with a variant; empty and False where nothing is stated."""

    kind: str
    base_model: str
    """The first that is named."""
    merged: bool
    moe: bool
    weights_digest: str
    """Equal for the same weight files under two names; empty where the Hub tells no digests."""
    chat_template_digest: str | None
    """SHA-256 of the template's text, empty where it has none; None where nobody looked."""

    def fields(self) -> dict[str, Any]:
        """What is known, by the names of a variant's fields."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def origin_of(repository: Repository) -> Origin:
    bases = _bases(repository)
    merged = _is_merged(repository, bases)
    digests = repository.weight_digests
    return Origin(
        kind=_kind(repository, bases, merged),
        base_model=next(iter(bases), ""),
        merged=merged,
        moe=_is_moe(repository),
        weights_digest=digest_of(list(digests)) if digests else "",
        chat_template_digest=_template_digest(repository.chat_template),
    )


def _bases(repository: Repository) -> dict[str, str]:
    """Base models in the order of the card, each with how it was used (may be empty)."""
    stated = repository.card.get("base_model")
    names = stated if isinstance(stated, list) else [stated]
    relation = str(repository.card.get("base_model_relation") or "")
    bases = {name: relation for name in names if isinstance(name, str)}
    for tag in sorted(repository.tags):
        how, _, name = tag.removeprefix("base_model:").partition(":")
        if tag.startswith("base_model:") and name and how in RELATIONS:
            bases[name] = how
    return {name: how for name, how in bases.items() if REPOSITORY.fullmatch(name)}


def _is_merged(repository: Repository, bases: Mapping[str, str]) -> bool:
    """As the Hub takes it: a model with several bases and no other relation is a merge."""
    unstated = len(bases) > 1 and not any(bases.values())
    return unstated or "merge" in bases.values() or bool(MERGE_TAGS & repository.tags)


def _kind(repository: Repository, bases: Mapping[str, str], merged: bool) -> str:
    if merged:
        return Kind.MERGE.value
    if (
        repository.chat_template
        or TEMPLATE in repository.files
        or "conversational" in repository.tags
    ):
        return Kind.CHAT.value
    if any(how != "quantized" for how in bases.values()):
        return Kind.FINE_TUNED.value
    return Kind.PRETRAINED.value if "pretrained" in repository.tags else Kind.UNKNOWN.value


def _is_moe(repository: Repository) -> bool:
    config = repository.config or {}
    return (
        "moe" in repository.tags or _has_experts(config) or _has_experts(config.get("text_config"))
    )


def _has_experts(config: Any) -> bool:
    counts = [config.get(key) for key in EXPERTS] if isinstance(config, dict) else []
    return any(isinstance(count, int) and count > 1 for count in counts)


def _template_digest(template: str | None) -> str | None:
    if not template:
        return template
    return hashlib.sha256(template.encode(errors="surrogatepass")).hexdigest()
