"""What this version of the engine can run. Every task file is read; not all are executed yet."""

from __future__ import annotations

from evalcore.errors import TaskError
from evalcore.task.config import TaskSpec
from evalcore.task.fewshot import SAMPLERS


def check_supported(spec: TaskSpec) -> None:
    """Raises TaskError that names every field of the task which asks for what we cannot do."""
    found = list(_unsupported(spec))
    if found:
        raise TaskError(f"The task {spec.name} cannot be run by this version: {'; '.join(found)}")


def _unsupported(spec: TaskSpec) -> list[str]:
    if spec.python_class:
        return [f"class: {spec.python_class} is a task written in Python"]
    found = []
    if spec.output_type != "multiple_choice":
        found.append(f"output_type: {spec.output_type} (only multiple_choice is run)")
    for key in ("custom_dataset", "use_prompt", "process_results", "doc_to_image", "doc_to_audio"):
        if getattr(spec, key):
            found.append(f"{key} is set")
    if spec.unsafe_code:
        found.append("unsafe_code: it runs what a model wrote")
    if spec.repeats != 1:
        found.append(f"repeats: {spec.repeats} (a loglikelihood is asked once)")
    if spec.fewshot.sampler not in SAMPLERS:
        found.append(f"fewshot_config.sampler: {spec.fewshot.sampler} (not {', '.join(SAMPLERS)})")
    if spec.fewshot.fewshot_indices:
        found.append("fewshot_config.fewshot_indices (lm-eval ignores it, too)")
    return found
