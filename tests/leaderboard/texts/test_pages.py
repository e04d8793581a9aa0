"""Method, about and changelog: texts of the project, and what was added to this site when."""

from __future__ import annotations

import gzip
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from django.test import Client

from evalcore.stats import interval, paired_difference
from leaderboard.models import HubModel, Suite, TaskVersion
from leaderboard.texts.page import DAYS, NAMED
from tests.leaderboard import factories as make


def read(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200, address
    return response.content.decode()


def test_the_method_begins_with_half_a_page_of_plain_words_and_an_example_that_is_right(
    client: Client,
) -> None:
    html = read(client, "/method")
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
    html = read(client, "/method")
    assert "<h1>How each number is made</h1>" in html
    for address in ("acc_norm", "wilson", "average-of-a-suite"):
        assert f' id="{address}"' in html
    for target in re.findall(r'href="#([\w-]+)"', html):
        assert f'id="{target}"' in html


def test_about_names_who_runs_the_site_and_how_to_reach_them(client: Client, settings: Any) -> None:
    settings.PLUMBLINE_OPERATOR = "The Workshop <Ltd>"
    settings.PLUMBLINE_CONTACT = "ada@workshop.example"
    html = read(client, "/about")
    assert "run by The Workshop &lt;Ltd&gt;" in html
    assert 'href="mailto:ada@workshop.example"' in html
    settings.PLUMBLINE_CONTACT = "https://workshop.example/contact"
    assert 'href="https://workshop.example/contact"' in read(client, "/about")


@pytest.mark.parametrize("contact", ["javascript:alert(1)", "the back door", ""])
def test_a_contact_that_is_no_address_is_text(client: Client, settings: Any, contact: str) -> None:
    settings.PLUMBLINE_CONTACT = contact
    html = read(client, "/about")
    assert f'href="{contact}"' not in html
    assert contact in html


def test_about_says_whether_code_of_models_is_loaded(client: Client, settings: Any) -> None:
    settings.PLUMBLINE_TRUSTED_CODE = {}
    assert "It loads no code from a model’s repository; weights" in read(client, "/about")
    settings.PLUMBLINE_TRUSTED_CODE = {"lab/one": frozenset({"a" * 40})}
    assert "but where its operator has read it: 1 model, each" in read(client, "/about")


def test_about_says_so_where_nobody_put_a_name(client: Client) -> None:
    assert "has not put a name here" in read(client, "/about")


@pytest.mark.django_db
class TestChangelog:
    def test_what_was_added_stands_under_its_day(self, client: Client) -> None:
        old = make.make_suite(version="1.0")
        new = make.make_suite(version="1.1")
        new.changelog = {"1.1": "two questions <fewer>"}
        new.save()
        Suite.objects.filter(pk=old.pk).update(created=datetime(2026, 3, 1, 23, 30, tzinfo=UTC))
        days = read(client, "/changelog").split('<article class="job day">')[1:]
        assert len(days) == 2
        assert "Suite Workshop 1.1</a>: two questions &lt;fewer&gt;" in days[0]
        assert f"{TaskVersion.objects.count()} task versions added" in days[0]
        assert "1 Mar 2026" in days[1]
        assert 'href="/suites/demo@1.0"' in days[1]

    def test_the_softwares_changes_stand_below(self, client: Client) -> None:
        html = read(client, "/changelog")
        assert "Nothing has been added yet." in html
        assert re.search(r"<h3[^>]*>0\.1\.0", html)

    def test_more_days_than_a_page_holds_have_further_pages(self, client: Client) -> None:
        for number in range(DAYS + 1):
            suite = make.make_suite(f"suite-{number}", benchmarks=())
            at = datetime(2026, 5, 1, tzinfo=UTC) + timedelta(days=number)
            Suite.objects.filter(pk=suite.pk).update(created=at)
        assert "Suite-0" not in read(client, "/changelog")
        second = read(client, "/changelog?page=2")
        assert "Suite-0" in second
        assert "<title>Changelog, page 2 ·" in second
        assert client.get("/changelog?page=9")["Location"] == "/changelog?page=2"

    def test_its_queries_do_not_grow_with_its_entries(
        self, client: Client, django_assert_num_queries: Any
    ) -> None:
        make.make_suite(benchmarks=())
        with django_assert_num_queries(7):
            read(client, "/changelog")
        for number in range(12):
            make.make_suite(f"suite-{number}", benchmarks=(f"facts_{number}",))
            HubModel.objects.create(repo_id=f"lab/model-{number}")
        with django_assert_num_queries(7):
            read(client, "/changelog")

    def test_new_models_are_named_and_beyond_a_few_counted(self, client: Client) -> None:
        for number in range(NAMED + 2):
            HubModel.objects.create(repo_id=f"lab/model-{number}")
        old = HubModel.objects.create(repo_id="lab/older")
        HubModel.objects.filter(pk=old.pk).update(first_seen=datetime(2026, 3, 1, tzinfo=UTC))
        today, march = read(client, "/changelog").split('<article class="job day">')[1:]
        assert f"{NAMED + 2} models submitted for the first time" in today
        assert 'href="/models/lab/model-0"' in today
        assert f"lab/model-{NAMED}" not in today
        assert "and 2 more" in today
        assert "1 model submitted" in march
        assert "more" not in march.partition("</article>")[0]


@pytest.mark.django_db
@pytest.mark.parametrize("address", ["/method", "/about", "/changelog", "/suites", "/suites/demo"])
def test_a_text_is_sent_compressed_and_once(client: Client, address: str) -> None:
    make.make_suite()
    plain = client.get(address)
    short = client.get(address, headers={"accept-encoding": "gzip"})
    assert gzip.decompress(short.content) == plain.content
    known = client.get(address, headers={"if-none-match": plain["ETag"]})
    assert known.status_code == 304


@pytest.mark.django_db
def test_a_suite_that_changed_is_sent_again(client: Client) -> None:
    suite = make.make_suite()
    known = client.get("/suites/demo")["ETag"]
    Suite.objects.filter(pk=suite.pk).update(title="Another name")
    again = client.get("/suites/demo", headers={"if-none-match": known})
    assert "Another name" in again.content.decode()


CLEVER = (
    *("Take it away", "Turn round", "are worth", "How far", "Each stands at"),
    *("Whoever runs", "manage.py", "celery", "PLUMBLINE_", "Benjamini", "McNemar", "pins"),
)
"""Words that a newcomer stumbles over, an operator's commands, and names of tests."""


def test_pages_speak_plainly_and_name_no_command_of_the_operators(
    client: Client, db: None, settings: Any
) -> None:
    settings.PLUMBLINE_SUITE = "demo"
    suite = make.make_suite(benchmarks=("facts",))
    pair = [
        make.evaluated(f"lab/{name}", suite, {"cloze": skill, "mmlu": 0.5, "hybrid": 0.5})
        for name, skill in (("one", 0.9), ("two", 0.3))
    ]
    waiting = make.make_submission(make.make_variant("lab/waiting"), suite)
    make.publish(suite)
    run = pair[0].runs.order_by("task__name")[0]
    addresses = [
        *("/compare", f"/compare?m={pair[0].pk}%2C{pair[1].pk}", "/queue", "/pool", "/suites"),
        *("/suites/demo", "/about", f"/runs/{run.pk}", f"/submissions/{waiting.pk}"),
        *("/tasks/facts", "/models/lab/one", "/models/lab/waiting", "/styles?show=order"),
    ]
    for address in addresses:
        response = client.get(address, follow=True)
        html = response.content.decode()
        main = html[html.index("<main") : html.index("</main>")]
        folded = re.sub(r"<details.*?</details>", "", main, flags=re.DOTALL)
        said = re.sub(r"<[^>]+>", " ", folded)
        assert [words for words in CLEVER if words in said] == [], address
