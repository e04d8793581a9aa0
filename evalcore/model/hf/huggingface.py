"""A causal language model of `transformers`: the `hf` backend.

It reads by `reading.py` (tokenizer, encoding, chat template), and computes by the scorer of
`loglikelihood` and the writer of `writing`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Literal, Protocol, Self

import torch
from transformers import AutoModelForCausalLM, GenerationConfig

from evalcore.errors import ModelError
from evalcore.model.base import Answers, EncodedRequest, Mode, ModelInfo
from evalcore.model.capabilities import Capabilities
from evalcore.model.faults import libraries_fault
from evalcore.model.forward.logits import dtype_of_logits
from evalcore.model.forward.selfcheck import is_quantised
from evalcore.model.hf.bases import other_base
from evalcore.model.hf.description import max_length_of
from evalcore.model.hf.gguf import packing_of
from evalcore.model.hf.loading import load_model, skeleton
from evalcore.model.hf.precheck import precheck
from evalcore.model.hf.quantisation import at_loading, quantisation_of
from evalcore.model.hf.quantised import parameters_of, stated_by
from evalcore.model.hf.reading import Reader
from evalcore.model.hf.shared import SharedWeights
from evalcore.model.hf.snapshot import (
    Arguments,
    Files,
    download,
    download_tokenizer,
    download_weights,
)
from evalcore.model.hf.tokenizer_rules import load_with_notes
from evalcore.model.hf.weights import digest_of_quantised, weights_digest
from evalcore.model.hf.whole_texts import scored
from evalcore.model.kept_checks import KeptChecks, place_of
from evalcore.model.loglikelihood.ladder import PathName
from evalcore.model.loglikelihood.scoring import Scorer
from evalcore.model.writing.generation import GenerationRequest
from evalcore.model.writing.plan import Writer

GENERATION_ARGUMENTS = frozenset(
    name
    for name in vars(GenerationConfig())  # type: ignore[no-untyped-call]
    if not name.startswith("_")
)
"""What the `generate` of transformers can be told."""


class ScoresAndSays(Protocol):
    """Computes loglikelihoods, and says how."""

    @property
    def execution(self) -> dict[str, Any]: ...

    def answers(self, requests: Sequence[EncodedRequest]) -> Answers: ...


class HuggingFaceLM(Reader):
    """The `hf` backend for causal models; satisfies `evalcore.model.base.LM`."""

    auto: Any = AutoModelForCausalLM
    """What of transformers chooses the model's class."""

    capabilities = Capabilities(
        backend="hf",
        loglikelihood=True,
        rolling=True,
        generate=True,
        tokens_in=True,
        tokens_out=True,
        prompt_logprobs=True,
        greedy="argmax",
        chat="text",
        adapters=True,
        quantised=True,
        copies=True,
        max_length_known=True,
    )

    def __init__(
        self,
        arguments: Arguments | None = None,
        *,
        batch_size: int | None = None,
        device: str | None = None,
        mode: Mode = "compat",
        weights: bool = True,
        model: Any = None,
        tokenizer: Any = None,
        path: Literal["auto"] | PathName = "auto",
        shared: SharedWeights | None = None,
    ) -> None:
        """Loads the model, unless an initialised one of `transformers` is given.

        `batch_size` caps the rows of a plain batch; None leaves it to the budget. `mode` decides
        what differs from lm-evaluation-harness (docs/engine.md). `path` is for tests and
        benchmarks: the one way to compute loglikelihoods (`loglikelihood.ladder`). Without
        `weights` it can be asked what it would read (`encode`, `chat_template`) and nothing else.
        `shared`: weights that other adapters of the model have, too.
        Raises ModelError when the repository cannot be loaded as it is, InfraError when the Hub
        cannot be reached.
        """
        if model is not None:
            name = getattr(model.config, "name_or_path", "") or type(model).__name__
            arguments = arguments or Arguments(pretrained=str(name))
        if arguments is None:
            raise ModelError("no model: give its arguments, or an initialised model")
        self._files: Files | None = None
        self._first_pass: FirstPass | None = None
        self._width: int | None = None
        """Tokens of the model's tables where its adapter wants another number."""
        notes: tuple[str, ...] = ()
        if model is None:
            here = device or default_device()
            if weights:
                checked = precheck(
                    arguments, device=here, mode=mode, kind=self.auto, tokenizer=tokenizer
                )
                self._files, self._width = checked.files, checked.width
                download_weights(self._files)
                if tokenizer is None:
                    tokenizer, notes = load_with_notes(arguments, self._files.tokenizer)
                model = load_model(
                    *(arguments, self._files, here, self.auto),
                    width=self._width,
                    shared=shared,
                )
            else:
                self._files = download(arguments, weights=False)
                if tokenizer is None:
                    tokenizer, notes = load_with_notes(arguments, self._files.tokenizer)
                model = skeleton(arguments, self._files, self.auto)
        elif tokenizer is None:
            tokenizer, notes = load_with_notes(arguments, download_tokenizer(arguments))
        self._model = model
        self._checks = KeptChecks()
        self._way = {"batch_size": batch_size, "path": path}
        with libraries_fault(f"{arguments.pretrained} cannot be used"):
            self._softmax = _softmax_of(model, arguments, mode, self._dtype_of_logits)
            self._scorer, writer = self._computing(tokenizer, batch_size, path)
            self._writer = writer
            # Its functions do not hold this object, which is freed as soon as nobody has it.
            super().__init__(
                arguments,
                tokenizer,
                mode=mode,
                max_length=max_length_of(model.config, tokenizer),
                vocabulary=lambda: len(model.get_input_embeddings().weight),
                generation_arguments=GENERATION_ARGUMENTS,
                generation_defaults=lambda: writer.defaults,
                tokenizer_notes=notes,
            )
            _ = self.encoder.digest, self.encoder.special_tokens, self.encoder.specials_behind

    @classmethod
    def from_arguments(
        cls,
        arguments: Mapping[str, Any],
        *,
        batch_size: int | None = None,
        device: str | None = None,
        mode: Mode = "compat",
        weights: bool = True,
    ) -> Self:
        stated = Arguments.of(arguments)
        return cls(stated, batch_size=batch_size, device=device, mode=mode, weights=weights)

    def _dtype_of_logits(self) -> torch.dtype:
        return dtype_of_logits(self._model)

    def _computing(
        self, tokenizer: Any, batch_size: int | None, path: Literal["auto"] | PathName
    ) -> tuple[ScoresAndSays, Writer]:
        """What computes loglikelihoods, and what writes."""
        model = self._model
        kept = self._checks
        scorer = Scorer(model, batch_size=batch_size, path=path, softmax=self._softmax, kept=kept)
        return scorer, Writer(model, tokenizer, batch_size=batch_size, path=path, kept=kept)

    def keep_checks(self, *, again: bool = False) -> None:
        """From now on this machine knows what is found when the model is checked, and what was
        found before holds, unless the model is to be checked `again`.

        Not of an initialised model, nor of one whose own code is run, which can do anything.
        """
        if self._files is not None and not self._files.code:
            place = place_of(self.info, self._model.device, self._way)
            self._checks.begin(place, again=again)

    @property
    def _first_read(self) -> Any:
        """The part of the model that reads tokens first."""
        return self._model

    @property
    def first_forward(self) -> float | None:
        """When it was first run, by `time.monotonic`."""
        return self._first_pass.at if self._first_pass else None

    @property
    def execution(self) -> dict[str, Any]:
        kinds = {
            "loglikelihood": self._scorer.execution,
            "generate_until": self._writer.execution,
        }
        return {kind: how for kind, how in kinds.items() if how}

    @property
    def accelerators(self) -> list[str]:
        """UUIDs of the NVIDIA GPUs that hold it; an empty text for any other accelerator."""
        places = {parameter.device for parameter in self._model.parameters()}
        return [
            f"GPU-{torch.cuda.get_device_properties(place).uuid}"
            if place.type == "cuda" and torch.version.cuda
            else ""
            for place in sorted(places, key=str)
            if place.type not in ("cpu", "meta")  # meta: offloaded, to memory or disk
        ]

    @property
    def reference(self) -> Any:
        """The same model in the plainest way, for `evalcore.model.conformance`."""
        return PlainReference(
            self._model,
            self.tokenizer,
            self._arguments.add_bos_token,
            ends_texts=self._mode == "compat",
        )

    @property
    def info(self) -> ModelInfo:
        """The pins; of an initialised model those of its weights as they are now, which are all
        read for it."""
        if self._files is None:
            if not is_quantised(self._model):
                return self._info(None, weights_digest(self._model))
            with evaluating(self._model):
                dtype_of_logits(self._model)  # when they are first run some repack their weights
            return self._info(None, digest_of_quantised(self._model))
        return self._loaded_info

    @cached_property
    def _loaded_info(self) -> ModelInfo:
        assert self._files is not None  # noqa: S101  # a model that was loaded has files
        return self._info(self._files.model.commit, self._files.model.files_digest, self._files)

    @property
    def _configuration(self) -> Mapping[str, Any]:
        """What the repository says: where a method cannot be run, loading may have undone it."""
        if self._files is None:
            return stated_by(self._model)
        if self._files.model.file:
            return {}
        stated = (self._files.model.folder / "config.json").read_text(encoding="utf-8")
        return dict(json.loads(stated))

    @property
    def _quantisation(self) -> str | None:
        if self._files is not None and self._files.model.file:
            return packing_of(self._files.model)
        return at_loading(self._arguments) or quantisation_of(self._configuration)

    @property
    def _n_parameters(self) -> int:
        if is_quantised(self._model):
            return parameters_of(self._model)
        return sum(p.numel() for p in self._model.parameters())

    def _info(
        self, commit: str | None, files_digest: str | None, files: Files | None = None
    ) -> ModelInfo:
        adapter, delta = (files.adapter, files.delta) if files else (None, None)
        return ModelInfo(
            repository=self._arguments.pretrained,
            commit=commit,
            files_digest=files_digest,
            architecture=type(self._model).__name__,
            parameters=self._n_parameters,
            dtype=str(self._model.dtype).removeprefix("torch."),
            softmax_dtype=str(self._softmax).removeprefix("torch."),
            adapter=adapter.pin if adapter else None,
            adapter_base=other_base(self._arguments, files) if files else None,
            delta=delta.pin if delta else None,
            vocabulary=self._width,
            gguf_file=files.model.file_pin if files else None,
            code=files.code if files else (),
            quantisation=self._quantisation,
            device=str(self._model.device),
            subfolder=self._arguments.subfolder,
            arguments=self._arguments.as_json(),
            **self.pins,
        )

    def answer(self, requests: Sequence[EncodedRequest]) -> Answers:
        """Raises ModelError for a model that sees what follows, or does not fit the memory."""
        writing = {
            i: request
            for i, request in enumerate(requests)
            if isinstance(request, GenerationRequest)
        }
        self._first_pass = self._first_pass or FirstPass(self._first_read)
        with libraries_fault("it fails when it is computed"), evaluating(self._model):
            yield from scored(requests, self._scorer.answers)
            yield from self._writer.answers(writing)


def default_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


class FirstPass:
    """Notes the moment at which a model is first given tokens, and then watches no more."""

    def __init__(self, model: Any) -> None:
        self.at: float | None = None
        """By `time.monotonic`; None so far."""
        # Every way to run a model reads its tokens' embeddings, and few begin at the whole model.
        self._hook = model.get_input_embeddings().register_forward_pre_hook(self._note)

    def _note(self, *_: Any) -> None:
        self.at = time.monotonic()
        self._hook.remove()


def _softmax_of(
    model: Any, arguments: Arguments, mode: Mode, of_logits: Callable[[], torch.dtype]
) -> torch.dtype:
    """The precision of the log-softmax: float32 but in compat, where it is what is stated, and
    where nothing is, that of the model's logits."""
    stated = arguments.softmax_dtype
    if mode == "strict" or (stated is None and model.dtype.itemsize >= torch.float32.itemsize):
        return torch.float32
    return getattr(torch, stated) if stated else of_logits()


class PlainReference:
    """A model asked in the plainest way, one row at a time and without a state: what
    `evalcore.model.conformance` holds a backend to. Shares no code with what is fast."""

    def __init__(
        self, model: Any, tokenizer: Any, add_bos_token: bool | None, *, ends_texts: bool = True
    ) -> None:
        """`ends_texts`: whether a text keeps what its tokenizer puts behind it."""
        self._model = model
        self._tokenizer = tokenizer
        self._add_bos_token = add_bos_token
        self._ends_texts = ends_texts

    def tokens(self, text: str) -> list[int]:
        """A whole text as the tokenizer reads it, with what it adds."""
        stated = self._add_bos_token
        options = {} if stated is None else {"add_special_tokens": stated}
        read = self._tokenizer(text, return_special_tokens_mask=True, **options)
        tokens, added = list(read["input_ids"]), list(read["special_tokens_mask"])
        while not self._ends_texts and len(tokens) > 1 and added[len(tokens) - 1]:
            tokens.pop()
        return tokens

    @torch.inference_mode()
    def teacher_forced(
        self, tokens: Sequence[int], targets: Sequence[int]
    ) -> tuple[list[float], bool]:
        """Log-probability of each target after what is fed, in float64, and whether each is the
        likeliest token."""
        row = torch.tensor([list(tokens)], device=self._model.device)
        with evaluating(self._model):
            logits = self._model(row, use_cache=False).logits[0, -len(targets) :].double()
        chosen = torch.tensor(list(targets), device=logits.device)
        logprobs = logits.log_softmax(-1).gather(1, chosen[:, None])[:, 0]
        return logprobs.tolist(), bool((logits.argmax(-1) == chosen).all())


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Dropout and the like are off meanwhile, and then on again where they were."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
