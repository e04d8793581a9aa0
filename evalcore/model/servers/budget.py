"""What a run may cost: requests, tokens and money, never more than was allowed.

A request is sent where there is room for the most that it can use; what it used then counts in the
place of that. So a limit is kept also with many requests under way, and reached a little early.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from evalcore.errors import ModelError, did_you_mean

PER = 1_000_000
"""Tokens that a price is for."""

OF_MESSAGE = 16
"""Tokens that a template may put around a message, for an estimate."""


@dataclass(frozen=True, kw_only=True)
class Prices:
    """Of one model, for a million tokens."""

    input: float
    output: float
    currency: str


@dataclass(frozen=True)
class Use:
    """Of some requests."""

    requests: int = 0
    read: int = 0
    written: int = 0

    @property
    def tokens(self) -> int:
        return self.read + self.written

    def __add__(self, other: Use) -> Use:
        return Use(
            self.requests + other.requests, self.read + other.read, self.written + other.written
        )

    def __sub__(self, other: Use) -> Use:
        return self + Use(-other.requests, -other.read, -other.written)


@dataclass
class Budget:
    """The limits of a run, and what it used so far."""

    max_requests: int | None = None
    max_total_tokens: int | None = None
    max_cost: float | None = None
    prices: Prices | None = None
    used: Use = field(default_factory=Use)
    held: Use = field(default_factory=Use)
    """The most that requests under way can use."""

    def cost(self, use: Use) -> float:
        """In the currency of the prices; 0 where there are none."""
        if self.prices is None:
            return 0.0
        return (use.read * self.prices.input + use.written * self.prices.output) / PER

    def hold(self, most: Use) -> bool:
        """Takes room for a request. False where there is none until others end. Raises ModelError
        where there is none at all."""
        wanted = self.used + self.held + most
        exceeded = self._exceeded_by(wanted)
        if exceeded is None:
            self.held += most
            return True
        if self.held.requests:
            return False
        raise ModelError(
            f"{exceeded}: the run has used {self._in_words(self.used)}, and its next request may "
            f"use {self._in_words(most)}; what was answered is kept in the journal (--use_cache): "
            "raise the limit, and run the same command again"
        )

    def release(self, most: Use, used: Use) -> None:
        """A request that was held is over."""
        self.held -= most
        self.used += used

    def _exceeded_by(self, use: Use) -> str | None:
        limits = {
            "max_requests": (self.max_requests, use.requests),
            "max_total_tokens": (self.max_total_tokens, use.tokens),
            "max_cost": (self.max_cost, self.cost(use)),
        }
        for name, (most, found) in limits.items():
            if most is not None and found > most:
                return f"{name} {most:g} would be exceeded"
        return None

    def _in_words(self, use: Use) -> str:
        money = f", {self.cost(use):.6g} {self.prices.currency}" if self.prices else ""
        return f"{use.requests} requests, {use.read} + {use.written} tokens{money}"

    def as_json(self) -> dict[str, Any]:
        """For the record."""
        used = {
            "requests": self.used.requests,
            "tokens_read": self.used.read,
            "tokens_written": self.used.written,
        }
        if self.prices is None:
            return used
        return {**used, "cost": self.cost(self.used), "currency": self.prices.currency}


def most_of(body: Mapping[str, Any]) -> Use:
    """The most that a request can use; of a text, whose tokens nobody here counts, its bytes."""
    prompt = body.get("prompt", "")
    several = isinstance(prompt, list) and bool(prompt) and not isinstance(prompt[0], int)
    prompts = prompt if several else [prompt]
    read = sum(len(part.encode()) + 1 if isinstance(part, str) else len(part) for part in prompts)
    read += len(str(body.get("system", "")).encode())
    for message in body.get("messages", ()):
        read += len(str(message["content"]).encode()) + OF_MESSAGE
    limit = body.get("max_tokens", body.get("max_completion_tokens", 0))
    return Use(1, read, len(prompts) * int(limit))


def use_of(answer: Any, most: Use) -> Use:
    """What a request used, as its answer says; where it does not, the most that it could."""
    usage = answer.get("usage") if isinstance(answer, Mapping) else None
    usage = usage if isinstance(usage, Mapping) else {}
    return Use(1, _counted(usage, READ, most.read), _counted(usage, WRITTEN, most.written))


READ = (
    ("prompt_tokens",),
    ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
)
WRITTEN = (("completion_tokens",), ("output_tokens",))
"""By each interface the counts that make the whole, of which the first is always told."""


def _counted(usage: Mapping[str, Any], named: Sequence[tuple[str, ...]], most: int) -> int:
    for names in named:
        if isinstance(usage.get(names[0]), int):
            return sum(found for name in names if isinstance(found := usage.get(name), int))
    return most


def prices_of(path: str, model: str) -> Prices:
    """The prices of a model from a file: `currency`, and by model `input` and `output`.

    Raises ModelError for a file that has none, naming file and key.
    """
    try:
        stated = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        said = " ".join(str(problem).split())
        raise ModelError(f"prices: {path} cannot be read: {said}") from None
    models = stated.get("models") if isinstance(stated, Mapping) else None
    if not isinstance(models, Mapping) or not isinstance(stated.get("currency"), str):
        raise ModelError(
            f"prices: {path}: expected `currency: USD` and `models:`, with `input` and `output` "
            "by model, for a million tokens"
        )
    if model not in models:
        near = did_you_mean(model, map(str, models))
        raise ModelError(f"prices: {path}: models: there is no {model!r}{near}: add its prices")
    of_model = models[model]
    found = of_model if isinstance(of_model, Mapping) else {}
    for name in ("input", "output"):
        price = found.get(name)
        if isinstance(price, bool) or not isinstance(price, int | float) or not price >= 0:
            raise ModelError(
                f"prices: {path}: models.{model}.{name}: expected a price of a million tokens, "
                f"got {price!r}"
            )
    return Prices(
        input=float(found["input"]), output=float(found["output"]), currency=stated["currency"]
    )


def budget_of(
    model: str,
    *,
    max_requests: int | None,
    max_total_tokens: int | None,
    max_cost: float | None,
    prices: str | None,
) -> Budget:
    """Raises ModelError for a cost without prices."""
    if max_cost is not None and prices is None:
        raise ModelError(
            "--max_cost: nobody knows what a token costs: give a file of prices (--prices FILE)"
        )
    return Budget(
        max_requests=max_requests,
        max_total_tokens=max_total_tokens,
        max_cost=max_cost,
        prices=prices_of(prices, model) if prices else None,
    )
