"""How many other models got a question right, of those that were asked it in the same way.

Read from the column's item analysis, or counted from the models' scores where they are too few for
one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leaderboard.models import ItemAnalysis, Result
from leaderboard.samples import vectors
from leaderboard.tasks import items


@dataclass(frozen=True)
class Peers:
    """The models that one is counted among; their scores never change."""

    own: int
    """Primary key of the result that is not counted."""
    others: tuple[int, ...]
    """Results of the other models, one of each, where there is no analysis."""
    analysis: ItemAnalysis | None


@dataclass(frozen=True)
class Counted:
    right: int
    models: int
    others: bool
    """Whether the model itself is certainly not among them."""


def of_result(result: Result) -> Peers:
    """Who else has a number in the column of a result that is about a whole run."""
    key = result.comparability_key
    analysis = items.newest(key)
    few = analysis is None and items.models_of(key) < items.ENOUGH
    others = tuple(pk for pk in items.one_of_each(key) if pk != result.pk) if few else ()
    return Peers(result.pk, others, analysis)


def counted(peers: Peers, task: str, doc_id: int, own: float | None) -> Counted | None:
    """How many are right on a question, `own` being the score of the model that is left out.

    None where scores are not right or wrong, or nobody else is known.
    """
    if own not in (0.0, 1.0):
        return None
    found = _analysed(peers, task, doc_id, own) or _scored(peers, task, doc_id)
    return found if found and found.models else None


def _analysed(peers: Peers, task: str, doc_id: int, own: float) -> Counted | None:
    table = items.table(peers.analysis) if peers.analysis else None
    place = table.place(task, doc_id) if table else None
    if table is None or place is None:
        return None
    models = table.row.models_n
    right = float(table.difficulty[place]) * models
    if abs(right - round(right)) > 0.01:
        return None
    if table.results is None:
        return Counted(round(right), models, others=False)
    among = peers.own in table.results
    return Counted(round(right) - int(own * among), models - among, others=True)


def _scored(peers: Peers, task: str, doc_id: int) -> Counted | None:
    found = vectors.matrix(peers.others) if peers.others else None
    place = found.layout.place(task, doc_id) if found else None
    if found is None or place is None:
        return None
    scores = found.scores[:, place]
    scores = scores[np.isfinite(scores)]
    if not np.isin(scores, (0.0, 1.0)).all():
        return None
    return Counted(int(scores.sum()), len(scores), others=True)
