"""Which neighbours in rank do few questions decide, and which many?

Each pair's number is exact (`leaderboard.stats.deciding`, over all questions of the average). Which
pairs are looked into is found by an estimate for all: the questions that gave the upper model most
of its lead are taken away until it is gone, as if the weights of the others stayed as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaderboard.snapshot.data import Decided, Floats
from leaderboard.snapshot.ranking import Part
from leaderboard.stats import deciding

FEWEST = 5
"""Models: a shorter board is seen at a glance."""
FIRST = 1_000
"""Models from the top of the board that are looked at."""
AT_ONCE = 2**23
"""Scores held at once, about."""
SHOWN = 3
"""Pairs of each kind."""
CANDIDATES = 2 * SHOWN
"""Pairs of each kind whose number is found exactly."""
EQUAL = 1e-9
"""A lead of less than this is rounding."""


@dataclass(frozen=True)
class _Asked:
    """All questions of the average, part by part."""

    scores: Floats
    """Shape (models, questions)."""
    group: NDArray[np.intp]
    """Of each question the part whose mean it belongs to."""
    weight: Floats
    """Of that mean in the average."""
    share: Floats
    """Of the question itself in the average."""


def neighbours(parts: Sequence[Part], variants: Sequence[int]) -> tuple[Decided, ...]:
    """The least and the most decided, by rising number of questions.

    `variants` are ranked, the best first. None where nobody leads, nor where a column's scores by
    question are not known.
    """
    first = variants[:FIRST]
    if len(first) < FEWEST or not all(part.by_question for part in parts):
        return ()
    estimates = _estimates(parts, first)
    order = np.argsort(estimates, kind="stable")
    order = order[np.isfinite(estimates[order])]
    places = sorted({*order[:CANDIDATES].tolist(), *order[-CANDIDATES:].tolist()})
    if not places:
        return ()
    pairs = [(first[place], first[place + 1]) for place in places]
    asked = _asked(parts, [variant for pair in pairs for variant in pair])
    found = sorted(
        (
            _decided(pair, asked, asked.scores[2 * at] - asked.scores[2 * at + 1])
            for at, pair in enumerate(pairs)
        ),
        key=lambda one: one.of if one.questions is None else one.questions,
    )
    return tuple(found if len(found) <= 2 * SHOWN else found[:SHOWN] + found[-SHOWN:])


def _decided(pair: tuple[int, int], asked: _Asked, differences: Floats) -> Decided:
    # Scaled, so that the parts' means add up to the difference of the averages.
    places = deciding(differences * asked.weight, asked.group)
    return Decided(*pair, None if places is None else len(places), len(differences))


def _estimates(parts: Sequence[Part], variants: Sequence[int]) -> Floats:
    """Of each model and the next about how many questions decide; infinite without a lead."""
    questions = sum(part.scores(variants[:1])[0].n for part in parts)
    step = max(1, AT_ONCE // questions)
    found = []
    for start in range(0, len(variants) - 1, step):
        asked = _asked(parts, variants[start : start + step + 1])
        gains = (asked.scores[:-1] - asked.scores[1:]) * asked.share
        leads = gains.sum(axis=1)
        taken = np.cumsum(-np.sort(-gains, axis=1), axis=1)
        needed = (taken < leads[:, None] - EQUAL).sum(axis=1) + 1.0
        found.append(np.where(leads > EQUAL, needed, np.inf))
    return np.concatenate(found)


def _asked(parts: Sequence[Part], variants: Sequence[int]) -> _Asked:
    scores, groups, weights, shares = [], [], [], []
    groups_before = 0
    for part in parts:
        layout, of_part, by_part = part.scores(variants)
        group = layout.task if by_part else np.zeros(layout.n, np.int32)
        sizes = np.bincount(group)
        weight = part.weight / np.count_nonzero(sizes)
        scores.append(of_part)
        groups.append(group + groups_before)
        weights.append(np.full(layout.n, weight))
        shares.append(weight / sizes[group])
        groups_before += len(sizes)
    return _Asked(
        np.concatenate(scores, axis=1),
        np.concatenate(groups).astype(np.intp),
        np.concatenate(weights),
        np.concatenate(shares),
    )
