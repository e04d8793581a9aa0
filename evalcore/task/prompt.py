"""From a document to text: its question, choices and answer, and the prompt they make.

How `doc_to_text`, `doc_to_target` and `doc_to_choice` are read, and where delimiters stand, follows
lm-eval 0.4.13 to the letter: one space more or less is another score.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from evalcore.errors import TaskError
from evalcore.task.config import ChoiceSource, FewshotSpec, TargetSource, TaskSpec, TextSource
from evalcore.task.functions import FunctionRef
from evalcore.task.template import render

Doc = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DocReader:
    """Reads a document by a task's columns, templates and functions."""

    columns: Collection[str]
    """The columns of the scored documents: a source with such a name is a column."""

    def text(self, source: TextSource, doc: Doc) -> Any:
        """The question; a number where the choices are the contexts."""
        return self._value(source, doc, may_be_list=False)

    def target(self, source: TargetSource, doc: Doc) -> Any:
        """The answer: text, the position of a choice, or a list of either."""
        return self._value(source, doc, may_be_list=True)

    def choices(self, source: ChoiceSource, doc: Doc) -> list[str]:
        """The choices' texts. Raises TaskError if they are not a list of texts."""
        if isinstance(source, FunctionRef):
            found = call(source, doc)
        elif isinstance(source, dict):
            found = list(source.values())
        elif not isinstance(source, str):
            found = source
        elif source in self.columns:
            found = doc[source]
        else:
            found = _literal_or(render(source, doc), None)
        if not isinstance(found, list) or not all(isinstance(choice, str) for choice in found):
            raise TaskError(f"doc_to_choice must give a list of texts, {source!r} gives {found!r}")
        if not found:
            raise TaskError(f"doc_to_choice gives no choice: {source!r}")
        return found

    def field(self, source: str | None, doc: Doc) -> str:
        """A description or a prefix: a column, else a template; nothing is the empty text."""
        if not source:
            return ""
        return str(doc[source]) if source in doc else render(source, doc)

    def _value(self, source: TargetSource, doc: Doc, *, may_be_list: bool) -> Any:
        """A template that renders to digits means a choice by its position."""
        if isinstance(source, FunctionRef):
            return call(source, doc)
        if not isinstance(source, str):
            return source
        if source in self.columns:
            return doc[source]
        text = render(source, doc)
        is_list = may_be_list and text.startswith("[") and text.endswith("]")
        return _literal_or(text, text) if is_list or text.isdigit() else text


def _literal_or(text: str, otherwise: Any) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return otherwise


def call(function: FunctionRef, *arguments: Any) -> Any:
    """Calls a task's function; whatever it raises becomes a TaskError that names it."""
    try:
        return function.load()(*arguments)
    except TaskError:
        raise
    except Exception as error:  # the function is somebody else's code
        raise TaskError(f"{function} failed: {type(error).__name__}: {error}") from error


@dataclass(frozen=True, slots=True)
class Prompter:
    """Writes the prompts of one task in plain text (no chat template)."""

    spec: TaskSpec
    reader: DocReader

    def description(self, doc: Doc) -> str:
        return self.reader.field(self.spec.description, doc)

    def example(self, doc: Doc, *, choices_are_contexts: bool) -> str:
        """One solved example, with the delimiter that follows it."""
        few: FewshotSpec = self.spec.fewshot
        question = self.reader.text(_first_given(few.doc_to_text, self.spec.doc_to_text), doc)
        answer = self.reader.target(_first_given(few.doc_to_target, self.spec.doc_to_target), doc)
        choices = None
        if few.doc_to_choice is not None:
            choices = self.reader.choices(few.doc_to_choice, doc)
        if choices_are_contexts:
            question, choices = _chosen(choices, question), None
        question = _question(question)
        prefix = self.reader.field(few.gen_prefix, doc)
        before_prefix = _gap(question, prefix, few.target_delimiter)
        if answer is None or answer == "":
            return question + before_prefix + prefix
        answer = _answer_text(answer, choices)
        if prefix:
            answer = before_prefix + prefix + _gap(prefix, answer, " ") + answer
        else:
            answer = few.target_delimiter + answer
        return question + answer + few.fewshot_delimiter

    def question(self, text: Any, doc: Doc) -> str:
        """The document's question, whose text was read, with its prefix: the end of a prompt."""
        question = _question(text)
        prefix = self.reader.field(self.spec.gen_prefix, doc)
        return question + _gap(question, prefix, self.spec.target_delimiter) + prefix

    def choice_as_question(self, choice: str, doc: Doc) -> str:
        """The end of a prompt where every choice is a context of its own."""
        return choice + self.reader.field(self.spec.gen_prefix, doc)


def _gap(left: str, right: str, delimiter: str) -> str:
    """The delimiter if both sides have text and neither has white space where they meet."""
    if not left or not right or left[-1].isspace() or right[0].isspace():
        return ""
    return delimiter


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
