"""Small tasks on small local data, for tests of the task system."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from evalcore.model.base import ChatTemplate
from evalcore.task.asking.chat import Chat
from evalcore.task.asking.task import Mode, Task
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.library.load import TaskLibrary

Rows = Sequence[Mapping[str, Any]]


def task_text(keys: Mapping[str, Any]) -> str:
    """A task file with these keys; a text that begins with !function names one."""
    return re.sub("'(!function [^']+)'", r"\1", yaml.safe_dump(dict(keys)))


def task_in(library: TaskLibrary, name: str) -> TaskSpec:
    spec = library.one(name)
    assert isinstance(spec, TaskSpec)
    return spec


def group_in(library: TaskLibrary, name: str) -> GroupSpec:
    spec = library.one(name)
    assert isinstance(spec, GroupSpec)
    return spec


def write_tasks(folder: Path, files: Mapping[str, str]) -> TaskLibrary:
    """The library of a folder with these files."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return TaskLibrary([folder])


def capitals(count: int) -> list[dict[str, Any]]:
    """Distinct questions with three choices each, the right one at a changing position."""
    return [
        {
            "question": f"What is the capital of country {number}?",
            "choices": [f"city {number} {letter}" for letter in "abc"],
            "answer": number % 3,
            "topic": "north" if number % 2 else "south",
        }
        for number in range(count)
    ]


class World:
    """A folder with data and task files in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def data(self, **splits: Rows) -> dict[str, Any]:
        """Writes the splits; gives the keys of a task file that load them."""
        files = {}
        for split, rows in splits.items():
            path = self.folder / f"{split}.jsonl"
            path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
            files[split] = str(path)
        cache = str(self.folder / "cache")
        return {
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": files, "cache_dir": cache},
        }

    def code(self, text: str) -> None:
        """Writes the module `code` beside the task file."""
        (self.folder / "tasks").mkdir(exist_ok=True)
        (self.folder / "tasks" / "code.py").write_text(text)

    def spec(self, functions: Mapping[str, str] | None = None, **keys: Any) -> TaskSpec:
        """A multiple-choice task on the question, choices and answer columns, with these keys.

        `functions` gives keys that hold `!function code.<name>`.
        """
        defaults = {
            "task": "capitals",
            "output_type": "multiple_choice",
            "training_split": "train",
            "test_split": "test",
            "fewshot_split": "train",
            "doc_to_text": "Q: {{question}}\nA:",
            "doc_to_choice": "choices",
            "doc_to_target": "answer",
            "metric_list": [{"metric": "acc"}],
        }
        named = {key: f"!function code.{name}" for key, name in (functions or {}).items()}
        text = task_text({**defaults, **keys, **named})
        library = write_tasks(self.folder / "tasks", {"capitals.yaml": text})
        return task_in(library, str(keys.get("task", "capitals")))

    def task(
        self,
        *,
        mode: Mode = "strict",
        shots: int | None = None,
        seed: int = 1234,
        limit: float | None = None,
        samples: Sequence[int] | None = None,
        system: str | None = None,
        chat: Chat | None = None,
        generation: Mapping[str, Any] | None = None,
        **keys: Any,
    ) -> Task:
        return Task(
            self.spec(**keys),
            mode=mode,
            num_fewshot=shots,
            fewshot_seed=seed,
            limit=limit,
            samples=samples,
            system_instruction=system,
            chat=chat,
            generation=generation,
        )


def written_turns(messages: Sequence[Mapping[str, str]], add_generation_prompt: bool) -> str:
    """A chat template in one line: each turn between brackets, the last one open if it goes on."""
    text = "".join(f"[{message['role']}: {message['content']}]" for message in messages)
    return f"{text}[assistant: " if add_generation_prompt else text[:-1]


TEMPLATE = ChatTemplate(text="each turn between brackets", name=None, render=written_turns)
