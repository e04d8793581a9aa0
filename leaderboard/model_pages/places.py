"""Where a commit of a model stands on the boards, or what keeps it from a rank."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from leaderboard.board import Wanted
from leaderboard.models import Suite
from leaderboard.models.task import Style
from leaderboard.snapshot import EVERY, OWN, Board, Score, Standing, published
from leaderboard.web import Scale


@dataclass(frozen=True)
class Place:
    """A row of one board."""

    board: Board
    row: int
    current: bool
    """Whether this is the newest version of its suite."""

    @property
    def style(self) -> str:
        return "" if self.board.style == OWN else self.board.style

    @property
    def style_words(self) -> str:
        return Style(self.style).label if self.style else "each task’s own style"

    @property
    def variant(self) -> int:
        return int(self.board.models.value(self.row, "variant"))

    @property
    def url(self) -> str:
        """The page of the board that it is on, with its row in sight."""
        board, variant = self.board, self.variant
        suite = board.suite if self.current else f"{board.suite}@{board.version}"
        wanted = Wanted(suite=suite, style=board.style, at_model=str(variant))
        return wanted.url(f"m{variant}")

    @property
    def rank(self) -> int:
        return int(self.board.ranks.rank[self.row])

    @property
    def span(self) -> str:
        return self.board.ranks.span(self.row)

    @property
    def worse_than(self) -> int:
        """Models that were shown to be better than it."""
        return int(self.board.ranks.low[self.row]) - 1

    @property
    def better_than(self) -> int:
        """Models that it was shown to be better than."""
        return self.board.ranked - int(self.board.ranks.high[self.row])

    @property
    def not_told_apart(self) -> int:
        return self.board.ranked - 1 - self.worse_than - self.better_than

    @property
    def cut(self) -> bool:
        ranks = self.board.ranks
        return bool(ranks.cut_low[self.row] or ranks.cut_high[self.row])

    @property
    def average(self) -> Score | None:
        return self.board.average_of(self.row)

    @property
    def superseded_by(self) -> str:
        return str(self.board.models.value(self.row, "superseded_by"))

    @property
    def apart(self) -> str:
        return str(self.board.models.value(self.row, "apart"))

    @property
    def flag_reason(self) -> str:
        return str(self.board.models.value(self.row, "flag_reason"))

    @property
    def missing(self) -> list[tuple[str, Standing]]:
        """The columns without a number, each with how it stands."""
        columns = enumerate(self.board.columns)
        found = [(column.title, self.board.standing_of(self.row, at)) for at, column in columns]
        return [(title, standing) for title, standing in found if standing is not Standing.SCORED]


@dataclass(frozen=True)
class Boards:
    """The newest boards that may have a model."""

    own: Board | None
    """Of the chosen suite, in the styles that it counts."""
    styled: tuple[Board, ...]
    """Of the chosen suite, in one style each."""
    every: Board | None
    """Of the chosen suite, with all styles side by side."""
    others: tuple[Board, ...]
    """Of other suites."""
    older: tuple[Board, ...]
    """Of versions that were submitted to and are not the newest."""


WORDS = ("description", "notice", "changelog", "reported")
"""Texts of a suite that no page of a model shows."""


def suites_of(submitted: Collection[int], site_suite: str) -> tuple[list[Suite], list[Suite]]:
    """The newest versions of the suites that were submitted to, the site's first; and older ones.

    `submitted` are primary keys; for none it is the site's suite.
    """
    rows = list(Suite.objects.order_by("created", "pk").defer(*WORDS))
    newest = {suite.name: suite for suite in rows}
    names = {suite.name for suite in rows if suite.pk in submitted} or {site_suite}
    current = [suite for suite in newest.values() if suite.name in names]
    older = [suite for suite in rows if suite.pk in submitted and suite not in current]
    current.sort(key=lambda suite: (suite.name != site_suite, suite.title))
    return current, older


def boards(
    suite: Suite | None,
    own: Board | None,
    suites: Iterable[Suite],
    older: Iterable[Suite],
    variant: int | None,
) -> Boards:
    """Those to look at for a variant; those in one style only where it is on the suite's own."""
    styles = own.styles if suite and own and variant in own.row_of else ()
    styled = [(suite, style) for style in styles if suite]
    others = [(other, OWN) for other in suites if other != suite]
    before = [(earlier, OWN) for earlier in older]
    every = [(suite, EVERY)] if suite and styles else []
    found = published.newest_of([*styled, *every, *others, *before])

    def built(wanted: Iterable[tuple[Suite, str]]) -> tuple[Board, ...]:
        keys = [(suite.pk, style) for suite, style in wanted]
        return tuple(found[key] for key in keys if key in found)

    return Boards(own, built(styled), next(iter(built(every)), None), built(others), built(before))


def place(board: Board | None, variant: int, *, current: bool = True) -> Place | None:
    """Where the variant stands; None where the board was not built or does not have it."""
    row = board.row_of.get(variant) if board else None
    return None if board is None or row is None else Place(board, row, current)


def places(boards: Boards, variant: int) -> list[Place]:
    """The suite's own board first, then each style that has an average, then other suites."""
    own = place(boards.own, variant)
    styled = [one for board in boards.styled if (one := place(board, variant)) and one.average]
    others = [place(board, variant) for board in boards.others]
    older = [place(board, variant, current=False) for board in boards.older]
    return [other for other in (own, *styled, *others, *older) if other]


def scale_of(places: Iterable[Place]) -> Scale:
    """One scale for all averages."""
    return Scale.over(found.average for found in places if found.average)
