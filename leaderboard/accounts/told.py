"""What is kept of what a provider tells of somebody: the name, and for whom they may write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WRITE = ("admin", "write")
"""The roles in an organisation of the Hub that may change its models."""
MOST = 500
"""Organisations of one person; the Hub has nobody with so many."""
LONGEST = 100


def kept_of(told: Mapping[str, Any]) -> dict[str, Any]:
    """Of the answer of `userinfo`: who it is, and the organisations that let them write.

    Hugging Face names a person's organisations, but says what somebody may do in one only where
    they let it, on the page on which they allow the signing in; one with an open demand on its
    members (a second factor, single sign-on) counts once that is met.
    """
    kept: dict[str, Any] = {"name": told.get("preferred_username", "")}
    if names := _organisations(told.get("orgs")):
        kept["organisations"] = names
    return kept


def _organisations(told: Any) -> list[str]:
    found = [one for one in told[:MOST] if isinstance(one, dict)] if isinstance(told, list) else []
    names = {
        str(one.get("preferred_username") or "")
        for one in found
        if one.get("roleInOrg") in WRITE and not one.get("securityRestrictions")
    }
    return sorted(name for name in names if 0 < len(name) <= LONGEST)
