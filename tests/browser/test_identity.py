"""From a page to the OpenID provider and back, in a browser that heeds the site's content policy.

The provider is a real one, in a process and on a port of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core.cache import cache
from playwright.sync_api import expect

from leaderboard.models import Suite
from tests.browser.conftest import Open
from tests.browser.test_access import PHONE, WIDE
from tests.browser.test_flags import looked_at
from tests.leaderboard.accounts.provider import CLIENT, SECRET, Served, serve
from tests.shots import Shots

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

BUTTON = "Sign in with The identity"


@pytest.fixture
def provider(tmp_path: Path, site: Suite, live_server: Any, settings: Any) -> Iterator[Served]:
    settings.PLUMBLINE_OIDC_CLIENT_ID = CLIENT
    settings.OIDC_ID, settings.OIDC_NAME = "identity", "The identity"
    with serve(tmp_path, f"{live_server.url}/accounts/identity/callback") as served:
        app = {
            "provider_id": "identity",
            "name": "The identity",
            "client_id": CLIENT,
            "secret": SECRET,
            "settings": {"server_url": served.url, "scope": ["openid", "profile"]},
        }
        openid = settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]
        settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {**openid, "APPS": [app]}}
        cache.clear()
        yield served


@pytest.mark.parametrize("look", [{"viewport": WIDE}, {"viewport": PHONE, "color_scheme": "dark"}])
def test_signing_in_at_the_provider_leads_back_to_where_one_was(
    visit: Open, provider: Served, look: dict[str, Any], shot: Shots
) -> None:
    window = visit(**look)
    page = window.go("/queue")
    page.get_by_role("link", name="Sign in").press("Enter")
    page.get_by_role("button", name=BUTTON).wait_for()
    found = looked_at(page, shot, "the way to the provider")
    page.set_viewport_size(look["viewport"])
    page.get_by_role("button", name=BUTTON).press("Enter")
    expect(page.get_by_role("link", name="ada", exact=True)).to_be_visible()
    assert urlsplit(page.url).path == "/queue"
    page.get_by_role("link", name="ada", exact=True).press("Enter")
    expect(page.get_by_text("With The identity, as ada")).to_be_visible()
    found |= looked_at(page, shot, "the account that came of it")
    assert found == {}
    assert window.complaints == []
