"""Flags and departures from the page of a model on, by keyboard, and readable in every look."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings as site_settings
from django.test import Client
from playwright.sync_api import Page

from leaderboard.models import Flag, Role, User, give
from tests.browser.conftest import Open
from tests.browser.test_access import PHONE, WIDE, in_every_look
from tests.shots import Shots

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LONG = "\u202eIts training text has the questions of this benchmark, word for word: " + "W" * 120
EVIDENCE = "See https://example.org/" + "a-long-address/" * 12 + "\n<script>alert(1)</script>"


def signed_in(visit: Open, name: str, role: Role) -> Page:
    user = User.objects.create_user(name)
    give(user, role)
    client = Client()
    client.force_login(user)
    window = visit(viewport=WIDE)
    cookie = client.cookies[site_settings.SESSION_COOKIE_NAME].value
    window.page.context.add_cookies(
        [{"name": site_settings.SESSION_COOKIE_NAME, "value": cookie, "url": window.url}]
    )
    return window.go("/models/lab/texts")


def looked_at(page: Page, shot: Shots, what: str) -> dict[str, Any]:
    """What is wrong with the page, of which pictures are kept in every look."""
    found: dict[str, Any] = in_every_look(page)
    for width, scheme in ((1280, "light"), (390, "light"), (1280, "dark")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        shot(page, f"{what} {width} {scheme}")
    page.set_viewport_size({"width": 794, "height": 1123})
    page.emulate_media(media="print", color_scheme="light")
    assert page.locator("h1").is_visible()
    page.emulate_media(media="screen")
    page.set_viewport_size(WIDE)
    return found


def test_a_flag_from_the_page_of_a_model_to_its_decision(visit: Open, shot: Shots) -> None:
    wrong = {}
    ada = signed_in(visit, "ada", Role.USER)
    ada.get_by_role("link", name="Flag its numbers").press("Enter")
    ada.get_by_role("button", name="Flag it").press("Enter")
    ada.get_by_text("Say in one sentence what is wrong").wait_for()
    wrong["form"] = looked_at(ada, shot, "form with problems")
    ada.get_by_label("What is wrong").fill(LONG)
    ada.get_by_label("What shows it").fill(EVIDENCE)
    ada.get_by_role("button", name="Flag it").press("Enter")
    ada.get_by_role("heading", name="Answers").wait_for()
    wrong["flag of who raised it"] = looked_at(ada, shot, "a flag, to who raised it")

    mo = signed_in(visit, "mo", Role.MODERATOR)
    mo.get_by_role("link", name="Flags", exact=True).press("Enter")
    mo.get_by_role("link", name="Its training text").press("Enter")
    mo.get_by_role("textbox", name="Answer").fill("Which edition of the text?")
    mo.get_by_role("button", name="Answer").press("Enter")
    mo.get_by_text("Which edition of the text?").wait_for()
    wrong["flag to a moderator"] = looked_at(mo, shot, "a flag, to a moderator")
    mo.get_by_label("Uphold it").press("Space")
    mo.get_by_label("In your words").fill("Trained on the questions")
    mo.get_by_role("button", name="Decide", exact=True).press("Enter")
    mo.get_by_text("upheld").first.wait_for()

    anybody = visit(viewport=WIDE)
    page = anybody.go(f"/flags/{Flag.objects.get().pk}")
    wrong["decided flag"] = looked_at(page, shot, "a decided flag")
    wrong["log"] = looked_at(anybody.go("/flags"), shot, "the log")
    wrong["model"] = looked_at(anybody.go("/models/lab/texts"), shot, "the marked model")
    assert page.get_by_text("Flagged: Trained on the questions").is_visible()
    wrong["empty log"] = looked_at(anybody.go("/flags?state=lifted"), shot, "the log without any")
    assert {name: looks for name, looks in wrong.items() if looks} == {}
    assert anybody.complaints == []


def test_a_model_leaves_the_ranking_and_comes_back(visit: Open, shot: Shots) -> None:
    wrong = {}
    anybody = visit(viewport=WIDE)
    wrong["empty log"] = looked_at(anybody.go("/departures"), shot, "departures, none")
    ada = signed_in(visit, "ada", Role.USER)
    ada.get_by_role("link", name="Is it yours?").press("Enter")
    ada.get_by_text("Only its author can do this").wait_for()
    wrong["who may not"] = looked_at(ada, shot, "departure, to who may not")

    mo = signed_in(visit, "mo", Role.MODERATOR)
    mo.get_by_role("link", name="Is it yours?").press("Enter")
    mo.get_by_role("button", name="Take it out").press("Enter")
    mo.get_by_text("Say why in one sentence").wait_for()
    wrong["form"] = looked_at(mo, shot, "departure, with a problem")
    mo.get_by_label("Why, in one sentence").fill(LONG)
    mo.get_by_role("button", name="Take it out").press("Enter")
    mo.get_by_text("Its author took it out of the ranking.").wait_for()
    wrong["model"] = looked_at(mo, shot, "a model that is out of the ranking")
    wrong["log"] = looked_at(anybody.go("/departures"), shot, "departures")
    mo.get_by_role("link", name="Is it yours?").press("Enter")
    mo.get_by_role("button", name="Bring it back").wait_for()
    wrong["way back"] = looked_at(mo, shot, "departure, the way back")
    mo.get_by_role("button", name="Bring it back").press("Enter")
    mo.wait_for_url("**/models/lab/texts")
    page = anybody.go("/departures")
    assert page.get_by_text("came back").is_visible()
    assert {name: looks for name, looks in wrong.items() if looks} == {}
    assert anybody.complaints == []


def test_the_log_and_a_flag_fit_a_phone(visit: Open) -> None:
    page = visit(viewport=PHONE).go("/flags")
    assert page.get_by_text("There are no such flags").is_visible()
