"""The compare page as its readers see it: who is ahead, on which questions, and what is refused."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from django.test import Client
from scipy.stats import binomtest

from evalcore.stats import benjamini_hochberg, holm, paired_difference, wilson
from leaderboard.models import HubModel, Run, ScoreVector, Suite, Variant, edition
from leaderboard.samples import store as artifacts
from tests.evalcore.toys import evaluated, write_toys
from tests.leaderboard import engine_runs
from tests.leaderboard import factories as make
from tests.leaderboard.boards import publish
from tests.leaderboard.pages import csv_rows, download, get, json_file, text_of
from tests.leaderboard.rows import once_per_module

N = 60
TASKS = ("facts", "sums")


@once_per_module
def strong_and_weak() -> tuple[Suite, Variant, Variant]:
    suite = make.make_suite(benchmarks=TASKS, styles=("cloze", "mmlu"))
    strong = make.evaluated("lab/strong", suite, {"cloze": 0.9, "mmlu": 0.6}, n=N)
    weak = make.evaluated("lab/weak", suite, {"cloze": 0.4, "mmlu": 0.6}, n=N)
    make.built(suite)
    return suite, strong, weak


@pytest.fixture
def suite(strong_and_weak: tuple[Suite, Variant, Variant], db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return strong_and_weak[0]


@pytest.fixture
def strong(strong_and_weak: tuple[Suite, Variant, Variant], suite: Suite) -> Variant:
    return strong_and_weak[1]


@pytest.fixture
def weak(strong_and_weak: tuple[Suite, Variant, Variant], suite: Suite) -> Variant:
    return strong_and_weak[2]


@pytest.fixture
def pair(strong: Variant, weak: Variant) -> str:
    """The address that compares the two, the strong one as baseline."""
    return address_of(strong, weak)


@pytest.fixture
def runs(strong: Variant, weak: Variant) -> list[Run]:
    """Their runs of the first benchmark."""
    return [run_of(strong, "facts"), run_of(weak, "facts")]


def address_of(*variants: Variant) -> str:
    return f"/compare?m={'%2C'.join(str(variant.pk) for variant in variants)}"


def address_of_runs(*runs: Run) -> str:
    return f"/compare?run={'%2C'.join(str(run.pk) for run in runs)}"


def compared(suite: Suite, *variants: Variant) -> str:
    """The address that compares these, once they are on the board."""
    make.built(suite)
    return address_of(*variants)


def run_of(variant: Variant, task: str) -> Run:
    return variant.runs.get(task__name=task)


def scores(variant: Variant, task: str) -> np.ndarray:
    return np.array([row["correct"] for row in make.samples_of(run_of(variant, task))])


Interval = tuple[float, float, float]
EXACT = r'title="(-?[0-9.e-]+), 95% interval (-?[0-9.e-]+) to (-?[0-9.e-]+)'


def headline(html: str) -> Interval:
    """Value and bounds of the difference that the page is about."""
    value, low, high = re.findall(rf'class="diff num" {EXACT}', html)[0]
    return float(value), float(low), float(high)


def forest_rows(html: str, of: str = 'id="forest"') -> dict[str, str]:
    """The row of each benchmark, or each part."""
    table = html[html.index(of) :]
    rows = re.findall(r'<tr role="row"[^>]*>\s*<th role="rowheader".*?</tr>', table, re.DOTALL)
    return {text_of(re.findall(r"<a [^>]*>(.*?)</a>", row)[0]): row for row in rows}


def differences(html: str, of: str = 'id="forest"') -> dict[str, Interval]:
    """By benchmark value and bounds in full precision."""
    found = {}
    for title, row in forest_rows(html, of).items():
        for value, low, high in re.findall(rf"<b {EXACT}, q", row):
            found[title] = (float(value), float(low), float(high))
    return found


def crosstab(html: str) -> list[int]:
    """Both right, only A, only B, neither."""
    label = re.findall(r"Both right (\d+), only A (\d+), only B (\d+), neither (\d+)", html)
    return [int(number) for number in label[0]]


def criteria(html: str) -> dict[str, list[str]]:
    """By benchmark the cells of how its verdict was reached."""
    table = html[html.index('id="criteria"') :]
    rows = re.findall(r"<tr>\s*<th scope=\"row\">(.*?)</th>(.*?)</tr>", table, re.DOTALL)
    return {
        text_of(title): [text_of(cell) for cell in re.findall(r"<td.*?</td>", cells, re.DOTALL)]
        for title, cells in rows
    }


def title(html: str) -> str:
    return text_of(re.findall(r"<h1[^>]*>(.*?)</h1>", html, re.DOTALL)[0])


def test_the_differences_and_the_exact_test_are_those_of_the_paired_scores(
    client: Client, pair: str, strong: Variant, weak: Variant
) -> None:
    expected = {t.title(): paired_difference(scores(strong, t), scores(weak, t)) for t in TASKS}
    html = get(client, pair)
    found = differences(html)
    assert found.keys() == expected.keys()
    for name, one in expected.items():
        assert found[name] == pytest.approx((one.difference, one.low, one.high), abs=1e-6)
    p_values = holm([one.p_value for one in expected.values()])
    for name, p in zip(expected, p_values, strict=True):
        assert criteria(html)[name][2] == ("< 0.001" if p < 0.001 else f"{p:.3f}")
    html = get(client, f"{pair}&task=facts")
    a, b = scores(strong, "facts") == 1, scores(weak, "facts") == 1
    only_a, only_b = int((a & ~b).sum()), int((~a & b).sum())
    assert crosstab(html) == [int((a & b).sum()), only_a, only_b, int((~a & ~b).sum())]
    p = binomtest(only_a, only_a + only_b).pvalue
    assert (f"p = {p:.3f}" if p >= 0.001 else "p < 0.001") in text_of(html)


def test_the_page_says_what_its_download_holds(client: Client, pair: str) -> None:
    """Every number of the page, made once more from the file of all questions."""
    file = json_file(client, pair.replace("/compare?", "/compare.json?"))
    html = get(client, pair)
    by_task: dict[str, list[tuple[float, float]]] = {}
    for row in file["questions"]:
        by_task.setdefault(row["benchmark"], []).append((row["A.score"], row["B.score"]))
    found, rows, shares = differences(html), forest_rows(html), []
    right = np.zeros(4, int)
    for name, pairs in by_task.items():
        a, b = np.array(pairs).T
        one = paired_difference(a, b)
        shares.append(one)
        assert found[name.title()] == pytest.approx((one.difference, one.low, one.high), abs=1e-6)
        cells = re.findall(r"<b>([\d.]+)</b>", rows[name.title()])
        assert cells == [f"{100 * side.mean():.1f}" for side in (a, b)]
        signed = f"{100 * one.difference:+.1f}".replace("-", "−")
        ends = [f"{100 * end:.1f}".replace("-", "−") for end in (one.low, one.high)]
        assert f"{signed} {' to '.join(ends)}" in text_of(rows[name.title()])
        right += [((a == x) & (b == y)).sum() for x, y in ((1, 1), (1, 0), (0, 1), (0, 0))]
    assert crosstab(html) == right.tolist()
    value, low, high = headline(html)
    assert value == pytest.approx(np.mean([one.difference for one in shares]))
    # About 118 degrees of freedom: a quantile of 1.98.
    error = np.sqrt(sum((one.stderr / len(shares)) ** 2 for one in shares))
    assert (high - low) / 2 == pytest.approx(1.98 * error, rel=2e-3)
    assert f"same {len(file['questions'])} questions" in text_of(html)


def test_the_title_says_who_leads_by_how_much_and_the_cards_have_both_averages(
    client: Client, pair: str, suite: Suite, strong: Variant, weak: Variant
) -> None:
    html = get(client, pair)
    value, low, high = headline(html)
    assert title(html) == f"strong leads weak by {100 * value:.1f} points"
    page = text_of(html[html.index("<main") :])
    assert f"{100 * low:.1f} to {100 * high:.1f}: beyond chance" in page
    board = make.board(suite)
    for variant, letter in ((strong, "A"), (weak, "B")):
        row = board.row_of[variant.pk]
        average = board.average_of(row)
        ends = f"{100 * average.low:.1f}–{100 * average.high:.1f}"
        name = variant.hub_model.name
        maker = variant.hub_model.owner[:2].capitalize()
        card = f"{letter} {maker} {name} {100 * average.value:.1f} {ends} rank {row + 1}"
        assert card in page
    turned = get(client, address_of(weak, strong))
    assert title(turned) == title(html)
    assert headline(turned) == pytest.approx((-value, -high, -low))
    assert "Asked the same way" in page
    assert page.index("beyond chance") < page.index("Asked the same way")
    assert page.index("Asked the same way") < page.index("By benchmark")


def test_the_wins_count_what_is_claimed_of_the_benchmarks(client: Client, pair: str) -> None:
    html = get(client, pair)
    claims = [re.findall(r'class="r d k?(\w?)"', row)[0] for row in forest_rows(html).values()]
    a, b, even = (claims.count(claim) for claim in ("a", "b", ""))
    assert f"A on {a}, B on {b}, even on {even}" in text_of(html)
    wins = html[html.index('class="wins"') : html.index("beyond chance</p>")]
    assert re.findall(r'<i(?: class="(\w)")?></i>', wins) == ["a"] * a + [""] * even + ["b"] * b


def test_a_style_that_turns_two_models_round_is_named(client: Client, suite: Suite) -> None:
    pairs = {"cloze": (0.9, 0.4), "mmlu": (0.4, 0.9)}
    first, second = (
        make.evaluated(
            f"lab/{name}", suite, {style: both[place] for style, both in pairs.items()}, n=N
        )
        for place, name in enumerate(("first", "second"))
    )
    for style in ("own", "cloze", "mmlu"):
        make.built(suite, style)
    address = address_of(first, second)
    in_mmlu = address.replace("?", "?style=mmlu&")
    own, mmlu = get(client, address), get(client, in_mmlu)
    assert title(own).startswith("first leads second by ")
    assert title(mmlu).startswith("second leads first by ")
    value, low, high = headline(mmlu)
    assert f"In MMLU-style, B leads by {100 * abs(value):.1f}" in text_of(own)
    bounds = f"{100 * low:.1f} to {100 * high:.1f}".replace("-", "−")
    assert f"{bounds}: the way of asking turns these two round. See it" in text_of(own)
    assert f'href="{in_mmlu.replace("&", "&amp;")}">See it' in own


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        ("lab/heron-3-7b", "lab/finch-3-7b", "heron-3-7b and finch-3-7b"),
        ("lab/heron-3-7b", "other/heron-3-7b", "lab/heron-3-7b and other/heron-3-7b"),
    ],
)
def test_the_title_has_whole_names_and_makers_where_two_names_are_equal(
    client: Client, suite: Suite, first: str, second: str, names: str
) -> None:
    skill = {"cloze": 0.5, "mmlu": 0.5}
    alike = [make.evaluated(repo_id, suite, skill, n=N) for repo_id in (first, second)]
    assert title(get(client, compared(suite, *alike))) == f"{names} cannot be told apart"


def test_models_that_cannot_be_told_apart_are_not_ranked(client: Client, suite: Suite) -> None:
    skill = {"cloze": 0.5, "mmlu": 0.5}
    alike = [make.evaluated(f"lab/{name}", suite, skill, n=N) for name in ("one", "other")]
    page = get(client, compared(suite, *alike))
    assert title(page) == "one and other cannot be told apart"
    assert " leads " not in title(page)
    assert 'property="og:title" content="one and other cannot be told apart"' in page
    assert "not told apart" in text_of(page[page.index("duel") : page.index("strip")])


@pytest.mark.parametrize(
    ("skill", "seeds"), [(0.75, (1, 2)), (0.62, (1, 2)), (0.51, (19, 19)), (0.9, (1, 2))]
)
def test_a_row_has_one_verdict_and_the_mark_of_it(
    client: Client, suite: Suite, skill: float, seeds: tuple[int, int]
) -> None:
    first, second = make.make_variant("lab/a"), make.make_variant("lab/b")
    for entry in suite.entries.filter(own=True):
        for variant, share, seed in zip((first, second), (skill, 0.5), seeds, strict=True):
            make.finish(make.queued_run(variant, entry), skill=share, n=N, seed=seed)
    found = [paired_difference(scores(first, t), scores(second, t)) for t in TASKS]
    html = get(client, compared(suite, first, second))
    rows = forest_rows(html)
    claims = []
    for task, one, p in zip(TASKS, found, holm([one.p_value for one in found]), strict=True):
        ahead = p <= 0.05 and (one.low > 0 or one.high < 0)
        # What is found in four of five cases: 2.8 standard errors, where the interval has 1.96.
        few = not ahead and (one.high - one.low) / 2 * 2.8016 / 1.96 > 0.05
        claim = ("a" if one.difference > 0 else "b") if ahead else ""
        words = {"a": "A a ahead", "b": "B b ahead", "": "not told apart"}[claim]
        verdict = criteria(html)[task.title()][5]
        assert verdict.startswith("too few questions" if few else words)
        mark = re.findall(r'<circle class="(\S+)"', rows[task.title()])
        assert mark == ["f-" + claim if claim else "hollow"]
        claims.append(claim)
    a, b, even = (claims.count(claim) for claim in ("a", "b", ""))
    assert f"A on {a}, B on {b}, even on {even}" in text_of(html)


def test_the_same_score_on_every_question_is_a_difference_of_exactly_nothing(
    client: Client, suite: Suite
) -> None:
    twins = []
    for name in ("lab/one", "lab/copy"):
        submission = make.make_submission(make.make_variant(name), suite)
        for run in submission.runs.all():
            make.finish(run, skill=0.6, n=N, seed=5)
        twins.append(submission.variant)
    html = get(client, compared(suite, *twins))
    assert title(html) == "one and copy have the same score on every question"
    assert set(differences(html).values()) == {(0, 0, 0)}
    assert headline(html) == (0, 0, 0)
    assert "<circle" not in html
    assert "No question tells one from the other" in text_of(
        get(client, f"{compared(suite, *twins)}&task=facts")
    )


def test_where_every_question_differs_alike_the_scores_are_taken_as_independent(
    client: Client, suite: Suite
) -> None:
    right = make.evaluated("lab/right", suite, {"cloze": 1.0, "mmlu": 0.5}, n=N)
    wrong = make.evaluated("lab/wrong", suite, {"cloze": 0.0, "mmlu": 0.5}, n=N)
    for variant, bounds in ((right, wilson(N, N)), (wrong, wilson(0, N))):
        results = run_of(variant, "facts").results.filter(subset="", metric="acc")
        results.update(low=bounds.low, high=bounds.high)
    html = get(client, compared(suite, right, wrong))
    value, low, high = differences(html)["Facts"]
    assert value == high == 1
    assert 0.9 < low < 0.95
    assert "unpaired" in forest_rows(html)["Facts"]
    assert criteria(html)["Facts"][5].startswith("A right ahead")


def matrix(html: str) -> list[list[str]]:
    """The cells as read, by row."""
    table = html[html.index('class="matrix"') :]
    body = table[table.index("<tbody") : table.index("</tbody>")]
    return [
        [text_of(cell) for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)]
        for row in body.split("<tr>")[1:]
    ]


def test_several_models_are_compared_all_with_all(
    client: Client, suite: Suite, strong: Variant, weak: Variant
) -> None:
    middle = make.evaluated("lab/middle", suite, {"cloze": 0.65, "mmlu": 0.5}, n=N)
    html = get(client, compared(suite, weak, strong, middle))
    assert title(html) == "B leads two"
    shared = re.findall(r'property="og:title" content="([^"]*)"', html)[0]
    assert shared.startswith("strong leads middle and weak")
    names = re.findall(r'<a href="/models/lab/(\w+)"', html[html.index("six-list") :])
    assert names == ["strong", "middle", "weak"], "the best first"
    rows = matrix(html)
    for place, (first, second) in {
        (0, 1): (strong, middle),
        (0, 2): (strong, weak),
        (1, 2): (middle, weak),
    }.items():
        value, low, high = headline(get(client, address_of(first, second)))
        row, column = place
        assert rows[row][column].startswith(f"+{100 * value:.1f} ")
        assert f"{100 * low:.1f} to {100 * high:.1f}" in rows[row][column]
        assert rows[column][row].startswith(f"−{100 * value:.1f} ")
        link = f"m={first.pk}%2C{second.pk}"
        assert f'href="/compare?{link}"' in html
    assert [rows[place][place] for place in range(3)] == [""] * 3
    dots = html[html.index("dots-wide") : html.index("dots-thin")]
    assert re.findall(r'class="mid t-on t-9 t-b"[^>]*>(\w)<', dots).count("A") == len(TASKS)


def test_earlier_addresses_lead_to_the_same_comparison(
    client: Client, suite: Suite, strong: Variant, weak: Variant, pair: str
) -> None:
    middle = make.evaluated("lab/middle", suite, {"cloze": 0.65, "mmlu": 0.5}, n=N)
    address = compared(suite, strong, weak, middle)

    def leads_to(earlier: str) -> str:
        response = client.get(earlier)
        assert response.status_code == 302
        return str(response["Location"])

    assert leads_to(f"{pair}&base={weak.pk}") == address_of(weak, strong)
    assert leads_to(f"{address}&base={middle.pk}") == address_of(middle, strong, weak)
    asked = f"{address}&base={middle.pk}&vs={weak.pk}&task=sums"
    assert leads_to(asked) == f"{address_of(middle, weak)}&task=sums"
    html = get(client, leads_to(asked))
    a, b = scores(middle, "sums") == 1, scores(weak, "sums") == 1
    assert crosstab(html)[1:3] == [int((a & ~b).sum()), int((~a & b).sum())]
    assert leads_to(f"{address}&task=sums") == f"{address_of(strong, weak)}&task=sums"


def test_a_missing_task_is_counted_as_missing_and_spoils_the_average(
    client: Client, suite: Suite, strong: Variant, weak: Variant
) -> None:
    part = make.make_submission(make.make_variant("lab/part"), suite)
    make.finish(part.runs.get(task__name="facts"), skill=0.4, n=N)
    html = get(client, compared(suite, strong, part.variant))
    assert title(html) == "strong leads part on 1 of 1 benchmarks"
    assert "part has no number for Sums that compares" in text_of(html)
    assert "A on 1, B on 0, even on 0" in text_of(html)
    assert "1 without two numbers that compare" in text_of(html)
    assert "queued" in text_of(forest_rows(html)["Sums"])
    several = get(client, address_of(strong, part.variant, weak))
    assert title(several) == "A leads one"
    assert "1–0 benchmarks" in matrix(several)[0]
    assert "compared with part" in several


def test_runs_of_one_benchmark_are_compared_and_their_pins_told(
    client: Client, suite: Suite, strong: Variant, weak: Variant, runs: list[Run]
) -> None:
    Run.objects.filter(variant=weak).update(
        engine_version="0.2.0", environment={"device": "cuda", "torch": "2.9.1"}
    )
    html = get(client, address_of_runs(*runs))
    expected = paired_difference(scores(strong, "facts"), scores(weak, "facts"))
    exactly = pytest.approx((expected.difference, expected.low, expected.high), abs=1e-6)
    assert differences(html)["Facts"] == exactly
    assert headline(html) == exactly
    assert title(html) == f"strong leads weak by {100 * expected.difference:.1f} points on Facts"
    assert "Asked the same way" in text_of(html)
    assert "Computed with different engine and device." in text_of(html)
    assert crosstab(html)
    assert "512 tokens" in text_of(html)
    assert "transformers 5.23.0 not recorded not known" in text_of(html)


def test_runs_that_were_asked_otherwise_are_shown_and_not_subtracted(
    client: Client, suite: Suite, strong: Variant, weak: Variant, runs: list[Run]
) -> None:
    Run.objects.filter(pk=runs[1].pk).update(mode="compat")
    html = text_of(get(client, address_of_runs(*runs)))
    assert "Not asked the same way The same questions, but different scoring mode." in html
    html = get(client, address_of_runs(run_of(strong, "facts"), run_of(weak, "facts_mmlu")))
    assert "Not asked the same thing" in text_of(html)
    assert "asked in another style" in text_of(forest_rows(html)["Facts"])
    assert title(html) == "strong and weak have no numbers that compare"
    assert differences(html) == {}
    assert "venn" not in html
    entry = suite.entries.get(task__name="facts")
    fewer = make.finish(make.queued_run(make.make_variant("lab/fewer"), entry), n=50)
    html = get(client, address_of_runs(run_of(strong, "facts"), fewer))
    assert f"asked other questions (n = {N} and 50)" in text_of(html)
    assert differences(html) == {}
    several = get(client, address_of_runs(*runs, fewer))
    assert "not compared" in text_of(several)
    assert "compared with fewer" in several


def test_what_cannot_be_compared_is_named_and_the_rest_is_compared(
    client: Client, pair: str, suite: Suite, strong: Variant, weak: Variant
) -> None:
    address = pair.replace("%2C", "%2C999999%2Clab%2Fnobody%2C")
    html = text_of(get(client, address))
    assert "No model has the number 999999 on Workshop 1.0" in html
    assert "No model has the ID “lab/nobody”" in html
    assert "strong leads weak" in html
    assert "strong leads weak" in text_of(get(client, "/compare?m=lab%2Fstrong%2Clab%2Fweak"))
    waiting = make.make_submission(make.make_variant("lab/waiting"), suite).runs.get(
        task__name="facts"
    )
    keys = [
        *(str(run_of(variant, "facts").pk) for variant in (strong, weak)),
        str(waiting.pk),
        str(run_of(weak, "sums").pk),
        "00000000-0000-0000-0000-000000000000",
        "no-run",
    ]
    html = text_of(get(client, "/compare?run=" + "%2C".join(keys)))
    assert "lab/waiting on Facts is queued, so it has no answers to compare." in html
    assert "lab/weak was asked Sums, the first Facts." in html
    assert "There is no run 00000000-0000-0000-0000-000000000000" in html
    assert "“no-run” is not a run" in html
    assert "strong leads weak" in html


def test_more_than_six_are_too_many(client: Client, db: None, settings: Any) -> None:
    settings.PLUMBLINE_SUITE = "letters"
    suite = make.make_suite("letters", benchmarks=("letters",), styles=("cloze",))
    variants = [make.evaluated(f"lab/m{place}", suite, {"cloze": 0.5}, n=12) for place in range(7)]
    html = text_of(get(client, compared(suite, *variants)))
    assert "A page compares two to 6 models, and 7 are chosen. Not shown: lab/m6." in html
    assert " m: " not in html
    assert "Six at most" in get(client, address_of(*variants[:6]))


def test_a_flagged_model_says_why(client: Client, pair: str, suite: Suite) -> None:
    HubModel.objects.filter(repo_id="lab/strong").update(flag_reason="Trained on the questions")
    make.built(suite)
    assert "flagged: Trained on the questions" in text_of(get(client, pair))


def test_the_picker_finds_adds_and_suggests_models_and_runs(
    client: Client, pair: str, strong: Variant, weak: Variant
) -> None:
    html = get(client, "/compare")
    assert f'href="/compare?m={strong.pk}"' in html
    for query in ("", "&q=wea"):
        assert f'href="{pair}"' in get(client, f"/compare?m={strong.pk}{query}")
    html = get(client, f"/compare?m={strong.pk}&q=waek")
    assert f'href="{pair}"' in html[html.index("Did you mean") :]
    added = client.get(f"/compare?m={strong.pk}&q=lab%2FWEAK")
    assert (added.status_code, added["Location"]) == (302, pair)
    assert "no other model on this board has “zebra”" in text_of(
        get(client, f"/compare?m={strong.pk}&q=zebra")
    )
    assert "is no regular expression" in text_of(get(client, "/compare?q=%2F(%2F"))
    first, second = run_of(strong, "facts"), run_of(weak, "facts")
    html = get(client, f"/compare?run={first.pk}")
    both = f"/compare?run={first.pk}%2C{second.pk}"
    assert f'href="{both}"' in html
    added = client.get(f"/compare?run={first.pk}&q=http%3A%2F%2Fsite%2Fruns%2F{second.pk}")
    assert (added.status_code, added["Location"]) == (302, both)


def test_before_there_is_a_board_the_page_says_so(client: Client, db: None, settings: Any) -> None:
    settings.PLUMBLINE_SUITE = make.make_suite("unbuilt").name
    assert "Nothing to compare yet" in get(client, "/compare")
    assert client.get("/compare?suite=nothing").status_code == 404


CHANGES: list[dict[str, Any]] = [
    {"engine_version": "9.9.9"},
    {"environment": {"device": "abacus"}},
    {"mode": "compat"},
    {"shots": 25},
    {"fewshot_draw": "other", "shots": 3},
    {"fewshot_seed": 77, "shots": 3},
    {"docs_digest": "f" * 64},
    {"dataset_commits": {"facts": "e" * 40}},
]


def test_every_change_of_a_run_is_followed(client: Client, runs: list[Run]) -> None:
    address = address_of_runs(*runs)
    before = get(client, address)
    assert get(client, address) == before
    for change in CHANGES:
        known = dict.fromkeys(change)
        as_it_was = Run.objects.filter(pk=runs[1].pk).values(*known)[0]
        Run.objects.filter(pk=runs[1].pk).update(**change)
        edition.note("data")  # as every change of a run by the queue does
        assert get(client, address) != before, change
        Run.objects.filter(pk=runs[1].pk).update(**as_it_was)
        edition.note("data")
    assert get(client, address) == before


def test_files_and_vectors_that_come_and_go_are_followed(
    client: Client, pair: str, strong: Variant, weak: Variant
) -> None:
    address = f"{pair}&task=facts"
    whole = get(client, address)
    sha256 = run_of(weak, "facts").artifacts.get(kind="samples").sha256
    file = artifacts.path_of(sha256)
    hidden = file.rename(file.with_suffix(".away"))
    edition.note("data")  # the store tells nobody: it is seen with the next change of anything
    lost = get(client, f"{address}&doc=1")
    assert "not in the store just now" in lost
    assert crosstab(lost) == crosstab(whole), "who was right is known all the same"
    hidden.rename(file)
    edition.note("data")
    assert get(client, address) == whole
    ScoreVector.objects.filter(result__run=run_of(weak, "facts")).delete()
    edition.note("data")
    assert "There is nothing to compare question by question" in text_of(get(client, address))


def test_samples_of_questions_are_not_indexed_and_every_kind_of_link_leads_somewhere(
    client: Client, pair: str
) -> None:
    assert client.get(pair)["X-Robots-Tag"] == "noindex"
    assert "noindex" in get(client, pair)
    html = get(client, f"{pair}&task=facts&doc=7")
    by_kind = {}
    for link in re.findall(r'href="(/compare[^"#]*)', html):
        address = unescape(link)
        by_kind[frozenset(re.findall(r"[?&](\w+)=", address)), address.partition("?")[0]] = address
    assert len(by_kind) > 10
    for address in by_kind.values():
        assert client.get(address).status_code in (200, 302), address


# Question by question


def test_the_list_holds_every_question_where_they_part_the_largest_disagreement_first(
    client: Client, pair: str, runs: list[Run]
) -> None:
    ours, theirs = map(make.samples_of, runs)
    only = [a["doc_id"] for a, b in zip(ours, theirs, strict=True) if a["correct"] > b["correct"]]
    other = [a["doc_id"] for a, b in zip(ours, theirs, strict=True) if a["correct"] < b["correct"]]
    both_wrong = [
        a["doc_id"]
        for a, b in zip(ours, theirs, strict=True)
        if a["correct"] == b["correct"] == 0 and a["pick"] != b["pick"]
    ]
    html = get(client, f"{pair}&task=facts")
    assert f"Only A {len(only)}" in text_of(html)
    assert f"Both wrong, differently {len(both_wrong)}" in text_of(html)
    order = listed(client, f"{pair}&task=facts&show=base")
    assert sorted(order) == only
    for show, expected in (("base", only), ("other", other), ("wrong", both_wrong)):
        found = listed(client, f"{pair}&task=facts&show={show}&sort=file")
        assert found == expected != [], show

    def margin(row: dict[str, Any]) -> float:
        values = [response["loglikelihood"] for response in row["responses"]]
        right = values.pop(row["gold"][0])
        return float(right - max(values))

    both = zip(ours, theirs, strict=True)
    apart = {a["doc_id"]: abs(margin(a) - margin(b)) for a, b in both}
    assert order == sorted(order, key=lambda doc: -apart[doc])
    assert f"{apart[order[0]]:.2f}" in get(client, f"{pair}&task=facts&show=base")


def listed(client: Client, address: str) -> list[int]:
    """The questions of all pages of a list."""
    found: list[int] = []
    for page in range(1, 9):
        html = get(client, address if page == 1 else f"{address}&page={page}")
        section = html[html.index('class="qs"') :]
        # Readers count from 1, files from 0.
        found += [int(number) - 1 for number in re.findall(r'"q-name">(\d+)<', section)]
        if f">{page + 1}</a>" not in section:
            break
    return found


def test_all_questions_are_listed_over_all_benchmarks(
    client: Client, pair: str, strong: Variant, weak: Variant
) -> None:
    html = get(client, pair)
    only_a, only_b = crosstab(html)[1:3]
    assert f"All {only_a + only_b} questions" in text_of(html)
    assert html.count('class="q-name"') == 3, "a few without asking for the list"
    every = f"{pair}&show=all"
    assert f"All {only_a + only_b} Only A {only_a} Only B {only_b}" in text_of(get(client, every))
    assert len(listed(client, every)) == only_a + only_b
    first = next(t for t in TASKS if f'{t.title()} <span class="q-name"' in get(client, every))
    apart = {t: abs((scores(strong, t) - scores(weak, t)).mean()) for t in TASKS}
    assert first == max(apart, key=lambda name: apart[name]), "the farthest apart comes first"


def test_the_list_says_what_both_answered_and_how_sure_they_were(
    client: Client, pair: str, strong: Variant, weak: Variant
) -> None:
    html = get(client, f"{pair}&task=facts&show=base&sort=file")
    (first, *_) = listed(client, f"{pair}&task=facts&show=base&sort=file")
    line = text_of(re.findall(r'<ul class="qs">\s*<li>(.*?)</li>', html, re.DOTALL)[0])
    for variant, letter, mark in ((strong, "A", "✓ right"), (weak, "B", "✗ wrong")):
        row = make.samples_of(run_of(variant, "facts"))[first]
        odds = np.exp([response["loglikelihood"] for response in row["responses"]])
        share = odds[row["pick"]] / odds.sum()
        choice = row["choices"][row["pick"]]
        assert f"{letter} {choice} {mark} {100 * share:.1f} % sure" in line


def test_a_lead_says_how_many_questions_decide_it_and_leads_to_them(
    client: Client, pair: str, strong: Variant, weak: Variant
) -> None:
    html = get(client, pair)
    link = r'<a class="decide" href="([^"]*task=facts[^"]*)">(\d+) questions decide this</a>'
    ((address, number),) = re.findall(link, html)
    right = [int(scores(variant, "facts").sum()) for variant in (strong, weak)]
    # Each question that the stronger alone has right takes one answer of its lead.
    assert int(number) == right[0] - right[1] + 1
    found = client.get(unescape(address).partition("#")[0], follow=True).content.decode()
    assert "The fewest questions without which the other model would be ahead" in found
    assert f"Those that decide it {number}" in text_of(found)


def test_a_question_shows_both_answers_under_one_prompt(
    client: Client, pair: str, strong: Variant, weak: Variant
) -> None:
    ours, theirs = (make.samples_of(run_of(variant, "facts"))[7] for variant in (strong, weak))
    html = get(client, f"{pair}&task=facts&doc=7")
    shown = text_of(html[html.index('id="question"') :])
    assert "Both were sent the same prompt" in shown
    assert unescape(ours["prompt"]).split("\n")[0] in shown
    for row in (ours, theirs):
        assert f"{row['responses'][0]['loglikelihood']:.2f}".replace("-", "−") in shown
    assert f'href="/runs/{run_of(weak, "facts").pk}?doc=7#question"' in html
    assert "doc=7" in html[html.index("Permalink") - 200 : html.index("Permalink")]


def test_prompts_that_differ_are_marked_where_they_do(client: Client, suite: Suite) -> None:
    first = make.evaluated("lab/plain", suite, {"cloze": 0.9, "mmlu": 0.5}, n=N)
    submission = make.make_submission(make.make_variant("lab/chat"), suite)
    for run in submission.runs.all():
        own = [
            {"context": f"<|user|>Question: {run.task.name}?", "continuation": f" {letter}"}
            for letter in "ABCD"
        ]
        make.finish(run, skill=0.2, n=N, extra={"arguments": own, "prompt": own[0]["context"]})
    html = get(client, f"{compared(suite, first, submission.variant)}&task=facts&doc=3")
    assert "They were sent different prompts" in html
    inserted = " ".join(re.findall(r"<ins>([^<]*)</ins>", html))
    assert "user" in inserted
    assert "<del>" in html


def test_withheld_text_stays_withheld(client: Client, suite: Suite) -> None:
    hidden = {"doc": '{"doc_digest": "d"}', "prompt": "sha256:p"}
    variants = []
    for name, skill in (("lab/one", 0.9), ("lab/two", 0.3)):
        submission = make.make_submission(make.make_variant(name), suite)
        for run in submission.runs.all():
            arguments = [{"context": "sha256:p", "continuation": f"sha256:{c}"} for c in "ABCD"]
            make.finish(run, skill=skill, n=N, extra={**hidden, "arguments": arguments})
        variants.append(submission.variant)
    html = get(client, f"{compared(suite, *variants)}&task=facts&doc=1")
    assert "Text withheld" in html
    assert "digests stand in its place" in html
    assert "Which tool" not in html


def test_what_is_not_there_is_named_and_refused_in_words(client: Client, pair: str) -> None:
    for doc in ("999", "nothing", "facts:", "0" * 40, "other:1"):
        html = text_of(get(client, f"{pair}&task=facts&doc={doc.replace(':', '%3A')}"))
        assert f"Facts has no question “{doc[:40]}”" in html
    html = text_of(get(client, f"{pair}&task=facts&part=poetry"))
    assert "part: Facts has no part “poetry”. Choose one from the table." in html
    for address, words in (
        ("/compare.csv", "name two to six models"),
        ("/compare.csv?m=1%2C999999", "No model has the number 999999"),
        (pair.replace("compare", "compare.csv", 1) + "&task=none", "There are facts, sums."),
    ):
        response = client.get(address)
        assert response.status_code == 400
        assert words in response.content.decode()


def test_the_files_hold_every_question_and_the_pins(
    client: Client, pair: str, strong: Variant, weak: Variant
) -> None:
    address = f"{pair}&task=facts"
    rows = csv_rows(client, address.replace("compare", "compare.csv"))
    ours, theirs = make.samples_of(run_of(strong, "facts")), make.samples_of(run_of(weak, "facts"))
    assert [int(row["doc_id"]) for row in rows] == [row["doc_id"] for row in ours]
    assert [float(row["A.score"]) for row in rows] == [row["correct"] for row in ours]
    assert [float(row["B.score"]) for row in rows] == [row["correct"] for row in theirs]
    assert [row["B.pick"] for row in rows] == ["ABCD"[row["pick"]] for row in theirs]
    assert {row["A.model"] for row in rows} == {"lab/strong"}
    parquet = download(client, pair.replace("/compare?", "/compare.parquet?"))
    table = pq.read_table(io.BytesIO(parquet))
    assert table.num_rows == len(TASKS) * N
    assert set(table["benchmark"].to_pylist()) == set(TASKS)
    file = json_file(client, address.replace("compare", "compare.json"))
    for row, question in zip(rows, file["questions"], strict=True):
        told = {name: "" if value is None else value for name, value in question.items()}
        assert [str(told[name]) for name in ("task", "doc_id", "part", "A.pick", "B.pick")] == [
            row[name] for name in ("task", "doc_id", "part", "A.pick", "B.pick")
        ]
        for name in ("A.score", "B.score", "A.margin", "B.margin"):
            assert told[name] == float(row[name])
    assert file["about"]["A.model"] == "lab/strong"
    pins = {(pin["benchmark"], pin["side"]): pin for pin in file["about"]["pins"]}
    assert set(pins) == {("facts", "A"), ("facts", "B")}
    for side, variant in (("A", strong), ("B", weak)):
        run = run_of(variant, "facts")
        assert pins["facts", side]["docs_digest"] == run.docs_digest, "no digest is cut short"
        assert pins["facts", side]["commit"] == variant.commit
        assert pins["facts", side]["environment"] == run.environment
        assert pins["facts", side]["run"].endswith(f"/runs/{run.pk}")


def test_parts_have_the_differences_of_their_own_questions(
    client: Client, pair: str, strong: Variant, weak: Variant
) -> None:
    part = np.array([row["subset"] for row in make.samples_of(run_of(strong, "facts"))])
    a, b = scores(strong, "facts"), scores(weak, "facts")
    expected = {name: paired_difference(a[part == name], b[part == name]) for name in make.PARTS}
    html = get(client, f"{pair}&task=facts")
    rows = forest_rows(html, 'class="byparts"')
    found = differences(html, 'class="byparts"')
    order = sorted(make.PARTS, key=lambda name: -expected[name].difference)
    assert [expected[name].difference for name in rows] == [expected[n].difference for n in order]
    adjusted = benjamini_hochberg([expected[name].p_value for name in make.PARTS])
    for name, p in zip(make.PARTS, adjusted, strict=True):
        one, words = expected[name], text_of(rows[name])
        assert words.startswith(f"{name} {(part == name).sum()} ")
        for side in (a, b):
            assert f" {100 * side[part == name].mean():.1f} " in words
        assert found[name] == pytest.approx([one.difference, one.low, one.high], abs=1e-6)
        claimed = p <= 0.05 and (one.high < 0 or one.low > 0)
        assert ('class="f-' in rows[name]) == claimed


def test_a_part_leads_to_its_own_questions(
    client: Client, pair: str, strong: Variant, weak: Variant
) -> None:
    rows = (make.samples_of(run_of(variant, "facts")) for variant in (strong, weak))
    apart = [
        first["doc_id"]
        for first, second in zip(*rows, strict=True)
        if first["subset"] == "tools" and first["correct"] > second["correct"]
    ]
    html = get(client, f"{pair}&task=facts")
    (address,) = re.findall(r'<a href="([^"#]*)#questions">tools</a>', html)
    assert unescape(address) == f"{pair}&task=facts&part=tools"
    own = get(client, unescape(address))
    assert f"Only A {len(apart)}" in text_of(own)
    assert "Facts, tools: the questions that decide it" in text_of(own)
    assert sorted(listed(client, f"{pair}&task=facts&part=tools&show=base")) == sorted(apart)
    assert f'href="{pair.replace("&", "&amp;")}&amp;task=facts#questions">All parts</a>' in own
    assert "part=tools" not in re.findall(r'href="([^"]*)#questions">Sums</a>', own)[0]


def test_runs_of_every_kind_of_task_can_be_compared(
    client: Client, db: None, tmp_path: Path
) -> None:
    tasks = write_toys(tmp_path)
    for name in engine_runs.ALL:
        (evaluation, *_) = evaluated(tasks, name)
        run, twin = (engine_runs.stored(evaluation, model) for model in ("lab/toy", "lab/twin"))
        address = f"/compare?run={run.pk}%2C{twin.pk}"
        html = get(client, address)
        assert "Asked the same way" in html, name
        first = make.samples_of(run)[0]
        group = len({row["task"] for row in make.samples_of(run)}) > 1
        doc = f"{first['task']}%3A{first['doc_id']}" if group else str(first["doc_id"])
        shown = get(client, f"{address}&doc={doc}")
        by_question = 'id="question"' in shown
        assert by_question != ("There is nothing to compare question by question" in shown), name


def test_a_pair_that_the_board_does_not_tell_apart_says_that_it_tests_all_models(
    client: Client, pair: str, suite: Suite
) -> None:
    assert "leaves their order open" not in get(client, pair)
    board = make.board(suite)
    unknown = np.zeros_like(board.ranks.better)
    publish(replace(board, ranks=replace(board.ranks, better=unknown)), suite)
    told = text_of(get(client, pair))
    assert "The board tests all 2 models at once and leaves their order open." in told
    assert "beyond chance" in told
