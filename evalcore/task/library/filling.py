"""`<<…>>` in families: what stands for a value of the list, filled in.

So that `{{…}}` remains what it is in a task file; both are Jinja.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import SandboxedEnvironment

from evalcore.task.functions import FunctionRef
from evalcore.task.template import compiled

_ENVIRONMENT = SandboxedEnvironment(
    variable_start_string="<<",
    variable_end_string=">>",
    block_start_string="<%",
    block_end_string="%>",
    comment_start_string="<#",
    comment_end_string="#>",
    undefined=jinja2.StrictUndefined,
    keep_trailing_newline=True,
    autoescape=False,
)

_WHAT_A_FILE_HOLDS = (
    *(str, bool, int, float, list, dict, type(None), FunctionRef),
    *(datetime.date, datetime.datetime),
)


class NotFilled(Exception):
    """A text that cannot be filled in; `steps` lead to it from what was to be filled in."""

    def __init__(self, text: str, reason: object) -> None:
        super().__init__(f"{text!r} cannot be filled in: {reason}")
        self.steps: list[str] = []


def filled(part: Any, names: Mapping[str, Any], folder: Path) -> Any:
    """`part` with every `<<…>>` filled in; a text that is nothing else becomes the value itself.

    Functions are those beside the family, in `folder`, whichever file named them. Raises NotFilled.
    """
    if isinstance(part, str):
        return _filled_text(part, names) if "<<" in part or "<%" in part else part
    if isinstance(part, Mapping):
        return {
            filled(key, names, folder): _inside(key, value, names, folder)
            for key, value in part.items()
        }
    if isinstance(part, list):
        return [_inside(number, value, names, folder) for number, value in enumerate(part)]
    if isinstance(part, FunctionRef) and part.folder != folder:
        return dataclasses.replace(part, folder=folder)
    return part


def _inside(step: object, part: Any, names: Mapping[str, Any], folder: Path) -> Any:
    try:
        return filled(part, names, folder)
    except NotFilled as problem:
        problem.steps.insert(0, str(step))
        raise


def _filled_text(text: str, names: Mapping[str, Any]) -> Any:
    whole = text.removeprefix("<<").removesuffix(">>")
    try:
        if f"<<{whole}>>" != text or "<<" in whole:
            return compiled(_ENVIRONMENT, text).render(**names)
        value = _expression(whole)(**names)
        if isinstance(value, jinja2.Undefined):
            str(value)  # raises, and says what is not defined
    except (
        *(jinja2.TemplateError, ArithmeticError, AttributeError),
        *(LookupError, TypeError, ValueError),
    ) as error:
        raise NotFilled(text, error) from error
    if isinstance(value, tuple):
        return list(value)
    if not isinstance(value, _WHAT_A_FILE_HOLDS):
        raise NotFilled(text, f"it gives a {type(value).__name__}, which no task file can hold")
    return value


@functools.cache
def _expression(text: str) -> Callable[..., Any]:
    return _ENVIRONMENT.compile_expression(text, undefined_to_none=False)
