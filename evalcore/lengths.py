"""How much of what stands behind a number was cut short: prompts, answers, thoughts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Counts of requests, each as often as it was repeated."""

    requests: int = 0
    prompts_cut: int = 0
    """Prompts that lost their beginning, for want of room."""
    answers: int = 0
    """Texts that were written; the other requests asked how likely a text is."""
    by_length: int = 0
    """Answers that were stopped by the number of tokens that they were given."""
    still_thinking: int = 0
    """Of those the ones whose thoughts had not ended."""
    thoughts_cut: int = 0
    """Answers before which the budget ended the thinking."""

    @classmethod
    def of(cls, responses: Iterable[Mapping[str, Any]]) -> Lengths:
        """Of the responses of samples, also of files from before thoughts were kept."""
        found = dict.fromkeys(NAMES, 0)
        for response in responses:
            found["requests"] += 1
            found["prompts_cut"] += response["n_truncated"] > 0
            if response["kind"] == "generate_until":
                thinking = response.get("thinking")
                found["answers"] += 1
                found["by_length"] += response["finish_reason"] == "length"
                found["still_thinking"] += thinking == "unended"
                found["thoughts_cut"] += thinking == "cut"
        return cls(**found)

    @classmethod
    def sum(cls, parts: Iterable[Lengths]) -> Lengths:
        every = list(parts)
        return cls(**{name: sum(getattr(part, name) for part in every) for name in NAMES})

    def as_json(self) -> dict[str, int]:
        """Without what is 0."""
        return {name: count for name, count in asdict(self).items() if count}

    @property
    def stopped(self) -> str:
        """In words how many answers were stopped by their length; empty for none."""
        if not self.by_length:
            return ""
        told = _share(self.by_length, self.answers, "answers")
        return f"{told}, {self.still_thinking} still thinking" if self.still_thinking else told

    @property
    def cut(self) -> str:
        """In words how many prompts were cut; empty for none."""
        return _share(self.prompts_cut, self.requests, "prompts") if self.prompts_cut else ""

    @property
    def told(self) -> str:
        """Both in a line; empty where nothing was cut short."""
        both = ("stopped by length", self.stopped), ("prompts cut", self.cut)
        return "; ".join(f"{what}: {share}" for what, share in both if share)

    @property
    def is_large(self) -> bool:
        """Whether a share of answers or of prompts is large."""
        return any(part >= LARGE * whole for part, whole in self._shares if part)

    @property
    def _shares(self) -> tuple[tuple[int, int], tuple[int, int]]:
        return (self.by_length, self.answers), (self.prompts_cut, self.requests)


LARGE = 0.05
"""From this share on a number is marked: it may be that much lower for want of room alone."""

NAMES = tuple(field.name for field in fields(Lengths))


def _share(part: int, whole: int, of: str) -> str:
    return f"{part:,} of {whole:,} {of} ({100 * part / whole:.1f} %)"
