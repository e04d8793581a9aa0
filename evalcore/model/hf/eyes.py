"""How a model that sees reads a prompt with images: the model's own marks, tokens, and pixels.

Source of the rules: lm-evaluation-harness 0.4.13 (`hf-multimodal`), whose users compare their texts
with ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evalcore.errors import ModelError, TaskError
from evalcore.model.base import Conversation, Request
from evalcore.model.faults import libraries_fault
from evalcore.model.hf.image_arguments import ImageArguments
from evalcore.model.media import Medium
from evalcore.model.pictures import PLACE, Picture

Content = list[dict[str, str]]


class Eyes:
    """The processor of a model that sees, told how images are shown."""

    noun = "images"
    way_out = "make images smaller (image_max_side)"

    def __init__(self, processor: Any, config: Any, arguments: ImageArguments) -> None:
        """Raises ModelError where nothing says which token stands for an image."""
        self._processor = processor
        self._arguments = arguments
        named = (arguments.image_token_id, *(getattr(config, name, None) for name in _TOKENS))
        token = next((token for token in named if token is not None), None)
        if token is None:
            raise ModelError(
                f"{arguments.pretrained}: config.json names no image_token_id: state "
                "image_token_id, the token that stands for an image"
            )
        self._token = int(token)
        # Batches of texts that are written are padded where they begin.
        processor.tokenizer.padding_side = "left"
        if processor.tokenizer.pad_token is None:
            spare = processor.tokenizer.unk_token or processor.tokenizer.eos_token
            processor.tokenizer.pad_token = spare
        self._mark = arguments.image_string or str(
            processor.tokenizer.decode([self._token], skip_special_tokens=False)
        )

    def text(self, request: Request) -> str:
        """The prompt with the model's own mark at each place of an image; a conversation's template
        has written them already.

        Raises TaskError where there are other places than images, ModelError for more images than
        are allowed.
        """
        prompt = request.prompt
        turns = [turn.content for turn in prompt.turns] if isinstance(prompt, Conversation) else []
        written = "".join(turns) if isinstance(prompt, Conversation) else prompt
        places, images = written.count(PLACE), len(request.images)
        if places != images:
            raise TaskError(
                f"a prompt has {_counted(places, 'place')} for images ({PLACE}) and "
                f"{_counted(images, 'image')}: write {PLACE} into doc_to_text once for each image "
                f"of doc_to_image; images of examples are given in strict mode alone (the prompt "
                f"begins {written[:60]!r})"
            )
        if images > self._arguments.max_images:
            raise ModelError(
                f"--model_args: max_images={self._arguments.max_images}: a prompt has {images} "
                "images, and without some of them it would be another question: raise it, or "
                "leave it out"
            )
        if isinstance(prompt, Conversation):
            return prompt.text
        return prompt.replace(PLACE, self._mark)

    def tokens(self, text: str, images: Sequence[Medium]) -> list[int]:
        """What is fed of a prompt, with as many tokens for each image as the processor gives it.

        Raises ModelError where there are none for an image, which would then not be seen.
        """
        read = self._read([text], [images])
        tokens = [int(token) for token in read["input_ids"][0]]
        if tokens.count(self._token) < len(images):
            raise ModelError(
                f"its processor makes {_counted(tokens.count(self._token), 'token')} for "
                f"{_counted(len(images), 'image')}, which would not be seen: state as image_string "
                "what stands for an image in its prompts, or as image_token_id its token"
            )
        return tokens

    def batch(self, texts: Sequence[str], images: Sequence[Sequence[Medium]]) -> Any:
        """All that a model is given of several prompts at once, as tensors on no device yet."""
        return self._read(list(texts), images, return_tensors="pt", padding="longest")

    def _read(self, texts: list[str], images: Sequence[Sequence[Medium]], **how: Any) -> Any:
        shown = [self.shown(several) for several in images]
        stated = self._arguments.image_string
        with libraries_fault(f"its processor fails{f', image_string={stated}' if stated else ''}"):
            return self._processor(text=texts, images=shown, **how)

    def shown(self, images: Sequence[Medium]) -> list[Any]:
        """The images of Pillow that the processor sees."""
        return [self._shown(picture) for picture in images if isinstance(picture, Picture)]

    def _shown(self, picture: Picture) -> Any:
        image = smaller(
            picture.image,
            self._arguments.image_width,
            self._arguments.image_height,
            self._arguments.image_max_side,
        )
        return image.convert("RGB") if self._arguments.convert_img_format else image

    def content(self, text: str) -> Content:
        """A turn of a conversation as templates of such models take it."""
        if not self._arguments.interleave:
            images: Content = [{"type": "image"}] * text.count(PLACE)
            return [*images, {"type": "text", "text": text.replace(PLACE, "")}]
        first, *others = text.split(PLACE)
        parts: Content = [{"type": "text", "text": first}] if first else []
        for other in others:
            parts.append({"type": "image"})
            if other:
                parts.append({"type": "text", "text": other})
        return parts

    def apply_chat_template(self, turns: Sequence[Mapping[str, str]], **how: Any) -> Any:
        """Under the name that tokenizers have for it."""
        several = [{**turn, "content": self.content(turn["content"])} for turn in turns]
        return self._processor.apply_chat_template(several, **how)

    @property
    def chat_template(self) -> Any:
        return getattr(self._processor, "chat_template", None)


_TOKENS = ("image_token_id", "image_token_index")
"""How configurations call the token that stands for an image."""


def smaller(image: Any, width: int | None, height: int | None, longest: int | None) -> Any:
    """The image in its shape, at most so many pixels wide, high, or at its longer side; never
    enlarged."""
    wide, high = image.size
    if width is not None and height is not None:
        scale = min(width / wide, height / high)
        size = int(wide * scale), int(high * scale)
        fits = wide <= width and high <= height
    elif width is not None:
        size, fits = (width, int(high / wide * width)), wide <= width
    elif height is not None:
        size, fits = (int(wide / high * height), height), high <= height
    elif longest is not None and wide > high:
        size, fits = (longest, int(high / wide * longest)), wide <= longest
    elif longest is not None:
        size, fits = (int(wide / high * longest), longest), high <= longest
    else:
        return image
    return image if fits else image.resize((max(1, size[0]), max(1, size[1])))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count or 'no'} {noun}s"
