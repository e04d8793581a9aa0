"""Loglikelihoods from a model with an encoder: each distinct source is read once.

A batch of sources is encoded; then their decoder rows (the token with which the decoder begins,
and the targets but for the last) are computed in batches over what the encoder said, so that the
choices of a question share it, and choices of one token share even the row. Rows are padded on the
right: the encoder's padding is hidden by its mask, and the decoder's lies behind all that is read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.modeling_outputs import BaseModelOutput

from evalcore.errors import ModelError
from evalcore.model.base import Answers, EncodedRequest
from evalcore.model.faults import set_aside
from evalcore.model.forward.head import ScoresByRequest, response_of
from evalcore.model.forward.memory import release, token_budget
from evalcore.model.forward.plain import Row, batches_of, logits_per_batch, rows_of, scores_of
from evalcore.model.forward.selfcheck import IN_COMPANY, Trial, tried_in_both
from evalcore.model.kept_checks import KeptChecks
from evalcore.model.waves import in_waves

log = logging.getLogger(__name__)

IN_BATCHES = "sources in batches"
"""The check, as it is kept."""

Tokens = tuple[int, ...]
Encoded = tuple[Tensor, Tensor]
"""What the encoder said, (sources, tokens, width), and the mask that hides the padding."""


class SourceScorer:
    """Scores targets after a source, by the rules of `evalcore.model.tokens.sources`."""

    def __init__(
        self,
        model: Any,
        *,
        batch_size: int | None,
        softmax: torch.dtype = torch.float32,
        kept: KeptChecks | None = None,
    ) -> None:
        """`batch_size` caps the rows of a batch; `softmax` is the precision of the log-softmax;
        `kept` what was found of the model before."""
        self._kept = kept or KeptChecks()
        self._model = model
        self._batch_size = batch_size
        self._softmax = softmax
        self._budget: int | None = None
        self._halvings = 0
        self._found: Trial | None = None
        """When rows were tried in company; None so far."""

    @property
    def execution(self) -> dict[str, Any]:
        """How the last requests were computed; empty before the first."""
        if self._budget is None:
            return {}
        problem = self._found.problem if self._found else "a single row"
        return {
            "path": "plain",
            "step": "one by one" if problem else "in batches, each source once",
            "reason": problem or "a model with an encoder",
            "refused": {},
            "tokens_per_pass": self._budget,
            "halvings": self._halvings,
        }

    def answers(self, requests: Sequence[EncodedRequest]) -> Answers:
        """Raises ModelError for a request that does not fit the memory by itself."""
        waiting = dict(enumerate(requests))
        while waiting:
            too_small = None
            try:
                for pack in self._packs(waiting):
                    yield pack
                    for index, _ in pack:
                        del waiting[index]
                return
            except torch.OutOfMemoryError as problem:
                too_small = str(problem)
            # Outside of the handler, whose traceback holds the tensors of the pass.
            self._make_room(too_small)

    def _make_room(self, problem: str) -> None:
        release(self._model.device)
        if self._budget is None or self._budget == 1:
            raise ModelError(f"out of memory on {self._model.device}: {problem}")
        self._budget //= 2
        self._halvings += 1
        log.warning("out of memory: %d tokens in a pass from now on", self._budget)

    @torch.inference_mode()
    def _packs(self, waiting: dict[int, EncodedRequest]) -> Answers:
        places = list(waiting)
        asked = [waiting[place] for place in places]
        if self._budget is None:
            longest = max(len(request.tokens) for request in asked)
            self._budget = token_budget(self._model, longest=longest)
        if self._found is None and len({request.tokens for request in asked}) > 1:
            if self._kept.found(IN_BATCHES):
                self._found = Trial(problem=None, largest=0.0)
            else:
                self._found = self._tried(asked)
                if self._found.problem is None:
                    self._kept.keep(IN_BATCHES, {})
        is_alone = self._found is None or self._found.problem is not None
        for wave in in_waves(asked):
            own = [asked[index] for index in wave]
            for pack in self._one_by_one(own) if is_alone else self._in_batches(own):
                yield [
                    (places[wave[index]], response_of(own[index], scores, self._softmax))
                    for index, scores in pack
                ]

    def _one_by_one(self, asked: Sequence[EncodedRequest]) -> ScoresByRequest:
        for row in rows_of([request.tokens for request in asked]):
            # Requests of one row may have other parts of it for their source.
            for index in row.requests:
                source, written = parts_of(asked[index])
                logits = self._whole(source, written)
                targets = asked[index].targets
                wanted = [(index, place, token) for place, token in enumerate(targets)]
                yield scores_of(logits, wanted, softmax=self._softmax)

    def _in_batches(self, asked: Sequence[EncodedRequest]) -> ScoresByRequest:
        assert self._budget is not None  # noqa: S101  # set before
        parts = [parts_of(request) for request in asked]
        sources = rows_of([source for source, _ in parts])
        for batch in batches_of(sources, budget=self._budget, most_rows=self._batch_size):
            encoded = self._encoded([row.tokens for row in batch])
            width = encoded[1].shape[1]
            rows = [
                (place, Row(row.tokens, tuple(source.requests[index] for index in row.requests)))
                for place, source in enumerate(batch)
                for row in rows_of([parts[index][1] for index in source.requests])
            ]
            rows.sort(key=lambda row: -len(row[1].tokens))
            for some in self._decoder_batches(rows, width):
                logits = self._decoded(
                    encoded, [place for place, _ in some], [row.tokens for _, row in some]
                )
                steps = logits.shape[1]
                wanted = [
                    (index, line * steps + step, token)
                    for line, (_, row) in enumerate(some)
                    for index in row.requests
                    for step, token in enumerate(asked[index].targets)
                ]
                yield scores_of(logits.flatten(0, 1), wanted, softmax=self._softmax)

    def _decoder_batches(
        self, rows: Sequence[tuple[int, Row]], width: int
    ) -> Iterator[list[tuple[int, Row]]]:
        """Consecutive rows, longest first, of which each reads a source of `width` tokens."""
        assert self._budget is not None  # noqa: S101  # set before
        vocabulary = len(self._model.get_input_embeddings().weight)
        batch: list[tuple[int, Row]] = []
        for row in rows:
            steps = len(batch[0][1].tokens) if batch else 0
            more = len(batch) + 1
            is_full = batch and (
                max(width, steps) * more > self._budget
                or steps * more * vocabulary > logits_per_batch(self._model.device)
                or (self._batch_size is not None and more > self._batch_size)
            )
            if is_full:
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    def _encoded(self, sources: Sequence[Tokens]) -> Encoded:
        ids, mask = self._padded(sources)
        encoder = self._model.get_encoder()
        said = encoder(input_ids=ids, attention_mask=mask, return_dict=True)
        return said.last_hidden_state, mask

    def _decoded(self, encoded: Encoded, places: Sequence[int], rows: Sequence[Tokens]) -> Tensor:
        """Logits (rows, longest row, vocabulary); row i reads source `places[i]`."""
        hidden, mask = encoded
        chosen = torch.tensor(places, device=hidden.device)
        output = self._model(
            encoder_outputs=BaseModelOutput(last_hidden_state=hidden[chosen]),
            attention_mask=mask[chosen],
            decoder_input_ids=self._padded(rows)[0],
            use_cache=False,
        )
        return output.logits  # type: ignore[no-any-return]

    def _whole(self, source: Tokens, written: Tokens) -> Tensor:
        """Logits (tokens, vocabulary) of one row, by the model's own forward pass."""
        ids, mask = self._padded([source])
        rows, _ = self._padded([written])
        output = self._model(
            input_ids=ids, attention_mask=mask, decoder_input_ids=rows, use_cache=False
        )
        return output.logits[0]  # type: ignore[no-any-return]

    def _padded(self, rows: Sequence[Tokens]) -> tuple[Tensor, Tensor]:
        width, device = max(map(len, rows)), self._model.device
        ids = [list(row) + [0] * (width - len(row)) for row in rows]
        mask = [[1] * len(row) + [0] * (width - len(row)) for row in rows]
        return torch.tensor(ids, device=device), torch.tensor(mask, device=device)

    def _tried(self, asked: Sequence[EncodedRequest]) -> Trial:
        """Whether real requests, a long one and a short one, get in one padded batch what the model
        says to each alone: experts with a capacity, for one, are shared by the rows of a batch."""
        ordered = sorted(asked, key=lambda request: len(request.tokens))
        other = next(r for r in reversed(ordered) if r.tokens != ordered[0].tokens)
        parts = [parts_of(request) for request in (ordered[0], other)]

        def trial(_: int) -> Trial:
            alone = [self._whole(*part)[-1] for part in parts]
            try:
                encoded = self._encoded([source for source, _ in parts])
                together = self._decoded(encoded, [0, 1], [row for _, row in parts])
            except torch.OutOfMemoryError:
                raise
            except Exception as problem:  # as in the ladder, an error is a refusal
                said = set_aside("to compute rows in batches", problem)
                return Trial(problem=said, largest=0.0)
            moved = max(
                float((mine.float().log_softmax(-1) - theirs.float().log_softmax(-1)).abs().max())
                for mine, line, (_, row) in zip(alone, together, parts, strict=True)
                for theirs in (line[len(row) - 1],)
            )
            is_right = moved <= IN_COMPANY.of(self._model)
            return Trial(problem=None if is_right else "rows change each other", largest=moved)

        return tried_in_both(self._model, trial)


def parts_of(request: EncodedRequest) -> tuple[Tokens, Tokens]:
    """What the encoder reads, and what the decoder is fed."""
    border = len(request.tokens) - len(request.targets)
    return request.tokens[:border], request.tokens[border:]


@torch.inference_mode()
def dtype_of_decoder(model: Any) -> torch.dtype:
    """The precision in which a model gives its logits; that of its weights for one without any."""
    if model.device.type == "meta":
        return model.dtype  # type: ignore[no-any-return]
    first = torch.zeros((1, 1), dtype=torch.long, device=model.device)
    return model(input_ids=first, decoder_input_ids=first, use_cache=False).logits.dtype  # type: ignore[no-any-return]
