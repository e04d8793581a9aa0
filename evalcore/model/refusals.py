"""What a backend cannot answer is refused before the first request, each thing in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from evalcore.errors import ModelError, first_of
from evalcore.model.base import RequestKind
from evalcore.model.capabilities import Capabilities

Need = Literal[RequestKind, "conversations", "images", "sounds", "a known length"]
"""What a task, or the caller, asks of a backend."""


@dataclass(frozen=True)
class Refusal:
    """How a need is met, and what to say where it is not."""

    met: Callable[[Capabilities], bool]
    sentence: str
    """With the name of the backend, and who has the need."""
    way_out: str


REFUSALS: Mapping[Need, Refusal] = {
    "loglikelihood": Refusal(
        lambda can: can.loglikelihood,
        "{backend} answers no loglikelihood request, which {who} {need}: it does not say how "
        "likely a given answer is",
        "choose tasks that generate (the style `generate`), or another backend, such as --model hf",
    ),
    "loglikelihood_rolling": Refusal(
        lambda can: can.rolling,
        "{backend} answers no loglikelihood_rolling request, which {who} {need}: it does not say "
        "how likely a whole text is",
        "leave them out, or choose another backend, such as --model hf with a causal model",
    ),
    "generate_until": Refusal(
        lambda can: can.generate,
        "{backend} answers no generate_until request, which {who} {need}: it writes no text",
        "choose tasks that compare choices, or another backend, such as --model hf",
    ),
    "conversations": Refusal(
        lambda can: can.chat is not None,
        "{backend} takes no conversation, and apply_chat_template asks for them",
        "leave apply_chat_template out",
    ),
    "images": Refusal(
        lambda can: can.images,
        "{backend} sees no images, which {who} {need}",
        "leave them out, or choose a backend of text and images (--model hf-multimodal)",
    ),
    "sounds": Refusal(
        lambda can: can.sounds,
        "{backend} hears no sounds, which {who} {need}",
        "leave them out, or choose a backend of text and sound (--model hf-audiolm-qwen)",
    ),
    "a known length": Refusal(
        lambda can: can.max_length_known,
        "{backend} does not say how long a prompt may be, so nobody could tell whether one was "
        "cut, and forbid_truncation wants to know",
        "leave forbid_truncation out",
    ),
}


def refuse(capabilities: Capabilities, needs: Mapping[Need, Sequence[str]]) -> None:
    """Raises ModelError with a sentence for each need that the backend does not meet.

    `needs`: by each the tasks that have it, none where the caller has.
    """
    told = [
        f"{_sentence(refusal, capabilities, needs[need])}: {refusal.way_out}"
        for need, refusal in REFUSALS.items()
        if need in needs and not refusal.met(capabilities)
    ]
    if told:
        raise ModelError("; ".join(told))


def _sentence(refusal: Refusal, capabilities: Capabilities, tasks: Sequence[str]) -> str:
    names = list(dict.fromkeys(tasks))
    who = first_of(names) or "the task"
    need = "needs" if len(names) < 2 else "need"
    sentence = refusal.sentence.format(backend=capabilities.backend, who=who, need=need)
    return f"{sentence} ({capabilities.why_not})" if capabilities.why_not else sentence
