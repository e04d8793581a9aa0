"""The questions of a column, judged over all models in the background, and the task’s page.

And how good a benchmark is as an instrument: on its page, and in the legend of a board.
"""

from __future__ import annotations

import html as html_module
import re
from collections.abc import Callable
from io import BytesIO
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from django.test import Client

from evalcore.stats import block, kendall_tau, minimum_detectable_difference
from leaderboard.models import HubModel, ItemAnalysis, Result, Suite, SuiteEntry, Variant
from leaderboard.samples import store as artifacts
from leaderboard.samples import vectors
from leaderboard.snapshot import EVERY, OWN, published
from leaderboard.stats import separation
from leaderboard.tasks import items
from leaderboard.tasks.health import Health
from tests.leaderboard import factories as make
from tests.leaderboard.pages import csv_rows, get, section, text_of
from tests.leaderboard.rows import once_per_module

WRONG_KEY = 7
"""The question that better models get wrong more often."""
MODELS, N = 18, 40


@once_per_module
def eighteen_models() -> Suite:
    suite = make.make_suite(benchmarks=("facts", "sums"), styles=("cloze", "mmlu"))
    measure(suite, MODELS)
    published.build(suite, OWN)
    return suite


@pytest.fixture
def suite(eighteen_models: Suite, db: None, settings: Any) -> Suite:
    """Models of rising skill were measured on it; no question was judged yet."""
    settings.PLUMBLINE_SUITE = "demo"
    an_hour_later()
    return eighteen_models


@pytest.fixture
def letters(db: None, settings: Any) -> Suite:
    """A suite on which nothing was measured."""
    settings.PLUMBLINE_SUITE = "letters"
    an_hour_later()
    return make.make_suite("letters", benchmarks=("letters",), styles=("cloze", "mmlu"))


def an_hour_later() -> None:
    """Every column may be looked at again."""
    items._looked.clear()


def column(suite: Suite) -> SuiteEntry:
    return suite.entries.get(task__name="facts")


def measure(suite: Suite, models: int, *, start: int = 0) -> None:
    """Models of rising skill, each with its numbers; the key of one question is wrong."""
    for number in range(start, start + models):
        skill = 0.2 + 0.7 * number / 30
        variant = make.make_variant(f"lab/m{number:02}")
        for entry in suite.entries.filter(own=True):
            make.finish(make.queued_run(variant, entry), skill=skill, n=N, seed=number)
        mark(variant, suite, WRONG_KEY, right=number < (start + models) / 2)


def mark(variant: Variant, suite: Suite, question: int, *, right: bool) -> None:
    """Let the model be right or wrong on one question, in its vector."""
    result = own_result(variant, suite)
    matrix = vectors.matrix([result.pk])
    scores = matrix.scores[0].astype(np.float64)
    scores[question] = float(right)
    result.vector.values = vectors.pack_values(scores)
    result.vector.save()


def own_result(variant: Variant, suite: Suite) -> Result:
    return Result.objects.get(
        run__variant=variant, run__task=column(suite).task, subset="", metric="acc"
    )


def matrix(suite: Suite) -> Any:
    """Who was right on which question, models in the order in which they were measured."""
    measured = Variant.objects.filter(hub_model__repo_id__startswith="lab/m").order_by("pk")
    found = vectors.matrix([own_result(variant, suite).pk for variant in measured])
    return found.scores


def table(suite: Suite) -> items.Table:
    found = items.newest(column(suite).comparability_key)
    return items.table(found)


def test_difficulty_discrimination_and_wrong_keys_are_those_of_the_answers(suite: Suite) -> None:
    assert items.analyse_due() == 2
    found, scores = table(suite), matrix(suite)
    assert found.row.models_n == MODELS
    assert found.difficulty == pytest.approx(scores.mean(axis=0))
    rest = scores.sum(axis=1)[:, None] - scores
    for question in np.flatnonzero(found.defined):
        expected = np.corrcoef(scores[:, question], rest[:, question])[0, 1]
        assert found.discrimination[question] == pytest.approx(expected, abs=1e-5)
    assert found.doc_id.tolist() == list(range(N))
    assert WRONG_KEY in np.flatnonzero(found.suspicious)


def test_the_detectable_difference_is_between_neighbours_in_rank_and_agreement_with_the_rest(
    suite: Suite,
) -> None:
    items.analyse_due()
    newest_first = matrix(suite)[::-1]
    ordered = newest_first[np.argsort(-newest_first.mean(axis=1), kind="stable")]
    each = [minimum_detectable_difference(one, other) for one, other in pairwise(ordered)]
    assert table(suite).row.detectable == pytest.approx(np.median(each))
    (found,) = table(suite).agreements
    board = make.board(suite)
    facts, sums = board.scores.value[:, 0], board.scores.value[:, 1]
    assert found.tau == pytest.approx(kendall_tau(facts, sums))
    assert found.low <= found.tau <= found.high
    assert found.low < found.high
    assert (found.models, found.style) == (MODELS, OWN)


def test_ten_models_and_no_fewer_judge_a_question(client: Client, letters: Suite) -> None:
    page = get(client, "/tasks/letters")
    assert "No finished run of it has its file here yet" in page
    for number in range(9):
        make.evaluated(f"lab/few-{number}", letters, {"cloze": 0.5, "mmlu": 0.5}, n=12)
    items.analyse_due()
    assert items.newest(letters.entries.get(style="cloze").comparability_key) is None
    page = " ".join(get(client, "/tasks/letters").split())
    assert "9 models measured so far; questions are judged from 10 on" in page
    assert client.get("/tasks/letters/questions.parquet").status_code == 404
    make.evaluated("lab/few-9", letters, {"cloze": 0.5, "mmlu": 0.5}, n=12)
    an_hour_later()
    items.analyse_due()
    assert client.get("/tasks/letters/questions.parquet").status_code == 200


def test_a_model_counts_once_and_of_very_many_some_are_drawn(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    make.finish(make.queued_run(make.make_variant("lab/m00", commit="f" * 40), column(suite)), n=N)
    Variant.objects.filter(hub_model__repo_id__in=("lab/m01", "lab/m02")).update(
        weights_digest="d" * 64
    )
    HubModel.objects.filter(repo_id="lab/m03").update(flag_reason="trained on the test")
    items.analyse_due()
    assert table(suite).row.models_n == MODELS - 2
    monkeypatch.setattr(items, "MOST", 11)
    items.analyse(column(suite).comparability_key, "now")
    assert table(suite).row.models_n == 11


def test_a_column_is_analysed_again_when_it_has_more_runs_and_has_rested(suite: Suite) -> None:
    assert items.analyse_due() == 2
    assert items.analyse_due() == 0
    first = table(suite).row
    measure(suite, 1, start=MODELS)
    assert items.analyse_due() == 0
    an_hour_later()
    assert items.analyse_due() == 2
    assert table(suite).row.models_n == MODELS + 1
    assert not artifacts.path_of(first.sha256).is_file()
    assert ItemAnalysis.objects.count() == 2


def test_a_column_is_analysed_again_when_one_flag_goes_as_another_comes(suite: Suite) -> None:
    """As many models, and the newest of them is the same."""
    HubModel.objects.filter(repo_id="lab/m03").update(flag_reason="trained on the test")
    items.analyse_due()
    first = table(suite)
    HubModel.objects.filter(repo_id="lab/m03").update(flag_reason="")
    HubModel.objects.filter(repo_id="lab/m05").update(flag_reason="trained on the test")
    an_hour_later()
    assert items.analyse_due() == 2
    assert table(suite).results != first.results
    assert table(suite).row.models_n == first.row.models_n


# The task’s page


def test_the_page_shows_its_first_questions_as_sent_in_each_style(
    client: Client, letters: Suite
) -> None:
    variant = make.evaluated("lab/one", letters, {"cloze": 0.7, "mmlu": 0.5})
    run = variant.runs.get(task__style="cloze")
    asks = section(get(client, "/tasks/letters"), "asks")
    assert f'href="{run.get_absolute_url()}"' in asks
    assert "Which tool number 0 hangs beside" in text_of(asks)
    assert "Which tool number 2 hangs beside" in text_of(asks)
    assert "Which tool number 3 hangs beside" not in text_of(asks)
    beside = asks[: asks.index('class="one-prompt"')]
    assert text_of(beside).count("Which tool number 0") == 2
    assert "␣A" in text_of(beside, between="")
    assert 'href="/tasks/letters_mmlu"' in beside


def test_withheld_text_stays_withheld(client: Client, letters: Suite) -> None:
    run = make.queued_run(make.make_variant("lab/one"), letters.entries.get(style="cloze"))
    withheld = {"doc": '{"doc_digest": "0"}', "prompt": "sha256:00", "choices": []}
    make.finish(run, extra=withheld, n=N)
    asks = section(get(client, "/tasks/letters"), "asks")
    assert "Text withheld" in asks
    assert "Which tool" not in asks


def test_the_page_tells_what_questions_are_worth(client: Client, suite: Suite) -> None:
    items.analyse_due()
    html = get(client, "/tasks/facts")
    row = table(suite).row
    assert f"What it can tell apart {100 * row.detectable:.1f} points Two models" in text_of(html)
    worth = section(html, "worth")
    assert "Over 18 models" in text_of(worth)
    assert 'class="suspect"' in worth
    run = column(suite).task.runs.order_by("-finished")[0]
    assert f'href="{run.get_absolute_url()}?doc={WRONG_KEY}#question"' in worth
    assert f"Which tool number {WRONG_KEY} hangs beside" in text_of(worth)
    assert "orders models as the rest of Workshop does with Kendall’s τ" in text_of(html)


def test_the_ends_of_the_column_and_the_way_to_all_of_it(client: Client, suite: Suite) -> None:
    HubModel.objects.filter(repo_id="lab/m17").update(flag_reason="trained on the test")
    board = make.built(suite)
    place = [one.benchmark for one in board.columns].index("facts")
    names = [model.repo_id for model in board.models]
    best = max((board.scores.value[r, place], n) for r, n in enumerate(names) if n != "lab/m17")[0]
    ends = section(get(client, "/tasks/facts"), "standings")
    shown = re.findall(r'title="([0-9.]+), 95% interval', ends)
    assert len(shown) == 10
    assert float(shown[0]) == pytest.approx(best)
    assert [float(number) for number in shown] == sorted(map(float, shown), reverse=True)
    assert "lab/m17" not in ends
    assert 'href="/?sort=facts"' in ends
    assert client.get("/?sort=facts").status_code == 200
    (address,) = re.findall(r'href="(/board.csv[^"]*)"', ends)
    rows = csv_rows(client, html_module.unescape(address))
    by_name = {row["model"]: float(row["facts.cloze"]) for row in rows}
    assert by_name.keys() == set(names)
    assert max(v for name, v in by_name.items() if name != "lab/m17") == pytest.approx(best)


def test_every_question_can_be_taken_along(client: Client, suite: Suite) -> None:
    items.analyse_due()
    response = client.get("/tasks/facts/questions.parquet")
    assert response["Content-Disposition"].startswith('attachment; filename="')
    rows = pq.read_table(BytesIO(b"".join(response))).to_pylist()  # type: ignore[arg-type]
    assert len(rows) == N
    assert {"task", "doc_id", "difficulty", "discrimination", "suspicious"} <= set(rows[0])
    again = client.get(
        "/tasks/facts/questions.parquet", headers={"If-None-Match": response["ETag"]}
    )
    assert again.status_code == 304


# A benchmark as an instrument


@once_per_module
def suites() -> dict[str, Suite]:
    """By what twelve models' scores are like a suite on which they were measured and analysed."""
    rising, solved = [0.3 + 0.05 * number for number in range(12)], [1.0] * 6 + [0.5] * 6
    made = {
        name: measure_all(name, benchmark, skills)
        for name, benchmark, skills in (
            ("rising", "rivers", rising),
            ("solved", "hills", solved),
            ("equal", "riddles", [0.5] * 12),
        )
    }
    items.analyse_due()
    return made


def measure_all(name: str, benchmark: str, skills: list[float]) -> Suite:
    """Models of these skills, each smaller than the next; in letters all are ten points worse."""
    styles = ("cloze", "mmlu") if name == "rising" else ("cloze",)
    suite = make.make_suite(name, benchmarks=(benchmark,), styles=styles)
    for number, skill in enumerate(skills):
        variant = make.make_variant(f"{name}/m{number:02}", parameters=(number + 1) * 10**8)
        for entry in suite.entries.all():
            of_style = skill if entry.own else max(0.0, skill - 0.1)
            make.finish(make.queued_run(variant, entry), skill=of_style, n=N, seed=number)
    for style in (OWN, EVERY):
        published.build(suite, style)
    return suite


@pytest.fixture
def shown(suites: dict[str, Suite], db: None, settings: Any) -> Callable[[str], Suite]:
    """Makes one of them the site's."""

    def show(name: str) -> Suite:
        settings.PLUMBLINE_SUITE = name
        return suites[name]

    return show


def health(suite: Suite) -> Health:
    key = suite.entries.get(own=True).comparability_key
    found = Health.of_json(ItemAnalysis.objects.get(comparability_key=key).health)
    return found


def test_the_page_tells_signal_and_noise_of_the_stored_answers(
    client: Client, shown: Callable[[str], Suite]
) -> None:
    rising = shown("rising")
    entry = rising.entries.get(own=True)
    results = [
        Result.objects.get(run__variant=variant, run__task=entry.task, subset="", metric="acc").pk
        for variant in Variant.objects.filter(hub_model__repo_id__startswith="rising/").order_by(
            "parameters"
        )
    ]
    matrix = vectors.matrix(results)
    expected = separation(block(matrix.scores), np.arange(12))
    found = health(rising).separation
    assert found.ratio.value == pytest.approx(expected.ratio.value, rel=1e-4)
    told = text_of(section(get(client, "/tasks/rivers"), "health"))
    assert f"Signal to noise {expected.ratio.value:.1f}" in told
    assert f"{100 * expected.signal:.1f} points apart" in told


def test_a_solved_benchmark_is_said_to_be_one_on_its_page_and_on_the_board(
    client: Client, shown: Callable[[str], Suite]
) -> None:
    shown("solved")
    told = text_of(section(get(client, "/tasks/hills"), "health"))
    assert "6 of 12 models have an interval that reaches 100.0" in told
    assert "can no longer tell the best models apart" in told
    care = 'href="/tasks/hills#health" title="Read with care: its best models are at the ceiling"'
    assert care in get(client)


def test_equal_models_give_no_signal_and_todays_board_says_so(
    client: Client, shown: Callable[[str], Suite]
) -> None:
    equal = shown("equal")
    told = text_of(section(get(client, "/tasks/riddles"), "health"))
    assert "not shown that the signal is larger" in told
    assert "models of like size hardly differ beyond noise" in get(client)
    address = f"/?at={make.board(equal).built:%Y-%m-%d}"
    assert "Read with care" in get(client)
    assert "Read with care" not in client.get(address, follow=True).content.decode()


def test_another_style_is_named_with_what_it_moves(
    client: Client, shown: Callable[[str], Suite]
) -> None:
    rising = shown("rising")
    (other,) = health(rising).styles
    board = make.board(rising, EVERY)
    (gap,) = board.gaps
    sign = -1 if board.columns[gap.first].own else 1
    assert (other.style, other.models) == ("mmlu", 12)
    assert other.difference == pytest.approx(sign * np.median(gap.difference.value))
    page = get(client, "/tasks/rivers")
    assert "In the style" in text_of(section(page, "health"))
    (link,) = re.findall(r'href="(/styles\?[^"]*)">who moves', page)
    assert client.get(html_module.unescape(link), follow=True).status_code == 200


def test_too_few_models_have_no_section_and_no_warning(
    client: Client, db: None, settings: Any
) -> None:
    settings.PLUMBLINE_SUITE = "few"
    measure_all("few", "letters", [1.0] * 9)
    items.analyse_due()
    assert 'aria-labelledby="health"' not in get(client, "/tasks/letters")
    assert "Read with care" not in get(client)
