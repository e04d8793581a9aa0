"""Whether a prompt has all that a conversation says: a chat template may drop what it likes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evalcore.model.pictures import PLACE as IMAGE
from evalcore.model.sounds import PLACE as SOUND


def unsaid(turns: Sequence[Mapping[str, Any]], text: str) -> set[str]:
    """The roles of which a turn's words are not in the text.

    White space at their ends does not count, which templates trim. The turns of user and assistant
    follow one another; the system's may stand anywhere (Mistral's stands in the last question).
    """
    missing: set[str] = set()
    place = 0
    for turn in turns:
        is_system = turn["role"] == "system"
        for words in _words(turn["content"]):
            found = text.find(words, 0 if is_system else place)
            if found < 0:
                missing.add(turn["role"])
            elif not is_system:
                place = found + len(words)
    return missing


def _words(content: str) -> Iterator[str]:
    """What stands between the places of images and sounds, which templates write their own way."""
    for part in content.replace(SOUND, IMAGE).split(IMAGE):
        if words := part.strip():
            yield words
