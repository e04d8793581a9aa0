"""Pins tasks: renders their sample rows, so that a change cannot go unseen under one version."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from evalcore.digest import digest_of
from evalcore.refusals import check_supported
from evalcore.task.asking.task import Task
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.data.sample_rows import sample_data
from evalcore.task.identity.digest import config_digest
from evalcore.task.identity.lock import LOCK, Pin, Pins

DOCUMENTS = 5
"""Sample rows of the scored split that are rendered."""
EXAMPLES = (0, 2)
"""Each is rendered with so many examples; a task that states 0 has none."""
LETTERS = 16
"""Of each digest: 64 bits are plenty to notice a change by."""


class Pinner:
    """Pins tasks by the sample rows in the folder `tasks`; each task is rendered once."""

    def __init__(self, tasks: Path) -> None:
        self._tasks = tasks
        self._asks: dict[str, str] = {}

    def pin(self, spec: TaskSpec | GroupSpec) -> Pin:
        """Raises TaskError where the task cannot be asked of its sample rows."""
        return Pin(
            spec.name,
            spec.version,
            self._asked(spec),
            config_digest(spec)[:LETTERS],
            str(spec.dataset_path) if isinstance(spec, TaskSpec) else "-",
            commit=None,
        )

    def _asked(self, spec: TaskSpec | GroupSpec) -> str:
        if spec.name not in self._asks:
            asked = (
                [[member.name, self._asked(member)] for member in spec.members]
                if isinstance(spec, GroupSpec)
                else self._rendered(spec)
            )
            self._asks[spec.name] = digest_of(asked)[:LETTERS]
        return self._asks[spec.name]

    def _rendered(self, spec: TaskSpec) -> list[object]:
        check_supported(spec, confirm_unsafe=True)
        data = sample_data(spec, self._tasks)
        # A pin is of what the task itself says: the examples are those of no benchmark's draw.
        alone = replace(spec, about=replace(spec.about, benchmark=spec.name))
        asked: list[object] = []
        for shots in EXAMPLES if spec.num_fewshot != 0 else EXAMPLES[:1]:
            task = Task(alone, num_fewshot=shots, limit=DOCUMENTS, data=data)
            for item in task.items():
                requests = [
                    [
                        request.kind,
                        request.context,
                        request.continuation,
                        request.generation and dict(request.generation),
                        *(medium.digest for medium in request.media),
                    ]
                    for request in item.requests
                ]
                asked.append([requests, item.choices, item.gold, item.target])
        return asked


def problem_with(pin: Pin, pins: Pins) -> str | None:
    """What is wrong with a task that is now as `pin` says: changed under its version, or new."""
    pinned = pins.get(pin.key)
    if pinned is None:
        return f"{pin.name} {pin.version} is not pinned: run `evalcore pin`"
    changed = [
        words
        for words, was, now in (
            ("what it asks", pinned.asks, pin.asks),
            ("its configuration", pinned.config, pin.config),
        )
        if was != now
    ]
    if not changed:
        return None
    return (
        f"{pin.name} {pin.version}: {' and '.join(changed)} changed under the same version. Undo "
        "it, or give the task a new metadata.version with a line in metadata.changelog and run "
        "`evalcore pin`; a version that nobody has run yet may be pinned anew: take its line out "
        f"of {LOCK} first"
    )
