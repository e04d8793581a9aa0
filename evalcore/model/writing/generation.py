"""How a text is to be generated, and what of it is the answer; requests that say more than others.

Source of the rules: lm-evaluation-harness 0.4.13, whose users compare their texts with ours.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evalcore.errors import TaskError, did_you_mean
from evalcore.model.base import EncodedRequest, Mode

DEFAULT_NEW_TOKENS = 256
"""Tokens that may be generated where nobody says how many."""

LIMITS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
"""Names for the number of tokens that may be generated; the first that is given counts."""

SAMPLING = frozenset(
    ["temperature", "top_k", "top_p", "min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff"]
)
"""Arguments that shape the draw of a token, and nothing where the likeliest one is taken."""

REFUSED = {
    "stop": "write the stops as `until`",
    "stop_strings": "write the stops as `until`",
    "num_return_sequences": "ask for several answers with the task's `repeats`",
    "return_dict_in_generate": "the answer is its text",
    "streamer": "the answer is its text",
    "seed": "set the seed with --seed",
    "pad_token_id": "padding is the engine's own matter",
    "use_cache": "whether states are kept is the engine's own matter",
    "assistant_model": "one model is evaluated, alone",
}
"""Arguments that lm-evaluation-harness fails on or passes over, and what to do instead."""


@dataclass(frozen=True, slots=True)
class ThinkingBudget:
    """How long a model may think; its answer then has all the tokens that the task gives it."""

    tokens: int
    end: tuple[int, ...]
    """What is put behind so many tokens where the thinking did not end by itself."""

    @property
    def most(self) -> int:
        """Tokens that thinking takes at most, with what is put."""
        return self.tokens + len(self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Generation arguments after all defaults and other names are resolved."""

    until: tuple[str, ...]
    """Stops, in order; the text of the EOS token is the last unless it was given."""
    max_new_tokens: int
    max_length: int | None
    """Tokens of prompt and answer together, where the task says so; it then decides."""
    sampled: bool
    options: tuple[tuple[str, Any], ...]
    """Everything else that the model's `generate` is called with, by name."""
    think_end: str | int | None
    """Text or token at whose last occurrence the answer begins."""
    mode: Mode
    thinking_budget: ThinkingBudget | None = None
    may_think: bool = True
    """False where the model is told not to; changes no answer."""

    @property
    def most_tokens(self) -> int:
        """Tokens of thoughts and answer together, where nothing but the plan limits them."""
        thoughts = self.thinking_budget.most if self.thinking_budget else 0
        return self.max_new_tokens + thoughts

    @property
    def stops_wait(self) -> bool:
        """Whether a stop within the thoughts is none: in compat it is one, as it is to
        lm-evaluation-harness, which has no budget."""
        return self.think_end is not None and (
            self.mode == "strict" or self.thinking_budget is not None
        )

    def as_json(self) -> dict[str, Any]:
        """What of the plan decides the answer; the mode does only where they differ."""
        found = {**asdict(self), "options": dict(self.options)}
        del found["may_think"]
        if self.thinking_budget is None:
            del found["thinking_budget"]
            if self.stops_wait:  # they were found in the end of the thoughts once
                found["stops"] = "of the answer"
        return found


def plan_of(
    given: Mapping[str, Any],
    *,
    eos: str | None,
    think_end: str | int | None,
    known: Collection[str],
    mode: Mode,
    thinking_budget: ThinkingBudget | None = None,
    may_think: bool = True,
) -> Plan:
    """The plan that generation arguments mean; `known` are those of the model's `generate`.

    Raises TaskError naming the argument that is unknown or has no meaning.
    """
    options = dict(given)
    until = _stops(options.pop("until", None), eos, mode)
    limits = [options.pop(name, None) for name in LIMITS]
    stated = next((limit for limit in limits if limit is not None), DEFAULT_NEW_TOKENS)
    max_length = options.pop("max_length", None)
    if thinking_budget is not None and max_length is not None:
        raise TaskError(
            f"generation argument max_length: {max_length!r} leaves open how much of it is the "
            "answer's with a thinking_budget: state max_gen_toks, which counts the answer alone"
        )
    sampled, temperature = _sampling(options)
    for name in ("do_sample", "temperature") if sampled else ("do_sample", *SAMPLING):
        options.pop(name, None)
    if sampled:
        options["temperature"] = temperature
    for name in options:
        _check_known(name, known)
    return Plan(
        until=until,
        max_new_tokens=_count("max_gen_toks", stated),
        max_length=None if max_length is None else _count("max_length", max_length),
        sampled=sampled,
        options=tuple(sorted(options.items())),
        think_end=think_end,
        mode=mode,
        thinking_budget=thinking_budget,
        may_think=may_think,
    )


def _stops(given: Any, eos: str | None, mode: str) -> tuple[str, ...]:
    """The stops with the EOS text; strict leaves out the empty one, which would stop every text
    after its first token."""
    stops = list(given) if isinstance(given, list | tuple) else [given]
    stops = [stop for stop in stops if stop is not None]
    for stop in stops:
        if not isinstance(stop, str):
            raise TaskError(f"generation argument until: expected texts, got {stop!r}")
    if eos is not None and eos not in stops:
        stops.append(eos)
    return tuple(stop for stop in stops if stop or mode == "compat")


def _sampling(options: Mapping[str, Any]) -> tuple[bool, float]:
    """Whether the answer is sampled, and at what temperature.

    `do_sample` decides; unstated it follows from a temperature above 0.
    """
    try:
        temperature = float(options.get("temperature") or 0.0)
    except (TypeError, ValueError):
        raise TaskError(
            f"generation argument temperature: expected a number, got {options['temperature']!r}"
        ) from None
    if not temperature >= 0.0:
        raise TaskError(f"generation argument temperature: expected 0 or more, got {temperature:g}")
    wanted = options.get("do_sample")
    if wanted not in (None, True, False):
        raise TaskError(f"generation argument do_sample: expected true or false, got {wanted!r}")
    sampled = temperature > 0 if wanted is None else bool(wanted)
    if sampled and temperature <= 0:
        raise TaskError(
            f"generation arguments do_sample: true and temperature: {temperature:g} contradict one "
            "another: state a temperature above 0 (1.0 is the model's own distribution)"
        )
    return sampled, temperature


def _count(name: str, value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = 0
    if number < 1:
        raise TaskError(f"generation argument {name}: expected a count above 0, got {value!r}")
    return number


def _check_known(name: str, known: Collection[str]) -> None:
    if name in REFUSED:
        raise TaskError(f"generation argument {name!r} is not taken: {REFUSED[name]}")
    if name not in known:
        candidates = [*known, "until", "do_sample", *LIMITS]
        hint = did_you_mean(name, candidates)
        raise TaskError(f"generation argument {name!r} is unknown{hint}")


def answer_within(text: str, plan: Plan) -> str:
    """What is left of a generated text: after the thinking, before the first stop."""
    if isinstance(plan.think_end, str):
        text = text.rpartition(plan.think_end)[2].lstrip()
    elif plan.think_end is not None:
        text = text.lstrip()
    for stop in plan.until:
        if stop:
            text = text.partition(stop)[0]
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingRequest(EncodedRequest):
    """A whole text in windows; `tokens` is all of it, and each window scores its `targets`."""

    windows: tuple[EncodedRequest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest(EncodedRequest):
    """A prompt to go on with; `tokens` is the prompt as fed."""

    plan: Plan

    @property
    def torch_seed(self) -> int:
        """The seed of this answer's draws: of the run's seed, the request and its repeat alone."""
        return int(self.key[:15], 16)


Generations = Mapping[int, GenerationRequest]
