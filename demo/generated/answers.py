"""Who answers what: an item response model with families, styles, subjects and passages.

A model of ability θ knows the answer to a question of difficulty b with probability
`1 / (1 + exp(-a (θ - b)))`, where a is the question's discrimination, and guesses otherwise
(Birnbaum's three-parameter model). Where the key is wrong, who knows the answer is marked wrong. θ
is the model's own for the benchmark, the subject and the passage; where a letter must be named, a
model that has not learnt letters well guesses more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from demo.generated.benchmarks import Benchmark
from demo.generated.population import Population

CELLS = 8_000_000
"""Models × questions that are drawn at once: some 200 MB."""
WRONG_KEYS = 0.012
OF_BENCHMARK, OF_PART, OF_PASSAGE = 0.3, 0.22, 0.55
"""Standard deviations of what a model knows more or less of a benchmark, a part, a passage."""
LETTERS_SHOWN = {"cloze": 0.0, "mmlu": 1.0, "hybrid": 0.45}
"""How much of a style hangs on knowing letters."""

Floats = NDArray[np.float32]
Right = NDArray[np.bool_]


@dataclass(frozen=True)
class Items:
    """The questions of a benchmark as the model of answers sees them, each (n,)."""

    discrimination: Floats
    difficulty: Floats
    wrong_key: Right

    @classmethod
    def of(cls, benchmark: Benchmark, *, seed: int) -> Items:
        rng = _generator(seed, benchmark.name, "items")
        return cls(
            rng.lognormal(0.3, 0.35, benchmark.n).astype(np.float32),
            rng.normal(benchmark.difficulty, 1.1, benchmark.n).astype(np.float32),
            rng.random(benchmark.n) < WRONG_KEYS,
        )


@dataclass(frozen=True)
class Answers:
    """What every model of a population answers to a benchmark, style by style."""

    benchmark: Benchmark
    population: Population
    seed: int

    @cached_property
    def items(self) -> Items:
        return Items.of(self.benchmark, seed=self.seed)

    @cached_property
    def _ability(self) -> Floats:
        """Of each model in each part of the benchmark, shape (models, parts)."""
        rng = self._rng("ability")
        shape = (len(self.population), max(1, self.benchmark.parts))
        own = rng.normal(0, OF_BENCHMARK, (shape[0], 1)) + rng.normal(0, OF_PART, shape)
        return (self.population.of("ability")[:, None] + own).astype(np.float32)

    @cached_property
    def _of_passage(self) -> Floats | None:
        """What each model makes of each passage, shape (models, passages)."""
        if not self.benchmark.passages:
            return None
        shape = (len(self.population), self.benchmark.passages)
        return self._rng("passages").normal(0, OF_PASSAGE, shape).astype(np.float32)

    @cached_property
    def _luck(self) -> Floats:
        """Of each family with each question, uniform, shape (families, n): shared by all styles."""
        shape = (self.population.families, self.benchmark.n)
        return self._rng("luck").random(shape, dtype=np.float32)

    def blocks(self, style: str) -> Iterator[tuple[slice, Right]]:
        """Rows of models with their answers, shape (rows, n), in order and each row once."""
        rng = self._rng(style)
        for rows in self._slices():
            yield rows, self._block(rows, style, rng)

    def _slices(self) -> Iterator[slice]:
        """Some models at a time; a twin stays with the one before it."""
        twins = set(self.population.twins.tolist())
        step, first, count = max(1, CELLS // self.benchmark.n), 0, len(self.population)
        while first < count:
            last = min(count, first + step)
            while last in twins:
                last += 1
            yield slice(first, last)
            first = last

    def _block(self, rows: slice, style: str, rng: np.random.Generator) -> Right:
        asked, people, items = self.benchmark, self.population, self.items
        theta = self._ability[rows] + self._shift(rows, style)
        logit = theta[:, asked.part]
        if self._of_passage is not None and asked.cluster is not None:
            logit += self._of_passage[rows][:, asked.cluster]
        logit -= items.difficulty
        logit *= items.discrimination
        shown = 1 - LETTERS_SHOWN[style] * (1 - people.of("letters")[rows, None])
        knows = shown / (1 + np.exp(-logit))
        gain = np.where(items.wrong_key, -asked.chance, 1 - asked.chance).astype(np.float32)
        probability = asked.chance + gain * knows
        luck = rng.random(logit.shape, dtype=np.float32)
        alike = rng.integers(0, 256, logit.shape, dtype=np.uint8)
        like = alike < np.round(256 * people.of("likeness")[rows, None])
        np.copyto(luck, self._luck[people.family[rows]], where=like)
        right = luck < probability
        inside = people.twins[(people.twins >= rows.start) & (people.twins < rows.stop)]
        for twin in inside - rows.start:
            right[twin] = right[twin - 1]
        return np.asarray(right)

    def _shift(self, rows: slice, style: str) -> Floats:
        """What the style adds to a model's ability, shape (rows, 1)."""
        cloze = self.population.of("cloze")[rows, None]
        return cloze if style == "cloze" else np.zeros_like(cloze)

    def _rng(self, what: str) -> np.random.Generator:
        return _generator(self.seed, self.benchmark.name, what)


def _generator(seed: int, benchmark: str, what: str) -> np.random.Generator:
    return np.random.default_rng([seed, *benchmark.encode(), *what.encode()])
