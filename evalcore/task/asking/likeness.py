"""Which documents ask the same: strict shows no document a copy of itself as an example.

Two rows may differ in a number or a source and yet be one question. So what counts is the text that
is asked, not the row.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from evalcore.errors import TaskError
from evalcore.task.asking.prompt import Doc, DocReader
from evalcore.task.config import TaskSpec


@dataclass(frozen=True, slots=True)
class Asked:
    """What a document asks. White space and the order of choices make no difference."""

    digest: str
    """Of the whole document."""
    text: str
    """The question; where that is empty, or is the position of a choice, what is asked instead."""
    choices: tuple[str, ...] = ()
    answer: str = ""

    def is_copy(self, other: Asked) -> bool:
        """Whether one shows the answer to the other.

        Of two questions alike ("Which of these is true?") the choices or the answer must be, too.
        """
        if self.digest == other.digest:
            return True
        if self.text != other.text:
            return False
        return self.choices == other.choices or self.answer == other.answer


AskedBy = Callable[[Doc, str], Asked]
"""From a document and its digest to what it asks."""


def asked_by(spec: TaskSpec, reader: DocReader) -> AskedBy:
    """How to read what the documents of a task ask, those that are written as its examples, too.

    The function that is given raises TaskError for a document without a question.
    """

    def asked(doc: Doc, digest: str) -> Asked:
        try:
            question = reader.text(spec.doc_to_text, doc)
        except TaskError:  # an example in the file may have other columns than the documents
            question = reader.text(spec.fewshot.doc_to_text, doc)
        choices: list[str] = []
        if spec.doc_to_choice is not None:
            with suppress(TaskError):
                choices = reader.choices(spec.doc_to_choice, doc)
        target = None
        with suppress(TaskError):
            target = reader.target(spec.doc_to_target, doc)
        answer = target
        if isinstance(target, int) and 0 <= target < len(choices):
            answer = choices[target]
        if isinstance(question, int) and choices:  # the choices are asked before one target
            question = [target, *sorted(choices)]
        text = _plain(question) or _plain(sorted(choices)) or _plain(target)
        return Asked(digest, text, tuple(sorted(map(_plain, choices))), _plain(answer))

    return asked


def _plain(value: object) -> str:
    parts = value if isinstance(value, list) else [value]
    return "\n".join(" ".join(str(part).split()) for part in parts)
