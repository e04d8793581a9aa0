"""A tokenizer's chat templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2.exceptions import TemplateError

from evalcore.errors import ModelError
from evalcore.model.base import ChatTemplate, Mode


@dataclass
class TemplateWriter:
    """Writes conversations with one template of a tokenizer."""

    tokenizer: Any
    template: str
    arguments: Mapping[str, Any]
    """What the template is given besides the messages."""
    without_system: int = 0
    """Conversations whose system turn was left out, because the template refuses one."""

    def render(self, messages: Sequence[Mapping[str, str]], answer_begins: bool) -> str:
        """Raises ModelError for a template that refuses the conversation, or is none."""
        turns = [dict(message) for message in messages]
        others = [turn for turn in turns if turn["role"] != "system"]
        refused = ""
        for asked in (turns, others) if len(others) < len(turns) else (turns,):
            try:
                text = self._render(asked, answer_begins)
            except TemplateError as problem:
                refused = str(problem)
                continue
            self.without_system += asked is others
            return text
        raise ModelError(f"its chat template refuses a conversation: {refused}") from None

    def _render(self, turns: list[dict[str, str]], answer_begins: bool) -> str:
        try:
            return str(
                self.tokenizer.apply_chat_template(
                    turns,
                    chat_template=self.template,
                    tokenize=False,
                    add_generation_prompt=answer_begins,
                    continue_final_message=not answer_begins,
                    **self.arguments,
                )
            )
        except TemplateError:
            raise
        except Exception as problem:  # a template is a program
            why = f"{type(problem).__name__}: {problem}"
            raise ModelError(f"its chat template cannot be used: {why}") from problem


def template_of(tokenizer: Any, name: str | None, mode: Mode) -> tuple[str, str | None]:
    """The text of the template that `name` means, and its name (None for the default one).

    compat writes with the default template whatever name is asked for, as lm-evaluation-harness
    does (it records the text of the named one). Raises ModelError where there is no such template.
    """
    known = getattr(tokenizer, "chat_template", None)
    if not known:
        raise ModelError("its tokenizer has no chat template: leave apply_chat_template out")
    if not isinstance(known, Mapping):
        if name in (None, "default") or mode == "compat":
            return str(known), None
        raise ModelError(f"its tokenizer has one chat template, without a name; {name!r} is none")
    there = ", ".join(sorted(known))
    if name is not None and name not in known:
        raise ModelError(f"its tokenizer has no chat template {name!r}: there are {there}")
    if "default" in known and (name is None or mode == "compat"):
        return str(known["default"]), None
    if name is None:
        raise ModelError(f"its tokenizer has no default chat template: name one of {there}")
    return str(known[name]), name


def chat_template_of(
    tokenizer: Any,
    name: str | None,
    arguments: Mapping[str, Any],
    mode: Mode,
) -> ChatTemplate:
    """The template that `name` means. Raises ModelError where there is none."""
    text, own_name = template_of(tokenizer, name, mode)
    writer = TemplateWriter(tokenizer, text, arguments)
    return ChatTemplate(
        text=text,
        name=own_name,
        render=writer.render,
        arguments=arguments,
        without_system=lambda: writer.without_system,
    )
