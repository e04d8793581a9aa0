"""Who asks too much of the site or of the Hub waits; everybody else does not notice.

Counts hold over all processes of the site; without Redis each counts for itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import caches
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from leaderboard import environment
from leaderboard.models import Run, Submission, Suite, User
from leaderboard.web import shared_cache, throttle
from tests import services
from tests.leaderboard import factories as make
from tests.leaderboard.conftest import TINY, Fail
from tests.leaderboard.site_process import python

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _anew(settings: Any, one_minute: None) -> None:
    settings.PLUMBLINE_CHECKS_PER_MINUTE = 3
    settings.PLUMBLINE_SIGN_INS_PER_MINUTE = 3


def from_(address: str) -> Client:
    return Client(REMOTE_ADDR=address)


def test_too_many_checks_have_to_wait_and_keep_what_was_typed(opened: Suite, hub: Fail) -> None:
    address = f"/submit?model={TINY}&revision=v1&dtype=float16"
    client = from_("192.0.2.1")
    for _ in range(3):
        assert client.get(address).status_code == 200
    hub([{"match": "*", "status": 500}])
    with CaptureQueriesContext(connection) as queries:
        refused = client.get(address)
    assert all(query["sql"].startswith("SELECT") for query in queries)
    html = refused.content.decode()
    assert refused.status_code == 429
    assert 1 <= int(refused["Retry-After"]) <= 60
    assert "Not now." in html
    assert "answered with an error" not in html, "the Hub is not asked"
    assert f'value="{TINY}"' in html
    assert 'value="v1"' in html
    assert '<option value="float16" selected' in html
    assert "Our fault" not in html
    hub([])
    assert from_("192.0.2.2").get(address).status_code == 200
    assert client.get("/submit").status_code == 200


def test_submitting_and_submitting_again_count_as_checks(opened: Suite) -> None:
    client = from_("192.0.2.1")
    typed = {"model": TINY, "revision": "main", "dtype": ""}
    client.post("/submit", typed)
    address = f"{Submission.objects.get().get_absolute_url()}/again"
    assert [client.post(address).status_code for _ in range(3)] == [409, 409, 429]
    assert "Check again in" in client.post(address).content.decode()
    refused = client.post("/submit", {**typed, "dtype": "float16"})
    assert refused.status_code == 429
    assert f'value="{TINY}"' in refused.content.decode()
    assert Submission.objects.count() == 1


def test_one_visitor_cannot_take_the_quota_of_all(opened: Suite, settings: Any) -> None:
    settings.PLUMBLINE_CHECKS_PER_MINUTE = 0
    settings.PLUMBLINE_VISITOR_QUOTA, settings.PLUMBLINE_OPEN_QUOTA = 2, 3
    typed = {"model": TINY, "revision": "main"}
    greedy, other = from_("2001:db8:1:2::1"), from_("192.0.2.9")
    assert greedy.post("/submit", {**typed, "dtype": ""}).status_code == 302
    neighbour = from_("2001:db8:1:2:ffff::9")
    assert neighbour.post("/submit", {**typed, "dtype": "float16"}).status_code == 302
    refused = greedy.post("/submit", {**typed, "dtype": "bfloat16"})
    assert refused.status_code == 429
    assert 86_000 < int(refused["Retry-After"]) <= 86_400
    html = refused.content.decode()
    assert "The limit for one visitor without an account is 2 submissions in 24 hours." in html
    assert '<option value="bfloat16" selected' in html
    assert other.post("/submit", {**typed, "dtype": "bfloat16"}).status_code == 302
    assert from_("192.0.2.8").post("/submit", {**typed, "revision": "v1"}).status_code == 429
    Submission.objects.update(created=timezone.now() - timedelta(days=2))
    assert greedy.post("/submit", {**typed, "revision": "v1"}).status_code == 302
    assert not any("2001" in found.visitor for found in Submission.objects.all())


def test_signing_in_too_often_has_to_wait_even_with_the_right_password(ada: User) -> None:
    ada.set_password("plumb and line")
    ada.save()
    client = from_("192.0.2.1")
    account = {"login": "ada", "password": "plumb and line"}
    for _ in range(3):
        assert client.post("/accounts/login", {**account, "password": "x"}).status_code == 200
    refused = client.post("/accounts/login", account)
    html = refused.content.decode()
    assert refused.status_code == 429
    assert 1 <= int(refused["Retry-After"]) <= 60
    assert re.search(r"Sign in again in \d+ s", html)
    assert 'value="ada"' in html
    assert "plumb and line" not in html
    assert "aria-invalid" not in html
    assert "_auth_user_id" not in client.session
    assert from_("192.0.2.2").post("/accounts/login", account).status_code == 302


def test_the_admin_has_no_form_of_its_own_to_sign_in_by(client: Client) -> None:
    response = client.get("/admin/", follow=True)
    assert response.redirect_chain[-1][0] == "/accounts/login?next=%2Fadmin%2F"
    assert client.post("/admin/login/", {"username": "a", "password": "b"}).status_code == 302


@pytest.fixture
def few_pages(settings: Any, suite: Suite) -> None:
    settings.PLUMBLINE_PAGES_PER_MINUTE = 3
    settings.PLUMBLINE_DOWNLOADS_PER_MINUTE = 2
    settings.DEBUG = False
    caches["local"].clear()


def statuses(client: Client, *addresses: str) -> list[int]:
    return [client.get(address).status_code for address in addresses]


@pytest.mark.usefixtures("few_pages")
def test_too_many_filtered_pages_have_to_wait_and_plain_ones_never() -> None:
    client = from_("192.0.2.1")
    filtered = [f"/corrections?x={number}" for number in range(4)]
    assert statuses(client, *filtered) == [302, 302, 302, 429]
    refused = client.get("/?q=word")
    assert refused.status_code == 429
    assert 1 <= int(refused["Retry-After"]) <= 60
    assert refused["Cache-Control"] == "no-store"
    text = " ".join(refused.text.split())
    assert "More than 3 single pages were asked for from your network" in text
    assert '<a class="btn" href="/?q=word">Try again</a>' in text, "what was asked for is kept"
    plain = ("/", "/queue", "/corrections", "/method", "/submit", "/healthz", "/robots.txt")
    assert statuses(client, *plain * 2) == [200] * 14
    assert from_("192.0.2.2").get("/?q=word").status_code == 200


@pytest.mark.usefixtures("few_pages")
def test_pages_of_runs_count_as_there_are_thousands(suite: Suite) -> None:
    for name in ("lab/one", "lab/two"):
        make.make_submission(make.make_variant(name), suite)
    addresses = [run.get_absolute_url() for run in Run.objects.all()[:4]]
    assert statuses(from_("192.0.2.1"), *addresses) == [200, 200, 200, 429]


@pytest.mark.usefixtures("few_pages")
def test_a_page_that_is_kept_is_not_counted(suite: Suite) -> None:
    make.make_variant("lab/one")
    make.publish(suite)
    client = from_("192.0.2.1")
    assert statuses(client, *["/?q=word"] * 20) == [200] * 20


@pytest.mark.usefixtures("few_pages")
def test_a_part_of_a_page_that_comes_too_often_takes_the_whole_page() -> None:
    client = from_("192.0.2.1")
    for number in range(3):
        client.get(f"/?q={number}")
    refused = client.get("/?q=word", headers={"HX-Request": "true"})
    assert (refused.status_code, refused["HX-Retarget"]) == (429, "main")


@pytest.mark.usefixtures("few_pages")
def test_pictures_of_filtered_boards_count_as_such_pages_and_kept_ones_do_not() -> None:
    client = from_("192.0.2.1")
    filtered = [f"/og/small.png?q={number}" for number in range(4)]
    assert statuses(client, *filtered) == [200, 200, 200, 429]
    assert statuses(client, "/og/small.png", *filtered[:3] * 2) == [200] * 7
    assert client.get("/?q=word").status_code == 429


@pytest.mark.usefixtures("few_pages")
def test_files_made_on_request_are_limited_in_every_form() -> None:
    client = from_("192.0.2.1")
    found = statuses(client, "/board.csv", "/styles.json", "/charts-by-size.parquet", "/board.csv")
    assert found[2:] == [429, 429]
    assert "More than 2 files were asked for from your network" in client.get("/board.json").text
    assert client.get("/charts-agreement.svg").status_code == 429
    assert client.get("/?q=word").status_code == 200, "pages are counted apart"


@pytest.mark.usefixtures("few_pages")
def test_an_account_is_counted_wherever_it_asks_from_and_its_neighbours_are_not(
    ada: User, bo: User
) -> None:
    here, there, neighbour = from_("192.0.2.1"), from_("192.0.2.7"), from_("192.0.2.1")
    here.force_login(ada)
    there.force_login(ada)
    neighbour.force_login(bo)
    assert statuses(here, "/?q=a", "/?q=a") == [200, 200]
    assert statuses(there, "/?q=a", "/?q=a") == [200, 429]
    assert "by your account" in here.get("/?q=a").text
    assert neighbour.get("/?q=a").status_code == 200
    assert from_("192.0.2.1").get("/?q=a").status_code == 200


@pytest.mark.usefixtures("few_pages")
def test_names_like_a_wrong_one_are_looked_for_so_often() -> None:
    make.make_variant("lab/one")
    client = from_("192.0.2.1")
    offered = ["lab/one</a>" in client.get("/models/lab/onn").text for _ in range(5)]
    assert offered == [True, True, True, False, False]


def test_an_id_that_the_hub_does_not_know_is_asked_for_once(opened: Suite, hub: Fail) -> None:
    address, client = "/submit?model=nobody/nothing", from_("192.0.2.1")
    assert "There is no model nobody/nothing" in client.get(address).text
    hub([{"match": "*", "status": 500}])
    again = from_("192.0.2.2").get(address).text
    assert "There is no model nobody/nothing" in again
    assert "answered with an error" in from_("192.0.2.3").get("/submit?model=no/other").text


def test_a_visitor_is_an_address_that_nobody_can_choose(settings: Any) -> None:
    for proxies, peer, passed_on, expected in (
        (0, "192.0.2.1", "198.51.100.7", "192.0.2.1"),
        (1, "10.0.0.1", "203.0.113.5, 198.51.100.7", "198.51.100.7"),
        (2, "10.0.0.1", "1.1.1.1, 203.0.113.5, 198.51.100.7", "203.0.113.5"),
        (2, "10.0.0.1", "198.51.100.7", "10.0.0.1"),
        (1, "10.0.0.1", "", "10.0.0.1"),
        (1, "10.0.0.1", "nonsense", "10.0.0.1"),
        (1, "10.0.0.1", "198.51.100.7:4321", "198.51.100.7"),
        (1, "10.0.0.1", "[2001:db8::7]:4321", "2001:db8::/64"),
        (0, "2001:db8:1:2:3:4:5:6", "", "2001:db8:1:2::/64"),
        (0, "::ffff:192.0.2.1", "", "192.0.2.1"),
        (0, "fe80::1%eth0", "", "fe80::/64"),
        (0, "", "", "unknown"),
    ):
        settings.PLUMBLINE_PROXIES = proxies
        headers = {"x-forwarded-for": passed_on} if passed_on else {}
        request = RequestFactory().get("/", headers=headers, REMOTE_ADDR=peer)
        assert throttle.visitor_of(request) == expected, (proxies, peer, passed_on)


# Counts of all processes


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


def test_processes_of_the_site_count_together(redis: str, tmp_path: Path) -> None:
    site = {"PLUMBLINE_DEBUG": "1", "PLUMBLINE_BROKER_URL": redis}
    told = [python(tmp_path, "-c", COUNT_ONE, **site).stdout.strip() for _ in range(2)]
    assert told == ["False", "True"]


def test_without_redis_each_process_counts_for_itself_and_the_log_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shared = cache(f"redis://:secret@127.0.0.1:{services.free_port()}/0", monkeypatch)
    assert shared.add("count", 0, 120)
    assert [shared.incr("count") for _ in range(3)] == [1, 2, 3]
    (record,) = caplog.records
    assert "PLUMBLINE_CACHE_URL" in record.getMessage()
    assert "secret" not in record.getMessage()


def test_counts_are_shared_at_an_address_of_their_own_or_that_of_the_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not isinstance(caches["throttle"], shared_cache.SharedCache), "here is no Redis"
    assert environment.redis("PLUMBLINE_CACHE_URL", "filesystem://") == ""
    broker = "redis://broker/0"
    assert environment.redis("PLUMBLINE_CACHE_URL", broker) == broker
    monkeypatch.setenv("PLUMBLINE_CACHE_URL", "rediss://cache/1")
    assert environment.redis("PLUMBLINE_CACHE_URL", broker) == "rediss://cache/1"
    monkeypatch.setenv("PLUMBLINE_CACHE_URL", "memcached://:nobodys@host")
    with pytest.raises(ImproperlyConfigured, match=r"PLUMBLINE_CACHE_URL: .*'memcached'") as told:
        environment.redis("PLUMBLINE_CACHE_URL", "")
    assert "nobodys" not in str(told.value)
