"""`evalcore pin`: holds what each version of a task asks and how it scores."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

from evalcore.authoring.pin import Pinner, problem_with
from evalcore.command.selection import folder_to_change
from evalcore.errors import EvalError, InfraError, TaskError
from evalcore.task.identity.lock import LOCK, PUBLIC_HUB, Pin, read_pins, write_pins
from evalcore.task.library.load import TaskLibrary
from evalcore.task.yaml_file import OWN_TASKS

NOT_AS_PINNED = 1
"""Exit status when a task changed under its version, or cannot be pinned."""


def pin(options: argparse.Namespace) -> int:
    """Pins new versions; says which tasks changed under a version, and what to do."""
    stated: Path | None = options.folder
    folder = stated or OWN_TASKS if options.check else folder_to_change(stated)
    if options.update:
        _refuse_another_hub(folder)
    pins = read_pins(folder / LOCK)
    problems, added = [], 0
    for found in _found(folder):
        if isinstance(found, str):
            problems.append(found)
        elif not options.check and found.key not in pins:
            pins[found.key] = found
            added += 1
        elif problem := problem_with(found, pins):
            problems.append(problem)
    sys.stdout.write("".join(f"{problem}\n" for problem in problems))
    if options.update:
        pins = {found.key: found for found in _with_commits(folder, pins)}
    if not options.check:
        write_pins(folder / LOCK, pins.values())
        sys.stdout.write(f"{added} versions pinned, {len(pins)} in all: {folder / LOCK}\n")
    return NOT_AS_PINNED if problems else 0


def _refuse_another_hub(folder: Path) -> None:
    from huggingface_hub import constants

    if folder == OWN_TASKS and constants.ENDPOINT != PUBLIC_HUB:
        raise TaskError(
            f"--update: the commits of our own tasks are those of {PUBLIC_HUB}, and HF_ENDPOINT is "
            f"{constants.ENDPOINT}: unset it"
        )


def _found(folder: Path) -> Iterator[Pin | str]:
    """The pin of every task and group as it is now, or why it has none."""
    library, pinner = TaskLibrary([folder]), Pinner(folder)
    yield from (str(reason) for reason in library.unreadable.values())
    for name in sorted({*library.tasks, *library.groups}):
        try:
            yield pinner.pin(library.one(name))
        except EvalError as error:
            yield f"{name} cannot be pinned: {error.reason}"


def _with_commits(folder: Path, pins: dict[tuple[str, str], Pin]) -> Iterator[Pin]:
    """All pins, those of the versions in use with their data set's commit of today."""
    import httpx2
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import HfHubHTTPError

    library = TaskLibrary([folder])
    in_use = {(name, library.one(name).version) for name in (*library.tasks, *library.groups)}
    commits: dict[str, str | None] = {}
    for found in pins.values():
        if found.key not in in_use or found.dataset == "-":
            yield found
            continue
        if found.dataset not in commits:
            try:
                commits[found.dataset] = HfApi().dataset_info(found.dataset).sha
            except httpx2.TransportError as error:
                raise InfraError(
                    f"--update: {constants.ENDPOINT} does not answer ({error}): nothing was "
                    "written; try again from where it can be reached"
                ) from error
            except (HfHubHTTPError, OSError) as error:
                sys.stdout.write(f"{found.dataset}: its commit could not be read: {error}\n")
                commits[found.dataset] = None
        # What could not be read today stays as it was read before.
        yield dataclasses.replace(found, commit=commits[found.dataset] or found.commit)
