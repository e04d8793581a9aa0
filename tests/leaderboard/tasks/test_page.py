"""A task's page: versions with their changes, pins, other styles; figures reported elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from evalcore.task.yaml_file import OWN_TASKS
from leaderboard.catalogue import sync as catalogue
from leaderboard.models import Suite, TaskVersion
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db


def get(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200, address
    return response.content.decode()


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


def test_a_task_that_no_suite_asks_is_not_found(client: Client) -> None:
    make.make_suite()
    response = client.get("/tasks/nothing")
    assert response.status_code == 404


@pytest.fixture
def own(settings: Any) -> None:
    settings.PLUMBLINE_SUITE = "styles"
    catalogue.sync(OWN_TASKS)


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
