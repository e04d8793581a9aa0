"""Which models of a board the reader's filters leave; each filter is a mask over its rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leaderboard.board.search import (
    NOT_STATED,
    Catalogue,
    SearchError,
    Texts,
    either,
    parse,
    precisions,
    stated,
)
from leaderboard.board.wanted import CHOICES, HIDE, ONLY, YES_OR_NO, Wanted
from leaderboard.models import HubModel
from leaderboard.models.variant import Kind
from leaderboard.snapshot import Board, Flags, Models

FILTERS = ("q", *CHOICES, "size", *YES_OR_NO)
NAMES = {
    "q": "Search",
    "type": "Type",
    "precision": "Precision",
    "arch": "Architecture",
    "licence": "Licence",
    "size": "Size",
    "merged": "Merges",
    "moe": "Mixtures of experts",
    "flagged": "Flagged models",
    "official": "Official models",
    "chat": "Has a chat template",
    "asked": "Asked in a chat template",
    "adapter": "Adapters",
    "packed": "Quantised weights",
    "engine": "Computed by",
    "gone": "Gone from the Hub",
}
_KINDS = {kind.value: kind.label for kind in Kind}
_GONE = (HubModel.HubState.GONE.value, HubModel.HubState.PRIVATE.value)
_VALUES: dict[str, Callable[[Models], Texts]] = {
    "type": stated("kind"),
    "precision": precisions,
    "arch": lambda models: either(models.array("model_type"), stated("architecture")(models)),
    "licence": lambda models: pc.ascii_lower(stated("licence")(models)),
    "engine": stated("backend"),
}
_SEVERAL = {"licence": ", "}
"""Filters by values of which a model may have several, and what stands between them."""
_HOLDS: dict[str, Callable[[Models], pa.ChunkedArray]] = {
    "merged": lambda models: models.array("merged"),
    "moe": lambda models: models.array("moe"),
    "flagged": lambda models: pc.not_equal(models.array("flag_reason"), ""),
    "official": lambda models: models.array("official"),
    "chat": lambda models: models.array("chat_template"),
    "asked": lambda models: models.array("chat"),
    "adapter": lambda models: pc.not_equal(models.array("adapter_base"), ""),
    "packed": lambda models: pc.not_equal(models.array("quantisation"), ""),
    "gone": lambda models: pc.is_in(models.array("hub_state"), pa.array(_GONE)),
}
_NUMBER = r"([0-9]{1,6}(?:\.[0-9]{1,6})?)?"
_SIZES = re.compile(rf"{_NUMBER}-{_NUMBER}")
_BILLION = 10**9
_MICROSECONDS = 10**6


class Option(NamedTuple):
    """A value that occurs on the board, and in how many of its rows."""

    value: str
    label: str
    models: int
    chosen: bool = False


class Facets(Catalogue):
    """What models are filtered and sorted by, as arrays of shape (models,), each made once."""

    def __init__(self, models: Models) -> None:
        super().__init__(models)
        self._codes: dict[str, tuple[list[Option], list[frozenset[str]], NDArray[np.intp]]] = {}
        self._flags: dict[str, Flags] = {}

    @cached_property
    def added(self) -> NDArray[np.float64]:
        """When each came to the board, in seconds since 1970."""
        seconds: NDArray[np.float64] = (
            self.models.array("added").cast(pa.int64()).to_numpy() / _MICROSECONDS
        )
        return seconds

    @cached_property
    def _names(self) -> pa.ChunkedArray:
        """The ID of each in lower case; the Hub's IDs are ASCII."""
        return pc.ascii_lower(self.models.array("repo_id"))

    @cached_property
    def by_name(self) -> NDArray[np.int64]:
        """Each model's place in the order of names."""
        order = pc.array_sort_indices(self._names).to_numpy()
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        return places

    def rows_of(self, repo_id: str) -> list[int]:
        """The rows of a repository, in whatever case its ID is written."""
        if not repo_id.isascii():
            return []
        return np.flatnonzero(pc.equal(self._names, repo_id.lower()).to_numpy()).tolist()

    def several(self, rows: Sequence[int]) -> list[bool]:
        """Of each row whether its repository stands in another row, too."""
        names = self._names.take(pa.array(rows, pa.int64()))
        of_these = self._names.filter(pc.is_in(self._names, names.combine_chunks()))
        times = Counter(of_these.to_pylist())
        return [times[name] > 1 for name in names.to_pylist()]

    def choices(self, name: str) -> list[Option]:
        """The values of a filter in their order."""
        return self._values(name)[0]

    def having(self, name: str, values: Sequence[str]) -> Flags:
        """Which models have one of these values of a filter."""
        _, parts, codes = self._values(name)
        return np.array([not part.isdisjoint(values) for part in parts], np.bool_)[codes]

    def _values(self, name: str) -> tuple[list[Option], list[frozenset[str]], NDArray[np.intp]]:
        """The values in their order, what occurs of them together, and for each model the place of
        what it has."""
        if name not in self._codes:
            values = _VALUES[name](self.models).combine_chunks().dictionary_encode()
            codes = values.indices.to_numpy()
            parts = [_parts(name, text) for text in values.dictionary.to_pylist()]
            counts: Counter[str] = Counter()
            for part, count in zip(parts, np.bincount(codes, minlength=len(parts)), strict=True):
                counts.update(dict.fromkeys(part, int(count)))
            options = [
                Option(value, value_label(name, value), counts[value]) for value in sorted(counts)
            ]
            self._codes[name] = options, parts, codes
        return self._codes[name]

    def flags(self, name: str) -> Flags:
        """Of which models one of YES_OR_NO holds."""
        if name not in self._flags:
            self._flags[name] = _HOLDS[name](self.models).to_numpy()
        return self._flags[name]


_known: WeakKeyDictionary[Board, Facets] = WeakKeyDictionary()


def facets_of(board: Board) -> Facets:
    """Kept as long as the board itself is."""
    if board not in _known:
        _known[board] = Facets(board.models)
    return _known[board]


def rows_named(board: Board, name: str) -> list[int]:
    """The row of a variant by its number, or all rows of a repository by its ID."""
    if name.isascii() and name.isdigit() and len(name) < 19:
        row = board.row_of.get(int(name))
        return [] if row is None else [row]
    return facets_of(board).rows_of(name)


@dataclass(frozen=True)
class Filtered:
    """The mask of each active filter; a filter that cannot be read is a problem instead."""

    masks: dict[str, Flags]
    hits: list[tuple[str, int]]
    """How many models each term of the search finds on the whole board."""
    problems: list[str]

    def left(self, models: int, *, without: str = "") -> Flags:
        """Which of so many models pass all filters, or all but one."""
        masks = [mask for name, mask in self.masks.items() if name != without]
        return np.logical_and.reduce(masks) if masks else np.ones(models, np.bool_)


def filtered(facets: Facets, wanted: Wanted) -> Filtered:
    """Every filter that the reader set, read and applied."""
    masks: dict[str, Flags] = {}
    hits: list[tuple[str, int]] = []
    problems: list[str] = []
    try:
        query = parse(wanted.q)
        if query.terms:
            masks["q"], hits = query.found(facets)
    except SearchError as error:
        problems.append(f"Nothing was searched: {error}")
    for name in CHOICES:
        if values := wanted.many(name):
            masks[name] = facets.having(name, values)
    try:
        if bounds := _bounds(wanted.size):
            masks["size"] = (facets.sizes >= bounds[0]) & (facets.sizes <= bounds[1])
    except ValueError as error:
        problems.append(str(error))
    for name in YES_OR_NO:
        asked = getattr(wanted, name)
        if asked in (ONLY, HIDE):
            masks[name] = facets.flags(name) == (asked == ONLY)
    return Filtered(masks, hits, problems)


def _parts(name: str, text: str) -> frozenset[str]:
    separator = _SEVERAL.get(name)
    return frozenset(text.split(separator) if separator else [text])


def _bounds(size: str) -> tuple[float, float] | None:
    """Fewest and most parameters; None for any. ValueError for what is no range."""
    if not size:
        return None
    match = _SIZES.fullmatch(size)
    if match is None:
        raise ValueError(
            f"Size “{size}” is no range. Write billions of parameters from and to, such as 1-7."
        )
    low = float(match[1]) * _BILLION if match[1] else 0.0
    high = float(match[2]) * _BILLION if match[2] else float("inf")
    if low > high:
        raise ValueError(f"Size “{size}” ends before it begins. Write the smaller number first.")
    return low, high


def value_label(name: str, value: str) -> str:
    """How a filter's value is called."""
    if value == NOT_STATED:
        return "Not stated"
    return _KINDS.get(value, value) if name == "type" else value


def filter_label(name: str, wanted: Wanted) -> str:
    """An active filter in words."""
    value: str = getattr(wanted, name)
    if name == "q":
        return f"“{value}”"
    if name in YES_OR_NO:
        return f"{NAMES[name]}: {'only' if value == ONLY else 'hidden'}"
    if name == "size":
        low, _, high = value.partition("-")
        words = f"{low}–{high}" if low and high else f"{low} and more" if low else f"up to {high}"
        return f"Size: {words} billion"
    return f"{NAMES[name]}: {', '.join(value_label(name, value) for value in wanted.many(name))}"


def options(facets: Facets, wanted: Wanted) -> dict[str, list[Option]]:
    """For each filter by values what occurs on the board, and what is chosen besides."""
    offered = {}
    for name in CHOICES:
        chosen = wanted.many(name)
        known = facets.choices(name)
        occurring = {option.value for option in known}
        absent = [Option(v, value_label(name, v), 0) for v in chosen if v not in occurring]
        offered[name] = [
            value._replace(chosen=value.value in chosen) for value in [*known, *absent]
        ]
    return offered
