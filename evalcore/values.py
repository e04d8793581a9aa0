"""What a value on the command line or in a `--config` file means.

Each reader takes the text (or texts) of the command line or the value of the YAML file, and raises
ValueError with what it expected. Texts are typed by lm-evaluation-harness's rules.
"""

from __future__ import annotations

import ast
import json
import os
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

Reader = Callable[[Any], Any]

SEEDS = (0, 1234, 1234, 1234)
"""lm-evaluation-harness's seeds of python, numpy, torch and the few-shot draw."""


def pairs(given: Any) -> dict[str, Any]:
    """`name=value` by commas or spaces, a JSON object, or a mapping; texts stay texts."""
    return _pairs(given, str.strip)


def typed_pairs(given: Any) -> dict[str, Any]:
    """As `pairs`, with the texts of `name=value` typed: true, 8, 0.5, [1, 2]; what is nothing of it
    stays text. An object or a mapping says by itself what is text."""
    return _pairs(given, lambda text: typed(text.strip()))


def generation_pairs(given: Any) -> dict[str, Any]:
    """As `typed_pairs`, but that white space at a value's ends counts: a stop sequence may be a
    line break."""
    return _pairs(given, typed)


def _pairs(given: Any, read: Callable[[str], Any]) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return {str(name): value for name, value in given.items()}
    texts = [given] if isinstance(given, str) else given
    right = isinstance(texts, list) and all(isinstance(text, str) for text in texts)
    _expect(right, "name=value by commas, or a mapping", given)
    found: dict[str, Any] = {}
    for text in texts:
        if text.lstrip().startswith("{"):
            found |= _object(text)
        else:
            found |= {name: read(value) for name, value in _named(text)}
    return found


def typed(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.isdecimal():  # which "²" is not
        return int(text)
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text


def as_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Model arguments as a model reads them; what is null counts as not given."""
    return {
        name: json.dumps(value) if isinstance(value, dict | list) else str(value)
        for name, value in values.items()
        if value is not None
    }


def names(given: Any) -> list[str]:
    """Names by commas or spaces."""
    texts = [given] if isinstance(given, str) else given
    right = isinstance(texts, list) and all(isinstance(text, str) for text in texts)
    _expect(right, "names", given)
    found = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    if not found:
        raise ValueError("expected at least one name")
    return found


def folders(given: Any) -> list[Path]:
    """One or more folders; several also with the system's separator of paths between them."""
    found: list[Path] = []
    for text in given if isinstance(given, list) else [given]:
        whole = Path(str(text))
        found += [whole] if whole.exists() else map(Path, str(text).split(os.pathsep))
    return found


def path(given: Any) -> Path:
    _expect(isinstance(given, str) and given, "a path", given)
    return Path(given)


def text(given: Any) -> str:
    _expect(isinstance(given, str), "text", given)
    return str(given)


def flag(given: Any) -> bool:
    if isinstance(given, str) and given.lower() in ("true", "1", "yes", "false", "0", "no"):
        return given.lower() in ("true", "1", "yes")
    _expect(isinstance(given, bool), "true or false", given)
    return bool(given)


def flag_or_name(given: Any) -> bool | str:
    _expect(isinstance(given, bool) or (isinstance(given, str) and given), "true or a name", given)
    return given  # type: ignore[no-any-return]


def _whole_from(least: int) -> Callable[[Any], int]:
    def read(given: Any) -> int:
        number = _whole(given)
        _expect(number is not None and number >= least, f"a whole number from {least}", given)
        return number or least

    return read


count = _whole_from(0)
positive = _whole_from(1)


def limit(given: Any) -> float:
    try:
        number = float(given)
    except (TypeError, ValueError):
        number = 0.0
    right = 0 < number < 1 or (number >= 1 and number.is_integer())
    _expect(right, "a count, or a share below 1", given)
    return number


def amount(given: Any) -> float:
    try:
        number = float(given)
    except (TypeError, ValueError):
        number = 0.0
    _expect(0 < number < float("inf"), "a number above 0", given)
    return number


def batch_size(given: Any) -> int | None:
    """None for `auto`: the engine's token budget alone decides."""
    if isinstance(given, str):
        auto, sign, times = given.partition(":")
        if auto == "auto" and (times.isdecimal() or not sign):
            return None
    number = _whole(given)
    _expect(number is not None and number >= 1, "a count from 1, auto or auto:N", given)
    return number


def copies(given: Any) -> int | Literal["auto"]:
    number = _whole(given)
    _expect(
        given == "auto" or (number is not None and number >= 1), "a count from 1, or auto", given
    )
    return number or "auto"


def rows_by_task(given: Any) -> dict[str, list[int]]:
    """`--samples`: a JSON object, the path of a file with one, or a mapping."""
    if isinstance(given, str):
        source = given if given.lstrip().startswith("{") else _content_of(given)
        given = _object(source)
    right = isinstance(given, Mapping) and all(
        isinstance(rows, list) and all(isinstance(row, int) and row >= 0 for row in rows)
        for rows in given.values()
    )
    _expect(right, 'rows by task, such as {"arc_easy": [0, 7]}', given)
    return {str(task): list(rows) for task, rows in given.items()}


def seeds(given: Any) -> tuple[int | None, int | None, int | None, int | None]:
    """One seed for all, or four (python, numpy, torch, few-shot draw); None leaves one open."""
    stated = given.split(",") if isinstance(given, str) else given
    stated = stated if isinstance(stated, list | tuple) else [stated]
    numbers = [_seed(seed) for seed in stated]
    if len(numbers) == 1:
        numbers *= 4
    if len(numbers) == 3:
        numbers.append(SEEDS[3])
    _expect(len(numbers) == 4, "one seed, or four by commas", given)
    python, numpy, torch, fewshot = numbers
    return python, numpy, torch, fewshot


def seed_or_fresh(given: int | None) -> int:
    """A fresh seed for who wants none; it stands in the record."""
    return random.SystemRandom().randrange(2**31) if given is None else given


def one_of(*allowed: str) -> Reader:
    def read(given: Any) -> str:
        _expect(given in allowed, f"one of {', '.join(allowed)}", given)
        return str(given)

    return read


def anything(given: Any) -> Any:
    return given


def _seed(given: Any) -> int | None:
    if given is None or (isinstance(given, str) and given.strip().lower() == "none"):
        return None
    try:
        return int(given)
    except (TypeError, ValueError):
        raise ValueError(f"expected whole numbers or None, got {given!r}") from None


def _whole(given: Any) -> int | None:
    if isinstance(given, str):
        return int(given) if given.isdecimal() else None
    return given if isinstance(given, int) and not isinstance(given, bool) else None


def _expect(holds: object, expected: str, given: Any = None) -> None:
    if not holds:
        raise ValueError(f"expected {expected}" + ("" if given is None else f", got {given!r}"))


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"expected a JSON object, got {text!r}: {error}") from None
    _expect(isinstance(value, dict), "a JSON object", text)
    return dict(value)


def _content_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"expected a JSON object or a file with one: {error}") from None


def _named(text: str) -> Iterator[tuple[str, str]]:
    for part in split_outside_brackets(text):
        name, sign, value = part.partition("=")
        if not sign:
            raise ValueError(f"expected name=value by commas, got {part!r}")
        yield name.strip(), value


def split_outside_brackets(text: str) -> list[str]:
    """Split on the commas that stand in no brackets and no quotes; empty parts fall away."""
    parts, depth, quote = [""], 0, ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in "[({":
            depth += 1
        elif sign in "])}":
            depth = max(depth - 1, 0)
        elif sign == "," and not depth:
            parts.append("")
            continue
        parts[-1] += sign
    return [part for part in parts if part.strip()]
