"""The board's table: heads, bands of rows and cells, ready for `board/table.jinja`.

A page of every column has thousands of cells, so their texts are made column by column and joined
here; only rows and heads pass a template.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, floor
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

import numpy as np
from django.template import engines
from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from numpy.typing import NDArray

from evalcore.lengths import NAMES as LENGTHS
from leaderboard.board.filters import facets_of
from leaderboard.board.query import CHANCE, COMPACT, BoardQuery
from leaderboard.board.search import precision_of
from leaderboard.board.view import AVERAGE, MODEL, View, span_among
from leaderboard.models import HubModel
from leaderboard.models.run import lengths_of
from leaderboard.models.task import Style, is_share
from leaderboard.models.variant import Kind, way_of
from leaderboard.snapshot import (
    STANDINGS,
    Board,
    Column,
    Model,
    Scores,
    Standing,
    adjusted,
    positions,
    run_urls,
)
from leaderboard.templatetags.design import monogram, style_sign
from leaderboard.templatetags.figures import (
    decimals_of,
    ends,
    exactly,
    in_unit,
    ordinal,
    parameters,
    percent,
    plural,
    precise,
)

WIDE = 10
"""From more columns than this on, links are short and the table scrolls in its frame."""
CUT_SHORT = "<sup>†</sup>"
"""Beside a number of which much was cut short; a note says what it means."""
BAR_WIDTH, GPU_BAR_WIDTH, BAR_EDGE = 196, 420, 10
"""Width of the pictures of averages, and what is left free at their ends."""
STEPS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
"""Between two ticks of an average's scale; the first that makes do with MAX_TICKS."""
MAX_TICKS = 6
_SCORED, _RECALLED = STANDINGS.index(Standing.SCORED), STANDINGS.index(Standing.RECALLED)
_ANY_CUT = [LENGTHS.index(name) for name in ("prompts_cut", "by_length")]
_HERE = "\0"
"""Stands for a column in a link that is made once for all of them; no address has it itself."""
_HUB = {
    HubModel.HubState.GONE: "no longer on the Hub",
    HubModel.HubState.PRIVATE: "gated or private on the Hub",
    HubModel.HubState.RENAMED: "renamed on the Hub",
}


@dataclass(frozen=True)
class Scale:
    """From an average to a place in its picture, which is `width` wide."""

    low: float
    high: float
    width: int
    ticks: list[float]

    @classmethod
    def around(cls, low: float, high: float, width: int) -> Scale:
        """From the lowest bound to the highest, with ticks at full steps between."""
        low, high = (low, high) if high > low else (low - 0.005, low + 0.005)
        step = next((step for step in STEPS if (high - low) / step < MAX_TICKS), STEPS[-1])
        numbers = range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)
        return cls(low, high, width, [number * step for number in numbers])

    def x(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(BAR_EDGE + (self.width - 2 * BAR_EDGE) * share, 1)

    @property
    def labels(self) -> list[tuple[float, str]]:
        whole = all(abs(100 * tick - round(100 * tick)) < 1e-6 for tick in self.ticks)
        return [(self.x(t), f"{100 * t:.0f}" if whole else f"{100 * t:.1f}") for t in self.ticks]

    @property
    def grid(self) -> str:
        """The path of the lines at the ticks."""
        return "".join(f"M{self.x(tick):g} 0v44" for tick in self.ticks)


@dataclass(frozen=True)
class Head:
    """A column's head; `aria_sort` is empty unless the table is sorted by it."""

    key: str
    label: str
    sort_url: str
    aria_sort: str
    code: str = ""
    """What stands for the label on a phone."""
    column: Column | None = None
    task_url: str = ""
    sign: str = ""
    style: str = ""
    about: str = ""
    """Its questions, and what is to be known of them."""
    care: str = ""
    """Why it is to be read with care."""
    disputed: int = 0
    """Questions whose keys people dispute."""


class Copy(NamedTuple):
    """Another name of a row's weights."""

    name: str
    url: str
    average: str


@dataclass(frozen=True)
class Line:
    """One model; `rank` is empty where it has none."""

    row: int
    variant: int
    rank: str
    span: str
    place: str
    """Of a filtered board its place among the models shown."""
    sign: SafeString
    repo_id: str
    name: str
    url: str
    facts: str
    notes: list[str]
    copies: list[Copy]
    average: str
    interval: str
    picture: SafeString
    cells: SafeString
    """All of the row, as HTML."""
    ticked: bool
    marked: bool
    flagged: bool
    memory: str = ""


@dataclass
class Group:
    """Rows under one heading: `pinned`, `band`, `flat` or `missing`."""

    kind: str
    leader: str = ""
    """Of a band, the name of the model that the others are not told apart from."""
    others: int = 0
    then: bool = False
    """Whether a band is above it."""
    lines: list[Line] = field(default_factory=list)


@dataclass(frozen=True)
class Table:
    view: View
    scale: Scale
    model: Head
    average: Head
    columns: list[Head]
    groups: list[Group]
    people: list[str]
    """In each column; empty where nobody knows of any."""
    chance: list[str]
    average_of_chance: str
    cut_short: bool
    """Whether a number of the page is marked CUT_SHORT."""

    @property
    def wide(self) -> bool:
        return len(self.columns) > WIDE


def table_of(view: View, marks: dict[str, str] | None = None, *, gpu: str = "") -> Table:
    """The rows of one page under their heads.

    `marks` says by comparability key why a column is to be read with care. `gpu` makes the table
    of that card: ranks among what fits it, and memory in place of the columns.
    """
    rows = [*view.pins, *view.page_rows]
    shown = [] if gpu else view.columns
    seconds = seconds_of(view, rows)
    heads = [] if gpu else _column_heads(view, seconds, marks or {})
    scale = _average_scale(view, rows, GPU_BAR_WIDTH if gpu else BAR_WIDTH)
    columns_of_cells, cut_short = cells_by_column(view, shown, rows, seconds)
    cells = by_row(columns_of_cells, len(rows))
    lines = _lines(view, rows, scale, cells, gpu)
    pinned, others = lines[: len(view.pins)], lines[len(view.pins) :]
    groups = [*([Group("pinned", lines=pinned)] if pinned else []), *_groups(view, others)]
    columns = [head.column for head in heads if head.column]
    return Table(
        view=view,
        scale=scale,
        model=_head(view, MODEL, "Model"),
        average=_head(view, AVERAGE, "Average"),
        columns=heads,
        groups=groups,
        people=_baseline(columns, [_people_of(view, column) for column in columns]),
        chance=_baseline(columns, [_chance_of(view, column) for column in columns]),
        average_of_chance=percent(average_of_chance(view)),
        cut_short=cut_short,
    )


def rendered(table: Table, gpu: str = "", bits: str = "") -> SafeString:
    """The whole <table> element."""
    view = table.view
    heads = [table.average, table.model, *table.columns]
    template = engines["jinja2"].get_template("board/table.jinja")
    html = template.render(
        {
            "view": view,
            "board": view.board,
            "table": table,
            "gpu": gpu,
            "weights": f"{bits}-bit" if bits else "the measured precision",
            "sorted_by": next((h.label for h in heads if h.key == view.sort_key), view.sort_key),
            "width": 6 if gpu else len(table.columns) + 5,
            "compact": view.query.rows == COMPACT,
            "plural": plural,
        }
    )
    return mark_safe(html)  # noqa: S308 the template escapes


# Heads


def _head(view: View, key: str, label: str) -> Head:
    return Head(key, label, _sort_url(view, key), _aria_sort(view, key))


def _sort_url(view: View, key: str) -> str:
    """The first click sorts the usual way, the next one turns it round."""
    sort = f"-{key}" if view.query.sort == key else key
    return view.query.url(sort=sort, page=1, at_model="")


def _aria_sort(view: View, key: str) -> str:
    return ("ascending" if view.ascending else "descending") if view.sort_key == key else ""


def _column_heads(
    view: View, seconds: dict[int, adjusted.AdjustedScores], marks: dict[str, str]
) -> list[Head]:
    # Made once: an address takes longer to make than all else in a head.
    sort_url, task_url = _sort_url(view, _HERE), reverse("task", args=[_HERE])
    columns = [view.board.columns[place] for place in view.columns]
    heads = []
    for place, column, code in zip(view.columns, columns, _codes(columns), strict=True):
        key = view.keys[place]
        disputed = seconds[place].removed if place in seconds else 0
        own_url = _sort_url(view, key) if key == view.sort_key else ""
        heads.append(
            Head(
                key,
                column.title,
                own_url or sort_url.replace("%00", quote_plus(key)),
                _aria_sort(view, key),
                code,
                column,
                task_url.replace("%00", quote(column.task)),
                style_sign(column.style),
                str(Style(column.style).label),
                _about(view, column, disputed),
                marks.get(column.comparability_key, ""),
                disputed,
            )
        )
    return heads


def _about(view: View, column: Column, disputed: int) -> str:
    facts = [column.title]
    if column.n:
        facts.append(plural(column.n, "question"))
    if column.draws > 1:
        facts.append(f"{column.draws} draws of examples")
    facts.append(f"scored by {column.metric}")
    chance, people = _chance_of(view, column), _people_of(view, column)
    if chance is not None:
        facts.append(f"guessing scores {in_unit(chance, column.metric)}")
    if people is not None:
        facts.append(f"people {in_unit(people, column.metric)} ({column.people_source})")
    if disputed:
        facts.append(f"the keys of {disputed:,} are disputed")
    if not column.counts:
        facts.append("not in the average")
    return " · ".join(facts)


_WORDS = re.compile(r"[^\W_]+")


@lru_cache(maxsize=64)
def _codes_of(titles: tuple[str, ...]) -> list[str]:
    """Five letters at most for each title, different ones as far as its words allow."""
    codes: list[str] = []
    for title in titles:
        words = _WORDS.findall(title) or [title[:1] or "?"]
        initials = "".join(word[0] for word in words)
        choices = [words[0][:5], words[-1][:5], initials[:5], f"{words[0][:3]}{len(codes) + 1}"]
        codes.append(next((code for code in choices if code not in codes), choices[-1]))
    return codes


def _codes(columns: Sequence[Column]) -> list[str]:
    return _codes_of(tuple(column.title for column in columns))


def _baseline(columns: Sequence[Column], values: Sequence[float | None]) -> list[str]:
    """In each column's unit; nothing where no column has one."""
    pairs = zip(columns, values, strict=True)
    texts = [in_unit(value, column.metric) for column, value in pairs]
    return texts if any(texts) else []


def _chance_of(view: View, column: Column) -> float | None:
    if view.scale == CHANCE:
        return 0.0 if is_share(column.metric) else None
    return column.chance


def _people_of(view: View, column: Column) -> float | None:
    if column.people is None or view.scale != CHANCE:
        return column.people
    if column.chance is None:
        return None
    return (column.people - column.chance) / (1 - column.chance)


def average_of_chance(view: View) -> float | None:
    """The average of a random guesser, where every column of it knows its own."""
    if view.scale == CHANCE:
        return 0.0
    known = [view.board.columns[place].chance for place in view.averaged]
    chances = [chance for chance in known if chance is not None]
    return sum(chances) / len(known) if known and len(chances) == len(known) else None


# Cells


def seconds_of(view: View, rows: Sequence[int]) -> dict[int, adjusted.AdjustedScores]:
    """By column the scores without disputed questions: they rank nothing and are told beside the
    first. What is disputed now says nothing of a past day, nor of scores from chance."""
    if view.query.moment or view.scale == CHANCE:
        return {}
    return adjusted.of_board(view.board, rows, view.columns)


def cells_by_column(
    view: View,
    columns: Sequence[int],
    rows: Sequence[int],
    seconds: dict[int, adjusted.AdjustedScores],
) -> tuple[list[list[str]], bool]:
    """The cells of each column as HTML, and whether any number is marked CUT_SHORT."""
    board, block = view.board, np.ix_(np.array(rows, np.intp), np.array(columns, np.intp))
    chosen = Scores(*(side[block] for side in view.scores.sides))
    heat, best = positions.heat_of(board)[block], _is_best(view, block)
    unscored = (board.standing[block] != _SCORED) | np.isnan(chosen.value)
    lengths = board.lengths[block]
    by_column, marked = [], False
    for at, place in enumerate(columns):
        metric = board.columns[place].metric
        urls = _urls(view, place, rows, wide=len(columns) > WIDE)
        titles, marks = _remarks(board, place, rows, lengths[:, at], seconds.get(place))
        # A wide table has no room for second figures: there they stand in the titles alone.
        shown = seconds[place].of_rows if place in seconds and len(columns) <= WIDE else {}
        below = {row: adjusted.mark(second, metric) for row, second in shown.items()}
        marked = marked or bool(marks)
        sides = (side[:, at].tolist() for side in (chosen.value, chosen.low, chosen.high))
        classes = _CLASSES[heat[:, at] + 6 * best[:, at]].tolist()
        texts = _texts(*sides, share=is_share(metric))
        by_column.append(
            [
                _missing(board, row, place, url)
                if missing
                else f'<td role="cell" class="n{css}"><a href="{url}"{titles.get(row, "")}>'
                f'<b>{text}{marks.get(row, "")}</b><span class="iv">{interval}</span>'
                f"{below.get(row, '')}</a></td>"
                for row, missing, css, url, (text, interval) in zip(
                    rows, unscored[:, at].tolist(), classes, urls, texts, strict=True
                )
            ]
        )
    return by_column, marked


def by_row(columns: Sequence[Sequence[str]], rows: int) -> list[SafeString]:
    """The cells of each of so many rows, joined."""
    if not columns:
        return [SafeString()] * rows
    return [mark_safe("".join(cells)) for cells in zip(*columns, strict=True)]  # noqa: S308


_CLASSES = np.array(
    [f"{f' h{step}' if step else ''}{best}" for best in ("", " best") for step in range(6)]
)


def _is_best(view: View, block: Any) -> NDArray[np.bool_]:
    """Which of these cells are the best of their whole column, whatever the filters leave; among
    the models that may be ranked."""
    board, (rows, columns) = view.board, (np.ravel(side) for side in block)
    members, value = board.comparable, view.scores.value
    field = value[members][:, columns]
    highest = np.fmax.reduce(field, axis=0, initial=np.nan)
    lowest = np.fmin.reduce(field, axis=0, initial=np.nan)
    shares = np.array([is_share(board.columns[place].metric) for place in columns], np.bool_)
    best: NDArray[np.bool_] = value[block] == np.where(shares, highest, lowest)
    return best & members[rows][:, None]


def _texts(
    values: Sequence[float], lows: Sequence[float], highs: Sequence[float], *, share: bool
) -> Iterator[tuple[str, str]]:
    """Each value with the ends of its interval."""
    written = percent if share else decimals_of
    for value, low, high in zip(values, lows, highs, strict=True):
        yield written(value), ends(written(low), written(high))


def _urls(view: View, place: int, rows: Sequence[int], *, wide: bool) -> list[str]:
    """The run of each row; of a wide table by its model and column, which is shorter."""
    runs = view.board.run[np.array(rows, np.intp), place]
    urls = run_urls(runs)
    if not wide:
        return urls
    begin, end = cell_urls(view.query).split(_HERE)
    variants = view.board.models.take(rows).values("variant")
    key = quote(view.keys[place], safe="")
    return [
        f"{begin}{variant}/{key}{end}" if url else ""
        for variant, url in zip(variants, urls, strict=True)
    ]


def cell_urls(query: BoardQuery) -> str:
    """Where a wide table's cells lead, with a hole for model and column, escaped."""
    of_board = BoardQuery(suite=query.suite, style=query.style, at=query.at)
    address = of_board.url().partition("?")[2]
    return f"/cells/{_HERE}" + (f"?{escape(address)}" if address else "")


def _remarks(
    board: Board,
    place: int,
    rows: Sequence[int],
    lengths: NDArray[Any],
    seconds: adjusted.AdjustedScores | None,
) -> tuple[dict[int, str], dict[int, str]]:
    """By row what a number says where one points at it, as an attribute; and the mark beside it."""
    told: dict[int, list[str]] = {}
    marks = {}
    for at in np.flatnonzero(np.any(lengths[:, _ANY_CUT], axis=1)).tolist():
        counts = lengths_of(lengths[at].tolist())
        if counts and counts.told:
            told.setdefault(rows[at], []).append(counts.told)
            if counts.is_large:
                marks[rows[at]] = CUT_SHORT
    if (draws := board.columns[place].draws) > 1:
        for row in rows:
            spread = precise(float(board.sd_of_draws[row, place]))
            told.setdefault(row, []).append(
                f"mean of {draws} draws of examples, standard deviation between draws {spread}"
            )
    for row, second in (seconds.of_rows if seconds else {}).items():
        words = f"without {plural(second.removed, 'disputed question')} {exactly(second.score)}"
        told.setdefault(row, []).append(words)
    return {row: f' title="{escape("; ".join(words))}"' for row, words in told.items()}, marks


def _missing(board: Board, row: int, place: int, url: str) -> str:
    """A dash over the reason why there is no number."""
    standing = board.standing_of(row, place)
    # A group of which a part is missing has a score, but none that is taken from chance.
    words = "not by part" if standing is Standing.SCORED else standing.value
    why = escape(board.why.get((row, place), ""))
    inner = f'<b aria-hidden="true">—</b><span class="iv">{words}</span>'
    if why:
        inner += f'<span class="sr">: {why}</span>'
    title = f' title="{why}"' if why else ""
    if url:
        return f'<td role="cell" class="n none"><a href="{url}"{title}>{inner}</a></td>'
    return f'<td role="cell" class="n none"><span class="na"{title}>{inner}</span></td>'


# Rows


def _average_scale(view: View, rows: Sequence[int], width: int) -> Scale:
    """One for all rows of the page, also for a band's leader on the page before."""
    leader = [view.bands[band].leader for row in rows if (band := band_of(view, row)) >= 0]
    chosen = view.average.rows(np.array([*rows, *leader], np.intp))
    low = float(np.fmin.reduce(chosen.low, initial=np.nan)) if len(rows) else np.nan
    high = float(np.fmax.reduce(chosen.high, initial=np.nan)) if len(rows) else np.nan
    if low != low:
        low, high = 0.0, 1.0
    return Scale.around(low, high, width)


def _lines(
    view: View, rows: Sequence[int], scale: Scale, cells: Sequence[SafeString], gpu: str
) -> list[Line]:
    """The page's rows, the pinned ones first."""
    board = view.board
    listed = board.models.take(rows)
    several = facets_of(board).several(rows)
    model_url = reverse("model", args=["x"]).removesuffix("x")
    recalled = (board.standing[np.array(rows, np.intp)] == _RECALLED).sum(axis=1).tolist()
    averages = view.average.rows(np.array(rows, np.intp))
    texts = _texts(*(side.tolist() for side in averages.sides), share=True)
    memory = facets_of(board).memory(view.query.bits) if gpu else None
    lines = []
    for row, model, is_one_of_several, n_recalled, of_row, (average, interval) in zip(
        rows, listed, several, recalled, cells, texts, strict=True
    ):
        ranked = not view.own_choice and bool(board.ranks.rank[row])
        has_average = not np.isnan(view.average.value[row])
        rank, span, place = _rank(view, row, gpu) if ranked else ("", "", "")
        lines.append(
            Line(
                row=row,
                variant=model.variant,
                rank=rank,
                span=span,
                place=place,
                sign=monogram(model.repo_id.rpartition("/")[0] or model.repo_id),
                repo_id=model.repo_id,
                name=model.repo_id.rpartition("/")[2],
                url=model_url + quote(model.repo_id),
                facts=_facts(model, several=is_one_of_several),
                notes=_notes(model, n_recalled),
                copies=[_copy(view, copy, model_url) for copy in view.copies.get(row, ())],
                average=average if has_average else "",
                interval=interval if has_average else "",
                picture=_picture(view, row, scale),
                cells=of_row,
                ticked=row in view.ticked,
                marked=row == view.marked,
                flagged=model.flagged,
                memory=_memory_picture(float(memory[row]), model, view.query.bits, int(gpu))
                if memory is not None
                else SafeString(),
            )
        )
    return lines


def _rank(view: View, row: int, gpu: str) -> tuple[str, str, str]:
    """A rank with the ranks that are not excluded, and its place among the models shown."""
    ranks = view.board.ranks
    if gpu:
        rank, low, high = span_among(view.board, view.rows, row)
        return f"{rank:,}", f"{low:,}–{high:,}", ""
    rank = int(ranks.rank[row])
    place = ""
    if view.found_ranks is not None:
        at = int(np.searchsorted(view.found_ranks, rank))
        if at < len(view.found_ranks) and view.found_ranks[at] == rank:
            place = f"{ordinal(at + 1)} of the {len(view.found_ranks):,} shown"
    return f"{rank:,}", ranks.span(row), place


def _facts(model: Model, *, several: bool) -> str:
    size = parameters(model.parameters)
    facts = [model.repo_id.rpartition("/")[0], f"{size} MoE" if model.moe else size]
    if model.kind:
        facts.append(Kind(model.kind).label.lower())
    if precision_of(model) not in ("bfloat16", "float16"):
        facts.append(precision_of(model))
    if several:
        facts.append(f"@{model.commit[:7]}")
    facts.append(way_of(model))
    return " · ".join(filter(None, facts))


def _notes(model: Model, recalled: int) -> list[str]:
    notes = []
    if model.flag_reason:
        notes.append(f"Flagged: {model.flag_reason}")
    if recalled:
        verb = "was recalled and counts" if recalled == 1 else "were recalled and count"
        notes.append(f"{plural(recalled, 'result')} {verb} nowhere")
    if model.apart:
        notes.append(model.apart)
    if model.superseded_by:
        notes.append(f"Its newer commit @{model.superseded_by[:7]} is ranked instead")
    if model.hub_state in _HUB:
        words = _HUB[HubModel.HubState(model.hub_state)]
        notes.append(words[0].upper() + words[1:])
    return notes


def _copy(view: View, row: int, model_url: str) -> Copy:
    repo_id = view.board.models.value(row, "repo_id")
    average = float(view.average.value[row])
    return Copy(repo_id, model_url + quote(repo_id), "" if np.isnan(average) else percent(average))


def band_of(view: View, row: int) -> int:
    """Which of the view's bands a row stands in; -1 for none."""
    place = int(view.board.place_among_ranked[row])
    if place < 0 or row in view.pins:
        return -1
    return int(np.searchsorted(view.band_starts, place, side="right")) - 1


def _picture(view: View, row: int, scale: Scale) -> SafeString:
    """The average's interval with its value, and the plumb line of the band's leader behind it."""
    value, low, high = (float(side[row]) for side in view.average.sides)
    if value != value:
        return mark_safe(f'<path class="grid" d="{scale.grid}"/>')  # noqa: S308
    parts = [f'<path class="grid" d="{scale.grid}"/>']
    if (number := band_of(view, row)) >= 0:
        band = view.bands[number]
        x = scale.x(float(view.average.value[band.leader]))
        top, bottom = 22 if row == band.leader else 0, 24 if row == band.last else 44
        parts.append(f'<path class="plumb" d="M{x:g} {top}V{bottom}"/>')
        if row == band.last:
            parts.append(f'<path class="bob" d="M{x - 4:g} 24h8v6l-4 9-4-9z"/>')
    left, right = scale.x(low), scale.x(high)
    parts.append(
        f'<rect class="span" x="{left:g}" y="17" width="{max(right - left, 1):.1f}" height="10"'
        f' rx="3"/><rect class="pt" x="{scale.x(value) - 1.5:g}" y="13" width="3" height="18"'
        ' rx="1"/>'
    )
    return mark_safe("".join(parts))  # noqa: S308 numbers of our own


def _memory_picture(need: float, model: Model, bits: str, gpu: int) -> SafeString:
    """What a model needs of a card's memory: weights, context, and a line at what there is."""
    per_gb = 205.7 / gpu
    weights = (need - 0.5) / 1.2
    words = f"{need:.1f} GB"
    return mark_safe(  # noqa: S308 numbers of our own
        f'<rect class="mem-w" y="10" width="{weights * per_gb:.1f}" height="10"/>'
        f'<rect class="mem-c" x="{weights * per_gb:.1f}" y="10"'
        f' width="{(need - weights) * per_gb:.1f}" height="10"/>'
        '<path class="plumb" d="M205.7 0v44"/>'
        f'<text class="t-ink t-b" x="0" y="36">{words}</text>'
        f'<text class="t-3 t-11" x="58" y="36">{gpu - need:.1f} to spare'
        f"{'' if bits else f', {precision_of(model)}'}</text>"
    )


def _groups(view: View, lines: Iterable[Line]) -> list[Group]:
    """The page's rows by band where bands are shown; those without an average always last."""
    groups: list[Group] = []
    current: int | None = None
    for line in lines:
        number = band_of(view, line.row)
        if not line.average and view.sort_key == AVERAGE:
            number = -2
        elif number < 0 and current is not None and current > -2:
            # It keeps its place by score and is of no band: the bracket goes on around it.
            number = current
        if number != current:
            groups.append(_group(view, number))
            current = number
        groups[-1].lines.append(line)
    return groups


def _group(view: View, number: int) -> Group:
    if number < 0:
        return Group("flat" if number == -1 else "missing")
    band = view.bands[number]
    leader = view.board.models.value(band.leader, "repo_id").rpartition("/")[2]
    return Group("band", leader, band.others, then=number > 0)
