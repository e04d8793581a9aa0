"""What every tab of the charts has: a finding, a figure, and one table for the page and its files.

A figure is plotly's. Its colours are tokens of the stylesheet, `var(--ink)`; `charts.js` replaces
them by what they are in the reader's theme, and gives the figure the site's look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from django.urls import reverse

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

LONGEST_LABEL = 32
"""Letters of a name in a picture; the whole one is in its card and in the table."""


class Cell(NamedTuple):
    """A cell of the table, with its range or another small line beneath."""

    text: str
    note: str = ""
    url: str = ""

    @classmethod
    def of_model(cls, repo_id: str, note: str = "") -> Cell:
        return cls(repo_id, note, reverse("model", args=[repo_id]))

    @property
    def label(self) -> str:
        """For a picture: without the maker, and as plotly takes it, which reads some markup."""
        name = self.text.rpartition("/")[2]
        cut = name if len(name) <= LONGEST_LABEL else f"{name[: LONGEST_LABEL - 1]}…"
        return escape(cut, quote=False)


class Group(NamedTuple):
    """An entry of the legend: dots of one shape of plotly's and one token of the stylesheet."""

    label: str
    symbol: str
    token: str
    n: int = 0

    def add_dots(
        self, figure: Figure, number: int, cards: Sequence[list[Cell]], size: int, **trace: Any
    ) -> None:
        """Each dot has the row of the table that its card shows; groups are told by `number`."""
        look = {"symbol": self.symbol, "color": f"var(--{self.token})", "size": size}
        rows = [[list(cell) for cell in card] for card in cards]
        figure.add_scatter(mode="markers", marker=look, legendgroup=str(number), customdata=rows,
                           hoverinfo="none" if rows else "skip", **trace)  # fmt: skip


class Choice(NamedTuple):
    """A field of the form beside the picture; the first of its options is the usual one."""

    name: str
    label: str
    options: Mapping[str, str]
    """Label by value."""
    chosen: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    title: str
    """What is drawn, as in “Average against size”."""
    finding: tuple[str, str]
    """What the numbers say in one sentence, and what that rests on; a plain question and nothing
    where they say nothing."""
    name: str
    """Of its files, without suite and version."""
    about: Mapping[str, str]
    """What its files are of, besides the suite."""
    counts: dict[str, int]
    """How many models there are in it, and are not."""
    heads: Sequence[str]
    """Of the table's columns: the row's name, its main number, then anything else."""
    rows: int
    lines: Callable[[slice], list[list[Cell]]]
    """A part of the table in words."""
    batches: Callable[[], Iterator[pa.RecordBatch]]
    """The whole table in full precision."""
    figure: Callable[[slice], Figure] | None
    """Of all rows, or of a part where all would be too many; None for an SVG, or for nothing."""
    rows_are: str = "models"
    per_page: int = 50
    legend: Sequence[Group] = ()
    choices: Sequence[Choice] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    """What the template's own words and picture are made of."""
