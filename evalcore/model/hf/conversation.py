"""A tokenizer's chat templates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jinja2.exceptions import TemplateError

from evalcore.errors import ModelError
from evalcore.model.base import ChatTemplate, Mode
from evalcore.model.unsaid import unsaid

SHOWN = 60
"""Characters of a turn that a refusal quotes."""

PRINTED = ("'type': 'text'", '"type": "text"')
"""Stands in a prompt where a template that wants texts was given lists of parts."""

Turn = dict[str, Any]


@dataclass
class TemplateWriter:
    """Writes conversations with one template of a tokenizer, and sees that they are in the text."""

    tokenizer: Any
    template: str
    arguments: Mapping[str, Any]
    """What the template is given besides the messages."""
    mode: Mode
    left_out: Counter[str] = field(default_factory=Counter)
    """By role: conversations without its turn, which the template refuses or does not write."""
    reads_parts: bool = False
    """Whether a conversation was handed over as lists of parts."""
    _tried: dict[tuple[str, ...], tuple[bool, set[str]]] = field(default_factory=dict)

    def render(self, messages: Sequence[Mapping[str, str]], answer_begins: bool) -> str:
        """Raises ModelError for a template that refuses the conversation, or is none; in strict
        also for one that does not write all of it."""
        turns: list[Turn] = [dict(message) for message in messages]
        others = [turn for turn in turns if turn["role"] != "system"]
        refused = ""
        try:
            text, missing = self._written(turns, answer_begins)
        except TemplateError as problem:
            refused = str(problem)
            if len(others) == len(turns) or self.mode == "strict":
                raise ModelError(self._refusal(refused, turns, others, answer_begins)) from None
            try:
                text, missing = self._written(others, answer_begins)
            except TemplateError as again:
                raise ModelError(f"its chat template refuses a conversation: {again}") from None
            missing |= {"system"}
        if missing and self.mode == "strict":
            role = next(turn["role"] for turn in turns if turn["role"] in missing)
            said = next(turn["content"] for turn in turns if turn["role"] == role)
            raise ModelError(
                f"its chat template does not write what the {role} says: {said[:SHOWN]!r} is not "
                "in the prompt; compat asks without it, as lm-evaluation-harness does"
            )
        self.left_out.update(missing)
        return text

    def _refusal(
        self, refused: str, turns: list[Turn], others: list[Turn], answer_begins: bool
    ) -> str:
        """Why the conversation cannot be written."""
        if len(others) < len(turns):
            try:
                self._written(others, answer_begins)
            except TemplateError as problem:
                refused = str(problem)
            else:
                return (
                    f"its chat template refuses a system turn ({refused}), so the model would not "
                    f"be told {turns[0]['content'][:SHOWN]!r}; compat asks without it, as "
                    "lm-evaluation-harness does"
                )
        return f"its chat template refuses a conversation: {refused}"

    def _written(self, turns: list[Turn], answer_begins: bool) -> tuple[str, set[str]]:
        """The text, and the roles of which a turn is not in it."""
        in_parts, missing = self._way(tuple(turn["role"] for turn in turns), answer_begins)
        text = self._render(_in_parts(turns) if in_parts else turns, answer_begins)
        self.reads_parts |= in_parts
        return text, missing | unsaid(turns, text)

    def _way(self, roles: tuple[str, ...], answer_begins: bool) -> tuple[bool, set[str]]:
        """Whether a template that reads such a conversation wants lists of parts, and the roles
        that it does not write in any case: seen by turns that stand nowhere by chance."""
        key = (*roles, str(answer_begins))
        if key not in self._tried:
            turns: list[Turn] = [
                {"role": role, "content": f"xqzturn{number}xqz"}
                for number, role in enumerate(roles)
            ]
            found: dict[bool, set[str]] = {}
            for in_parts in (False, True):
                try:
                    text = self._render(_in_parts(turns) if in_parts else turns, answer_begins)
                except (TemplateError, ModelError):
                    continue
                if any(mark in text for mark in PRINTED):
                    continue
                found[in_parts] = unsaid(turns, text)
                if not found[in_parts]:
                    break
            best = min(found, key=lambda in_parts: (len(found[in_parts]), in_parts), default=False)
            self._tried[key] = best, found.get(best, set())
        in_parts, missing = self._tried[key]
        return in_parts, set(missing)

    def _render(self, turns: list[Turn], answer_begins: bool) -> str:
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


def _in_parts(turns: Sequence[Turn]) -> list[Turn]:
    """The turns as templates of models that see read them."""
    return [{**turn, "content": [{"type": "text", "text": turn["content"]}]} for turn in turns]


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
    writer = TemplateWriter(tokenizer, text, arguments, mode)
    return ChatTemplate(
        text=text,
        name=own_name,
        render=writer.render,
        arguments=arguments,
        left_out=lambda: dict(writer.left_out),
        reads_parts=lambda: writer.reads_parts,
    )
