"""What every task of ours asks of the first row that we wrote for it, to be read by people.

`python -m tests.tasks.golden` writes `tests/tasks/golden/<folder>.txt` anew. A change of them in a
commit shows what a change of a task file does to its prompts; the pins hold the other rows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from evalcore.task.asking.task import Task
from evalcore.task.config import TaskSpec
from evalcore.task.data.sample_rows import sample_data
from evalcore.task.library.load import TaskLibrary
from evalcore.task.yaml_file import OWN_TASKS
from tests.evalcore.worlds import task_in

GOLDEN = Path(__file__).parent / "golden"


def texts() -> dict[str, str]:
    """By folder what its tasks ask, in the order of their names."""
    library = TaskLibrary([OWN_TASKS])
    by_folder: dict[str, list[str]] = {}
    for name in library.tasks:
        spec = task_in(library, name)
        by_folder.setdefault(folder_of(spec), []).append("\n".join(_asked(spec)))
    return {folder: "\n".join(asked) for folder, asked in by_folder.items()}


def folder_of(spec: TaskSpec) -> str:
    """The benchmark's folder below `tasks/`."""
    assert spec.source is not None
    return Path(spec.source).relative_to(OWN_TASKS).parts[0]


def _asked(spec: TaskSpec) -> Iterator[str]:
    """The prompt with a bar before each line, so that spaces at its end can be seen."""
    task = Task(spec, num_fewshot=0, limit=1, data=sample_data(spec, OWN_TASKS))
    (item,) = task.items()
    yield f"=== {spec.name}"
    before = None
    for request in item.requests:
        if request.context != before and request.context:
            yield from (f"|{line}|" for line in request.context.split("\n"))
        before = request.context
        if request.continuation:
            yield f"-> {request.continuation!r}"
        if request.generation:
            yield f"-> written until {request.generation.get('until')!r}"
    yield f"right: {item.gold or item.target!r}"
    yield ""


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    found = texts()
    for file in GOLDEN.glob("*.txt"):
        if file.stem not in found:
            file.unlink()
    for folder, text in found.items():
        (GOLDEN / f"{folder}.txt").write_text(text, encoding="utf-8")
    sys.stdout.write(f"{len(found)} files in {GOLDEN}\n")


if __name__ == "__main__":
    main()
