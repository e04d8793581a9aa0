"""Boards as they stood: built in the background, kept for good, read from memory.

A page never computes a board. It reads the newest snapshot and prints its time; a date in the past
reads an older one.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from django.db import Error
from django.db.models import Max, OuterRef, QuerySet, Subquery
from django.db.models.functions import TruncDate
from django.utils import timezone

from leaderboard.catalogue import newest_suite, suites_called
from leaderboard.models import BoardFault, BoardSnapshot, Edition, Recall, Run, Suite
from leaderboard.models import edition as editions
from leaderboard.samples import store as artifacts
from leaderboard.snapshot import build as board_builder
from leaderboard.snapshot import columns, recalled
from leaderboard.snapshot import file as snapshot_file
from leaderboard.snapshot.data import EVERY, OWN, Board
from leaderboard.web import kept

logger = logging.getLogger(__name__)

SOONEST = 5.0
"""Seconds between two snapshots of a board, at the least ..."""
REST = 3
"""... and so many times as long as the last one took to build."""
KEPT_WHOLE = timedelta(days=2)
"""Of older days only the last snapshot is kept."""
LONGEST_FAULT = 500
LARGE = 2_000_000
"""Bytes of a file that takes longer to read than a reader should wait."""


def edition(name: str) -> tuple[int, int | None] | None:
    """The suite that `newest_suite` finds, and the number of its boards' pages, with one query."""
    number = Edition.objects.filter(of=OuterRef("pk")).values("pages")
    return suites_called(name).annotate(n=Subquery(number)).values_list("pk", "n").first()


def newest(suite: Suite, style: str) -> Board | None:
    """The board as the newest snapshot has it; None where none was built yet.

    While a large one is being read, which takes long where another machine built it, the one before
    it goes on being shown.
    """
    return newest_of([(suite, style)]).get((suite.pk, style))


def newest_of(wanted: Sequence[tuple[Suite, str]]) -> dict[tuple[int, str], Board]:
    """By suite and style those boards that were built, found with one query."""
    if not wanted:
        return {}
    asked = [value for suite, style in wanted for value in (suite.pk, style)]
    rows = list(BoardSnapshot.objects.raw(_NEWEST.format(", ".join([_ONE] * len(wanted))), asked))
    recalls = _recalls(rows)
    return {(row.suite_id, row.style): _to_show(row, recalls) for row in rows}


def newest_and_first_day(suite: Suite, style: str) -> tuple[Board | None, date | None]:
    """The newest board with the day (UTC) of the first snapshot, found with one query."""
    both = _NEWEST.format(f"{_ONE}, {_ONE.replace('DESC', 'ASC')}")
    rows = sorted(
        BoardSnapshot.objects.raw(both, [suite.pk, style] * 2),
        key=lambda row: (row.built, row.pk),
    )
    return (_to_show(rows[-1], _recalls(rows)), day_of(rows[0])) if rows else (None, None)


def first_day(suite: Suite, style: str) -> date | None:
    """The day (UTC) of the first snapshot of this board."""
    first = _all_published(suite, style).order_by("built").first()
    return day_of(first) if first else None


def day_of(row: BoardSnapshot) -> date:
    return row.built.astimezone(UTC).date()


# In SQL: to make as many questions as a page has boards takes longer than to answer them.
_ONE = """(
    SELECT id FROM leaderboard_boardsnapshot WHERE suite_id = %s AND style = %s AND published
    ORDER BY built DESC, id DESC LIMIT 1
)"""
# Most of the time nothing is recalled, and then nothing more is asked.
_NEWEST = """
    SELECT *, (SELECT COUNT(*) FROM leaderboard_recall WHERE undone IS NULL) AS recalls
    FROM leaderboard_boardsnapshot WHERE id IN ({})
"""


def _recalls(rows: Sequence[BoardSnapshot]) -> list[Recall]:
    """Those that stand, as rows of _NEWEST know whether there are any."""
    counted = [getattr(row, "recalls") for row in rows]  # noqa: B009
    return recalled.standing() if any(counted) else []


def _to_show(row: BoardSnapshot, recalls: Sequence[Recall]) -> Board:
    sha256 = _at_hand(row)
    return recalled.shown(sha256, snapshot_file.board(sha256), recalls)


def _at_hand(row: BoardSnapshot) -> str:
    """The digest of its file, or of the one before while it is being read."""
    before = _in_use.get((row.suite_id, row.style), "")
    new = row.bytes >= LARGE and not snapshot_file.holds(row.sha256)
    if new and snapshot_file.holds(before):
        snapshot_file.read_beside(row.sha256)
        kept.only_for_now()
        return before
    _in_use[row.suite_id, row.style] = row.sha256
    return row.sha256


def styles_shown(suite_name: str) -> list[str]:
    """Every style in which the newest version of the suite has a board by now."""
    suite = newest_suite(suite_name)
    if suite is None:
        return []
    styles = styles_of(suite)
    found = newest_of([(suite, style) for style in styles])
    return [style for style in styles if (suite.pk, style) in found]


def at(suite: Suite, style: str, moment: datetime) -> Board | None:
    """The board as it stood then, without what was recalled since; None where it did not exist."""
    row = _published(suite, style, until=moment)
    if row is None:
        return None
    found = snapshot_file.past(row.sha256, shown=set(_in_use.values()))
    return recalled.shown(row.sha256, found, recalled.standing())


def days(suite: Suite, style: str) -> list[date]:
    """The days (UTC) that have a snapshot, the newest first."""
    rows = _all_published(suite, style)
    found = rows.annotate(day=TruncDate("built", tzinfo=UTC)).values_list("day", flat=True)
    return list(found.distinct().order_by("-day"))


def styles_of(suite: Suite) -> list[str]:
    """Every board that a suite has: own styles first, all side by side last."""
    asked = suite.entries.order_by("position").values_list("style", flat=True)
    return [OWN, *dict.fromkeys(asked), EVERY]


def build(suite: Suite, style: str) -> BoardSnapshot:
    """Build the board now and publish it, unless the newest snapshot shows the same already."""
    began = time.monotonic()
    last = _published(suite, style)
    if last is not None and not _is_whole(last):
        last = None
    try:
        earlier = snapshot_file.board(last.sha256) if last else None
    except snapshot_file.Unreadable:  # damaged since it was compared with its digest
        last = earlier = None
    board = board_builder.build(suite, style, timezone.now(), earlier)
    if last is not None and board.data_version == last.data_version:
        return last
    return publish(suite, board, seconds=time.monotonic() - began)


def publish(suite: Suite, board: Board, *, seconds: float) -> BoardSnapshot:
    """Show this board, which took so long to build, from now on: its file first, then its row."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "board.npz")
        snapshot_file.write(board, file)
        stored = artifacts.store(file, kind="board")
    snapshot_file.make_ready(stored.sha256)
    row = BoardSnapshot.objects.create(
        suite=suite,
        style=board.style,
        built=board.built,
        seconds=seconds,
        data_version=board.data_version,
        sha256=stored.sha256,
        bytes=stored.bytes,
        models_n=len(board.models),
        ranked_n=board.ranked,
    )
    with editions.changing():
        BoardSnapshot.objects.filter(pk=row.pk).update(published=True)
        editions.note("pages", of=[suite.pk])
    row.published = True
    return row


def build_first(suite: Suite) -> None:
    """Give a suite without any result its empty boards, so that nobody waits for those."""
    keys = {key for pair in suite.entries.values_list("run_key", "chat_run_key") for key in pair}
    if not Run.objects.filter(run_key__in=keys, state=Run.State.DONE).exists():
        for style in styles_of(suite):
            build(suite, style)


def forget() -> None:
    """Look at every board anew, as after a start: for tests, whose database goes back in time."""
    _shown.clear()
    _whole.clear()
    _in_use.clear()
    columns.forget()
    recalled.forget()


def build_due() -> int:
    """Build the boards of which something changed, each at its own pace; how many were built.

    One that cannot be built keeps none of the others from it. Raises what was raised, at the end.
    """
    built = 0
    faulty = set(BoardFault.objects.values_list("suite", "style"))
    numbers = editions.of_data()
    problems: list[Exception] = []
    for suite in Suite.objects.order_by("-created"):
        for style in styles_of(suite):
            try:
                built += _build_if_due(suite, style, numbers.get(suite.pk, 0))
            except Exception as problem:
                problem.add_note(f"suite {suite.name}, board of style {style}")
                problems.append(problem)
                _note_fault(suite, style, problem)
            else:
                if (suite.pk, style) in faulty:
                    BoardFault.objects.filter(suite=suite, style=style).delete()
    if problems:
        raise ExceptionGroup("boards that could not be built", problems)
    return built


def _note_fault(suite: Suite, style: str, problem: Exception) -> None:
    """For the operator's page; a database that does not answer is told of by the caller's log."""
    message = f"{type(problem).__name__}: {problem}"[:LONGEST_FAULT]
    with suppress(Error):
        BoardFault.objects.update_or_create(suite=suite, style=style, defaults={"message": message})


def _build_if_due(suite: Suite, style: str, number: int) -> bool:
    """Whether there is a new board; `number` is the edition of the suite's data."""
    last = _published(suite, style)
    if last and not _rested(last):
        return False
    if last and _shown.get(last.pk) == number and _is_whole(last):
        return False
    row = build(suite, style)
    _shown[row.pk] = number
    return row != last


def thin_out() -> int:
    """Remove the snapshots of past days but for the last of each; how many.

    Unpacked boards that nobody needs now go as well; their files stay.
    """
    old = BoardSnapshot.objects.filter(built__lt=timezone.now() - KEPT_WHOLE)
    last = (
        old.annotate(day=TruncDate("built", tzinfo=UTC))
        .values("suite", "style", "day")
        .annotate(last=Max("pk"))
        .values_list("last", flat=True)
    )
    going = list(old.exclude(pk__in=list(last)).values_list("pk", "sha256"))
    BoardSnapshot.objects.filter(pk__in=[pk for pk, _ in going]).delete()
    for sha256 in {sha256 for _, sha256 in going}:
        if not BoardSnapshot.objects.filter(sha256=sha256).exists():
            artifacts.remove(sha256)
    published = BoardSnapshot.objects.filter(published=True)
    newest = published.values("suite", "style").annotate(last=Max("pk")).values("last")
    current = BoardSnapshot.objects.filter(pk__in=newest).values_list("sha256", flat=True)
    snapshot_file.clear(set(current))
    return len(going)


_in_use: dict[tuple[int, str], str] = {}
"""By suite and style the digest of the board that was shown last."""
_shown: dict[int, int] = {}
"""By snapshot the newest number of its suite's data that it is known to show."""


_whole: set[str] = set()
"""Digests of files that were compared with them once."""


def _is_whole(row: BoardSnapshot) -> bool:
    """Whether the board's file is there and what was written; a damaged one is built again.

    All of it is read once a process, only its size is asked for each time.
    """
    try:
        found = artifacts.size(row.sha256) == row.bytes
        if found and row.sha256 not in _whole:
            found = artifacts.digest(row.sha256) == row.sha256
    except OSError:
        found = False
    if found:
        _whole.add(row.sha256)
    else:
        _whole.discard(row.sha256)
        logger.warning("board %s: its file %s is missing or damaged: built again", row, row.sha256)
    return found


def _rested(last: BoardSnapshot) -> bool:
    pause = timedelta(seconds=max(SOONEST, REST * last.seconds))
    return timezone.now() - last.built >= pause


def _all_published(suite: Suite, style: str) -> QuerySet[BoardSnapshot]:
    return BoardSnapshot.objects.filter(suite=suite, style=style, published=True)


def _published(suite: Suite, style: str, until: datetime | None = None) -> BoardSnapshot | None:
    rows = _all_published(suite, style)
    if until is not None:
        rows = rows.filter(built__lte=until)
    return rows.order_by("-built", "-pk").first()
