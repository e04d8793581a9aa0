"""Which way a model is computed: the fastest that says, of this run's own requests, what the model
itself says of them one by one.

From the fastest to the plainest: each token once, in packs (`packed.py`), where targets are scored
by the output embeddings alone or by the model's own last step; each context once, by the model's
own memory (`shared.py`); each distinct row once, in batches, or alone (`plain.py`). The name of an
architecture decides nothing. What was learned holds for the model's life, up to the longest request
that it was learned on: a longer one may leave a window, and is tried first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import torch

from evalcore.errors import ModelError
from evalcore.model.causality import moved_by_what_follows
from evalcore.model.head import Scores
from evalcore.model.packed import PackedPath
from evalcore.model.plain import PlainPath
from evalcore.model.prefix import plan
from evalcore.model.probes import Probes, Reference, probes_of
from evalcore.model.shared import SharedPath, n_fed_by_families

log = logging.getLogger(__name__)

PathName = Literal["packed", "shared", "plain"]

CHECK_SHARE = 0.01
"""Of the tokens of a run: a check that costs more must be worth it at once."""

WORTH_SHARING = 0.5
"""Contexts are fed one at a time, which pays where it halves the work."""

LONGEST_REASON = 160


class Path(Protocol):
    """A way to compute scores."""

    def scores(
        self, sequences: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], *, budget: int
    ) -> Iterator[list[tuple[int, Scores]]]:
        """Scores of each request by its index, `budget` tokens at a time."""
        ...


@dataclass(frozen=True)
class Choice:
    """The way that is taken, and why no other."""

    path: Path
    name: PathName
    step: str
    """The step of the ladder, in words."""
    reason: str


@dataclass(frozen=True)
class Step:
    name: PathName
    words: str
    make: Callable[[], Path]


@dataclass(frozen=True)
class Verdict:
    """What a check of one step found."""

    problem: str | None
    largest: float
    """Difference in loglikelihood, in nats."""
    n_probes: int
    longest: int
    """Tokens of the longest request that it was checked on."""
    most_targets: int


class Ladder:
    """The choice for one model, and what is known of it."""

    def __init__(
        self, model: Any, *, batch_size: int | None, wanted: Literal["auto"] | PathName = "auto"
    ) -> None:
        """`wanted` leaves only the steps of that name, and a ModelError if they are wrong."""
        self._model = model
        self._wanted = wanted
        self._steps = (
            Step("packed", "in packs", lambda: PackedPath(model, through_head=True)),
            Step(
                "packed",
                "in packs to the model's end",
                lambda: PackedPath(model, through_head=False),
            ),
            Step("shared", "by shared contexts", lambda: SharedPath(model)),
            Step("plain", "in batches", lambda: PlainPath(model, batch_size=batch_size)),
            Step("plain", "one by one", lambda: PlainPath(model, batch_size=1)),
        )
        self._verdicts: dict[str, Verdict] = {}
        self._told: str | None = None

    def choose(
        self, sequences: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], *, budget: int
    ) -> Choice:
        """The way for these requests. Raises ModelError where the wanted one is wrong,
        torch.OutOfMemoryError where the memory is too small to find out."""
        choice = self._choose(sequences, targets, budget)
        if choice.step != self._told:
            log.info("loglikelihoods are computed %s (%s)", choice.step, choice.reason)
            self._told = choice.step
        return choice

    def refuse(self, choice: Choice, problem: str) -> None:
        """The step failed while it was in use: from now on a plainer one is taken."""
        self._verdicts[choice.step] = Verdict(problem, 0.0, 0, 1 << 62, 1 << 62)

    def _choose(
        self, sequences: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], budget: int
    ) -> Choice:
        if self._wanted == "plain":
            return self._taken(self._steps[3], "it was asked for")
        run = Run(sequences, targets)
        reasons: dict[str, str] = {}  # from what was wrong to the steps that it was wrong with
        passed_over: set[PathName] = set()
        for step in self._steps:
            if self._wanted not in ("auto", step.name) or step.name in passed_over:
                continue
            if self._wanted == "auto" and (why := self._not_worth(step, run)):
                reasons[why] = f"not {step.words}"
                passed_over.add(step.name)
                continue
            if step.name == "plain" and not (self._suspicious or run.check_is_small):
                return self._taken(step, _joined(reasons))
            verdict = self._verdict(step, run, budget)
            if verdict.problem is None:
                found = (
                    f"at most {verdict.largest:.1g} nats from the model's own answers to "
                    f"{verdict.n_probes} requests of up to {verdict.longest} tokens"
                )
                return self._taken(step, _joined({**reasons, found: step.words}))
            before = reasons.get(verdict.problem)
            reasons[verdict.problem] = (
                f"{before} nor {step.words}" if before else f"not {step.words}"
            )
        if self._wanted != "auto":
            raise ModelError(f"it cannot be computed as was asked: {_joined(reasons)}")
        return self._taken(self._steps[-1], _joined(reasons))

    def _taken(self, step: Step, reason: str) -> Choice:
        return Choice(step.make(), step.name, step.words, reason)

    def _known(self, step: Step, run: Run) -> Verdict | None:
        """What an earlier check found, if it holds for requests as long as these."""
        known = self._verdicts.get(step.words)
        if known is None or known.problem is not None:
            return known
        fits = run.longest <= known.longest
        if step.name == "shared":
            fits = fits and run.most_targets <= known.most_targets
        return known if fits else None

    @property
    def _suspicious(self) -> bool:
        """Whether a faster way proved wrong: then batches of rows are not believed either."""
        return any(verdict.problem is not None for verdict in self._verdicts.values())

    def _not_worth(self, step: Step, run: Run) -> str | None:
        """Why the step would cost more than it saves."""
        known = self._known(step, run)
        if step.name == "plain" or (known and known.problem is not None):
            return None
        check = 0 if known or run.check_is_small else run.check_tokens
        if step.name == "shared":
            if run.n_fed_by_families + check > WORTH_SHARING * run.n_plain:
                return "the requests share too little of their contexts"
        elif check and run.n_unique + check >= run.n_plain:
            return (
                f"a run of {run.n_plain} tokens is too small: sharing would save "
                f"{run.n_plain - run.n_unique}, and to check it takes {check}"
            )
        return None

    def _verdict(self, step: Step, run: Run, budget: int) -> Verdict:
        if known := self._known(step, run):
            return known
        reference = run.reference(self._model)
        largest, problem = 0.0, None
        if step.name == "packed":  # with so few tokens that a border falls among the probes
            budget = max(1, min(budget, run.probes.n_unique * 3 // 5))
        try:
            path = step.make()
            packs = path.scores(run.probes.sequences, run.probes.targets, budget=budget)
            largest, problem = reference.difference(dict(pair for pack in packs for pair in pack))
            if step.name == "shared" and problem is None:
                problem = self._changes_with_length(run.probes)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # whatever it is, a plainer step does without it
            problem = reason_of(error)
        verdict = Verdict(
            problem, largest, len(run.probes.sequences), run.longest, run.most_targets
        )
        self._verdicts[step.words] = verdict
        return verdict

    def _changes_with_length(self, probes: Probes) -> str | None:
        """A context's memory is of no use where the model reads it otherwise with more to come.

        Some embeddings of positions change all at once where a row passes a certain length; the
        probes may lie on either side of it, and other requests across.
        """
        longest, shortest = (choose(probes.sequences, key=len) for choose in (max, min))
        if moved_by_what_follows(self._model, longest, len(shortest)) is None:
            return None
        return f"what it says after {len(shortest)} tokens changes when {len(longest)} are fed"


class Run:
    """Requests that wait for a choice, and what computing them would take."""

    def __init__(
        self, sequences: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> None:
        self._sequences = sequences
        self._targets = targets
        self.longest = max(map(len, sequences))
        self.most_targets = max(map(len, targets))
        self._reference: Reference | None = None

    @cached_property
    def probes(self) -> Probes:
        return probes_of(self._sequences, self._targets)

    def reference(self, model: Any) -> Reference:
        if self._reference is None:
            self._reference = Reference(model, self.probes)
        return self._reference

    @cached_property
    def n_plain(self) -> int:
        return sum(map(len, set(map(tuple, self._sequences))))

    @cached_property
    def n_unique(self) -> int:
        return plan(self._sequences, list(map(len, self._targets)), budget=self.longest).n_unique

    @cached_property
    def n_fed_by_families(self) -> int:
        return n_fed_by_families(self._sequences, list(map(len, self._targets)))

    @cached_property
    def check_tokens(self) -> int:
        """The probes one by one and then together."""
        return self.probes.n_tokens + self.probes.n_unique

    @cached_property
    def check_is_small(self) -> bool:
        return self.check_tokens <= CHECK_SHARE * self.n_plain


def _joined(reasons: Mapping[str, str]) -> str:
    return "; ".join(f"{steps}: {why}" for why, steps in reasons.items())


def reason_of(error: Exception) -> str:
    """The error in a line."""
    said = " ".join(str(error).split())[:LONGEST_REASON]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
