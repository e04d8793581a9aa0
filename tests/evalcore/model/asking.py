"""How the tests load a model, ask it, and compute by themselves what it should have said."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer

from evalcore.cli import main
from evalcore.errors import EvalError, ModelError
from evalcore.model.base import EncodedRequest, Request, Response
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.snapshot import Arguments
from evalcore.model.registry import backend_of
from evalcore.record import RunRecord, read_samples


def load(
    folder: Any,
    *,
    mode: Any = "compat",
    batch_size: int | None = None,
    path: Any = "auto",
    **stated: Any,
) -> HuggingFaceLM:
    """The model in a folder, in float32 on the processor unless something else is stated."""
    arguments = Arguments.of({"pretrained": str(folder), "dtype": "float32", **stated})
    return HuggingFaceLM(arguments, batch_size=batch_size, device="cpu", mode=mode, path=path)


def ends_texts(folder: Path, around: str = "<s> $A </s>") -> Path:
    """The model in a folder, whose tokenizer puts special tokens around a text from now on."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=around, special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    tokenizer.save_pretrained(folder)
    return folder


def load_by(
    name: str,
    folder: Any,
    /,
    *,
    mode: Any = "compat",
    batch_size: int | None = None,
    weights: bool = True,
    **stated: Any,
) -> Any:
    """The same by a backend that a command can name."""
    given = {"pretrained": str(folder), "dtype": "float32", **stated}
    how = {"mode": mode, "batch_size": batch_size, "weights": weights}
    return backend_of(name).from_arguments(given, device="cpu", **how)


def run_toys(toys: Path, *more: Any, task: str = "toy_choice") -> int:
    """The status of a command that runs a toy task."""
    command = ["run", "--tasks", task, "--include_path", toys, *more]
    return main([str(part) for part in command])


def answers_of(model: Any, requests: Sequence[Request], *, seed: int = 1234) -> list[Response]:
    """The model's answers in the order of the requests, repeats one after the other."""
    return answers_to(model, model.encode(requests, seed=seed))


def answers_to(model: Any, encoded: Sequence[EncodedRequest]) -> list[Response]:
    return in_order(model.answer(encoded), len(encoded))


def in_order(packs: Iterable[Any], number: int) -> list[Any]:
    """So many answers, which come in packs with their places."""
    given = [pair for pack in packs for pair in pack]
    assert sorted(place for place, _ in given) == list(range(number))
    return [answer for _, answer in sorted(given, key=lambda pair: pair[0])]


@torch.inference_mode()
def plain_score(network: Any, request: EncodedRequest) -> tuple[float, bool]:
    """A request's loglikelihood and whether it is greedy, by one plain pass over its own row."""
    logits = network(torch.tensor([request.tokens])).logits[0, -len(request.targets) :].double()
    targets = torch.tensor(request.targets)
    total = torch.log_softmax(logits, -1).gather(1, targets[:, None]).sum().item()
    return total, bool((logits.argmax(-1) == targets).all())


def refusal_of(make: Callable[[], Any], kind: type[EvalError] = ModelError) -> str:
    """What is said, in one line, where something is refused."""
    with pytest.raises(kind) as error:
        make()
    assert "\n" not in str(error.value)
    return str(error.value)


def written_in(out: Path) -> tuple[RunRecord, list[Any]]:
    """The one record of a run's files, and its samples."""
    (path,) = out.rglob("record_*.json")
    record = RunRecord.read(path)
    assert record.samples is not None
    return record, list(read_samples(path.parent / record.samples.file))


def check_told_at_once(
    read: Callable[[dict[str, str]], Any],
    values: Mapping[str, tuple[str, str]],
    names: Mapping[str, str],
) -> None:
    """Arguments with values that cannot be, and such that there are none of, each with what is said
    of it; none of them names the model."""
    stated = {name: value for name, (value, _) in values.items()}
    told = refusal_of(lambda: read({**stated, **dict.fromkeys(names, "1")}))
    for name, (_, said) in values.items():
        assert f"{name}: {said}" in told
    for said in (*names.values(), "missing argument"):
        assert said in told
