"""Suites: what a board asks, its versions, how it is cited, and what search engines read of it."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from leaderboard.models import BoardSnapshot, Suite, SuiteEntry
from leaderboard.snapshot import published
from leaderboard.web.chrome import NAVIGATION
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def suite() -> Suite:
    old = make.make_suite(version="1.0")
    suite = make.make_suite(version="1.1")
    suite.changelog = {"0.9": "a draft", "1.1": "sums added"}
    suite.save()
    assert old.created < suite.created
    return suite


def read(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200, address
    return response.content.decode()


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_a_suite_is_found_by_its_name_and_by_its_version(client: Client, suite: Suite) -> None:
    assert "<h1>Workshop<span" in read(client, "/suites/demo")
    assert "Version 1.1 has replaced this one" in read(client, "/suites/demo@1.0")
    assert "has replaced" not in read(client, "/suites/demo@1.1")
    assert "No suite demo@7." in client.get("/suites/demo@7").content.decode()
    assert client.get("/suites/nosuch").status_code == 404


def test_it_says_what_each_column_asks(client: Client, suite: Suite, settings: Any) -> None:
    html = read(client, "/suites/demo")
    own, others = (part.partition("</table>")[0] for part in html.split("<table")[1:3])
    of = "version 1.0, of workshop/questions"
    assert f"Facts Cloze Facts, cloze facts {of} 0 acc 25.0" in words(own)
    assert f"Facts MMLU-style Facts, MMLU-style facts_mmlu {of} 2 acc" in words(others)
    assert 'href="/tasks/facts_mmlu"' in others
    assert 'href="/method#acc"' in own
    assert f'href="{settings.HF_ENDPOINT}/datasets/workshop/questions"' in own


def test_its_columns_are_measured_by_a_command_with_an_option_a_line(
    client: Client, suite: Suite
) -> None:
    html = read(client, "/suites/demo")
    first, *_ = re.findall(r'aria-label="Command"><code>([^<]*)</code>', html)
    lines = first.split(" \\\n  ")
    assert lines[0] == "evalcore run"
    assert all(line.startswith("--") and line.count("--") == 1 for line in lines[1:])
    words = shlex.split(first.replace("\\\n", ""))  # as a shell joins lines
    assert words == [word for line in lines for word in line.split()]
    assert words[words.index("--tasks") + 1].split(",")[0] == "facts"
    assert words[words.index("--num_fewshot") + 1] == "0"


def test_a_column_in_several_draws_is_one_row(client: Client, suite: Suite) -> None:
    entry = suite.entries.get(task__name="facts_mmlu")
    entry.pk, entry.draw, entry.fewshot_seed = None, 1, 77
    entry.save()
    html = read(client, "/suites/demo")
    assert html.count('href="/tasks/facts_mmlu"') == 1
    assert "× 2 draws" in html


def test_what_people_score_stands_with_its_source(client: Client, suite: Suite) -> None:
    assert "For none of these benchmarks" in read(client, "/suites/demo")
    known = SuiteEntry.objects.filter(suite=suite, benchmark="facts")
    known.update(people=0.915, people_source="Ada et al. 1843: engineers")
    assert "Facts 91.5 Ada et al. 1843: engineers" in words(read(client, "/suites/demo"))


def test_versions_tell_what_changed_and_which_were_never_here(client: Client, suite: Suite) -> None:
    table = words(read(client, "/suites/demo").rpartition("<table")[2])
    assert "1.1 this page sums added" in table
    assert "1.0 not told" in table
    assert "0.9 a draft never on this site none" in table


def test_a_suite_is_cited_with_the_data_that_were_read(client: Client, suite: Suite) -> None:
    published.build(suite, "own")
    assert "no model measured yet" in read(client, "/suites/demo/cite.bib")
    assert "Data as of" not in read(client, "/suites/demo")
    make.evaluated("lab/one", suite, {"cloze": 0.8, "mmlu": 0.5, "hybrid": 0.5})
    snapshot = published.build(suite, "own")
    response = client.get("/suites/demo/cite.bib")
    assert response["Content-Disposition"] == 'attachment; filename="plumbline-demo-1.1.bib"'
    entry = response.content.decode()
    assert entry.startswith("@misc{plumbline-demo-1.1,\n")
    assert "  url = {http://testserver/suites/demo@1.1},\n" in entry
    assert f"1 models, data of {snapshot.built:%Y-%m-%d}" not in entry
    assert f"1 model, data of {snapshot.built:%Y-%m-%d}" in entry
    assert snapshot.data_version[:12] in entry
    assert entry.count("{") == entry.count("}")


def test_a_title_cannot_break_the_citation(client: Client, suite: Suite) -> None:
    Suite.objects.filter(pk=suite.pk).update(title="50% of {A_B} & more\\")
    entry = read(client, "/suites/demo/cite.bib")
    assert r"title = {{50\% of \{A\_B\} \& more\textbackslash{} 1.1:" in entry


def dataset(html: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/ld\+json">(.+?)</script>', html, re.S)
    assert found
    described: dict[str, Any] = json.loads(found[1])
    return described


def test_search_engines_read_it_as_a_dataset(client: Client, suite: Suite) -> None:
    described = dataset(read(client, "/suites/demo"))
    assert described["@type"] == "Dataset"
    assert described["url"] == "http://testserver/suites/demo@1.1"
    assert described["license"].startswith("https://creativecommons.org/")
    assert "dateModified" not in described
    assert [measured["name"] for measured in described["variableMeasured"]][:2] == [
        "Facts, Cloze",
        "Facts, MMLU-style",
    ]
    media = [file["encodingFormat"] for file in described["distribution"]]
    assert media == ["text/csv", "application/json", "application/vnd.apache.parquet"]


def test_no_text_ends_the_element_that_describes_the_dataset(client: Client, suite: Suite) -> None:
    evil = "</script><script>alert(1)</script> & <!--"
    Suite.objects.filter(pk=suite.pk).update(description=evil)
    html = read(client, "/suites/demo")
    assert dataset(html)["description"] == evil
    assert "<script>alert" not in html


def test_the_list_has_the_newest_version_of_each_and_the_sites_own_first(
    client: Client, suite: Suite, settings: Any
) -> None:
    settings.PLUMBLINE_SUITE = "demo"
    make.make_suite("another")
    published.build(suite, "own")
    html = read(client, "/suites")
    assert re.findall(r'href="/suites/([\w@.]+)"', html) == ["demo", "another"]
    assert "The suite that submissions are evaluated on." in html
    assert html.count("none yet") == 2


def test_a_site_without_suites_says_what_that_means(client: Client) -> None:
    html = read(client, "/suites")
    assert "before this site has its first suite" in html
    assert "manage.py" not in html


def test_no_suite_is_named_as_a_page_is() -> None:
    titles = [
        re.search(r"^title: (.+)$", file.read_text(), re.M)
        for file in sorted((settings.BASE_DIR / "tasks" / "suites").glob("*.yaml"))
    ]
    assert len(titles) > 5
    named = {title[1] for title in titles if title}
    pages = {label for _, label in NAVIGATION}
    assert not {title for title in named if any(title.startswith(page) for page in pages)}


def test_the_newest_published_snapshot_counts(client: Client, suite: Suite) -> None:
    make.evaluated("lab/one", suite, {"cloze": 0.8, "mmlu": 0.5, "hybrid": 0.5})
    newest = published.build(suite, "own")
    BoardSnapshot.objects.create(
        suite=suite,
        style="own",
        built=newest.built,
        seconds=1,
        data_version="later",
        sha256="0" * 64,
        bytes=1,
        models_n=99,
        ranked_n=99,
    )
    assert "1, 1 ranked" in words(read(client, "/suites/demo"))


def test_its_queries_do_not_grow_with_columns_and_versions(
    client: Client, suite: Suite, django_assert_max_num_queries: Any
) -> None:
    for number in range(6):
        make.make_suite(version=f"2.{number}", benchmarks=[f"b{n}" for n in range(4)])
    with django_assert_max_num_queries(5):
        read(client, "/suites/demo")
    with django_assert_max_num_queries(3):
        read(client, "/suites")
