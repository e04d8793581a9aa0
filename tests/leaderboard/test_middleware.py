"""Addresses that no database should be asked about."""

from __future__ import annotations

import pytest
from django.test import Client

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "address",
    ["/?suite=%00", "/?suite=demo@%00", "/?q=a%00b", "/models/a%00b/c", "/styles?suite=%00"],
)
def test_an_address_with_a_null_character_is_a_bad_request(client: Client, address: str) -> None:
    assert client.get(address).status_code == 400


@pytest.mark.parametrize("address", ["/?q=%2500", "/?q=100%25"])
def test_an_escaped_percent_sign_is_none(client: Client, address: str) -> None:
    assert client.get(address).status_code == 200
