"""The key court from a benchmark's page on: two people rule, a second figure comes, and it goes."""

from __future__ import annotations

import pytest

from leaderboard import disputed
from leaderboard.models import Role
from tests.browser.conftest import Open
from tests.browser.test_access import WIDE
from tests.browser.test_flags import looked_at, signed_in
from tests.shots import Shots

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LONG = (
    "\u202eThe book has another answer, word for word: " + "W" * 120 + "<script>alert(1)</script>"
)
SOURCE = "https://example.org/" + "a-long-address/" * 12
QUESTION = "/tasks/facts_hybrid/keys/question?doc=facts_hybrid:4"


def test_two_people_rule_a_figure_appears_one_withdraws_and_it_goes(
    visit: Open, shot: Shots
) -> None:
    wrong = {}
    anybody = visit(viewport=WIDE)
    wrong["empty court"] = looked_at(anybody.go("/court"), shot, "court, nobody ruled")
    wrong["empty keys"] = looked_at(
        anybody.go("/tasks/facts_hybrid/keys"), shot, "keys, none suspected"
    )
    wrong["to nobody"] = looked_at(anybody.go(QUESTION), shot, "a question, not signed in")

    ada = signed_in(visit, "ada", Role.USER)
    ada.goto(f"{anybody.url}/tasks/facts_hybrid")
    ada.get_by_role("link", name="Key court of this benchmark").press("Enter")
    ada.get_by_role("link", name="a run’s list of questions").press("Enter")
    ada.get_by_role("link", name="Rule on its key").press("Enter")
    ada.get_by_role("heading", name="Is the key of question").wait_for()
    ada.goto(anybody.url + QUESTION)
    ada.get_by_role("button", name="Rule", exact=True).press("Enter")
    ada.get_by_text("Say why, so that others can check it").wait_for()
    wrong["form"] = looked_at(ada, shot, "form with problems")
    ada.get_by_label("The key is wrong: another").press("Space")
    ada.get_by_label("Right answer, if the key is wrong").fill("W" * 150)
    ada.get_by_label("Why", exact=True).fill(LONG)
    ada.get_by_label("Source").fill(SOURCE)
    ada.get_by_role("button", name="Rule", exact=True).press("Enter")
    ada.get_by_role("button", name="Withdraw it").wait_for()
    disputed.compute_due()
    assert "w/o" not in anybody.go("/?style=hybrid").content(), "one person disputes nothing"

    bo = signed_in(visit, "bo", Role.USER)
    bo.goto(anybody.url + QUESTION)
    bo.get_by_label("It is ambiguous").press("Space")
    bo.get_by_label("Why", exact=True).fill("Both tools hang there.")
    bo.get_by_role("button", name="Rule", exact=True).press("Enter")
    bo.get_by_text("disputed", exact=True).first.wait_for()
    wrong["disputed question"] = looked_at(bo, shot, "a disputed question, to who ruled")
    disputed.compute_due()
    page = anybody.go("/?style=hybrid")
    page.get_by_text("1 disputed").first.wait_for()
    assert page.locator(".second").count() == 2, "one for each model with a number"
    wrong["board"] = looked_at(page, shot, "a board with second figures")
    for address, what in (
        ("/tasks/facts_hybrid", "task"), ("/tasks/facts_hybrid/keys", "keys"),
        ("/court", "court"), ("/models/lab/texts", "model"),
        ("/?rows=compact&style=hybrid", "compact"),
    ):  # fmt: skip
        wrong[what] = looked_at(anybody.go(address), shot, what)
    page = anybody.go("/court")
    assert page.get_by_role("link", name="hybrid: question 5").count() == 1, "once for both people"
    reason = page.get_by_text("Both tools hang there.")
    assert not reason.is_visible()
    page.locator("summary", has_text="2 rulings").press("Enter")
    reason.wait_for()
    wrong["unfolded court"] = looked_at(page, shot, "court, rulings unfolded")
    page.get_by_role("link", name="hybrid: question 5").press("Enter")
    page.get_by_role("heading", name="Is the key of question").wait_for()
    page = anybody.go("/models/lab/texts")
    page.get_by_text("w/o 1").first.wait_for()

    mo = signed_in(visit, "mo", Role.MODERATOR)
    mo.goto(anybody.url + QUESTION)
    mo.get_by_text("Strike it").first.press("Enter")
    wrong["to a moderator"] = looked_at(mo, shot, "a question, to a moderator")

    ada.goto(anybody.url + QUESTION)
    ada.get_by_role("button", name="Withdraw it").press("Enter")
    ada.get_by_text("withdrawn", exact=True).wait_for()
    assert anybody.go("/?style=hybrid").locator(".second").count() == 0
    assert {name: looks for name, looks in wrong.items() if looks} == {}
    assert anybody.complaints == []
