"""What the Hub alone says of a model: read `judged` first."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import monotonic

from django.conf import settings
from django.core.cache import caches

from leaderboard.hub import (
    HubSilent,
    Repository,
    adapters,
    architectures,
    client,
    model_id,
    own_code,
)
from leaderboard.hub import files as repository_files
from leaderboard.models.variant import TRANSFORMERS
from leaderboard.submissions.facts import Facts, Way, facts_of
from leaderboard.web import Problem, Refused, background

CACHED_SECONDS = 60
PENDING, NO_ROOM = "hub_pending", "checks_full"
"""Codes of problems: the Hub is being asked; so many models are that it is not."""
FULL_SECONDS = 5
"""After which to ask again where too many models are being looked at."""
MOST_NAMED = 5
"""Chat templates that a sentence names."""
LEAST_SECONDS = 0.5
"""For the model under an adapter, however long the adapter took."""

Judgement = tuple[Facts | None, tuple[Problem, ...], tuple[Problem, ...]]
"""Facts, problems and warnings."""

looks: background.Background[Judgement] = background.Background(
    "hub", threads=16, most=32, keep_seconds=CACHED_SECONDS
)
"""At models on the Hub, each until its deadline; requests do not wait for them."""


def judged(
    asked: model_id.Asked, way: Way, seconds: float, *, thorough: bool, remembered: bool
) -> Judgement:
    """From the Hub alone, kept for a minute.

    Raises HubSilent, with PENDING where the Hub is still being asked: whoever asks the same again
    gets what it said.
    """
    key = _key(asked, way, thorough=thorough or way.chat)
    judgement: Judgement | None = caches["local"].get(key) if remembered else None
    if judgement is None:
        look = partial(_judged_or_refused, asked, way, seconds, thorough=thorough or way.chat)
        judgement = _answer(_look(key, thorough=thorough), look)
        caches["local"].set(key, judgement, CACHED_SECONDS)
    facts, problems, warnings = judgement
    if facts is None:
        return judgement
    return (
        replace(facts, packing=way.packing, chat=way.chat, backend=way.backend),
        (*problems, *_about_way(facts, way)),
        (*warnings, *_about_instructions(facts, way)),
    )


def is_pending(asked: model_id.Asked, way: Way, *, thorough: bool) -> bool:
    """Whether the Hub is being asked, or has answered somebody who did not wait for it."""
    return looks.has(_look(_key(asked, way, thorough=thorough or way.chat), thorough=thorough))


def _key(asked: model_id.Asked, way: Way, *, thorough: bool) -> str:
    question = json.dumps([settings.HF_ENDPOINT, asked.repo_id, asked.revision, way.base, thorough])
    return f"precheck-{hashlib.sha256(question.encode()).hexdigest()}"


def _look(key: str, *, thorough: bool) -> str:
    """A submission waits longer for the Hub than a check, so neither takes the other's answer."""
    return f"{key}-{thorough}"


def _answer(key: str, look: Callable[[], Judgement]) -> Judgement:
    """What the look under this key found, once: who asks then looks anew. Raises HubSilent."""
    try:
        judgement = looks.ask(key, look)
    except background.NotReady:
        message, remedy = "The Hub has not answered yet.", "It is being asked: ask again."
        raise HubSilent(PENDING, message, remedy, background.ASK_AGAIN_SECONDS) from None
    except background.TooMuchWork:
        message = "Very many models are being checked at the moment."
        remedy = f"Check again in {FULL_SECONDS} s."
        raise HubSilent(NO_ROOM, message, remedy, FULL_SECONDS) from None
    except HubSilent:
        looks.forget(key)
        raise
    looks.forget(key)
    return judgement


def _judged_or_refused(
    asked: model_id.Asked, way: Way, seconds: float, *, thorough: bool
) -> Judgement:
    try:
        return _judged(asked, way, seconds, thorough=thorough)
    except Refused as refused:
        return None, refused.problems, ()


def _judged(asked: model_id.Asked, way: Way, seconds: float, *, thorough: bool) -> Judgement:
    begun = monotonic()
    repository = client.read_repository(asked, seconds, thorough=thorough)
    notes = _renaming("model", asked, repository)
    if not repository.is_adapter:
        problems = repository_files.problems_with(repository)
        if way.base:
            problems.append(_takes_no_base(repository))
        return _outcome(repository, None, problems, notes)
    if problems := adapters.problems_with(repository):
        return None, tuple(problems), tuple(notes)
    left = max(LEAST_SECONDS, seconds - (monotonic() - begun))
    named = adapters.base_of(repository, way.base)
    try:
        base = client.read_repository(named, left, thorough=thorough)
    except Refused as refused:
        raise Refused(*adapters.of_base(refused.problems)) from None
    notes += _renaming("base", named, base)
    if base.is_adapter:
        problems = [_on_an_adapter(base)]
    else:
        problems = adapters.of_base(repository_files.problems_with(base))
    if another := adapters.is_another(repository, base.repo_id):
        notes.append(_another_base(repository, base, another))
    return _outcome(base, repository, problems, notes)


def _outcome(
    whole: Repository, adapter: Repository | None, problems: list[Problem], notes: list[Problem]
) -> Judgement:
    facts = None if problems else facts_of(whole, adapter)
    if facts is None and not problems:
        problems = [_unknown_size(whole, "base" if adapter else "model")]
    if facts:
        counted = repository_files.other_count(whole)
        notes = [*notes, *(adapters.of_base(counted) if adapter else counted)]
    if facts and facts.code:
        notes = [*notes, own_code.note_on(facts.code)]
    return facts, tuple(problems), tuple(notes)


def _about_way(facts: Facts, way: Way) -> list[Problem]:
    problems = []
    if way.packing and facts.stored_quantisation:
        problems.append(
            Problem(
                "packing",
                "packed_already",
                f"{facts.adapter_base or facts.repo_id} is quantised already "
                f"({facts.stored_quantisation}).",
                "Leave its weights as stored.",
            )
        )
    if way.backend != TRANSFORMERS and (made := _not_plain(facts, way)):
        problems.append(
            Problem(
                "engine",
                "plain_models_only",
                f"{made} are computed by transformers alone on this site.",
                "Choose transformers, or a whole model with its weights as stored.",
            )
        )
    if way.chat and (names := facts.template_names):
        named = ", ".join(name[:40] for name in names[:MOST_NAMED])
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        problems.append(
            Problem(
                "asked",
                "no_default_template",
                f"{facts.adapter_base or facts.repo_id} has chat templates with names "
                f"({named}{more}) and none that is its default, in which models are asked here.",
                "Choose plain text, or add the one that is meant as chat_template.jinja.",
            )
        )
    if way.chat and facts.has_template is False:
        problems.append(
            Problem(
                "asked",
                "no_template",
                f"{facts.adapter_base or facts.repo_id} has no chat template.",
                "Choose plain text, or add the template to its tokenizer and push it again.",
            )
        )
    return problems


def _about_instructions(facts: Facts, way: Way) -> list[Problem]:
    if not (way.chat and facts.refuses_system):
        return []
    return [
        Problem(
            "asked",
            "refuses_system",
            f"The chat template of {facts.adapter_base or facts.repo_id} refuses a system turn "
            f"(“{facts.refuses_system}”): its runs fail on benchmarks that "
            "begin with an instruction, such as MMLU.",
            "Choose plain text, or submit a version whose template writes the instruction.",
        )
    ]


def _not_plain(facts: Facts, way: Way) -> str:
    if facts.adapter_base:
        return "Adapters"
    if facts.code:
        return "Models with code of their own"
    if facts.architecture in architectures.SEEING:
        return "Models that see"
    return "Quantised weights" if facts.stored_quantisation or way.packing else ""


def _unknown_size(repository: Repository, field: str) -> Problem:
    return Problem(
        "base" if field == "base" else "model",
        "unknown_size",
        f"The number of parameters of {repository.repo_id} cannot be read from its "
        "safetensors files.",
        "Save the model with save_pretrained() and push it again: a file may be cut short.",
    )


def _renaming(field: str, asked: model_id.Asked, repository: Repository) -> list[Problem]:
    if asked.repo_id == repository.repo_id:
        return []
    return [
        Problem(
            "base" if field == "base" else "model",
            "renamed",
            f"The Hub knows {asked.repo_id} as {repository.repo_id} now; that name is used.",
        )
    ]


def _takes_no_base(repository: Repository) -> Problem:
    return Problem(
        "base",
        "no_adapter",
        f"{repository.repo_id} is a whole model, which is put on no other.",
        "Leave this field empty.",
    )


def _on_an_adapter(base: Repository) -> Problem:
    return Problem(
        "base",
        "adapter",
        f"{base.repo_id} is an adapter itself.",
        "Name the whole model that both are put on, with the other adapter merged into it.",
    )


def _another_base(adapter: Repository, base: Repository, named: str) -> Problem:
    return Problem(
        "base",
        "another_base",
        f"{adapter.repo_id} says that it was trained on {named}; it would be put on "
        f"{base.repo_id}.",
        "If that is not the same model under another name, its score means nothing.",
    )
