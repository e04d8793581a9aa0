"""The site's one stylesheet, joined from a file for each layer when static files are looked for.

A page asks for one file; who writes styles opens the layer that he means. Within a layer the later
rule wins, so the order of the files is part of what they say.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import FileSystemFinder
from django.core.files.storage import FileSystemStorage

from evalcore.whole_file import write_whole

NAME = "plumbline.css"
LAYERS = "css"
"""The folder of the layers' files, which are not served one by one."""
ORDER = (
    "tokens",
    "base",
    "layout",
    "parts",
    "pages/board",
    "pages/styles",
    "pages/samples",
    "pages/queue",
    "pages/compare",
    "pages/portrait",
    "pages/charts",
    "pages/sisters",
    "pages/several",
    "pages/texts",
    "adapt",
)


class Finder(FileSystemFinder):
    """The files of `static/`, with `plumbline.css` in place of its layers."""

    def find(self, path: str, *args: Any, **options: Any) -> Any:
        if path != NAME:
            return super().find(path, *args, **options)
        joined = str(Path(_joined().location) / NAME)
        return [joined] if options.get("find_all") or args[:1] == (True,) else joined

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterable[Any]:
        for path, storage in super().list(ignore_patterns):
            if not path.startswith(f"{LAYERS}/"):
                yield path, storage
        yield NAME, _joined()


def _joined() -> FileSystemStorage:
    """The folder of the joined file, which is written where a layer was changed."""
    folder: Path = settings.PLUMBLINE_HOME / "joined"
    sources = Path(settings.STATICFILES_DIRS[0], LAYERS)
    text = "\n".join((sources / f"{name}.css").read_text(encoding="utf-8") for name in ORDER)
    file = folder / NAME
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(file, text)
    return FileSystemStorage(location=folder)
