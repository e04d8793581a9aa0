"""From a document to text: its question, choices and answer, and the prompt they make.

How `doc_to_text`, `doc_to_target` and `doc_to_choice` are read follows lm-eval 0.4.13 to the
letter. A prompt is written as messages (`evalcore.task.asking.chat`), whichever way it is sent.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from evalcore.errors import TaskError, code_of_others, said_of
from evalcore.model.base import Conversation
from evalcore.model.pictures import is_image
from evalcore.model.sounds import is_sound
from evalcore.task.asking.chat import Chat, Message, gap, joined, plain_text
from evalcore.task.config import (
    ChoiceSource,
    FewshotSpec,
    MediaSource,
    TargetSource,
    TaskSpec,
    TextSource,
)
from evalcore.task.functions import FunctionRef
from evalcore.task.template import render

Doc = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DocReader:
    """Reads a document by a task's columns, templates and functions."""

    columns: Collection[str]
    """The columns of the scored documents: a source with such a name is a column."""
    has_choices: bool = True
    """Whether digits that a template renders to mean a choice by its position."""

    def text(self, source: TextSource, doc: Doc) -> Any:
        """The question; a number where the choices are the contexts."""
        with said_of("doc_to_text"):
            return plain_value(self._value(source, doc, may_be_list=False))

    def target(self, source: TargetSource, doc: Doc) -> Any:
        """The answer: text, the position of a choice, or a list of either; a function may give one
        as an array or a tensor (`plain_value`)."""
        with said_of("doc_to_target"):
            return self._value(source, doc, may_be_list=True)

    def choices(self, source: ChoiceSource, doc: Doc) -> list[str]:
        """The choices' texts. Raises TaskError if they are not a list of texts."""
        source = _at_hand(source)
        if isinstance(source, FunctionRef):
            found = plain_value(call(source, doc))
        elif isinstance(source, dict):
            found = list(source.values())
        elif not isinstance(source, str):
            found = source
        elif source in self.columns:
            found = _column(source, doc)
        else:
            with said_of("doc_to_choice"):
                text = render(source, doc)
                found = _literal_or(text, text)
        is_list = isinstance(found, list | tuple)
        if not is_list or not all(isinstance(choice, str) for choice in found):
            raise TaskError(f"doc_to_choice must give a list of texts, {source!r} gives {found!r}")
        return list(found)

    def images(self, source: MediaSource, doc: Doc) -> list[Any]:
        """The images of Pillow that a document is asked with, in the order of its text."""
        return self._media("doc_to_image", "images", is_image, source, doc)

    def sounds(self, source: MediaSource, doc: Doc) -> list[Any]:
        """The sounds that a document is asked with, each with its samples and their rate."""
        return self._media("doc_to_audio", "sounds", is_sound, source, doc)

    def _media(
        self, key: str, noun: str, is_one: Callable[[object], bool], source: MediaSource, doc: Doc
    ) -> list[Any]:
        """A list of columns without those that are empty here; a column with one or a list of
        them; a template that renders to a list; a function. Raises TaskError for anything else.
        """
        with said_of(key):
            if isinstance(source, list):
                several = [self._medium(each, doc) for each in source]
                found = [one for one in several if one is not None]
            else:
                found = self._medium(source, doc)
                found = [found] if is_one(found) else found
        if not isinstance(found, list | tuple) or not all(map(is_one, found)):
            other = found
            if isinstance(found, list | tuple):
                other = next(one for one in found if not is_one(one))
            raise TaskError(
                f"{key} must give {noun}, {source!r} gives {type(other).__name__} "
                f"{str(other)[:80]!r}: name a column of {noun}, or open them in a function"
            )
        return list(found)

    def _medium(self, source: Any, doc: Doc) -> Any:
        source = _at_hand(source)
        if isinstance(source, FunctionRef):
            return call(source, doc)
        if not isinstance(source, str):
            return source
        if source in self.columns:
            return _column(source, doc)
        text = render(source, doc)
        return _literal_or(text, text)

    def field(self, source: str | None, doc: Doc, *, columns: Collection[str] | None = None) -> str:
        """A description or a prefix: a column, else a template; nothing is the empty text.

        `columns`: which columns there are; by default the document's own.
        """
        if not source:
            return ""
        is_column = source in (doc if columns is None else columns)
        found = _column(source, doc) if is_column else render(source, doc)
        return "" if found is None else str(found)

    def _value(self, source: TargetSource, doc: Doc, *, may_be_list: bool) -> Any:
        source = _at_hand(source)
        if isinstance(source, FunctionRef):
            return call(source, doc)
        if not isinstance(source, str):
            return source
        if source in self.columns:
            return _column(source, doc)
        text = render(source, doc)
        if self.has_choices and text.isdigit():
            return _literal_or(text, text)
        is_list = may_be_list and text.startswith("[") and text.endswith("]")
        return _literal_or(text, text) if is_list else text


def _at_hand(source: Any) -> Any:
    """What a name stands for that a file gives by `!function` and that is none: a list, a text."""
    if isinstance(source, FunctionRef) and not callable(value := source.value()):
        return value
    return source


def _column(name: str, doc: Doc) -> Any:
    if name not in doc:  # an example that is written in the task file may lack it
        raise TaskError(f"a document lacks the column {name!r}; it has {', '.join(doc)}")
    return doc[name]


def _literal_or(text: str, otherwise: Any) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return otherwise


def plain_value(value: Any) -> Any:
    """A number, text or list in place of the scalar, array or tensor of numpy or torch."""
    return value.tolist() if hasattr(value, "tolist") else value


def call(function: FunctionRef, *arguments: Any) -> Any:
    """Calls a task's function; whatever it raises becomes a TaskError that names it."""
    with code_of_others(str(function)):
        return function.load()(*arguments)


@dataclass(frozen=True, slots=True)
class Prompter:
    """Writes the prompts of one task."""

    spec: TaskSpec
    reader: DocReader
    strict: bool
    system_instruction: str | None = None
    chat: Chat | None = None
    """None: plain text."""

    def example(self, doc: Doc, *, choices_are_contexts: bool) -> list[Message]:
        """One solved example, with the delimiter that follows it."""
        few: FewshotSpec = self.spec.fewshot
        question = self.reader.text(_first_given(few.doc_to_text, self.spec.doc_to_text), doc)
        answer = self.example_answer(doc)
        choices = None
        if few.doc_to_choice:
            choices = self.reader.choices(few.doc_to_choice, doc)
        if choices_are_contexts:
            question, choices = _chosen(choices, question), None
        question = _question(question)
        prefix = self.reader.field(few.gen_prefix, doc)
        before_prefix = gap(question, prefix, few.target_delimiter)
        if answer is None or answer == "":
            return _begun(question, before_prefix, prefix)
        answer = _answer_text(answer, choices)
        if prefix:
            delimiter = before_prefix
            answer = joined(prefix, answer, " ")
        elif self._joins_once:
            delimiter = gap(question, answer, few.target_delimiter)
        else:
            delimiter = few.target_delimiter
        return [
            Message("user", question, delimiter),
            Message("assistant", answer, few.fewshot_delimiter),
        ]

    def example_answer(self, doc: Doc) -> Any:
        source = _first_given(self.spec.fewshot.doc_to_target, self.spec.doc_to_target)
        return plain_value(self.reader.target(source, doc))

    def question(self, text: Any, doc: Doc) -> list[Message]:
        """The end of a prompt: the document's question, whose text was read, and its prefix."""
        question, prefix = _question(text), self.prefix(doc)
        return _begun(question, gap(question, prefix, self.spec.target_delimiter), prefix)

    def choice_as_question(self, choice: str, doc: Doc) -> list[Message]:
        """The end of a prompt where every choice is a context of its own."""
        return _begun(choice, "", self.prefix(doc))

    def prefix(self, doc: Doc) -> str:
        """What the model's answer begins with."""
        return self.reader.field(self.spec.gen_prefix, doc, columns=self.reader.columns)

    def prompt(
        self, doc: Doc, examples: Sequence[Message], end: Sequence[Message]
    ) -> str | Conversation:
        """The whole prompt: instruction and description, examples, and its end."""
        messages = [*examples, *end]
        messages = [*self._opening(doc, messages[0].content), *messages]
        return self.chat.conversation(messages) if self.chat else plain_text(messages)

    def choice_delimiter(self, doc: Doc) -> str:
        """What stands between a prompt and a choice."""
        if self.chat is None:
            return self.spec.target_delimiter
        # lm-eval looks at the template of the prefix, not at what it renders to.
        prefix = self.prefix(doc) if self.strict else self.spec.gen_prefix
        return gap(prefix or "", "choice", self.spec.target_delimiter)

    def target_delimiter(self, end: Sequence[Message], target: str) -> str:
        """What stands between a prompt with this end and the target of a loglikelihood."""
        is_begun = end[-1].role == "assistant"
        if not self._joins_once or (self.chat and not is_begun):
            return ""
        # As in an example, the beginning of an answer goes on after a space.
        return gap(end[-1].content, target, " " if is_begun else self.spec.target_delimiter)

    @property
    def _joins_once(self) -> bool:
        """Whether question and target are joined alike in an example and in the request.

        lm-eval sends the target of a loglikelihood as it is and yet delimits that of an example: a
        target that begins with a space has two there, another has none in the request.
        """
        return self.strict and self.spec.output_type == "loglikelihood"

    def _opening(self, doc: Doc, following: str) -> list[Message]:
        """The system's message, if there is anything to say."""
        instruction = self.system_instruction or ""
        description = self.reader.field(self.spec.description, doc)
        system = joined(instruction, description, self.spec.fewshot_delimiter)
        if not system:
            return []
        delimiter = ""
        if self.strict and not description:  # lm-eval runs the instruction into the question
            delimiter = gap(instruction, following, self.spec.fewshot_delimiter)
        return [Message("system", system, delimiter)]


def _begun(question: str, delimiter: str, prefix: str) -> list[Message]:
    """A question whose answer is only begun, if at all."""
    if not prefix:
        return [Message("user", question)]
    return [Message("user", question, delimiter), Message("assistant", prefix)]


def _first_given(first: Any, otherwise: Any) -> Any:
    return otherwise if first is None else first


def _question(text: Any) -> str:
    if not isinstance(text, str):
        raise TaskError(f"doc_to_text must give text, got {type(text).__name__} {text!r}")
    return text


def _chosen(choices: list[str] | None, index: Any) -> str:
    if choices is None or not isinstance(index, int) or not -len(choices) <= index < len(choices):
        raise TaskError(f"doc_to_text must give the position of a choice, got {index!r}")
    return choices[index]


def _answer_text(answer: Any, choices: list[str] | None) -> str:
    """The answer as an example shows it; of several right ones the first."""
    if isinstance(answer, list) and answer:
        answer = answer[0]
    if choices and isinstance(answer, int):
        if not -len(choices) <= answer < len(choices):
            raise TaskError(f"doc_to_target gives {answer}, there are {len(choices)} choices")
        return choices[answer]
    if not isinstance(answer, str):
        raise TaskError(f"doc_to_target must give an example's answer, got {answer!r}")
    return answer
