"""Submitting by a program: as the form does it, in the name of whose token it is, and no more."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from leaderboard.models import ApiToken, Role, Submission, Suite, User, give
from tests.hub import Orders
from tests.leaderboard import factories as make
from tests.leaderboard.conftest import worker

TINY = "awkward/tiny-llama"
GUIDE = Path(__file__).resolve().parents[3] / "docs" / "api.md"
Fail = Callable[[Orders], None]
pytestmark = pytest.mark.django_db


@pytest.fixture
def opened(hub: Fail, suite: Suite) -> Suite:
    worker(16 * 10**9)
    return suite


def token_of(user: User, days: int = 1) -> str:
    return ApiToken.make(user, "job", timezone.now() + timedelta(days=days))[1]


def bearing(token: str) -> Client:
    return Client(headers={"Authorization": f"Bearer {token}"}, enforce_csrf_checks=True)


def sent(client: Client, body: Any, **options: Any) -> Any:
    text = body if isinstance(body, str | bytes) else json.dumps(body)
    return client.post("/api/submissions", text, content_type="application/json", **options)


def problem(answer: Any, status: int) -> dict[str, str]:
    assert answer.status_code == status, answer.text
    assert answer["Content-Type"] == "application/json"
    assert answer["Cache-Control"] == "no-store"
    [told] = answer.json()["problems"]
    assert {"field", "code", "message", "remedy"} <= set(told)
    found: dict[str, str] = told
    return found


def test_a_model_is_submitted_and_followed(opened: Suite, ada: User) -> None:
    client = bearing(token_of(ada))
    answer = sent(client, {"model": TINY, "dtype": "float16"})
    assert answer.status_code == 201
    made = Submission.objects.get()
    assert (made.submitter, made.variant.dtype) == (ada, "float16")
    told = answer.json()
    assert told["id"] == str(made.pk)
    assert answer["Location"] == told["state_url"]
    assert told["url"] == f"http://testserver/submissions/{made.pk}"
    assert [run["state"] for run in told["runs"]] == ["queued", "queued"]
    assert not told["ended"]
    for run in made.runs.all():
        make.fail(run, "ModelError", "four tokens have no vector")
    later = client.get(told["state_url"]).json()
    assert later["ended"]
    assert {run["error"] for run in later["runs"]} == {"four tokens have no vector"}
    assert Client().get(told["state_url"]).json() == later, "as public as its page"


@pytest.mark.parametrize("role", [r for r in Role if r != Role.NOBODY])
def test_a_token_submits_for_whom_the_form_would_and_opens_no_page(
    opened: Suite, role: Role
) -> None:
    user = User.objects.create_user(f"a-{role}")
    give(user, role)
    client = bearing(token_of(user))
    answer = sent(client, {"model": TINY})
    if role == Role.USER:
        assert problem(answer, 403)["code"] == "role"
        assert not Submission.objects.exists()
    else:
        assert answer.status_code == 201
    for page in ("/account", "/account/tokens", "/account/export.json", "/admin/"):
        assert client.get(page).status_code == 302, "to sign in"


def test_a_session_counts_for_nothing(opened: Suite, ada: User, settings: Any) -> None:
    settings.PLUMBLINE_OPEN_SUBMIT = True
    client = Client(enforce_csrf_checks=True)
    client.force_login(ada)
    answer = sent(client, {"model": TINY})
    assert problem(answer, 401)["field"] == "authorization"
    assert answer["WWW-Authenticate"] == "Bearer"
    assert not Submission.objects.exists()


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic YWRhOng=",
        "Bearer plumb_nosuch",
        "Bearer \xff\xfe",
        "x" * 9000,
    ],
)
def test_no_token_or_a_wrong_one_is_told_so(opened: Suite, header: str) -> None:
    answer = sent(Client(), {"model": TINY}, headers={"Authorization": header})
    assert "page of your account" in problem(answer, 401)["remedy"] + answer.text


def test_ended_revoked_and_closed_tokens_let_nobody_in(opened: Suite, ada: User) -> None:
    ended, revoked, good = token_of(ada, days=-1), token_of(ada), token_of(ada)
    ApiToken.objects.filter(prefix=revoked[:12]).delete()
    assert "expired" in problem(sent(bearing(ended), {"model": TINY}), 401)["message"]
    assert "revoked" in problem(sent(bearing(revoked), {"model": TINY}), 401)["message"]
    User.objects.filter(pk=ada.pk).update(is_active=False)
    problem(sent(bearing(good), {"model": TINY}), 401)
    assert not Submission.objects.exists()


def test_who_tries_many_tokens_has_to_wait(opened: Suite, settings: Any, one_minute: None) -> None:
    settings.PLUMBLINE_SIGN_INS_PER_MINUTE = 2
    for _ in range(2):
        problem(sent(bearing("plumb_guess"), {}), 401)
    answer = sent(bearing("plumb_guess"), {})
    problem(answer, 429)
    assert int(answer["Retry-After"]) > 0


def test_the_last_use_is_noted_once_a_minute(opened: Suite, ada: User) -> None:
    client = bearing(token_of(ada))
    assert ApiToken.objects.get().last_used is None
    sent(client, {})
    first = ApiToken.objects.get().last_used
    assert first is not None
    sent(client, {})
    assert ApiToken.objects.get().last_used == first


@pytest.mark.parametrize(
    ("body", "status", "field", "code"),
    [
        ({}, 422, "model", "required"),
        ({"model": "no id"}, 422, "model", "malformed_id"),
        ({"model": "awkward/nothing-here"}, 422, "model", "unknown_model"),
        ({"model": TINY, "revision": "v9"}, 422, "revision", "unknown_revision"),
        ({"model": TINY, "dtype": "int3"}, 422, "dtype", "invalid_choice"),
        ({"model": TINY, "asked": "chat"}, 422, "asked", "no_template"),
        ({"model": "x" * 501}, 422, "model", "max_length"),
        ({"model": "a\0b"}, 422, "model", "null_characters_not_allowed"),
        ({"model": TINY, "dtyp": "float16"}, 400, "dtyp", "unknown_field"),
        ({"model": TINY, "csrfmiddlewaretoken": "x"}, 400, "csrfmiddlewaretoken", "unknown_field"),
        ({"model": 5}, 400, "model", "no_text"),
        ({"model": None}, 400, "model", "no_text"),
        ({"model": {"model": "x"}}, 400, "model", "no_text"),
        ('{"model": "\\ud800"}', 400, "model", "no_text"),
        ('{"model": "a/b", "model": "c/d"}', 400, "model", "given_twice"),
        ('{"\\ud800": "x"}', 400, "\\ud800", "unknown_field"),
        ("[1]", 400, "form", "no_object"),
        ("7", 400, "form", "no_object"),
        (" ", 400, "form", "no_json"),
        ("{", 400, "form", "no_json"),
        ("[" * 9000, 400, "form", "no_json"),
        (b"\xff\xfe", 400, "form", "no_json"),
        ('{"model": "' + "x" * 30_000 + '"}', 413, "form", "too_long"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_wrong_is_told_by_field_value_and_remedy(
    opened: Suite, ada: User, body: Any, status: int, field: str, code: str
) -> None:
    told = problem(sent(bearing(token_of(ada)), body), status)
    assert (told["field"], told["code"]) == (field, code)
    assert told["message"]
    if isinstance(body, dict) and isinstance(body.get(field), str) and status == 422:
        assert told["value"] == body[field]
    assert not Submission.objects.exists()


def test_a_form_instead_of_json_is_told_what_to_send(opened: Suite, ada: User) -> None:
    answer = bearing(token_of(ada)).post("/api/submissions", {"model": TINY})
    assert "application/json" in problem(answer, 415)["remedy"]


def test_a_refusal_lists_the_steps_of_the_check(opened: Suite, ada: User) -> None:
    answer = sent(bearing(token_of(ada)), {"model": "awkward/no-tokenizer"})
    problem(answer, 422)
    outcomes = {step["title"]: step["outcome"] for step in answer.json()["checks"]}
    assert (outcomes["Revision"], outcomes["Tokenizer"]) == ("passed", "failed")


def test_what_was_submitted_before_is_a_conflict_that_leads_there(opened: Suite, ada: User) -> None:
    client = bearing(token_of(ada))
    first = sent(client, {"model": TINY}).json()
    again = sent(client, {"model": TINY})
    assert problem(again, 409)["code"] == "submitted_before"
    assert again.json()["submission"] == first["state_url"]
    assert Submission.objects.count() == 1


def test_a_hub_in_trouble_is_not_the_senders_fault(opened: Suite, ada: User, hub: Fail) -> None:
    hub([{"match": "*", "status": 503}])
    assert (
        "Nothing was submitted"
        in problem(sent(bearing(token_of(ada)), {"model": TINY}), 503)["message"]
    )


def test_form_and_program_share_one_quota_and_one_limit(
    opened: Suite, ada: User, settings: Any, one_minute: None
) -> None:
    settings.PLUMBLINE_USER_QUOTA = 1
    page = Client()
    page.force_login(ada)
    assert page.post("/submit", {"model": TINY}).status_code == 302
    answer = sent(bearing(token_of(ada)), {"model": TINY, "dtype": "float16"})
    assert problem(answer, 429)["code"] == "quota"
    assert int(answer["Retry-After"]) > 0
    settings.PLUMBLINE_CHECKS_PER_MINUTE = 1
    page.get(f"/submit?model={TINY}")
    answer = sent(bearing(token_of(ada)), {"model": TINY, "dtype": "bfloat16"})
    assert problem(answer, 429)["code"] == "throttled"
    assert "by your account" in answer.json()["problems"][0]["message"]


@pytest.mark.parametrize("method", ["get", "put", "patch", "delete"])
def test_another_method_is_told_which_one(client: Client, suite: Suite, method: str) -> None:
    answer = getattr(client, method)("/api/submissions")
    assert problem(answer, 405)["code"] == "method"
    assert answer["Allow"] == "POST"


def test_an_unknown_submission_is_told_so(client: Client, suite: Suite) -> None:
    answer = client.get("/api/submissions/00000000-0000-4000-8000-000000000000")
    assert problem(answer, 404)["code"] == "unknown_submission"


def test_who_asks_too_often_for_a_state_has_to_wait(
    client: Client, suite: Suite, settings: Any, one_minute: None
) -> None:
    settings.PLUMBLINE_PAGES_PER_MINUTE = 1
    made = make.make_submission(make.make_variant("lab/one"), suite)
    assert client.get(f"/api/submissions/{made.pk}").status_code == 200
    answer = client.get(f"/api/submissions/{made.pk}")
    problem(answer, 429)
    assert int(answer["Retry-After"]) > 0


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@pytest.fixture
def token(ada: User) -> str:
    return token_of(ada)


@hypothesis(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(body=json_values.map(json.dumps) | st.text() | st.binary(max_size=200))
def test_no_body_breaks_it(suite: Suite, token: str, body: str | bytes) -> None:
    text = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    answer = sent(bearing(token), text)
    assert answer.status_code in (400, 413, 415, 422)
    assert answer.json()["problems"]


@pytest.mark.django_db(transaction=True)
def test_the_lines_of_the_guide_work_as_they_stand(
    opened: Suite, ada: User, live_server: Any, tmp_path: Path
) -> None:
    lines = re.search(r"```bash\n(.*?)```", GUIDE.read_text(), re.S)
    assert lines is not None
    commands = lines[1].replace("https://SITE", live_server.url).replace("owner/name", TINY)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        env={**os.environ, "TOKEN": token_of(ada)},
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.strip().splitlines()
    assert json.loads(first) == json.loads(second)
    assert json.loads(first)["id"] == str(Submission.objects.get().pk)
