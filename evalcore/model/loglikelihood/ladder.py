"""Which way a model is computed: the fastest that says, of this run's own requests, what the model
itself says of them one by one.

From the fastest to the plainest: each token once, in packs (`packed.py`), where targets are scored
by the output embeddings alone or by the model's own last step; each context once, by the model's
own memory (`shared.py`); each distinct row once, in batches, or alone (`plain.py`). The name of an
architecture decides nothing. What was learned holds for the model's life, and where it is kept for
as long as nothing changes (`kept_checks.py`), up to the longest request that it was learned on: a
longer one may leave a window, and is tried first. No way but that of rows
alone is taken unchecked, on a small run neither; and what a check computed is not computed again. A
model in half precision is checked in float32 first, where rounding hides nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal, Protocol

import torch

from evalcore.errors import ModelError
from evalcore.model.faults import set_aside
from evalcore.model.forward.company import why_alone
from evalcore.model.forward.head import Scores, ScoresByRequest
from evalcore.model.forward.plain import PlainPath, Rows
from evalcore.model.forward.selfcheck import (
    Trial,
    is_half,
    moved_by_what_follows,
    tried_in_both,
)
from evalcore.model.kept_checks import KeptChecks
from evalcore.model.loglikelihood.packed import PackedPath
from evalcore.model.loglikelihood.probes import Probes, Reference, Run
from evalcore.model.loglikelihood.shared import SharedPath

log = logging.getLogger(__name__)

PathName = Literal["packed", "shared", "plain"]

WORTH_SHARING = 0.5
"""Contexts are fed one at a time, which pays where it halves the work."""


class Path(Protocol):
    """A way to compute scores."""

    def scores(self, sequences: Rows, targets: Rows, *, budget: int) -> ScoresByRequest:
        """Scores of each request by its index, `budget` tokens at a time."""
        ...


@dataclass(frozen=True)
class Step:
    """A step of the ladder, also in words."""

    name: PathName
    words: str
    make: Callable[..., Path]
    """With `softmax`, the precision of the log-softmax, where it is not that of the run."""


@dataclass(frozen=True)
class Choice:
    """The step that is taken, and why no other."""

    step: Step
    path: Path
    reason: str
    refused: str
    """The faster ways that a check refused, and why; empty if none."""
    answered: Mapping[int, Scores]
    """What the check has answered of the requests, by their index."""


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
    only_rounded: str = ""
    """Why it was not tried in float32, where rounding could hide something."""
    checked_on: str = ""
    """The day of an earlier run on this machine; empty if it was this one."""

    def __str__(self) -> str:
        found = (
            f"at most {self.largest:.1g} nats from the model's own answers to "
            f"{self.n_probes} requests of up to {self.longest} tokens"
        )
        return f"{found}, found on {self.checked_on}" if self.checked_on else found


@dataclass(frozen=True, kw_only=True)
class Tried(Trial):
    """A step, with its answers to what it was tried on."""

    found: Mapping[int, Scores]
    failed: bool = False
    """Whether an error kept it from being compared, which may not come again."""


class Ladder:
    """The choice for one model, and what is known of it."""

    def __init__(
        self,
        model: Any,
        *,
        batch_size: int | None,
        wanted: Literal["auto"] | PathName = "auto",
        softmax: torch.dtype = torch.float32,
        kept: KeptChecks | None = None,
    ) -> None:
        """`wanted` leaves only the steps of that name, and a ModelError if they are wrong;
        `softmax` is the precision of the log-softmax."""
        self._model = model
        self._wanted = wanted
        self._softmax = softmax
        self._batch_size = batch_size
        packed = partial(PackedPath, model, softmax=softmax)
        plain = partial(PlainPath, model, softmax=softmax)
        self._steps = (
            Step("packed", "in packs", partial(packed, through_head=True)),
            Step("packed", "in packs to the model's end", partial(packed, through_head=False)),
            Step("shared", "by shared contexts", partial(SharedPath, model, softmax=softmax)),
            Step("plain", "in batches", partial(plain, batch_size=batch_size)),
            Step("plain", "one by one", partial(plain, batch_size=1)),
        )
        self._verdicts: dict[str, Verdict] = {}
        self._kept = kept or KeptChecks()
        self._why_alone = why_alone(model)
        self._told: str | None = None
        self._only_rounded = ""
        """Why the model cannot be checked in float32."""

    def choose(self, sequences: Rows, targets: Rows, *, budget: int) -> Choice:
        """The way for these requests. Raises ModelError where the wanted one is wrong,
        torch.OutOfMemoryError where the memory is too small to find out."""
        choice = self._choose(sequences, targets, budget)
        if choice.step.words != self._told:
            self._told = choice.step.words
            log.info("loglikelihoods are computed %s (%s)", self._told, choice.reason)
        return choice

    def refuse(self, choice: Choice, problem: str) -> None:
        """The step failed while it was in use: from now on a plainer one is taken."""
        self._verdicts[choice.step.words] = Verdict(problem, 0.0, 0, 1 << 62, 1 << 62)
        self._kept.forget(choice.step.words)

    def _choose(self, sequences: Rows, targets: Rows, budget: int) -> Choice:
        run = Run(sequences, targets, times=1 if self._rounding_hides_nothing else 2)
        reasons: dict[str, str] = {}  # from what was wrong to the steps that it was wrong with
        refused: dict[str, str] = {}
        passed_over: set[PathName] = set()
        *faster, alone = self._steps
        for step in faster:
            if self._wanted not in ("auto", step.name) or step.name in passed_over:
                continue
            if why := self._not_worth(step, run):
                reasons[why] = f"not {step.words}"
                passed_over.add(step.name)
                continue
            verdict = self._verdict(step, run, budget)
            if verdict.problem is None:
                if verdict.only_rounded:
                    reasons[verdict.only_rounded] = "not checked in float32"
                reasons[str(verdict)] = step.words
                return Choice(step, step.make(), _joined(reasons), _joined(refused), run.answered)
            for of_these in (reasons, refused):
                before = of_these.get(verdict.problem)
                of_these[verdict.problem] = (
                    f"{before} nor {step.words}" if before else f"not {step.words}"
                )
        if self._wanted not in ("auto", alone.name):
            raise ModelError(f"it cannot be computed as was asked: {_joined(reasons)}")
        answered = run.answered_alone(self._model, self._softmax)
        return Choice(alone, alone.make(), _joined(reasons), _joined(refused), answered)

    def _known(self, step: Step, run: Run) -> Verdict | None:
        """What an earlier check found, if it holds for requests as long as these."""
        known = self._verdicts.get(step.words)
        if known is None and (kept := self._kept.found(step.words)):
            known = self._verdicts[step.words] = Verdict(**kept)
        if known is None or known.problem is not None:
            return known
        fits = run.longest <= known.longest
        if step.name == "shared":
            fits = fits and run.most_targets <= known.most_targets
        return known if fits else None

    def _not_worth(self, step: Step, run: Run) -> str | None:
        """Why the step would cost more than it saves."""
        known = self._known(step, run)
        if self._why_alone:
            return self._why_alone
        if step.name == "plain" and self._batch_size == 1:
            return "a batch may have one row"
        if known and known.problem is not None:
            return None
        if step.name == "plain" and not known and len(run.rows) <= len(run.probes.rows):
            return (
                f"to check it takes {len(run.probes.rows)} rows one by one, and there are no more"
            )
        if step.name == "plain" or self._wanted != "auto":
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
        asked = run.probes if step.name == "plain" else run.asked_of(budget)

        def own(times: int) -> Tried:
            reference = run.reference(self._model, self._softmax)
            return self._tried(step, reference, asked, run, budget, times)

        def wide() -> Tried:
            reference = run.reference(self._model, torch.float32)
            return self._tried(step, reference, run.probes, run, budget, 1)

        if self._rounding_hides_nothing or self._only_rounded:
            tried = own(1)
        else:
            tried = tried_in_both(self._model, own, wide)
            self._only_rounded = tried.only_rounded
        verdict = Verdict(
            *(tried.problem, tried.largest, run.probes.n_compared, run.longest, run.most_targets),
            only_rounded=self._only_rounded,
        )
        self._verdicts[step.words] = verdict
        if not tried.failed:
            self._kept.keep(step.words, asdict(verdict))
        if tried.problem is None:
            # Of a row by itself the answer is the model's own: no batch has a better one.
            run.answered = (
                run.answered_alone(self._model, self._softmax)
                if step.name == "plain"
                else {request: tried.found[place] for request, place in asked.answers.items()}
            )
        return verdict

    @property
    def _rounding_hides_nothing(self) -> bool:
        return self._softmax == torch.float32 and not is_half(self._model)

    def _tried(
        self, step: Step, reference: Reference, asked: Probes, run: Run, budget: int, times: int
    ) -> Tried:
        path = step.make(softmax=reference.softmax)
        if step.name == "packed":  # with so few tokens that a border falls among the probes
            budget = max(1, min(budget, run.probes.n_unique * 3 // 5))
        found: dict[int, Scores] = {}
        largest, problem, failed = 0.0, None, False
        try:
            for pack in path.scores(asked.sequences, asked.targets, budget=budget):
                found.update(pack)
                largest, problem = reference.difference(found, times=times)
                if problem is not None:
                    break
            else:
                if len(found) < len(asked.sequences):
                    problem = "it left a request without an answer"
                elif step.name == "shared":
                    problem = self._changes_with_length(run.probes)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # whatever it is, a plainer step does without it
            problem = set_aside(f"to compute a model {step.words}", error)
            failed = not isinstance(error, NotImplementedError)
        return Tried(problem=problem, largest=largest, found=found, failed=failed)

    def _changes_with_length(self, probes: Probes) -> str | None:
        """A context's memory is of no use where the model reads it otherwise with more to come.

        Some embeddings of positions change all at once where a row passes a certain length; the
        probes may lie on either side of it, and other requests across.
        """
        longest, shortest = (choose(probes.sequences, key=len) for choose in (max, min))
        if moved_by_what_follows(self._model, longest, len(shortest)) is None:
            return None
        return f"what it says after {len(shortest)} tokens changes when {len(longest)} are fed"


def _joined(reasons: Mapping[str, str]) -> str:
    return "; ".join(f"{steps}: {why}" for why, steps in reasons.items())
