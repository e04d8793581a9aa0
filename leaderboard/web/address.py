"""The state of a page lives in its address, and the address stays short.

A plain form sends every field; the page then redirects to the address without the fields that say
nothing new. Links are made from the same state, so that every view of a page can be passed on.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from copy import copy
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponseRedirect

LONGEST = 201
"""Characters of a value: no name or search here has 200, and a page repeats its address in every
link. With one more it can still be told that there were too many."""
LONGEST_LIST = 1000
"""Characters of a field that may have several values."""
LONGEST_QUERY = 2000
"""Characters of all fields as an address writes them; those beyond it keep their defaults."""


class Address:
    """The query of a page as a mapping of its known fields to text; unknown fields are dropped.

    What is longer than any name is cut, and what is too much in all is left out.

    A form that has a field several times (tick boxes, both ends of a range) sends it as often;
    `joined` says with what its values become one, as addresses write it.
    """

    def __init__(
        self,
        request: HttpRequest,
        defaults: Mapping[str, str],
        joined: Mapping[str, str] | None = None,
    ) -> None:
        self._request = request
        self._defaults = dict(defaults)
        self._values = dict(defaults)
        room = LONGEST_QUERY
        for name in defaults:
            given = self._given(name, (joined or {}).get(name))
            room -= len(urlencode({name: given})) if given else 0
            if given and room >= 0:
                self._values[name] = given

    def _given(self, name: str, separator: str | None) -> str:
        if separator is None:
            return bounded(self._request.GET.get(name, ""))
        values = [bounded(value, LONGEST_LIST) for value in self._request.GET.getlist(name)]
        if separator == ",":
            values = [bounded(part) for value in values for part in value.split(",")]
            values = list(dict.fromkeys(filter(None, values)))
        else:
            values = [bounded(value, LONGEST // 2) for value in values[:2]]
        while sum(map(len, values)) > LONGEST_LIST:
            values.pop()
        return separator.join(values) if any(values) else ""

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def choice(self, name: str, allowed: Container[str]) -> str:
        """The field's value; one that is not among `allowed` becomes the default."""
        if self._values[name] not in allowed:
            self._values[name] = self._defaults[name]
        return self._values[name]

    def number(self, name: str, *, last: int) -> int:
        """A page number from 1 to `last`; one outside is moved to the nearest."""
        number = page_number(self._values[name], last=last)
        self._values[name] = str(number)
        return number

    def url(self, fragment: str = "", **changes: object) -> str:
        """This page's address with some fields changed and all defaults left out."""
        values = {**self._values, **{name: str(value) for name, value in changes.items()}}
        return short_address(self._request.path, values, self._defaults, fragment)

    def at(self, **changes: str) -> Address:
        """The same page with some fields changed: links made from it keep them."""
        moved = copy(self)
        moved._values = self._values | changes
        return moved

    def redirect(self) -> HttpResponseRedirect | None:
        """To the short address, unless the request already came by it."""
        return redirect_to(self._request, self.url())


def bounded(text: str, longest: int = LONGEST) -> str:
    """What somebody wrote, of at most so many characters, without white space around it."""
    return text[: longest + 1].strip()[:longest].rstrip()


def page_number(text: str, *, last: int) -> int:
    """The page that somebody asked for, moved to the nearest of 1 to `last`."""
    # Python refuses to read numbers of thousands of digits; nine are beyond any page.
    asked = int(text[:9]) if text.isascii() and text.isdigit() else 1
    return min(max(asked, 1), max(last, 1))


def short_address(
    path: str, values: Mapping[str, str], defaults: Mapping[str, str], fragment: str = ""
) -> str:
    """A page's address with all defaults left out."""
    query = urlencode([(k, v) for k, v in values.items() if v and v != defaults[k]])
    return path + (f"?{query}" if query else "") + (f"#{fragment}" if fragment else "")


def redirect_to(request: HttpRequest, short: str) -> HttpResponseRedirect | None:
    """To the short address, unless the request already came by it."""
    given = request.GET.urlencode()
    came_by = request.path + (f"?{given}" if given else "")
    return None if short == came_by else HttpResponseRedirect(short)
