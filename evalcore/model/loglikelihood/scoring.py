"""Loglikelihoods from a causal language model of `transformers`.

The story: the model is asked whether it sees what follows, a way to compute it is chosen
(`ladder.py`), the requests run in passes of as many tokens as the memory holds (`memory.py`), and
where it holds fewer the passes are halved. Every way takes the log-softmax in float32 whatever the
model's own precision, and a loglikelihood is a sum in float64; unless a lower precision is asked
for (`head.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Literal

import torch

from evalcore.errors import ModelError
from evalcore.model.base import Answers, EncodedRequest, Response
from evalcore.model.faults import set_aside
from evalcore.model.forward.head import Scores, response_of
from evalcore.model.forward.memory import (
    LEAST_TOKENS,
    end_where_divided,
    release,
    token_budget,
)
from evalcore.model.forward.selfcheck import PLACES, moved_by_what_follows
from evalcore.model.kept_checks import KeptChecks
from evalcore.model.loglikelihood.ladder import Choice, Ladder, PathName
from evalcore.model.waves import in_waves

log = logging.getLogger(__name__)

CAUSAL = "sees nothing of what follows"
"""The check, as it is kept."""


class Scorer:
    """Scores targets after what is fed."""

    def __init__(
        self,
        model: Any,
        *,
        batch_size: int | None,
        path: Literal["auto"] | PathName = "auto",
        softmax: torch.dtype = torch.float32,
        kept: KeptChecks | None = None,
    ) -> None:
        """`batch_size` caps the rows of a batch on the plain path; `path` is for tests and
        benchmarks: the one way to take, which is a ModelError where it is wrong. `softmax` is the
        precision of the log-softmax; `kept` what was found of the model before."""
        self._model = model
        self._softmax = softmax
        self._kept = kept or KeptChecks()
        self._ladder = Ladder(
            model, batch_size=batch_size, wanted=path, softmax=softmax, kept=self._kept
        )
        self._choice: Choice | None = None
        self._seen_causal = False
        self._budget: int | None = None
        self._halvings = 0

    @property
    def execution(self) -> dict[str, Any]:
        """How the last requests were computed; empty before the first."""
        if self._choice is None:
            return {}
        return {
            "path": self._choice.step.name,
            "step": self._choice.step.words,
            "reason": self._choice.reason,
            "refused": self._choice.refused,
            "tokens_per_pass": self._budget,
            "halvings": self._halvings,
        }

    def answers(self, requests: Sequence[EncodedRequest]) -> Answers:
        """Raises ModelError for a model that sees what follows, or does not fit the memory."""
        waiting = dict(enumerate(requests))
        while waiting:
            self._choice, too_small = None, None
            try:
                for pack in self._scores(waiting):
                    yield pack
                    for index, _ in pack:
                        del waiting[index]
                return
            except torch.OutOfMemoryError as error:
                end_where_divided(error)
                too_small = str(error)
            except Exception as error:
                choice = self._choice
                if choice is None or choice.step.name == "plain":
                    raise
                problem = set_aside(f"to compute loglikelihoods {choice.step.words}", error)
                self._ladder.refuse(choice, f"it failed in use: {problem}")
            if too_small is not None:  # only now is nothing of the pass that failed held any more
                self._make_room(too_small)

    def _scores(self, waiting: dict[int, EncodedRequest]) -> Answers:
        """Responses to what waits, on the best way that is left."""
        places = list(waiting)
        sequences = [waiting[place].tokens for place in places]
        targets = [waiting[place].targets for place in places]
        if self._budget is None:
            self._budget = token_budget(self._model, longest=max(map(len, sequences)))
        if not self._seen_causal:
            if self._kept.found(CAUSAL) is None:
                self._check_causal(max(sequences, key=len))
                self._kept.keep(CAUSAL, {})
            self._seen_causal = True
        choice = self._ladder.choose(sequences, targets, budget=self._budget)
        self._choice = choice
        if choice.answered:
            yield [
                (places[index], self._response(waiting[places[index]], scores, choice.step.name))
                for index, scores in choice.answered.items()
            ]
        left = [index for index in range(len(places)) if index not in choice.answered]
        for wave in in_waves(waiting[places[index]] for index in left):
            own = [left[number] for number in wave]
            rows, asked = ([of[index] for index in own] for of in (sequences, targets))
            for pack in choice.path.scores(rows, asked, budget=self._budget):
                answered = [(places[own[number]], scores) for number, scores in pack]
                yield [
                    (place, self._response(waiting[place], scores, choice.step.name))
                    for place, scores in answered
                ]

    def _make_room(self, problem: str) -> None:
        """Fewer tokens in a pass, or where that is slower a plainer way."""
        assert self._budget is not None  # noqa: S101  # a pass was tried with it
        release(self._model.device)
        choice = self._choice
        if choice is not None and choice.step.name != "plain" and self._budget <= LEAST_TOKENS:
            self._ladder.refuse(choice, f"out of memory with {self._budget} tokens in a pass")
            return
        if self._budget == 1:
            raise ModelError(f"out of memory on {self._model.device}: {problem}")
        self._budget //= 2
        self._halvings += 1
        log.warning("out of memory: %d tokens in a pass from now on", self._budget)

    def _check_causal(self, tokens: Sequence[int]) -> None:
        """Raises ModelError for a model that sees what follows (BERT with a language model's head).

        It would be scored with the answer before its eyes, and differently in every batch. Asked of
        the beginning of a real row only: some models that are causal read a long row in another way
        than a short one, which is the ladder's concern.
        """
        beginning = tokens[: 2 * PLACES]
        moved = moved_by_what_follows(self._model, beginning, max(1, len(beginning) // 2))
        if moved is not None:
            raise ModelError(
                "the model is not causal: what follows a position changes what it says there "
                f"(by {moved:.2g} nats), so it cannot be asked how likely an answer is"
            )

    def _response(self, request: EncodedRequest, scores: Scores, path: PathName) -> Response:
        return response_of(request, scores, self._softmax, path)
