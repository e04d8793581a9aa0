"""Pages and files of the site, as a test reads them."""

from __future__ import annotations

import csv
import io
import json
import re
from html import unescape
from typing import Any

from django.test import Client

from leaderboard.models import User


def client_of(user: User) -> Client:
    """A browser in which this account is signed in."""
    client = Client()
    client.force_login(user)
    return client


def get(client: Client, address: str = "/") -> str:
    """The page's HTML."""
    response = client.get(address)
    assert response.status_code == 200, (address, response.status_code, response.get("Location"))
    return response.content.decode()


def text_of(html: str, between: str = " ") -> str:
    """What is read: without markup, in whose place stands `between`, and with single spaces."""
    return " ".join(unescape(re.sub(r"<[^>]+>", between, html)).split())


def section(html: str, name: str) -> str:
    """The section that the heading of this ID names."""
    start = html.index(f'aria-labelledby="{name}"')
    return html[start : html.index("</section>", start)]


def model_names(html: str) -> list[str]:
    """Model IDs in the order of the table's rows."""
    return re.findall(r'<(?:a class="mid"|span class="who"><a) href="/models/([^"]+)"', html)


def row_of(html: str, variant: int) -> str:
    """A model's row of the board."""
    found = re.search(rf'<tr role="row"[^>]* id="m{variant}".*?</tr>', html, re.S)
    assert found, f"no row m{variant}"
    return found[0]


def download(client: Client, address: str) -> bytes:
    """A file's bytes."""
    response = client.get(address)
    assert response.status_code == 200, (address, response.status_code)
    return b"".join(response)


def csv_rows(client: Client, address: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(download(client, address).decode())))


def json_file(client: Client, address: str) -> dict[str, Any]:
    return dict(json.loads(download(client, address)))
