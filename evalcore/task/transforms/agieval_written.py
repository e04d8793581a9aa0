r"""AGIEval's written answers, found and compared as lm-evaluation-harness does.

The steps are those of the paper's code (Zhong et al. 2023, arXiv:2304.06364) and of the MATH data
set's (Hendrycks et al. 2021, arXiv:2103.03874), with their ways: `\frac{1}{2}` without dollar signs
is 2, and where neither the answer nor the response can be read, the response is right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_DOLLARS = re.compile(r"\$(.*)\$")
_NUMBER = re.compile(r"\$?\d+(?:\.\d+)?(?!\w)")
_BOX = "\\boxed"
_GONE = ("\\left", "\\right", "^{\\circ}", "^\\circ", "\\$")


def scores(doc: Mapping[str, Any], results: list[str]) -> dict[str, int]:
    """`acc` of one response to a problem whose answer is written out."""
    return {"acc": int(is_right(str(doc["answer"]), results[0]))}


def is_right(answer: str, response: str) -> bool:
    """Whether what is found in both has one normal form, or is one text where one has no form."""
    wanted, given = found(answer), found(response)
    try:
        return normal_form(wanted) == normal_form(given)
    except ValueError:
        return wanted == given


def found(text: str) -> str | None:
    """The last box; else the last text in dollar signs; else what follows `=`; else a number."""
    if _BOX in text:
        return _in_box(text[text.rindex(_BOX) :])
    in_dollars = _DOLLARS.findall(text)
    if in_dollars and (last := _right_side(in_dollars[-1])):
        return last
    if "=" in text:
        return _right_side(text).rstrip(".").split("\\n")[0]
    numbers = _NUMBER.findall(text)
    return numbers[-1] if numbers else None


def _in_box(text: str) -> str | None:
    """What stands in the braces right behind the box; None where they do not close."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if letter == "}" and depth == 0:
            inside = text[len(_BOX) + 1 : place]
            return _right_side(inside) if text.startswith(_BOX + "{") else None
    return None


def _right_side(text: str) -> str:
    return text.rpartition("=")[2].lstrip(" ") if "=" in text else text


def normal_form(text: str | None) -> str:
    """Raises ValueError for what has none: nothing, two units, a fraction or root of nothing."""
    if text is None:
        raise ValueError("nothing was found")
    text = text.replace("\n", "").replace("\\!", "").replace("\\\\", "\\")
    text = text.replace("tfrac", "frac").replace("dfrac", "frac")
    for gone in _GONE:
        text = text.replace(gone, "")
    text, *units = text.split("\\text{ ")
    if len(units) > 1:
        raise ValueError("two units")
    text = text.replace("\\%", "").replace(" .", " 0.").replace("{.", "{0.")
    if not text:
        return ""
    if text.startswith("."):
        text = f"0{text}"
    name, *values = text.split("=")
    if len(values) == 1 and len(name) <= 2:
        text = values[0]
    text = _of_fractions(_of_roots(text).replace(" ", ""))
    if text == "0.5":
        return "\\frac{1}{2}"
    return _of_quotient(text)


def _of_roots(text: str) -> str:
    before, *roots = text.split("\\sqrt")
    if "" in roots:
        raise ValueError("a root of nothing")
    braced = (root if root[0] == "{" else f"{{{root[0]}}}{root[1:]}" for root in roots)
    return "\\sqrt".join((before, *braced))


def _of_fractions(text: str) -> str:
    before, *fractions = text.split("\\frac")
    braced = []
    for fraction in fractions:
        if not fraction:
            raise ValueError("a fraction of nothing")
        if fraction[0] == "{":
            braced.append(fraction)
        elif len(fraction) < 2:
            return text
        else:
            above, below, rest = fraction[0], fraction[1], fraction[2:]
            braced.append(
                f"{{{above}}}{{{rest}" if below == "{" else f"{{{above}}}{{{below}}}{rest}"
            )
    return "\\frac".join((before, *braced))


def _of_quotient(text: str) -> str:
    above, *below = text.split("/")
    try:
        if len(below) == 1 and text == f"{int(above)}/{int(below[0])}":
            return f"\\frac{{{above}}}{{{below[0]}}}"
    except ValueError:
        return text
    return text
