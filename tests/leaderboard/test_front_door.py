"""What stands before every page: variables, hosts, health checks, cookies, headers, addresses."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from leaderboard import environment
from leaderboard.models import Suite, User
from tests.leaderboard.boards import publish, synthetic_board
from tests.leaderboard.factories import fail, make_submission, make_suite, make_variant
from tests.leaderboard.pages import client_of

ROOT = Path(__file__).resolve().parents[2]


def settings_with(**variables: str) -> dict[str, Any]:
    """The settings of a process that starts with these variables."""
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith("PLUMBLINE_") or name == "HF_TOKEN":
                patch.delenv(name)
        for name, value in {"PLUMBLINE_DEBUG": "1", **variables}.items():
            patch.setenv(name, value)
        return runpy.run_path(str(ROOT / "leaderboard" / "settings.py"))


def test_arguments_are_of_known_names_and_say_something(monkeypatch: pytest.MonkeyPatch) -> None:
    name, known = "PLUMBLINE_VLLM_ARGS", ("tensor_parallel_size", "enforce_eager")
    for stated in ("", "enforce_eager=True", "tensor_parallel_size=2,enforce_eager=1"):
        monkeypatch.setenv(name, stated)
        assert environment.arguments(name, known) == stated
    for wrong in ("kv_cache_dtype=fp8", "enforce_eager", "enforce_eager=", "=1"):
        monkeypatch.setenv(name, f"tensor_parallel_size=2,{wrong}")
        with pytest.raises(ImproperlyConfigured, match=f"{name}: .*expected name=value") as refusal:
            environment.arguments(name, known)
        assert repr(wrong) in str(refusal.value)


def test_a_word_that_is_not_among_the_choices_is_refused_with_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert environment.one_of("PLUMBLINE_LOG", ("plain", "json")) == "plain"
    monkeypatch.setenv("PLUMBLINE_LOG", "yaml")
    with pytest.raises(ImproperlyConfigured, match=r"PLUMBLINE_LOG='yaml': .* plain, json"):
        environment.one_of("PLUMBLINE_LOG", ("plain", "json"))


def test_an_address_to_listen_on_is_an_address_of_a_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert environment.address("PLUMBLINE_BIND", "127.0.0.1") == "127.0.0.1"
    for stated in ("0.0.0.0", "::"):
        monkeypatch.setenv("PLUMBLINE_BIND", stated)
        assert environment.address("PLUMBLINE_BIND", "127.0.0.1") == stated
    for wrong in ("0.0.0.0:8000", "example.org", "256.1.1.1", "[::1]"):
        monkeypatch.setenv("PLUMBLINE_BIND", wrong)
        with pytest.raises(ImproperlyConfigured, match="expected an address"):
            environment.address("PLUMBLINE_BIND", "127.0.0.1")


@pytest.mark.parametrize("part", [[], ["site"]], ids=["all parts", "the site alone"])
def test_what_cannot_be_listened_on_is_refused_at_the_start_in_one_sentence(
    part: list[str],
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runners", *part],
        cwd=ROOT, env={**os.environ, "PLUMBLINE_BIND": "example.org"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("plumbline: PLUMBLINE_BIND='example.org': expected an address")
    assert done.stderr.count("\n") == 1


TRUSTED = "PLUMBLINE_TRUSTED_CODE"
REPOSITORIES = st.from_regex(r"[a-zA-Z0-9_.-]{1,9}/[a-zA-Z0-9_.-]{1,9}", fullmatch=True)
COMMITS = st.text("0123456789abcdef", min_size=40, max_size=40)


def trusted_code(value: str) -> dict[str, frozenset[str]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TRUSTED, value)
        return environment.commits(TRUSTED)


@given(pins=st.lists(st.tuples(REPOSITORIES, COMMITS), max_size=5))
def test_every_repository_has_the_commits_that_stand_beside_it(
    pins: list[tuple[str, str]],
) -> None:
    listed = trusted_code(" ,\n".join(f"{name}@{commit}" for name, commit in pins))
    assert {(name, commit) for name, known in listed.items() for commit in known} == {*pins}
    assert trusted_code(" , ") == {}


@pytest.mark.parametrize(
    "wrong",
    [
        "owner/name", f"owner@{'a' * 40}", f"owner/name@{'a' * 39}", f"owner/name@{'A' * 40}",
        f"*/*@{'a' * 40}", f"owner/name@{'a' * 40} other/name@{'b' * 40}",
    ],
)  # fmt: skip
def test_what_is_no_pin_is_refused_by_name(wrong: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=f"{TRUSTED}: .*expected owner/name@commit"):
        trusted_code(wrong)


def test_a_database_server_that_vanished_is_waited_for_a_minute_at_most_unless_the_url_says_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PLUMBLINE_DATABASE_URL", "postgresql://u@h/n?connect_timeout=3")
    options = environment.database("PLUMBLINE_DATABASE_URL", tmp_path)["OPTIONS"]
    assert options["connect_timeout"] == "3"
    seconds = {name: int(options[f"keepalives_{name}"]) for name in ("idle", "interval", "count")}
    assert seconds["idle"] + seconds["interval"] * seconds["count"] <= 60
    assert int(options["tcp_user_timeout"]) <= 60_000


SECRETS = ("PLUMBLINE_SECRET_KEY", "PLUMBLINE_DATABASE_URL", "PLUMBLINE_BROKER_URL", "HF_TOKEN")


def test_every_secret_may_stand_in_a_file_which_goes_before_the_variable(tmp_path: Path) -> None:
    contents = ("of-a-file", "postgresql://u:in-a-file@h/n", "redis://:in-a-file@h/0", "hf_filed")
    variables = {}
    for name, content in zip(SECRETS, contents, strict=True):
        (tmp_path / name).write_text(f"{content}\n")
        variables |= {f"{name}_FILE": str(tmp_path / name), name: "postgresql://u:other@h/n"}
    found = settings_with(**variables)
    assert found["SECRET_KEY"] == "of-a-file"
    assert found["DATABASES"]["default"]["PASSWORD"] == "in-a-file"
    assert (found["PLUMBLINE_BROKER_URL"], found["HF_TOKEN"]) == contents[2:]


def test_a_file_without_a_secret_is_refused_by_name_path_and_remedy(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    for content, fault in ((None, "No such file"), (b" \n", "is empty"), (b"\xff", "no text")):
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(ImproperlyConfigured, match=fault) as refusal:
            settings_with(PLUMBLINE_SECRET_KEY_FILE=str(file))
        assert f"PLUMBLINE_SECRET_KEY_FILE={file}: " in str(refusal.value)
        assert "write the secret into it" in str(refusal.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_a_kept_key_that_another_user_keeps_is_refused_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "secret_key").write_text("of another user")
    tmp_path.chmod(0o000)
    try:
        with pytest.raises(ImproperlyConfigured, match=f"{tmp_path}/secret_key: Permission denied"):
            environment.secret("PLUMBLINE_NO_SUCH_KEY", None, kept=tmp_path / "secret_key")
    finally:
        tmp_path.chmod(0o700)


pytestmark = pytest.mark.django_db


@pytest.fixture
def client(settings: Any) -> Client:
    """As in production, where an error is a page."""
    settings.DEBUG = False
    return Client(raise_request_exception=False)


def test_a_host_that_is_not_ours_is_a_bad_request(client: Client) -> None:
    for host in ("evil.example", "10.2.3.4:8000", "a b", "[::2]"):
        for path in ("/", "/nowhere", "/admin/"):
            response = client.get(path, headers={"host": host})
            assert response.status_code == 400, (host, path)
            assert b"Our fault" not in response.content
        assert client.post("/submit", headers={"host": host}).status_code == 400
        assert client.get("/static/none.css", headers={"host": host}).status_code in (400, 404)


@pytest.mark.parametrize("https", [False, True])
def test_a_health_check_is_answered_by_any_address(
    client: Client, settings: Any, https: bool
) -> None:
    settings.SECURE_SSL_REDIRECT = https
    for host in ("testserver", "10.2.3.4:8000"):
        response = client.get("/healthz", headers={"host": host})
        assert (response.status_code, response.content) == (200, b"ok\n")
        readiness = client.get("/readyz", headers={"host": host})
        assert (readiness.status_code, readiness.json()["ready"]) == (503, False)
    assert client.get("/").status_code == (301 if https else 200)


@pytest.mark.parametrize("value", ['"a\\000b"', "a\0b"], ids=["escaped", "raw"])
def test_a_cookie_with_a_null_character_is_a_bad_request(client: Client, value: str) -> None:
    for name in ("sessionid", "theme"):
        for path in ("/", "/admin/"):
            assert client.get(path, headers={"cookie": f"{name}={value}"}).status_code == 400


def test_an_address_with_a_null_character_is_a_bad_request(client: Client) -> None:
    for address in ("/?suite=%00", "/?q=a%00b", "/models/a%00b/c"):
        assert client.get(address).status_code == 400, address
    for address in ("/?q=%2500", "/?q=100%25"):
        assert client.get(address).status_code == 200, "an escaped percent sign is none"


def test_every_answer_forbids_what_no_page_needs(client: Client) -> None:
    for path in ("/", "/nowhere", "/healthz"):
        policy = client.get(path)["Permissions-Policy"]
        assert {"camera=()", "microphone=()", "geolocation=()"} <= set(policy.split(", "))


def test_what_browsers_remember_for_a_year_is_chosen_by_itself() -> None:
    year = 31_536_000
    https = {"PLUMBLINE_HTTPS": "1"}
    for variables, expected in (
        ({}, (0, False, False)),
        (https, (year, False, False)),
        ({**https, "PLUMBLINE_HSTS_SECONDS": "0"}, (0, False, False)),
        ({**https, "PLUMBLINE_HSTS_SUBDOMAINS": "1"}, (year, True, False)),
        ({**https, "PLUMBLINE_HSTS_PRELOAD": "1"}, (year, False, True)),
    ):
        found = settings_with(**variables)
        names = ("SECONDS", "INCLUDE_SUBDOMAINS", "PRELOAD")
        assert tuple(found[f"SECURE_HSTS_{name}"] for name in names) == expected, variables


def test_a_gigabyte_of_what_workers_keep_is_a_thousand_million_bytes() -> None:
    found = settings_with(PLUMBLINE_CACHE_GB="3", PLUMBLINE_JOURNAL_GB="2")
    kept = found["PLUMBLINE_CACHE_BYTES"], found["PLUMBLINE_JOURNAL_BYTES"]
    assert kept == (3_000_000_000, 2_000_000_000)


@pytest.mark.parametrize(("fallbacks", "signed_in"), [(["the key of before"], True), ([], False)])
def test_who_signed_in_under_the_key_of_before_stays_while_it_counts(
    client: Client, ada: User, settings: Any, fallbacks: list[str], signed_in: bool
) -> None:
    settings.SECRET_KEY = "the key of before"
    client.force_login(ada)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "a new key", fallbacks
    assert client.get("/about").wsgi_request.user.is_authenticated is signed_in


# Addresses of thousands of characters: no page repeats what it is asked without a bound.

FIELDS = {
    "/": "q type arch licence cols size pin m at page suite sort",
    "/styles": "suite benchmark page cols q sort",
    "/compare": "models suite at task",
    "/queue": "q fault",
    "/submit": "model revision dtype",
    "/changelog": "page",
    "/models/a/b": "suite",
    "/nowhere": "page",
}
ROOM = 250_000
"""Bytes by which the page with the most links may grow with seven thousand characters of query."""


@pytest.fixture
def board(settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "synthetic"
    suite = make_suite("synthetic")
    publish(synthetic_board(60, 12), suite)
    return suite


def test_a_long_address_makes_no_longer_page(client: Client, board: Suite) -> None:
    for path, names in FIELDS.items():
        fields = names.split()
        bare = len(client.get(path).content)
        each = [f"{name}={'z' * 7000}" for name in fields]
        together = "&".join(f"{name}={quote('é' * (1100 // len(fields)))}" for name in fields)
        listed = "&".join(f"{fields[0]}=a,{number}" for number in range(500))
        for query in (*each, together, listed):
            response = client.get(f"{path}?{query}", follow=True)
            assert response.status_code in (200, 400, 404)
            room = ROOM if path == "/" else 30_000
            assert len(response.content) < bare + room, (path, query[:20])
    response = client.get(f"/models/{'z' * 7000}")
    assert response.status_code == 404
    assert len(response.content) < 30_000


def test_what_a_signed_in_reader_gets_is_for_no_cache_of_others(
    client: Client, board: Suite, settings: Any
) -> None:
    settings.PLUMBLINE_OPEN_SUBMIT = True
    pages = ("/", "/queue", "/submit", "/charts", "/suites", "/accounts/login", "/no/such/page")
    for address in pages:
        answer = client.get(address)
        if "Cache-Control" not in answer:
            assert "Cookie" not in answer.get("Vary", ""), address
    ada = User.objects.create_user("ada")
    client.force_login(ada)
    for address in (*pages, "/account", "/board.csv"):
        answer = client.get(address)
        cached = answer.get("Cache-Control", "")
        varies = "Cookie" in answer.get("Vary", "")
        assert not varies or "private" in cached or "no-store" in cached, (address, cached)
        assert "public" not in cached or not varies
    assert client.get("/queue")["Cache-Control"] == "private, no-cache"


def test_characters_that_move_or_hide_text_are_marked_on_every_page(
    client: Client, board: Suite
) -> None:
    odd = "\x1b[31m red \u202e desrever \u2066 \x9b1m end"
    submission = make_submission(make_variant("lab/odd"), board)
    run = fail(submission.runs.all()[0], "ModelError", odd, odd)
    signed_in = client_of(User.objects.create_user("bo"))
    for address in (f"/runs/{run.pk}", submission.get_absolute_url(), "/queue"):
        for reader in (client, signed_in):
            html = reader.get(address, headers={"Accept-Encoding": ""}).content.decode()
            assert not UNSEEN.search(html), address
            assert "[U+001B][31m red [U+202E] desrever [U+2066] [U+009B]1m end" in html, address


UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
