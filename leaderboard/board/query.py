"""What a reader asks of the board: all of its state, as the address has it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple, Self

from django.conf import settings
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import reverse

from leaderboard.models import Suite
from leaderboard.models.task import Style
from leaderboard.snapshot import OWN, Board, published
from leaderboard.web import Address, redirect_to, short_address

RAW, CHANCE = "raw", "chance"
ONLY, HIDE = "only", "hide"
COMPACT, NORMAL = "compact", "normal"
ALL_COLUMNS = "all"
TRAITS = ("merged", "moe", "flagged", "official", "chat", "asked", "adapter", "packed", "gone")
"""Filters that show only, or hide, the models of which something holds."""
CHOICES = ("type", "licence", "precision", "maker", "arch", "engine")
"""Filters by values, any of which may hold."""
FILTERS = ("q", "gpu", "size", *CHOICES, "since", "until", *TRAITS)
GPUS = ("8", "16", "24", "48", "80")
"""Memory of graphics cards in GB, of 2**30 bytes each."""
BITS = ("16", "8", "4")
"""Bits of a weight, where a reader asks for other ones than were measured."""
_LISTS = (*CHOICES, "cols", "pin", "m")
_ALLOWED: dict[str, tuple[str, ...]] = {
    "style": (OWN, *Style.values),
    "score": ("", RAW, CHANCE),
    "rows": (COMPACT, NORMAL),
    "gpu": ("", *GPUS),
    "bits": ("", *BITS),
    **dict.fromkeys(TRAITS, ("", ONLY, HIDE)),
}
_JOINED = {**dict.fromkeys(_LISTS, ","), "size": "-"}


@dataclass(frozen=True, kw_only=True)
class BoardQuery:
    """Every field as text. A value outside a closed choice has become the default; what readers
    write themselves (search, sizes, columns, dates, pins) stays, for the page to say what is wrong.
    """

    suite: str = field(default_factory=lambda: settings.PLUMBLINE_SUITE)
    """`name` or `name@version`."""
    style: str = OWN
    at: str = ""
    """As the board stood at the end of that day, YYYY-MM-DD; empty for now."""
    q: str = ""
    type: str = ""
    precision: str = ""
    size: str = ""
    """`low-high` in billions of parameters, either end may be omitted."""
    arch: str = ""
    licence: str = ""
    engine: str = ""
    maker: str = ""
    gpu: str = ""
    """One of GPUS: models that fit its memory."""
    bits: str = ""
    """One of BITS; empty for the precision in which a model was measured."""
    since: str = ""
    """First day on which a model came to the board, YYYY-MM-DD; and the last one."""
    until: str = ""
    merged: str = ""
    moe: str = ""
    flagged: str = ""
    official: str = ""
    chat: str = ""
    asked: str = ""
    adapter: str = ""
    packed: str = ""
    gone: str = ""
    cols: str = ""
    """Column keys; empty for the suite's first ten, `all` for all of them."""
    score: str = ""
    """RAW or CHANCE; empty for the scale that the suite averages."""
    sort: str = "average"
    page: str = "1"
    rows: str = NORMAL
    """NORMAL, each number over its range, or COMPACT."""
    pin: str = ""
    """Variants or repositories that stand on top."""
    m: str = ""
    """Variants that are ticked for comparing."""
    at_model: str = ""
    """A variant or repository whose page is shown and whose row is marked."""

    @classmethod
    def of(cls, request: HttpRequest) -> Self:
        address = Address(request, _defaults(settings.PLUMBLINE_SUITE), _JOINED)
        for name, allowed in _ALLOWED.items():
            address.choice(name, allowed)
        return cls(**{known.name: address[known.name] for known in fields(cls)})

    def many(self, name: str) -> list[str]:
        """The values of a field that may have several."""
        values: str = getattr(self, name)
        return [value for value in values.split(",") if value]

    @property
    def moment(self) -> datetime | None:
        """The end of the day `at`; None for now, or where it is no date."""
        start = midnight(self.at)
        return start + timedelta(days=1) if start and start.year < date.max.year else None

    @property
    def is_front_page(self) -> bool:
        """Whether nothing is asked but a suite."""
        return self == BoardQuery(suite=self.suite)

    def but(self, **changes: Any) -> Self:
        """The same with some fields changed."""
        return replace(self, **{name: str(value) for name, value in changes.items()})

    def url(self, fragment: str = "", *, to: str = "board", **changes: Any) -> str:
        """The short address of this view of the board, or of the same as a file, with changes."""
        values = {**vars(self), **{name: str(value) for name, value in changes.items()}}
        return short_address(reverse(to), values, _defaults(settings.PLUMBLINE_SUITE), fragment)

    def carried(self, *without: str) -> list[tuple[str, str]]:
        """The fields that a form passes on unseen: all that say something but these and the page.

        A suite other than the site's own is among them.
        """
        default = BoardQuery()
        return [
            (name, value)
            for name, value in vars(self).items()
            if name not in (*without, "page", "at_model") and value != getattr(default, name)
        ]

    def redirect(self, request: HttpRequest) -> HttpResponseRedirect | None:
        """To the short address, unless the request already came by it."""
        return redirect_to(request, self.url())


@lru_cache(maxsize=8)
def _defaults(suite: str) -> dict[str, str]:
    return dict(vars(BoardQuery(suite=suite)))


def midnight(day: str) -> datetime | None:
    """The begin of a day that is written YYYY-MM-DD, in UTC; None for anything else."""
    try:
        return datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC)
    except ValueError:
        return None


def chosen_board(suite: Suite, query: BoardQuery) -> Board | None:
    """The snapshot that the reader asks for; None where none was built by then."""
    if query.moment:
        return published.at(suite, query.style, query.moment)
    return published.newest(suite, query.style)


def date_problem(query: BoardQuery) -> list[str]:
    if not query.at or query.moment:
        return []
    return [f"“{query.at}” is no date. Write it as 2025-01-31. Without it the board is the newest."]


class Days(NamedTuple):
    """Which days a page can be seen as of; all in UTC."""

    shown: date | None
    """A past one; None for now."""
    first: date | None
    """Of the first snapshot."""
    before: date | None
    """The last with a snapshot before the one shown ..."""
    after: date | None
    """... and the first after it."""
    today: date


def days_of(suite: Suite, query: BoardQuery, first: date | None) -> Days:
    """`first` is the day of the first snapshot."""
    today = datetime.now(UTC).date()
    if query.moment is None:
        return Days(None, first, None, None, today)
    shown = (query.moment - timedelta(days=1)).date()
    days = published.days(suite, query.style)
    until = [day for day in days if day <= shown]
    after = [day for day in days if day > shown]
    before = until[1] if len(until) > 1 else None
    return Days(shown, first, before, after[-1] if after else None, today)


def as_it_stood(days: Days, page: BoardQuery | Address) -> dict[str, Any]:
    """What `web/as_it_stood.html` says of a past day, and where it leads."""
    return {
        "asked_at": days.shown,
        "now_url": page.url(at=""),
        "day_urls": [
            (day, page.url(at=day, page=1)) if day else None for day in (days.before, days.after)
        ],
    }


def style_label(style: str) -> str:
    return "Each task’s own" if style == OWN else str(Style(style).label)
