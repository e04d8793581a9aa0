"""What requests are made with: the generation arguments in force, the context of a null answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalcore.errors import TaskError
from evalcore.task.config import TaskSpec


def generation_arguments(
    spec: TaskSpec, stated: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """What generation obeys: the task's own arguments under those of the command.

    A task that says nothing generates greedily until its few-shot delimiter; None where nothing is
    generated. Raises TaskError for a temperature that is no number.
    """
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
                    f"generation_kwargs.temperature: expected a number, got {own['temperature']!r}"
                ) from error
    own.setdefault("until", [spec.fewshot_delimiter])
    return {**own, **(stated or {})}


def null_context(spec: TaskSpec, *, strict: bool) -> str | None:
    """Before which text choices are scored again, without the question; None if they are not.

    `acc_mutual_info` needs it. The entry of the metric may state the text (`null_context`);
    lm-eval ignores that and takes the empty one.
    """
    for entry in spec.metric_list:
        if entry.name == "acc_mutual_info":
            return str(entry.arguments.get("null_context") or "") if strict else ""
    return "" if "acc_mutual_info" in spec.about.extra_metrics else None
