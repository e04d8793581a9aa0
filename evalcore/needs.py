"""What tasks and their settings ask of a backend, so that it can refuse before it is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evalcore.model.base import RequestKind
from evalcore.model.refusals import Need
from evalcore.task.config import GroupSpec, TaskSpec

KINDS: Mapping[str, RequestKind] = {
    "loglikelihood": "loglikelihood",
    "multiple_choice": "loglikelihood",
    "loglikelihood_rolling": "loglikelihood_rolling",
    "generate_until": "generate_until",
}
"""By a task's `output_type` the requests that it makes."""


def needs_of(
    specs: Sequence[TaskSpec | GroupSpec], *, conversations: bool, forbid_truncation: bool
) -> dict[Need, list[str]]:
    """By each need the tasks that have it.

    What a task asks that is a class only its requests say, which are looked at when they are there.
    """
    needs: dict[Need, list[str]] = {}
    for leaf in (leaf for spec in specs for leaf in spec.leaves()):
        if leaf.python_class is None:
            needs.setdefault(KINDS[leaf.output_type], []).append(leaf.name)
    if conversations:
        needs["conversations"] = []
    if forbid_truncation:
        needs["a known length"] = []
    return needs
