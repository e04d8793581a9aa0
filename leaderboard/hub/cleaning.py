"""The one door for what the Hub says: texts, numbers and tables that any page and database takes.

Whoever owns a repository writes its files and its card, so nothing of them is taken as it comes:
a null character, half a character, a number of four thousand digits or a list within a thousand
lists would each break a page, a query or a file of ours.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any

LONGEST_TEXT = 500
DEEPEST = 32
"""Tables within tables; what lies deeper is left out."""
MOST_ENTRIES = 2**20
"""Of one list or table: the index of the largest models has some 200,000."""
LARGEST = 2**63 - 1
"""A larger number counts as this one: no size of a model comes near it."""
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_DIGITS = 20
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def text(value: object, longest: int = LONGEST_TEXT) -> str:
    """Cut, and with what no database and no page can hold replaced; empty for anything else."""
    return _NO_TEXT.sub(REPLACEMENT, value[:longest]) if isinstance(value, str) else ""


def count(value: object, most: int = LARGEST) -> int | None:
    """A number of things; None where it is none, negative or more than `most`."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return int(value) if whole and 0 <= value <= most else None  # type: ignore[call-overload, operator]


def cleaned(value: object, longest: int = LONGEST_TEXT, deepest: int = DEEPEST) -> Any:
    """What JSON can hold, with all its texts, keys and numbers as above; None for anything else."""
    if isinstance(value, str):
        return text(value, longest)
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return max(-LARGEST, min(value, LARGEST))
    if deepest < 1:
        return None
    if isinstance(value, list):
        return [cleaned(entry, longest, deepest - 1) for entry in islice(value, MOST_ENTRIES)]
    if isinstance(value, dict):
        return {
            text(key): cleaned(entry, longest, deepest - 1)
            for key, entry in islice(value.items(), MOST_ENTRIES)
            if isinstance(key, str)
        }
    return None


def json_object(
    content: bytes, limit: int, longest: int = LONGEST_TEXT
) -> tuple[dict[str, Any] | None, str]:
    """The table that a file holds, and why it cannot be read; one of the two is empty.

    `content` may be one byte longer than `limit`, which says that the file is too large.
    """
    if len(content) > limit:
        return None, f"it is larger than {limit:,} bytes"
    try:
        # As transformers reads it: json.loads takes bytes with a mark, and in UTF-16, too.
        found = json.loads(content.decode(), parse_int=_whole)
    except UnicodeDecodeError:
        return None, "it is not text in UTF-8"
    except RecursionError:
        return None, "it has lists within lists beyond all measure"
    except ValueError as error:
        return None, text(str(error)) or "it is not JSON"
    if not isinstance(found, dict):
        return None, f"a JSON object was expected, not {type(found).__name__}"
    return cleaned(found, longest), ""


def _whole(digits: str) -> int:
    """Without reading what has more digits than any number that counts."""
    if len(digits) <= _DIGITS:
        return int(digits)
    return -LARGEST if digits.startswith("-") else LARGEST
