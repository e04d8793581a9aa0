"""Pages of suites and of tasks: what is asked, versions, pins, how it is cited."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest
from django.test import Client

from evalcore.task.yaml_file import OWN_TASKS
from leaderboard.catalogue import sync as catalogue
from leaderboard.models import Suite, SuiteEntry, TaskVersion
from leaderboard.snapshot import published
from tests.leaderboard import factories as make
from tests.leaderboard.pages import get, text_of
from tests.leaderboard.rows import once_per_module

pytestmark = pytest.mark.django_db


@pytest.fixture
def suite() -> Suite:
    old = make.make_suite(version="1.0")
    suite = make.make_suite(version="1.1")
    suite.changelog = {"0.9": "a draft", "1.1": "sums added"}
    suite.save()
    assert old.created < suite.created
    return suite


def test_a_suite_says_what_each_column_asks_and_what_changed_with_its_versions(
    client: Client, suite: Suite, settings: Any
) -> None:
    assert "<h1>Workshop <span" in get(client, "/suites/demo")
    assert "Version 1.1 has replaced this one" in get(client, "/suites/demo@1.0")
    assert "has replaced" not in get(client, "/suites/demo@1.1")
    assert "No suite demo@7." in client.get("/suites/demo@7").content.decode()
    assert client.get("/suites/nosuch").status_code == 404
    html = get(client, "/suites/demo")
    own, others = (part.partition("</table>")[0] for part in html.split("<table")[1:3])
    of = "version 1.0, of workshop/questions"
    assert f"Facts Cloze Facts, cloze facts {of} 0 acc 25.0" in text_of(own)
    assert f"Facts MMLU-style Facts, MMLU-style facts_mmlu {of} 2 acc" in text_of(others)
    assert 'href="/tasks/facts_mmlu"' in others
    assert 'href="/method#acc"' in own
    assert f'href="{settings.HF_ENDPOINT}/datasets/workshop/questions"' in own
    table = text_of(get(client, "/suites/demo").rpartition("<table")[2])
    assert "1.1 this page sums added" in table
    assert "1.0 not told" in table
    assert "0.9 a draft never on this site none" in table


def test_its_columns_are_measured_by_a_command_with_an_option_a_line(
    client: Client, suite: Suite
) -> None:
    html = get(client, "/suites/demo")
    first, *_ = re.findall(r'aria-label="Command"><code>([^<]*)</code>', html)
    lines = first.split(" \\\n  ")
    assert lines[0] == "evalcore run"
    assert all(line.startswith("--") and line.count("--") == 1 for line in lines[1:])
    words = shlex.split(first.replace("\\\n", ""))  # as a shell joins lines
    assert words == [word for line in lines for word in line.split()]
    assert words[words.index("--tasks") + 1].split(",")[0] == "facts"
    assert words[words.index("--num_fewshot") + 1] == "0"


def test_a_column_in_several_draws_is_one_row_and_people_stand_with_their_source(
    client: Client, suite: Suite
) -> None:
    entry = suite.entries.get(task__name="facts_mmlu")
    entry.pk, entry.draw, entry.fewshot_seed = None, 1, 77
    entry.save()
    html = get(client, "/suites/demo")
    assert html.count('href="/tasks/facts_mmlu"') == 1
    assert "× 2 draws" in html
    assert "For none of these benchmarks" in get(client, "/suites/demo")
    known = SuiteEntry.objects.filter(suite=suite, benchmark="facts")
    known.update(people=0.915, people_source="Ada et al. 1843: engineers")
    assert "Facts 91.5 Ada et al. 1843: engineers" in text_of(get(client, "/suites/demo"))


def test_a_suite_is_cited_with_the_data_that_were_read(client: Client, suite: Suite) -> None:
    published.build(suite, "own")
    assert "no model measured yet" in get(client, "/suites/demo/cite.bib")
    assert "Data as of" not in get(client, "/suites/demo")
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
    Suite.objects.filter(pk=suite.pk).update(title="50% of {A_B} & more\\")
    entry = get(client, "/suites/demo/cite.bib")
    assert r"title = {{50\% of \{A\_B\} \& more\textbackslash{} 1.1:" in entry


def dataset(html: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/ld\+json">(.+?)</script>', html, re.S)
    return json.loads(found[1])


def test_search_engines_read_it_as_a_dataset_that_no_text_ends(
    client: Client, suite: Suite
) -> None:
    described = dataset(get(client, "/suites/demo"))
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
    evil = "</script><script>alert(1)</script> & <!--"
    Suite.objects.filter(pk=suite.pk).update(description=evil)
    html = get(client, "/suites/demo")
    assert dataset(html)["description"] == evil
    assert "<script>alert" not in html


def test_the_list_has_the_newest_version_of_each_and_the_sites_own_first(
    client: Client, suite: Suite, settings: Any
) -> None:
    settings.PLUMBLINE_SUITE = "demo"
    make.make_suite("another")
    published.build(suite, "own")
    html = get(client, "/suites")
    assert re.findall(r'href="/suites/([\w@.]+)"', html) == ["demo", "another"]
    assert "The suite that submissions are evaluated on." in html
    assert html.count("none yet") == 2


def test_a_site_without_suites_says_what_that_means(client: Client) -> None:
    html = get(client, "/suites")
    assert "before this site has its first suite" in html
    assert "manage.py" not in html


def test_versions_and_their_changes_are_told(client: Client) -> None:
    suite = make.make_suite()
    make.evaluated("lab/one", suite, {"cloze": 0.7, "mmlu": 0.5, "hybrid": 0.6})
    changelog = {"0.9": "a draft", "1.0": "first version"}
    TaskVersion.objects.filter(name="facts").update(
        changelog=changelog,
        known_gaps="Not as in the paper.",
        asks="0123456789abcdef",
        answer_extraction="The first letter.",
    )
    newer = make.task_version("facts", "cloze", "2.0")
    newer.changelog = {**changelog, "2.0": "asks in other words"}
    newer.save()
    page = get(client, "/tasks/facts")
    assert page.index("asks in other words") < page.index("first version") < page.index("a draft")
    assert "never on this site" in page
    assert "/tasks/facts_mmlu" in page
    assert "not pinned yet; each run names the commit that it read" in page
    run = suite.entries.get(task__name="facts").task.runs.get()
    assert 'href="/tasks/facts"' in get(client, run.get_absolute_url())


def test_a_task_is_named_by_title_and_style_and_its_name_stands_beside_it(client: Client) -> None:
    suite = make.make_suite(benchmarks=("facts",))
    page = get(client, "/tasks/facts_hybrid")
    assert "<h1>Facts, hybrid</h1>" in page
    assert "<code>facts_hybrid</code>" in page
    assert "<title>Facts, hybrid" in " ".join(page.split()).replace("<title> ", "<title>")
    assert 'title="facts_mmlu">Facts, MMLU-style</a>' in page
    assert ">Facts, hybrid</a>" in get(client, f"/suites/{suite.name}")
    assert 'title="facts_hybrid">Facts, hybrid</a>' in get(client, "/changelog")
    run = make.make_submission(make.make_variant("lab/one"), suite).runs.get(
        task__name="facts_hybrid"
    )
    assert ">Facts, hybrid</a>" in get(client, run.get_absolute_url())


@once_per_module
def own_tasks() -> None:
    catalogue.sync(OWN_TASKS)


@pytest.fixture
def own(own_tasks: None, db: None, settings: Any) -> None:
    settings.PLUMBLINE_SUITE = "styles"


def test_our_own_suites_become_boards_and_their_tasks_pages(client: Client, own: None) -> None:
    for suite in Suite.objects.all():
        get(client, f"/?suite={suite.name}" if suite.name != "styles" else "/")
    page = get(client, "/tasks/mmlu_original")
    assert "As the paper’s code" in page
    assert "first version" in page
    assert "mmlu_helm_generate" in page
    get(client, "/tasks/arc_easy@*")
    task = TaskVersion.objects.get(name="arc_challenge")
    assert len(task.asks) == 16
    page = get(client, "/tasks/arc_challenge")
    origin = page[page.index("Where it comes from") :]
    assert '<a href="https://arxiv.org/abs/1803.05457">arXiv:1803.05457</a>' in origin
    assert "licence CC BY-SA 4.0" in origin
    without = TaskVersion.objects.filter(origin="").values_list("name", flat=True)
    assert not list(without), "every benchmark says where it comes from"


def test_where_a_task_comes_from_cannot_bring_markup(client: Client) -> None:
    make.make_suite()
    TaskVersion.objects.update(origin="*Ada* <script>alert(1)</script> [x](javascript:alert(1))")
    page = get(client, "/tasks/facts")
    assert "<em>Ada</em> &lt;script&gt;" in page
    assert 'href="javascript' not in page


def test_published_figures_are_shown_as_reported_elsewhere(client: Client, own: None) -> None:
    page = get(client, "/styles")
    reported = page[page.index("Reported elsewhere") :]
    assert "Not measured here, and in no rank or average of this site" in reported
    assert "Mixtral-8x7B" in reported
    assert "81.3" in reported
    assert "Reported elsewhere" not in get(client, "/styles?suite=demo")
