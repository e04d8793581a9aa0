"""By which rule the examples of a run were chosen, as its keys and its record say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from evalcore.task.config import GroupSpec, TaskSpec

DRAW_VERSION = 2
"""Of strict's ways to choose examples; runs under different ones never share a column.

1 drew by the task's name, so that each style of a benchmark had other examples, and took rows for
copies only where all their columns agree. Its rules have no number.
"""

Draw = Literal["per-document", "fixed"]
"""Whether strict draws examples for each document by itself, or once for a whole task."""

Shots = int | Mapping[str, int]
"""Shots of all leaf tasks, or shots by leaf task where they differ."""


def shot_rule(
    spec: TaskSpec | GroupSpec, shots: Shots, *, mode: str, draw: Draw = "per-document"
) -> str:
    """How examples are chosen: none, first_n, per-document, fixed; of a split or inline; or mixed.

    `draw` counts where a task leaves the draw to us. A rule of strict's has its version behind it:
    `per-document/2`.
    """
    if isinstance(spec, GroupSpec):
        rules = {shot_rule(leaf, shots, mode=mode, draw=draw) for leaf in spec.leaves()}
        if len(rules) == 1:
            return rules.pop()
        versions = {version for rule in rules if (version := rule.partition("/")[2])}
        return "/".join(["mixed", *sorted(versions)])
    if (shots if isinstance(shots, int) else shots[spec.name]) == 0:
        return "none"
    sampler = spec.fewshot.sampler
    rule = "first_n" if sampler == "first_n" else "per-document"
    if sampler == "default":
        rule = draw
    if spec.fewshot.samples is not None and not spec.fewshot.split:
        rule = f"inline {rule}"
    # The balanced draw is strict's in both modes.
    return f"{rule}/{DRAW_VERSION}" if mode == "strict" or sampler == "balanced" else rule


def draws_at_random(rule: str) -> bool:
    """Whether a seed decides the examples under this rule."""
    words = rule.partition("/")[0]
    return words == "mixed" or words.endswith(("per-document", "fixed"))
