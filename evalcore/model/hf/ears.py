"""How a model that hears reads a prompt with sounds: the model's own marks, tokens, and features.

Source of the rules: lm-evaluation-harness 0.4.13 (`hf-audiolm-qwen`). Two of its own are not here:
it gives sounds under a name that transformers no longer takes, so that its model hears nothing, and
it gives them at whatever rate they have, which strict mode does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evalcore.errors import ModelError, TaskError
from evalcore.model.base import Conversation, Mode, Request
from evalcore.model.faults import libraries_fault
from evalcore.model.media import Medium
from evalcore.model.sounds import PLACE, Sound, at_rate

if TYPE_CHECKING:
    from evalcore.model.sounds import Samples

MARK = "<|audio_bos|><|AUDIO|><|audio_eos|>"
"""What Qwen2-Audio was trained to find where a sound is."""


class Ears:
    """The processor of a model that hears."""

    noun = "sounds"
    way_out = "choose shorter sounds"

    def __init__(self, processor: Any, config: Any, max_sounds: int, mode: Mode) -> None:
        self._processor = processor
        self._token = int(config.audio_token_id)
        self._max_sounds = max_sounds
        self._mode = mode
        extractor = processor.feature_extractor
        self._rate = int(extractor.sampling_rate)
        self._longest = extractor.n_samples / self._rate
        """In seconds, what it hears of a sound."""
        processor.tokenizer.padding_side = "left"

    def text(self, request: Request) -> str:
        """The prompt with the model's own mark at each place of a sound, which stands there in a
        conversation, too.

        Raises TaskError where there are other places than sounds, ModelError for more of them than
        are allowed, and for one that is not heard to its end.
        """
        prompt = request.prompt
        text = prompt.text if isinstance(prompt, Conversation) else prompt
        places, sounds = text.count(PLACE), len(request.sounds)
        if places != sounds:
            raise TaskError(
                f"a prompt has {places or 'no'} places for sounds ({PLACE}) and {sounds} sounds: "
                f"write {PLACE} into doc_to_text once for each sound of doc_to_audio; sounds of "
                f"examples are given in strict mode alone (the prompt begins {text[:60]!r})"
            )
        if sounds > self._max_sounds:
            raise ModelError(
                f"--model_args: max_audios={self._max_sounds}: a prompt has {sounds} sounds, and "
                "without some of them it would be another question: raise it"
            )
        for sound in request.sounds:
            if (seconds := self._seconds_of(sound)) > self._longest:
                raise ModelError(
                    f"a sound of {seconds:.1f} s, of which the model hears {self._longest:g} s: "
                    "cut it in doc_to_audio, or leave the document out"
                )
        return text.replace(PLACE, MARK)

    def _seconds_of(self, sound: Sound) -> float:
        """As the model hears it."""
        if self._mode == "strict":
            return sound.seconds
        return sound.seconds * sound.rate / self._rate

    def tokens(self, text: str, media: Sequence[Medium]) -> list[int]:
        """What is fed of a prompt, with as many tokens for each sound as the processor gives it.

        Raises ModelError where there are none for a sound, which would then not be heard.
        """
        tokens = [int(token) for token in self._read([text], [media])["input_ids"][0]]
        if tokens.count(self._token) < len(media):
            raise ModelError(
                f"its processor makes {tokens.count(self._token)} tokens for {len(media)} sounds, "
                "of which some would not be heard: choose longer sounds, or leave the document out"
            )
        return tokens

    def batch(self, texts: Sequence[str], media: Sequence[Sequence[Medium]]) -> Any:
        """All that a model is given of several prompts at once, as tensors on no device yet."""
        return self._read(list(texts), media, return_tensors="pt", padding=True)

    def _read(self, texts: list[str], media: Sequence[Sequence[Medium]], **how: Any) -> Any:
        sounds = [
            self._heard(medium) for several in media for medium in several if is_heard(medium)
        ]
        with libraries_fault("its processor fails"):
            return self._processor(text=texts, audio=sounds, sampling_rate=self._rate, **how)

    def _heard(self, sound: Any) -> Samples:
        if self._mode == "strict":
            return at_rate(sound.samples, sound.rate, self._rate)
        return sound.samples  # type: ignore[no-any-return]

    def apply_chat_template(self, turns: Sequence[Mapping[str, str]], **how: Any) -> Any:
        """Turns are texts, as lm-evaluation-harness gives them: places become marks afterwards."""
        return self._processor.apply_chat_template(list(turns), **how)

    @property
    def chat_template(self) -> Any:
        return getattr(self._processor, "chat_template", None)


def is_heard(medium: Medium) -> bool:
    return isinstance(medium, Sound)
