"""ChartQA (Masry et al. 2022, arXiv:2203.10244): answers found in free text, right within five per
cent.

Source of the rules: mistral-evals, which lm-evaluation-harness follows; section 5.1 of the paper.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

TOLERATED = 0.05
_LEAST = 1e-10
"""Below this a right number counts as this, for its share to have a meaning."""


def exact_match(references: Sequence[str], predictions: Sequence[str]) -> dict[str, float]:
    """Whether the response ends with `Final Answer: ` and the very answer, but for a full stop."""
    found = re.search(r"final answer: (.+)$", predictions[0], re.IGNORECASE)
    said = found[1].strip().lower().removesuffix(".") if found else None
    return {"exact_match": float(said == references[0].strip().lower())}


def relaxed_accuracy(references: Sequence[str], predictions: Sequence[str]) -> dict[str, float]:
    """Whether what stands behind the last `answer:` is right within five per cent."""
    said = _final_answer(predictions[0])
    return {"relaxed_accuracy": float(bool(said) and is_right(said, references[0]))}


def anywhere_accuracy(references: Sequence[str], predictions: Sequence[str]) -> dict[str, float]:
    """The same; where there is no `answer:`, whether the right one stands anywhere."""
    said, right = _final_answer(predictions[0]), references[0]
    found = is_right(said, right) if said else _stands_in(predictions[0], right)
    return {"anywhere_accuracy": float(found)}


def _final_answer(response: str) -> str:
    """The first line with something in it behind the last `answer:`, without marks of Markdown."""
    response = re.sub(r"([aA]nswer)\**:\**", r"\1:", response)
    place = response.lower().rfind("answer:")
    if place < 0:
        return ""
    lines = (line.strip() for line in response[place + len("answer:") :].split("\n"))
    return re.sub(r"[*_\[\]()]", "", next(filter(None, lines), ""))


def is_right(said: str, right: str) -> bool:
    """Numbers within five per cent, a percentage also as its share; a letter by the first letter;
    texts whatever their case."""
    said, right = _cleaned(said), _cleaned(right)
    (number, in_percent), (wanted, wants_percent) = _number(said), _number(right)
    if number is not None and wanted is not None:
        pairs = [(number, wanted)]
        if in_percent or wants_percent:
            pairs.append((number / 100 if in_percent else number, wanted))
            pairs.append((number, wanted / 100 if wants_percent else wanted))
        return any(abs(one - other) / max(abs(other), _LEAST) <= TOLERATED for one, other in pairs)
    if len(right) == 1 and right.isalpha() and said:
        return said[0].lower() == right.lower()
    return said.rstrip(string.punctuation).lower() == right.lower()


def _cleaned(text: str) -> str:
    if not any(letter.isdigit() for letter in text):
        quoted = any(text.startswith(mark) and text.endswith(mark) for mark in "\"'")
        return text[1:-1] if quoted else text
    ends = string.punctuation.replace("%", "")
    while text and (text[-1] in ends or text[-1].isspace()):
        text = text[:-1]
    return text.replace(",", "").replace("$", "")


def _number(text: str) -> tuple[float | None, bool]:
    """And whether it is a percentage."""
    text = text.strip()
    try:
        return float(text.rstrip("%")), text.endswith("%")
    except ValueError:
        return None, False


def _stands_in(response: str, right: str) -> bool:
    try:
        number: float | int = float(right)
        if int(number) == number:
            number = int(number)
    except (ValueError, OverflowError):
        forms = (f"is {right}", f"was {right}", f" {right}.", f"are {right}", f"\n\n{right}")
        return any(form.lower() in response for form in forms)
    return format(number, ",") in response or str(number) in response
