"""The compare page as its readers see it: who is ahead, on which questions, and what is refused."""

from __future__ import annotations

import io
import re
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


def differences(html: str) -> list[tuple[float, float, float]]:
    """Value and bounds of each difference by task in full precision, that of the average last."""
    forest = html[html.index('id="forest"') :]
    number = r"(-?[0-9.e-]+)"
    found = re.findall(rf'title="{number}, 95% interval {number} to {number}, q', forest)
    return [(float(value), float(low), float(high)) for value, low, high in found]


def forest_rows(html: str) -> list[str]:
    """The rows of tasks, then that of the average."""
    forest = html[html.index("tbl forest") : html.index('class="hang"')]
    return forest.split('<tr role="row"')[2:]


def crosstab(html: str) -> list[int]:
    """Both right, only the baseline, only the other, both wrong."""
    table = html[html.index('class="two"') :]
    return [int(n) for n in re.findall(r"<b>(\d+)</b>", table)[:4]]


def p_values(html: str) -> list[str]:
    return [unescape(cell).strip() for cell in re.findall(r'data-l="p">([^<]*)<', html)]


def test_the_differences_and_the_exact_test_are_those_of_the_paired_scores(
    client: Client, pair: str, strong: Variant, weak: Variant
) -> None:
    expected = [paired_difference(scores(weak, t), scores(strong, t)) for t in TASKS]
    html = get(client, pair)
    found = differences(html)
    for one, by_task in zip(found, expected, strict=False):
        assert one == pytest.approx((by_task.difference, by_task.low, by_task.high), abs=1e-6)
    corrected = holm([one.p_value for one in expected])
    assert p_values(html)[:2] == ["< 0.001" if p < 0.001 else f"{p:.3f}" for p in corrected]
    html = get(client, f"{pair}&task=facts")
    a, b = scores(strong, "facts") == 1, scores(weak, "facts") == 1
    only_a, only_b = int((a & ~b).sum()), int((~a & b).sum())
    assert crosstab(html) == [int((a & b).sum()), only_a, only_b, int((~a & ~b).sum())]
    p = binomtest(only_a, only_a + only_b).pvalue
    assert (f"p = {p:.3f}" if p >= 0.001 else "p < 0.001") in text_of(html)


def test_the_average_adds_the_tasks_as_independent_parts(
    client: Client, pair: str, suite: Suite, strong: Variant, weak: Variant
) -> None:
    by_task = [paired_difference(scores(weak, t), scores(strong, t)) for t in TASKS]
    variances = [(part.stderr / 2) ** 2 for part in by_task]
    value, low, high = differences(get(client, pair))[-1]
    assert value == pytest.approx(sum(part.difference for part in by_task) / 2)
    # About 118 degrees of freedom: a quantile of 1.98.
    assert (high - low) / 2 == pytest.approx(1.98 * np.sqrt(sum(variances)), rel=2e-3)
    board = make.board(suite)
    averages = [board.average.value[board.row_of[variant.pk]] for variant in (weak, strong)]
    assert value == pytest.approx(averages[0] - averages[1])


def test_the_verdict_comes_first_and_says_who_is_ahead_and_by_how_much(
    client: Client, pair: str, suite: Suite, strong: Variant, weak: Variant
) -> None:
    html = get(client, pair)
    page = text_of(html[html.index("<main") :])
    assert re.search(r"strong is ahead of weak by [0-9.]+ points \([0-9.]+ to [0-9.]+\)\.", page)
    assert "strong is ahead of weak on Facts and Sums." in page
    found = "A difference this large is found in four of five such measurements, or more often."
    assert found in page
    assert "2 differences on this page (Holm)" in page
    assert page.index("strong is ahead of weak by") < page.index("Both were asked the same thing")
    assert page.index("Both were asked the same thing") < page.index("Task by task")
    apart = {t: abs((scores(strong, t) - scores(weak, t)).mean()) for t in TASKS}
    farthest = max(apart, key=lambda name: apart[name])
    assert f"{farthest.title()}: who is right where" in page
    assert "Questions they answered differently" in page
    # Its links name the task, in case another one lies farthest apart by then.
    (first, *_) = re.findall(r'href="([^"]*doc=[^"]*)"', html)
    assert f"task={farthest}&amp;" in first
    other = next(name for name in TASKS if name != farthest)
    assert f"{other.title()}: who is right where" in text_of(get(client, f"{pair}&task={other}"))


def test_models_that_cannot_be_told_apart_are_not_ranked(client: Client, suite: Suite) -> None:
    skill = {"cloze": 0.5, "mmlu": 0.5}
    alike = [make.evaluated(f"lab/{name}", suite, skill, n=N) for name in ("one", "other")]
    page = get(client, compared(suite, *alike))
    html = text_of(page)
    assert "one and other cannot be told apart: the difference is " in html
    assert " is ahead of " not in html
    assert 'property="og:title" content="one and other cannot be told apart: ' in page


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
    found = [paired_difference(scores(second, t), scores(first, t)) for t in TASKS]
    said, states = [], []
    for one, p in zip(found, holm([one.p_value for one in found]), strict=True):
        ahead = p <= 0.05 and (one.low > 0 or one.high < 0)
        # What is found in four of five cases: 2.8 standard errors, where the interval has 1.96.
        few = not ahead and (one.high - one.low) / 2 * 2.8016 / 1.96 > 0.05
        states.append("ahead" if ahead else "few" if few else "open")
        who = "B b" if one.difference > 0 else "A a"
        said.append({"ahead": f"{who} ahead", "few": "too few questions", "open": "not told apart"})
    html = get(client, compared(suite, first, second))
    assert verdicts(html)[:2] == [words[state] for words, state in zip(said, states, strict=True)]
    assert marks(html)[:2] == states
    claims = [t.title() for t, state in zip(TASKS, states, strict=True) if state == "ahead"]
    summary = text_of(html[html.index('aria-labelledby="forest"') : html.index('id="forest"')])
    assert [t.title() in summary.partition("How many")[0] for t in TASKS] == [
        t.title() in claims for t in TASKS
    ]
    better, worse, equal = re.findall(r"B b [+−]\S+ ±\S+ (\d) (\d) (\d) 0 ", summary)[0]
    assert (int(better) + int(worse), int(equal)) == (len(claims), 2 - len(claims))


def verdicts(html: str) -> list[str]:
    """By row the verdict, without the questions that decide it."""
    reading = r'class="reading[^>]*>(.*?)(?:<a class="decide".*?)?</td>'
    return [text_of(re.findall(reading, row, re.DOTALL)[0]) for row in forest_rows(html)]


def marks(html: str) -> list[str]:
    """By row its mark: a full circle, an empty one, or a stroke."""
    return [re.findall(r'class="(\w*)"', row)[0] for row in forest_rows(html)]


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
    assert "one and copy have the same score on every question." in text_of(html)
    assert differences(html)[0] == (0, 0, 0)
    forest = html[html.index("tbl forest") : html.index('id="criteria"')]
    assert 'class="dot"' not in forest
    assert text_of(forest).count("same on every question") == 3
    detail = get(client, f"{compared(suite, *twins)}&task=facts")
    assert "no question tells one from the other" in text_of(detail)


def test_where_every_question_differs_alike_the_scores_are_taken_as_independent(
    client: Client, suite: Suite
) -> None:
    right = make.evaluated("lab/right", suite, {"cloze": 1.0, "mmlu": 0.5}, n=N)
    wrong = make.evaluated("lab/wrong", suite, {"cloze": 0.0, "mmlu": 0.5}, n=N)
    for variant, bounds in ((right, wilson(N, N)), (wrong, wilson(0, N))):
        results = run_of(variant, "facts").results.filter(subset="", metric="acc")
        results.update(low=bounds.low, high=bounds.high)
    html = get(client, compared(suite, right, wrong))
    value, low, high = differences(html)[0]
    assert value == low == -1
    assert -0.95 < high < -0.9
    assert "unpaired" in html
    assert "A right ahead" in text_of(html)


def test_several_models_stand_against_the_baseline_that_the_reader_chooses(
    client: Client, suite: Suite, strong: Variant, weak: Variant
) -> None:
    middle = make.evaluated("lab/middle", suite, {"cloze": 0.65, "mmlu": 0.5}, n=N)
    address = compared(suite, strong, weak, middle)
    html = text_of(get(client, address))
    assert "Against strong: weak and middle are behind." in html
    assert "4 differences on this page (Holm)" in html
    html = text_of(get(client, f"{address}&base={middle.pk}"))
    assert "Against middle: strong is ahead; weak is behind." in html
    detail = get(client, f"{address}&base={middle.pk}&vs={weak.pk}&task=sums")
    a, b = scores(middle, "sums") == 1, scores(weak, "sums") == 1
    assert crosstab(detail)[1:3] == [int((a & ~b).sum()), int((~a & b).sum())]


def test_a_missing_task_is_counted_as_missing_and_spoils_the_average(
    client: Client, suite: Suite, strong: Variant
) -> None:
    part = make.make_submission(make.make_variant("lab/part"), suite)
    make.finish(part.runs.get(task__name="facts"), skill=0.4, n=N)
    html = text_of(get(client, compared(suite, strong, part.variant)))
    assert "There is no difference of averages: part has no number for Sums that compares." in html
    assert "queued" in html
    table = html[html.index("Tasks: better") :]
    assert re.search(rf"B part .*? 0 1 0 1 \d+ \d+ \d+ {N} ", table)


def test_runs_of_one_benchmark_are_compared_and_their_pins_told(
    client: Client, suite: Suite, strong: Variant, weak: Variant, runs: list[Run]
) -> None:
    Run.objects.filter(variant=weak).update(
        engine_version="0.2.0", environment={"device": "cuda", "torch": "2.9.1"}
    )
    html = get(client, address_of_runs(*runs))
    expected = paired_difference(scores(weak, "facts"), scores(strong, "facts"))
    (found,) = differences(html)
    assert found == pytest.approx((expected.difference, expected.low, expected.high), abs=1e-6)
    assert "Both were asked the same thing. Computed otherwise: engine and device." in text_of(html)
    assert crosstab(html)
    assert "512 tokens" in text_of(html)
    assert "transformers 5.23.0 not recorded not known" in text_of(html)


def test_runs_that_were_asked_otherwise_are_shown_and_not_subtracted(
    client: Client, suite: Suite, strong: Variant, weak: Variant, runs: list[Run]
) -> None:
    Run.objects.filter(pk=runs[1].pk).update(mode="compat")
    html = text_of(get(client, address_of_runs(*runs)))
    assert "asked the same questions, but not in the same way: scoring mode." in html
    html = get(client, address_of_runs(run_of(strong, "facts"), run_of(weak, "facts_mmlu")))
    assert "They were not asked the same thing: other prompt style." in text_of(html)
    assert "asked in another style: MMLU-style, the baseline Cloze" in text_of(html)
    assert differences(html) == []
    assert 'class="two"' not in html
    entry = suite.entries.get(task__name="facts")
    fewer = make.finish(make.queued_run(make.make_variant("lab/fewer"), entry), n=50)
    html = get(client, address_of_runs(run_of(strong, "facts"), fewer))
    assert "other questions than the baseline’s (n = 50)" in text_of(html)
    assert differences(html) == []


def test_what_cannot_be_compared_is_named_and_the_rest_is_compared(
    client: Client, pair: str, suite: Suite, strong: Variant, weak: Variant
) -> None:
    address = pair.replace("%2C", "%2C999999%2Clab%2Fnobody%2C")
    html = text_of(get(client, address))
    assert "No model has the number 999999 on Workshop 1.0" in html
    assert "No model has the ID “lab/nobody”" in html
    assert "strong is ahead of weak" in html
    assert "strong is ahead of weak" in text_of(get(client, "/compare?m=lab%2Fstrong%2Clab%2Fweak"))
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
    assert "lab/weak was asked Sums, the baseline Facts." in html
    assert "There is no run 00000000-0000-0000-0000-000000000000" in html
    assert "“no-run” is not a run" in html
    assert "strong is ahead of weak" in html


def test_more_than_six_are_too_many(client: Client, db: None, settings: Any) -> None:
    settings.PLUMBLINE_SUITE = "letters"
    suite = make.make_suite("letters", benchmarks=("letters",), styles=("cloze",))
    variants = [make.evaluated(f"lab/m{place}", suite, {"cloze": 0.5}, n=12) for place in range(7)]
    html = text_of(get(client, compared(suite, *variants)))
    assert "A page compares two to 6 models, and 7 are chosen. Not shown: lab/m6." in html
    assert " m: " not in html
    assert "m0 and 5 others" in html


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
    assert f"Only strong, {len(only)}" in text_of(html)
    assert f"Both wrong, differently, {len(both_wrong)}" in text_of(html)
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
        table = html[html.index("parting") :]
        # Readers count from 1, files from 0.
        numbers = re.findall(r'class="full">\s*<a href="[^"]*">(\d+)</a>', table)
        found += [int(number) - 1 for number in numbers]
        if f">{page + 1}</a>" not in table:
            break
    return found


def test_a_lead_says_how_many_questions_decide_it_and_leads_to_them(
    client: Client, pair: str, strong: Variant, weak: Variant
) -> None:
    html = get(client, pair)
    link = r'<a class="decide" href="([^"]+)">(\d+) questions decide this</a>'
    (said,) = re.findall(link, forest_rows(html)[0])
    address, number = unescape(said[0]), int(said[1])
    scores = [
        ScoreVector.objects.get(
            result__run__variant=variant, result__task_name="facts", result__metric="acc"
        )
        for variant in (strong, weak)
    ]
    right = [np.unpackbits(np.frombuffer(one.values, np.uint8), count=N).sum() for one in scores]
    lead = int(right[0]) - int(right[1])
    # Each question that the stronger alone has right takes one answer of its lead.
    assert number == lead + 1
    listed = client.get(address.partition("#")[0], follow=True).content.decode()
    assert "The fewest questions without which the other model would be ahead" in listed
    shown = re.search(r"Those that decide the lead,\s+(\d+)</a>", listed)
    assert int(shown[1]) == number


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
    assert "text withheld" in html
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


def by_part(html: str) -> dict[str, list[str]]:
    """The cells of each part, as read."""
    table = html[html.index("byparts") :]
    body = table[table.index("<tbody") : table.index("</tbody>")]
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in body.split("<tr")]
    return {text_of(row[0]).split()[0]: [text_of(cell) for cell in row] for row in rows if row}


def test_parts_have_the_differences_of_their_own_questions(
    client: Client, pair: str, strong: Variant, weak: Variant
) -> None:
    part = np.array([row["subset"] for row in make.samples_of(run_of(strong, "facts"))])
    a, b = scores(strong, "facts"), scores(weak, "facts")
    expected = {name: paired_difference(b[part == name], a[part == name]) for name in make.PARTS}
    html = get(client, f"{pair}&task=facts")
    found = by_part(html)
    titles = {name: html[html.index(f">{name}</a>") :] for name in make.PARTS}
    order = sorted(make.PARTS, key=lambda name: -expected[name].difference)
    assert [expected[name].difference for name in found] == [expected[n].difference for n in order]
    adjusted = benjamini_hochberg([expected[name].p_value for name in make.PARTS])
    for name, p in zip(make.PARTS, adjusted, strict=True):
        cells, one = found[name], expected[name]
        assert cells[0] == f"{name} {(part == name).sum()}"
        assert cells[1:3] == [f"{100 * side[part == name].mean():.1f}" for side in (a, b)]
        value = f"{100 * one.difference:+.1f}".replace("-", "−")
        assert cells[3] == f"{value} ±{100 * (one.high - one.low) / 2:.1f}"
        full = re.search(r'title="(\S+), 95% interval (\S+) to (\S+)"', titles[name])
        exact = [float(number) for number in full.groups()]
        assert exact == pytest.approx([one.difference, one.low, one.high], abs=1e-6)
        assert cells[5] == ("< 0.001" if p < 0.001 else f"{p:.3f}")
        claimed = p <= 0.05 and (one.high < 0 or one.low > 0)
        assert (cells[6].endswith("ahead")) == claimed


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
    assert f"Only strong, {len(apart)}" in text_of(own)
    assert "Questions they answered differently, tools" in text_of(own)
    assert sorted(listed(client, f"{pair}&task=facts&part=tools&show=base")) == sorted(apart)
    assert f'href="{pair.replace("&", "&amp;")}&amp;task=facts#questions">All parts</a>' in own
    assert "part=tools" not in re.findall(r'href="([^"]*)#task">Sums</a>', own)[0]


def test_runs_of_every_kind_of_task_can_be_compared(
    client: Client, db: None, tmp_path: Path
) -> None:
    tasks = write_toys(tmp_path)
    for name in engine_runs.ALL:
        (evaluation, *_) = evaluated(tasks, name)
        run, twin = (engine_runs.stored(evaluation, model) for model in ("lab/toy", "lab/twin"))
        address = f"/compare?run={run.pk}%2C{twin.pk}"
        html = get(client, address)
        assert "asked the same thing" in html, name
        first = make.samples_of(run)[0]
        group = len({row["task"] for row in make.samples_of(run)}) > 1
        doc = f"{first['task']}%3A{first['doc_id']}" if group else str(first["doc_id"])
        shown = get(client, f"{address}&doc={doc}")
        by_question = 'id="question"' in shown
        assert by_question != ("There is nothing to compare question by question" in shown), name
