"""One sample, prepared for reading: the prompt as it was sent and how likely each choice was."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass
from math import exp, isfinite
from typing import Any

from evalcore.model.pictures import THUMBNAIL
from leaderboard.samples.listing import document_in, question_in

TITLE_LENGTH = 200
"""Letters of a question that fit a heading."""
LONG_CHOICE = 44
"""Letters beyond which the texts of choices need more room than their bars."""
BAR_WIDTH, THINNEST_BAR = 400, 2
"""Of a bar of likelihood: what a share of 1 is, and what every bar has to be seen."""
_ENDED = {
    "stop": "ended by a stop text",
    "eos": "ended by the model",
    "length": "cut at its longest length",
}
_JPEG = "data:image/jpeg;base64,"
MOST_TOKENS = 2_000
"""Of one text, on a page; the file has them all."""
SHORT_CONTINUATION = 4
"""Continuations up to this length (letters) are shown side by side after the prompt."""


CHOICE_COLUMNS = ("choices", "gold", "pick", "responses.list.element.loglikelihood")
"""Of a samples file, what choices are made of."""


@dataclass(frozen=True)
class Choice:
    """One choice with its loglikelihood, and its share of the likelihoods of all."""

    letter: str
    text: str
    loglikelihood: float
    share: float
    picked: bool
    correct: bool

    @property
    def percent(self) -> str:
        """The share, never written as none or all while there is something of the others."""
        if 0 < self.share < 0.0005:
            return "<0.1 %"
        if 0.9995 <= self.share < 1:
            return ">99.9 %"
        return f"{100 * self.share:.1f} %"

    @property
    def bar_width(self) -> str:
        """The share's bar on a line of BAR_WIDTH."""
        return f"{max(self.share * BAR_WIDTH, THINNEST_BAR):.1f}"


@dataclass(frozen=True)
class Token:
    """A token whose likelihood was asked, or one window of a long text."""

    loglikelihood: float
    number: int | None
    """In the model's vocabulary; None where it is not known."""
    text: str | None
    """None where only the number is known: older files have no texts."""


@dataclass(frozen=True)
class Scored:
    """A text whose likelihood was asked, token by token."""

    label: str
    """The letter of its choice, else the number of its request."""
    text: str
    loglikelihood: float
    tokens: tuple[Token, ...]
    """Of a long text the sums of its windows."""
    more: int
    """Tokens beyond those that a page shows."""


@dataclass(frozen=True)
class Written:
    """What the model wrote in answer to one request."""

    text: str
    ended: str
    tokens: int
    """Thoughts among them."""
    thoughts: str = ""
    """What it thought first."""
    thought_tokens: int | None = None
    """None where the server did not say."""
    thinking_cut: bool = False
    """Whether the budget ended its thinking."""


@dataclass(frozen=True)
class Seen:
    """An image that a question is asked with."""

    digest: str
    """SHA-256 of its pixels."""
    width: int
    height: int
    source: str
    """The thumbnail as an address that holds it; empty where it may not be put online."""

    @property
    def shown(self) -> tuple[int, int]:
        """Width and height of the thumbnail, so that a page has room for it before it is there."""
        share = min(1.0, THUMBNAIL / max(self.width, self.height, 1))
        return max(1, round(self.width * share)), max(1, round(self.height * share))


@dataclass(frozen=True)
class Heard:
    """A sound that a question is asked with, which no page keeps."""

    digest: str
    """SHA-256 of its rate and its samples."""
    seconds: float
    rate: int


@dataclass(frozen=True)
class Question:
    """A sample as the page shows it. `requests` is set only where the contexts differ."""

    title: str
    """The question's own words on one line; empty where they are unknown or withheld."""
    examples: str
    asked: str
    continuations: tuple[str, ...]
    requests: tuple[tuple[str, str], ...]
    choices: tuple[Choice, ...]
    shots: int
    n_context_tokens: int
    n_truncated: int
    right: bool | None
    why_null: str
    scored: tuple[Scored, ...]
    written: tuple[Written, ...]
    extracted: tuple[tuple[str, str], ...]
    """By filter what it found in the answers; only where the model wrote them."""
    target: str
    scores: tuple[tuple[str, str, float | None], ...]
    """Metric, filter and score of this question."""
    doc_digest: str
    images: tuple[Seen, ...]
    """In the order of the prompt, those of its examples first."""
    sounds: tuple[Heard, ...]
    withheld: bool
    """Whether every text here is its digest, because the data set's text may not be put online."""

    @property
    def long_choices(self) -> bool:
        return any(len(choice.text) > LONG_CHOICE for choice in self.choices)

    @property
    def pick(self) -> Choice | None:
        return next((choice for choice in self.choices if choice.picked), None)

    @property
    def answers(self) -> list[Choice]:
        return [choice for choice in self.choices if choice.correct]

    @property
    def verdict(self) -> str:
        """One sentence that can be read alone."""
        if self.right is None and not self.why_null:
            return "No score of its own: its metric is of all questions together."
        if self.right is None:
            return f"Not scored: {self.why_null}."
        if self.pick is None or not self.answers:
            return "Right." if self.right else "Wrong."
        answers = " or ".join(choice.letter for choice in self.answers)
        if self.right:
            return f"Right: picked {self.pick.letter}."
        return f"Wrong: picked {self.pick.letter}, the answer is {answers}."

    @property
    def closeness(self) -> str:
        """How near the runner-up, or the right answer, came to the pick."""
        if self.pick is None or not self.answers:
            return ""
        others = [c for c in self.choices if c.correct] if not self.right else []
        others = others or [c for c in self.choices if not c.picked]
        if not others:
            return ""
        nearest = max(others, key=lambda choice: choice.loglikelihood)
        distance = self.pick.loglikelihood - nearest.loglikelihood
        if distance < 0:
            return f"{nearest.letter} was likelier in total; lengths are weighed for the pick."
        if distance > 13.8:
            return f"{self.pick.letter} was over a million times as likely as {nearest.letter}."
        times = exp(distance)
        shown = f"{times:.2f}" if times < 2 else f"{times:,.1f}" if times < 10 else f"{times:,.0f}"
        return f"{self.pick.letter} was {shown} times as likely as {nearest.letter}."


def read_question(sample: dict[str, Any]) -> Question:
    """A row of a samples file, made readable; nothing in it is computed anew but the bars."""
    arguments, responses = sample["arguments"], sample["responses"]
    contexts = {argument["context"] for argument in arguments}
    prompt = arguments[0]["context"] if len(contexts) == 1 else sample["prompt"]
    shots = len(sample["shots"] or ())
    words = question_in(sample["doc"])
    examples, asked = split_prompt(prompt, words, shots)
    requests = tuple((argument["context"], argument["continuation"]) for argument in arguments)
    written = _written(sample)
    correct = sample["correct"]
    return Question(
        title=_title(words),
        examples=examples,
        asked=asked,
        continuations=_continuations(sample, [continuation for _, continuation in requests]),
        requests=requests if len(contexts) > 1 else (),
        choices=choices_of(sample),
        shots=shots,
        n_context_tokens=max((r["n_context_tokens"] for r in responses), default=0),
        n_truncated=max((r["n_truncated"] for r in responses), default=0),
        right=None if correct is None else correct >= 1,
        why_null=sample["why_null"] or "",
        scored=_scored(sample),
        written=written,
        extracted=_extracted(sample) if written else (),
        target=sample.get("target") or "",
        scores=tuple(
            (score["metric"], score["filter"], score["value"])
            for score in sample.get("scores") or ()
        ),
        doc_digest=sample.get("doc_digest") or "",
        images=tuple(map(_seen, sample.get("images") or ())),
        sounds=tuple(Heard(**sound) for sound in sample.get("sounds") or ()),
        withheld=is_withheld(sample["doc"]),
    )


def _title(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= TITLE_LENGTH else f"{line[:TITLE_LENGTH].rstrip()}…"


def _seen(image: dict[str, Any]) -> Seen:
    thumbnail = image["thumbnail"]
    source = "" if thumbnail is None else f"{_JPEG}{b64encode(thumbnail).decode()}"
    return Seen(image["digest"], image["width"], image["height"], source)


def is_withheld(doc: str) -> bool:
    """Whether this stands for a document whose text may not be put online."""
    return document_in(doc).keys() == {"doc_digest"}


def split_prompt(prompt: str, question: str, shots: int) -> tuple[str, str]:
    """The worked examples and the question itself; together they are the prompt, unchanged.

    The question begins after the last blank line before its own words, or before the prompt's end
    where those are not known.
    """
    if not shots:
        return "", prompt
    words = prompt.rfind(question) if question else -1
    blank = prompt.rfind("\n\n", 0, words if words > 0 else len(prompt))
    return (prompt[: blank + 2], prompt[blank + 2 :]) if blank >= 0 else ("", prompt)


def _continuations(sample: dict[str, Any], continuations: list[str]) -> tuple[str, ...]:
    """What to underline after the prompt: all letters, or the one continuation that was picked."""
    own = continuations[: len(sample["choices"] or ()) or None]
    if all(len(text.strip()) <= SHORT_CONTINUATION for text in own):
        return tuple(own)
    pick = sample["pick"]
    return (own[pick if pick is not None else 0],)


def choices_of(sample: dict[str, Any]) -> tuple[Choice, ...]:
    """The choices of a sample; of its columns only CHOICE_COLUMNS are needed."""
    texts = sample["choices"] or ()
    values = [response["loglikelihood"] for response in sample["responses"]][: len(texts)]
    if not texts or len(values) < len(texts):
        return ()
    best = max(values)
    likelihoods = [exp(value - best) if isfinite(value) else 0.0 for value in values]
    total = sum(likelihoods) or 1.0
    gold = set(sample["gold"] or ())
    return tuple(
        Choice(
            letter=letter(place),
            text=text,
            loglikelihood=value,
            share=likelihood / total,
            picked=place == sample["pick"],
            correct=place in gold,
        )
        for place, (text, value, likelihood) in enumerate(
            zip(texts, values, likelihoods, strict=True)
        )
    )


def _scored(sample: dict[str, Any]) -> tuple[Scored, ...]:
    """Every text that was scored; those of choices first, by their letters."""
    letters = len(sample["choices"] or ())
    withheld = is_withheld(sample["doc"])
    asked = zip(sample["arguments"], sample["responses"], strict=False)
    return tuple(
        Scored(
            label=letter(place) if place < letters else str(place + 1),
            text=argument["continuation"],
            loglikelihood=response["loglikelihood"],
            tokens=_tokens(response, withheld)[:MOST_TOKENS],
            more=max(0, len(response.get("token_logprobs") or ()) - MOST_TOKENS),
        )
        for place, (argument, response) in enumerate(asked)
        if response.get("text") is None
    )


def _tokens(response: dict[str, Any], withheld: bool) -> tuple[Token, ...]:
    values = response.get("token_logprobs") or ()
    ids, texts = response.get("token_ids") or (), response.get("token_texts") or ()
    # A long text has one sum for each window; of withheld tokens there is only the count.
    unknown = (None,) * len(values)
    known = unknown if withheld or len(ids) != len(values) else ids
    read = unknown if withheld or len(texts) != len(values) else texts
    return tuple(map(Token, values, known, read))


def _written(sample: dict[str, Any]) -> tuple[Written, ...]:
    return tuple(
        Written(
            response["text"],
            _ended(response),
            len(response.get("token_ids") or ()),
            thoughts=(response.get("thoughts") or "").strip(),
            thought_tokens=response.get("n_thought_tokens"),
            thinking_cut=response.get("thinking") == "cut",
        )
        for response in sample["responses"]
        if response.get("text") is not None
    )


def _ended(response: dict[str, Any]) -> str:
    how = _ENDED.get(response["finish_reason"], "")
    return f"{how}, still thinking" if response.get("thinking") == "unended" else how


def _extracted(sample: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (entry["filter"], _as_text(value))
        for entry in sample.get("filtered") or ()
        for value in _values_in(entry["values"])
    )


def _values_in(text: str) -> list[Any]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return [text]
    return values if isinstance(values, list) else [values]


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def letter(place: int) -> str:
    return chr(ord("A") + place) if place < 26 else str(place + 1)
