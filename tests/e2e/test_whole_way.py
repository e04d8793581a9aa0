"""From a Hub ID in a form to a ranked row and its samples, in a real browser.

The process tree is the real one, on a home folder and port of its own; the models are the demo's,
served by the local Hub; nothing is mocked and the database is never looked into.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.hub import serve
from tests.runners import place
from tests.services import postgresql, redis
from tests.shots import Shots

ROOT = Path(__file__).resolve().parents[2]
OWNER = "plumbline-demo"
MODELS = sorted(path.name for path in (ROOT / "demo/content/models" / OWNER).iterdir())
EVALUATED = 900_000
"""Milliseconds for one model on a busy machine; alone it takes a tenth of that."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """The address of a site that has no model yet, on PostgreSQL and Redis."""
    with (
        postgresql() as database,
        redis(tmp_path) as broker,
        serve([ROOT / "demo" / "content"]) as hub,
    ):
        variables = place.environment(
            tmp_path / "home", ROOT / "tasks", hub, PLUMBLINE_SUITE="demo",
            PLUMBLINE_DATABASE_URL=database, PLUMBLINE_BROKER_URL=broker,
        )  # fmt: skip
        with place.tree(variables, tmp_path / "log") as tree:
            tree.wait_for_site()
            yield f"http://127.0.0.1:{variables['PLUMBLINE_PORT']}"


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context(accept_downloads=True)
    yield context.new_page()
    context.close()


def wait_for_the_next_board(page: Page, site: str, row: Locator) -> None:
    """Load the board until it shows the row without a run on its way: boards rest for seconds."""

    def is_there() -> bool:
        page.goto(site)
        return bool(row.count()) and not re.search("queued|running", row.inner_text())

    place.wait_until(is_there, 300, lambda: f"the board shows {row.all_inner_texts()}")


@pytest.mark.services
@pytest.mark.browser
def test_a_pasted_id_becomes_a_ranked_row_with_every_sample_behind_it(
    site: str, page: Page, tmp_path: Path, shot: Shots
) -> None:
    name = MODELS[0]
    page.goto(site)
    shot(page, "an empty board")
    expect(page.locator("main")).to_contain_text("no model", ignore_case=True)

    page.get_by_role("link", name="Submit").first.click()
    page.get_by_label("Model", exact=False).first.fill(f"{OWNER}/{name}")
    shot(page, "the form")
    page.get_by_role("button", name="Submit", exact=False).last.click()
    expect(page).to_have_url(re.compile(r"/submissions/[0-9a-f-]{36}"))
    shot(page, "submitted")
    runs = page.locator("main a[href^='/runs/']")
    assert runs.count() >= 6

    # The page refreshes itself; nobody reloads it.
    done = re.compile(r"\bDone\b", re.IGNORECASE)
    expect(page.locator("main").get_by_text(done)).not_to_have_count(0, timeout=EVALUATED)
    page.wait_for_function(
        "() => !document.querySelector('.prog .waits, .prog .run')",
        timeout=EVALUATED,
    )

    shot(page, "evaluated")

    row = page.locator("tbody tr.row").filter(has_text=name)
    wait_for_the_next_board(page, site, row)
    expect(row).to_have_count(1)
    expect(row).not_to_contain_text("failed")
    shot(page, "its row on the board")
    score = row.locator("a[href^='/runs/']").first
    shown = float(re.search(r"\d+\.\d", score.inner_text())[0])
    score.click()

    expect(page).to_have_title(re.compile(name))
    with page.expect_download() as waiting:
        page.locator("a[href$='samples.jsonl']").first.click()
    file = tmp_path / "samples.jsonl"
    waiting.value.save_as(file)
    samples = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(samples) >= 200
    assert round(100 * sum(sample["acc"] for sample in samples) / len(samples), 1) == shown

    page.goto(page.url.split("?")[0] + "?outcome=wrong")
    wrong = [sample for sample in samples if not sample["acc"]]
    expect(page.locator("main")).to_contain_text(f"{len(wrong)} of {len(samples)}")
    prompt = wrong[0]["arguments"]["gen_args_0"]["arg_0"]
    expect(page.locator("main")).to_contain_text(prompt.splitlines()[0])
    shot(page, "its wrong answers")
