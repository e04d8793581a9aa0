"""How requests with images or sounds are read, by a processor; whoever computes them afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from evalcore.digest import digest_of
from evalcore.errors import ModelError
from evalcore.model.base import ChatTemplate, EncodedRequest, Request
from evalcore.model.hf.conversation import chat_template_of
from evalcore.model.hf.reading import Reader
from evalcore.model.loglikelihood.seeing import SeeingPair
from evalcore.model.media import Medium, digests_of
from evalcore.model.tokens.encoder import join_of
from evalcore.model.writing.generation import GenerationRequest, Plan
from evalcore.model.writing.seeing import SeeingRequest


class Sense(Protocol):
    """A processor, told how images are shown, or sounds are given."""

    noun: str
    """What it takes, in the plural."""
    way_out: str
    """What makes a prompt shorter."""

    @property
    def chat_template(self) -> Any: ...

    def text(self, request: Request) -> str: ...

    def tokens(self, text: str, media: Sequence[Medium]) -> list[int]: ...

    def batch(self, texts: Sequence[str], media: Sequence[Sequence[Medium]]) -> Any: ...

    def apply_chat_template(self, turns: Sequence[Mapping[str, str]], **how: Any) -> Any: ...


class MediaReader(Reader):
    """Reads what has images or sounds by a processor, and the rest as any reader."""

    _sense: Sense
    _processor_digest: str

    @property
    def reads_ahead(self) -> bool:
        """Not while a batch is read: to pad is a state of the tokenizer."""
        return False

    @property
    def pins(self) -> dict[str, Any]:
        return {**super().pins, "processor": self._processor_digest}

    def _pair(self, request: Request) -> EncodedRequest:
        """A continuation begins where the tokens of both no longer are the context's."""
        if not request.media:
            return super()._pair(request)
        media, text = request.media, self._text(request)
        context = text.rstrip()
        both = text + request.continuation
        whole, alone = self._sense.tokens(both, media), self._sense.tokens(context, media)
        place = join_of(alone, whole)
        tokens, targets = tuple(whole[:-1]), tuple(whole[place:])
        if len(tokens) > self.encoder.max_length:
            raise ModelError(self._too_long(len(tokens), len(media), self.encoder.max_length))
        asked = {"kind": "loglikelihood", "tokens": list(tokens), "targets": list(targets)}
        return SeeingPair(
            key=digest_of({**asked, **digests_of(media)}),
            tokens=tokens,
            targets=targets,
            n_context_tokens=place,
            text=both,
            media=media,
        )

    def _generations(self, request: Request, seed: int) -> list[GenerationRequest]:
        plain = super()._generations(request, seed)
        if not request.media:
            return plain
        text = self._text(request)
        return [
            SeeingRequest(**_fields(generation), text=text, media=request.media)
            for generation in plain
        ]

    def _text(self, request: Request) -> str:
        """As the processor takes it. In compat a BOS that a chat template wrote may be doubled, as
        in lm-evaluation-harness."""
        text = self._sense.text(request)
        if self._mode == "strict" and self.encoder.specials_behind:
            raise ModelError(
                f"its tokenizer puts {' '.join(self.encoder.specials_behind)} behind every text, "
                f"and its processor leaves it there with {self._sense.noun}, so an answer would "
                "come behind the end: save the tokenizer without it"
            )
        bos = self.tokenizer.bos_token
        if self._mode == "strict" and bos and self._adds_bos:
            text = text.removeprefix(bos)
        return text

    @property
    def _adds_bos(self) -> bool:
        return list(self.tokenizer("")["input_ids"][:1]) == [self.tokenizer.bos_token_id]

    def _prompt(self, request: Request, plan: Plan) -> tuple[list[int], int]:
        """A prompt with images or sounds is never cut: what stands for one would be."""
        if not request.media:
            return super()._prompt(request, plan)
        tokens = self._sense.tokens(self._text(request), request.media)
        room = self._room_beside(plan)
        if len(tokens) > room:
            raise ModelError(self._too_long(len(tokens), len(request.media), room))
        return tokens, 0

    def _too_long(self, count: int, media: int, room: int) -> str:
        return (
            f"a prompt with {media} {self._sense.noun} has {count} tokens, and the model's length "
            f"of {self.encoder.max_length} leaves room for {room}: lower max_gen_toks, "
            f"{self._sense.way_out}, or leave the document out"
        )

    def _fed(self, request: Request, tokens: Sequence[int]) -> dict[str, Any]:
        return {**super()._fed(request, tokens), **digests_of(request.media)}

    def chat_template(self, name: str | None = None) -> ChatTemplate:
        """The processor's, which writes what stands for an image; raises as `Reader`'s."""
        return chat_template_of(
            self._sense, name, dict(self._arguments.chat_template_args), self._mode
        )


def _fields(generation: GenerationRequest) -> dict[str, Any]:
    return {name: getattr(generation, name) for name in GenerationRequest.__dataclass_fields__}
