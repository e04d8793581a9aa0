"""What a backend can be asked, as it states it itself: before the first request, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """The statement of a backend, or of one model that it has loaded, which may do less."""

    backend: str
    """What it is called in messages."""
    loglikelihood: bool
    """Whether it says how likely a continuation is."""
    rolling: bool
    """Whether it says how likely a whole text is."""
    generate: bool
    """Whether it writes."""
    tokens_in: bool
    """Whether it is fed the tokens that its encoded requests show, and not texts."""
    tokens_out: bool
    """Whether its responses show the tokens that were scored or written."""
    prompt_logprobs: bool
    """Whether it says how likely each token of a continuation is, not their sum alone."""
    greedy: Literal["argmax", "rank"] | None
    """How it knows that a continuation is the greedy one: each token is the first of the likeliest
    (argmax), or none is likelier (rank: of equals any); None where another program says so."""
    chat: Literal["text", "messages"] | None
    """Whether a conversation reaches it as one text that its template wrote, or as messages; None
    where it takes none."""
    encoder: bool = False
    """Whether the context is read by an encoder, apart from what is scored or written: each is
    tokenised by itself and may be as long as the model."""
    stops: bool = True
    """Whether a text that it writes ends at the stops that were asked for."""
    images: bool = False
    """Whether it sees the images of a request."""
    sounds: bool = False
    """Whether it hears the sounds of a request."""
    adapters: bool = False
    """Whether an adapter can be put on a model."""
    quantised: bool = False
    """Whether quantised weights are evaluated, and were tested to be."""
    copies: bool = False
    """Whether several processes may each hold the model and share its requests."""
    max_length_known: bool
    """Whether `ModelInfo.max_length` is true, so that prompts which are cut are counted."""
    why_not: str = ""
    """Of one model that answers less than others of its kind: what of it was found wrong."""
