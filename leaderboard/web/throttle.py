"""How often one visitor, or one account, may ask for what costs us or the Hub.

A GET writes nothing to the database, so it is counted in a cache: in Redis for all processes of the
site together, or where there is none by each process for itself. What must hold across restarts,
submissions in a day, is counted in rows (`submissions`).
"""

from __future__ import annotations

import hashlib
import hmac
import math
import time
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from django.conf import settings
from django.core.cache import caches
from django.http import HttpRequest

MINUTE = 60


class TooOften(Exception):
    """Asked for more than one visitor may in a minute: 429, and the seconds to wait."""

    def __init__(self, message: str, seconds: int) -> None:
        super().__init__(message)
        self.message, self.seconds = message, seconds


def count_page(request: HttpRequest) -> None:
    """Count a page or picture that is one of many and is made for a reader. Raises TooOften."""
    _count("pages", settings.PLUMBLINE_PAGES_PER_MINUTE, "single pages", request)


def count_download(request: HttpRequest) -> None:
    """Count a file that is made while it is sent. Raises TooOften."""
    _count("downloads", settings.PLUMBLINE_DOWNLOADS_PER_MINUTE, "files", request)


def _count(name: str, most: int, what: str, request: HttpRequest) -> None:
    if seconds := wait(name, most, request):
        raise TooOften(
            f"More than {most} {what} were asked for {whose(request)} in a minute.", seconds
        )


def wait(name: str, most: int, request: HttpRequest) -> int:
    """Count one request of who asks; the seconds to wait where it is one too many, else 0.

    So many may be made in a minute, and the next counts anew; with `most` 0 any number.
    """
    if not most:
        return 0
    now = time.time()
    turn = int(now // MINUTE)
    key = f"{name}-{turn}-{_account(request) or visitor_digest(request)}"
    counts = caches["throttle"]
    counts.add(key, 0, 2 * MINUTE)
    try:
        asked = counts.incr(key)
    except ValueError:  # dropped in between, as one of very many
        return 0
    return 0 if asked <= most else math.ceil((turn + 1) * MINUTE - now) or 1


def whose(request: HttpRequest) -> str:
    """As in “30 models were checked from your network”: who is counted."""
    return "by your account" if _account(request) else "from your network"


def _account(request: HttpRequest) -> str:
    """Who signed in is counted by the account: neighbours of a network do not share it.

    Without a session's cookie nobody is looked for, so that answers for all stay so; whom a token
    speaks for is known already.
    """
    if request.META.get(BY_ACCOUNT):
        return f"account-{request.user.pk}"
    if settings.SESSION_COOKIE_NAME not in request.COOKIES or not request.user.is_authenticated:
        return ""
    return f"account-{request.user.pk}"


BY_ACCOUNT = "plumbline.by_account"
"""In a request's META, where no header can write: those have capitals."""


def count_by_account(request: HttpRequest) -> None:
    """From now on what this request asks for is counted by its user, who came without a cookie."""
    request.META[BY_ACCOUNT] = True


UNKNOWN = "unknown"
NETWORK_BITS = 64
"""One customer's part of an IPv6 address: the rest of it changes at will."""


def visitor_of(request: HttpRequest) -> str:
    """The address from which somebody comes: IPv4 whole, of IPv6 the network.

    Behind trusted proxies each of them adds the address that it was asked from, so the one that
    the first of them saw stands as far from the end as there are proxies. What stands before it
    anybody could have written.
    """
    peer = str(request.META.get("REMOTE_ADDR", ""))
    passed_on = [
        address.strip() for address in request.headers.get("X-Forwarded-For", "").split(",")
    ]
    proxies = settings.PLUMBLINE_PROXIES
    by_proxies = passed_on[-proxies] if 0 < proxies <= len(passed_on) else peer
    return _network(by_proxies) or _network(peer) or UNKNOWN


def visitor_digest(request: HttpRequest) -> str:
    """What stands for the visitor in the database, which does not tell the address."""
    key = settings.SECRET_KEY.encode()
    return hmac.new(key, f"visitor {visitor_of(request)}".encode(), hashlib.sha256).hexdigest()


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
