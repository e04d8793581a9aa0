"""What the caller may choose for a whole evaluation."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalcore.errors import TaskError
from evalcore.model.base import Mode
from evalcore.task.asking.shot_rule import Draw


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How tasks are asked and scored; a record holds them all."""

    mode: Mode = "compat"
    """compat: lm-evaluation-harness to the draw; strict: free of its quirks (docs/engine.md)."""
    num_fewshot: int | None = None
    fewshot_seed: int = 1234
    fewshot_draw: Draw = "per-document"
    """In strict: fixed is one draw for all documents of a task, whose prompts then begin alike."""
    seed: int = 1234
    """Of sampled answers and of our own bootstraps."""
    limit: float | None = None
    """Documents of each task: a count, or below 1 a share."""
    samples: Mapping[str, Sequence[int]] | None = None
    """By task: the rows to score instead of all."""
    system_instruction: str | None = None
    apply_chat_template: bool | str = False
    """Whether prompts are conversations; a text names one of the model's templates."""
    fewshot_as_multiturn: bool | None = None
    """Whether examples are turns of the conversation; by default they are."""
    gen_kwargs: Mapping[str, Any] | None = None
    """Generation arguments over those of the tasks."""
    bootstrap_iters: int = 100_000
    """Resamples behind a standard error without a formula; 0: no standard errors in compat."""
    predict_only: bool = False
    """Write the answers, compute no metric."""
    confirm_run_unsafe_code: bool = False
    """Whether tasks may run code that a model wrote."""
    forbid_truncation: bool = False
    """Whether a prompt that is longer than the model's window ends the run."""
    decontaminate: tuple[str, ...] = ()
    """Training text to search for the documents: files, folders or data sets."""
    decontaminate_n: int | None = None
    """Words in an n-gram, 8 to 13; by default chosen for each task."""

    def __post_init__(self) -> None:
        if problem := exclusion(self, "{name}", "{name}: {value}"):
            raise TaskError(problem)


Chosen = Settings | Namespace
"""The settings, or the options of a command that they are made of: the names are the same."""

_EXCLUSIONS: Mapping[str, Callable[[Chosen], object]] = {
    "{limit} and {samples} exclude one another: give one of them": lambda chosen: (
        chosen.limit is not None and chosen.samples is not None
    ),
    "{fewshot_draw:fixed} needs {mode:strict}; compat draws as lm-eval does": lambda chosen: (
        chosen.fewshot_draw == "fixed" and chosen.mode != "strict"
    ),
    "{fewshot_as_multiturn} needs {apply_chat_template}": lambda chosen: (
        chosen.fewshot_as_multiturn and not chosen.apply_chat_template
    ),
    "{decontaminate_n} needs {decontaminate}: the training text to search": lambda chosen: (
        chosen.decontaminate_n is not None and not chosen.decontaminate
    ),
}
"""What is told, and when. `{name}` and `{name:value}` are settings, as the caller spells them."""


def exclusion(chosen: Chosen, named: str, valued: str) -> str | None:
    """The first settings that exclude one another; None where none do.

    How the caller spells a setting: `named` with its name, `valued` with its name and value.
    """
    for sentence, applies in _EXCLUSIONS.items():
        if applies(chosen):
            return re.sub(
                r"{(\w+):?(\w*)}",
                lambda found: (valued if found[2] else named).format(name=found[1], value=found[2]),
                sentence,
            )
    return None
