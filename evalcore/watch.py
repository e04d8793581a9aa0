"""Who looks on while a model is evaluated: a progress bar, or a worker that reads lines."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

LOOKS = 3
"""At one task or group, one after each part of it that is asked (`evalcore.waves`) but the last."""


@dataclass(frozen=True, kw_only=True)
class Stratum:
    """Questions of which so many, drawn at random, are answered."""

    weight: float
    """Of their mean in the score; the weights of all strata sum to 1."""
    documents: int
    answered: int
    right: float
    """The sum of the scores of those answered, each from 0 to 1."""
    zero_or_one: bool
    """Whether each score is 0 or 1; else it is a mean over several ways to ask the question."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """What is seen of a task or group while it is asked: a random part of it has scores."""

    task: str
    metric: str
    strata: list[Stratum]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Watch(Protocol):
    """What is told to who looks on."""

    def phase(self, name: str) -> None: ...

    def progress(self, task: str, done: int, total: int, tokens: int) -> None:
        """So many of the requests are answered; answering them took so many tokens till now."""
        ...

    def look(self, look: Look) -> None:
        """A wave of a task's documents is answered: a random part of them has scores."""
        ...

    def wants_stop(self) -> bool:
        """Asked after each pack, and while the next benchmark is waited for; what was answered
        until then is in the journal."""
        ...


class Silent:
    """Looks on and says nothing."""

    def phase(self, name: str) -> None: ...

    def progress(self, task: str, done: int, total: int, tokens: int) -> None: ...

    def look(self, look: Look) -> None: ...

    def wants_stop(self) -> bool:
        return False
