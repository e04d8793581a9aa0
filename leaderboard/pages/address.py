"""The state of a page lives in its address, and the address stays short.

A plain form sends every field; the page then redirects to the address without the fields that say
nothing new. Links are made from the same state, so that every view of a page can be passed on.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponseRedirect


class Address:
    """The query of a page as a mapping of its known fields to text; unknown fields are dropped."""

    def __init__(self, request: HttpRequest, defaults: Mapping[str, str]) -> None:
        self._path = request.path
        self._given = request.GET.urlencode()
        self._defaults = dict(defaults)
        self._values = {
            name: request.GET.get(name, "").strip() or default for name, default in defaults.items()
        }

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def choice(self, name: str, allowed: Container[str]) -> str:
        """The field's value; one that is not among `allowed` becomes the default."""
        if self._values[name] not in allowed:
            self._values[name] = self._defaults[name]
        return self._values[name]

    def number(self, name: str, *, last: int) -> int:
        """A page number from 1 to `last`; one outside is moved to the nearest."""
        text = self._values[name]
        # Python refuses to read numbers of thousands of digits; nine are beyond any page.
        asked = int(text[:9]) if text.isascii() and text.isdigit() else 1
        number = min(max(asked, 1), max(last, 1))
        self._values[name] = str(number)
        return number

    def url(self, fragment: str = "", **changes: object) -> str:
        """This page's address with some fields changed and all defaults left out."""
        values = {**self._values, **{name: str(value) for name, value in changes.items()}}
        query = urlencode([(k, v) for k, v in values.items() if v and v != self._defaults[k]])
        return self._path + (f"?{query}" if query else "") + (f"#{fragment}" if fragment else "")

    def redirect(self) -> HttpResponseRedirect | None:
        """To the short address, unless the request already came by it."""
        short = self.url()
        given = self._path + (f"?{self._given}" if self._given else "")
        return None if short == given else HttpResponseRedirect(short)
