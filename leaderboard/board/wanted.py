"""What a reader asked of the board: all of its state, as the address has it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, Self

from django.conf import settings
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import reverse

from leaderboard.models.task import Style
from leaderboard.snapshot.data import OWN
from leaderboard.web.address import Address, redirect_to, short_address

RAW, CHANCE = "raw", "chance"
ONLY, HIDE = "only", "hide"
COMPACT, NORMAL, TALL = "compact", "normal", "tall"
ALL_COLUMNS = "all"
YES_OR_NO = ("merged", "moe", "flagged", "official", "chat", "gone")
"""Filters that show only, or hide, the models of which something holds."""
CHOICES = ("type", "precision", "arch", "licence")
"""Filters by values, any of which may hold."""
_LISTS = (*CHOICES, "cols", "pin", "m")
_ALLOWED: dict[str, tuple[str, ...]] = {
    "style": (OWN, *Style.values),
    "score": ("", RAW, CHANCE),
    "rows": (COMPACT, NORMAL, TALL),
    **dict.fromkeys(YES_OR_NO, ("", ONLY, HIDE)),
}
_JOINED = {**dict.fromkeys(_LISTS, ","), "size": "-"}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Every field as text. What is none of a closed choice has become the default; what readers
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
    """`low-high` in billions of parameters, either end may miss."""
    arch: str = ""
    licence: str = ""
    merged: str = ""
    moe: str = ""
    flagged: str = ""
    official: str = ""
    chat: str = ""
    gone: str = ""
    cols: str = ""
    """Column keys; empty for the suite's first ten, `all` for all of them."""
    score: str = ""
    """RAW or CHANCE; empty for the scale that the suite averages."""
    sort: str = "average"
    page: str = "1"
    rows: str = NORMAL
    """Height of the rows."""
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
        return cls(**{one.name: address[one.name] for one in fields(cls)})

    def many(self, name: str) -> list[str]:
        """The values of a field that may have several."""
        values: str = getattr(self, name)
        return [value for value in values.split(",") if value]

    @property
    def moment(self) -> datetime | None:
        """The end of the day `at`; None for now, or where it is no date."""
        try:
            day = date.fromisoformat(self.at)
            return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)
        except (ValueError, OverflowError):
            return None

    def but(self, **changes: Any) -> Self:
        """The same with some fields changed."""
        return replace(self, **{name: str(value) for name, value in changes.items()})

    def url(self, fragment: str = "", *, to: str = "board", **changes: Any) -> str:
        """The short address of this view of the board, or of the same as a file, with changes."""
        values = {**vars(self), **{name: str(value) for name, value in changes.items()}}
        return short_address(reverse(to), values, _defaults(settings.PLUMBLINE_SUITE), fragment)

    def redirect(self, request: HttpRequest) -> HttpResponseRedirect | None:
        """To the short address, unless the request already came by it."""
        return redirect_to(request, self.url())


@lru_cache(maxsize=8)
def _defaults(suite: str) -> dict[str, str]:
    return dict(vars(Wanted(suite=suite)))
