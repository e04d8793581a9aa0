"""MBPP's programs as lm-evaluation-harness finds and tests them.

Austin et al. 2021, *Program Synthesis with Large Language Models*, arXiv:2108.07732.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from evalcore.task.transforms import code

FENCE = "```"
_BLOCK = re.compile(r"```\w*\n?(.*?)\n?```", re.DOTALL)


def first_closed(resps: Iterable[Sequence[str]], docs: Iterable[dict[str, Any]]) -> list[list[str]]:  # noqa: ARG001
    """A filter: the first block that is closed; "" where none is.

    A word right behind the fence that the answer's prefix opened is taken for the language.
    """
    return [[_closed_block(text) for text in texts] for texts in resps]


def _closed_block(text: str) -> str:
    blocks: list[str] = _BLOCK.findall(FENCE + text)
    blocks = blocks or _BLOCK.findall(text.replace("```python", FENCE))
    return blocks[0] if blocks else ""


def mbpp_results(doc: dict[str, Any], results: list[Any]) -> dict[str, float]:
    """pass@1 of the row's tests alone, without what it says that they need."""
    return code.mbpp_results({**doc, "test_imports": [], "test_setup_code": ""}, results)
