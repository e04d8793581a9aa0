"""Jinja templates of task files: compiled once each, in a sandbox."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

import jinja2
from jinja2.sandbox import SandboxedEnvironment

from evalcore.errors import TaskError


def _regex_replace(string: str, pattern: str, repl: str, count: int = 0) -> str:
    """With lm-eval's names, as templates may state them."""
    return re.sub(pattern, repl, string, count=count)


_ENVIRONMENT = SandboxedEnvironment(
    undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False
)
_ENVIRONMENT.filters["regex_replace"] = _regex_replace


@functools.cache
def compiled(environment: SandboxedEnvironment, template: str) -> jinja2.Template:
    made = environment.from_string(template)
    # A chain of mappings otherwise, gone through for each document: a third of a short one's time.
    made.globals = dict(made.globals)
    return made


def render(template: str, doc: Mapping[str, Any]) -> str:
    """The template filled in with a document's columns.

    Raises TaskError: not a template, a column that the document lacks, an error inside it.
    """
    try:
        return compiled(_ENVIRONMENT, template).render(doc)
    except jinja2.UndefinedError as error:
        raise TaskError(
            f"the template {template!r} asks for what a document lacks: {error.message}; "
            f"its columns are {', '.join(doc)}"
        ) from error
    except jinja2.TemplateSyntaxError as error:
        raise TaskError(f"{template!r} is not a Jinja template: {error.message}") from error
    except Exception as error:  # whatever the expressions of a template may raise
        raise TaskError(
            f"the template {template!r} failed on a document: {type(error).__name__}: {error}"
        ) from error
