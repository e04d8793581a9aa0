"""vLLM's engine: started once for a model, asked by token ids, answering as requests are done.

Written for vLLM 0.32; `vllm` is imported where an engine is started, as that takes half a minute.
The engine runs in this process: what it computes together is then decided by what it was asked
alone, and not by time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evalcore.errors import ModelError

SETTINGS = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    # One token more than the model reads is asked for, and never fed: see `Engine`.
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1",
}
"""Variables that vLLM reads, where nobody has set them."""

UNDER_WAY = 512
"""Requests that vLLM is given before it has answered; it decides how many it computes at once."""

Prompt = Sequence[int] | Mapping[str, Any]
"""Tokens; or, with images, the text and what vLLM is shown, under its own names for them."""

Asked = tuple[int, Prompt, Any]
"""A number of the caller's, the prompt, and vLLM's SamplingParams."""


def check_installed() -> None:
    """Raises ModelError, with what to do, where there is no vLLM in this environment."""
    if find_spec("vllm") is None:
        raise ModelError(
            "--model vllm: vLLM is not installed in this environment, and it wants one of its own: "
            "install plumbline[vllm] into a new one and start evalcore there, or evaluate with "
            "--model hf"
        )


def check_devices(wanted: int, *, spread: str) -> None:
    """Raises ModelError for more devices than this machine has; of several machines Ray knows."""
    import torch

    here = torch.cuda.device_count() if torch.cuda.is_available() else 1
    if wanted > here and spread != "ray":
        kind = "GPU" if torch.cuda.is_available() else "processor, which counts as one"
        raise ModelError(
            f"--model_args: tensor_parallel_size times pipeline_parallel_size: expected at most "
            f"{here} (this machine's {kind}), got {wanted}: lower them, or spread the model over "
            "several machines with distributed_executor_backend=ray"
        )


def see(place: int) -> None:
    """This process sees one GPU alone, of those that it saw; before anything is on one."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = visible.split(",")[place] if visible else str(place)


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter on this machine."""

    name: str
    folder: Path


class Engine:
    """One engine with one model.

    It is told a length of one token more than the model reads: vLLM counts the token that it writes
    after a prompt, and here that one is looked at and never fed.
    """

    def __init__(self, options: Mapping[str, Any], adapter: Adapter | None = None) -> None:
        """`options`: of vLLM's `LLM`. Raises whatever vLLM does."""
        for name, value in SETTINGS.items():
            os.environ.setdefault(name, value)
        from vllm import LLM

        self._engine = LLM(**options).llm_engine
        self._adapter: Any = None
        self._n_asked = 0
        self.first_step: float | None = None
        """When it first computed, by `time.monotonic`; None so far."""
        if adapter is not None:
            from vllm.lora.request import LoRARequest

            self._adapter = LoRARequest(adapter.name, 1, str(adapter.folder))

    @property
    def version(self) -> str:
        import vllm

        return str(vllm.__version__)

    @property
    def is_batch_invariant(self) -> bool:
        """Whether vLLM was told to compute each row as if it were alone."""
        from vllm import envs

        return bool(envs.VLLM_BATCH_INVARIANT)

    @property
    def device(self) -> str:
        return str(self._engine.vllm_config.device_config.device_type)

    @property
    def block_size(self) -> int:
        """Tokens of a block: whole blocks of a prompt are kept for others that begin alike."""
        return int(self._engine.vllm_config.cache_config.block_size)

    @property
    def capacity(self) -> int:
        """Tokens that are kept at most."""
        cache = self._engine.vllm_config.cache_config
        return int(cache.num_gpu_blocks or 0) * self.block_size

    @property
    def keeps_prefixes(self) -> bool:
        return bool(self._engine.vllm_config.cache_config.enable_prefix_caching)

    def outputs(
        self, asked: Iterable[Asked], *, within: bool = False, bare: bool = False
    ) -> Iterator[tuple[int, Any]]:
        """vLLM's RequestOutput of each, by the caller's number, once it is done.

        `within`: whether rows of a prompt are asked for, which over an adapter are right only of a
        prompt alone (vLLM counts them as one for each prompt there). `bare`: of the model without
        its adapter.
        """
        at_once = 1 if within and self._adapter is not None else UNDER_WAY
        for number, output in self.steps(asked, at_once=at_once, bare=bare):
            if output.finished:
                yield number, output

    def steps(
        self, asked: Iterable[Asked], *, at_once: int = UNDER_WAY, bare: bool = False
    ) -> Generator[tuple[int, Any], bool | None, None]:
        """The same after each step; send true for one that is done for the caller."""
        waiting = iter(asked)
        under_way: dict[str, int] = {}
        try:
            while True:
                self._admit(waiting, under_way, at_once, None if bare else self._adapter)
                if not under_way:
                    return
                self.first_step = self.first_step or time.monotonic()
                for output in self._engine.step():
                    if output.request_id not in under_way:
                        continue  # it was ended while the step was under way
                    is_over = yield under_way[output.request_id], output
                    if output.finished or is_over:
                        del under_way[output.request_id]
                    if is_over and not output.finished:
                        self._engine.abort_request([output.request_id])
        finally:
            if under_way:  # the caller wants no more, or something failed
                self._engine.abort_request(list(under_way))

    def _admit(
        self,
        waiting: Iterator[Asked],
        under_way: dict[str, int],
        at_once: int,
        adapter: Any,
    ) -> None:
        from vllm import TokensPrompt

        while len(under_way) < at_once:
            new = next(waiting, None)
            if new is None:
                return
            number, prompt, params = new
            self._n_asked += 1
            name = str(self._n_asked)
            self._engine.add_request(
                name,
                prompt
                if isinstance(prompt, Mapping)
                else TokensPrompt(prompt_token_ids=list(prompt)),
                params,
                lora_request=adapter,
            )
            under_way[name] = number
