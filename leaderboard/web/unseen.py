"""Characters that a page may not hold as they are: they would move or hide the text around them.

Questions, answers, names and the words of errors come from anybody's files. Escaping makes text of
markup; a character that turns the direction of writing, or a control character, needs a mark in its
place. Our own templates have none of them, so a whole page is looked through once, when it is made.
"""

from __future__ import annotations

import re

_CONTROL = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
_DIRECTION = r"\u202a-\u202e\u2066-\u2069"
_UNSEEN = re.compile(f"[{_CONTROL}{_DIRECTION}]")


def marked(html: str) -> str:
    """The page with the code of each such character in its place, as in [U+202E]."""
    return _UNSEEN.sub(lambda found: mark(found[0]), html)


def mark(character: str) -> str:
    return f"[U+{ord(character):04X}]"
