"""The few of a run's own requests by which a path is checked, and what the model says of them.

Short made-up probes miss what matters: a window that only long rows leave, an embedding of
positions that changes with length, a memory that is wrong from the second token on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch

from evalcore.model.forward.head import Scores
from evalcore.model.forward.logits import logits_at
from evalcore.model.forward.plain import PlainPath, Rows, Tokens, scores_of
from evalcore.model.forward.selfcheck import COPIES, coarseness, is_half, noisy, tolerated
from evalcore.model.loglikelihood.shared import families_of, n_fed
from evalcore.model.packs.prefix import plan

SIBLINGS = 3
"""Requests of a group: two that branch off one another, and a third beside them."""

END = 64
"""Tokens that are left of a context where its length is of no concern, and targets of any probe."""

BRANCH = 8
"""Tokens of a branch that is made up."""

ANSWERED = 256
"""Targets of a request that a check answers whole: logits of so many positions are held at once."""


CHECK_SHARE = 0.01
"""Of the tokens of a run: a check that costs more must be worth it at once."""

FAMILY = 16
"""Requests after one context that are answered with the one that is a probe: it is read then."""

MOST_PASSES, FEW_TIMES = 4, 10
"""All requests are asked in a check if they fill no more passes, and are few beside the probes."""


@dataclass(frozen=True)
class Probes:
    """Requests of the run, some of which share their beginning."""

    sequences: tuple[Tokens, ...]
    targets: tuple[Tokens, ...]
    n_compared: int
    """How many of them, from the first on, a path is judged by; it answers the others, too."""
    answers: Mapping[int, int] = field(default_factory=dict)
    """Which of them answers a request of the run, by its index, for each that is answered whole."""

    @cached_property
    def rows(self) -> frozenset[Tokens]:
        return frozenset(self.sequences)

    @property
    def n_tokens(self) -> int:
        """What it costs to feed them one by one."""
        return sum(map(len, self.rows))

    @property
    def n_unique(self) -> int:
        """What it costs to feed each of their tokens once."""
        return plan(self.sequences, list(map(len, self.targets)), budget=self.n_tokens).n_unique

    def answering(self, requests: Iterable[int], sequences: Rows, targets: Rows) -> Probes:
        """The probes, and after them these requests of the run, but for those with many targets."""
        entries = list(zip(self.sequences, self.targets, strict=True))
        place_of = {entry: place for place, entry in enumerate(entries)}
        answers = dict(self.answers)
        for request in requests:
            entry = tuple(sequences[request]), tuple(targets[request])
            if len(entry[1]) > ANSWERED:
                continue
            if entry not in place_of:
                place_of[entry] = len(entries)
                entries.append(entry)
            answers[request] = place_of[entry]
        return replace(
            self,
            sequences=tuple(fed for fed, _ in entries),
            targets=tuple(asked for _, asked in entries),
            answers=answers,
        )


def probes_of(sequences: Rows, targets: Rows) -> Probes:
    """The longest request, and the one that begins most like it, for what depends on length. Of a
    group after one context, of the request with most targets and of the shortest the ends.

    Where no context has two continuations a branch is made up, for a run that has may follow. What
    is read off the same rows is answered as well.
    """
    found = list(dict.fromkeys(_probes(sequences, targets)))
    probes = Probes(tuple(fed for fed, _ in found), tuple(asked for _, asked in found), len(found))
    same = (request for request, fed in enumerate(sequences) if tuple(fed) in probes.rows)
    return probes.answering(same, sequences, targets)


def _probes(sequences: Rows, targets: Rows) -> Iterator[tuple[Tokens, Tokens]]:
    def whole(one: int) -> tuple[Tokens, Tokens]:
        return tuple(sequences[one]), tuple(targets[one][-END:])

    def end(one: int) -> tuple[Tokens, Tokens]:
        fed, asked = whole(one)
        return fed[-(END + len(asked)) :], asked

    requests = range(len(sequences))
    longest = max(requests, key=lambda request: len(sequences[request]))
    yield whole(longest)
    alike = _most_alike(sequences, longest)
    if alike is not None:
        yield whole(alike)
    shortest = min(requests, key=lambda request: len(sequences[request]))
    groups = [
        [members[0] for fed, members in family.items() if fed]
        for family in families_of(sequences, targets).values()
        if len(family) > 1
    ]
    if groups:
        group = max(groups, key=lambda group: max(len(sequences[request]) for request in group))
        yield from map(end, group[:SIBLINGS])
        # A memory may be wrong only from some token on.
        yield end(
            max(
                (request for group in groups for request in group),
                key=lambda request: len(targets[request]),
            )
        )
    else:
        fed, asked = end(longest)
        yield fed, asked
        yield fed[: (len(fed) + 1) // 2] + tuple(sequences[shortest][-BRANCH:]), asked[-1:]
    yield end(shortest)


def _most_alike(sequences: Rows, one: int) -> int | None:
    """The request that shares most of its beginning with this one, and is not equal to it."""
    whole, best, shared = tuple(sequences[one]), None, 0
    for other, sequence in enumerate(sequences):
        if shared and (len(sequence) < shared or sequence[shared - 1] != whole[shared - 1]):
            continue
        common = _common(whole, tuple(sequence), shared)
        if common > shared and tuple(sequence) != whole:
            best, shared = other, common
    return best


def _common(one: Tokens, other: Tokens, least: int) -> int:
    """Tokens that both begin with; 0 if these are fewer than `least`."""
    if one[:least] != other[:least]:
        return 0
    length = min(len(one), len(other))
    return next((place for place in range(least, length) if one[place] != other[place]), length)


class Reference:
    """What the model itself says of the probes one by one, and how far an answer may be from it."""

    def __init__(self, model: Any, probes: Probes, *, softmax: torch.dtype = torch.float32) -> None:
        self._model = model
        self._probes = probes
        self.softmax = softmax
        alone = PlainPath(model, batch_size=1, softmax=softmax, in_parts=False)
        self._scores = dict(
            pair
            for pack in alone.scores(probes.sequences, probes.targets, budget=1)
            for pair in pack
        )

    @property
    def answers(self) -> dict[int, Scores]:
        """To requests of the run."""
        return {request: self._scores[place] for request, place in self._probes.answers.items()}

    @cached_property
    def _allowance(self) -> float:
        """Nats by which the model's precision itself moves a loglikelihood: what copies of the
        longest probe in one batch do to it, and in half precision how coarsely its logits are
        stored."""
        model, probes = self._model, self._probes
        place = max(range(probes.n_compared), key=lambda row: len(probes.sequences[row]))
        fed, targets = probes.sequences[place], probes.targets[place]
        rows = torch.tensor([fed] * COPIES, device=model.device)
        places = torch.arange(len(fed) - len(targets), len(fed), device=model.device)
        with torch.inference_mode():
            logits = logits_at(model, rows, places).flatten(0, 1)
        asked = [
            (copy, copy * len(targets) + column, token)
            for copy in range(COPIES)
            for column, token in enumerate(targets)
        ]
        alone = _total(self._scores[place])
        noise = max(abs(_total(score) - alone) for _, score in scores_of(logits, asked))
        stored = coarseness(logits, model.dtype) if is_half(model) else 0.0
        return max(noisy(model, noise), stored)

    def difference(
        self, found: Mapping[int, Scores], *, times: int = 1
    ) -> tuple[float, str | None]:
        """The largest difference in loglikelihood, and what is wrong with these answers if any is,
        which may lack some.

        Greedy flags are not held against a path: where two tokens are nearly as likely, rounding
        decides. `times` as far as usual they may be.
        """
        largest = 0.0
        for probe in range(self._probes.n_compared):
            expected = self._scores[probe]
            if probe not in found:
                continue
            total = _total(expected)
            moved = abs(_total(found[probe]) - total)
            largest = max(largest, moved)
            # Of several targets each is rounded for itself.
            several = math.sqrt(len(expected.logprobs))
            if not (
                moved <= times * tolerated(self._model, total, self.softmax)
                or moved <= times * several * self._allowance
            ):
                return moved, f"a loglikelihood of {total:.4f} became {_total(found[probe]):.4f}"
        return largest, None


def _total(scores: Scores) -> float:
    return float(sum(scores.logprobs))


class Run:
    """Requests that wait for a choice, and what computing them would take."""

    def __init__(self, sequences: Rows, targets: Rows, *, times: int = 1) -> None:
        """`times`: how often a check asks everything."""
        self._sequences = sequences
        self._targets = targets
        self._times = times
        self.longest = max(map(len, sequences))
        self.most_targets = max(map(len, targets))
        self.answered: Mapping[int, Scores] = {}
        """By the step that passed its check."""
        self._references: dict[tuple[torch.dtype, torch.dtype], Reference] = {}

    @cached_property
    def probes(self) -> Probes:
        return probes_of(self._sequences, self._targets)

    def asked_of(self, budget: int) -> Probes:
        """What a step is checked on that reads contexts once: the probes and what needs no further
        context; all requests where those would read much of them twice."""
        run = self._sequences, self._targets
        some = self.probes.answering(self._read_with_probes(), *run)
        small = self.n_unique <= min(MOST_PASSES * budget, FEW_TIMES * some.n_unique)
        return self.probes.answering(range(len(self._sequences)), *run) if small else some

    def _read_with_probes(self) -> Iterator[int]:
        """Continuations of contexts that are read for the probes anyway."""
        for family in families_of(self._sequences, self._targets).values():
            members = [request for requests in family.values() for request in requests]
            if len(members) <= FAMILY and not self.probes.answers.keys().isdisjoint(members):
                yield from members

    def answered_alone(self, model: Any, softmax: torch.dtype) -> Mapping[int, Scores]:
        """By the model itself, one by one, as far as a check has asked it."""
        known = self._references.get((model.dtype, softmax))
        return known.answers if known else {}

    def reference(self, model: Any, softmax: torch.dtype) -> Reference:
        """Of a model in the precision that it has at the moment."""
        name = model.dtype, softmax
        if name not in self._references:
            self._references[name] = Reference(model, self.probes, softmax=softmax)
        return self._references[name]

    @cached_property
    def rows(self) -> set[Tokens]:
        return set(map(tuple, self._sequences))

    @cached_property
    def n_plain(self) -> int:
        return sum(map(len, self.rows))

    @cached_property
    def n_unique(self) -> int:
        return plan(self._sequences, list(map(len, self._targets)), budget=self.longest).n_unique

    @cached_property
    def n_fed_by_families(self) -> int:
        families = families_of(self._sequences, self._targets)
        return sum(n_fed(*each) for each in families.items())

    @cached_property
    def check_tokens(self) -> int:
        """The probes one by one and then together."""
        return self._times * (self.probes.n_tokens + self.probes.n_unique)

    @cached_property
    def check_is_small(self) -> bool:
        return self.check_tokens <= CHECK_SHARE * self.n_plain
