"""Submitting by the form and by a program, against a Hub process that really answers.

What is wrong with a model is tested at the check; here, that the form shows it at its field. A
program does it as the form does, in the name of whose token it is, and no more.
"""

from __future__ import annotations

import html as html_module
import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

import leaderboard
from leaderboard.hub.problem import WORDS
from leaderboard.models import ApiToken, Role, Run, Submission, Suite, User, give
from leaderboard.submissions import precheck
from leaderboard.web import background
from leaderboard.web.background import Background
from tests.leaderboard import factories as make
from tests.leaderboard.conftest import TINY, Fail, OwnHub, get, text_of
from tests.leaderboard.submissions.test_precheck import WRONG

pytestmark = pytest.mark.django_db
GUIDE = Path(__file__).resolve().parents[3] / "docs" / "api.md"


def problem_at(html: str, field: str) -> str:
    found = re.search(rf'id="{field}-problem"[^>]*>(.*?)</div>', html, re.S)
    return html_module.unescape(re.sub(r"<[^>]+>", " ", found[1])).strip()


def primary(html: str) -> list[str]:
    found = re.findall(r'<button\s+class="btn first"[^>]*>([^<]+)<', html)
    return [text.strip() for text in found]


def verdict(html: str) -> str:
    """What the page says of the check as a whole."""
    found = re.search(r'class="answer[^>]*>(.*?)</(?:p|div)>', html, re.S)
    return text_of(found[1]) if found else ""


def offers(html: str) -> list[tuple[str, str]]:
    """Addresses and IDs of models that may have been meant."""
    return re.findall(r'<a class="chip" href="([^"]+)">([^<]+)</a>', html)


def focused(html: str) -> list[str]:
    return re.findall(r'id="(\w+)"[^>]*\sautofocus', html)


def test_the_form_lists_the_runs_and_then_the_facts_and_passed_steps_of_a_fine_model(
    client: Client, opened: Suite
) -> None:
    html = get(client, "/submit")
    assert "What is checked" in html
    assert "aria-invalid" not in html
    assert 'value="main"' in html
    assert "counts for the average" in html
    assert html.count("Facts</th>") == 2
    assert primary(html) == ["Submit: 2 runs"]
    html = get(client, f"/submit?model={TINY}")
    assert "Ready to submit." in html
    for fact in ("LlamaForCausalLM", "at commit", "parameters", "of memory", "stored as float32"):
        assert fact in html
    for title in ("Revision", "Weights", "Architecture", "Tokenizer", "Room on a worker"):
        assert f'<b>{title}<span class="sr">: passed</span></b>' in html
    assert ": failed" not in html
    assert re.search(r"Needs [\d.]+ .B of the [\d.]+ .B that the worker", html), "room"


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ('model="><script>alert(1)</script>', "model"),
        (f"model={TINY}&revision=no-such-branch", "revision"),
        (f"model={TINY}&dtype=int3", "dtype"),
    ],
)
def test_each_problem_stands_at_its_field_and_what_was_typed_is_kept(
    client: Client, opened: Suite, typed: str, field: str
) -> None:
    html = get(client, f"/submit?{typed}")
    assert problem_at(html, field)
    assert "<script>alert" not in html
    for other in {"model", "revision", "dtype"} - {field}:
        assert problem_at(html, other) == ""
    assert re.search(rf'id="id_{field}"[^>]*aria-invalid="true"', html)
    assert re.search(rf'id="id_{field}"[^>]*aria-describedby="[^"]*{field}-problem', html)
    for pair in typed.split("&"):
        name, value = pair.split("=")
        if name != "dtype":
            kept = html_module.escape(value.replace("+", " "))
            assert re.search(rf'name="{name}"\s+value="{re.escape(kept)}"', html)
    assert "one thing has to change" in verdict(html)
    assert "<title>Submit a model" in html
    assert "autofocus" not in html, "a page that was only asked for takes no focus"


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}], ids=["check", "live check"])
def test_a_hub_in_trouble_is_described_at_the_model_and_stops_nobody(
    client: Client,
    opened: Suite,
    hub: Fail,
    headers: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub([{"match": "/api/models/*", "status": 500}])
    html = client.get(f"/submit?model={TINY}", headers=headers).content.decode()
    assert "The Hub answered with an error (500)." in verdict(html)
    assert "did not answer" not in html
    assert "Not checked." in html
    assert "You can submit all the same" in html
    assert "aria-invalid" not in html
    hub([{"match": "/api/models/*", "delay": 30}])
    monkeypatch.setitem(precheck.check.__kwdefaults__, "seconds", precheck.SECONDS)
    html = get(client, f"/submit?model={TINY}&revision=v1")
    assert "The Hub did not answer within 2 s." in verdict(html)


def test_only_the_live_check_answers_from_memory(client: Client, opened: Suite, hub: Fail) -> None:
    address = f"/submit?model={TINY}"
    get(client, address)
    hub([{"match": "*", "status": 500}])
    live = client.get(address, headers={"HX-Request": "true"}).content.decode()
    assert "Ready to submit." in live
    assert "Not checked." in get(client, address)
    refused = client.post("/submit", {"model": TINY, "revision": "main"})
    assert "Nothing was submitted" in problem_at(refused.content.decode(), "model")


@pytest.fixture
def slow_hub(
    opened: Suite, hub: Fail, settings: Any, monkeypatch: pytest.MonkeyPatch, one_minute: None
) -> None:
    """The Hub takes a second for each answer; one visitor may check two models in a minute."""
    monkeypatch.setattr(background, "PATIENCE_SECONDS", 0.1)
    settings.PLUMBLINE_CHECKS_PER_MINUTE = 2
    hub([{"match": "*", "delay": 1}])


def until_told(ask: Callable[[], Any]) -> Any:
    """What is answered once the Hub has; each answer before comes without waiting for it."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        began = time.monotonic()
        answer = ask()
        if answer.status_code not in (202, 503):
            return answer
        assert time.monotonic() - began < 0.9
        time.sleep(0.2)
    raise AssertionError(answer.content.decode())


def test_no_request_waits_for_a_slow_hub_and_the_page_asks_until_it_has_answered(
    client: Client, slow_hub: None
) -> None:
    address = f"/submit?model={TINY}&dtype=float16"
    first = client.get(address)
    html = first.content.decode()
    assert first.status_code == 202
    assert "It is being checked." in html
    assert 'hx-get="/submit?model=awkward%2Ftiny-llama&amp;dtype=float16"' in html
    assert '<noscript><meta http-equiv="refresh" content="2"></noscript>' in html
    assert f'value="{TINY}"' in html
    assert problem_at(html, "model") == ""
    told = until_told(lambda: client.get(address)).content.decode()
    assert "Ready to submit." in told
    assert "http-equiv" not in told
    assert client.get(address).status_code == 202, "who asks afterwards has it looked at anew"


def test_a_submission_to_a_slow_hub_is_sent_again_until_it_is_there(
    client: Client, slow_hub: None
) -> None:
    typed = {"model": TINY, "revision": "main", "dtype": ""}
    first = client.post("/submit", typed)
    html = first.content.decode()
    assert first.status_code == 202
    assert "Not submitted yet." in html
    assert "Press Submit again in a few seconds." in html
    assert 'data-press-again="submit-button"' in html
    assert "http-equiv" not in html
    assert not Submission.objects.exists()
    made = until_told(lambda: client.post("/submit", typed))
    assert (made.status_code, Submission.objects.count()) == (302, 1)


def test_a_program_is_told_when_to_ask_again(slow_hub: None, ada: User) -> None:
    program = bearing(token_of(ada))
    first = sent(program, {"model": TINY})
    assert problem(first, 503)["code"] == "hub_pending"
    assert first["Retry-After"] == "1"
    assert until_told(lambda: sent(program, {"model": TINY})).status_code == 201


def test_where_too_many_models_are_looked_at_the_next_is_sent_away_at_once(
    client: Client, slow_hub: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Background("test", threads=1, most=1, keep_seconds=60)
    monkeypatch.setattr(precheck, "looks", full)
    assert client.get(f"/submit?model={TINY}").status_code == 202
    other = "/submit?model=awkward/sharded"
    refused = client.get(other)
    assert (refused.status_code, refused["Retry-After"]) == (503, "5")
    assert "Very many models are being checked at the moment." in refused.content.decode()
    assert 'value="awkward/sharded"' in refused.content.decode()
    monkeypatch.setattr(background, "PATIENCE_SECONDS", 60)
    assert client.get(f"/submit?model={TINY}").status_code == 200


def test_a_submission_leads_to_its_page_with_a_run_for_each_column(
    client: Client, opened: Suite
) -> None:
    response = client.post("/submit", {"model": TINY, "revision": "main", "dtype": ""})
    submission = Submission.objects.get()
    assert response.status_code == 302
    assert response["Location"] == f"/submissions/{submission.pk}"
    html = get(client, response["Location"])
    assert html.count("waits</a>") == submission.runs.count() == 2
    assert 'hx-trigger="every 2s"' in html


def test_a_refused_submission_keeps_what_was_typed_and_queues_nothing(
    client: Client, opened: Suite
) -> None:
    response = client.post("/submit", {"model": "awkward/no-tokenizer", "revision": "main"})
    html = response.content.decode()
    assert response.status_code == 422
    assert "tokenizer" in problem_at(html, "model")
    assert 'value="awkward/no-tokenizer"' in html
    assert "<title>Not submitted: " in html
    assert focused(html) == ["id_model"]
    assert not Run.objects.exists()


def test_checking_by_button_leads_to_an_address_without_secrets(
    client: Client, opened: Suite
) -> None:
    fields = {"model": TINY, "revision": "main", "dtype": "", "csrfmiddlewaretoken": "x"}
    response = client.post("/submit", {**fields, "do": "check"})
    assert response["Location"] == "/submit?model=awkward%2Ftiny-llama"
    assert not Submission.objects.exists()
    empty = client.post("/submit", {"model": "", "revision": "main", "do": "check"})
    assert "No model ID was given." in problem_at(get(client, empty["Location"]), "model")


@pytest.mark.parametrize(
    ("typed", "field", "words"),
    [
        ({"model": ""}, "model", "No model ID was given. Give it as"),
        ({"model": "a" * 501}, "model", "“Model ID” is longer than 500 characters"),
        ({"model": "a/b\0", "do": "check"}, "model", "a null character"),
        (
            {"model": TINY, "revision": "v" * 201},
            "revision",
            "“Revision” is longer than 200 characters",
        ),
        ({"model": TINY, "revision": "v\0"}, "revision", "a null character"),
        (
            {"model": TINY, "dtype": "int3"},
            "dtype",
            "“int3” is not a choice for the field “Precision”",
        ),
    ],
)
def test_what_no_field_takes_is_refused_in_words_of_this_site_and_gets_the_focus(
    client: Client, opened: Suite, typed: dict[str, str], field: str, words: str
) -> None:
    response = client.post("/submit", typed)
    html = response.content.decode()
    assert response.status_code == 422
    assert words in problem_at(html, field)
    assert focused(html) == [f"id_{field}"]


def test_what_was_submitted_before_leads_to_the_earlier_submission(
    client: Client, opened: Suite
) -> None:
    client.post("/submit", {"model": TINY, "revision": "main", "dtype": ""})
    checked = get(client, f"/submit?model={TINY}")
    posted = client.post("/submit", {"model": TINY, "revision": "main", "dtype": ""})
    assert posted.status_code == 409
    submission = Submission.objects.get()
    for html in (checked, posted.content.decode()):
        assert "It is here already" in verdict(html)
        assert f'href="/submissions/{submission.pk}">See that submission' in html
        assert "aria-invalid" not in html
        assert "Not ready" not in html


def test_a_name_without_its_owner_gets_the_hubs_matches_to_choose_from(
    client: Client, opened: Suite, hub: Fail
) -> None:
    html = get(client, "/submit?model=tiny-llama&dtype=float16")
    assert "“tiny-llama” is a name without its owner" in problem_at(html, "model")
    [(address, name)] = offers(html)
    assert name == TINY
    chosen = get(client, html_module.unescape(address))
    assert f'value="{TINY}"' in chosen
    assert '<option value="float16" selected' in chosen
    assert "Ready to submit." in chosen
    hub([{"match": "GET /api/models", "status": 500}])
    html = get(client, "/submit?model=sharded")
    assert "is a name without its owner" in problem_at(html, "model")
    assert 'class="offers"' not in html, "a search that fails is not spoken of"


def test_without_an_account_one_can_check_but_not_submit(client: Client, closed: Suite) -> None:
    html = get(client, f"/submit?model={TINY}")
    assert "Ready to submit." in html
    assert "Sign in to submit" in html
    assert 'id="submit-button"' not in html
    response = client.post("/submit", {"model": TINY, "revision": "main", "dtype": ""})
    assert response.status_code == 302
    assert not Submission.objects.exists()


def test_signing_in_leads_back_to_what_was_typed(client: Client, closed: Suite, ada: User) -> None:
    ada.set_password("plumb and line")
    ada.save()
    typed = {"model": TINY, "revision": "v1", "dtype": "float16"}
    html = get(client, "/submit")
    assert re.search(r'<button[^>]*name="do" value="sign-in"', html)
    for button in ({"do": "sign-in"}, {}):
        sign_in = client.post("/submit", {**typed, **button})["Location"]
        page = client.get(sign_in)
        back = page.context["next"]
        account = {"login": "ada", "password": "plumb and line", "next": back}
        returned = get(client, client.post("/accounts/login", account)["Location"])
        assert 'value="awkward/tiny-llama"' in returned
        assert 'value="v1"' in returned
        assert '<option value="float16" selected' in returned
        client.logout()


def test_repeating_runs_only_what_failed(client: Client, opened: Suite) -> None:
    client.post("/submit", {"model": TINY})
    submission = Submission.objects.get()
    address = submission.get_absolute_url()
    refused = client.post(f"{address}/again")
    assert refused.status_code == 409
    assert "submitted before" in refused.content.decode()
    failed, done = submission.runs.order_by("task__name")
    make.fail(failed, "ModelError", "weights hold NaN")
    make.finish(done)
    assert "Submit again" in get(client, address)
    response = client.post(f"{address}/again")
    repeated = Submission.objects.exclude(pk=submission.pk).get()
    assert response["Location"] == repeated.get_absolute_url()
    assert done in repeated.runs.all()
    assert failed not in repeated.runs.all()
    new = repeated.runs.exclude(pk=done.pk).get()
    assert (new.run_key, new.state) == (failed.run_key, "queued")
    assert failed in submission.runs.all(), "what happened is not rewritten"


@pytest.mark.parametrize(
    "typed",
    ["awkward/tiny-lama", "awkwrad/tiny-llama", "awkward/tinyllama"],
)
def test_a_name_that_is_misspelt_is_answered_by_the_one_that_was_meant(
    client: Client, opened: Suite, typed: str
) -> None:
    html = get(client, f"/submit?model={typed}")
    assert "Did you mean one of these?" in problem_at(html, "model")
    assert TINY in [name for _, name in offers(html)]


def test_models_of_the_hub_and_of_this_site_are_suggested_while_a_name_is_typed(
    client: Client, opened: Suite, hub: Fail
) -> None:
    make.make_variant("lab/tiny-llama-of-ours")
    html = get(client, "/submit/suggestions?model=tiny-l")
    assert [f'href="/submit?model={name}"' in html for name in (
        "lab%2Ftiny-llama-of-ours", "awkward%2Ftiny-llama"
    )] == [True, True]  # fmt: skip
    assert html.count("here already") == 1
    assert get(client, "/submit/suggestions?model=ti").strip() == "", "two letters are no name"
    hub([{"match": "GET /api/models", "status": 500}])
    html = get(client, "/submit/suggestions?model=tiny-ll")
    assert "lab/tiny-llama-of-ours" in html, "without the Hub, of this site alone"


def test_a_copy_of_a_model_that_is_here_is_told_before_its_runs_are_spent(
    client: Client, opened: Suite, own_hub: OwnHub, ada: User
) -> None:
    for name in ("lab/original", "lab/copy"):
        own_hub.write(name)
    client.post("/submit", {"model": "lab/original"})
    html = get(client, "/submit?model=lab/copy")
    assert "A copy of this model is here already." in verdict(html)
    assert 'href="/models/lab/original"' in html
    assert primary(html) == ["Submit the copy: 2 runs"]
    refused = client.post("/submit", {"model": "lab/copy"})
    assert refused.status_code == 409
    assert "Nothing was submitted." in verdict(refused.content.decode())
    assert Submission.objects.count() == 1
    assert client.post("/submit", {"model": "lab/copy", "do": "copy"}).status_code == 302
    told = sent(bearing(token_of(ada)), {"model": "lab/copy", "dtype": "float16"})
    assert told.status_code == 201, "a program is not stopped"


# By a program


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
    return told


def test_a_model_is_submitted_and_followed(closed: Suite, ada: User) -> None:
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


def test_a_token_submits_for_whom_the_form_would_and_opens_no_page(
    closed: Suite, ada: User
) -> None:
    give(ada, Role.USER)
    client = bearing(token_of(ada))
    assert problem(sent(client, {"model": TINY}), 403)["code"] == "role"
    assert not Submission.objects.exists()
    for page in ("/account", "/account/tokens", "/account/export.json", "/admin/"):
        assert client.get(page).status_code == 302, "to sign in"


def test_a_session_counts_for_nothing(closed: Suite, ada: User, settings: Any) -> None:
    settings.PLUMBLINE_OPEN_SUBMIT = True
    client = Client(enforce_csrf_checks=True)
    client.force_login(ada)
    answer = sent(client, {"model": TINY})
    assert problem(answer, 401)["field"] == "authorization"
    assert answer["WWW-Authenticate"] == "Bearer"
    assert not Submission.objects.exists()


def test_no_token_a_wrong_one_and_one_that_ended_let_nobody_in_and_are_told_so(
    closed: Suite, ada: User
) -> None:
    for header in ("", "Basic YWRhOng=", "Bearer plumb_nosuch", "Bearer \xff\xfe"):
        answer = sent(Client(), {"model": TINY}, headers={"Authorization": header})
        assert "page of your account" in problem(answer, 401)["remedy"] + answer.text
    ended, revoked, good = token_of(ada, days=-1), token_of(ada), token_of(ada)
    ApiToken.objects.filter(prefix=revoked[:12]).delete()
    assert "expired" in problem(sent(bearing(ended), {"model": TINY}), 401)["message"]
    assert "revoked" in problem(sent(bearing(revoked), {"model": TINY}), 401)["message"]
    User.objects.filter(pk=ada.pk).update(is_active=False)
    problem(sent(bearing(good), {"model": TINY}), 401)
    assert not Submission.objects.exists()


def test_who_tries_many_tokens_or_asks_too_often_for_a_state_has_to_wait(
    closed: Suite, settings: Any, one_minute: None
) -> None:
    settings.PLUMBLINE_SIGN_INS_PER_MINUTE, settings.PLUMBLINE_PAGES_PER_MINUTE = 2, 1
    for _ in range(2):
        problem(sent(bearing("plumb_guess"), {}), 401)
    made = make.make_submission(make.make_variant("lab/one"), closed)
    assert Client().get(f"/api/submissions/{made.pk}").status_code == 200
    refused = Client().get(f"/api/submissions/{made.pk}")
    for answer in (sent(bearing("plumb_guess"), {}), refused):
        problem(answer, 429)
        assert int(answer["Retry-After"]) > 0


@pytest.mark.parametrize(
    ("body", "status", "field", "code"),
    [
        ({"model": TINY, "revision": "v9"}, 422, "revision", "unknown_revision"),
        ({"model": TINY, "dtype": "int3"}, 422, "dtype", "invalid_choice"),
        ({"model": "a\0b"}, 422, "model", "null_characters_not_allowed"),
        ({"model": TINY, "dtyp": "float16"}, 400, "dtyp", "unknown_field"),
        ({"model": 5}, 400, "model", "no_text"),
        ('{"model": "\\ud800"}', 400, "model", "no_text"),
        ('{"model": "a/b", "model": "c/d"}', 400, "model", "given_twice"),
        ('{"\\ud800": "x"}', 400, "\\ud800", "unknown_field"),
        ("[1]", 400, "form", "no_object"),
        ("{", 400, "form", "no_json"),
        ("[" * 9000, 400, "form", "no_json"),
        (b"\xff\xfe", 400, "form", "no_json"),
        ('{"model": "' + "x" * 30_000 + '"}', 413, "form", "too_long"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_wrong_is_told_by_field_value_and_remedy(
    closed: Suite, ada: User, body: Any, status: int, field: str, code: str
) -> None:
    told = problem(sent(bearing(token_of(ada)), body), status)
    assert (told["field"], told["code"]) == (field, code)
    assert told["message"]
    if isinstance(body, dict) and isinstance(body.get(field), str) and status == 422:
        assert told["value"] == body[field]
    assert not Submission.objects.exists()


FAULTS = [
    *({"model": typed} for typed, *_ in WRONG if len(typed) < 300),
    {"model": f"{TINY}@v1", "revision": "v2"},
    {"model": TINY, "revision": "v" * 201},
    {"model": TINY, "dtype": "int3"},
    {"model": TINY, "packing": "3bit"},
    {"model": TINY, "asked": "song"},
    {"model": TINY, "engine": "abacus"},
    {"model": TINY, "asked": "chat"},
    {"model": TINY, "base": "awkward/sharded"},
    {"model": TINY, "packing": "4bit"},
    {"model": TINY, "engine": "vllm"},
    {"model": "awkward/huge"},
    {"model": "awkward/huge", "dtype": "float32"},
]


@pytest.mark.parametrize("typed", FAULTS, ids=lambda typed: " ".join(typed.values())[:50])
def test_form_and_program_say_the_same_of_every_fault(
    client: Client, opened: Suite, ada: User, typed: dict[str, str]
) -> None:
    page = client.post("/submit", typed)
    html = page.content.decode()
    answer = sent(bearing(token_of(ada)), typed)
    assert page.status_code == answer.status_code == 422
    problems = answer.json()["problems"]
    assert problems
    for told in problems:
        assert told["remedy"]
        assert " ".join(f"{told['message']} {told['remedy']}".split()) in " ".join(
            problem_at(html, told["field"]).split()
        )
    checked = answer.json().get("checks", [])
    failed = [step["message"] for step in checked if step["outcome"] == "failed"]
    assert failed == [told["message"] for told in problems if checked]
    assert not Submission.objects.exists()


def test_every_row_of_the_table_of_words_is_somebodys() -> None:
    sources = [path.read_text() for room in ("hub", "submissions")
               for path in (Path(leaderboard.__file__).parent / room).glob("*.py")
               if path.name != "problem.py"]  # fmt: skip
    text = "\n".join(sources)
    by_django = {"required", "null_characters_not_allowed", "invalid_choice"}
    unused = {
        fault for fault in WORDS
        if f'"{fault}"' not in text and f'"{fault.partition(".")[2] or fault}"' not in text
    }  # fmt: skip
    assert unused == by_django


def test_a_refusal_lists_the_steps_of_the_check_and_the_last_use_is_noted_once_a_minute(
    closed: Suite, ada: User
) -> None:
    client = bearing(token_of(ada))
    assert ApiToken.objects.get().last_used is None
    answer = sent(client, {"model": "awkward/no-tokenizer"})
    problem(answer, 422)
    outcomes = {step["title"]: step["outcome"] for step in answer.json()["checks"]}
    assert (outcomes["Revision"], outcomes["Tokenizer"]) == ("passed", "failed")
    used = ApiToken.objects.get().last_used
    assert used is not None
    answer = client.post("/api/submissions", {"model": TINY})
    assert "application/json" in problem(answer, 415)["remedy"]
    assert ApiToken.objects.get().last_used == used


def test_what_was_submitted_before_is_a_conflict_that_leads_there(closed: Suite, ada: User) -> None:
    client = bearing(token_of(ada))
    first = sent(client, {"model": TINY}).json()
    again = sent(client, {"model": TINY})
    assert problem(again, 409)["code"] == "submitted_before"
    assert again.json()["submission"] == first["state_url"]
    assert Submission.objects.count() == 1


def test_a_hub_in_trouble_is_not_the_senders_fault(closed: Suite, ada: User, hub: Fail) -> None:
    hub([{"match": "*", "status": 503}])
    assert (
        "Nothing was submitted"
        in problem(sent(bearing(token_of(ada)), {"model": TINY}), 503)["message"]
    )


def test_form_and_program_share_one_quota_and_one_limit(
    closed: Suite, ada: User, settings: Any, one_minute: None
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


def test_another_method_and_an_unknown_submission_are_told(client: Client, suite: Suite) -> None:
    unknown = "/api/submissions/00000000-0000-4000-8000-000000000000"
    assert problem(client.get(unknown), 404)["code"] == "unknown_submission"
    for answer, allowed in (
        (client.get("/api/submissions"), "POST"),
        (client.post(unknown), "GET"),
    ):
        assert problem(answer, 405)["code"] == "method"
        assert answer["Allow"] == allowed


@pytest.mark.django_db(transaction=True)
def test_the_lines_of_the_guide_work_as_they_stand(
    closed: Suite, ada: User, live_server: Any, tmp_path: Path
) -> None:
    lines = re.search(r"```bash\n(.*?)```", GUIDE.read_text(), re.S)
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
