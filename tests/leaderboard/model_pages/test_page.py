"""The model page: which commit is ranked, its numbers and ranges, what became of it, its runs."""

from __future__ import annotations

import html as html_module
import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from leaderboard.models import HubModel, Run, Submission, Suite, User, Variant
from leaderboard.snapshot import OWN, published
from tests.leaderboard import factories as make

SKILL = {"cloze": 0.7, "mmlu": 0.5, "hybrid": 0.6}


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return make.make_suite(benchmarks=("facts", "sums"))


def publish(suite: Suite) -> None:
    for style in (OWN, "cloze", "mmlu", "hybrid"):
        published.build(suite, style)


def get(client: Client, address: str = "/models/lab/one") -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


def text(html: str) -> str:
    return " ".join(html_module.unescape(re.sub(r"<[^>]+>", "", html)).split())


def section(html: str, name: str) -> str:
    start = html.index(f'aria-labelledby="{name}"')
    return html[start : html.index("</section>", start)]


def lede(html: str) -> str:
    return text(html.split('<p class="lede">')[1].split("</p>")[0])


def test_the_rank_is_a_range_and_says_who_is_told_apart(client: Client, suite: Suite) -> None:
    make.evaluated("lab/one", suite, dict.fromkeys(SKILL, 0.95), n=200)
    make.evaluated("lab/like", suite, dict.fromkeys(SKILL, 0.94), n=200)
    make.evaluated("lab/worse", suite, dict.fromkeys(SKILL, 0.3), n=200)
    publish(suite)
    board = published.newest(suite, OWN)
    assert board is not None
    row = next(row for row, model in enumerate(board.models) if model.repo_id == "lab/one")
    low, high = board.ranks.low[row], board.ranks.high[row]
    assert (low, high) == (1, 2)
    average = board.average_of(row)
    assert average is not None
    said = lede(get(client))
    assert f"Rank {board.ranks.rank[row]} ({low}–{high}) of 3" in said
    assert f"an average of {100 * average.value:.1f} ±" in said
    assert "shown to be better than 1 model and worse than none; 1 cannot be told apart" in said


def test_every_benchmark_stands_in_every_style_with_its_interval_and_its_run(
    client: Client, suite: Suite
) -> None:
    variant = make.evaluated("lab/one", suite, SKILL)
    publish(suite)
    scores = section(get(client), "scores")
    for run in variant.runs.all():
        result = run.results.get(metric="acc", subset="")
        assert f'href="/runs/{run.pk}"' in scores
        assert f">{100 * result.value:.1f}</a>" in scores
    assert scores.count("<svg") == 6
    assert 'href="/tasks/facts"' in scores


def test_how_far_styles_lie_apart_has_an_interval_and_says_how_it_is_known(
    client: Client, suite: Suite
) -> None:
    make.evaluated("lab/one", suite, {"cloze": 0.9, "mmlu": 0.3, "hybrid": 0.6}, n=100)
    publish(suite)
    spreads = re.findall(
        r"Spread over styles [^|]*?questions", text(section(get(client), "scores"))
    )
    assert len(spreads) == 2
    assert all(
        re.search(r"[\d.]+ ±[\d.]+ points, Cloze over MMLU-style", spread) for spread in spreads
    )
    assert "on the same questions" in spreads[0]


def test_what_has_no_number_says_why_and_leads_to_its_run(client: Client, suite: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    by_task = {run.task.name: run for run in submission.runs.all()}
    make.finish(by_task["facts"])
    make.fail(by_task["facts_mmlu"], "TaskError", "column answer is missing")
    publish(suite)
    html = get(client)
    assert "Not ranked: Sums is queued." in lede(html)
    scores = section(html, "scores")
    assert f'href="/runs/{by_task["facts_mmlu"].pk}">failed</a>' in scores
    assert f'href="/runs/{by_task["sums"].pk}">queued</a>' in scores
    runs = section(html, "runs")
    assert "column answer is missing" in runs
    assert "All 6 Queued 4 Done 1 Failed 1" in text(runs)
    only = section(get(client, "/models/lab/one?state=failed"), "runs")
    assert "column answer is missing" in only
    assert only.count('<tr role="row">') == 2


def test_the_newest_complete_commit_of_a_precision_is_ranked_and_the_page_says_so(
    client: Client, suite: Suite
) -> None:
    older = make.evaluated("lab/one", suite, SKILL, commit="a" * 40)
    newer = make.evaluated("lab/one", suite, SKILL, commit="b" * 40)
    unfinished = make.make_variant("lab/one", commit="c" * 40)
    make.make_submission(unfinished, suite)
    other = make.evaluated("lab/one", suite, SKILL, commit="d" * 40, dtype="bfloat16")
    publish(suite)
    html = get(client)
    revisions = section(html, "revisions")
    assert "the newest that was submitted and has all its numbers is ranked" in text(revisions)
    told = [text(row) for row in revisions.split('<tr role="row">')[2:]]
    assert [row.split()[0] for row in told] == [letter * 12 for letter in "dcba"]
    assert "none: bbbbbbb is newer" in told[3]
    assert "2 columns without a number" in told[1]
    assert not any("none" in told[row] for row in (0, 2))
    assert f"<code>{newer.commit}</code>" in html or f"<code>{other.commit}</code>" in html
    before = get(client, f"/models/lab/one?variant={older.pk}")
    assert "the newer commit bbbbbbb is ranked in its place" in lede(before)
    assert f"<code>{older.commit}</code>" in before


def test_a_variant_of_another_model_is_not_shown(client: Client, suite: Suite) -> None:
    make.make_variant("lab/one")
    stranger = make.make_variant("lab/two")
    asked = client.get(f"/models/lab/one?variant={stranger.pk}&suite=none&state=x")
    assert asked["Location"] == "/models/lab/one"


def test_ranks_in_other_styles_stand_beside(client: Client, suite: Suite) -> None:
    make.evaluated("lab/one", suite, SKILL, n=100)
    make.evaluated("lab/two", suite, {"cloze": 0.2, "mmlu": 0.9, "hybrid": 0.5}, n=100)
    publish(suite)
    places = [text(row) for row in section(get(client), "places").split('<tr role="row">')[2:]]
    assert [row.split(" Workshop")[0][:12] for row in places] == ["Workshop 1.0"] * 4
    assert "Cloze 1 (1–1) of 2" in places[1]
    assert "MMLU-style 2 (2–2) of 2" in places[2]


def test_a_rank_on_an_older_version_of_the_suite_is_kept_apart(
    client: Client, suite: Suite
) -> None:
    make.evaluated("lab/one", suite, SKILL)
    publish(suite)
    newer = make.make_suite(benchmarks=("facts", "riddles"), version="2.0")
    publish(newer)
    html = get(client)
    assert "Riddles is not measured" in lede(html)
    (older,) = [
        text(row)
        for row in section(html, "places").split('<tr role="row">')[2:]
        if "an older version: not comparable" in row
    ]
    assert "Workshop 1.0" in older
    assert 'href="/?suite=demo%401.0' in html


def test_a_flagged_model_has_its_reason_and_no_rank(client: Client, suite: Suite) -> None:
    make.evaluated("lab/one", suite, SKILL)
    HubModel.objects.update(flag_reason="trained on the test questions")
    publish(suite)
    html = get(client)
    assert "Flagged: trained on the test questions" in html
    assert "Flagged, so it has no rank: its average is" in lede(html)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("gone", "No longer on the Hub."),
        ("private", "No longer open to everybody on the Hub."),
        ("renamed", "Renamed on the Hub: it is lab/two now."),
    ],
)
def test_what_became_of_it_is_a_note_and_its_numbers_stay(
    client: Client, suite: Suite, state: str, words: str
) -> None:
    make.evaluated("lab/one", suite, SKILL)
    make.make_variant("lab/two")
    HubModel.objects.filter(repo_id="lab/one").update(
        hub_state=state, renamed_to="lab/two" if state == "renamed" else ""
    )
    publish(suite)
    html = get(client)
    assert words in text(html)
    assert "Rank 1" in lede(html)
    assert ('href="/models/lab/two"' in html) == (state == "renamed")
    assert words not in get(client, "/models/lab/two")


def test_the_same_weights_under_two_names_lead_to_each_other(client: Client, suite: Suite) -> None:
    one, two = make.make_variant("lab/one"), make.make_variant("lab/two")
    make.make_variant("lab/three")
    Variant.objects.filter(pk__in=(one.pk, two.pk)).update(weights_digest="d" * 64)
    assert f'href="/models/lab/two?variant={two.pk}"' in get(client)
    assert f'href="/models/lab/one?variant={one.pk}"' in get(client, "/models/lab/two")
    assert "The same weights" not in get(client, "/models/lab/three")


def test_all_tries_of_a_submitter_in_one_family_are_told(client: Client, suite: Suite) -> None:
    ada, bo = User.objects.create_user("ada"), User.objects.create_user("bo")
    base = make.make_variant("org/base")
    for name, by in (("lab/one", ada), ("lab/two", ada), ("lab/three", bo)):
        tuned = make.make_variant(name)
        Variant.objects.filter(pk=tuned.pk).update(base_model="org/base")
        Submission.objects.create(
            variant=tuned, suite=suite, submitter=by, requested_revision="main"
        )
    Submission.objects.create(
        variant=make.make_variant("lab/one", dtype="bfloat16"),
        suite=suite,
        submitter=ada,
        requested_revision="main",
    )
    told = section(get(client), "family")
    assert "Family of org/base" in text(told)
    expected = (
        "ada has submitted 3 commits or precisions of 2 models of this family, in 3 submissions"
    )
    assert expected in text(told)
    assert "bo has" not in told
    for name in (base.hub_model.repo_id, "lab/two", "lab/three"):
        assert f'href="/models/{name}"' in told


def test_a_model_that_nobody_finished_says_so(client: Client, suite: Suite) -> None:
    make.make_variant("lab/one")
    html = get(client)
    assert "Not ranked: no board has a number of this commit yet." in lede(html)
    assert "Nothing of it is on this board yet." in html


def test_facts_are_those_of_the_hub(client: Client, suite: Suite) -> None:
    variant = make.make_variant("lab/one")
    Variant.objects.update(
        kind="chat", base_model="org/base", moe=True, chat_template_digest="e" * 64
    )
    facts = text(get(client).split('<dl class="bom">')[1].split("</dl>")[0])
    assert variant.commit in facts
    assert "0.41M, mixture of experts" in facts
    assert "Type Chat" in facts
    assert "Base org/base on the Hub" in facts
    assert "has one eeeeeeeeeeee" in facts


def test_it_can_be_compared_pinned_and_downloaded(client: Client, suite: Suite) -> None:
    variant = make.evaluated("lab/one", suite, SKILL)
    publish(suite)
    html = get(client)
    assert f'href="/compare?m={variant.pk}"' in html
    assert f'href="/?pin={variant.pk}"' in html
    (address,) = re.findall(r'href="(/board\.csv[^"]*)"', html)
    rows = b"".join(client.get(html_module.unescape(address))).decode().splitlines()
    assert sum("lab/one" in row for row in rows) == 1


def test_markup_in_names_and_messages_stays_text(client: Client, suite: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    for number, run in enumerate(submission.runs.order_by("pk")):
        if number == 0:
            make.fail(run, "TaskError", "<i>column</i> is missing")
        else:
            make.finish(run)
    suite.entries.update(title='"><b>Facts</b>')
    html = get(client)
    assert "<b>Facts" not in html
    assert "<i>column" not in html
    assert html.count("&quot;&gt;&lt;b&gt;Facts&lt;/b&gt;") > 10


def test_an_unknown_model_is_not_found_and_names_those_close_by(
    client: Client, suite: Suite
) -> None:
    make.make_variant("lab/heron-7b")
    response = client.get("/models/lab/heron-70b")
    html = response.content.decode()
    assert response.status_code == 404
    assert 'href="/models/lab/heron-7b"' in html
    assert 'href="/submit?model=lab/heron-70b"' in html


def test_queries_do_not_grow_with_the_runs(client: Client, suite: Suite) -> None:
    variant = make.evaluated("lab/one", suite, SKILL)
    publish(suite)
    asked = []
    for n in (10, 1_000):
        get(client)  # what a process finds once is no matter of the runs
        more_runs(variant, suite, n)
        with CaptureQueriesContext(connection) as queries:
            html = get(client)
        asked.append(len(queries))
    assert asked[0] == asked[1] < 40
    assert f"1–20 of {Run.objects.count():,}" in html
    last = -(-Run.objects.count() // 20)
    assert f"of {Run.objects.count():,}" in get(client, f"/models/lab/one?runs={last}")


def more_runs(variant: Variant, suite: Suite, n: int) -> None:
    """Failed attempts, each of its own commit and submission."""
    entry, now = suite.entries.all()[0], timezone.now()
    variants = Variant.objects.bulk_create(
        Variant(
            hub_model=variant.hub_model,
            commit=f"{Variant.objects.count() + number:040x}",
            dtype="float32",
            parameters=1,
        )
        for number in range(n)
    )
    Run.objects.bulk_create(
        Run(
            variant=variant,
            task=entry.task,
            shots=0,
            run_key=entry.run_key,
            needed_bytes=1,
            state="failed",
            finished=now,
            error_class="ModelError",
            error_message="no luck",
        )
        for variant in variants
    )
    Submission.objects.bulk_create(
        Submission(variant=variant, suite=suite, requested_revision="main") for variant in variants
    )
