"""Links to the pages of a list: the first, the last and those around the current one."""

from __future__ import annotations

from typing import Any, Protocol


class HasUrl(Protocol):
    def url(self, fragment: str = "", **changes: Any) -> str: ...


def page_links(
    number: int, pages: int, address: HasUrl, field: str = "page", heading: str = ""
) -> list[tuple[int, str]]:
    """Numbers with their addresses; an empty one for the current page, nothing for one page.

    `field` is where the address says the number, `heading` what a link leads back to.
    """
    if pages < 2:
        return []
    near = {1, pages, *range(number - 2, number + 3)} & set(range(1, pages + 1))
    return [(n, "" if n == number else address.url(heading, **{field: n})) for n in sorted(near)]
