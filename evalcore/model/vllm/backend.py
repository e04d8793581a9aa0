"""A causal language model that vLLM computes: the `vllm` backend.

It reads by `evalcore.model.hf.reading`, as `hf` does: the same requests under the same keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

from evalcore.errors import ModelError
from evalcore.model.base import Answers, EncodedRequest, Mode, ModelInfo
from evalcore.model.capabilities import Capabilities
from evalcore.model.faults import libraries_fault, models_fault
from evalcore.model.hf.description import load_configuration, load_tokenizer, max_length_of
from evalcore.model.hf.quantisation import quantisation_of
from evalcore.model.hf.reading import Reader
from evalcore.model.hf.snapshot import Files, download, refuse_code
from evalcore.model.hf.whole_texts import scored
from evalcore.model.vllm.adapter import check_effective, header_of, room_for
from evalcore.model.vllm.arguments import IN_KEY, VllmArguments
from evalcore.model.vllm.engine import Adapter, Engine, check_devices, check_installed, see
from evalcore.model.vllm.scoring import VllmScorer
from evalcore.model.vllm.writing import ARGUMENTS, VllmWriter
from evalcore.model.writing.defaults import defaults_of
from evalcore.model.writing.generation import GenerationRequest

GPU = re.compile(r"cuda:(\d+)")

STORED_AS = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}
"""How the header of a file of weights names the types that a model is computed in."""


class VllmLM(Reader):
    """The `vllm` backend; satisfies `evalcore.model.base.LM`."""

    capabilities = Capabilities(
        backend="vllm",
        loglikelihood=True,
        rolling=True,
        generate=True,
        tokens_in=True,
        tokens_out=True,
        prompt_logprobs=True,
        greedy="rank",
        chat="text",
        adapters=True,
        copies=True,
        max_length_known=True,
    )

    def __init__(
        self,
        arguments: VllmArguments,
        *,
        batch_size: int | None = None,
        mode: Mode = "compat",
        weights: bool = True,
    ) -> None:
        """Starts vLLM with the model. `batch_size` caps what is computed together, where
        `max_num_seqs` does not. Without `weights` it can be asked what it would read and nothing
        else, and needs no vLLM.

        Raises ModelError for a model that cannot be computed as it is, InfraError when the Hub
        cannot be reached.
        """
        if weights:
            check_installed()
            spread = str(arguments.engine.get("distributed_executor_backend", ""))
            check_devices(arguments.devices, spread=spread)
        reading = arguments.reading
        self._stated = arguments
        self._files = download(reading, weights=weights)
        if arguments.trusts_code:
            refuse_code(self._files.model, "--model hf alone runs such code")
        self._config = load_configuration(reading, self._files.model)
        tokenizer = self._tokenizer_of(self._files)
        if self._config.is_encoder_decoder:
            raise ModelError(
                f"{reading.pretrained} is an encoder-decoder model, which --model hf alone computes"
            )
        longest = max_length_of(self._config, tokenizer)
        if (reading.max_length or 0) > longest:
            raise ModelError(
                f"--model_args: max_model_len: expected at most {longest}, the length of "
                f"{reading.pretrained}, got {reading.max_length}"
            )
        configured = _generation_of(self._config, self._files.model.folder)
        defaults = defaults_of(configured.generation_config)
        super().__init__(
            reading,
            tokenizer,
            mode=mode,
            max_length=longest,
            vocabulary=lambda: int(self._config.get_text_config().vocab_size),
            generation_arguments=ARGUMENTS,
            generation_defaults=lambda: defaults,
        )
        if not weights:
            return
        self._dtype = _dtype_of(reading.dtype, self._config, self._files)
        self._engine = self._started(batch_size)
        if self._files.adapter is not None:
            vocabulary = int(self._config.get_text_config().vocab_size)
            with models_fault(f"{self._files.adapter.name}: vLLM cannot put it on"):
                check_effective(self._engine, self._files.adapter.name, vocabulary)
        is_half = self._dtype != "float32"
        self._scorer: Any = VllmScorer(self._engine, is_half=is_half)
        self._writer = self._writer_of(configured, defaults)
        _ = self.encoder.digest, self.encoder.special_tokens

    def _tokenizer_of(self, files: Files) -> Any:
        return load_tokenizer(self._stated.reading, files.tokenizer)

    def _writer_of(self, configured: Any, defaults: Mapping[str, Any]) -> VllmWriter:
        return VllmWriter(self._engine, self.tokenizer, configured, defaults)

    def _options(self, batch_size: int | None, adapters_rank: int | None) -> dict[str, Any]:
        return options_of(
            self._stated,
            self._files,
            dtype=self._dtype,
            length=self.encoder.max_length,
            batch_size=batch_size,
            adapters_rank=adapters_rank,
        )

    def _started(self, batch_size: int | None) -> Engine:
        files, name = self._files, self._stated.reading.pretrained
        adapter, room = None, None
        if files.adapter is not None:
            adapter = Adapter(files.adapter.name, files.adapter.folder)
            room = room_for(self._stated.reading, files, self._stated.engine.get("max_lora_rank"))
        with models_fault(f"{name}: vLLM cannot load it", folder=files.model.folder, name=name):
            return Engine(self._options(batch_size, room), adapter)

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
        """Raises ModelError also for a `device`: vLLM takes what its build is for. One GPU of
        several (`cuda:1`) is that of a copy in a process of its own, which sees no other."""
        cls._check_device(device)
        stated = VllmArguments.of(arguments)
        return cls(stated, batch_size=batch_size, mode=mode, weights=weights)

    @staticmethod
    def _check_device(device: str | None) -> None:
        if device is not None and (one := GPU.fullmatch(device)):
            see(int(one[1]))
        elif device not in (None, "cpu", "cuda"):
            raise ModelError(
                f"--device: vLLM computes on the devices that it was built for, and not on "
                f"{device!r}: leave the option out; CUDA_VISIBLE_DEVICES says which GPUs it sees"
            )

    @property
    def first_forward(self) -> float | None:
        """When it was first run, by `time.monotonic`."""
        return self._engine.first_step

    @property
    def execution(self) -> dict[str, Any]:
        kinds = {
            "loglikelihood": self._scorer.execution,
            "generate_until": self._writer.execution,
        }
        return {kind: how for kind, how in kinds.items() if how}

    @property
    def accelerators(self) -> list[str]:
        """UUIDs of the NVIDIA GPUs that it is spread over, of this machine."""
        import torch

        if self._engine.device != "cuda":
            return []
        here = min(self._stated.devices, torch.cuda.device_count())
        return [f"GPU-{torch.cuda.get_device_properties(place).uuid}" for place in range(here)]

    @cached_property
    def info(self) -> ModelInfo:
        model, adapter = self._files.model, self._files.adapter
        named = f"{adapter.name}@{adapter.commit or adapter.files_digest}" if adapter else None
        stated = self._stated.engine
        quantisation = quantisation_of(self._config.to_dict())
        if "quantization" in stated and quantisation is None:
            quantisation = f"{stated['quantization']} at loading, by vLLM"
        architectures = getattr(self._config, "architectures", None) or ["unknown"]
        return ModelInfo(
            repository=self._stated.reading.pretrained,
            commit=model.commit,
            files_digest=model.files_digest,
            architecture=str(architectures[0]),
            parameters=sum(prod(shape) for _, shape in _stored(self._files)),
            dtype=self._dtype,
            adapter=named,
            quantisation=quantisation,
            device=self._engine.device,
            subfolder=self._stated.reading.subfolder,
            arguments=self._stated.as_json(),
            computed_by={
                "name": "vllm",
                "version": self._engine.version,
                **{name: stated[name] for name in IN_KEY if stated.get(name, "auto") != "auto"},
                **({"batch_invariant": True} if self._engine.is_batch_invariant else {}),
            },
            **self.pins,
        )

    def answer(self, requests: Sequence[EncodedRequest]) -> Answers:
        """Raises ModelError for a model whose output is no number, or that vLLM cannot compute."""
        writing = {
            index: request
            for index, request in enumerate(requests)
            if isinstance(request, GenerationRequest)
        }
        with libraries_fault("vLLM fails when it computes it"):
            yield from scored(requests, self._scorer.answers)
            yield from self._writer.answers(writing)


def options_of(
    arguments: VllmArguments,
    files: Files,
    *,
    dtype: str,
    length: int,
    batch_size: int | None,
    adapters_rank: int | None = None,
) -> dict[str, Any]:
    """What vLLM's `LLM` is started with: the files that we downloaded, in a precision that is
    stated, and no tokenizer. `adapters_rank`: for which there is to be room; None for no adapter.
    """
    adapter = {"enable_lora": True, "max_loras": 1, "max_lora_rank": adapters_rank}
    return {
        "max_num_seqs": batch_size,
        **arguments.engine,
        **(adapter if adapters_rank is not None else {}),
        "model": str(files.model.folder),
        "skip_tokenizer_init": True,
        "trust_remote_code": False,
        "load_format": "safetensors",
        "generation_config": "vllm",
        "dtype": dtype,
        "max_model_len": length + 1,
        "disable_log_stats": True,
    }


def _generation_of(config: Any, folder: Path) -> SimpleNamespace:
    """The model's `generation_config`, as transformers gives it to a model that it loads."""
    from transformers import GenerationConfig

    if (folder / "generation_config.json").is_file():
        with models_fault("generation_config.json cannot be read", folder=folder):
            return SimpleNamespace(generation_config=GenerationConfig.from_pretrained(folder))
    return SimpleNamespace(generation_config=GenerationConfig.from_model_config(config))


def _dtype_of(stated: str, config: Any, files: Files) -> str:
    """In which the model is computed: what is asked for, else what its configuration says, else
    what its weights are. vLLM itself would take float16 for a model in float32."""
    if stated != "auto":
        return stated
    named = str(getattr(config, "dtype", None) or "").removeprefix("torch.")
    found = named or next((STORED_AS.get(kind, "") for kind, _ in _stored(files)), "")
    if found not in STORED_AS.values():
        raise ModelError(
            f"{files.model.name}: its configuration does not say in which precision it is computed "
            f"({found or 'nothing stated'}): state dtype in --model_args"
        )
    return found


def _stored(files: Files) -> list[tuple[str, list[int]]]:
    """Type and shape of every weight in the files, by their headers."""
    files_of_weights = sorted(files.model.folder.glob("*.safetensors"))
    return [weight for file in files_of_weights for weight in header_of(file).values()]
