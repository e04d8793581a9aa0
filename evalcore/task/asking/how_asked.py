"""How a task is asked: what the caller says over what its file says, whatever its documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

from evalcore.errors import TaskError
from evalcore.model.base import Mode
from evalcore.task.asking.chat import Chat
from evalcore.task.asking.shot_rule import Draw
from evalcore.task.config import TaskSpec
from evalcore.task.data.dataset import TaskData


@dataclass(eq=False)
class HowAsked:
    """A task and what the caller says of asking it. Raises ValueError for a bad limit."""

    spec: TaskSpec
    _: KW_ONLY
    mode: Mode = "strict"
    num_fewshot: int | None = None
    fewshot_seed: int = 1234
    fewshot_draw: Draw = "per-document"
    limit: float | None = None
    """So many first documents, or below 1 that share of them (rounded up)."""
    samples: Sequence[int] | None = None
    """The rows to score instead."""
    system_instruction: str | None = None
    chat: Chat | None = None
    """By which template prompts become conversations."""
    generation: Mapping[str, Any] | None = None
    """Arguments over those of the task."""
    data: TaskData | None = None
    """Read instead of those that the task names."""

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit <= 0:
            raise ValueError(f"limit: expected a number above 0, got {self.limit}")
        if self.num_fewshot is not None and self.num_fewshot < 0:
            raise ValueError(f"num_fewshot: expected a number from 0, got {self.num_fewshot}")
        self.shots = self.spec.num_fewshot or 0
        stays_zero = self.mode == "compat" and self.spec.num_fewshot == 0  # as in lm-eval
        if self.num_fewshot is not None and not stays_zero:
            self.shots = self.num_fewshot

    @cached_property
    def generation_kwargs(self) -> dict[str, Any] | None:
        """The generation arguments in force; None if nothing is generated.

        A task that says nothing generates greedily until its few-shot delimiter. Raises TaskError
        for a temperature that is no number.
        """
        spec = self.spec
        if spec.output_type != "generate_until":
            return None
        if spec.generation_kwargs is None:
            own: dict[str, Any] = {"temperature": 0.0, "do_sample": False, "max_gen_toks": 256}
        else:
            own = dict(spec.generation_kwargs)
            if "temperature" in own:
                try:
                    own["temperature"] = float(own["temperature"])
                except (TypeError, ValueError) as error:
                    raise TaskError(
                        "generation_kwargs.temperature: expected a number, got "
                        f"{own['temperature']!r}"
                    ) from error
        own.setdefault("until", [spec.fewshot_delimiter])
        return {**own, **(self.generation or {})}

    @property
    def null_context(self) -> str | None:
        """Before which text choices are scored again, without the question; None if they are not.

        `acc_mutual_info` needs it. The entry of the metric may state the text (`null_context`);
        lm-eval ignores that and takes the empty one.
        """
        for entry in self.spec.metric_list:
            if entry.name == "acc_mutual_info":
                stated = str(entry.arguments.get("null_context") or "")
                return stated if self.mode == "strict" else ""
        return "" if "acc_mutual_info" in self.spec.about.extra_metrics else None
