"""What a model's page is made from, found with few queries: enough to tell whether one that was
kept is still right.

Everything on the page is either in `Known.stamp` or changes only with something that is: numbers
come with an event of their run, ranks with a board, and submissions are never removed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Count, Max, Sum
from django.shortcuts import get_object_or_404

from leaderboard.model_pages import family, places
from leaderboard.model_pages.places import Boards
from leaderboard.models import HubModel, Run, Submission, Suite, Variant
from leaderboard.snapshot import published, stamps
from leaderboard.snapshot.data import OWN, Board
from leaderboard.web.address import Address

RELATIVES = 12
"""So many models of the family, and names of the same weights, are listed."""
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Known:
    """A model in one of its commits and one suite."""

    model: HubModel
    variants: list[Variant]
    """All commits and precisions, the newest first."""
    variant: Variant | None
    """The one that the page is about."""
    suite: Suite | None
    suites: list[Suite]
    boards: Boards
    base: str
    """The model that its family is called by."""
    here: dict[str, HubModel]
    """By ID its base and what it is called now, where this site knows them."""
    same_weights: list[Variant]
    runs: dict[str, int]
    """By state."""
    submissions: int
    stamp: object


def known(repo_id: str, address: Address) -> Known:
    """What the address asks for; what it asks for in vain becomes its default.

    Raises Http404 for a model that this site does not know.
    """
    of_model = Variant.objects.filter(hub_model__repo_id=repo_id).select_related("hub_model")
    variants = list(of_model.order_by("-created", "-pk"))
    model = variants[0].hub_model if variants else get_object_or_404(HubModel, repo_id=repo_id)
    keys = [variant.pk for variant in variants]
    submitted = _submitted(keys)
    suites, older = places.suites_of({row["suite"] for row in submitted}, settings.PLUMBLINE_SUITE)
    suite = _suite(address, suites)
    own = published.newest(suite, OWN) if suite else None
    chosen = _chosen(address, keys, own)
    variant = next((one for one in variants if one.pk == chosen), None)
    boards = places.boards(suite, own, suites, older, chosen)
    base = family.base_of(model, variant, variants)
    here = _here({base, model.renamed_to} - {"", model.repo_id})
    same_weights = list(family.same_weights(variant)[:RELATIVES]) if variant else []
    runs = _runs(keys)
    return Known(
        model=model,
        variants=variants,
        variant=variant,
        suite=suite,
        suites=suites,
        boards=boards,
        base=base,
        here=here,
        same_weights=same_weights,
        runs=_by_state(runs),
        submissions=sum(row["n"] for row in submitted),
        stamp=(
            stamps.of_row(model),
            [stamps.of_row(one) for one in variants],
            submitted,
            _of_submitters(submitted),
            [stamps.of_row(one) for one in (*suites, *older)],
            stamps.of_titles(),
            [stamps.of_board(one) for one in boards.all],
            runs,
            _changes(model, chosen, base),
            sorted(here),
            [(one.hub_model.repo_id, one.pk) for one in same_weights],
        ),
    )


def _suite(address: Address, suites: Sequence[Suite]) -> Suite | None:
    """The suite that the address names, else the first: the site's own where it knows the model."""
    address.choice("suite", [suite.name for suite in suites])
    named = [suite for suite in suites if suite.name == address["suite"]]
    return next(iter([*named, *suites]), None)


def _chosen(address: Address, variants: Sequence[int], board: Board | None) -> int | None:
    """The one that the address names, else the best ranked, else the newest with an average."""
    if asked := address.choice("variant", ["", *map(str, variants)]):
        return int(asked)
    rows = {board.row_of[one]: one for one in variants if board and one in board.row_of}
    if board is None or not rows:
        return next(iter(variants), None)
    ranked = [row for row in rows if board.ranks.rank[row]]
    return rows[min(ranked or rows)]


def _submitted(variants: Sequence[int]) -> list[Row]:
    """How often who submitted them to which suite."""
    rows = Submission.objects.filter(variant__in=variants).order_by("suite", "submitter", "state")
    by = rows.values("suite", "submitter", "submitter__username", "state")
    return list(by.annotate(n=Count("pk"), last=Max("created")))


def _of_submitters(submitted: Sequence[Row]) -> dict[str, Any]:
    """How often they submitted anything: other tries of theirs are told as well."""
    named = {row["submitter"] for row in submitted} - {None}
    theirs = Submission.objects.filter(submitter__in=named)
    return theirs.aggregate(n=Count("pk"), last=Max("created")) if named else {}


def _here(names: set[str]) -> dict[str, HubModel]:
    rows = HubModel.objects.filter(repo_id__in=names) if names else ()
    return {model.repo_id: model for model in rows}


def _runs(variants: Sequence[int]) -> list[Row]:
    """How many there are in each state, and how far those are that run."""
    rows = Run.objects.filter(variant__in=variants).order_by("state", "phase")
    so_far = {"done": Sum("progress_done"), "total": Sum("progress_total")}
    return list(rows.values("state", "phase").annotate(n=Count("pk"), **so_far))


def _changes(model: HubModel, variant: int | None, base: str) -> tuple[Any, ...]:
    """Events of its runs, vectors of the one that is shown, and who else states its base."""
    with connection.cursor() as cursor:
        cursor.execute(_CHANGES, {"model": model.pk, "variant": variant, "base": base})
        return tuple(cursor.fetchone())


# In SQL, as one question: to make four out of QuerySets takes longer than to answer them. Events
# are counted, since one with a smaller number may be committed later; vectors, since those of runs
# of before there were any are read in the background, without an event. Who begins to state a base
# and who ceases to change number and sum.
_CHANGES = """
    WITH events AS (
        SELECT count(*) AS n, max(event.id) AS last
        FROM leaderboard_variant variant
        JOIN leaderboard_run run ON run.variant_id = variant.id
        JOIN leaderboard_runevent event ON event.run_id = run.id
        WHERE variant.hub_model_id = %(model)s
    ), vectors AS (
        SELECT count(*) AS n
        FROM leaderboard_run run
        JOIN leaderboard_result result ON result.run_id = run.id
        JOIN leaderboard_scorevector vector ON vector.result_id = result.id
        WHERE run.variant_id = %(variant)s
    ), family AS (
        SELECT count(*) AS n, sum(id) AS which
        FROM leaderboard_variant WHERE base_model = %(base)s
    )
    SELECT events.n, events.last, vectors.n, family.n, family.which FROM events, vectors, family
"""


def _by_state(runs: Sequence[Row]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in runs:
        counts[row["state"]] = counts.get(row["state"], 0) + row["n"]
    return counts
