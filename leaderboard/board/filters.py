"""Which models of a board the reader's filters leave; each filter is a mask over its rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leaderboard.board.query import (
    CHOICES,
    GPUS,
    HIDE,
    ONLY,
    TRAITS,
    BoardQuery,
    midnight,
)
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
from leaderboard.models import HubModel
from leaderboard.models.variant import BYTES_PER_PARAMETER, Kind, needed_bytes
from leaderboard.snapshot import Board, Flags, Models

NAMES = {
    "maker": "Maker",
    "type": "Type",
    "precision": "Precision",
    "arch": "Architecture",
    "licence": "Licence",
    "size": "Size",
    "merged": "Merges",
    "moe": "Mixtures of experts",
    "flagged": "Flagged models",
    "official": "Official models",
    "chat": "Chat template",
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
    "maker": lambda models: _makers(models),
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
_GIBIBYTE = 2**30
_MICROSECONDS = 10**6
_DAY_SECONDS = 86_400
_PACKED_BITS = re.compile(r"(\d+)-?bit|fp(8)|int(8|4)")
"""How many bits a weight has, by the name of how it is packed."""


def _makers(models: Models) -> pa.ChunkedArray:
    """Whose each model is, by its ID."""
    owners = [repo_id.rpartition("/")[0] or NOT_STATED for repo_id in models.values("repo_id")]
    return pa.chunked_array([pa.array(owners, pa.string())])


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
        self._memory: dict[str, NDArray[np.float64]] = {}

    @cached_property
    def added(self) -> NDArray[np.float64]:
        """When each came to the board, in seconds since 1970."""
        seconds: NDArray[np.float64] = (
            self.models.array("added").cast(pa.int64()).to_numpy() / _MICROSECONDS
        )
        return seconds

    @cached_property
    def copies(self) -> NDArray[np.int64]:
        """The same number for models of the same weights, asked alike; -1 where that is unknown."""
        codes = self.models.array("weights").combine_chunks().dictionary_encode()
        unknown = np.array([not text for text in codes.dictionary.to_pylist()], np.bool_)
        numbers: NDArray[np.int64] = codes.indices.to_numpy().astype(np.int64)
        return np.where(unknown[numbers], -1, numbers) if len(numbers) else numbers

    def memory(self, bits: str) -> NDArray[np.float64]:
        """GB that each model needs: weights in so many bits, a fifth on top, and half a GB.

        Without bits in the precision in which it was measured.
        """
        if bits not in self._memory:
            sizes = self.sizes.astype(np.float64)
            of_weights = sizes * (int(bits) / 8 if bits else self._bytes_per_weight)
            whole = [needed_bytes(int(weights)) for weights in of_weights.tolist()]
            self._memory[bits] = np.array(whole, np.float64) / _GIBIBYTE
        return self._memory[bits]

    @cached_property
    def _bytes_per_weight(self) -> NDArray[np.float64]:
        texts = precisions(self.models).combine_chunks().dictionary_encode()
        known = np.array([_bytes_of(text) for text in texts.dictionary.to_pylist()])
        return known[texts.indices.to_numpy()] if len(known) else known

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
        """Of which models one of TRAITS holds."""
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
    near: list[str] = field(default_factory=list)
    """Searches near to one that finds nothing on the whole board."""

    def left(self, models: int, *, without: str = "") -> Flags:
        """Which of so many models pass all filters, or all but one."""
        masks = [mask for name, mask in self.masks.items() if name != without]
        return np.logical_and.reduce(masks) if masks else np.ones(models, np.bool_)


def filtered(facets: Facets, query: BoardQuery) -> Filtered:
    """Every filter that the reader set, read and applied."""
    masks: dict[str, Flags] = {}
    hits: list[tuple[str, int]] = []
    problems: list[str] = []
    near: list[str] = []
    try:
        search = parse(query.q)
        if search.terms:
            masks["q"], hits = search.found(facets)
            near = [] if masks["q"].any() else facets.near(query.q)
    except SearchError as error:
        problems.append(f"Nothing was searched: {error}")
    if query.gpu:
        masks["gpu"] = facets.memory(query.bits) <= float(query.gpu)
    for name in CHOICES:
        if values := query.many(name):
            masks[name] = facets.having(name, values)
    try:
        if bounds := _bounds(query.size):
            masks["size"] = (facets.sizes >= bounds[0]) & (facets.sizes <= bounds[1])
    except ValueError as error:
        problems.append(str(error))
    _filter_days(facets, query, masks, problems)
    for name in TRAITS:
        choice = getattr(query, name)
        if choice in (ONLY, HIDE):
            masks[name] = facets.flags(name) == (choice == ONLY)
    return Filtered(masks, hits, problems, near)


def _filter_days(
    facets: Facets, query: BoardQuery, masks: dict[str, Flags], problems: list[str]
) -> None:
    for name, text in (("since", query.since), ("until", query.until)):
        if not text:
            continue
        day = midnight(text)
        if day is None:
            problems.append(f"“{text}” is no date. Write it as 2025-01-31.")
        elif name == "since":
            masks[name] = facets.added >= day.timestamp()
        else:
            masks[name] = facets.added < day.timestamp() + _DAY_SECONDS


def _bytes_of(precision: str) -> float:
    """Of one weight; packed weights of which nothing is known count as four bits."""
    if precision in BYTES_PER_PARAMETER:
        return BYTES_PER_PARAMETER[precision]
    match = _PACKED_BITS.search(precision.lower())
    return int(next(filter(None, match.groups()))) / 8 if match else 0.5


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


def weights_label(bits: str) -> str:
    """In which precision a model is to fit."""
    return f"in {bits}-bit" if bits else "as measured"


def filter_label(name: str, query: BoardQuery) -> str:
    """An active filter in words."""
    value: str = getattr(query, name)
    if name == "q":
        return f"“{value}”"
    if name == "gpu":
        return f"Fits {value} GB {weights_label(query.bits)}"
    if name in TRAITS:
        return f"{'Only' if value == ONLY else 'Without'}: {NAMES[name]}"
    if name == "size":
        low, _, high = value.partition("-")
        if low and high:
            return f"Size: {low}–{high} B"
        return f"Size: {low} B and more" if low else f"Size: up to {high} B"
    if name in ("since", "until"):
        return f"Came {name} {value}"
    return f"{NAMES[name]}: {', '.join(value_label(name, value) for value in query.many(name))}"


def options(facets: Facets, query: BoardQuery) -> dict[str, list[Option]]:
    """For each filter by values what occurs on the board, the most frequent first, and what is
    chosen besides."""
    offered = {}
    for name in CHOICES:
        chosen = query.many(name)
        known = sorted(facets.choices(name), key=lambda option: -option.models)
        occurring = {option.value for option in known}
        absent = [Option(v, value_label(name, v), 0) for v in chosen if v not in occurring]
        offered[name] = [
            value._replace(chosen=value.value in chosen) for value in [*known, *absent]
        ]
    return offered


BINS = 24


class SizeBin(NamedTuple):
    """A bar of the picture of sizes, in its units of 240 × 48."""

    x: int
    y: int
    height: int
    chosen: bool


def size_bins(facets: Facets, size: str) -> list[SizeBin]:
    """How many models there are of each size, on a logarithmic scale over the whole board."""
    sizes = np.log(facets.sizes.astype(np.float64))
    if not len(sizes) or sizes.min() == sizes.max():
        return []
    counts, edges = np.histogram(sizes, BINS)
    try:
        low, high = _bounds(size) or (0.0, np.inf)
    except ValueError:
        low, high = 0.0, np.inf
    middles = np.exp((edges[1:] + edges[:-1]) / 2)
    heights = np.ceil(46 * counts / counts.max()).astype(int).tolist()
    return [
        SizeBin(10 * place, 48 - height, height, bool(low <= middle <= high))
        for place, (height, middle) in enumerate(zip(heights, middles.tolist(), strict=True))
    ]


def fits(facets: Facets, bits: str) -> list[tuple[str, int]]:
    """How many models fit each memory of GPUS."""
    memory = facets.memory(bits)
    return [(gpu, int((memory <= float(gpu)).sum())) for gpu in GPUS]
