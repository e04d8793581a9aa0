"""What else became of a question: other models on it, and the same model asked in other styles.

How many others got it right is read from the column's item analysis, or counted from the models'
scores where they are too few for one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

import numpy as np

from leaderboard.models import Artifact, ItemAnalysis, Result, Run
from leaderboard.models.task import Style
from leaderboard.samples import (
    CHOICE_COLUMNS,
    Choice,
    Question,
    Unavailable,
    choices_of,
    facts_of,
    path_of,
    rows_in,
    vectors,
)
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


@dataclass(frozen=True)
class Way:
    """The question in one prompt style: which choice the model picked, and how likely it was."""

    style: str
    pick: Choice
    right: bool | None
    url: str
    current: bool

    @property
    def label(self) -> str:
        return str(Style(self.style).label)


def ways(run: Run, doc_digest: str, place: int, question: Question) -> list[Way]:
    """The question as the model answered it in each style, this run's included.

    The question stands at `place` in this run's file, and in the others' if they ask the same ones.
    Empty where there is one alone, or where the model picked none of several choices.
    """
    if question.pick is None:
        return []
    siblings = Run.objects.filter(
        variant=run.variant, task__benchmark=run.task.benchmark, state=Run.State.DONE
    )
    newest = {
        sibling.task.style: sibling
        for sibling in siblings.exclude(task__style=run.task.style)
        .select_related("task")
        .order_by("finished")
    }
    digests = dict(
        Artifact.objects.filter(run__in=newest.values(), kind=Artifact.Kind.SAMPLES).values_list(
            "run", "sha256"
        )
    )
    found = [Way(run.task.style, question.pick, question.right, "", current=True)]
    for style, sibling in newest.items():
        way = _way(style, sibling, digests.get(sibling.pk, ""), doc_digest, place)
        found += [way] if way else []
    order = list(Style)
    return sorted(found, key=lambda way: order.index(Style(way.style))) if len(found) > 1 else []


def _way(style: str, run: Run, sha256: str, doc_digest: str, place: int) -> Way | None:
    """None where the run has another question there, or no file that can be read."""
    if not sha256:
        return None
    try:
        path = path_of(sha256)
        facts = facts_of(path)
        rows = rows_in(path, [place], ["doc_digest", *CHOICE_COLUMNS]) if place < facts.n else {}
    except (FileNotFoundError, Unavailable):
        return None
    row = rows.get(place)
    if row is None or row["doc_digest"] != doc_digest:
        return None
    pick = next((choice for choice in choices_of(row) if choice.picked), None)
    if pick is None:
        return None
    score = facts.correct[place]
    right = None if isnan(score) else bool(score >= 1)
    url = f"{run.get_absolute_url()}?doc={facts.label(place)}#question"
    return Way(style, pick, right, url, current=False)
