"""Counts that hold over all processes of the site, and what becomes of them without Redis."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import caches
from django.core.exceptions import ImproperlyConfigured

from leaderboard import environment
from leaderboard.web import shared_cache
from tests import services

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with services.redis(tmp_path_factory.mktemp("redis")) as url:
        yield url


def cache(url: str, monkeypatch: pytest.MonkeyPatch) -> shared_cache.SharedCache:
    monkeypatch.setattr(shared_cache.SharedCache, "_away_until", 0.0)
    options = environment.counts("throttle", url, 100)
    options.pop("BACKEND")
    return shared_cache.SharedCache(options.pop("LOCATION"), options)


COUNT_ONE = """
import django
django.setup()
from django.test import RequestFactory
from types import SimpleNamespace
from leaderboard.web import throttle
throttle.time = SimpleNamespace(time=lambda: 1_800_000_020.0)  # the same minute for all
print(throttle.wait("pages", 1, RequestFactory().get("/", REMOTE_ADDR="192.0.2.1")) > 0)
"""


@pytest.mark.parametrize("variable", ["PLUMBLINE_CACHE_URL", "PLUMBLINE_BROKER_URL"])
def test_processes_of_the_site_count_together(redis: str, variable: str, tmp_path: Path) -> None:
    """By the cache's own address, and by that of a broker that is a Redis."""
    environ = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "leaderboard.settings",
        "PLUMBLINE_HOME": str(tmp_path),
        "PLUMBLINE_DEBUG": "1",
        "PLUMBLINE_SECRET_KEY": f"of the test of {variable}",
        variable: redis,
    }
    told = [
        subprocess.run(
            [sys.executable, "-c", COUNT_ONE],
            cwd=ROOT, env=environ, check=True, capture_output=True, text=True,
        ).stdout.strip()
        for _ in range(3)
    ]  # fmt: skip
    assert told == ["False", "True", "True"]


def test_what_is_kept_comes_back_as_it_was(redis: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = cache(redis, monkeypatch)
    for value in ([1.5, 2.25], {"a": "ü\u202e"}, True, 7, None):
        shared.set("key", value, 10)
        assert shared.get("key", "nothing") == value
    assert shared.add("key", 1, 10) is False
    assert shared.delete("key")
    assert shared.get("key", "nothing") == "nothing"
    shared.set("count", 1, 10)
    assert shared.incr("count") == 2
    with pytest.raises(ValueError, match="not found"):
        shared.incr("nowhere")


def test_without_redis_each_process_counts_for_itself_and_the_log_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shared = cache(f"redis://:secret@127.0.0.1:{services.free_port()}/0", monkeypatch)
    assert shared.add("count", 0, 120)
    assert [shared.incr("count") for _ in range(3)] == [1, 2, 3]
    (record,) = caplog.records
    assert "PLUMBLINE_CACHE_URL" in record.getMessage()
    assert "secret" not in record.getMessage()


def test_a_redis_that_comes_back_is_counted_in_again(
    redis: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = cache(redis, monkeypatch)
    monkeypatch.setattr(shared_cache.SharedCache, "_away_until", float("inf"))
    shared.set("here", 1, 10)
    monkeypatch.setattr(shared_cache.SharedCache, "_away_until", 0.0)
    assert shared.get("here") is None


def test_without_an_address_nothing_is_shared() -> None:
    assert not isinstance(caches["throttle"], shared_cache.SharedCache)
    assert environment.redis("PLUMBLINE_CACHE_URL", "filesystem://") == ""


def test_an_address_that_is_no_redis_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_CACHE_URL", "memcached://:nobodys@host")
    with pytest.raises(ImproperlyConfigured, match=r"PLUMBLINE_CACHE_URL: .*'memcached'") as told:
        environment.redis("PLUMBLINE_CACHE_URL", "")
    assert "nobodys" not in str(told.value)


def test_its_own_address_goes_before_that_of_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    broker: Any = "redis://broker/0"
    assert environment.redis("PLUMBLINE_CACHE_URL", broker) == broker
    monkeypatch.setenv("PLUMBLINE_CACHE_URL", "rediss://cache/1")
    assert environment.redis("PLUMBLINE_CACHE_URL", broker) == "rediss://cache/1"
