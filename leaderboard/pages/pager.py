"""Links to the pages of a list: the first, the last and those around the current one."""

from __future__ import annotations

from typing import Protocol


class HasUrl(Protocol):
    def url(self, fragment: str = "", *, page: int) -> str: ...


def page_links(number: int, pages: int, address: HasUrl) -> list[tuple[int, str]]:
    """Numbers with their addresses; an empty one for the current page, nothing for one page."""
    if pages < 2:
        return []
    near = {1, pages, *range(number - 2, number + 3)} & set(range(1, pages + 1))
    return [(n, "" if n == number else address.url(page=n)) for n in sorted(near)]
