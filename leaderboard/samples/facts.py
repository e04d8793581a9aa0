"""What the questions of a sample file are found, filtered and sorted by, as columns of numbers.

Of a file only the small columns are read. They are kept in this process for the next page: files in
the artifact store never change, and one that did has another time or size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from leaderboard.samples.store import as_written
from leaderboard.web import Recent

ROOM = 32 * 2**20
"""Bytes of such columns that a process keeps."""
NO_PICK = -1

_COLUMNS = (
    *("task", "subset", "doc_id", "correct", "choices", "gold", "pick"),
    *(f"responses.list.element.{name}" for name in ("kind", "loglikelihood", "n_context_tokens")),
)


MOST_DIGITS = 9
"""Of a number in an address; no file has a question with more."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Numbered:
    """Questions in the order of a file, each known by its task and its number there.

    Arrays have one entry for each.
    """

    tasks: tuple[str, ...]
    """Names of the leaf tasks, in the order of the file."""
    task: NDArray[np.int32]
    """Place in `tasks`."""
    doc_id: NDArray[np.int32]
    parts: tuple[str, ...]
    """Of the benchmark (subjects and the like), in that order, too; of a plain task the task."""
    part: NDArray[np.int32]
    """Place in `parts`."""

    @property
    def n(self) -> int:
        return len(self.doc_id)

    def key(self, place: int) -> tuple[str, int]:
        """Task and number of a row of the file, which count from 0."""
        return self.tasks[int(self.task[place])], int(self.doc_id[place])

    def place(self, task: str, doc_id: int) -> int | None:
        """The row of a question; None where there is none such."""
        if task not in self.tasks:
            return None
        wanted = (self.doc_id == doc_id) & (self.task == self.tasks.index(task))
        places = np.flatnonzero(wanted)
        return int(places[0]) if len(places) else None

    def label(self, place: int) -> str:
        """As addresses call it: `task:number`, or the number alone where there is one task."""
        task, doc_id = self.key(place)
        return f"{task}:{doc_id}" if len(self.tasks) > 1 else str(doc_id)

    def in_words(self, place: int) -> str:
        """As people call it: its part, where there are several, and its number from 1."""
        part = f"{self.parts[self.part[place]]} " if len(self.parts) > 1 else ""
        return f"{part}{int(self.doc_id[place]) + 1}"

    def called(self, label: str) -> int | None:
        """The row of the question that an address calls so; None where there is none such."""
        task, _, number = label.rpartition(":")
        if not (number.isascii() and number.isdigit() and len(number) <= MOST_DIGITS):
            return None
        if not task and len(self.tasks) != 1:
            return None
        return self.place(task or self.tasks[0], int(number))


@dataclass(frozen=True, eq=False, kw_only=True)
class Facts(Numbered):
    """What a sample file says of each question in numbers; NaN where there is no such number."""

    correct: NDArray[np.float64]
    right: NDArray[np.float64]
    """Loglikelihood of the likeliest right choice; without choices that of the text, nats."""
    margin: NDArray[np.float64]
    """`right` less the loglikelihood of the likeliest wrong choice."""
    tokens: NDArray[np.float64]
    """Length of the prompt as the model read it."""
    pick: NDArray[np.int32]
    """Place of the chosen choice; NO_PICK where there are no choices."""
    gold: pa.Array
    """Places of the right choices."""

    @property
    def has_choices(self) -> bool:
        """Whether any question has choices, so that there is a margin between them."""
        return len(self.gold.flatten()) > 0

    def gold_of(self, place: int) -> list[int]:
        return self.gold[place].as_py() or []

    @cached_property
    def bytes(self) -> int:
        return sum(getattr(column, "nbytes", 0) for column in vars(self).values())


_kept: Recent[Facts] = Recent(ROOM, lambda facts: facts.bytes)


def facts_of(path: Path) -> Facts:
    """The columns of the file at `path`, read unless they are at hand. Raises Damaged."""
    state = path.stat()
    return _kept.of((path, state.st_ino, state.st_size, state.st_mtime_ns), lambda: _read(path))


def _read(path: Path) -> Facts:
    with as_written(path):
        return _facts_in(path)


def _facts_in(path: Path) -> Facts:
    with pq.ParquetFile(path) as file:
        blocks = [_without_texts(file, block) for block in range(file.num_row_groups)]
    table = pa.concat_tables(blocks)
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    tasks, task = _coded(columns["task"])
    parts, part = _coded(pc.coalesce(columns["subset"], columns["task"]))
    responses = _Lists.of(columns["responses"])
    choices, gold = _Lists.of_sizes(columns["choices"]), _Lists.of(columns["gold"])
    likelihoods = _numbers(responses.values.field("loglikelihood"))
    right, margin = _likelihoods(likelihoods, responses, choices, gold)
    lengths = _numbers(responses.values.field("n_context_tokens"))
    plain = (choices.sizes == 0) & (responses.sizes > 0)
    written = pc.fill_null(pc.equal(responses.values.field("kind"), "generate_until"), True)
    first = responses.starts[plain]
    scored = ~written.to_numpy(zero_copy_only=False)[first]
    right[plain] = np.where(scored, likelihoods[first], np.nan)
    return Facts(
        tasks=tasks,
        parts=parts,
        task=task,
        part=part,
        doc_id=columns["doc_id"].to_numpy(zero_copy_only=False).astype(np.int32),
        correct=_numbers(columns["correct"]),
        right=right,
        margin=margin,
        tokens=_largest(lengths, responses.rows, len(table)),
        pick=pc.fill_null(columns["pick"], NO_PICK).to_numpy().astype(np.int32),
        gold=columns["gold"],
    )


def _without_texts(file: pq.ParquetFile, block: int) -> pa.Table:
    """Of choices how many there are: their texts are never together in memory."""
    table = file.read_row_group(block, columns=list(_COLUMNS), use_threads=False)
    at = table.schema.get_field_index("choices")
    return table.set_column(at, "choices", pc.list_value_length(table["choices"]))


@dataclass(frozen=True)
class _Lists:
    """A column of lists: all their values one after the other, and where each list begins."""

    values: Any
    sizes: NDArray[np.int64]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, column: Any) -> _Lists:
        """A list that is null has no values."""
        sizes = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
        return cls(column.flatten(), sizes, np.cumsum(sizes) - sizes)

    @classmethod
    def of_sizes(cls, column: Any) -> _Lists:
        """Lists of which nobody reads the values."""
        sizes = pc.fill_null(column, 0).to_numpy().astype(np.int64)
        return cls(None, sizes, np.cumsum(sizes) - sizes)

    @property
    def rows(self) -> NDArray[np.int64]:
        """For each value the row that its list stands in."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def within(self) -> NDArray[np.int64]:
        """For each value its place in its list."""
        return np.arange(self.sizes.sum()) - np.repeat(self.starts, self.sizes)


def _likelihoods(
    likelihoods: NDArray[np.float64], responses: _Lists, choices: _Lists, gold: _Lists
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of each question with choices that of its likeliest right one, and its lead over the wrong.

    A choice's response stands in the place of the choice.
    """
    rows, places = choices.rows, choices.within
    values = np.full(len(rows), np.nan)
    answered = places < responses.sizes[rows]
    values[answered] = likelihoods[(responses.starts[rows] + places)[answered]]
    keys = gold.values.to_numpy(zero_copy_only=False).astype(np.int64)
    within = (keys >= 0) & (keys < choices.sizes[gold.rows])
    is_right = np.zeros(len(rows), bool)
    is_right[(choices.starts[gold.rows] + keys)[within]] = True
    right = _largest(values[is_right], rows[is_right], len(choices.sizes))
    wrong = _largest(values[~is_right], rows[~is_right], len(choices.sizes))
    with np.errstate(invalid="ignore"):  # both may be without any likelihood
        return right, right - wrong


def _largest(
    values: NDArray[np.float64], rows: NDArray[np.int64], count: int
) -> NDArray[np.float64]:
    """Of each row the largest of its values; NaN where it has none."""
    largest = np.full(count, np.nan)
    np.fmax.at(largest, rows, values)
    return largest


def _numbers(column: Any) -> NDArray[np.float64]:
    """With NaN for null."""
    numbers: NDArray[np.float64] = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return numbers.astype(np.float64)


def _coded(column: Any) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """The different texts in the order in which they come up, and the place of each row's."""
    coded = column.dictionary_encode()
    return tuple(coded.dictionary.to_pylist()), coded.indices.to_numpy().astype(np.int32)
