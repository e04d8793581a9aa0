"""Typed readers of environment variables: a wrong value is refused by name."""

from __future__ import annotations

import ipaddress
import math
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import django
from django.core.exceptions import ImproperlyConfigured


def start_django() -> None:
    """Read the site's settings, for a program of its own. Ends it with a sentence where one is
    missing or wrong."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "leaderboard.settings")
    try:
        django.setup()
    except ImproperlyConfigured as problem:
        sys.exit(f"plumbline: {problem}")


def text(name: str, default: str) -> str:
    """The variable's value, or `default` where it is unset or empty."""
    return os.environ.get(name) or default


def boolean(name: str, default: bool = False) -> bool:
    value = os.environ.get(name, "")
    if value.lower() in ("1", "true", "yes", "on"):
        return True
    if value.lower() in ("0", "false", "no", "off"):
        return False
    if value:
        raise ImproperlyConfigured(f"{name}={value!r}: expected 1 or 0")
    return default


def one_of(name: str, choices: Sequence[str]) -> str:
    """One of these words; the first where it is unset or empty."""
    value = os.environ.get(name) or choices[0]
    if value not in choices:
        raise ImproperlyConfigured(f"{name}={value!r}: expected one of {', '.join(choices)}")
    return value


def address(name: str, default: str) -> str:
    """An IP address, to listen on."""
    value = text(name, default)
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise ImproperlyConfigured(
            f"{name}={value!r}: expected an address of this machine, such as 127.0.0.1, "
            "or 0.0.0.0 or :: for all that it has"
        ) from None


def integer(name: str, default: int) -> int:
    value = os.environ.get(name)
    try:
        return int(value) if value else default
    except ValueError:
        raise ImproperlyConfigured(f"{name}={value!r}: expected a whole number") from None


def positive(name: str, default: float) -> float:
    value = os.environ.get(name)
    try:
        number = float(value) if value else default
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise ImproperlyConfigured(f"{name}={value!r}: expected a number above 0")
    return number


def arguments(name: str, known: Sequence[str]) -> str:
    """`name=value` by commas, of known names only."""
    stated = os.environ.get(name, "")
    for argument in filter(None, stated.split(",")):
        word, equals, value = argument.partition("=")
        if word not in known or not (equals and value):
            raise ImproperlyConfigured(
                f"{name}: {argument!r}: expected name=value, where the name is one of "
                f"{', '.join(known)}"
            )
    return stated


def commits(name: str) -> dict[str, frozenset[str]]:
    """By repository the commits in `owner/name@commit`, several of them by commas."""
    found: dict[str, set[str]] = {}
    for entry in filter(None, map(str.strip, os.environ.get(name, "").split(","))):
        repository, _, commit = entry.partition("@")
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository, re.ASCII) or not re.fullmatch(
            r"[0-9a-f]{40}", commit
        ):
            raise ImproperlyConfigured(
                f"{name}: {entry!r}: expected owner/name@commit, with the commit in full"
            )
        found.setdefault(repository, set()).add(commit)
    return {repository: frozenset(known) for repository, known in found.items()}


def secret(name: str, default: str | None, kept: Path | None = None) -> str:
    """The content of the file that `name`_FILE names, else the value of `name`, else the content
    of the file `kept` where there is one, else `default`.

    Raises ImproperlyConfigured for a file that cannot be read or is empty: a site would else start
    with another database, or a key that everybody knows.
    """
    if file := os.environ.get(f"{name}_FILE"):
        return _content(f"{name}_FILE", Path(file))
    if value := os.environ.get(name):
        return value
    if kept is not None and _may_be_there(kept):
        return _content(name, kept)
    if default is None:
        raise ImproperlyConfigured(
            f"{name} is not set: set it (or {name}_FILE) to a long random text, start "
            f"`python -m runners` once, which keeps one in {kept}, "
            "or set PLUMBLINE_DEBUG=1 on a machine of your own"
        )
    return default


def _may_be_there(file: Path) -> bool:
    try:
        return file.exists()
    except PermissionError:
        return True  # reading it says what stands in the way


def _content(name: str, file: Path) -> str:
    remedy = "write the secret into it, for the user that runs this to read, or unset the variable"
    try:
        content = file.read_text(encoding="utf-8").strip()
    except OSError as problem:
        raise ImproperlyConfigured(f"{name}={file}: {problem.strerror}: {remedy}") from None
    except UnicodeDecodeError:
        raise ImproperlyConfigured(f"{name}={file}: the file is no text: {remedy}") from None
    if not content:
        raise ImproperlyConfigured(f"{name}={file}: the file is empty: {remedy}")
    return content


def mail(name: str) -> dict[str, object]:
    """Django's settings of mail from `smtp://user:password@host:port` or `smtps://…`; {} if unset.

    By `smtp` the connection turns to TLS before anything is said (STARTTLS), by `smtps` it begins
    with it; `?plain=1` says neither, for a server on this machine.
    """
    stated = secret(name, "")
    if not stated:
        return {}
    url = urlsplit(stated)
    if url.scheme not in ("smtp", "smtps") or not url.hostname:
        raise ImproperlyConfigured(
            f"{name}: expected smtp://user:password@host:port or smtps://…, got {url.scheme!r}"
        )
    plain = dict(parse_qsl(url.query)).get("plain") == "1"
    return {
        "EMAIL_BACKEND": "django.core.mail.backends.smtp.EmailBackend",
        "EMAIL_HOST": url.hostname,
        "EMAIL_PORT": url.port or (465 if url.scheme == "smtps" else 587),
        "EMAIL_HOST_USER": unquote(url.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(url.password or ""),
        "EMAIL_USE_SSL": url.scheme == "smtps",
        "EMAIL_USE_TLS": url.scheme == "smtp" and not plain,
    }


def redis(name: str, broker: str) -> str:
    """The address of a Redis that all processes of the site share; the broker's where it is one.

    Empty where there is none.
    """
    stated = secret(name, "")
    if not stated:
        return broker if _of_redis(broker) else ""
    if not _of_redis(stated):
        scheme = urlsplit(stated).scheme
        raise ImproperlyConfigured(
            f"{name}: expected redis://:password@host:port/number or rediss://…, got {scheme!r}"
        )
    return stated


def _of_redis(url: str) -> bool:
    return urlsplit(url).scheme in ("redis", "rediss")


def counts(name: str, url: str, entries: int) -> dict[str, object]:
    """Django's settings of a cache: in the Redis at `url`, or in each process where it is empty."""
    if url:
        return {
            "BACKEND": "leaderboard.web.shared_cache.SharedCache",
            "LOCATION": url,
            "KEY_PREFIX": f"plumbline-{name}",
            "OPTIONS": {
                "serializer": "leaderboard.web.shared_cache.AsJson",
                # Nobody waits long for a number that only says how often somebody asked.
                "socket_connect_timeout": 1,
                "socket_timeout": 1,
            },
        }
    return {
        "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
        "LOCATION": name,
        "OPTIONS": {"MAX_ENTRIES": entries},
    }


VANISHED = {
    "connect_timeout": "10",
    "keepalives_idle": "20",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""How long libpq waits for a server that swallows what is sent to it, or is gone without a word:
35 seconds. The system would wait for two hours, in which no thread that asks hears a signal."""


def database(name: str, home: Path) -> dict[str, object]:
    """Django's database settings from a `postgresql://` or `sqlite:///` address.

    SQLite takes its write lock when a transaction begins (IMMEDIATE): with the default mode two
    transactions that read before they write fail at once instead of waiting for each other.
    """
    url = urlsplit(secret(name, f"sqlite:///{home / 'db.sqlite3'}"))
    if url.scheme == "sqlite":
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": unquote(url.path),
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            },
        }
    if url.scheme in ("postgres", "postgresql"):
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": unquote(url.path.lstrip("/")),
            "USER": unquote(url.username or ""),
            "PASSWORD": unquote(url.password or ""),
            "HOST": url.hostname or "",
            "PORT": str(url.port or ""),
            "CONN_MAX_AGE": 60,
            "CONN_HEALTH_CHECKS": True,
            "OPTIONS": {**VANISHED, **dict(parse_qsl(url.query))},
        }
    raise ImproperlyConfigured(
        f"{name}: expected postgresql://user:password@host:port/name or sqlite:///path, "
        f"got scheme {url.scheme!r}"
    )
