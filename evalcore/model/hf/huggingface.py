"""A causal language model of `transformers`: the `hf` backend."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Literal, Self

import torch
from transformers import GenerationConfig

from evalcore.errors import ModelError
from evalcore.model.base import ChatTemplate, EncodedRequest, Mode, ModelInfo, Request, Response
from evalcore.model.faults import libraries_fault
from evalcore.model.forward.plain import dtype_of_logits
from evalcore.model.hf.conversation import chat_template_of
from evalcore.model.hf.first_pass import FirstPass
from evalcore.model.hf.loading import load_model, load_tokenizer, skeleton
from evalcore.model.hf.quantisation import quantisation_of
from evalcore.model.hf.snapshot import Arguments, Files, download, download_tokenizer
from evalcore.model.hf.weights import weights_digest
from evalcore.model.loglikelihood.ladder import PathName
from evalcore.model.loglikelihood.scoring import Scorer
from evalcore.model.tokens.encoder import Encoder
from evalcore.model.tokens.spelling import Spelling
from evalcore.model.tokens.windows import rolling_windows
from evalcore.model.writing.encoded import GenerationRequest, RollingRequest
from evalcore.model.writing.generation import Plan, plan_of
from evalcore.model.writing.plan import Writer

GENERATION_ARGUMENTS = frozenset(
    name
    for name in vars(GenerationConfig())  # type: ignore[no-untyped-call]
    if not name.startswith("_")
)
"""What the `generate` of transformers can be told."""

FLOAT32_BYTES = torch.float32.itemsize


class HuggingFaceLM:
    """The `hf` backend; satisfies `evalcore.model.base.LM`."""

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
    ) -> None:
        """Loads the model, unless an initialised one of `transformers` is given.

        `batch_size` caps the rows of a plain batch; None leaves it to the budget. `mode` decides
        what differs from lm-evaluation-harness (docs/engine.md). `path` is for tests and
        benchmarks: the one way to compute loglikelihoods (`loglikelihood.ladder`). Without
        `weights` it can be asked what it would read (`encode`, `chat_template`) and nothing else.
        Raises ModelError when the repository cannot be loaded as it is, InfraError when the Hub
        cannot be reached.
        """
        if model is not None:
            name = getattr(model.config, "name_or_path", "") or type(model).__name__
            arguments = arguments or Arguments(pretrained=str(name))
        if arguments is None:
            raise ModelError("no model: give its arguments, or an initialised model")
        self._arguments = arguments
        self._mode = mode
        self._files: Files | None = None
        if model is None:
            self._files = download(arguments, weights=weights)
            tokenizer = tokenizer or load_tokenizer(arguments, self._files.tokenizer)
            here = device or ("cuda" if torch.cuda.is_available() else "cpu")
            model = (
                load_model(arguments, self._files, here)
                if weights
                else skeleton(arguments, self._files)
            )
        else:
            tokenizer = tokenizer or load_tokenizer(arguments, download_tokenizer(arguments))
        self._model = model
        self._tokenizer = tokenizer
        self._encoder = Encoder(
            tokenizer,
            max_length=arguments.max_length or _max_length(model, tokenizer),
            add_bos_token=arguments.add_bos_token,
            prefix_token=arguments.prefix_token_id,
            truncation=arguments.truncation,
        )
        self._spelling = Spelling(tokenizer)
        self._first_pass: FirstPass | None = None
        with libraries_fault("it cannot be used"):
            self._softmax = self._softmax_of(model)
            self._scorer = Scorer(model, batch_size=batch_size, path=path, softmax=self._softmax)
            self._writer = Writer(model, tokenizer, batch_size=batch_size, path=path)
            _ = self._encoder.digest, self._encoder.special_tokens

    def _softmax_of(self, model: Any) -> torch.dtype:
        """The precision of the log-softmax: float32 but in compat, where it is what is stated, and
        where nothing is, that of the model's logits."""
        stated = self._arguments.softmax_dtype
        if self._mode == "strict" or (stated is None and model.dtype.itemsize >= FLOAT32_BYTES):
            return torch.float32
        return getattr(torch, stated) if stated else dtype_of_logits(model)

    @property
    def reads_ahead(self) -> bool:
        """Not where it tells its tokenizer to cut, which is a state of the tokenizer."""
        return not self._arguments.truncation

    @property
    def first_forward(self) -> float | None:
        """When it was first run, by `time.monotonic`."""
        return self._first_pass.at if self._first_pass else None

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any], **options: Any) -> Self:
        return cls(Arguments.of(arguments), **options)

    @property
    def info(self) -> ModelInfo:
        """The pins; of an initialised model those of its weights as they are now, which are all
        read for it."""
        if self._files is None:
            return self._info(None, weights_digest(self._model), None)
        return self._loaded_info

    @cached_property
    def _loaded_info(self) -> ModelInfo:
        assert self._files is not None  # noqa: S101  # a model that was loaded has files
        model, adapter = self._files.model, self._files.adapter
        own = f"{adapter.name}@{adapter.commit or adapter.files_digest}" if adapter else None
        return self._info(model.commit, model.files_digest, own)

    @property
    def execution(self) -> dict[str, Any]:
        kinds = {
            "loglikelihood": self._scorer.execution,
            "generate_until": self._writer.execution,
        }
        return {kind: how for kind, how in kinds.items() if how}

    @property
    def _configuration(self) -> Mapping[str, Any]:
        """What the repository says: where a method cannot be run, loading may have undone it."""
        if self._files is None:
            own: Any = getattr(self._model.config, "quantization_config", None)
            return {"quantization_config": own.to_dict() if hasattr(own, "to_dict") else own}
        stated = (self._files.model.folder / "config.json").read_text(encoding="utf-8")
        return dict(json.loads(stated))

    def _info(self, commit: str | None, files_digest: str | None, adapter: str | None) -> ModelInfo:
        return ModelInfo(
            repository=self._arguments.pretrained,
            commit=commit,
            files_digest=files_digest,
            architecture=type(self._model).__name__,
            parameters=sum(p.numel() for p in self._model.parameters()),
            dtype=str(self._model.dtype).removeprefix("torch."),
            max_length=self._encoder.max_length,
            tokenizer_digest=self._encoder.digest,
            bos_policy=self._encoder.bos_policy,
            prefix_token=self._encoder.prefix_token,
            softmax_dtype=str(self._softmax).removeprefix("torch."),
            adapter=adapter,
            quantisation=quantisation_of(self._configuration),
            special_tokens=self._encoder.special_tokens,
            device=str(self._model.device),
            subfolder=self._arguments.subfolder,
            arguments=self._arguments.as_json(),
        )

    def encode(self, requests: Sequence[Request], *, seed: int = 1234) -> list[EncodedRequest]:
        """Raises ModelError also for a tokenizer whose tokens the model does not have, and
        TaskError for generation arguments that have no meaning."""
        encoded: list[EncodedRequest] = []
        with libraries_fault("its tokenizer fails"), self._encoder.learnt(requests):
            for request in requests:
                if request.kind == "loglikelihood":
                    encoded += [self._encoder.pair(request)] * request.repeats
                elif request.kind == "loglikelihood_rolling":
                    encoded += [self._rolling(request.continuation)] * request.repeats
                else:
                    encoded += self._generations(request, seed)
        self._check_scorable(requests)
        self._check_tokens(encoded)
        return encoded

    def _rolling(self, text: str) -> RollingRequest:
        """Windows over the text. compat scores a BOS that the tokenizer adds; strict never does."""
        tokens = self._encoder.text(text)
        if self._mode == "strict":
            tokens = self._encoder.without_bos(tokens)
        try:
            windows = rolling_windows(
                tokens,
                prefix=self._encoder.prefix_token,
                length=self._encoder.max_length,
                stride=self._arguments.rolling_stride,
            )
        except ValueError as problem:
            raise ModelError(f"--model_args: rolling_stride: {problem}") from None
        return RollingRequest.of(tokens, windows)

    def _generations(self, request: Request, seed: int) -> list[GenerationRequest]:
        plan = self._plan(request.generation or {})
        room = self._encoder.max_length - plan.max_new_tokens
        if room < 1:
            raise ModelError(
                f"its length of {self._encoder.max_length} tokens leaves no room for a prompt and "
                f"{plan.max_new_tokens} new tokens: lower max_gen_toks"
            )
        tokens, cut = self._encoder.prompt(request.context, room)
        if plan.max_length is not None and plan.max_length <= len(tokens):
            raise ModelError(
                f"max_length {plan.max_length} leaves no room after a prompt of {len(tokens)} "
                "tokens: state max_gen_toks instead, which counts new tokens only"
            )
        return [
            GenerationRequest.of(
                tokens,
                plan,
                n_truncated=cut,
                model_defaults=self._writer.defaults,
                seed=seed,
                repeat=repeat,
            )
            for repeat in range(request.repeats)
        ]

    def _plan(self, given: Mapping[str, Any]) -> Plan:
        return plan_of(
            given,
            eos=self._encoder.eos_text,
            think_end=self._think_end,
            known=GENERATION_ARGUMENTS,
            mode=self._mode,
        )

    @cached_property
    def _think_end(self) -> str | int | None:
        """Text or token at which the thinking ends.

        A special token is not part of the decoded text, where compat looks for it in vain.
        """
        stated = self._arguments.think_end_token
        if isinstance(stated, str) and self._mode == "strict":
            token = self._tokenizer.convert_tokens_to_ids(stated)
            if token in self._tokenizer.all_special_ids:
                return int(token)
        return stated

    def _check_scorable(self, requests: Sequence[Request]) -> None:
        scored = any(request.kind == "loglikelihood" for request in requests)
        if scored and self._arguments.enable_thinking:
            raise ModelError(
                "with enable_thinking a model thinks before it answers, so it cannot be asked how "
                "likely an answer is: leave it out, or choose tasks that generate"
            )

    def _check_tokens(self, encoded: Sequence[EncodedRequest]) -> None:
        parts = (part for one in encoded for part in (one.tokens, one.targets))
        highest = max((max(part) for part in parts if part), default=0)
        known = len(self._model.get_input_embeddings().weight)
        if highest >= known:
            raise ModelError(
                f"its tokenizer makes the token {highest}, and the model has {known} tokens: "
                "publish the tokenizer that the model was trained with"
            )

    def answer(self, requests: Sequence[EncodedRequest]) -> Iterator[list[tuple[int, Response]]]:
        """Raises ModelError for a model that sees what follows, or does not fit the memory."""
        writing = [(i, one) for i, one in enumerate(requests) if isinstance(one, GenerationRequest)]
        self._first_pass = self._first_pass or FirstPass(self._model)
        with libraries_fault("it fails when it is computed"), self._evaluating():
            yield from self._scores(requests)
            yield from self._writer.answers(writing)

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Dropout and the like are off meanwhile, and then on again where they were."""
        training = [module for module in self._model.modules() if module.training]
        self._model.eval()
        try:
            yield
        finally:
            for module in training:
                module.training = True

    def _scores(self, requests: Sequence[EncodedRequest]) -> Iterator[list[tuple[int, Response]]]:
        """Loglikelihoods, of whole texts once all their windows are scored."""
        parts: list[tuple[int, int, EncodedRequest]] = []
        windows: dict[int, dict[int, Response]] = {}
        done: list[tuple[int, Response]] = []
        for index, one in enumerate(requests):
            if isinstance(one, RollingRequest):
                windows[index] = {}
                parts += [(index, place, window) for place, window in enumerate(one.windows)]
                if not one.windows:
                    done.append((index, _whole(one, {})))
            elif not isinstance(one, GenerationRequest):
                parts.append((index, 0, one))
        if done:
            yield done
        for pack in self._scorer.answers([part for _, _, part in parts]):
            done = []
            for number, response in pack:
                index, place, _ = parts[number]
                one = requests[index]
                if not isinstance(one, RollingRequest):
                    done.append((index, response))
                    continue
                windows[index][place] = response
                if len(windows[index]) == len(one.windows):
                    done.append((index, _whole(one, windows.pop(index))))
            if done:
                yield done

    @property
    def accelerators(self) -> list[str]:
        """UUIDs of the NVIDIA GPUs that hold it; an empty text for any other accelerator."""
        places = {parameter.device for parameter in self._model.parameters()}
        return [
            f"GPU-{torch.cuda.get_device_properties(place).uuid}"
            if place.type == "cuda" and torch.version.cuda
            else ""
            for place in sorted(places, key=str)
            if place.type != "cpu"
        ]

    def token_texts(self, tokens: Sequence[int]) -> list[str | None]:
        with libraries_fault("its tokenizer fails"):
            return [self._spelling.of(token) for token in tokens]

    def chat_template(self, name: str | None = None) -> ChatTemplate:
        """Raises ModelError where the tokenizer has no such template, naming those it has."""
        arguments = dict(self._arguments.chat_template_args)
        if self._arguments.enable_thinking is not None:
            arguments["enable_thinking"] = self._arguments.enable_thinking
        return chat_template_of(self._tokenizer, name, arguments, self._mode)


def _whole(request: RollingRequest, windows: Mapping[int, Response]) -> Response:
    """The response to a text from those to its windows, by their place in it."""
    sums = tuple(windows[place].loglikelihood for place in sorted(windows))
    paths = {window.path for window in windows.values()}
    return Response(
        key=request.key,
        kind="loglikelihood_rolling",
        loglikelihood=float(sum(sums)),
        is_greedy=all(window.is_greedy for window in windows.values()),
        token_ids=request.tokens,
        token_logprobs=sums,
        n_context_tokens=request.n_context_tokens,
        n_truncated=0,
        # Windows computed in two ways, the plainer one for want of memory, count as plain.
        path=paths.pop() if len(paths) == 1 else "plain",
    )


def _max_length(model: Any, tokenizer: Any) -> int:
    """The longest input: what the configuration says, else the tokenizer, else 2048."""
    config = model.config.get_text_config()
    for name in ("n_positions", "max_position_embeddings", "n_ctx"):
        if isinstance(length := getattr(config, name, None), int) and length > 0:
            return length
    # Tokenizers without a limit of their own say so by a number of thirty digits.
    stated = tokenizer.model_max_length
    return int(stated) if stated < 10**9 else 2048
