"""Links to the pages of a list: the first, the last, those around the current one, and the next."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

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
        return PageLink(label, address.url(heading, **{field: page}))

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
