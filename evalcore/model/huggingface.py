"""A causal language model of `transformers`, on the plain path.

One forward pass a batch over right-padded rows without an attention mask: what lies to the right of
a position cannot reach it. Logits are asked for only where a target is scored, and become
loglikelihoods by a log-softmax in float32 whatever the model's own precision, summed in float64.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from evalcore.errors import ModelError
from evalcore.model.base import EncodedRequest, ModelInfo, Request, Response
from evalcore.model.batching import Row, batches_of, rows_of
from evalcore.model.loading import load_model, load_tokenizer
from evalcore.model.snapshot import Arguments, download
from evalcore.model.tokens import Encoder

TOKENS_PER_BATCH = 4096
"""Padded tokens in one forward pass; small enough that a batch is a second's work on a CPU."""

CAUSAL_NOISE, CAUSAL_NOISE_HALF = 1e-2, 1.0
"""Nats by which rounding may move any token's log-probability; sight of what follows moves more."""


class HuggingFaceLM:
    """The `hf` backend; satisfies `evalcore.model.base.LM`."""

    def __init__(self, arguments: Arguments, *, batch_size: int | None, device: str | None) -> None:
        """Loads the model. `batch_size` caps the rows of a batch; None leaves it to the budget.

        Raises ModelError when the repository cannot be loaded as it is, InfraError when the Hub
        cannot be reached.
        """
        self._arguments = arguments
        self._batch_size = batch_size
        self._snapshot = download(arguments)
        tokenizer = load_tokenizer(arguments, self._snapshot)
        here = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self._model = load_model(arguments, self._snapshot, here)
        self._seen_causal = False
        self._encoder = Encoder(
            tokenizer,
            max_length=arguments.max_length or _max_length(self._model, tokenizer),
            add_bos_token=arguments.add_bos_token,
        )

    @cached_property
    def info(self) -> ModelInfo:
        return ModelInfo(
            repository=self._arguments.pretrained,
            commit=self._snapshot.commit,
            files_digest=self._snapshot.files_digest,
            architecture=type(self._model).__name__,
            parameters=sum(p.numel() for p in self._model.parameters()),
            dtype=str(self._model.dtype).removeprefix("torch."),
            max_length=self._encoder.max_length,
            tokenizer_digest=self._encoder.digest,
            bos_policy=self._encoder.bos_policy,
            prefix_token=self._encoder.prefix_token,
            special_tokens=self._encoder.special_tokens,
            device=str(self._model.device),
        )

    def encode(self, requests: Sequence[Request]) -> list[EncodedRequest]:
        """Raises ModelError also for a tokenizer whose tokens the model does not have."""
        encoded = self._encoder.encode(requests)
        highest = max((max(*one.tokens, *one.targets) for one in encoded), default=0)
        known = self._model.get_input_embeddings().num_embeddings
        if highest >= known:
            raise ModelError(
                f"its tokenizer makes the token {highest}, and the model has {known} tokens: "
                "publish the tokenizer that the model was trained with"
            )
        return encoded

    def answer(self, requests: Sequence[EncodedRequest]) -> Iterator[list[tuple[int, Response]]]:
        """Raises ModelError for a model that sees what follows, or does not fit the memory."""
        rows = rows_of(requests)
        if rows and not self._seen_causal:
            self._check_causal(rows[0].tokens)
            self._seen_causal = True
        waiting = batches_of(rows, budget=TOKENS_PER_BATCH, most_rows=self._batch_size)[::-1]
        while waiting:
            batch = waiting.pop()
            try:
                answers = self._answer_batch(batch, requests)
            except torch.OutOfMemoryError as problem:
                if len(batch) == 1:
                    raise ModelError(f"out of memory on {self._model.device}: {problem}") from None
                waiting += [batch[len(batch) // 2 :], batch[: len(batch) // 2]]
                continue
            yield answers

    @torch.inference_mode()
    def _check_causal(self, tokens: Sequence[int]) -> None:
        """Ask for the first half of a real row alone and within the row: the answer must not move.

        A model that sees what follows (BERT with a language model's head) would be scored with the
        answer before its eyes, and differently in every batch. Raises ModelError for it.
        """
        half = torch.arange(max(1, len(tokens) // 2), device=self._model.device)
        row = torch.tensor([tokens], device=self._model.device)
        alone, within = (
            torch.log_softmax(self._logits(fed, half).float(), dim=-1)
            for fed in (row[:, : len(half)], row)
        )
        moved = float((alone - within).abs().max())
        if moved > (CAUSAL_NOISE if self._model.dtype == torch.float32 else CAUSAL_NOISE_HALF):
            raise ModelError(
                "the model is not causal: what follows a position changes what it says there "
                f"(by {moved:.2g} nats), so it cannot be asked how likely an answer is"
            )

    @torch.inference_mode()
    def _answer_batch(
        self, batch: list[Row], requests: Sequence[EncodedRequest]
    ) -> list[tuple[int, Response]]:
        width = max(len(row.tokens) for row in batch)
        tokens = torch.tensor(
            [row.tokens + (0,) * (width - len(row.tokens)) for row in batch],
            device=self._model.device,
        )
        scored = sorted(
            {place for row in batch for i in row.requests for place in _places(row, requests[i])}
        )
        logits = self._logits(tokens, torch.tensor(scored, device=tokens.device))
        column = {place: index for index, place in enumerate(scored)}
        answers = []
        for line, row in enumerate(batch):
            for index in row.requests:
                request = requests[index]
                columns = [column[place] for place in _places(row, request)]
                answers.append((index, _response(request, logits[line, columns])))
        return answers

    def _logits(self, tokens: Tensor, places: Tensor) -> Tensor:
        """Logits of shape (rows, len(places), vocabulary) at the given positions of each row."""
        if self._keeps_logits:
            output = self._model(tokens, use_cache=False, logits_to_keep=places)
            return output.logits  # type: ignore[no-any-return]
        return self._model(tokens, use_cache=False).logits[:, places]  # type: ignore[no-any-return]

    @cached_property
    def _keeps_logits(self) -> bool:
        return "logits_to_keep" in inspect.signature(self._model.forward).parameters


def _places(row: Row, request: EncodedRequest) -> range:
    """Positions of the row whose logits predict the request's targets."""
    return range(len(row.tokens) - len(request.targets), len(row.tokens))


def _response(request: EncodedRequest, logits: Tensor) -> Response:
    """Score the targets from logits of shape (len(targets), vocabulary).

    Raises ModelError for logits that are not numbers: such weights have no score.
    """
    targets = torch.tensor(request.targets, device=logits.device)
    logprobs = torch.log_softmax(logits.float(), dim=-1).gather(1, targets[:, None])[:, 0]
    if not torch.isfinite(logprobs).all():
        raise ModelError("the model's output is not a number (NaN or infinity): check its weights")
    return Response(
        key=request.key,
        kind="loglikelihood",
        loglikelihood=float(logprobs.double().sum()),
        is_greedy=bool((logits.argmax(dim=-1) == targets).all()),
        token_ids=request.targets,
        token_logprobs=tuple(logprobs.tolist()),
        n_context_tokens=request.n_context_tokens,
        n_truncated=request.n_truncated,
        path="plain",
    )


def _max_length(model: Any, tokenizer: Any) -> int:
    """The longest input: what the configuration says, else the tokenizer, else 2048."""
    config = model.config.get_text_config()
    for name in ("n_positions", "max_position_embeddings", "n_ctx"):
        if isinstance(length := getattr(config, name, None), int) and length > 0:
            return length
    # Tokenizers without a limit of their own say so by a number of thirty digits.
    stated = int(tokenizer.model_max_length)
    return stated if stated < 10**9 else 2048
