"""What no page can answer, refused before any page is asked."""

from __future__ import annotations

from collections.abc import Callable

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse

Answer = Callable[[HttpRequest], HttpResponse]


def refuse_null_characters(get_response: Answer) -> Answer:
    """400 for an address with a null character: nothing here has one in its name.

    PostgreSQL cannot even be asked for such a name, where SQLite answers that there is none.
    """

    def answer(request: HttpRequest) -> HttpResponse:
        if "\0" in request.path_info or "%00" in request.META.get("QUERY_STRING", ""):
            raise BadRequest("the address has a null character")
        return get_response(request)

    return answer
