"""A document as it is asked: examples drawn, prompt and requests written, gold found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from evalcore.errors import TaskError
from evalcore.model.base import Conversation, Request
from evalcore.model.pictures import PLACE, Picture
from evalcore.model.sounds import PLACE as SOUND_PLACE
from evalcore.model.sounds import Sound
from evalcore.task.asking.chat import Message
from evalcore.task.asking.documents import Documents
from evalcore.task.asking.gold import NO_CHOICE, gold_of
from evalcore.task.asking.how_asked import HowAsked
from evalcore.task.asking.likeness import asked_by
from evalcore.task.asking.prompt import Doc, DocReader, Prompter, plain_value
from evalcore.task.asking.sampler import sampler_of
from evalcore.task.identity.digest import check_whole_characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One document as it is asked: everything that scoring and the sample file need."""

    doc_id: int
    """Row in the (processed) split."""
    split: str
    doc: Doc
    doc_digest: str
    shots: list[tuple[str, int]]
    """Split and row of each example, in the order of the prompt."""
    prompt: str
    """Exactly as sent; of several contexts (choices in the context) the first."""
    choices: list[str]
    """Empty where the task has none."""
    gold: list[int]
    """multiple_choice: right choices by position; else empty."""
    target: str
    """`doc_to_target` as text."""
    answer: Any = None
    """`doc_to_target` as it is: text, the position of a choice, or a list of either."""
    several_answers: bool = False
    """Whether `answer` is a list of right answers (in compat: whether that of document 0 is)."""
    choices_are_contexts: bool = False
    """Whether the choices are asked as contexts of one continuation."""
    requests: list[Request]
    """In the order of lm-eval; multiple_choice: one for each choice, then those without context."""
    images: tuple[Picture, ...] = ()
    """Those that it is asked with, in the order of the prompt."""
    sounds: tuple[Sound, ...] = ()


class ItemBuilder:
    """Builds items one by one, in the documents' order (compat's examples depend on it)."""

    def __init__(self, task: HowAsked, documents: Documents, reader: DocReader) -> None:
        self._task = task
        self._spec = task.spec
        self._strict = task.mode == "strict"
        self._documents = documents
        self._reader = reader
        self._prompter = Prompter(
            task.spec, reader, self._strict, task.system_instruction, task.chat
        )
        self._asked_by = asked_by(task.spec, reader)
        self._sampler = None
        if task.shots and task.spec.output_type != "loglikelihood_rolling":
            self._sampler = sampler_of(task, documents, self._asked_by, self._prompter)
        self._examples: dict[int, list[Message]] = {}
        self._seen: dict[int, tuple[Picture, ...]] = {}
        """By example the images that its question has places for."""
        self._heard: dict[int, tuple[Sound, ...]] = {}
        self._choices_are_contexts = False
        self._first_answer: Any = None

    def decide(self, doc: Doc) -> None:
        """Takes from document 0 what lm-eval takes from it for all, scored or not."""
        text = self._text(doc)
        self._choices_are_contexts = isinstance(text, int) and self._reader.has_choices
        self._first_answer = self._answer(self._target(doc))

    def build(self, position: int, row: int, doc: Doc, digest: str) -> Item:
        text, stated = self._text(doc), self._target(doc)
        answer = self._answer(stated)
        self._check_kinds(text, answer)
        choices: list[str] = []
        if self._reader.has_choices:
            choices = self._reader.choices(self._spec.doc_to_choice, doc)
        rows, examples = self._shown(position)
        images = (*(image for row in rows for image in self._seen[row]), *self._images(doc))
        sounds = (*(sound for row in rows for sound in self._heard[row]), *self._sounds(doc))
        asked = self._requests(doc, examples, text, choices, answer)
        if images or sounds:
            # What is asked without the question is asked without its images and sounds.
            asked = [
                replace(one, images=images, sounds=sounds) if one.context else one for one in asked
            ]
        check_can_be_asked(asked)
        several = answer if self._strict else self._first_answer
        return Item(
            doc_id=row,
            split=self._documents.split,
            doc=doc,
            doc_digest=digest,
            shots=[(self._documents.pool_split, row) for row in rows],
            prompt=asked[0].context,
            choices=choices,
            gold=self._gold(text if self._choices_are_contexts else answer, choices),
            target=str(stated),
            answer=answer,
            several_answers=isinstance(several, list) and bool(several),
            choices_are_contexts=self._choices_are_contexts,
            requests=asked,
            images=images,
            sounds=sounds,
        )

    def _requests(
        self, doc: Doc, examples: list[Message], text: Any, choices: list[str], answer: Any
    ) -> list[Request]:
        kind, repeats = self._spec.output_type, self._spec.repeats
        if kind == "loglikelihood_rolling":
            return [Request("loglikelihood_rolling", "", _target_text(answer), repeats=repeats)]
        if kind == "multiple_choice":
            return self._choice_requests(doc, examples, text, choices, answer)
        end = self._prompter.question(text, doc)
        prompt = self._prompter.prompt(doc, examples, end)
        if kind == "generate_until":
            arguments = self._task.generation_kwargs or {}
            return [Request("generate_until", prompt, generation=arguments, repeats=repeats)]
        target = _target_text(answer)
        target = self._prompter.target_delimiter(end, target) + target
        return [Request("loglikelihood", prompt, target, repeats=repeats)]

    def _choice_requests(
        self, doc: Doc, examples: list[Message], text: Any, choices: list[str], answer: Any
    ) -> list[Request]:
        if not choices:
            raise TaskError(f"doc_to_choice gives no choice: {self._spec.doc_to_choice!r}")
        prompter = self._prompter
        delimiter = prompter.choice_delimiter(doc)
        if self._choices_are_contexts:
            ends = [prompter.choice_as_question(choice, doc) for choice in choices]
            prompts = [prompter.prompt(doc, examples, end) for end in ends]
            asked: list[tuple[str | Conversation, str]] = [
                (prompt, f"{delimiter}{answer}") for prompt in prompts
            ]
        else:
            prompt = prompter.prompt(doc, examples, prompter.question(text, doc))
            asked = [(prompt, delimiter + choice) for choice in choices]
        if (unconditional := self._task.null_context) is not None:
            asked += [(unconditional, delimiter + choice) for choice in choices]
        return [
            Request("loglikelihood", prompt, continuation, repeats=self._spec.repeats)
            for prompt, continuation in asked
        ]

    def _shown(self, position: int) -> tuple[list[int], list[Message]]:
        """The examples of a document: their rows in the pool, and as messages."""
        sampler = self._sampler
        if sampler is None:
            return [], []
        rows = sampler.draw(self._documents.question(position, self._asked_by))
        for row in rows:
            if row not in self._examples:
                self._examples[row] = self._prompter.example(
                    sampler.doc(row), choices_are_contexts=self._choices_are_contexts
                )
                # lm-eval gives those of the question alone, which no model then takes.
                places = self._examples[row] if self._strict else []
                shown = any(PLACE in message.content for message in places)
                self._seen[row] = self._images(sampler.doc(row)) if shown else ()
                heard = any(SOUND_PLACE in message.content for message in places)
                self._heard[row] = self._sounds(sampler.doc(row)) if heard else ()
        return rows, [message for row in rows for message in self._examples[row]]

    def _images(self, doc: Doc) -> tuple[Picture, ...]:
        source = self._spec.doc_to_image
        return tuple(map(Picture, self._reader.images(source, doc))) if source else ()

    def _sounds(self, doc: Doc) -> tuple[Sound, ...]:
        source = self._spec.doc_to_audio
        return tuple(map(Sound, self._reader.sounds(source, doc))) if source else ()

    def _text(self, doc: Doc) -> Any:
        return self._reader.text(self._spec.doc_to_text, doc)

    def _target(self, doc: Doc) -> Any:
        stated = self._reader.target(self._spec.doc_to_target, doc)
        plain = plain_value(stated)
        is_text = self._spec.output_type == "generate_until" and not self._reader.has_choices
        if plain is not stated and is_text and not self._strict:
            return str(stated)  # as lm-eval compares it: "tensor(5)"
        return plain

    def _answer(self, stated: Any) -> Any:
        """The target as it is scored: several right choices may come as a tuple or a set, too."""
        if not self._strict and self._spec.output_type != "multiple_choice":
            return stated  # which lm-eval compares as the text of the tuple
        if isinstance(stated, set | frozenset):
            return sorted(stated, key=str)
        return list(stated) if isinstance(stated, tuple) else stated

    def _check_kinds(self, text: Any, answer: Any) -> None:
        """Strict refuses a mixture of kinds; lm-eval decides on document 0 for all."""
        kind = self._choices_are_contexts
        if self._strict and kind != isinstance(text, int):
            raise TaskError(
                f"doc_to_text gives {text!r} here and {'a position' if kind else 'text'} for "
                "document 0: it must give a question for every document, or the position of the "
                "right choice for every document"
            )
        told_apart = self._strict or self._spec.output_type == "multiple_choice"
        if not told_apart or self._spec.process_results is not None:
            return
        if kind and not self._strict and not isinstance(self._first_answer, list):
            return  # what follows the choices is text there, whatever it reads as
        several = isinstance(answer, list)
        # In lm-eval a list of one stands for its entry; at any other mixture it stops.
        is_entry = several and len(answer) == 1 and not self._strict
        if several != isinstance(self._first_answer, list) and not is_entry:
            raise TaskError(
                f"doc_to_target gives {answer!r} here and {self._first_answer!r} for document 0: "
                "it must give one right answer for every document, or a list of them for every "
                "document"
            )

    def _gold(self, answer: Any, choices: list[str]) -> list[int]:
        if self._spec.output_type != "multiple_choice":
            return []
        gold = gold_of(answer, choices)
        must_be_right = self._strict and self._spec.process_results is None
        if must_be_right and (not gold or NO_CHOICE in gold):
            raise TaskError(
                f"the right answer is {answer!r}, which is none of the {len(choices)} choices"
            )
        return gold


def check_can_be_asked(requests: Sequence[Request]) -> None:
    """Raises TaskError for a text that is none, which is no fault of the model's."""
    for context in dict.fromkeys(request.context for request in requests):
        check_whole_characters("the prompt", context)
    for request in requests:
        check_whole_characters("what is scored", request.continuation)


def _target_text(answer: Any) -> str:
    if not isinstance(answer, str):
        raise TaskError(
            f"doc_to_target must give the text to score, got {type(answer).__name__} {answer!r}"
        )
    return answer
