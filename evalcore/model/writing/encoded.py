"""The two kinds of request that say more than what is fed and what is scored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evalcore.digest import digest_of
from evalcore.model.base import EncodedRequest
from evalcore.model.writing.generation import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingRequest(EncodedRequest):
    """A whole text in windows; `tokens` is all of it, and each window scores its `targets`."""

    windows: tuple[EncodedRequest, ...]

    @classmethod
    def of(cls, tokens: list[int], windows: list[tuple[list[int], list[int]]]) -> RollingRequest:
        """From the text's tokens and each window's (fed, scored) tokens."""
        encoded = [EncodedRequest.scoring(fed, targets) for fed, targets in windows]
        return cls(
            key=digest_of(
                {
                    "kind": "loglikelihood_rolling",
                    "windows": [[list(one.tokens), list(one.targets)] for one in encoded],
                }
            ),
            tokens=tuple(tokens),
            windows=tuple(encoded),
            n_context_tokens=sum(one.n_context_tokens for one in encoded),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest(EncodedRequest):
    """A prompt to go on with; `tokens` is the prompt as fed."""

    plan: Plan

    @classmethod
    def of(
        cls,
        tokens: list[int],
        plan: Plan,
        *,
        n_truncated: int,
        model_defaults: dict[str, Any],
        seed: int,
        repeat: int,
    ) -> GenerationRequest:
        """`model_defaults`: the model's own generation arguments; `seed` and `repeat` matter only
        to an answer that is sampled."""
        asked: dict[str, Any] = {
            "kind": "generate_until",
            "tokens": list(tokens),
            "plan": plan.as_json(),
            "model_defaults": model_defaults,
        }
        if plan.sampled:
            asked |= {"seed": seed, "repeat": repeat}
        return cls(
            key=digest_of(asked),
            tokens=tuple(tokens),
            plan=plan,
            n_context_tokens=len(tokens),
            n_truncated=n_truncated,
        )

    @property
    def torch_seed(self) -> int:
        """The seed of this answer's draws: of the run's seed, the request and its repeat alone."""
        return int(self.key[:15], 16)
