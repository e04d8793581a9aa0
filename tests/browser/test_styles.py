"""The styles page as people use it: by keys alone, without JavaScript, on a phone, in the dark."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from leaderboard.models import Suite, Variant
from tests.browser.conftest import Open
from tests.browser.rules import WCAG_AA, broken_unfolded
from tests.leaderboard import factories as make

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

SKILL = {"cloze": 0.7, "mmlu": 0.4, "hybrid": 0.6}
PHONE = {"viewport": {"width": 390, "height": 844}}


@pytest.fixture
def two_benchmarks(site: Suite, settings: Any) -> Suite:
    """A suite beside the site's own with a flagged model and one that is half measured."""
    suite = make.make_suite("styles", benchmarks=("history", "riddles", "physics"))
    settings.PLUMBLINE_SUITE = "styles"
    make.evaluated("lab/steady-7b", suite, SKILL, n=12)
    make.evaluated("lab/letters-7b", suite, {**SKILL, "cloze": 0.2, "mmlu": 0.9}, n=12)
    make.evaluated("lab/copied-7b", suite, SKILL, n=12)
    submission = make.make_submission(make.make_variant("lab/begun-7b"), suite)
    make.finish(submission.runs.get(task__name="history"), n=12)
    flagged = Variant.objects.get(hub_model__repo_id="lab/copied-7b").hub_model
    flagged.flag_reason = "Trained on the questions"
    flagged.save()
    make.publish(suite)
    return suite


def addresses() -> list[str]:
    steady = Variant.objects.get(hub_model__repo_id="lab/steady-7b").pk
    return ["/styles", f"/styles?cols=all&model={steady}", "/styles?q=nobody", "/styles?q=@size"]


def test_from_a_question_about_styles_to_the_answers_with_keys_alone(
    visit: Open, two_benchmarks: Suite
) -> None:
    page = visit().go("/styles")
    page.get_by_label("To", exact=True).focus()
    page.keyboard.type("Hybrid")
    page.get_by_label("Ordered by").focus()
    page.keyboard.type("Riddles")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/styles\?benchmark=riddles&b=hybrid$"))
    expect(page.get_by_role("heading", name="from Cloze to Hybrid")).to_be_visible()
    page.get_by_label("Search models").focus()
    page.keyboard.type("letters")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"\?benchmark=riddles&b=hybrid&q=letters$"))
    expect(page.locator(".bystyle tbody tr")).to_have_count(1)
    page.get_by_role("link", name="split the variance of letters-7b").press("Enter")
    expect(page.get_by_role("heading", name="Where letters-7b’s answers differ")).to_be_visible()
    page.locator(".bystyle td.score a").first.press("Enter")
    expect(page).to_have_url(re.compile(r"/runs/[0-9a-f-]{36}$"))


def test_what_is_chosen_while_a_page_is_awaited_is_not_lost(
    visit: Open, two_benchmarks: Suite
) -> None:
    page = visit().go("/styles")
    day = page.locator("#at").get_attribute("max")
    held: list[Route] = []

    def hold_the_first(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    page.route(re.compile(r"/styles\?.*b=hybrid"), hold_the_first)
    page.get_by_label("To", exact=True).select_option("hybrid")
    while not held:
        page.wait_for_timeout(10)
    choose = "(at, day) => {at.value = day; at.dispatchEvent(new Event('change', {bubbles: true}))}"
    page.locator("#at").evaluate(choose, day)
    held[0].continue_()
    expect(page).to_have_url(re.compile(rf"/styles\?(?=.*b=hybrid)(?=.*at={day})"))
    expect(page.locator("#at")).to_have_value(str(day))


def test_choices_and_searches_swap_the_page_in_place(visit: Open, two_benchmarks: Suite) -> None:
    window = visit()
    page = window.go("/styles")
    page.evaluate("window.stayed = true")
    page.get_by_label("To", exact=True).select_option("hybrid")
    expect(page).to_have_url(re.compile(r"/styles\?b=hybrid$"))
    expect(page.get_by_role("columnheader", name="Cloze − Hybrid").first).to_be_visible()
    page.get_by_label("Search models").focus()
    page.keyboard.type("letters")
    expect(page).to_have_url(re.compile(r"\?b=hybrid&q=letters$"))
    expect(page.locator(".bystyle tbody tr")).to_have_count(1)
    expect(page.get_by_label("Search models")).to_be_focused()
    expect(page.get_by_label("Search models")).to_have_value("letters")
    expect(page.locator("#said")).to_contain_text("Rows 1–1 of 1")
    page.get_by_text("2 of 3").click()
    page.get_by_role("checkbox", name="Riddles").uncheck()
    expect(page).to_have_url(re.compile(r"\?b=hybrid&q=letters&cols=history$"))
    expect(page.get_by_role("checkbox", name="Riddles")).to_be_focused()
    place = page.evaluate("scrollY")
    page.locator(".bystyle thead").get_by_role("link", name="Hybrid", exact=True).click()
    expect(page).to_have_url(re.compile(r"&sort=history\.hybrid&cols=history$"))
    assert abs(page.evaluate("scrollY") - place) < 2
    assert page.evaluate("window.stayed")
    page.go_back()
    expect(page).to_have_url(re.compile(r"\?b=hybrid&q=letters&cols=history$"))
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("Cloze")
    assert window.complaints == []


def test_benchmarks_are_chosen_and_columns_sorted_without_javascript(
    visit: Open, two_benchmarks: Suite
) -> None:
    page = visit(java_script_enabled=False).go("/styles")
    expect(page.get_by_role("columnheader", name="Physics")).to_have_count(0)
    page.get_by_text("2 of 3").click()
    page.get_by_role("checkbox", name="History").uncheck()
    page.get_by_role("checkbox", name="Physics").check()
    page.get_by_role("button", name="Apply").click()
    expect(page).to_have_url(re.compile(r"/styles\?cols=riddles%2Cphysics#table$"))
    expect(page.get_by_role("columnheader", name="Physics")).to_be_visible()
    page.get_by_role("link", name="MMLU-style", exact=True).last.click()
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("MMLU-style")
    expect(page.locator(".bystyle tbody tr").first).to_contain_text("letters-7b")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert download.value.suggested_filename.startswith("plumbline-styles-1.0-styles-")


@pytest.mark.parametrize(
    "look",
    [
        pytest.param({}, id="wide"),
        pytest.param({"color_scheme": "dark"}, id="dark"),
        pytest.param({**PHONE, "color_scheme": "dark"}, id="phone in the dark"),
    ],
)
def test_it_breaks_no_rule_of_wcag_aa_and_fits_its_window(
    visit: Open, two_benchmarks: Suite, look: dict[str, Any]
) -> None:
    window = visit(**look)
    for address in addresses():
        page = window.go(address)
        assert broken_unfolded(page, **WCAG_AA) == [], address
        wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wider <= 0, address
    assert window.complaints == []


def test_the_chart_keeps_its_names_inside_the_window(visit: Open, two_benchmarks: Suite) -> None:
    for look in ({}, PHONE):
        page = visit(**look).go("/styles")
        for label in page.locator(".slope g text").all():
            box = label.bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= page.evaluate("innerWidth")


def test_on_a_phone_each_number_has_its_name_beside_it(visit: Open, two_benchmarks: Suite) -> None:
    page = visit(**PHONE).go("/styles")
    cell = page.locator(".bystyle tbody tr").first.locator("td").first
    assert "Cloze" in cell.evaluate("td => getComputedStyle(td, '::before').content")
    expect(cell.locator(".of")).to_be_visible()
    for control in page.locator("main :is(.in, .btn)").all():
        box = control.bounding_box()
        assert box is not None
        assert box["height"] >= 44


def test_print_shows_the_tables_without_controls(visit: Open, two_benchmarks: Suite) -> None:
    page = visit(color_scheme="dark").go("/styles")
    page.emulate_media(media="print")
    expect(page.get_by_role("button", name="Show")).to_be_hidden()
    expect(page.get_by_role("button", name="Apply")).to_be_hidden()
    expect(page.locator("table.bystyle")).to_be_visible()
    expect(page.locator("svg.slope")).to_be_visible()
