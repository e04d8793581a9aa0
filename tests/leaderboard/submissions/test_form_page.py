"""The form and the submission's page, against a Hub process that really answers."""

from __future__ import annotations

import html as html_module
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from leaderboard.models import Run, Submission, Suite, User
from tests.hub import Orders
from tests.leaderboard import factories as make
from tests.leaderboard.conftest import worker

Fail = Callable[[Orders], None]
TINY = "awkward/tiny-llama"


@pytest.fixture
def opened(hub: Fail, suite: Suite, settings: Any) -> Suite:
    """A site that takes submissions from anybody, with a worker that is alive."""
    settings.PLUMBLINE_OPEN_SUBMIT = True
    worker(16 * 10**9)
    return suite


@pytest.fixture
def closed(hub: Fail, suite: Suite, settings: Any) -> Suite:
    settings.PLUMBLINE_OPEN_SUBMIT = False
    worker(16 * 10**9)
    return suite


def get(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200, address
    return response.content.decode()


def problem_at(html: str, field: str) -> str:
    found = re.search(rf'id="{field}-problem"[^>]*>(.*?)</div>', html, re.S)
    assert found is not None
    return html_module.unescape(re.sub(r"<[^>]+>", " ", found[1])).strip()


def test_before_anything_is_typed_nothing_is_wrong(client: Client, opened: Suite) -> None:
    html = get(client, "/submit")
    assert "What is checked" in html
    assert "aria-invalid" not in html
    assert 'value="main"' in html


def test_a_model_that_can_be_evaluated_shows_its_facts(client: Client, opened: Suite) -> None:
    html = get(client, f"/submit?model={TINY}")
    assert "Ready to submit." in html
    for fact in ("LlamaForCausalLM", "Commit", "Parameters", "Memory", "Licence", "stored as"):
        assert fact in html


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ("model=not+a+model", "model"),
        ("model=awkward/no-such-model", "model"),
        (f"model={TINY}&revision=no-such-branch", "revision"),
        (f"model={TINY}&dtype=int3", "dtype"),
        ("model=awkward/no-tokenizer", "model"),
    ],
)
def test_each_problem_stands_at_its_field_and_what_was_typed_is_kept(
    client: Client, opened: Suite, typed: str, field: str
) -> None:
    html = get(client, f"/submit?{typed}")
    assert problem_at(html, field)
    for other in {"model", "revision", "dtype"} - {field}:
        assert problem_at(html, other) == ""
    assert re.search(rf'id="id_{field}"[^>]*aria-invalid="true"', html)
    assert re.search(rf'id="id_{field}"[^>]*aria-describedby="[^"]*{field}-problem', html)
    for pair in typed.split("&"):
        name, value = pair.split("=")
        if name != "dtype":
            kept = html_module.escape(value.replace("+", " "))
            assert re.search(rf'name="{name}"\s+value="{re.escape(kept)}"', html)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"status": 500}, "The Hub answered with an error (500)."),
        ({"status": 503}, "The Hub answered with an error (503)."),
        ({"status": 429, "retry_after": 55}, "The Hub takes no more requests from us for now"),
        ({"garbage": True}, "The Hub's answer could not be read"),
        ({"delay": 30}, "The Hub did not answer within 2 s."),
    ],
    ids=str,
)
@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}], ids=["check", "live check"])
def test_a_hub_in_trouble_is_described_at_the_model_and_stops_nobody(
    client: Client,
    opened: Suite,
    hub: Fail,
    fault: dict[str, object],
    said: str,
    headers: dict[str, str],
) -> None:
    hub([{"match": "/api/models/*", **fault}])
    response = client.get(f"/submit?model={TINY}", headers=headers)
    html = response.content.decode()
    assert said in problem_at(html, "model")
    assert "Not checked." in html
    assert ("did not answer" in html) == ("delay" in fault)
    assert "You can submit all the same" in html
    assert "aria-invalid" not in html


def test_only_the_live_check_answers_from_memory(client: Client, opened: Suite, hub: Fail) -> None:
    address = f"/submit?model={TINY}"
    get(client, address)
    hub([{"match": "*", "status": 500}])
    live = client.get(address, headers={"HX-Request": "true"}).content.decode()
    assert "Ready to submit." in live
    assert "Not checked." in get(client, address)
    refused = client.post("/submit", {"model": TINY, "revision": "main"})
    assert "Nothing was submitted" in problem_at(refused.content.decode(), "model")


def test_a_submission_leads_to_its_page_with_a_run_for_each_column(
    client: Client, opened: Suite
) -> None:
    response = client.post("/submit", {"model": TINY, "revision": "main", "dtype": ""})
    submission = Submission.objects.get()
    assert response.status_code == 302
    assert response["Location"] == f"/submissions/{submission.pk}"
    html = get(client, response["Location"])
    assert html.count("Queued") == submission.runs.count() == 2
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
    assert re.findall(r'id="(\w+)"[^>]*\sautofocus', html) == ["id_model"]
    assert not Run.objects.exists()


def test_checking_by_button_leads_to_an_address_without_secrets(
    client: Client, opened: Suite
) -> None:
    fields = {"model": TINY, "revision": "main", "dtype": "", "csrfmiddlewaretoken": "x"}
    response = client.post("/submit", {**fields, "do": "check"})
    assert response["Location"] == "/submit?model=awkward%2Ftiny-llama"
    assert not Submission.objects.exists()
    empty = client.post("/submit", {"model": "", "revision": "main", "do": "check"})
    assert "Give a model ID" in problem_at(get(client, empty["Location"]), "model")


@pytest.mark.parametrize(
    ("typed", "field", "said"),
    [
        ({"model": "a" * 501}, "model", "longer than any model ID"),
        ({"model": "a/b\0"}, "model", "a null character"),
        ({"model": "a/b\0", "do": "check"}, "model", "a null character"),
        ({"model": TINY, "revision": "v" * 201}, "revision", "longer than any branch"),
        ({"model": TINY, "revision": "v\0"}, "revision", "a null character"),
        ({"model": TINY, "dtype": "int3"}, "dtype", "“int3” is no precision that"),
    ],
)
def test_what_no_field_takes_is_refused_in_words_of_this_site_and_gets_the_focus(
    client: Client, opened: Suite, typed: dict[str, str], field: str, said: str
) -> None:
    response = client.post("/submit", typed)
    html = response.content.decode()
    assert response.status_code == 422
    assert said in problem_at(html, field)
    assert re.findall(r'id="(\w+)"[^>]*\sautofocus', html) == [f"id_{field}"]


def test_a_page_that_was_only_asked_for_takes_no_focus(client: Client, opened: Suite) -> None:
    html = get(client, "/submit?model=not+a+model")
    assert "autofocus" not in html
    assert "<title>Submit a model" in html


def test_an_empty_form_says_what_is_missing(client: Client, opened: Suite) -> None:
    response = client.post("/submit", {"model": "", "revision": "main"})
    assert response.status_code == 422
    assert "Give a model ID" in problem_at(response.content.decode(), "model")


def test_what_was_submitted_before_leads_to_the_earlier_submission(
    client: Client, opened: Suite
) -> None:
    client.post("/submit", {"model": TINY, "revision": "main", "dtype": ""})
    html = get(client, f"/submit?model={TINY}")
    posted = client.post("/submit", {"model": TINY, "revision": "main", "dtype": ""})
    assert posted.status_code == 409
    submission = Submission.objects.get()
    for said in (html, posted.content.decode()):
        assert "It is here already" in problem_at(said, "model")
        at_field = said[said.index('id="model-problem"') : said.index('id="id_revision"')]
        assert f'href="/submissions/{submission.pk}"' in at_field
        assert "aria-invalid" not in said
        assert "Not ready" not in said


def test_the_form_lists_what_will_be_run(client: Client, opened: Suite) -> None:
    html = get(client, "/submit")
    assert "What will be run" in html
    assert "counts for the average" in html
    assert html.count("Facts</th>") == 2


def primary(html: str) -> list[str]:
    found = re.findall(r'<button\s+class="btn primary"[^>]*>([^<]+)<', html)
    return [text.strip() for text in found]


@pytest.mark.parametrize("address", ["/submit?model=awkward/no-tokenizer", "/submit?model=a+b"])
def test_what_cannot_be_submitted_offers_another_check_and_lists_no_runs(
    client: Client, opened: Suite, address: str
) -> None:
    html = get(client, address)
    assert primary(html) == ["Check"]
    assert "What will be run" not in html
    for fine in ("/submit", f"/submit?model={TINY}"):
        assert primary(get(client, fine)) == ["Submit"]
        assert "What will be run" in get(client, fine)


def test_what_is_here_already_lists_no_runs(client: Client, opened: Suite) -> None:
    client.post("/submit", {"model": TINY, "revision": "main", "dtype": ""})
    assert "What will be run" not in get(client, f"/submit?model={TINY}")


def test_a_name_without_its_owner_gets_the_hubs_matches_to_choose_from(
    client: Client, opened: Suite
) -> None:
    html = get(client, "/submit?model=tiny-llama&dtype=float16")
    assert "“tiny-llama” is a name without its owner" in problem_at(html, "model")
    [(address, name)] = re.findall(r'<a class="mono" href="([^"]+)">([^<]+)</a>', html)
    assert name == TINY
    chosen = get(client, html_module.unescape(address))
    assert f'value="{TINY}"' in chosen
    assert '<option value="float16" selected' in chosen
    assert "Ready to submit." in chosen


@pytest.mark.parametrize("fault", [{"status": 500}, {"delay": 30}, {"garbage": True}], ids=str)
def test_a_search_that_fails_is_not_spoken_of(
    client: Client, opened: Suite, hub: Fail, fault: dict[str, object]
) -> None:
    hub([{"match": "GET /api/models", **fault}])
    html = get(client, "/submit?model=tiny-llama")
    assert "is a name without its owner" in problem_at(html, "model")
    assert "Copy the ID" in problem_at(html, "model")
    assert 'class="offers"' not in html


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


def test_an_account_submits_and_is_named(client: Client, closed: Suite, ada: User) -> None:
    client.force_login(ada)
    client.post("/submit", {"model": TINY, "revision": "main", "dtype": ""})
    submission = Submission.objects.get()
    assert submission.submitter == ada
    assert "by ada" in get(client, f"/submissions/{submission.pk}")


def test_hostile_input_comes_back_as_text(client: Client, opened: Suite) -> None:
    html = get(client, '/submit?model="><script>alert(1)</script>')
    assert "<script>alert" not in html


# The submission's page


@pytest.fixture
def submission(opened: Suite, client: Client) -> Submission:
    client.post("/submit", {"model": TINY, "revision": "main", "dtype": ""})
    return Submission.objects.get()


def test_a_failed_run_stands_with_class_reason_and_log(
    client: Client, submission: Submission
) -> None:
    run = submission.runs.first()
    assert run is not None
    make.fail(run, "ModelError", "weights hold NaN", "the last line")
    html = get(client, f"/submissions/{submission.pk}")
    for said in ("ModelError", "weights hold NaN", "the last line", "Remedy"):
        assert said in html


def test_repeating_runs_only_what_failed(client: Client, submission: Submission) -> None:
    first, second = submission.runs.order_by("task__name")
    make.fail(first, "ModelError", "weights hold NaN")
    make.finish(second)
    assert "Submit again" in get(client, f"/submissions/{submission.pk}")
    response = client.post(f"/submissions/{submission.pk}/again")
    repeated = Submission.objects.exclude(pk=submission.pk).get()
    assert response["Location"] == f"/submissions/{repeated.pk}"
    assert second in repeated.runs.all()
    assert first not in repeated.runs.all()


def test_repeating_what_still_runs_is_refused_with_the_reason(
    client: Client, submission: Submission
) -> None:
    response = client.post(f"/submissions/{submission.pk}/again")
    assert response.status_code == 409
    assert "submitted before" in response.content.decode()


def test_only_who_submitted_may_withdraw(
    client: Client, closed: Suite, ada: User, bo: User
) -> None:
    client.force_login(ada)
    client.post("/submit", {"model": TINY, "revision": "main", "dtype": ""})
    submission = Submission.objects.get()
    address = f"/submissions/{submission.pk}"
    client.force_login(bo)
    assert "Withdraw</button>" not in get(client, address)
    refused = client.post(f"{address}/withdraw")
    assert refused.status_code == 403
    assert "Not yours to do" in refused.content.decode()
    client.force_login(ada)
    assert "Withdraw</button>" in get(client, address)
    assert client.post(f"{address}/withdraw")["Location"] == address
    assert "Withdrawn." in get(client, address)
    assert set(submission.runs.values_list("state", flat=True)) == {"cancelled"}


def test_reading_an_action_does_nothing(client: Client, submission: Submission) -> None:
    for action in ("again", "withdraw"):
        assert client.get(f"/submissions/{submission.pk}/{action}").status_code == 405


def test_a_finished_submission_is_not_polled_and_leads_to_the_board(
    client: Client, submission: Submission
) -> None:
    for run in submission.runs.all():
        make.finish(run)
    assert "hx-trigger" in get(client, f"/submissions/{submission.pk}"), "its rank is awaited"
    submission.runs.update(finished=timezone.now() - timedelta(hours=1))
    html = get(client, f"/submissions/{submission.pk}")
    assert "All 2 runs done." in " ".join(html.split())
    assert "hx-trigger" not in html
    assert f'href="/?q={TINY}"' in html
