"""The last lines of a child's log, as they may be shown to everybody."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from django.conf import settings

from leaderboard.logs import withheld

LINES = 40
BYTES = 16 * 1024
BAR = re.compile(r"\d+%\|.*\|.*\[.*\]$|\d+\w* \[\d+:\d+, .*\]$")
"""How tqdm draws a bar, with and without a known end."""
UNPRINTABLE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


def tail(log: Path) -> str:
    """At most 40 lines without tokens, credentials, folders of this machine or control codes.

    A line that was drawn over itself counts as it was drawn last; progress bars are left out.
    """
    if not log.is_file():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - BYTES))
        text = file.read().decode(errors="replace")
    drawn = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    said = harmless("\n".join(drawn)).splitlines()
    return "\n".join([line for line in said if not BAR.search(line.rstrip())][-LINES:])


def harmless(text: str) -> str:
    """`text` without what is nobody else's business."""
    for folder, stands_for in _folders():
        text = text.replace(folder, stands_for)
    return UNPRINTABLE.sub("", withheld(text, [settings.HF_TOKEN]))


def _folders() -> list[tuple[str, str]]:
    """Folders of this machine and what stands for them, inner ones first."""
    folders = {
        str(settings.PLUMBLINE_HOME): "(home)",
        sys.prefix: "(python)",
        sys.base_prefix: "(python)",
        str(settings.BASE_DIR): "(plumbline)",
        str(Path.home()): "~",
    }
    known = {folder: name for folder, name in folders.items() if folder != "/"}
    return sorted(known.items(), key=lambda pair: -len(pair[0]))
