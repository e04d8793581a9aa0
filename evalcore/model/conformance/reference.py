"""The same model by other means: what the answers of a backend are held to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


class Reference(Protocol):
    """Asked one thing at a time, in the plainest way; no code that computes is the backend's."""

    def tokens(self, text: str) -> list[int]:
        """A whole text as the model's tokenizer reads it, with what it adds."""
        ...

    def teacher_forced(
        self, tokens: Sequence[int], targets: Sequence[int]
    ) -> tuple[list[float], bool]:
        """Log-probability of each target, of which the last positions of `tokens` predict one
        each, and whether each is the likeliest."""
        ...


@runtime_checkable
class Referenced(Protocol):
    """A model that brings its own reference."""

    @property
    def reference(self) -> Reference: ...
