"""The sample browser: what a search finds, what a filter leaves, and in which order."""

from __future__ import annotations

import html as html_module
import json
import re
import tempfile
from math import log
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.record import write_samples
from leaderboard.models import Artifact, Run, Suite
from leaderboard.samples import store as artifacts
from leaderboard.samples.listing import Samples
from leaderboard.samples.search import Search
from leaderboard.templatetags.marks import sent
from tests.leaderboard import engine_runs
from tests.leaderboard import factories as make
from tests.leaderboard.runs.test_page import characters, get, text


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return make.make_suite(benchmarks=("facts",))


@pytest.fixture
def run(suite: Suite) -> Run:
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    return make.finish(submission.runs.get(task__name="facts_mmlu"), skill=0.5, n=40)


def path_of(run: Run) -> Path:
    return artifacts.path_of(run.artifacts.get(kind=Artifact.Kind.SAMPLES).sha256)


def rows_of(run: Run) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(path_of(run)).to_pylist()
    return rows


def found(path: Path, **wanted: Any) -> list[int]:
    """The numbers of all questions that a search leaves, in its order."""
    with Samples.open(path, Search(**wanted)) as samples:
        pages = range(1, samples.pages + 1)
        return [line.doc_id for page in pages for line in samples.page(page)]


def listed(html: str) -> list[str]:
    """The numbers in the list of a page."""
    return re.findall(r'<span class="meta">(\d+)</span>\s*<span>', html)


# Text


def test_words_are_found_in_either_case_and_as_they_stand(run: Run) -> None:
    assert found(path_of(run), text="TOOL number 7 hangs") == [7]
    assert found(path_of(run), text="number hangs 7") == []


def test_words_of_a_choice_are_found(run: Run) -> None:
    wanted = rows_of(run)[11]["choices"][2]
    assert 11 in found(path_of(run), text=wanted)


def test_words_do_not_run_on_from_one_choice_into_the_next(run: Run) -> None:
    first, second, *_ = rows_of(run)[11]["choices"]
    assert found(path_of(run), text=f"{first} {second}") == []


def test_worked_examples_are_searched_only_on_request(run: Run) -> None:
    assert found(path_of(run), text="worked example") == []
    assert len(found(path_of(run), text="worked example", whole_prompt=True)) == 40


def test_what_the_model_wrote_is_searched(tmp_path: Path, db: None) -> None:
    written = engine_runs.finished(tmp_path, ["toy_written"])["toy_written"]
    rows = rows_of(written)
    for wanted in ("It is 0", "It is 3 or"):
        expected = [
            row["doc_id"]
            for row in rows
            if any(wanted in response["text"] for response in row["responses"])
        ]
        assert expected
        assert found(path_of(written), text=wanted) == expected


WORDS = st.text(
    st.characters(min_codepoint=32, max_codepoint=0x2FFF, exclude_categories=["Cs", "Cc", "Cn"])
    | st.sampled_from(list('\n\t"\\{}:,nrtu%_')),
    max_size=30,
)


@settings(deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=4), st.data())
def test_any_words_of_a_document_find_it(texts: list[str], data: st.DataObject) -> None:
    shown = " ".join(data.draw(st.sampled_from(texts)).split())
    start = data.draw(st.integers(0, len(shown)))
    wanted = shown[start : data.draw(st.integers(start, len(shown)))].strip()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "samples.parquet")
        write_samples(path, [of_document({"context": {"texts": texts}, "number": 1})])
        assert found(path, text=wanted) == [0]
        assert found(path, text="zzqx") == []


def test_names_of_fields_and_line_breaks_are_no_words(tmp_path: Path) -> None:
    path = tmp_path / "samples.parquet"
    document = {
        "question": 'Over\nall \\north, say "yes": no',
        "meta": {"label": 3, "of": ["x", ""]},
    }
    write_samples(path, [of_document(document)])
    for nowhere in ("question", "meta", "label", "nall", "over\\n", "3", "[", "}", '": "'):
        assert found(path, text=nowhere) == [], nowhere
    for there in ("over all", "\\north", "north", '"YES": no', "say", ",", ":", '"', "x"):
        assert found(path, text=there) == [0], there


def test_what_is_searched_for_is_words_and_no_pattern(run: Run) -> None:
    for pattern in (".*", "number (7|8)", "^Which", "tool$", "[a-z]", "\\d", "(?i)tool", "("):
        assert found(path_of(run), text=pattern, whole_prompt=True) == [], pattern


def test_more_letters_than_can_be_searched_for_are_refused(client: Client, run: Run) -> None:
    for many in (201, 4000):
        answer = client.get(f"/runs/{run.pk}?q={'x' * many}", follow=True)
        html = answer.content.decode()
        assert "These are more than 200 letters. Search for fewer." in html
        assert len(listed(html)) == 12
    assert "No question passes this filter" in text(get(client, f"/runs/{run.pk}?q={'ä' * 200}"))


def of_document(doc: dict[str, Any]) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "task": "t",
        "doc_id": 0,
        "doc": json.dumps(doc, ensure_ascii=False),
        "prompt": "",
        "choices": [],
        "gold": [],
        "responses": [],
        "scores": [],
    }


def test_the_list_shows_where_the_words_stand(client: Client, run: Run) -> None:
    html = get(client, f"/runs/{run.pk}?q=Hangs+beside")
    assert html.count('<mark class="hit">hangs beside</mark>') == 12 + 1
    assert "40 of 40 questions" in text(html)


# Filters


def margin_of(row: dict[str, Any]) -> float:
    values = [response["loglikelihood"] for response in row["responses"]]
    (gold,) = row["gold"]
    return float(values[gold] - max(v for place, v in enumerate(values) if place != gold))


def test_close_calls_are_those_within_a_factor_of_two(run: Run) -> None:
    margins = {row["doc_id"]: margin_of(row) for row in rows_of(run)}
    close = [doc for doc, margin in margins.items() if abs(margin) <= log(2)]
    clear = [doc for doc, margin in margins.items() if abs(margin) > log(10)]
    assert close
    assert clear
    assert found(path_of(run), margin="close") == close
    assert found(path_of(run), margin="clear") == clear


def test_the_length_of_the_prompt_is_in_tokens(run: Run) -> None:
    lengths = {r["doc_id"]: r["responses"][0]["n_context_tokens"] for r in rows_of(run)}
    middle = sorted(lengths.values())[20]
    shorter = [doc for doc, length in lengths.items() if length <= middle]
    assert 0 < len(shorter) < 40
    assert found(path_of(run), at_most=middle) == shorter
    assert found(path_of(run), at_least=middle, at_most=middle) == [
        doc for doc, length in lengths.items() if length == middle
    ]


def test_orders_are_by_what_they_say(run: Run) -> None:
    rows = {row["doc_id"]: row for row in rows_of(run)}

    def length(doc: int) -> int:
        return int(rows[doc]["responses"][0]["n_context_tokens"])

    def of_right(doc: int) -> float:
        return float(rows[doc]["responses"][rows[doc]["gold"][0]]["loglikelihood"])

    path = path_of(run)
    assert found(path, sort="file") == list(range(40))
    assert found(path, sort="close") == sorted(rows, key=lambda doc: abs(margin_of(rows[doc])))
    assert found(path, sort="wrong") == sorted(rows, key=lambda doc: margin_of(rows[doc]))
    assert found(path, sort="surprise") == sorted(rows, key=of_right)
    assert found(path, sort="long") == sorted(rows, key=lambda doc: -length(doc))
    assert found(path, sort="short") == sorted(rows, key=length)


def test_a_question_without_a_score_is_neither_right_nor_wrong(
    client: Client, tmp_path: Path, db: None
) -> None:
    rolling = engine_runs.finished(tmp_path, ["toy_rolling"])["toy_rolling"]
    assert found(path_of(rolling), outcome="unmeasured") == list(range(12))
    assert (
        found(path_of(rolling), outcome="wrong") == found(path_of(rolling), outcome="right") == []
    )
    shown = text(get(client, f"/runs/{rolling.pk}"))
    assert "Right 0 Wrong 0 Not scored 12" in shown
    assert "No score of its own" in shown
    assert "Close calls" not in shown


def test_outcomes_are_counted_under_the_other_filters(client: Client, run: Run) -> None:
    rows = [row for row in rows_of(run) if row["subset"] == "tools"]
    right = sum(row["correct"] == 1 for row in rows)
    shown = text(get(client, f"/runs/{run.pk}?outcome=wrong&subset=tools"))
    assert f"All {len(rows)} Right {right} Wrong {len(rows) - right}" in shown


def test_each_filter_can_be_dropped_and_says_what_that_would_show(client: Client, run: Run) -> None:
    html = get(client, f"/runs/{run.pk}?q=number+7+hangs&subset=tools&from=5")
    shown = text(html)
    assert "No question passes all 3 filters" in shown  # question 7 is of the materials
    assert "Drop “number 7 hangs” would show 14 questions" in shown
    assert "Drop tools would show 1 question" in shown
    assert "Drop from 5 tokens would show 0 questions" in shown
    dropped = re.search(r'href="([^"]+)">Drop tools', html)
    assert dropped
    assert html_module.unescape(dropped[1]) == f"/runs/{run.pk}?q=number+7+hangs&from=5#questions"


@pytest.mark.parametrize("typed", ["abc", "-5", "1.5", "9" * 30, "²"])
def test_a_length_that_is_no_number_is_named_and_filters_nothing(
    client: Client, run: Run, typed: str
) -> None:
    response = client.get(f"/runs/{run.pk}", {"from": typed})
    html = response.content.decode()
    assert response.status_code == 200
    assert f"“{typed[:20]}" in html
    assert "is not a number of tokens. Write one such as 500, or nothing." in text(html)
    assert 'aria-invalid="true" aria-describedby="from-problem"' in " ".join(html.split())
    assert len(listed(html)) == 12


@pytest.mark.parametrize(
    "query", ["margin=nonsense", "sort=nonsense", "spaces=yes", "whole=2", "unheard=of"]
)
def test_what_no_form_sends_leads_to_the_plain_page(client: Client, run: Run, query: str) -> None:
    response = client.get(f"/runs/{run.pk}?{query}")
    assert (response.status_code, response.headers.get("Location")) == (302, f"/runs/{run.pk}")


# Ways through the list


def test_neighbours_and_links_keep_filters_and_order(client: Client, run: Run) -> None:
    order = found(path_of(run), outcome="wrong", sort="close")
    third = get(client, f"/runs/{run.pk}?outcome=wrong&sort=close&doc={order[2]}")
    assert f"3 of {len(order)}" in text(third)
    for rel, neighbour in (("prev", order[1]), ("next", order[3])):
        link = f'href="/runs/{run.pk}?outcome=wrong&amp;sort=close&amp;doc={neighbour}#question"'
        assert f'{link} rel="{rel}"' in third


def test_the_permalink_names_the_question_alone(client: Client, run: Run) -> None:
    wrong = found(path_of(run), outcome="wrong")[0]
    html = get(client, f"/runs/{run.pk}?outcome=wrong&sort=long&doc={wrong}")
    assert f'href="/runs/{run.pk}?doc={wrong}#question" rel="bookmark"' in html


def test_a_question_outside_the_filter_is_shown_and_said_to_be(client: Client, run: Run) -> None:
    wrong = found(path_of(run), outcome="wrong")[0]
    shown = text(get(client, f"/runs/{run.pk}?outcome=right&doc={wrong}"))
    assert "The filters leave this question out; the address asks for it." in shown
    assert f"Question {wrong + 1}" in shown


def test_a_group_names_the_task_with_the_number(client: Client, tmp_path: Path, db: None) -> None:
    group = engine_runs.finished(tmp_path, ["toy_group"])["toy_group"]
    html = get(client, f"/runs/{group.pk}?doc=toy_shots:4")
    assert "Question toy_shots 5" in html
    assert "toy_written" in html
    assert client.get(f"/runs/{group.pk}?doc=4").status_code == 404


def test_the_page_asks_the_database_no_more_for_more_questions(
    client: Client, suite: Suite
) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    asked = []
    for task, n in (("facts", 10), ("facts_mmlu", 1000)):
        run = make.finish(submission.runs.get(task__name=task), n=n)
        with CaptureQueriesContext(connection) as queries:
            get(client, f"/runs/{run.pk}?sort=close")
        asked.append(len(queries))
    assert asked[0] == asked[1]


# One question


def test_white_space_is_visible_on_demand_and_by_address(client: Client, suite: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    question = "Tab\there, wide\u00a0space, none\u200bat all"
    run = make.finish(submission.runs.get(task__name="facts"), questions=[question], n=2)
    plain = get(client, f"/runs/{run.pk}?doc=1")
    assert question in characters(plain)
    assert f'href="/runs/{run.pk}?spaces=1&amp;doc=1#question"' in plain
    marked = characters(get(client, f"/runs/{run.pk}?spaces=1&doc=1"))
    assert "Tab→\there,·wide[U+00A0]space,·none[U+200B]at·all↵\nAnswer:" in marked


@given(st.text(), st.text(max_size=3))
def test_marks_take_nothing_from_a_text(prompt: str, searched: str) -> None:
    assert characters(sent(prompt)) == prompt
    assert characters(sent(prompt, "", searched)) == prompt
    marked = characters(sent(prompt, "1", searched))
    assert [c for c in marked if c in prompt and c.isalnum()] or not any(map(str.isalnum, prompt))


def test_each_token_has_its_loglikelihood(client: Client, run: Run) -> None:
    row = rows_of(run)[3]
    html = get(client, f"/runs/{run.pk}?doc=3")
    table = text(html[html.index("Loglikelihoods token by token") :])
    for letter, response in zip("ABCD", row["responses"], strict=True):
        (value,) = response["token_logprobs"]
        (number,) = response["token_ids"]
        assert f"{letter} {letter} {number} {value:.3f}".replace("-", "−") in table


def responses(*texts: list[str | None] | None) -> list[dict[str, Any]]:
    """One for each choice, its tokens numbered from 700."""
    return [
        {
            "key": str(place),
            "kind": "loglikelihood",
            "loglikelihood": -1.5,
            "is_greedy": False,
            "token_ids": [700, 701],
            "token_logprobs": [-1.0, -0.5],
            "token_texts": of_tokens,
            "n_context_tokens": 10,
            "n_truncated": 0,
            "path": "plain",
        }
        for place, of_tokens in enumerate(texts)
    ]


def tokens_table(client: Client, run: Run) -> str:
    html = get(client, f"/runs/{run.pk}?doc=0")
    start = html.index("Loglikelihoods token by token")
    return html[start : html.index("</table>", start)]


def test_each_token_is_shown_by_its_text_and_by_its_number_where_no_text_was_kept(
    client: Client, suite: Suite
) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    read = responses([" wood", "\n<b>"], [" a", None], None, ["stray"])
    run = make.finish(submission.runs.get(task__name="facts_mmlu"), extra={"responses": read}, n=2)
    table = tokens_table(client, run)
    assert table.count('title="token 700"') == 2
    shown = text(table)
    assert "·wood −1.000 ↵ <b> −0.500" in shown
    assert "·a −1.000 701 −0.500" in shown
    assert shown.count("700 −1.000 701 −0.500") == 2
    assert "stray" not in shown
    assert "<b>" not in table


def test_tokens_of_a_withheld_document_show_neither_text_nor_number(
    client: Client, suite: Suite
) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    withheld = {
        "doc": json.dumps({"doc_digest": "d" * 64}),
        "responses": responses([" secret", " answer"], None, None, None),
    }
    run = make.finish(submission.runs.get(task__name="facts_mmlu"), extra=withheld, n=2)
    table = tokens_table(client, run)
    assert "secret" not in table
    assert "700" not in table
    assert text(table).count("−1.000 −0.500") == 4


def test_a_written_answer_stands_with_what_was_taken_from_it(
    client: Client, tmp_path: Path, db: None
) -> None:
    run = engine_runs.finished(tmp_path, ["toy_written"])["toy_written"]
    row = rows_of(run)[2]
    shown = text(get(client, f"/runs/{run.pk}?doc=2"))
    for place, response in enumerate(row["responses"], 1):
        assert f"Answer {place} ended by a stop text {response['text']}" in shown
    taken = {entry["filter"]: json.loads(entry["values"])[0] for entry in row["filtered"]}
    assert f"Taken by strict {taken['strict']}" in shown
    assert f"Taken by flexible {taken['flexible']}" in shown
    assert f"Right answer {row['target']}" in shown


def test_a_whole_sample_has_every_field(run: Run) -> None:
    with Samples.open(path_of(run), Search()) as samples:
        place = samples.facts.place("facts_mmlu", 5)
        assert place is not None
        assert samples.one(place) == rows_of(run)[5]
        assert samples.facts.place("facts_mmlu", 99) is None
        assert samples.facts.place("facts", 5) is None
    gone = Samples.open(path_of(run).with_name("gone"), Search())
    with pytest.raises(FileNotFoundError), gone:
        pass
