"""The two kinds of request that say more than what is fed and what is scored."""

from __future__ import annotations

from dataclasses import dataclass

from evalcore.model.base import EncodedRequest
from evalcore.model.writing.generation import Plan


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
