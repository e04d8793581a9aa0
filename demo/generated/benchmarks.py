"""The benchmarks: their questions as documents, and each of their tasks as the engine knows them.

Keys and digests are the engine's own, from task specifications and documents, so that a sample file
of a generated task says what its row in the database says.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demo.generated.questions import question
from demo.generated.words import Words, subjects
from evalcore.keys import comparability_key, run_key
from evalcore.model.base import Mode
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.identity.digest import config_digest, doc_digest, docs_digest
from evalcore.task.parse import parse_group, parse_task
from leaderboard.samples import Layout

STYLES = ("cloze", "mmlu", "hybrid")
MODE: Mode = "strict"
METRIC, VERSION = "acc", "1.0"
FEWEST, MOST = 100, 1_500
LARGEST = 14_000
"""Questions of the first benchmark."""
SHOTS = (0, 0, 0, 3, 5, 10, 25)
PROMPTS = {
    "cloze": ("Question: {{question}}\nAnswer:", "{{choices}}"),
    "mmlu": ("{{question}}\n{{lettered}}\nAnswer:", None),
    "hybrid": ("{{question}}\n{{lettered}}\nAnswer:", "{{choices}}"),
}
LETTERS = "ABCD"


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """What is asked; every style asks the same questions."""

    name: str
    title: str
    n: int
    own: str
    shots: int
    choices: int
    parts: int
    """Of how many tasks it is a group; 0 for a single task."""
    by_parts: bool
    """Whether each task of the group counts alike."""
    passages: int
    """On how many passages its questions hang, which makes them depend on each other; 0: none."""
    people: float | None
    difficulty: float
    """Ability at which a model gets half of it."""

    @property
    def chance(self) -> float:
        return 1 / self.choices

    @cached_property
    def part(self) -> NDArray[np.int32]:
        """The part of each question, (n,): parts of different sizes, one after the other."""
        if not self.parts:
            return np.zeros(self.n, np.int32)
        draw = random.Random(f"parts/{self.name}")
        weights = np.array([draw.uniform(1, 6) for _ in range(self.parts)])
        ends = np.round(np.cumsum(weights) / weights.sum() * self.n)
        return np.searchsorted(ends, np.arange(self.n), side="right").astype(np.int32)

    @cached_property
    def cluster(self) -> NDArray[np.int32] | None:
        """The passage of each question, (n,): neighbours share one."""
        if not self.passages:
            return None
        return (np.arange(self.n) * self.passages // self.n).astype(np.int32)

    @cached_property
    def part_names(self) -> tuple[str, ...]:
        return tuple(subjects(self.parts))

    @cached_property
    def doc_id(self) -> NDArray[np.int32]:
        """The place of each question in its own part."""
        first = np.searchsorted(self.part, self.part)
        return (np.arange(self.n) - first).astype(np.int32)

    def document(self, place: int) -> dict[str, Any]:
        """The document as its data set would have it."""
        doc = question(f"{self.name}/{place}", self.choices)
        if self.parts:
            doc["subject"] = self.part_names[self.part[place]]
        if self.cluster is not None:
            doc["passage"] = f"passage {self.cluster[place]}"
        return doc

    @cached_property
    def doc_digests(self) -> list[str]:
        return [doc_digest(self.document(place)) for place in range(self.n)]


@dataclass(frozen=True)
class Column:
    """A benchmark in one style."""

    benchmark: Benchmark
    style: str

    @property
    def name(self) -> str:
        return f"{self.benchmark.name}_{self.style}"

    @cached_property
    def spec(self) -> TaskSpec | GroupSpec:
        if not self.benchmark.parts:
            return self._task(self.name)
        values = {
            "group": self.name,
            "aggregate_metric_list": [
                {"metric": METRIC, "weight_by_size": not self.benchmark.by_parts}
            ],
            "metadata": self._metadata,
        }
        members = tuple(self._task(name) for name in self.tasks)
        return replace(parse_group(values, self._place, None), members=members)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the leaf tasks."""
        if not self.benchmark.parts:
            return (self.name,)
        return tuple(f"{self.name}_{part}" for part in self.benchmark.part_names)

    @property
    def config_digest(self) -> str:
        return config_digest(self.spec)

    @cached_property
    def run_key(self) -> str:
        return run_key(self.spec, shots=self.benchmark.shots, mode=MODE)

    @cached_property
    def layout(self) -> Layout:
        return self._layout(self.benchmark.doc_digests)

    @cached_property
    def changed_layout(self) -> Layout:
        """The same questions but for the first, which a later commit of the data set corrects."""
        corrected = {**self.benchmark.document(0), "corrected": True}
        return self._layout([doc_digest(corrected), *self.benchmark.doc_digests[1:]])

    def comparability_key(self, layout: Layout) -> str:
        return comparability_key(
            self.run_key,
            docs_digest=layout.docs_digest,
            metric=METRIC,
            arguments={},
            filter="none",
        )

    def _layout(self, digests: Sequence[str]) -> Layout:
        asked = self.benchmark
        return Layout(
            docs_digest=docs_digest(digests),
            tasks=self.tasks,
            task=asked.part,
            doc_id=asked.doc_id,
            parts=asked.part_names or self.tasks,
            part=asked.part,
            cluster=asked.cluster,
        )

    def _task(self, name: str) -> TaskSpec:
        asked = self.benchmark
        text, choices = PROMPTS[self.style]
        values = {
            "task": name,
            "dataset_path": f"generated/{asked.name}",
            "test_split": "test",
            "fewshot_split": "dev",
            "doc_to_text": text,
            "doc_to_choice": list(LETTERS[: asked.choices]) if choices is None else choices,
            "doc_to_target": "answer",
            "output_type": "multiple_choice",
            "metric_list": [{"metric": METRIC}],
            "metadata": self._metadata,
        }
        if asked.parts:
            values["dataset_name"] = name.removeprefix(f"{self.name}_")
        return parse_task(values, self._place, None)

    @property
    def _metadata(self) -> dict[str, Any]:
        asked = self.benchmark
        metadata = {
            "version": VERSION,
            "benchmark": asked.name,
            "style": self.style,
            "chance": asked.chance,
            "primary_metric": METRIC,
        }
        if asked.passages:
            metadata["cluster"] = "passage"
        return {**metadata, "subset": "subject"} if asked.parts else metadata

    def _place(self, key: str) -> str:
        return f"{self.name}, {key}"


def make_benchmarks(count: int, *, seed: int, largest: int = LARGEST) -> list[Benchmark]:
    """So many benchmarks; the first is the largest, in parts as MMLU is."""
    words, draw = Words(seed), random.Random(f"benchmarks/{seed}")
    return [_largest(words, largest), *_others(count - 1, words, draw)]


def _largest(words: Words, n: int) -> Benchmark:
    title = words.benchmark()
    return Benchmark(
        name=_name(title),
        title=title,
        n=n,
        own="mmlu",
        shots=5,
        choices=4,
        parts=min(57, max(2, n // 20)),
        by_parts=False,
        passages=0,
        people=0.9,
        difficulty=0.8,
    )


def _others(count: int, words: Words, draw: random.Random) -> Iterator[Benchmark]:
    for number in range(count):
        title = words.benchmark()
        n = round(FEWEST * (MOST / FEWEST) ** draw.random())
        yield Benchmark(
            name=_name(title),
            title=title,
            n=n,
            own=draw.choices(STYLES, (5, 4, 1))[0],
            shots=draw.choice(SHOTS),
            choices=draw.choice((2, 4, 4, 4)),
            parts=draw.randrange(4, 13) if number % 6 == 1 else 0,
            by_parts=number % 12 == 7,
            passages=n // draw.randrange(4, 9) if number % 6 == 3 else 0,
            people=round(draw.uniform(0.75, 0.97), 3) if draw.random() < 0.25 else None,
            difficulty=draw.gauss(0.6, 0.6),
        )


def _name(title: str) -> str:
    return title.lower().replace(" ", "_")
