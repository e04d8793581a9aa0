"""A line for each request, and its ID in every line that is logged while it is answered."""

from __future__ import annotations

import re
import uuid
from time import perf_counter
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django_structlog.middlewares import RequestMiddleware
from django_structlog.signals import bind_extra_request_finished_metadata

ID = "X-Request-ID"
OURS = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""What is taken as an ID from whoever sends one; anything else gets one of our own."""


class LogRequests(RequestMiddleware):
    """django-structlog's, which here says the ID, and leaves files to the server that sends them.

    A line has the path without the query, and neither the visitor's address nor the account.
    """

    def prepare(self, request: HttpRequest) -> None:
        sent = request.META.get(_SENT, "")
        name = sent if OURS.fullmatch(sent) else uuid.uuid4().hex
        request.META[_SENT] = name
        request.META[_BEGAN] = perf_counter()
        super().prepare(request)

    def handle_response(self, request: HttpRequest, response: HttpResponse) -> None:
        response.headers[ID] = request.META[_SENT]
        file = getattr(response, "file_to_stream", None)
        super().handle_response(request, response)
        if file is not None:
            # What is put around an answer's content hides from the server that it is a file.
            response.file_to_stream = file  # type: ignore[attr-defined]

    @classmethod
    def format_request(cls, request: HttpRequest) -> str:
        return f"{request.method} {request.path}"


_SENT = "HTTP_X_REQUEST_ID"
_BEGAN = "plumbline.began"


def page_of(request: HttpRequest) -> str:
    """A name from a fixed list, whatever addresses people try."""
    found = request.resolver_match
    if found is None:
        return "static" if request.path.startswith(settings.STATIC_URL) else "none"
    return found.namespace or found.url_name or "none"


def _say_more(request: HttpRequest, log_kwargs: dict[str, Any], **_: Any) -> None:
    log_kwargs["page"] = page_of(request)
    if began := request.META.get(_BEGAN):
        log_kwargs["seconds"] = round(perf_counter() - began, 4)


bind_extra_request_finished_metadata.connect(_say_more, dispatch_uid="page and time")
