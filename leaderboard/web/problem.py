"""What is wrong with one field of the form, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Field = Literal["model", "revision", "dtype", "base", "packing", "asked", "engine", "form", "vote"]
"""A field of the submission form; `form` is the form as a whole."""


@dataclass(frozen=True)
class Problem:
    """One sentence at one field: what was found, with the value, and the remedy."""

    field: Field
    code: str
    message: str
    remedy: str = ""
    offers: tuple[str, ...] = ()
    """IDs of models, one of which may have been meant."""
    wait_seconds: int = 0
    """After which the same may be asked again; 0 where waiting would not help."""

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class Refused(Exception):
    """Nothing was submitted, for these reasons."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__(" ".join(map(str, problems)))
