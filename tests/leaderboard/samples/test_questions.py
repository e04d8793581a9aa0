"""The questions of a run, on its page: which are listed, and what stands with each of them.

What a search finds, what a filter leaves and in which order; images, sounds and thoughts; and no
word where none may be shown.
"""

from __future__ import annotations

import html as html_module
import json
import re
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from math import log
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from evalcore.model.pictures import Picture
from evalcore.model.sounds import Recording, Sound
from evalcore.record import write_samples
from leaderboard.models import Run, Suite
from leaderboard.runs import headline, picture
from leaderboard.runs.downloads import DIALECTS
from leaderboard.samples import read_question
from leaderboard.samples.listing import Samples, Search
from leaderboard.templatetags.marks import sent
from tests.drawn import drawn
from tests.evalcore.toys import evaluated, write_toys
from tests.leaderboard import engine_runs
from tests.leaderboard import factories as make
from tests.leaderboard.conftest import characters, get, text_of
from tests.senses import sound_file, tone

pytestmark = pytest.mark.django_db


@pytest.fixture
def suite(settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return make.make_suite(benchmarks=("facts",))


@pytest.fixture
def run(suite: Suite) -> Run:
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    return make.finish(submission.runs.get(task__name="facts_mmlu"), skill=0.5, n=40)


def found(searched: Run | Path, **wanted: Any) -> list[int]:
    """The numbers of all questions that a search leaves, in its order."""
    path = make.samples_path(searched) if isinstance(searched, Run) else searched
    with Samples.open(path, Search(**wanted)) as samples:
        pages = range(1, samples.pages + 1)
        return [line.doc_id for page in pages for line in samples.page(page)]


def listed(html: str) -> list[str]:
    """The numbers in the list of a page."""
    return re.findall(r'<span class="i">(\d+)</span>', html)


# Text


def test_words_are_found_in_either_case_and_worked_examples_only_on_request(run: Run) -> None:
    assert found(run, text="TOOL number 7 hangs") == [7]
    assert found(run, text="number hangs 7") == []
    first, second, third, _ = make.samples_of(run)[11]["choices"]
    assert 11 in found(run, text=third)
    assert found(run, text=f"{first} {second}") == [], "choices do not run on"
    assert found(run, text="worked example") == []
    assert len(found(run, text="worked example", whole_prompt=True)) == 40
    for pattern in (".*", "number (7|8)", "^Which", "tool$", "[a-z]", "\\d", "(?i)tool", "("):
        assert found(run, text=pattern, whole_prompt=True) == [], pattern


def test_what_the_model_wrote_is_searched(tmp_path: Path) -> None:
    written = engine_runs.finished(tmp_path, ["toy_written"])["toy_written"]
    rows = make.samples_of(written)
    for wanted in ("It is 0", "It is 3 or"):
        expected = [
            row["doc_id"]
            for row in rows
            if any(wanted in response["text"] for response in row["responses"])
        ]
        assert expected
        assert found(written, text=wanted) == expected


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


def test_more_letters_than_can_be_searched_for_are_refused_and_what_no_form_sends_left_out(
    client: Client, run: Run
) -> None:
    html = client.get(f"/runs/{run.pk}?q={'x' * 201}", follow=True).content.decode()
    assert "These are more than 200 letters. Search for fewer." in html
    assert len(listed(html)) == 12
    assert "No question passes this filter" in text_of(get(client, f"/runs/{run.pk}?q={'ä' * 200}"))
    for query in ("margin=nonsense", "sort=nonsense", "spaces=yes", "whole=2", "unheard=of"):
        response = client.get(f"/runs/{run.pk}?{query}")
        assert response.headers.get("Location") == f"/runs/{run.pk}", query


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


def test_the_list_shows_where_the_words_stand_and_counts_outcomes_under_the_other_filters(
    client: Client, run: Run
) -> None:
    html = get(client, f"/runs/{run.pk}?q=Hangs+beside")
    assert html.count('<mark class="hit">hangs beside</mark>') == 12 + 1
    assert "40 of 40 questions" in text_of(html)
    rows = [row for row in make.samples_of(run) if row["subset"] == "tools"]
    right = sum(row["correct"] == 1 for row in rows)
    shown = text_of(get(client, f"/runs/{run.pk}?outcome=wrong&subset=tools"))
    assert f"All {len(rows)} ✓ Right {right} ✗ Wrong {len(rows) - right}" in shown


# Filters


def margin_of(row: dict[str, Any]) -> float:
    values = [response["loglikelihood"] for response in row["responses"]]
    (gold,) = row["gold"]
    return float(values[gold] - max(v for place, v in enumerate(values) if place != gold))


def test_close_calls_are_within_a_factor_of_two_and_lengths_are_in_tokens(run: Run) -> None:
    margins = {row["doc_id"]: margin_of(row) for row in make.samples_of(run)}
    close = [doc for doc, margin in margins.items() if abs(margin) <= log(2)]
    clear = [doc for doc, margin in margins.items() if abs(margin) > log(10)]
    assert close
    assert clear
    assert found(run, margin="close") == close
    assert found(run, margin="clear") == clear
    lengths = {r["doc_id"]: r["responses"][0]["n_context_tokens"] for r in make.samples_of(run)}
    middle = sorted(lengths.values())[20]
    shorter = [doc for doc, length in lengths.items() if length <= middle]
    assert 0 < len(shorter) < 40
    assert found(run, at_most=middle) == shorter
    assert found(run, at_least=middle, at_most=middle) == [
        doc for doc, length in lengths.items() if length == middle
    ]


def test_orders_are_by_what_they_say(run: Run) -> None:
    rows = {row["doc_id"]: row for row in make.samples_of(run)}

    def length(doc: int) -> int:
        return int(rows[doc]["responses"][0]["n_context_tokens"])

    def of_right(doc: int) -> float:
        return float(rows[doc]["responses"][rows[doc]["gold"][0]]["loglikelihood"])

    assert found(run, sort="file") == list(range(40))
    assert found(run, sort="close") == sorted(rows, key=lambda doc: abs(margin_of(rows[doc])))
    assert found(run, sort="wrong") == sorted(rows, key=lambda doc: margin_of(rows[doc]))
    assert found(run, sort="surprise") == sorted(rows, key=of_right)
    assert found(run, sort="long") == sorted(rows, key=lambda doc: -length(doc))
    assert found(run, sort="short") == sorted(rows, key=length)


def test_a_question_without_a_score_is_neither_right_nor_wrong(
    client: Client, tmp_path: Path
) -> None:
    rolling = engine_runs.finished(tmp_path, ["toy_rolling"])["toy_rolling"]
    assert found(rolling, outcome="unmeasured") == list(range(12))
    assert found(rolling, outcome="wrong") == found(rolling, outcome="right") == []
    shown = text_of(get(client, f"/runs/{rolling.pk}"))
    assert "✓ Right 0 ✗ Wrong 0 Not scored 12" in shown
    assert "No score of its own" in shown
    assert "Close calls" not in shown


def test_each_filter_can_be_dropped_and_says_what_that_would_show(client: Client, run: Run) -> None:
    html = get(client, f"/runs/{run.pk}?q=number+7+hangs&subset=tools&from=5")
    shown = text_of(html)
    assert "No question passes all 3 filters" in shown  # question 7 is of the materials
    assert "Drop “number 7 hangs” would show 14 questions" in shown
    assert "Drop tools would show 1 question" in shown
    assert "Drop from 5 tokens would show 0 questions" in shown
    dropped = re.search(r'href="([^"]+)">Drop tools', html)
    assert html_module.unescape(dropped[1]) == f"/runs/{run.pk}?q=number+7+hangs&from=5#questions"


@pytest.mark.parametrize("typed", ["abc", "-5", "9" * 30, "²"])
def test_a_length_that_is_no_number_is_named_and_filters_nothing(
    client: Client, run: Run, typed: str
) -> None:
    response = client.get(f"/runs/{run.pk}", {"from": typed})
    html = response.content.decode()
    assert response.status_code == 200
    assert f"“{typed[:20]}" in html
    assert "is not a number of tokens. Write one such as 500, or nothing." in text_of(html)
    assert 'aria-invalid="true" aria-describedby="from-problem"' in " ".join(html.split())
    assert len(listed(html)) == 12


# Ways through the list


def test_neighbours_and_links_keep_filters_and_a_question_outside_them_is_said_to_be(
    client: Client, run: Run
) -> None:
    order = found(run, outcome="wrong", sort="close")
    third = get(client, f"/runs/{run.pk}?outcome=wrong&sort=close&doc={order[2]}")
    assert f"3 of {len(order)}" in text_of(third)
    for rel, neighbour in (("prev", order[1]), ("next", order[3])):
        link = f'href="/runs/{run.pk}?outcome=wrong&amp;sort=close&amp;doc={neighbour}#question"'
        assert f'{link} rel="{rel}"' in third
    assert f'href="/runs/{run.pk}?doc={order[2]}#question" rel="bookmark"' in third
    wrong = found(run, outcome="wrong")[0]
    shown = text_of(get(client, f"/runs/{run.pk}?outcome=right&doc={wrong}"))
    assert "The filters leave this question out; the address asks for it." in shown
    assert f"Question {wrong + 1}" in shown


def test_a_group_names_the_task_with_the_number(client: Client, tmp_path: Path) -> None:
    group = engine_runs.finished(tmp_path, ["toy_group"])["toy_group"]
    html = get(client, f"/runs/{group.pk}?doc=toy_shots:4")
    assert "Question 5 · 17 of 36 · toy_shots" in text_of(html)
    assert "toy_written" in html
    assert client.get(f"/runs/{group.pk}?doc=4").status_code == 404


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
    shown = text_of(table)
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
    assert text_of(table).count("−1.000 −0.500") == 4


def test_a_written_answer_stands_with_what_was_taken_from_it(
    client: Client, tmp_path: Path
) -> None:
    run = engine_runs.finished(tmp_path, ["toy_written"])["toy_written"]
    row = make.samples_of(run)[2]
    shown = text_of(get(client, f"/runs/{run.pk}?doc=2"))
    for place, response in enumerate(row["responses"], 1):
        assert f"Answer {place} ended by a stop text {response['text']}" in shown
    taken = {entry["filter"]: json.loads(entry["values"])[0] for entry in row["filtered"]}
    assert f"Taken by strict {taken['strict']}" in shown
    assert f"Taken by flexible {taken['flexible']}" in shown
    assert f"Right answer {row['target']}" in shown


TASKS = ("toy_choice", "toy_shots", "toy_likely", "toy_rolling", "toy_written")


def content(response: Any) -> bytes:
    return b"".join(response) if response.streaming else response.content


# Images and sounds


def test_each_image_stands_above_its_prompt_with_size_and_digest(
    client: Client, tmp_path: Path
) -> None:
    run = engine_runs.seen(tmp_path)
    page = get(client, f"/runs/{run.pk}?doc=2")
    for number, image in ((1, drawn(2, size=(64, 64))), (2, drawn(11))):
        assert f"sha256:{Picture(image).digest}" in page
        assert f"Image {number}, {image.width} × {image.height} pixels" in page
        assert f'alt="Image {number} of 2 of this question, as a thumbnail"' in page
    sources = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', page)
    shown = [Image.open(BytesIO(b64decode(source))).size for source in sources]
    assert shown == [(64, 64), drawn(11).size]
    large = get(client, f"/runs/{run.pk}?doc=1")
    assert "900 × 640 pixels" in large
    assert re.search(r'width="192"\s+height="137"', large), "it has the room of its thumbnail"
    policies = [
        client.get(address)["Content-Security-Policy"] for address in (f"/runs/{run.pk}", "/about")
    ]
    assert [" data:" in policy for policy in policies] == [True, False]
    # Thumbnails are in the parquet file alone.
    for file in ("record.json", "samples.parquet", *(dialect.file for dialect in DIALECTS)):
        response = client.get(f"/runs/{run.pk}/{file}")
        assert response.status_code == 200, file
        sent = content(response)
        if file.endswith(".json"):
            json.loads(sent)


def test_a_data_set_that_stays_offline_shows_no_thumbnail(client: Client, tmp_path: Path) -> None:
    run = engine_runs.seen(tmp_path, publish="ids")
    page = get(client, f"/runs/{run.pk}?doc=2")
    assert "data:image" not in page
    assert f"sha256:{Picture(drawn(11)).digest}" in page


def test_each_sound_stands_above_its_prompt_with_length_rate_and_digest(
    client: Client, tmp_path: Path
) -> None:
    run = engine_runs.heard(tmp_path)
    page = get(client, f"/runs/{run.pk}?doc=1")
    assert "Sound 1, 0.5 s at 16,000 samples a second" in page
    assert f"sha256:{Sound(Recording(sound_file(tone(1)), None, None)).digest}" in page


# Thoughts


def test_thoughts_stand_apart_from_the_answer_and_are_closed(
    client: Client, tmp_path: Path
) -> None:
    run = engine_runs.thinking(tmp_path, thinking_budget=6)
    (row,) = [row for row in make.samples_of(run) if row["doc_id"] == 3]
    html = get(client, f"/runs/{run.pk}?spaces=1&doc=3")
    shown = text_of(html)
    cut = [response for response in row["responses"] if response["thinking"] == "cut"]
    assert cut
    for response in cut:
        tokens = response["n_thought_tokens"]
        assert tokens > 6
        assert f"What the model thought first, {tokens} tokens, ended by its budget" in shown
        assert "</think>" not in response["thoughts"]
    assert '<details class="fold">' in html
    assert "<details open" not in html
    assert "</think>" not in row["responses"][0]["text"]


def test_an_answer_that_never_came_is_told_apart(client: Client, tmp_path: Path) -> None:
    run = engine_runs.thinking(tmp_path)
    (row,) = [row for row in make.samples_of(run) if row["doc_id"] == 3]
    lost = [response for response in row["responses"] if response["thinking"] == "unended"]
    assert lost
    assert all(response["thoughts"] is None for response in lost)
    shown = text_of(get(client, f"/runs/{run.pk}?doc=3"))
    assert shown.count("cut at its longest length, still thinking") == len(lost)
    assert "thought first" not in shown


# Texts that may not be put online


@pytest.fixture
def withheld(tmp_path: Path) -> dict[str, Run]:
    return engine_runs.finished(tmp_path / "ids", TASKS, publish="ids")


@pytest.fixture
def secrets(tmp_path: Path) -> set[str]:
    """Every text of the documents and every answer, as the same tasks have them in full."""
    evaluations = evaluated(write_toys(tmp_path / "full"), ",".join(TASKS))
    return {
        secret
        for evaluation in evaluations
        for sample in evaluation.samples
        for secret in (
            *_texts(json.loads(sample["doc"])),
            *(response["text"] or "" for response in sample["responses"]),
        )
        if len(secret) > 3
    }


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


def test_no_page_and_no_file_holds_a_text_of_the_data_set(
    client: Client, withheld: dict[str, Run], secrets: set[str]
) -> None:
    assert {"What is the capital of country 3?", "city 3 a", "It is 0 or 4."} <= secrets
    for run in withheld.values():
        assert leaking_addresses(client, run, secrets) == []


def leaking_addresses(client: Client, run: Run, secrets: set[str]) -> list[str]:
    """Those of the run that answer with one of these texts, as it is or as JSON writes it."""
    written = {form for secret in secrets for form in (secret, json.dumps(secret)[1:-1])}
    found = []
    for address in _addresses(run):
        said = _said(client, address)
        if any(form in said for form in written):
            found.append(address)
    return found


def _addresses(run: Run) -> list[str]:
    page = f"/runs/{run.pk}"
    views = [f"{page}?doc={doc}" for doc in range(12)]
    views += [f"{page}?{query}" for query in ("spaces=1", "sort=long", "outcome=wrong", "doc=99")]
    files = ["record.json", "samples.parquet", *(dialect.file for dialect in DIALECTS)]
    return [page, *views, f"{page}/progress", *(f"{page}/{file}" for file in files)]


def _said(client: Client, address: str) -> str:
    """All that an address answers, as text; parquet row by row."""
    response = client.get(address)
    assert response.status_code == (404 if address.endswith("=99") else 200)
    if address.endswith(".parquet"):
        rows = pq.read_table(pa.BufferReader(content(response))).to_pylist()
        return json.dumps(rows, ensure_ascii=False)
    if response.streaming:
        lines = content(response).decode().splitlines()
        whole = lines if address.endswith(".jsonl") else ["\n".join(lines)]
        return "\n".join(json.dumps(json.loads(line), ensure_ascii=False) for line in whole)
    return html_module.unescape(response.content.decode())


def test_a_page_without_text_has_digests_and_numbers_and_no_search(
    client: Client, tmp_path: Path
) -> None:
    runs = engine_runs.finished(tmp_path, ["toy_choice", "toy_written"], publish="ids")
    run = runs["toy_choice"]
    html = get(client, f"/runs/{run.pk}?q=capital&doc=4")
    shown = text_of(html)
    assert "ask that its text is not put online: every text is its SHA-256" in shown
    assert "No text to search: this data set is published as ids only." in shown
    assert 'type="search"' not in html
    assert "12 questions" in shown
    assert "<mark" not in html
    (sample,) = [row for row in make.samples_of(run) if row["doc_id"] == 4]
    assert f"sha256:{sample['doc_digest']}" in shown
    assert sample["prompt"].startswith("sha256:")
    assert sample["prompt"] in shown
    for choice, response in zip(sample["choices"], sample["responses"], strict=True):
        assert choice in shown
        assert f"{response['loglikelihood']:.3f}".replace("-", "−") in shown
    assert "The prompt, as it was sent" not in shown
    written = get(client, f"/runs/{runs['toy_written'].pk}")
    assert "--level aggregate" in written
    assert "--level rescore" not in written
    assert "the level rescore would need the text, which is withheld" in text_of(written)


def test_the_title_of_a_page_and_its_picture_have_no_word_of_a_withheld_question(
    client: Client, tmp_path: Path
) -> None:
    run = engine_runs.finished(tmp_path, ["toy_choice"], publish="ids")["toy_choice"]
    sample = make.samples_of(run)[4]
    question = read_question(sample)
    assert (question.title, question.withheld) == ("", True)
    other = replace(
        question, choices=tuple(replace(choice, text="secret") for choice in question.choices)
    )
    titled, primary = headline.runs().get(pk=run.pk), run.results.get(metric="acc", subset="")
    drawings = {picture._draw(titled, primary, one) for one in (question, other)}
    assert len(drawings) == 1, "nothing of the choices' texts is drawn"


def test_thoughts_are_withheld_where_answers_are(client: Client, tmp_path: Path) -> None:
    told = engine_runs.thinking(tmp_path / "full", thinking_budget=6)
    withheld = engine_runs.thinking(tmp_path / "ids", publish="ids", thinking_budget=6)
    thoughts = {
        response["thoughts"]
        for row in make.samples_of(told)
        for response in row["responses"]
        if response["thoughts"]
    }
    assert len(thoughts) > 5
    assert leaking_addresses(client, withheld, thoughts) == []
    shown = text_of(get(client, f"/runs/{withheld.pk}?doc=0"))
    assert "Thoughts sha256:" in shown
