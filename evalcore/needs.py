"""What tasks and their settings ask of a backend, so that it can refuse before it is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evalcore.model.base import RequestKind
from evalcore.model.capabilities import Capabilities
from evalcore.model.refusals import Need, refuse
from evalcore.settings import Settings
from evalcore.task.config import GroupSpec, TaskSpec

KINDS: Mapping[str, RequestKind] = {
    "loglikelihood": "loglikelihood",
    "multiple_choice": "loglikelihood",
    "loglikelihood_rolling": "loglikelihood_rolling",
    "generate_until": "generate_until",
}
"""By a task's `output_type` the requests that it makes."""


def refuse_before(
    capabilities: Capabilities, specs: Sequence[TaskSpec | GroupSpec], settings: Settings
) -> None:
    """Raises ModelError for what a backend that states this cannot answer."""
    refuse(capabilities, _needs_of(specs, settings))


def _needs_of(specs: Sequence[TaskSpec | GroupSpec], settings: Settings) -> dict[Need, list[str]]:
    """By each need the tasks that have it.

    What a task asks that is a class only its requests say, which are looked at when they are there.
    """
    needs: dict[Need, list[str]] = {}
    for leaf in (leaf for spec in specs for leaf in spec.leaves()):
        if leaf.python_class is None:
            needs.setdefault(KINDS[leaf.output_type], []).append(leaf.name)
    if settings.apply_chat_template:
        needs["conversations"] = []
    if settings.forbid_truncation:
        needs["a known length"] = []
    return needs
