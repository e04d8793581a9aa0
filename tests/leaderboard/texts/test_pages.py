"""Method, about and changelog: texts of the project, and what was added to this site when."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from django.test import Client

from evalcore.stats import interval, paired_difference
from leaderboard.models import Artifact, HubModel, Suite, TaskVersion
from leaderboard.texts.page import DAYS, NAMED
from leaderboard.web import kept
from tests.leaderboard import factories as make
from tests.leaderboard.pages import get, text_of

pytestmark = pytest.mark.django_db


def test_the_method_begins_with_half_a_page_of_plain_words_and_an_example_that_is_right(
    client: Client,
) -> None:
    html = get(client, "/method")
    prose = html[html.index('class="prose"') :]
    assert re.findall(r"<h2[^>]*>([^<]+)</h2>", prose)[0] == "In short"
    plain = re.sub(r"<[^>]+>", "", prose.partition("Notation")[0])
    assert 150 < len(plain.split()) < 350
    # Both right on 280, A alone on 20, B alone on 40, neither on 60.
    a, b = (np.repeat([1.0, one, other, 0.0], [280, 20, 40, 60]) for one, other in ((1, 0), (0, 1)))
    for scores in (a, b):
        found = interval(scores)
        assert f"{100 * found.value:.1f} ± {100 * (found.high - found.value):.1f}" in plain
    apart = paired_difference(b, a)
    half = (apart.high - apart.low) / 2
    assert f"{100 * apart.difference:.1f} ± {100 * half:.1f}, it lies between" in plain
    assert f"between {100 * apart.low:.1f} and {100 * apart.high:.1f}." in plain


def test_the_method_has_an_address_for_every_metric_and_every_section(client: Client) -> None:
    html = get(client, "/method")
    assert "<h1>How each number is made</h1>" in html
    for address in ("acc_norm", "wilson", "average-of-a-suite"):
        assert f' id="{address}"' in html
    for target in re.findall(r'href="#([\w-]+)"', html):
        assert f'id="{target}"' in html


def test_about_has_a_number_to_count_again_and_the_method_its_way_from_a_question_to_a_rank(
    client: Client, settings: Any
) -> None:
    settings.PLUMBLINE_SUITE = "demo"
    for page in ("/about", "/method"):
        assert "/runs/" not in get(client, page), "before there is a board"
    suite = make.make_suite(styles=("cloze",))
    make.evaluated("lab/weak", suite, {"cloze": 0.3})
    strong = make.evaluated("lab/strong", suite, {"cloze": 0.9})
    make.publish(suite)
    (run,) = set(re.findall(r'hx-get="/runs/([0-9a-f-]+)/recount"', get(client, "/about")))
    assert strong.runs.filter(pk=run).exists()
    html = get(client, "/method")
    example = text_of(html[html.index('class="worked"') : html.index("In words")])
    result = strong.runs.get(pk=re.findall(r'href="/runs/([0-9a-f-]+)"', html)[0]).results.get(
        metric="acc", subset=""
    )
    assert f"{round(result.value * result.n)} of {result.n} right" in example
    assert f"{100 * result.value:.1f} {100 * result.low:.1f}–{100 * result.high:.1f}" in example
    assert "is rank 1 of 2" in example
    shares = re.findall(r"([\d.]+) %", example)
    assert 99 < sum(map(float, shares)) < 101, "of the choices of one question"
    Artifact.objects.all().delete()
    kept.forget()
    assert 'class="worked"' not in get(client, "/method")
    assert "recount" not in get(client, "/about")


def test_about_names_who_runs_the_site_and_how_to_reach_them(client: Client, settings: Any) -> None:
    assert "has not put a name here" in get(client, "/about")
    settings.PLUMBLINE_OPERATOR = "The Workshop <Ltd>"
    settings.PLUMBLINE_CONTACT = "ada@workshop.example"
    html = get(client, "/about")
    assert "run by The Workshop &lt;Ltd&gt;" in html
    assert 'href="mailto:ada@workshop.example"' in html
    settings.PLUMBLINE_CONTACT = "https://workshop.example/contact"
    assert 'href="https://workshop.example/contact"' in get(client, "/about")
    for contact in ("javascript:alert(1)", "the back door"):
        settings.PLUMBLINE_CONTACT = contact
        html = get(client, "/about")
        assert f'href="{contact}"' not in html
        assert contact in html


def test_about_says_whether_code_of_models_is_loaded(client: Client, settings: Any) -> None:
    settings.PLUMBLINE_TRUSTED_CODE = {}
    assert "It loads no code from a model’s repository; weights" in get(client, "/about")
    settings.PLUMBLINE_TRUSTED_CODE = {"lab/one": frozenset({"a" * 40})}
    assert "but where its operator has read it: 1 model, each" in get(client, "/about")


def test_what_was_added_stands_under_its_day(client: Client) -> None:
    html = get(client, "/changelog")
    assert "Nothing has been added yet." in html
    assert re.search(r"<h3[^>]*>0\.1\.0", html), "the software's changes"
    old = make.make_suite(version="1.0")
    new = make.make_suite(version="1.1")
    new.changelog = {"1.1": "two questions <fewer>"}
    new.save()
    Suite.objects.filter(pk=old.pk).update(created=datetime(2026, 3, 1, 23, 30, tzinfo=UTC))
    days = get(client, "/changelog").split('<article class="day">')[1:]
    assert len(days) == 2
    assert "Suite Workshop 1.1</a>: two questions &lt;fewer&gt;" in days[0]
    assert f"{TaskVersion.objects.count()} task versions added" in days[0]
    assert "1 Mar 2026" in days[1]
    assert 'href="/suites/demo@1.0"' in days[1]


def test_more_days_than_a_page_holds_have_further_pages(client: Client) -> None:
    for number in range(DAYS + 1):
        suite = make.make_suite(f"suite-{number}", benchmarks=())
        at = datetime(2026, 5, 1, tzinfo=UTC) + timedelta(days=number)
        Suite.objects.filter(pk=suite.pk).update(created=at)
    assert "Suite-0" not in get(client, "/changelog")
    second = get(client, "/changelog?page=2")
    assert "Suite-0" in second
    assert "<title>Changelog, page 2 ·" in second
    assert client.get("/changelog?page=9")["Location"] == "/changelog?page=2"


def test_new_models_are_named_and_beyond_a_few_counted(client: Client) -> None:
    for number in range(NAMED + 2):
        HubModel.objects.create(repo_id=f"lab/model-{number}")
    old = HubModel.objects.create(repo_id="lab/older")
    HubModel.objects.filter(pk=old.pk).update(first_seen=datetime(2026, 3, 1, tzinfo=UTC))
    today, march = get(client, "/changelog").split('<article class="day">')[1:]
    assert f"{NAMED + 2} models submitted for the first time" in today
    assert 'href="/models/lab/model-0"' in today
    assert f"lab/model-{NAMED}" not in today
    assert "and 2 more" in today
    assert "1 model submitted" in march
    assert "more" not in march.partition("</article>")[0]
