"""A check told step by step: what passed, what to know, what has to change, what nobody could see.

`precheck` and `judgement` find the problems; here each stands in the step that it belongs to, so
that a reader sees what was looked at, and not only what went wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from leaderboard.hub import architectures
from leaderboard.submissions.facts import Facts
from leaderboard.submissions.precheck import SUBMITTED_BEFORE, Precheck
from leaderboard.templatetags.figures import filesize
from leaderboard.web import Problem


class Outcome(StrEnum):
    PASSED = "passed"
    WARNED = "warned"
    """Stops nobody."""
    FAILED = "failed"
    """Has to change before the model can be submitted."""
    UNSEEN = "unseen"
    """Not looked at: something before it failed, or the Hub did not answer."""


@dataclass(frozen=True)
class Step:
    title: str
    outcome: Outcome
    said: str
    remedy: str = ""
    address: str = ""
    """Of the submission that is here already."""


class _Kind(NamedTuple):
    title: str
    codes: frozenset[str]
    """Of the problems that belong here."""
    told: Callable[[Facts, Precheck], str]
    """What is said where it passed; empty where the step has no part in this model."""


def _hub(facts: Facts, _: Precheck) -> str:
    return f"{facts.repo_id} is there and public, and anyone can download it."


def _revision(facts: Facts, _: Precheck) -> str:
    return f"Pinned to commit {facts.commit[:8]}: later pushes change nothing."


def _weights(facts: Facts, _: Precheck) -> str:
    packed = f", packed by {facts.stored_quantisation}" if facts.stored_quantisation else ""
    return f"{facts.parameters:,} parameters in safetensors{packed}."


def _architecture(facts: Facts, _: Precheck) -> str:
    if facts.code:
        return f"{facts.architecture}, which the model's own code computes."
    asked = ", which is asked in text alone" if facts.architecture in architectures.SEEING else ""
    known = "which transformers computes without code of the model's own"
    return f"{facts.architecture}{asked}, {'and ' if asked else ''}{known}."


def _tokenizer(_: Facts, __: Precheck) -> str:
    return "Its files are there."


def _asked(facts: Facts, _: Precheck) -> str:
    if facts.chat:
        return "It has one, and is asked in it."
    if facts.template_names:
        return "It has several, none of which is its default, and is asked in plain text."
    has = {True: "It has one, but is", False: "It has none, and is", None: "It is"}
    return f"{has[facts.has_template]} asked in plain text."


def _base(facts: Facts, _: Precheck) -> str:
    if not facts.adapter_base:
        return ""
    return f"Put on {facts.adapter_base} at commit {facts.adapter_base_commit[:8]}."


def _precision(facts: Facts, _: Precheck) -> str:
    if facts.quantisation:
        return f"Computed in {facts.dtype}, with weights packed by {facts.quantisation}."
    stored = "as stored" if facts.dtype == facts.stored_dtype else f"stored in {facts.stored_dtype}"
    return f"Computed in {facts.dtype}, {stored}."


def _workers(facts: Facts, check: Precheck) -> str:
    needs = f"Needs {filesize(facts.needed_bytes)}"
    if check.room is None:
        return f"{needs}."
    if check.room.workers == 1:
        return f"{needs}, which the worker that runs now has."
    return f"{needs}, which {check.room.fitting} of {check.room.workers} workers that run now have."


def _first_time(_: Facts, __: Precheck) -> str:
    return "Nobody has submitted it at this commit and in this way."


UNREADABLE = frozenset({
    "malformed_id", "not_a_model", "unknown_model", "no_owner", "gated", "disabled", "renamed",
    "hub_down", "hub_error", "hub_slow", "hub_busy",
})  # fmt: skip
NO_REVISION = frozenset({"malformed_revision", "revision_twice", "unknown_revision"})
MODEL, REVISION, LICENCE, WEIGHTS, BASE = "Model", "Revision", "Licence", "Weights", "Base model"
KINDS = (
    _Kind(MODEL, UNREADABLE, _hub),
    _Kind(REVISION, NO_REVISION, _revision),
    _Kind(WEIGHTS, frozenset({
        "pickle_only", "gguf_only", "no_safetensors", "missing_shard", "empty_weights",
        "wrong_size", "unknown_size", "quantised", "other_count", "model_and_adapter",
        "adapter_of_prompts", "unknown_adapter",
    }), _weights),
    _Kind("Architecture", frozenset({
        "no_config", "broken_config", "no_architecture", "unknown_architecture", "not_generative",
        "encoder_decoder", "unknown_model_type", "unknown_stored_dtype", "impossible_size",
        "vocabulary_too_large", "other_table", "custom_code", "own_code", "no_worker_for_code",
    }), _architecture),
    _Kind("Tokenizer", frozenset({"no_tokenizer", "file_size"}), _tokenizer),
    _Kind("Chat template", frozenset({
        "no_template", "no_default_template", "refuses_system",
    }), _asked),
    _Kind(BASE, frozenset({"no_base", "no_adapter", "adapter", "another_base"}), _base),
    _Kind("Precision and weights", frozenset({
        "unknown_dtype", "unknown_packing", "packed_already", "plain_models_only",
        "no_worker_for_dtype", "no_worker_for_packing", "no_worker_for_engine",
    }), _precision),
    _Kind("Room on a worker", frozenset({"too_large", "no_worker"}), _workers),
    _Kind("Not measured before", frozenset({SUBMITTED_BEFORE, "failed_before"}), _first_time),
)  # fmt: skip
"""In the order in which they are looked at; what fits none is told under its own heading."""


def steps(check: Precheck) -> list[Step]:
    """Every step of a check, in the order of the reading."""
    told = list(_steps(check))
    at = next(n for n, step in enumerate(told) if step.title == WEIGHTS)
    return [*told[:at], _licence(check), *told[at:]]


def _steps(check: Precheck) -> Iterator[Step]:
    left = [(problem, Outcome.FAILED) for problem in check.problems]
    left += [(problem, Outcome.WARNED) for problem in check.warnings]
    seen = _seen(check)
    for kind in KINDS:
        here = [found for found in left if _belongs(found[0], kind)]
        left = [found for found in left if found not in here]
        for problem, outcome in here:
            yield _told(kind.title, problem, outcome, check)
        if here:
            continue
        if check.facts:
            if said := kind.told(check.facts, check):
                yield Step(kind.title, Outcome.PASSED, said)
        elif kind.title in seen:
            yield Step(kind.title, Outcome.PASSED, "It is there.")
        elif kind.title != BASE:
            yield Step(kind.title, Outcome.UNSEEN, "")
    for problem, outcome in left:
        yield _told("Submitting", problem, outcome, check)


def _belongs(problem: Problem, kind: _Kind) -> bool:
    """What is wrong with the model under an adapter is so of the base, whatever it is."""
    if problem.field == "base":
        return kind.title == BASE
    return problem.code in kind.codes


def _told(title: str, problem: Problem, outcome: Outcome, check: Precheck) -> Step:
    address = ""
    if problem.code in (SUBMITTED_BEFORE, "failed_before") and check.existing:
        outcome, address = Outcome.WARNED, check.existing.get_absolute_url()
    return Step(title, outcome, problem.message, problem.remedy, address)


def _seen(check: Precheck) -> tuple[str, ...]:
    """Without facts, the steps that are known to have passed all the same."""
    if not check.checked or any(_belongs(problem, KINDS[0]) for problem in check.problems):
        return ()
    codes = {problem.code for problem in check.problems}
    if codes & NO_REVISION:
        # A revision that is no name of one is refused before the Hub is asked.
        return (MODEL,) if codes == {"unknown_revision"} else ()
    return (MODEL, REVISION)


def _licence(check: Precheck) -> Step:
    if check.facts is None:
        return Step(LICENCE, Outcome.UNSEEN, "")
    if check.facts.licence:
        return Step(LICENCE, Outcome.PASSED, f"{check.facts.licence}.")
    remedy = "It is evaluated all the same; its authors can name one in the model's card."
    return Step(LICENCE, Outcome.WARNED, "None is stated.", remedy)
