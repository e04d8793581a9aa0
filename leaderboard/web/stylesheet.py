"""The site's stylesheets, joined from a file for each layer when static files are looked for.

A page asks for one file; to change a style, open the layer's file. Within a layer the later rule
wins, so the order of the files matters. Pages that wait to be rebuilt ask for `earlier.css`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import FileSystemFinder
from django.core.files.storage import FileSystemStorage

from evalcore.whole_file import write_whole

LAYERS = "css"
"""The folder of the layers' files, which are not served one by one."""
PAGES = (
    *("board", "model", "compare", "run", "charts", "submit"),
    *("queue", "texts", "styles", "tasks", "corrections"),
)
EARLIER_PAGES = ("samples", "queue", "several")
STYLESHEETS = {
    "plumbline.css": (
        *("tokens", "base", "frame", "controls", "pictures", "ledger", "finder"),
        *(f"pages/{page}" for page in PAGES),
        "adapt",
    ),
    "earlier.css": (
        *("tokens", "earlier/tokens", "earlier/base", "frame", "earlier/layout", "earlier/parts"),
        *(f"earlier/pages/{page}" for page in EARLIER_PAGES),
        "earlier/adapt",
    ),
}
"""The files of each stylesheet's layers, in order."""


class Finder(FileSystemFinder):
    """The files of `static/`, with the stylesheets in place of their layers."""

    def find(self, path: str, *args: Any, **options: Any) -> Any:
        if path not in STYLESHEETS:
            return super().find(path, *args, **options)
        joined = str(Path(_joined().location) / path)
        return [joined] if options.get("find_all") or args[:1] == (True,) else joined

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterable[Any]:
        for path, storage in super().list(ignore_patterns):
            if not path.startswith(f"{LAYERS}/"):
                yield path, storage
        joined = _joined()
        for name in STYLESHEETS:
            yield name, joined


def _joined() -> FileSystemStorage:
    """The folder of the joined files; each is written when a layer has changed."""
    folder: Path = settings.PLUMBLINE_HOME / "joined"
    sources = Path(settings.STATICFILES_DIRS[0], LAYERS)
    for name, layers in STYLESHEETS.items():
        text = "\n".join((sources / f"{layer}.css").read_text(encoding="utf-8") for layer in layers)
        file = folder / name
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(file, text)
    return FileSystemStorage(location=folder)
