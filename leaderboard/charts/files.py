"""A chart as files: its picture with colours of its own, and links to it and to its figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse

FORMS = ("svg", "csv", "json")


def picture_file(template: str, drawn: Mapping[str, Any], name: str) -> HttpResponse:
    return HttpResponse(
        render_to_string(template, {**drawn, "alone": True}),
        content_type="image/svg+xml",
        headers={
            "Content-Disposition": f'attachment; filename="{name}.svg"',
            "X-Robots-Tag": "noindex",
        },
    )


def links(shown: str, page: str, files: str) -> list[tuple[str, str]]:
    """By form the address of the file with what the page at the address `shown` has; `page` and
    `files` are names of addresses."""
    return [(form, shown.replace(reverse(page), reverse(f"{files}-{form}"), 1)) for form in FORMS]
