"""Where a task comes from: paper, data set and licence, as the README beside its file says."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from markdown_it import MarkdownIt

README = "README.md"
BEGINS = "**Source**:"


def origin(file: Path | None, tasks_dir: Path) -> str:
    """The README's point **Source** as Markdown; empty where there is none.

    The README lies directly below `tasks_dir`, in the folder that holds the task's file.
    """
    if file is None:
        return ""
    *folders, _ = file.relative_to(tasks_dir).parts
    readme = Path(tasks_dir, *folders[:1], README)
    return _source(readme, readme.stat().st_mtime_ns) if readme.is_file() else ""


@lru_cache(maxsize=256)
def _source(readme: Path, _changed: int) -> str:
    for token in MarkdownIt("commonmark").parse(readme.read_text(encoding="utf-8")):
        if token.type == "inline" and token.content.startswith(BEGINS):
            text = " ".join(token.content.removeprefix(BEGINS).split())
            return text[:1].upper() + text[1:]
    return ""
