"""The great paths of those who take part: they submit, follow, sign in, vote, flag, rule and keep
the site in order, most of it by keyboard. Each page on the way breaks no rule of accessibility."""

from __future__ import annotations

import re

import pytest
from django.core import mail as outgoing
from django.core.cache import cache
from playwright.sync_api import Page, expect

from leaderboard.models import ApiToken, Notices, Recall, Role, Run, Submission, Suite, User
from leaderboard.models.run import State
from leaderboard.queue import claims
from tests.browser.conftest import TINY, Open, evaluate_the_rest, signed_in
from tests.browser.journeys import report_a_key, report_a_model
from tests.browser.looks import PHONE, look_once
from tests.leaderboard import factories as make
from tests.shots import Shots

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_model_is_checked_submitted_and_followed_to_its_row_with_keys(
    visit: Open, site: Suite, shot: Shots
) -> None:
    page = visit().go("/submit")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Model on the Hub")).to_be_focused()
    page.keyboard.type("awkward/no-tokenizer")
    page.keyboard.press("Tab")
    expect(page.locator("#model-problem")).to_contain_text("no tokenizer files")
    expect(page.get_by_label("Model on the Hub")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#check-button")).to_be_focused()
    look_once(page, "the form with a problem")
    page.locator("#check-button").focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Control+A")
    page.keyboard.type(TINY)
    page.keyboard.press("Tab")
    expect(page.get_by_text("Ready to submit.")).to_be_visible()
    expect(page.locator("#model-problem")).to_be_empty()
    expect(page.get_by_label("Model on the Hub")).not_to_have_attribute("aria-invalid", "true")
    shot(page, "the form is checked")
    page.locator("#submit-button").press("Enter")
    expect(page).to_have_url(re.compile(r"/submissions/[0-9a-f-]{36}$"))
    assert not [url for url in requests if "csrf" in url]

    expect(page.locator("#live")).to_contain_text("waits")
    expect(page).to_have_title(re.compile(rf"^0 of 3 done: {TINY}"))
    submission = Submission.objects.get(variant__hub_model__repo_id=TINY)
    make.start(submission.runs.order_by("task__name")[0], 30, 160)
    expect(page.locator("#live")).to_contain_text("running", ignore_case=True)
    evaluate_the_rest(site)
    expect(page.locator("#live")).not_to_have_attribute("data-refreshed", "")
    expect(page).to_have_title(re.compile(rf"^Rank \d+: {TINY}"))
    look_once(page, "a submission that is done")
    shot(page, "it is done")
    page.get_by_role("link", name="Board", exact=True).first.press("Enter")
    expect(page.locator(".board .model a").filter(has_text="tiny-llama")).to_have_count(1)


def test_a_slow_hub_is_waited_for_by_the_page_with_and_without_script(
    visit: Open, site: Suite, slow_hub: None, shot: Shots
) -> None:
    page = visit(viewport=PHONE, color_scheme="dark").go("/submit")
    page.get_by_label("Model on the Hub").fill(TINY)
    page.keyboard.press("Tab")
    expect(page.get_by_text("It is being checked.")).to_be_visible()
    shot(page, "the check goes on")
    look_once(page, "the check goes on")
    expect(page.get_by_text("Ready to submit.")).to_be_visible()
    page.locator("#submit-button").click()
    expect(page.get_by_text("It is submitted as soon as the Hub has answered.")).to_be_visible()
    shot(page, "the submission goes on")
    expect(page).to_have_url(re.compile(r"/submissions/[0-9a-f-]{36}$"))
    assert Submission.objects.filter(variant__hub_model__repo_id=TINY).count() == 1

    page = visit(java_script_enabled=False).go(f"/submit?model={TINY}&dtype=float16")
    expect(page.get_by_text("It is being checked.")).to_be_visible()
    expect(page.get_by_text("Ready to submit.")).to_be_visible()
    page.locator("#submit-button").click()
    words = page.get_by_text("Press Submit again in a few seconds.")
    expect(words).to_be_visible()
    while words.is_visible():
        page.wait_for_timeout(300)
        page.locator("#submit-button").click()
    expect(page).to_have_url(re.compile(r"/submissions/[0-9a-f-]{36}$"))


def follow_the_newest_message(page: Page) -> None:
    address = re.search(r"http://\S+", str(outgoing.outbox[-1].body))
    assert address, outgoing.outbox[-1].body
    page.goto(address[0])


@pytest.mark.usefixtures("mail")
def test_an_account_is_made_its_password_forgotten_and_replaced_and_it_votes(
    visit: Open, shot: Shots
) -> None:
    cache.clear()
    window = visit(viewport=PHONE, color_scheme="dark")
    page = window.go("/accounts/new")
    page.get_by_label("User name").fill("ada")
    page.get_by_label("E-mail").fill("ada@example.org")
    page.get_by_label("Password").fill("a long pass phrase")
    page.get_by_label("Password").press("Enter")
    page.wait_for_url("**/accounts/confirm")
    shot(page, "look at your mail")
    follow_the_newest_message(page)
    look_once(page, "confirm the address")
    page.locator("main").get_by_role("button").press("Enter")
    page.wait_for_url("**/accounts/login")
    cache.clear()  # one address is written to once in three minutes
    page.get_by_role("link", name="Forgotten password").press("Enter")
    page.get_by_label("E-mail").fill("ada@example.org")
    page.get_by_label("E-mail").press("Enter")
    page.wait_for_url("**/accounts/password/sent")
    follow_the_newest_message(page)
    look_once(page, "choose another password")
    fields = page.locator("main input[type=password]")
    fields.nth(0).fill("another pass phrase")
    fields.nth(1).fill("another pass phrase")
    fields.nth(1).press("Enter")
    page.wait_for_url("**/accounts/password/changed")
    page.locator("main").get_by_role("link", name="Sign in").press("Enter")
    page.get_by_label("User name or e-mail").fill("ada")
    page.get_by_label("Password").fill("another pass phrase")
    page.get_by_label("Password").press("Enter")
    page.locator("summary[aria-label=Menu]").press("Enter")  # on a phone the account is in the menu
    expect(page.get_by_role("link", name="ada", exact=True)).to_be_visible()

    waits = Submission.objects.get(variant__hub_model__repo_id="lab/unlucky")
    page.goto(f"{window.url}{waits.get_absolute_url()}")
    page.get_by_role("button", name="Vote").press("Enter")
    expect(page.get_by_text("You have voted for it.")).to_be_visible()
    look_once(page, "a submission that was voted for")
    shot(page, "voted")
    assert [*waits.votes.values_list("voter", flat=True)] == [User.objects.get().pk]


def test_a_token_and_a_feed_are_made_and_ended_on_the_pages_of_an_account(
    visit: Open, shot: Shots
) -> None:
    page = signed_in(visit, "ada", Role.SUBMITTER)
    page.get_by_role("link", name="ada").press("Enter")
    page.get_by_role("link", name="API tokens").press("Enter")
    page.get_by_label("What it is for").fill("nightly job")
    page.get_by_label("Ends after").select_option("a year")
    page.get_by_role("button", name="Make a token").press("Enter")
    expect(page.locator("#token")).to_contain_text("plumb_")
    look_once(page, "a new token")
    shot(page, "a new token")
    page.get_by_role("button", name="Revoke nightly job").press("Enter")
    expect(page.get_by_role("button", name="Revoke nightly job")).to_have_count(0)
    assert not ApiToken.objects.exists()
    page.get_by_role("link", name="ada", exact=True).press("Enter")
    page.get_by_role("link", name="Feed and messages").press("Enter")
    page.get_by_role("button", name="Make a feed").press("Enter")
    expect(page.get_by_role("link", name="/feeds/")).to_be_visible()
    page.get_by_role("button", name="End the feed").press("Enter")
    expect(page.get_by_role("button", name="Make a feed")).to_be_visible()
    assert Notices.objects.get().feed is None


def test_the_queue_and_the_pool_move_by_themselves_in_the_readers_own_time(visit: Open) -> None:
    run = Run.objects.get(state="running")
    assert run.lease_token is not None
    window = visit(timezone_id="Asia/Kolkata")
    page = window.go("/pool")
    clock = page.locator("#live time").first
    before = clock.inner_text()
    expect(clock).not_to_have_text(before)
    expect(clock).to_have_text(re.compile(r"^\d\d:\d\d:\d\d UTC\+5:30$"))
    expect(clock).to_have_attribute("title", re.compile(r"^\d\d:\d\d:\d\d UTC$"))
    look_once(page, "the pool")

    page = window.go("/queue")
    look_once(page, "the queue")
    page.clock.install()
    page.reload()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.locator("#refresh").focus()
    claims.report(run.lease_token, run, phase="evaluate", done=90, total=160)
    page.clock.run_for(9_000)  # while somebody is in the part that changes, it waits
    assert [url for url in requests if url.endswith("/queue")] == []
    expect(page.get_by_text("30 of 160 requests")).to_be_visible()
    page.get_by_role("link", name="Board").focus()
    page.clock.run_for(9_000)
    expect(page.get_by_text("90 of 160 requests")).to_be_visible()

    page = visit().go(f"/runs/{run.pk}")
    expect(page.get_by_text("90 of 160 requests answered")).to_be_visible()
    claims.fail(run.lease_token, run, error_class="ModelError", message="token 9 has no vector")
    expect(page.get_by_text("token 9 has no vector").first).to_be_visible()


RUNS = "/admin/leaderboard/run/"
WITHDRAW = "Withdraw, and stop the runs that nobody else wants"


def give_order(page: Page, order: str, *runs: Run, reason: str = "") -> None:
    """An order for these runs, as an operator gives it with keys."""
    page.goto(page.url.split("/admin")[0] + RUNS)
    for run in runs:
        page.locator(f"input[name=_selected_action][value='{run.pk}']").press("Space")
    page.get_by_label("Action:").select_option(label=order)
    if reason:
        page.get_by_role("textbox", name="Reason:").fill(reason)
    page.get_by_role("button", name="Go", exact=True).press("Enter")


def test_each_order_of_an_operator_does_what_it_says(visit: Open, shot: Shots) -> None:
    page = signed_in(visit, "op", Role.OPERATOR)
    page.get_by_role("link", name="Administration").press("Enter")
    page.wait_for_url("**/admin/")
    site = page.url.removesuffix("/admin/")
    waits = Run.objects.get(state=State.QUEUED)
    done = Run.objects.filter(state=State.DONE)[0]
    give_order(page, "Move to the front of the queue", waits)
    expect(page.get_by_text("1 of 1 runs were moved.")).to_be_visible()
    waits.refresh_from_db()
    assert waits.priority == 100
    give_order(page, "Cancel (needs a reason)", waits)
    expect(page.get_by_text("Nothing is cancelled. Say why")).to_be_visible()
    give_order(page, "Cancel (needs a reason)", waits, done, reason="Its questions change.")
    expect(page.get_by_text("1 of 2 runs were cancelled. 1 could not be")).to_be_visible()
    assert Run.objects.get(pk=waits.pk).state == State.CANCELLED
    assert waits.events.last().why == "Its questions change."
    give_order(page, "Try failed or cancelled runs again", waits)
    expect(page.get_by_text("1 of 1 runs were queued again.")).to_be_visible()
    assert Run.objects.get(pk=waits.pk).state == State.QUEUED
    give_order(page, "Evaluate again (needs a reason)", done)
    expect(page.get_by_text("Nothing is queued.")).to_be_visible()
    give_order(page, "Evaluate again (needs a reason)", done, reason="A fault of the engine.")
    expect(page.get_by_text("1 of 1 runs were queued again.")).to_be_visible()
    shot(page, "ordered")
    page.goto(f"{site}/admin/leaderboard/submission/")
    page.locator("tr", has_text="lab/unlucky").locator("input[type=checkbox]").press("Space")
    page.get_by_label("Action:").select_option(label=WITHDRAW)
    page.get_by_role("button", name="Go", exact=True).press("Enter")
    expect(page.get_by_text("runs were stopped.")).to_be_visible()
    assert Run.objects.get(pk=waits.pk).state == State.CANCELLED

    page.goto(f"{site}/admin/leaderboard/recall/add/")
    page.get_by_label("Kind").select_option("runs")
    page.get_by_label("Names").fill(str(done.pk))
    page.get_by_label("Reason").fill("Its answers were cut off.")
    page.get_by_role("button", name="Save", exact=True).press("Enter")
    expect(page.get_by_text("Nothing was recalled. Concerned: 1 result of 1 model")).to_be_visible()
    page.get_by_label("Only look").press("Space")
    page.get_by_role("button", name="Save", exact=True).press("Enter")
    expect(page.get_by_text("are recalled")).to_be_visible()
    page.goto(f"{site}/corrections/recalls/{Recall.objects.get().pk}")
    expect(page.get_by_role("heading", name="Its answers were cut off")).to_be_visible()
    look_once(page, "a recall")
    shot(page, "recalled")


def test_a_report_leads_from_the_page_of_a_model_to_its_decision(visit: Open) -> None:
    report_a_model(visit, look_once)


def test_two_people_report_a_key_a_second_figure_appears_and_goes(visit: Open) -> None:
    report_a_key(visit, look_once)
