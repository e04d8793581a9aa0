"""Which models or runs an address asks to compare, and what is wrong with the others.

Whatever can be compared is; each of the others is named with its remedy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.conf import settings
from django.urls import reverse

from leaderboard.board import BoardQuery, chosen_board, rows_named
from leaderboard.catalogue import suite_asked_for
from leaderboard.compare.questions import SHOWN, SORTS
from leaderboard.compare.table import MOST_MODELS, Lineup, lineup_of_models, lineup_of_runs
from leaderboard.models import MEASURED, Run, Suite
from leaderboard.models.task import Style
from leaderboard.queue import listed, title_of
from leaderboard.snapshot import EVERY, OWN, Board
from leaderboard.web import Address

JOINED = {"m": ",", "run": ","}
WHO = ("suite", "style", "at", "m", "run")
"""Fields that say who is compared; the rest chooses what of it is shown."""
DETAIL = ("task", "part", "show", "sort", "page", "doc", "spaces")
"""Fields about the questions of one pair."""
ALLOWED: dict[str, Collection[str]] = {
    "style": (OWN, *Style.values, EVERY),
    "spaces": ("", "1"),
    "show": ("", *SHOWN),
    "sort": SORTS,
}
"""What some fields may say."""
LONGEST = 60
"""Characters of what somebody wrote that are shown again."""


def fields() -> dict[str, str]:
    """The page's state in the address, each field with what it says when it is not there."""
    return {
        "suite": settings.PLUMBLINE_SUITE,
        "style": OWN,
        **dict.fromkeys(("at", "m", "run", "base", "vs", "task", "part", "show"), ""),
        "sort": "size",
        **dict.fromkeys(("page", "doc", "spaces", "q"), ""),
    }


@dataclass(frozen=True)
class Problem:
    """What is wrong, with a page that helps."""

    text: str
    url: str = ""
    label: str = ""


@dataclass(frozen=True)
class Query:
    """What an address asks to compare, resolved."""

    address: Address
    suite: Suite | None = None
    board: Board | None = None
    rows: Sequence[int] = ()
    """Of the board."""
    runs: Sequence[Run] = ()
    """Compared in place of models, where the address names any."""
    problems: list[Problem] = field(default_factory=list)

    @property
    def keys(self) -> list[str]:
        """What addresses call those that are compared."""
        if self.runs or self.board is None:
            return [str(run.pk) for run in self.runs]
        return [str(self.board.models[row].variant) for row in self.rows]

    @property
    def field(self) -> str:
        """The field that names them."""
        return "run" if self.address["run"] else "m"

    @property
    def lineup(self) -> Lineup | None:
        """None for fewer than two."""
        if len(self.keys) < 2:
            return None
        if self.board is None:
            return lineup_of_runs(self.runs)
        return lineup_of_models(self.board, self.rows)

    def url(self, keys: Iterable[str], fragment: str = "", **changes: str) -> str:
        """The address that compares others, from the beginning."""
        gone = dict.fromkeys(("base", "vs", "q", *DETAIL), "") | {"sort": "size"}
        return self.address.url(fragment, **gone | {self.field: ",".join(keys)} | changes)

    @property
    def settled(self) -> Address:
        """The address as it is today: earlier ones named a baseline, and a pair among several.

        The baseline is the first of those that are compared; the questions of a pair are on a page
        of the pair.
        """
        keys, address = self.keys, self.address
        base = address.choice("base", keys) or keys[0]
        others = [key for key in keys if key != base]
        against = address.choice("vs", others)
        defaults = fields()
        asks_for_detail = any(address[name] != defaults[name] for name in ("vs", *DETAIL))
        if len(others) > 1 and asks_for_detail:
            others = [against or others[0]]
        new = [base, *others]
        named = address[self.field] if new == keys else ",".join(new)
        return address.at(**{self.field: named}, base="", vs="")


def read(address: Address) -> Query:
    """Whom the address asks for. Raises Http404 for a suite that does not exist."""
    for name, allowed in ALLOWED.items():
        address.choice(name, allowed)
    return _of_runs(address) if address["run"] else _of_models(address)


def _of_models(address: Address) -> Query:
    suite = suite_asked_for(address["suite"])
    wanted = BoardQuery(style=address["style"], at=address["at"])
    board = chosen_board(suite, wanted) if suite else None
    if board is None:
        return Query(address, suite)
    rows: list[int] = []
    problems: list[Problem] = []
    for name in filter(None, address["m"].split(",")):
        named = rows_named(board, name)
        if not named:
            problems.append(_unknown_model(name, board))
        elif named[0] not in rows:
            rows.append(named[0])
    if len(rows) > MOST_MODELS:
        problems.append(_too_many("models", [board.models[row].repo_id for row in rows]))
    if address["at"] and not wanted.moment:
        problems.append(Problem(f"“{address['at'][:20]}” is no date. Write it as 2026-01-31."))
    return Query(address, suite, board, rows[:MOST_MODELS], problems=problems)


def _of_runs(address: Address) -> Query:
    """Finished runs of one benchmark: that of `base` where it is among them, else of the first."""
    problems: list[Problem] = []
    keys: list[UUID] = []
    for name in address["run"].split(","):
        try:
            keys.append(UUID(name))
        except ValueError:
            problems.append(
                Problem(
                    f"“{_cut(name)}” is not a run. A run has an address such as "
                    "/runs/0b7e…; put what follows /runs/ here."
                )
            )
    known = listed(Run.objects.select_related("recall")).in_bulk(set(keys))
    measured: list[Run] = []
    for key in dict.fromkeys(keys):
        run = known.get(key)
        if run is None:
            problems.append(Problem(f"There is no run {key}. Copy its address from its page."))
        elif run.recall is None and run.state in MEASURED:
            measured.append(run)
        else:
            problems.append(_unusable(run))
    base = next((run for run in measured if str(run.pk) == address["base"]), None)
    first = base or next(iter(measured), None)
    runs = []
    for run in measured:
        if first and run.task.benchmark == first.task.benchmark:
            runs.append(run)
        elif first:
            problems.append(_of_another_benchmark(run, first))
    if len(runs) > MOST_MODELS:
        problems.append(_too_many("runs", [run.variant.hub_model.repo_id for run in runs]))
    if address["m"]:
        problems.append(Problem("Both m and run are asked for; the runs are compared."))
    of_task = Suite.objects.filter(entries__task=first.task if first else None)
    suite = of_task.order_by("-created").first()
    return Query(address, suite, runs=runs[:MOST_MODELS], problems=problems)


def _unusable(run: Run) -> Problem:
    name = f"{run.variant.hub_model.repo_id} on {title_of(run)}"
    if run.recall is not None:
        text = f"{name} was recalled: {run.recall.reason}. Compare the run that replaces it."
    else:
        state = run.get_state_display().lower()
        text = f"{name} is {state}, so it has no answers to compare."
    return Problem(text, run.get_absolute_url(), "See the run")


def _of_another_benchmark(run: Run, first: Run) -> Problem:
    return Problem(
        f"{run.variant.hub_model.repo_id} was asked {title_of(run)}, the first {title_of(first)}. "
        "Two benchmarks have no question in common.",
        f"{reverse('compare')}?run={run.pk}",
        f"Compare others on {title_of(run)}",
    )


def _too_many(what: str, repo_ids: Sequence[str]) -> Problem:
    left_out = ", ".join(repo_ids[MOST_MODELS:])
    return Problem(
        f"A page compares two to {MOST_MODELS} {what}, and {len(repo_ids)} are chosen. Not shown: "
        f"{left_out}. Remove one of the others to see them."
    )


def _unknown_model(name: str, board: Board) -> Problem:
    what = f"the number {_cut(name)}" if name.isdigit() else f"the ID “{_cut(name)}”"
    return Problem(
        f"No model has {what} on {board.title} {board.version}. "
        "Tick models on the board, or search below."
    )


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
