"""Lists in pages: which part is shown, and the addresses of the others.

Every list of a page has a field of its own in the address, so that all its parts can be reached and
linked. Links lead back to the list's heading.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from django.db.models import QuerySet

from leaderboard.web.address import Address

NEXT, PREVIOUS, GAP = "Next", "Previous", "…"


class HasUrl(Protocol):
    def url(self, fragment: str = "", **changes: Any) -> str: ...


class PageLink(NamedTuple):
    """A page's number, PREVIOUS, NEXT or GAP; the current page and a gap have no address."""

    label: str
    url: str

    @property
    def number(self) -> str:
        """Empty for what is no number."""
        return "" if self.label in (NEXT, PREVIOUS, GAP) else self.label


def page_links(
    number: int, pages: int, address: HasUrl, field: str = "page", heading: str = ""
) -> list[PageLink]:
    """As they stand beside each other; nothing for one page.

    `field` is where the address says the number, `heading` what a link leads back to.
    """
    if pages < 2:
        return []

    def link(label: str, page: int) -> PageLink:
        return PageLink(label, address.url(heading, **{field: page if page > 1 else ""}))

    near = {1, pages, *range(number - 2, number + 3)} & set(range(1, pages + 1))
    links = [link(PREVIOUS, number - 1)] if number > 1 else []
    last = 0
    for page in sorted(near):
        if page == last + 2:  # a gap of one page takes no less room than its number
            links.append(link(f"{page - 1:,}", page - 1))
        elif page > last + 1:
            links.append(PageLink(GAP, ""))
        links.append(PageLink(f"{page:,}", "") if page == number else link(f"{page:,}", page))
        last = page
    return links + ([link(NEXT, number + 1)] if number < pages else [])


MOST = 10_000
"""No list is read farther than so many pages."""
Row = TypeVar("Row")


@dataclass(frozen=True)
class Part:
    """One page of a list; numbers count from 1."""

    size: int
    number: int
    total: int | None
    """Entries of the whole list; None where nobody counted."""
    links: list[PageLink]
    """Page numbers with their addresses, this one without; empty for a single page."""
    newer: str = ""
    older: str = ""

    @property
    def start(self) -> int:
        return (self.number - 1) * self.size

    @property
    def slice(self) -> slice:
        return slice(self.start, self.start + self.size)

    @property
    def first(self) -> int:
        return self.start + 1

    @property
    def last(self) -> int:
        end = self.start + self.size
        return end if self.total is None else min(end, self.total)


def part(address: Address, field: str, total: int, size: int, heading: str = "") -> Part:
    """The page of a counted list that the address asks for."""
    pages = max(1, -(-total // size))
    number = address.number(field, last=pages)
    return Part(size, number, total, page_links(number, pages, address, field, heading))


def uncounted(
    address: Address, field: str, rows: QuerySet[Any, Row], size: int, heading: str
) -> tuple[list[Row], Part]:
    """A page of a list that is too long to count, with its rows."""
    number = address.number(field, last=MOST)
    start = (number - 1) * size
    found = list(rows[start : start + size + 1])
    newer = address.url(heading, **{field: number - 1}) if number > 1 else ""
    older = address.url(heading, **{field: number + 1}) if len(found) > size else ""
    return found[:size], Part(size, number, None, [], newer, older)
