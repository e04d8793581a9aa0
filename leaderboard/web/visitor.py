"""Who asks, as far as it is counted: the network address, without an account."""

from __future__ import annotations

import hashlib
import hmac
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from django.conf import settings
from django.http import HttpRequest

UNKNOWN = "unknown"
NETWORK_BITS = 64
"""One customer's part of an IPv6 address: the rest of it changes at will."""


def of(request: HttpRequest) -> str:
    """The address from which somebody comes: IPv4 whole, of IPv6 the network.

    Behind trusted proxies each of them adds the address that it was asked from, so the one that
    the first of them saw stands as far from the end as there are proxies. What stands before it
    anybody could have written.
    """
    peer = str(request.META.get("REMOTE_ADDR", ""))
    passed_on = [one.strip() for one in request.headers.get("X-Forwarded-For", "").split(",")]
    proxies = settings.PLUMBLINE_PROXIES
    by_proxies = passed_on[-proxies] if 0 < proxies <= len(passed_on) else peer
    return _network(by_proxies) or _network(peer) or UNKNOWN


def digest_of(visitor: str) -> str:
    """What stands for an address in the database, which does not tell it."""
    key = settings.SECRET_KEY.encode()
    return hmac.new(key, f"visitor {visitor}".encode(), hashlib.sha256).hexdigest()


def _network(text: str) -> str:
    """Empty where it is no address. Some proxies write a port behind it."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address: IPv4Address | IPv6Address = ip_address(text.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    if isinstance(address, IPv4Address):
        return str(address)
    return str(IPv6Network((address, NETWORK_BITS), strict=False))
