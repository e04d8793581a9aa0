"""A new secret key, and who was signed in under the one before."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from leaderboard.models import User


@pytest.mark.parametrize(("fallbacks", "signed_in"), [(["the key of before"], True), ([], False)])
def test_who_signed_in_under_the_key_of_before_stays_while_it_counts(
    client: Client, ada: User, settings: Any, fallbacks: list[str], signed_in: bool
) -> None:
    settings.SECRET_KEY = "the key of before"
    client.force_login(ada)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "a new key", fallbacks
    assert client.get("/about").wsgi_request.user.is_authenticated is signed_in
