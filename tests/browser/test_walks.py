"""Walks over the whole site: every address of the sitemap, what the sitemap leaves out, and the
error pages. In every look, with keys alone, without motion and on paper; and with words of
strangers everywhere, which stay words, in every file too.

As a module of addresses this has the site's, and some that fail on purpose: to look at what is
shown then.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urljoin, urlsplit
from uuid import uuid4
from xml.etree import ElementTree

import pytest
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path, reverse
from playwright.sync_api import Browser, Page

from leaderboard.corrections import recalls, reports, rulings, second_figures
from leaderboard.corrections.questions import questions_of_task
from leaderboard.models import (
    HubModel,
    Notices,
    Role,
    Run,
    Submission,
    Suite,
    SuiteEntry,
    TaskVersion,
    User,
    Variant,
    give,
)
from leaderboard.samples import Unavailable
from leaderboard.urls import handler404, urlpatterns
from leaderboard.web import throttle
from tests.browser.conftest import Open, Visit
from tests.browser.looks import PAPER, PHONE, WIDE, broken, in_every_look, too_wide
from tests.leaderboard import factories as make

__all__ = ["handler404", "urlpatterns"]

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

SIGNING_UP = (
    *("account_login", "account_signup", "account_inactive", "account_email_verification_sent"),
    *("account_reset_password", "account_reset_password_done"),
    *("account_reset_password_from_key_done", "socialaccount_login_cancelled"),
)
"""Pages of whoever has no account yet, each at one address."""


def public() -> list[str]:
    """Every address of the sitemap."""
    client = Client()
    files = re.findall(r"<loc>(.+?)</loc>", client.get("/sitemap.xml").content.decode())
    pages = [client.get(urlsplit(file).path).content.decode() for file in files]
    return [urlsplit(url).path for page in pages for url in re.findall(r"<loc>(.+?)</loc>", page)]


def unlisted() -> dict[str, int]:
    """The status of pages that the sitemap leaves out, and of other states of those it has."""
    done, failed, running = (
        Run.objects.filter(state=state).order_by("task__name")[0]
        for state in ("done", "failed", "running")
    )
    submission = Submission.objects.filter(runs=failed)[0]
    others = Run.objects.filter(task=done.task, state="done").exclude(pk=done.pk)
    pair = "%2C".join(str(pk) for pk in (done.variant_id, others[0].variant_id))
    shown = [
        *("/compare", f"/compare?m={done.variant_id}&q=nothing", f"/compare?m={pair}&doc=3"),
        *(f"/compare?m={pair}%2C{failed.variant_id}%2C999",),
        *(f"/runs/{done.pk}?q=zebra&outcome=wrong&from=x",),
        *(f"/runs/{done.pk}?spaces=1&q=hangs&sort=close",),
        *("/?style=mmlu", "/?q=nothing", "/?at=2020-01-01", "/charts?against=time"),
        *("/charts?against=tokens", "/charts?against=seconds", "/charts?legend=family"),
        *("/submit?model=not+a+model", "/submit?model=awkward/tiny-llama"),
        *(f"/runs/{run.pk}" for run in (done, failed, running)),
        *(f"/runs/{done.pk}?outcome=wrong", f"/submissions/{submission.pk}", "/models/lab/unlucky"),
        *(f"/compare?run={done.pk},{others[0].pk}", f"/runs/{done.pk}/recount"),
        *(reverse(name) for name in ("login", *SIGNING_UP, "account-deleted")),
    ]
    faults = {"/?q=%00": 400, "/fault/forbidden": 403, "/models/lab/nosuch": 404}
    faults |= {"/fault/often": 429, "/fault/broken": 500, "/fault/away": 503}
    return {**dict.fromkeys(shown, 200), **faults}


def everywhere() -> list[str]:
    """Every page that reads well, and one that is not there."""
    shown = [address for address, status in unlisted().items() if status == 200]
    return list(dict.fromkeys([*public(), *shown, "/models/lab/nosuch"]))


def failing(error: Exception) -> Callable[[HttpRequest], HttpResponse]:
    def view(_request: HttpRequest) -> HttpResponse:
        raise error

    return view


urlpatterns = [
    *urlpatterns,
    path("fault/forbidden", failing(PermissionDenied("Only who submitted it may withdraw it."))),
    path("fault/often", failing(throttle.TooOften("You asked for very many pages.", 40))),
    path("fault/broken", failing(ZeroDivisionError())),
    path("fault/away", failing(Unavailable("the bucket is silent"))),
]

ACROSS = {"width": PAPER["height"], "height": PAPER["width"]}

FORMS = ("/submit", "/accounts/login", "/accounts/password")
"""Pages that are nothing but a form."""

# What has the focus; the ring around it, its field or (a hidden radio) its label; the ring that is
# left around what had it before; whether any of it can be seen, beneath nothing else.
FOCUSED = """() => {
  const parts = one => [one, one.closest("label"), one.closest(".field")].filter(Boolean);
  const ring = one => Math.max(...parts(one).map(part => getComputedStyle(part))
    .map(style => style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth)));
  const focused = document.activeElement, before = window.lastFocus;
  if (focused === document.body || focused === document.documentElement) return null;
  window.reached ??= new Set();
  const again = window.reached.has(focused);
  window.reached.add(focused);
  window.lastFocus = focused;
  const seen = parts(focused).some(part => [...part.getClientRects()].some(box =>
    [[.5, .5], [.1, .5], [.9, .5]].some(([x, y]) => {
      const on = document.elementFromPoint(box.x + x * box.width, box.y + y * box.height);
      return on && (part.contains(on) || on.contains(part));
    })));
  const apart = before && before !== focused && !parts(before).some(part => part.contains(focused));
  return {
    html: focused.outerHTML.slice(0, 160), again, seen, same: before === focused,
    ring: ring(focused), left: apart ? ring(before) : 0,
  };
}"""
# What a mouse can use and the keys did not reach; a radio stands for all of its group.
NOT_REACHED = """() => [...document.querySelectorAll(
    "a[href], button, input:not([type=hidden]), select, textarea, summary")]
  .filter(one => one.checkVisibility() && !one.disabled && !window.reached.has(one))
  .filter(one => one.type !== "radio" ||
    ![...window.reached].some(other => other.type === "radio" && other.name === one.name))
  // A dot among thousands is passed over where the table below it leads to the same page.
  .filter(one => one.tabIndex !== -1 ||
    ![...window.reached].some(other => other.getAttribute("href") === one.getAttribute("href")))
  .map(one => one.outerHTML.slice(0, 160))"""
OUT_OF_ORDER = """() => [...document.querySelectorAll("[tabindex]")]
  .filter(one => one.tabIndex > 0).map(one => one.outerHTML.slice(0, 160))"""
MOVING = """() => [...document.querySelectorAll("*")].filter(one =>
  [null, "::before", "::after"].some(part => {
    const style = getComputedStyle(one, part);
    const longest = times => Math.max(...times.split(",").map(parseFloat));
    return (style.animationName !== "none" && longest(style.animationDuration) > .01) ||
      longest(style.transitionDuration) > .01 || style.scrollBehavior === "smooth";
  })).map(one => one.outerHTML.slice(0, 120))"""
# On paper: what can only be clicked, what would stay at the edge of a window, what is cut off.
CONTROLS = """() => [...document.querySelectorAll(
    "button, input, select, textarea, .btn, .skip, .filters, .tray, nav[aria-label=Main], " +
    "nav[aria-label=More], nav[aria-label=Pages]")]
  .filter(one => one.checkVisibility() && one.getClientRects().length)
  .map(one => one.outerHTML.slice(0, 160))"""
STUCK = """() => [...document.querySelectorAll("body *")]
  .filter(one => one.checkVisibility())
  .filter(one => ["sticky", "fixed"].includes(getComputedStyle(one).position))
  .map(one => one.outerHTML.slice(0, 160))"""
CUT_OFF = """() => [...document.querySelectorAll("table")].filter(one => one.checkVisibility())
  .filter(table => {
    if (table.getBoundingClientRect().right > innerWidth + 1) return true;
    for (let around = table.parentElement; around; around = around.parentElement)
      if (getComputedStyle(around).overflowX !== "visible" &&
          (around.scrollWidth > around.clientWidth + 1 ||
           around.scrollHeight > around.clientHeight + 1)) return true;
    return false;
  }).map(table => table.outerHTML.slice(0, 160))"""


def expire(window: Visit) -> Page:
    """The page that says that a form has expired."""
    page = window.go("/accounts/login")
    page.get_by_label("User name").fill("ada")
    page.get_by_label("Password").fill("ada")
    page.context.clear_cookies()
    page.get_by_label("Password").press("Enter")
    page.get_by_role("heading", name="This form has expired").wait_for()
    return page


def with_a_recall() -> list[str]:
    """What says that a result was recalled, once one is."""
    run = Run.objects.filter(state="done").order_by("task__name")[0]
    made, _ = recalls.recall("runs", [str(run.pk)], reason="W" * 120, by="ada")
    make.publish(Suite.objects.get())
    own = [run.get_absolute_url(), made.get_absolute_url()]
    return ["/corrections", *own, run.variant.hub_model.get_absolute_url(), "/"]


def test_axe_finds_a_planted_fault_again_and_again(chromium: Browser) -> None:
    page = chromium.new_page()
    for _ in range(2):
        page.set_content("<html lang=en><title>t</title><main><h1>t</h1><img src=a.png></main>")
        assert broken(page) == broken(page) == [("image-alt", ['<img src="a.png">'])]
        page.evaluate("document.querySelector('img').alt = 'a cat'")
        assert broken(page) == broken(page, within="h1") == []
    page.close()


def test_axe_finds_nothing_on_any_page(visit: Open, settings: Any) -> None:
    settings.ROOT_URLCONF = __name__
    window = visit(viewport=WIDE)
    found = {}
    for address, status in (dict.fromkeys(public(), 200) | unlisted()).items():
        answer = window.page.goto(window.url + address)
        assert answer is not None
        assert answer.status == status, address
        found[address] = in_every_look(window.page)
    found["an expired form"] = in_every_look(expire(window))
    for address in with_a_recall():
        found[f"{address}, recalled"] = in_every_look(window.go(address))
    assert {address: looks for address, looks in found.items() if looks} == {}


def walk(page: Page, address: str) -> None:
    """Tab once around: each stop is seen, nothing holds the focus, and nothing is left out."""
    begins = page.locator("[autofocus]").count()
    if begins:
        # It takes the focus when the page is first drawn: a key before that would begin elsewhere.
        page.wait_for_function("document.activeElement.matches('[autofocus]')")
    page.keyboard.press("Tab")
    stop = page.evaluate(FOCUSED)
    assert begins or 'class="skip"' in stop["html"], (address, stop)
    held = outside = 0
    while stop is None or not stop["again"] or stop["same"]:
        if stop is None:
            # Between the last stop and the first one the browser may take the focus, once.
            outside += 1
            assert outside == 1, (address, "the keys no longer lead into the page")
        else:
            assert stop["ring"] >= 2, (address, stop)
            assert stop["left"] == 0, (address, "what had the focus keeps its ring", stop)
            assert stop["seen"], (address, stop)
            # A date has a stop for each of its parts and one for its calendar.
            held = held + 1 if stop["same"] else 0
            assert held < 4, (address, "the focus is caught", stop)
        page.keyboard.press("Tab")
        stop = page.evaluate(FOCUSED)
    assert page.evaluate(NOT_REACHED) == [], address


def test_keys_alone_lead_through_every_page(visit: Open) -> None:
    window = visit(viewport=WIDE)
    for address in everywhere():
        page = window.go(address)
        assert page.evaluate(OUT_OF_ORDER) == [], address
        walk(page, address)
        page.locator(".skip").first.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main", address
        page.keyboard.press("Tab")
        stop = page.evaluate("document.activeElement.outerHTML")
        inside = "document.querySelector('main').contains(document.activeElement)"
        empty = "!document.querySelector('main').querySelector('a[href], button, input, summary')"
        assert page.evaluate(f"{inside} || {empty}"), (address, stop[:160])


def test_nothing_moves_for_who_wants_no_motion(visit: Open) -> None:
    assert visit(viewport=WIDE, reduced_motion="no-preference").go("/queue").evaluate(MOVING) != []
    window = visit(viewport=WIDE, reduced_motion="reduce")
    moving = {address: window.go(address).evaluate(MOVING) for address in everywhere()}
    assert {address: parts for address, parts in moving.items() if parts} == {}


@pytest.mark.parametrize("paper", [PAPER, ACROSS], ids=["upright", "across"])
def test_on_paper_a_page_is_what_it_says(visit: Open, paper: dict[str, int]) -> None:
    window = visit(viewport=paper, color_scheme="dark")
    window.page.emulate_media(media="print")
    found: dict[str, list[str]] = {}
    for address in everywhere():
        page = window.go(address)
        checks = [STUCK, CUT_OFF, *([] if address.startswith(FORMS) else [CONTROLS])]
        found[address] = [part for check in checks for part in page.evaluate(check)]
        scheme = page.evaluate("getComputedStyle(document.documentElement).colorScheme")
        assert scheme == "light", address
        assert page.get_by_role("heading", level=1).is_visible(), address
        assert address != "/" or page.locator(".board table").is_visible()
    assert {address: parts for address, parts in found.items() if parts} == {}


# Words of strangers

EVIL = (
    "=1+1\"'></title></textarea></pre><script>window.hacked = 1</script><img src=x "
    "onerror=window.hacked=1><svg onload=window.hacked=1>{{ 7|add:7 }}{% debug %} "
    "javascript:window.hacked=1 ]]>&#60;b&#62;\u202e\u2066\u200b\u200f\ufeff"
)
"""Markup that ends whatever it may stand in, a formula, a template, and signs that turn or hide."""
LONGEST = EVIL + "\0\x1b[31m\ud83d".encode("utf-8", "replace").decode() + "W" * 100_000
FORMULA = re.compile(r"^\s*[=+@\t\r]|^\s*-(?!\s*[\d.]|$)")
HURT = """() => [
  ...(window.hacked ? ['a script ran'] : []),
  ...[...document.querySelectorAll('*')].filter(one => [...one.attributes].some(
    other => other.name.startsWith('on') ||
      (/href|src|action/.test(other.name) && /^\\s*(javascript|data|vbscript):/i.test(other.value))
  )).map(one => one.outerHTML.slice(0, 200)),
  ...[...document.querySelectorAll("img[src='x'], svg[onload], title b")].map(one => one.outerHTML),
  ...(document.body.innerText.includes('77%') ? ['a template was rendered'] : []),
]"""
FILE = re.compile(r"(?!.*/(results|every_eval))/.+\.(csv|json|jsonl|parquet|svg|png|bib|xml)$")
"""Some dialects want a record that says more than a made-up one does."""


@pytest.fixture
def hostile(site: Suite) -> list[str]:
    """The site, with EVIL wherever somebody else's words may stand; more pages to look at."""
    Suite.objects.update(title=EVIL[:100], notice=EVIL)
    TaskVersion.objects.update(origin=EVIL, known_gaps=EVIL)
    SuiteEntry.objects.update(title=EVIL[:100], people=0.5, people_source=EVIL[:300])
    told = dict.fromkeys(("licence", "base_model", "architecture", "code"), EVIL[:100])
    Variant.objects.update(**told, model_type=EVIL[:64], quantisation=EVIL[:64])
    run = make.queued_run(make.make_variant("lab/evil"), site.entries.get(task__style="mmlu"))
    make.finish(run, questions=[LONGEST, EVIL], choices=[f"{EVIL}{n}" for n in range(4)], n=10)
    failed = Run.objects.get(state="failed")
    Run.objects.filter(pk=failed.pk).update(error_message=EVIL, log_tail=EVIL * 20)
    by = [User.objects.create_user(f"{n}{EVIL}"[:150]) for n in range(2)]
    for one in by:
        give(one, Role.MODERATOR)
    Submission.objects.update(submitter=by[0], requested_revision=EVIL[:200])
    model = HubModel.objects.get(repo_id="lab/texts")
    raised = reports.report(
        reports.Target(model), kind="number", reason=EVIL[:250], evidence=EVIL, by=by[0]
    )
    reports.answer(raised, EVIL, by=by[1])
    rulings.rule(raised, "uphold", EVIL[:250], by=by[1])
    rulings.take_out(HubModel.objects.get(repo_id="lab/letters"), EVIL[:250], by=by[1])
    asked = questions_of_task(run.task.name)
    label = asked.facts.label(3)
    for one in by:
        said = {"verdict": "wrong", "answer": EVIL[:200], "reason": EVIL[:500]}
        said["evidence"] = "javascript:window.hacked=1"
        reports.report_key(asked.question(label), **said, by=one)
    second_figures.compute_due()
    make.publish(site)
    key = quote(run.task.name)
    return [
        *(f"/runs/{run.pk}?{urlencode({'doc': doc})}" for doc in range(2)),
        *(f"/runs/{run.pk}?{urlencode({'q': EVIL})}", "/models/lab/evil"),
        *("/corrections", f"/corrections/reports/{raised.pk}"),
        *(f"/tasks/{key}/keys", f"/tasks/{key}/keys/question?{urlencode({'doc': label})}"),
        *(f"/{page}?{urlencode({'q': EVIL})}" for page in ("", "styles", "compare", "queue")),
        *(f"/submit?{urlencode({'model': EVIL, 'revision': EVIL})}", "/?cols=all&rows=tall"),
        *(f"/{page}/{quote(EVIL, safe='')}" for page in ("models", "tasks", "suites")),
        f"/accounts/login?{urlencode({'next': 'javascript:window.hacked=1'})}",
    ]


@dataclass
class Walk:
    """What was wrong on the way, and which files were linked."""

    wrong: dict[str, list[Any]]
    files: set[str]

    def look(self, page: Page, address: str) -> None:
        found = [*page.evaluate(HURT), *too_wide(page)]
        if found:
            self.wrong[address] = found
        links = page.eval_on_selector_all(
            "a[href], link[href]", "all => all.map(one => one.getAttribute('href'))"
        )
        own = (urlsplit(urljoin(address, link)) for link in links if "://" not in link)
        self.files |= {f"{link.path}?{link.query}" for link in own if FILE.match(link.path)}


def test_no_words_of_strangers_do_anything(visit: Open, hostile: list[str]) -> None:
    window = visit(viewport=PHONE)
    window.page.on("dialog", lambda shown: (window.complaints.append("a dialog"), shown.dismiss()))
    seen = Walk({}, set())
    for address in dict.fromkeys([*everywhere(), *hostile]):
        seen.look(window.go(address), address)
    assert seen.wrong == {}
    kinds = {urlsplit(address).path.rpartition(".")[2] for address in seen.files}
    assert {"csv", "json", "jsonl", "parquet", "svg"} <= kinds
    faulty = {address: why for address in sorted(seen.files) if (why := wrong_with(address))}
    assert faulty == {}
    feed = uuid4()
    Notices.objects.create(user=Submission.objects.all()[0].submitter, feed=feed)
    told = ElementTree.fromstring(Client().get(f"/feeds/{feed}.atom").content)
    assert told.findall("{*}entry")
    assert not told.findall(".//{*}script")


def wrong_with(address: str) -> str:
    """What is wrong with a file; empty where nothing is."""
    answer = Client().get(address)
    whole = b"".join(answer) if answer.streaming else answer.content
    kind = urlsplit(address).path.rpartition(".")[2]
    if answer.status_code == 400 and answer["Content-Type"].startswith("text/plain"):
        return ""  # a search that says what is wrong with it
    if answer.status_code != 200:
        return f"{answer.status_code}"
    if answer["X-Content-Type-Options"] != "nosniff":
        return "its kind may be guessed"
    if kind == "csv":
        rows = csv.reader(whole.decode().splitlines(keepends=True))
        found = [cell for row in rows for cell in row if FORMULA.search(cell)]
        return f"a formula: {found[0][:80]}" if found else ""
    if kind == "json":
        json.loads(whole)
    if kind == "jsonl":
        [json.loads(line) for line in whole.decode().split("\n") if line]
    if kind in ("svg", "xml"):
        parts = [one.tag.rpartition("}")[2] for one in ElementTree.fromstring(whole).iter()]
        return "a script" if {"script", "img", "foreignObject"} & {*parts} else ""
    return ""
