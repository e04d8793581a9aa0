"""Requests that wait for a way to be computed: what computing and checking them would take, and
what a check has answered of them already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import torch

from evalcore.model.forward.batching import Rows, Tokens
from evalcore.model.forward.head import Scores
from evalcore.model.loglikelihood.probes import Probes, Reference, probes_of
from evalcore.model.loglikelihood.shared import families_of, n_fed
from evalcore.model.packs.prefix import plan

CHECK_SHARE = 0.01
"""Of the tokens of a run: a check that costs more must be worth it at once."""

FAMILY = 16
"""Requests after one context that are answered with the one that is a probe: it is read then."""

MOST_PASSES, FEW_TIMES = 4, 10
"""All requests are asked in a check if they fill no more passes, and are few beside the probes."""


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
        self._reference: Reference | None = None
        self._reference_in_float32: Reference | None = None

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
            members = [one for requests in family.values() for one in requests]
            if len(members) <= FAMILY and not self.probes.answers.keys().isdisjoint(members):
                yield from members

    @property
    def answered_alone(self) -> Mapping[int, Scores]:
        """By the model itself, one by one, as far as a check has asked it."""
        return self._reference.answers if self._reference else {}

    def reference(self, model: Any, softmax: torch.dtype) -> Reference:
        if self._reference is None:
            self._reference = Reference(model, self.probes, softmax=softmax)
        return self._reference

    def reference_in_float32(self, model: Any) -> Reference:
        """Of a model that is in float32 at the moment."""
        if self._reference_in_float32 is None:
            self._reference_in_float32 = Reference(model, self.probes)
        return self._reference_in_float32

    @cached_property
    def _rows(self) -> set[Tokens]:
        return set(map(tuple, self._sequences))

    @property
    def n_rows(self) -> int:
        return len(self._rows)

    @cached_property
    def n_plain(self) -> int:
        return sum(map(len, self._rows))

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
