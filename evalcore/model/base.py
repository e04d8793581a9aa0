"""What the engine asks of a language model, and what it gets back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol

from evalcore.digest import digest_of, without_half_characters
from evalcore.model.capabilities import Capabilities
from evalcore.model.media import Medium, said_of
from evalcore.model.pictures import Picture
from evalcore.model.sounds import Sound

SCORING_VERSION = 1
"""Raised when the same request would be given another number by a change of ours."""

Mode = Literal["strict", "compat"]
"""compat: lm-evaluation-harness to the draw; strict: free of its quirks (docs/engine.md)."""

RequestKind = Literal["loglikelihood", "loglikelihood_rolling", "generate_until"]


@dataclass(frozen=True)
class ChatTemplate:
    """A model's way to write a conversation as one text; of a model that takes messages as they
    are, what stands for them in records and keys."""

    text: str
    """The template itself, in Jinja."""
    name: str | None
    """None for the model's default template."""
    render: Callable[[Sequence[Mapping[str, str]], bool], str]
    """From messages (role, content) to the prompt. With true the prompt ends where the model's
    answer begins; with false it ends within the last message, for the model to go on."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """What the caller tells the template besides the messages, such as whether to think."""
    left_out: Callable[[], Mapping[str, int]] = dict
    """By role: conversations so far that were written without its turn, or without some of it."""
    reads_parts: Callable[[], bool] = lambda: False
    """Whether the template was given lists of parts, as it writes no content that is a text."""

    @property
    def digest(self) -> str:
        return digest_of(self.text)


@dataclass(frozen=True, slots=True)
class Turn:
    """What one side of a conversation says."""

    role: str
    """system, user or assistant."""
    content: str


@dataclass(frozen=True)
class Conversation:
    """A prompt in messages. It becomes one text when somebody wants that, and only once."""

    turns: tuple[Turn, ...]
    answer_begins: bool
    """Whether the model's answer follows the last turn; else it goes on within it."""
    template: ChatTemplate = field(compare=False, repr=False)
    """Of the model that is asked."""

    @property
    def messages(self) -> list[dict[str, str]]:
        """As chat templates and servers take them."""
        return [{"role": turn.role, "content": turn.content} for turn in self.turns]

    @cached_property
    def text(self) -> str:
        """Raises ModelError for a conversation that the template refuses."""
        return self.template.render(self.messages, self.answer_begins)


@dataclass(frozen=True, slots=True)
class Request:
    """One question to the model, in text.

    loglikelihood: how likely is `continuation` after `context`? loglikelihood_rolling: how likely
    is the whole text `continuation` (there is no context)? generate_until: what follows `context`?
    """

    kind: RequestKind
    prompt: str | Conversation
    """The context: plain text, or messages, of which a backend may send what it likes better."""
    continuation: str = ""
    generation: Mapping[str, Any] | None = None
    """generate_until only: generation arguments as the task and the command state them."""
    repeats: int = 1
    """How many answers are wanted."""
    images: tuple[Picture, ...] = ()
    """What is seen at the places that the prompt has for it (`evalcore.model.pictures.PLACE`)."""
    sounds: tuple[Sound, ...] = ()
    """What is heard at its places (`evalcore.model.sounds.PLACE`)."""

    @property
    def media(self) -> tuple[Medium, ...]:
        """All that it has besides text."""
        return (*self.images, *self.sounds)

    @property
    def context(self) -> str:
        """The prompt as one text; of a conversation, as the model's chat template writes it."""
        return self.prompt if isinstance(self.prompt, str) else self.prompt.text

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What lm-evaluation-harness calls the arguments of a request."""
        beside: dict[str, Any] = {}
        if self.images:
            beside["visual"] = [picture.image for picture in self.images]
        if self.sounds:
            beside["audio"] = [
                {"array": sound.samples, "sampling_rate": sound.rate} for sound in self.sounds
            ]
        seen = (beside,) if beside else ()
        if self.kind == "loglikelihood":
            return (self.context, self.continuation, *seen)
        if self.kind == "loglikelihood_rolling":
            return (self.continuation,)
        return (self.context, dict(self.generation or {}), *seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRequest:
    """A request as the model reads it; of a loglikelihood this is all there is to say.

    `tokens` is what is fed (context and continuation without the last token, cut from the left to
    the model's length); the last `len(targets)` positions predict `targets`. Both are empty for a
    model that does not show its tokens.
    """

    key: str
    """Equal for two requests exactly if they must have the same answer."""
    tokens: tuple[int, ...] = ()
    targets: tuple[int, ...] = ()
    n_context_tokens: int = 0
    n_truncated: int = 0
    """Tokens of the text that the model does not see, for want of room."""
    wave: int = 0
    """Of requests that are asked together those of a lower wave come first, as far as it can be
    done; changes no answer (docs/engine.md)."""

    @classmethod
    def scoring(cls, tokens: Sequence[int], targets: Sequence[int]) -> EncodedRequest:
        """A loglikelihood of `targets` after what is fed."""
        return EncodedRequest(
            key=cls.key_of(tokens, targets),
            tokens=tuple(tokens),
            targets=tuple(targets),
            n_context_tokens=len(tokens) + 1 - len(targets),
        )

    @staticmethod
    def key_of(tokens: Sequence[int], targets: Sequence[int]) -> str:
        """SHA-256 of everything in the request that can change its answer."""
        return digest_of(
            {"kind": "loglikelihood", "tokens": list(tokens), "targets": list(targets)}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The model's answer to one request; loglikelihoods in nats."""

    key: str
    kind: RequestKind
    loglikelihood: float
    """Of the continuation, or of the whole text; 0 where a text was generated."""
    is_greedy: bool
    """Whether the model, always taking the likeliest token, says (or said) just this."""
    token_ids: tuple[int, ...]
    """The tokens that were scored, or generated; empty where the model does not say."""
    token_logprobs: tuple[float, ...]
    """One for each token of a continuation, or the sum of each window of a rolling text."""
    n_context_tokens: int
    """Tokens before those that were scored or generated; of a rolling text, of all its windows."""
    n_truncated: int
    text: str | None = None
    """What was generated, without its stop and without what was thought before it."""
    finish_reason: Literal["stop", "eos", "length"] | None = None
    """What ended the generation: a stop, the model, or the number of tokens it was given."""
    path: str = "plain"
    """How it was computed, in a word of the backend's: plain, or a faster way that gives the same
    (hf: packed, shared). Counted in the record; changes no number."""
    images: tuple[str, ...] = ()
    """Digest and size of each image that was seen (`Picture.said`), for the journal."""
    sounds: tuple[str, ...] = ()
    """Digest, length and rate of each sound that was heard (`Sound.said`)."""
    thoughts: str | None = None
    """What was thought before the text, without the end of the thoughts; None where no such end was
    found: what a model thinks and does not end is its text."""
    n_thought_tokens: int | None = None
    """Of all tokens that were generated, their end included; None where the model does not say."""
    thinking: Literal["ended", "cut", "unended"] | None = None
    """How it ended: by itself, by the budget, or not before the text was cut at its length. None
    where nobody expects thoughts, or a text came without them."""

    def __post_init__(self) -> None:
        """Half a character, as a server may send it, is in no text that is scored or kept."""
        for name in ("text", "thoughts"):
            written = getattr(self, name)
            if written is not None:
                object.__setattr__(self, name, without_half_characters(written))

    def as_json(self) -> dict[str, Any]:
        """Fields that came later are left out where they say nothing."""
        return {
            name: value
            for name, value in asdict(self).items()
            if name not in LATER_FIELDS or value != LATER_FIELDS[name]
        }


def told(response: Response, media: Sequence[Medium]) -> Response:
    """The answer with what was seen and heard for it."""
    images, sounds = said_of(media)
    return replace(response, images=images, sounds=sounds)


LATER_FIELDS: Mapping[str, Any] = {
    "images": (),
    "sounds": (),
    "thoughts": None,
    "n_thought_tokens": None,
    "thinking": None,
}
"""Fields of `Response` that journals and samples have only where they say something else."""

Answers = Iterator[list[tuple[int, Response]]]
"""In packs as they are computed, each with the index of its request."""


LATER_PINS = (
    *("adapter_base", "delta", "gguf_file", "code", "vocabulary"),
    *("computed_by", "service", "processor", "specials_behind", "tokenizer_notes"),
    "generation",
)
"""Fields of `ModelInfo` that records have only where they say something."""


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """The pins of a loaded model."""

    repository: str
    commit: str | None
    """Commit of the Hub repository; None for a local folder, whose weights nobody can fetch."""
    files_digest: str | None
    """SHA-256 of a local folder's configuration and weights; None where a commit names them."""
    architecture: str
    parameters: int
    dtype: str
    max_length: int
    tokenizer_digest: str
    bos_policy: str
    """Which special tokens the tokenizer adds: its own default, always or never."""
    prefix_token: int
    """Token that stands for an empty context (BOS, else EOS)."""
    truncation_policy: str = "left"
    softmax_dtype: str = "float32"
    adapter: str | None = None
    """Its name, @, and its commit or the digest of its files."""
    adapter_base: str | None = None
    """What the adapter says that it was trained on, where that is another name or revision."""
    delta: str | None = None
    """The same of differences that were added to the weights."""
    gguf_file: str | None = None
    """Of a model in one such file its name, @, and the SHA-256 of its content."""
    code: tuple[str, ...] = ()
    """What code of the model's own was run: each repository, @, and its commit or, of a folder, the
    digest of its code."""
    vocabulary: int | None = None
    """Tokens of the tables where an adapter has them resized; None where they are the model's."""
    quantisation: str | None = None
    """Method and bits, as the repository's configuration states them."""
    special_tokens: Mapping[str, tuple[str, int] | None] = field(default_factory=dict)
    """Text and id of bos, eos and pad, as the tokenizer names them."""
    specials_behind: tuple[str, ...] = ()
    """Special tokens that the tokenizer puts behind every text, or within it; strict drops them."""
    generation: Mapping[str, Any] = field(default_factory=dict)
    """What generation_config.json says that may decide a text, where a task does not state it."""
    tokenizer_notes: tuple[str, ...] = ()
    """Where transformers does not build the tokenizer as its files alone say."""
    device: str = "cpu"
    subfolder: str = ""
    """Of the repository, where the model lies in one."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """What the caller stated: recorded, and in the keys of the requests that they change."""
    computed_by: Mapping[str, Any] = field(default_factory=dict)
    """What computes it, where that is not transformers: its name and version, and what it was told
    that changes numbers."""
    processor: str | None = None
    """Of a model that sees or hears, SHA-256 of all that is done to images and sounds first."""
    service: Mapping[str, str] = field(default_factory=dict)
    """Of a model that a server answers for, which nobody can pin to weights: address, name, and
    what else the server says of it. Empty, and then in no key and no record, for all others."""

    @property
    def unpinned(self) -> bool:
        """Whether nobody can tell that the same name means the same weights tomorrow."""
        return bool(self.service)

    @property
    def name(self) -> str:
        return name_of(self.repository, self.adapter or self.delta)

    @property
    def model_key(self) -> str:
        """SHA-256 of what makes this model's answers its own (not of where it runs)."""
        own = self._stated()
        for pin in ("architecture", "parameters", "special_tokens", "device", "arguments"):
            del own[pin]
        for said in ("adapter_base", "specials_behind", "tokenizer_notes", "generation"):
            own.pop(said, None)
        if not self.subfolder:
            del own["subfolder"]
        return digest_of({**own, "scoring_version": SCORING_VERSION})

    def _stated(self) -> dict[str, Any]:
        """Fields that came later are left out where they say nothing: keys and records of models
        that have no such thing are what they were."""
        own = asdict(self)
        return {k: v for k, v in own.items() if v not in (None, {}, ()) or k not in LATER_PINS}

    def as_json(self) -> dict[str, Any]:
        said = {**self._stated(), "model_key": self.model_key}
        return {**said, "unpinned": True} if self.unpinned else said


def name_of(repository: str, put_on: str | None) -> str:
    """Under which name a model's results are filed: its adapter's or delta's where it has one, or
    those of the model with it and without it would lie together. As in lm-evaluation-harness."""
    return put_on.rpartition("@")[0] if put_on else repository


class LM(Protocol):
    """A model that scores continuations and texts, or writes, as far as it says that it can.

    One whose attribute `reads_ahead` is true may be asked to `encode` (and its chat template to
    write) in another thread while it answers.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What it can be asked. Nothing else is: it is refused before the first request."""
        ...

    @property
    def info(self) -> ModelInfo: ...

    def encode(self, requests: Sequence[Request], *, seed: int = 1234) -> list[EncodedRequest]:
        """Requests as the model reads them: in order, each as often as it is repeated.

        `seed` decides sampled answers. Raises ModelError for what the model cannot read.
        """
        ...

    def answer(self, requests: Sequence[EncodedRequest]) -> Answers:
        """Answers in packs as they are computed, each with its index in `requests`."""
        ...

    def chat_template(self, name: str | None = None) -> ChatTemplate:
        """The template of that name, or the default one. Raises ModelError if there is none."""
        ...


class Backend(Protocol):
    """A class that a command can name (`evalcore.model.registry`); its objects are LMs."""

    @property
    def capabilities(self) -> Capabilities:
        """What a model of this class can be asked at most: known before one is loaded."""
        ...

    def from_arguments(
        self,
        arguments: Mapping[str, Any],
        *,
        batch_size: int | None = None,
        device: str | None = None,
        mode: Mode = "compat",
        weights: bool = True,
    ) -> LM:
        """The model that `--model_args` say, loaded; a class method.

        Values may be texts. `batch_size` caps what is computed together; None leaves it to the
        backend. Without `weights` it can only be asked what it would read. Raises ModelError for
        arguments that it does not take, naming all of them, and InfraError where our side fails.
        """
        ...
