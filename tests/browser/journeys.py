"""Paths of several people through corrections: a report, an author's wish, a key.

`look` examines each page on the way: once in `make test`, in every look in the group `looks`.
"""

from __future__ import annotations

from playwright.sync_api import expect

from leaderboard.corrections import second_figures
from leaderboard.models import Report, Role
from tests.browser.conftest import Open, signed_in
from tests.browser.looks import WIDE, Look

LONG = "\u202eThe book has another answer, word for word: " + "W" * 120
MARKUP = "<script>alert(1)</script>"
ADDRESS = "https://example.org/" + "a-long-address/" * 12
QUESTION = "/tasks/facts_hybrid/keys/question?doc=facts_hybrid:4"


def report_a_model(visit: Open, look: Look) -> None:
    """From the page of a model to a moderator's decision, which everybody reads."""
    ada = signed_in(visit, "ada", Role.USER)
    ada.get_by_role("link", name="Report its numbers").press("Enter")
    ada.get_by_role("button", name="Report it").press("Enter")
    ada.get_by_text("Say in one sentence what is wrong").wait_for()
    look(ada, "the form of a report with problems")
    ada.get_by_label("Contamination").press("Space")
    ada.get_by_label("What is wrong").fill(LONG)
    ada.get_by_label("What shows it").fill(f"See {ADDRESS}\n{MARKUP}")
    ada.get_by_role("button", name="Report it").press("Enter")
    ada.get_by_role("heading", name="Answers").wait_for()
    look(ada, "a report, to who made it")

    mo = signed_in(visit, "mo", Role.MODERATOR)
    mo.get_by_role("link", name="Corrections", exact=True).press("Enter")
    mo.get_by_role("row", name="The book has another answer").get_by_role("link").press("Enter")
    mo.get_by_role("textbox", name="Answer").fill("Which edition of the text?")
    mo.get_by_role("button", name="Answer").press("Enter")
    mo.get_by_text("Which edition of the text?").wait_for()
    look(mo, "a report, to a moderator")
    mo.get_by_label("Uphold it").press("Space")
    mo.get_by_label("In your words").fill("Trained on the questions")
    mo.get_by_role("button", name="Rule", exact=True).press("Enter")
    mo.get_by_text("upheld").first.wait_for()

    anybody = visit(viewport=WIDE)
    look(anybody.go(f"/corrections/reports/{Report.objects.get().pk}"), "an upheld report")
    look(anybody.go("/corrections"), "the log of corrections")
    page = anybody.go("/models/lab/texts")
    expect(page.get_by_text("Flagged: Trained on the questions")).to_be_visible()
    look(page, "a flagged model")
    page = anybody.go("/corrections?state=closed")
    expect(page.get_by_text("There is nothing of this kind")).to_be_visible()
    look(page, "the log with nothing of this kind")


def leave_the_ranking_and_come_back(visit: Open, look: Look) -> None:
    """A moderator takes a model out for its author, who brings it back."""
    anybody = visit(viewport=WIDE)
    look(anybody.go("/corrections?kind=wish"), "no author's wish")
    ada = signed_in(visit, "ada", Role.USER)
    ada.get_by_role("link", name="take it out of the ranking").press("Enter")
    ada.get_by_text("Only its author can do this").wait_for()
    look(ada, "the wish, to who may not")

    mo = signed_in(visit, "mo", Role.MODERATOR)
    mo.get_by_role("link", name="take it out of the ranking").press("Enter")
    mo.get_by_role("button", name="Take it out").press("Enter")
    mo.get_by_text("Say why in one sentence").wait_for()
    look(mo, "the wish, with a problem")
    mo.get_by_label("Why, in one sentence").fill(LONG)
    mo.get_by_role("button", name="Take it out").press("Enter")
    mo.get_by_text("Its author took it out of the ranking.").wait_for()
    look(mo, "a model that is out of the ranking")
    look(anybody.go("/corrections?kind=wish"), "an author's wish in the log")
    mo.get_by_role("link", name="take it out of the ranking").press("Enter")
    mo.get_by_role("button", name="Bring it back").wait_for()
    look(mo, "the wish, the way back")
    mo.get_by_role("button", name="Bring it back").press("Enter")
    mo.wait_for_url("**/models/lab/texts")
    expect(anybody.go("/corrections?kind=wish").get_by_text("came back")).to_be_visible()


def report_a_key(visit: Open, look: Look) -> None:
    """Two people report, a second figure appears; one withdraws, and it goes."""
    anybody = visit(viewport=WIDE)
    look(anybody.go("/corrections"), "an empty log")
    look(anybody.go("/tasks/facts_hybrid/keys"), "keys of which none is suspected")
    look(anybody.go(QUESTION), "a question, not signed in")

    ada = signed_in(visit, "ada", Role.USER)
    ada.goto(f"{anybody.url}/tasks/facts_hybrid")
    ada.get_by_role("link", name="Reports on its keys").press("Enter")
    ada.get_by_role("link", name="a run’s list of questions").press("Enter")
    ada.get_by_role("link", name="Report the key").press("Enter")
    ada.get_by_role("heading", name="Is the key of question").wait_for()
    ada.goto(anybody.url + QUESTION)
    ada.get_by_role("button", name="Report it").press("Enter")
    ada.get_by_text("Say why, so that others can check it").wait_for()
    look(ada, "the form of a report on a key with problems")
    ada.get_by_label("The key is wrong: another").press("Space")
    ada.get_by_label("Right answer, if the key is wrong").fill("W" * 150)
    ada.get_by_label("Why", exact=True).fill(LONG + MARKUP)
    ada.get_by_label("Source").fill(ADDRESS)
    ada.get_by_role("button", name="Report it").press("Enter")
    ada.get_by_role("button", name="Withdraw it").wait_for()
    second_figures.compute_due()
    assert "w/o" not in anybody.go("/?style=hybrid").content(), "one person disputes nothing"

    bo = signed_in(visit, "bo", Role.USER)
    bo.goto(anybody.url + QUESTION)
    bo.get_by_label("It is ambiguous").press("Space")
    bo.get_by_label("Why", exact=True).fill("Both tools hang there.")
    bo.get_by_role("button", name="Report it").press("Enter")
    bo.get_by_text("disputed", exact=True).first.wait_for()
    look(bo, "a disputed question, to who reported it")
    second_figures.compute_due()
    page = anybody.go("/?style=hybrid")
    page.get_by_text("1 disputed").first.wait_for()
    assert page.locator(".second").count() == 2, "one for each model with a number"
    look(page, "a board with second figures")
    for address in ("/tasks/facts_hybrid", "/tasks/facts_hybrid/keys"):
        look(anybody.go(address), f"{address} with a dispute")
    look(anybody.go("/?rows=compact&style=hybrid"), "a compact board with second figures")
    page = anybody.go("/corrections?kind=key")
    assert page.get_by_role("link", name="hybrid: question 5").count() == 2, "for each person"
    page.locator("summary", has_text="By benchmark").press("Enter")
    page.get_by_text("1 disputed, 2 reports count").wait_for()
    look(page, "reports on keys, benchmarks unfolded")
    page.get_by_role("link", name="hybrid: question 5").first.press("Enter")
    page.get_by_role("heading", name="Is the key of question").wait_for()
    page = anybody.go("/models/lab/texts")
    page.get_by_text("w/o 1").first.wait_for()
    look(page, "a model with a second figure")

    mo = signed_in(visit, "mo", Role.MODERATOR)
    mo.goto(anybody.url + QUESTION)
    mo.get_by_text("Strike it").first.press("Enter")
    look(mo, "a question, to a moderator")

    ada.goto(anybody.url + QUESTION)
    ada.get_by_role("button", name="Withdraw it").press("Enter")
    ada.get_by_text("withdrawn", exact=True).wait_for()
    assert anybody.go("/?style=hybrid").locator(".second").count() == 0
