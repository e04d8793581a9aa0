"""A prompt as messages, and what it becomes: plain text, or a conversation with the model.

Where delimiters stand, and when examples are turns of their own, follows lm-eval 0.4.13 to the
letter: one space more or less is another score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evalcore.model.base import ChatTemplate, Conversation, Turn


@dataclass(frozen=True, slots=True)
class Message:
    """What one side says; an assistant at the end is what the model's answer begins with."""

    role: Literal["system", "user", "assistant"]
    content: str
    delimiter: str = ""
    """Follows the content in plain text; a chat template has marks of its own."""


@dataclass(frozen=True, slots=True)
class Chat:
    """How a task's prompts become conversations."""

    template: ChatTemplate
    multiturn: bool
    """Whether examples are turns of the conversation; else all is one question of the user."""

    def conversation(self, messages: Sequence[Message]) -> Conversation:
        asked = messages if self.multiturn else _one_question(messages)
        return Conversation(
            turns=tuple(Turn(message.role, message.content) for message in asked),
            answer_begins=asked[-1].role != "assistant",
            template=self.template,
        )


def plain_text(messages: Sequence[Message]) -> str:
    """The messages with the delimiters between them."""
    return "".join(message.content + message.delimiter for message in messages)


def _one_question(messages: Sequence[Message]) -> list[Message]:
    """All but the system's message and the beginning of the answer as one message of the user."""
    first = 1 if messages[0].role == "system" else 0
    last = len(messages) - 1 if messages[-1].role == "assistant" else len(messages)
    asked = messages[first:last]
    text = plain_text(asked[:-1]) + asked[-1].content
    return [*messages[:first], Message("user", text), *messages[last:]]


def gap(left: str, right: str, delimiter: str) -> str:
    """The delimiter if both sides have text and neither has white space where they meet."""
    if not left or not right or left[-1].isspace() or right[0].isspace():
        return ""
    return delimiter


def joined(left: str, right: str, delimiter: str) -> str:
    return left + gap(left, right, delimiter) + right
