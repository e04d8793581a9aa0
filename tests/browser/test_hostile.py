"""Words of strangers are words: through every page in a real browser, and through every file."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urljoin, urlsplit
from uuid import uuid4
from xml.etree import ElementTree

import pytest
from django.test import Client
from playwright.sync_api import Page

from leaderboard import court, disputed
from leaderboard.court.bench import bench
from leaderboard.flags import departures
from leaderboard.flags import order as flags
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
from tests.browser.addresses import everywhere
from tests.browser.conftest import Open
from tests.browser.test_access import PHONE, too_wide
from tests.leaderboard import factories as make

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

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
    raised = flags.raise_flag(model, reason=EVIL[:250], evidence=EVIL, by=by[0])
    flags.answer(raised, EVIL, by=by[1])
    flags.decide(raised, "upheld", EVIL[:250], by=by[1])
    departures.leave(HubModel.objects.get(repo_id="lab/letters"), EVIL[:250], by=by[1])
    asked = bench(run.task.name)
    label = asked.facts.label(3)
    for one in by:
        said = {"verdict": "wrong", "answer": EVIL[:200], "reason": EVIL[:500]}
        court.rule(asked.question(label), **said, source="javascript:window.hacked=1", by=one)
    disputed.compute_due()
    make.publish(site)
    key = quote(run.task.name)
    return [
        *(f"/runs/{run.pk}?{urlencode({'doc': doc})}" for doc in range(2)),
        *(f"/runs/{run.pk}?{urlencode({'q': EVIL})}", f"/flags/{raised.pk}", "/models/lab/evil"),
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
    walk = Walk({}, set())
    for address in dict.fromkeys([*everywhere(), *hostile]):
        walk.look(window.go(address), address)
    assert walk.wrong == {}
    assert [said for said in window.complaints if "responded with a status" not in said] == []
    kinds = {urlsplit(address).path.rpartition(".")[2] for address in walk.files}
    assert {"csv", "json", "jsonl", "parquet", "svg"} <= kinds
    broken = {address: why for address in sorted(walk.files) if (why := wrong_with(address))}
    assert broken == {}


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


def test_a_feed_of_hostile_words_is_whole(hostile: list[str]) -> None:
    feed = uuid4()
    Notices.objects.create(user=Submission.objects.all()[0].submitter, feed=feed)
    answer = Client().get(f"/feeds/{feed}.atom")
    assert answer.status_code == 200
    entries = ElementTree.fromstring(answer.content).findall("{*}entry")
    assert entries
    assert not ElementTree.fromstring(answer.content).findall(".//{*}script")
