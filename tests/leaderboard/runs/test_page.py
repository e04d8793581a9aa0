"""The run page: its number, its pins, its files and every question."""

from __future__ import annotations

import gzip
import html as html_module
import json
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from django.test import Client

from evalcore.digest import digest_of
from evalcore.record import RunRecord, read_samples
from leaderboard.models import Artifact, HubModel, Run, Suite, Variant, Worker, edition
from leaderboard.models.run import IN_TURN, State
from leaderboard.queue import history
from leaderboard.samples import store as artifacts
from leaderboard.tasks import items
from leaderboard.web import kept
from tests.leaderboard import factories as make

HOSTILE = '<script>alert("x")</script>\n\n</pre><img src=x onerror=alert(1)> {{ 7|add:7 }}'


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return make.make_suite()


@pytest.fixture
def submitted(suite: Suite) -> Any:
    return make.make_submission(make.make_variant("lab/one"), suite)


@pytest.fixture
def done(submitted: Any) -> Run:
    return make.finish(submitted.runs.get(task__name="facts_mmlu"), skill=0.5, n=40)


def get(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200, address
    return response.content.decode()


def text(html: str) -> str:
    """What a reader sees: no markup, and white space as a browser joins it."""
    return " ".join(characters(html).split())


def characters(html: str) -> str:
    """Every character between the tags, as in a <pre>."""
    return html_module.unescape(re.sub(r"<[^>]+>", "", html))


def test_the_number_stands_with_interval_style_shots_and_n(client: Client, done: Run) -> None:
    result = done.results.get(metric="acc", subset="")
    shown = text(get(client, f"/runs/{done.pk}"))
    assert f"{100 * result.value:.1f} ±{100 * (result.high - result.value):.1f} percent" in shown
    assert "MMLU-style, 2 shots, float32" in shown
    assert f"{100 * result.low:.1f} to {100 * result.high:.1f}" in shown


def test_every_pin_is_on_the_page(client: Client, done: Run) -> None:
    html = get(client, f"/runs/{done.pk}")
    result = done.results.get(metric="acc", subset="")
    for pin in (
        done.variant.commit,
        digest_of("tokenizer"),
        done.task.config_digest,
        "c" * 40,
        result.comparability_key,
        "torch 2.9.1",
        "transformers 5.23.0",
        "float32, no quantisation",
    ):
        assert pin in html, pin


def test_how_shots_were_chosen_is_said_in_words_and_only_where_there_are_any(
    client: Client, submitted: Any, done: Run
) -> None:
    shown = text(get(client, f"/runs/{done.pk}"))
    assert "MMLU-style, 2 shots, drawn for each question, seed 1234" in shown
    without = make.finish(submitted.runs.get(task__name="facts"))
    assert "Prompt style Cloze, 0 shots Mode" in text(get(client, f"/runs/{without.pk}"))


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("first_n", "2 shots, the first ones of the split Mode"),
        ("inline first_n", "2 shots, the first ones in the task file Mode"),
    ],
)
def test_shots_that_nobody_drew_have_no_seed(
    client: Client, submitted: Any, rule: str, words: str
) -> None:
    run = submitted.runs.get(task__name="facts_mmlu")
    make.finish(run, record={"shot_rule": rule, "shot_seed": None})
    assert words in text(get(client, f"/runs/{run.pk}"))


def test_the_machine_and_the_tokenizer_are_described(client: Client, done: Run) -> None:
    shown = text(get(client, f"/runs/{done.pk}"))
    assert "special tokens as the tokenizer adds them" in shown
    assert "Libraries torch 2.9.1, transformers 5.23.0, python 3.11" in shown
    assert "Machine cpu, Linux-6.1-x86_64" in shown


def test_every_file_says_its_size_and_digest_or_why_it_cannot(client: Client, done: Run) -> None:
    html = get(client, f"/runs/{done.pk}")
    for artifact in done.artifacts.all():
        assert f">{artifact.sha256}</code>" in html
    assert text(html).count("made as it is sent") == 4


def test_the_command_is_the_workers_own_with_all_its_pins(client: Client, done: Run) -> None:
    shown = text(get(client, f"/runs/{done.pk}"))
    assert "evalcore run" in shown
    assert f"pretrained=lab/one,revision={done.variant.commit},dtype=float32" in shown
    assert "--tasks facts_mmlu" in shown
    assert "--num_fewshot 2" in shown
    assert "HF_ENDPOINT" not in shown


def test_every_field_with_a_meaning_tells_it_without_a_mouse(client: Client, done: Run) -> None:
    html = get(client, f"/runs/{done.pk}")
    meanings = html[html.index("What these fields mean") :]
    fields = re.findall(r'<dfn title="([^"]+)">([^<]+)</dfn>', html)
    assert len(fields) >= 5
    for meaning, label in fields:
        assert f"<dt>{label}</dt>" in meanings
        assert meaning in meanings


def test_an_interval_that_is_not_from_the_standard_error_says_so(
    client: Client, done: Run, tmp_path: Path
) -> None:
    said = "not what the interval is from"
    assert said not in text(get(client, f"/runs/{done.pk}"))
    row = done.artifacts.get(kind=Artifact.Kind.RECORD)
    record = json.loads(artifacts.path_of(row.sha256).read_text())
    for result in record["results"]:
        result["interval"] = "wilson"
    file = tmp_path / "record.json"
    file.write_text(json.dumps(record))
    stored = artifacts.store(file, kind="record")
    Artifact.objects.filter(pk=row.pk).update(sha256=stored.sha256, bytes=stored.bytes)
    kept.forget()  # no run's files are ever replaced but here
    shown = text(get(client, f"/runs/{done.pk}"))
    assert said in shown
    assert "how it is made: Wilson’s, as few answers are of one kind" in shown


def test_the_command_names_the_hub_where_it_is_not_the_public_one(
    client: Client, done: Run, settings: Any
) -> None:
    settings.HF_ENDPOINT = "http://127.0.0.1:8001"
    shown = text(get(client, f"/runs/{done.pk}"))
    assert "HF_ENDPOINT=http://127.0.0.1:8001 evalcore run" in shown


def test_results_by_part_have_intervals_and_lead_to_their_questions(
    client: Client, done: Run
) -> None:
    html = get(client, f"/runs/{done.pk}")
    assert 'href="?subset=tools#questions"' in html
    assert text(get(client, f"/runs/{done.pk}?subset=tools")).count("Which tool number") == 12 + 1


def test_a_finished_run_can_be_compared_and_no_other(client: Client, submitted: Any) -> None:
    run = submitted.runs.get(task__name="facts_mmlu")
    assert "Compare with" not in get(client, f"/runs/{run.pk}")
    make.finish(run, n=4)
    html = get(client, f"/runs/{run.pk}")
    link = re.search(r'<a class="btn" href="([^"]+)">Compare with…</a>', html)
    assert link
    assert link[1] == f"/compare?run={run.pk}"
    assert "lab/one" in get(client, link[1])


# What is kept of it


def lose(sha256: str) -> None:
    """The store tells nobody: it is seen with the next change of anything."""
    artifacts.path_of(sha256).unlink()
    edition.note("data")


def test_a_finished_run_is_kept_for_visitors_until_something_on_it_changes(
    client: Client, done: Run
) -> None:
    address = f"/runs/{done.pk}"
    etag = client.get(address)["ETag"]
    known = {"If-None-Match": etag}
    assert client.get(address, headers=known).status_code == 304
    model, entry = done.variant.hub_model, done.task.entries.get()
    changes: list[Any] = [
        lambda: HubModel.objects.filter(pk=model.pk).update(repo_id="lab/renamed"),
        lambda: Variant.objects.filter(pk=done.variant_id).update(quantisation="int8"),
        lambda: type(entry).objects.filter(pk=entry.pk).update(title="Other words"),
        lambda: type(entry).objects.filter(pk=entry.pk).update(metric="acc_norm"),
        lambda: history.tell([done], State.DONE, by="ada", why="looked at"),
        lambda: Worker.objects.update(device="9 x NVIDIA L4"),
        lambda: lose(done.artifacts.get(kind="samples").sha256),
    ]
    said = (
        'lab/</span><wbr><span class="nm">renamed',
        "int8",
        "Other words",
        "(acc_norm)",
        "looked at",
        "9 x NVIDIA L4",
        "could not be read just now",
    )
    for change, words in zip(changes, said, strict=True):
        assert words not in get(client, address)
        change()
        response = client.get(address, headers={"If-None-Match": etag})
        assert response.status_code == 200, words
        assert words in response.content.decode()
        etag = response["ETag"]


def test_a_heartbeat_of_its_worker_changes_nothing_of_a_finished_run(
    client: Client, done: Run
) -> None:
    etag = client.get(f"/runs/{done.pk}")["ETag"]
    Worker.objects.update(seen=done.created)
    assert client.get(f"/runs/{done.pk}")["ETag"] == etag


def test_each_view_of_a_run_is_kept_by_itself(client: Client, done: Run) -> None:
    for doc in (3, 7, 3, 7):
        assert f"Question {doc + 1}<" in get(client, f"/runs/{done.pk}?doc={doc}")


def test_a_run_that_goes_on_is_never_kept(client: Client, submitted: Any) -> None:
    run = make.start(submitted.runs.get(task__name="facts"), 12, 160)
    assert "ETag" not in client.get(f"/runs/{run.pk}")
    Run.objects.filter(pk=run.pk).update(progress_done=80)
    assert 'value="80"' in get(client, f"/runs/{run.pk}")


def test_a_kept_page_is_sent_compressed_to_those_who_take_it(client: Client, done: Run) -> None:
    response = client.get(f"/runs/{done.pk}", headers={"Accept-Encoding": "gzip"})
    assert response["Content-Encoding"] == "gzip"
    assert gzip.decompress(response.content).decode() == get(client, f"/runs/{done.pk}")


# Live


def test_a_running_run_shows_how_far_it_is_and_no_number(client: Client, submitted: Any) -> None:
    run = make.start(submitted.runs.get(task__name="facts"), 12, 160)
    html = get(client, f"/runs/{run.pk}")
    assert f'<progress id="bar-{run.pk}" max="160" value="12">' in html
    assert "percent (acc)" not in html
    fragment = get(client, f"/runs/{run.pk}/progress")
    assert "12 of 160 requests answered" in fragment
    assert "<html" not in fragment
    assert f'hx-get="/runs/{run.pk}/progress"' in fragment


def looked(run: Run, metric: str = "acc") -> None:
    looks = [
        {"answered": 147, "documents": 1172, "value": 0.612, "low": 0.517, "high": 0.703},
        {"answered": 293, "documents": 1172, "value": 0.6, "low": 0.541, "high": 0.66},
    ]
    Run.objects.filter(pk=run.pk).update(so_far={"metric": metric, "looks": looks})


def test_a_running_run_says_where_its_score_stands_and_will_end(
    client: Client, submitted: Any
) -> None:
    run = make.start(submitted.runs.get(task__name="facts"), 12, 160)
    looked(run)
    for address in (f"/runs/{run.pk}", f"/runs/{run.pk}/progress"):
        html = get(client, address)
        shown = text(html)
        assert "So far: 60.0 percent (acc) on 293 of 1,172 questions drawn at random" in shown
        assert "lies between 54.1 and 66.0: 95%, however often you look" in shown
        assert "No rank follows from it yet" in shown
        first, second = "147 questions 61.2 51.7 to 70.3", "293 questions 60.0 54.1 to 66.0"
        assert shown.index(first) < shown.index(second)
        assert html.count('<line class="i"') == 2
        assert 'x1="18.42%" x2="63.16%"' in html  # from 50 to 75
        assert 'href="/method#score-so-far"' in html
    assert 'id="score-so-far"' in get(client, "/method")


def test_a_score_so_far_is_on_no_board_and_gone_when_the_run_ends(
    client: Client, submitted: Any
) -> None:
    run = make.start(submitted.runs.get(task__name="facts"), 12, 160)
    looked(run)
    for address in ("/", "/board", "/queue", f"/api/v1/runs/{run.pk}"):
        response = client.get(address)
        assert b"60.0" not in response.content, address
        assert b"0.541" not in response.content, address
    Run.objects.filter(pk=run.pk).update(state="queued", lease_token=None, lease_until=None)
    assert "So far" not in get(client, f"/runs/{run.pk}")


def test_a_score_in_another_metric_than_the_boards_is_not_shown(
    client: Client, submitted: Any
) -> None:
    run = make.start(submitted.runs.get(task__name="facts"), 12, 160)
    looked(run, "acc_norm")
    html = get(client, f"/runs/{run.pk}")
    assert "So far" not in html
    assert "A score appears here when every question is answered" in text(html)


def test_a_waiting_run_says_how_many_are_ahead(client: Client, submitted: Any) -> None:
    runs = list(Run.objects.order_by(*IN_TURN))
    assert "next in line" in get(client, f"/runs/{runs[0].pk}")
    assert "Waiting: 2 runs ahead" in get(client, f"/runs/{runs[2].pk}")


def test_the_progress_of_a_finished_run_is_not_polled_any_more(client: Client, done: Run) -> None:
    fragment = get(client, f"/runs/{done.pk}/progress")
    assert "hx-get" not in fragment
    assert "Show the result" in fragment


@pytest.mark.parametrize(
    ("error_class", "who"),
    [("ModelError", "The model could not be evaluated"), ("TaskError", "The task failed")],
)
def test_a_failed_run_names_class_reason_log_and_remedy(
    client: Client, submitted: Any, error_class: str, who: str
) -> None:
    run = submitted.runs.get(task__name="facts")
    make.fail(run, error_class, "four tokens have no vector", "line one\nline two")
    html = get(client, f"/runs/{run.pk}")
    for said in (who, error_class, "four tokens have no vector", "line two", "Remedy"):
        assert said in html
    assert 'href="/submit?model=lab%2Fone' in html


def test_a_failure_of_ours_waits_and_says_so(client: Client, submitted: Any) -> None:
    run = make.fail(submitted.runs.get(task__name="facts"), "InfraError", "the disk is full")
    assert run.state == Run.State.QUEUED
    shown = text(get(client, f"/runs/{run.pk}"))
    assert "Attempt 1 failed by our fault" in shown
    assert "the disk is full" in shown


def test_the_prompt_is_shown_exactly_as_it_was_sent(client: Client, done: Run) -> None:
    (sample,) = [row for row in _rows(done) if row["doc_id"] == 5]
    html = get(client, f"/runs/{done.pk}?doc=5")
    shown = [
        characters(block)
        for block in re.findall(r'<pre\s+class="prompt[^"]*"[^>]*>(.*?)</pre>', html, re.S)
    ]
    folded, asked = shown
    marked = asked.index("␣A")
    assert folded + asked[:marked] == sample["prompt"]
    assert asked[marked:] == "␣A | ␣B | ␣C | ␣D"


def test_each_choice_has_its_loglikelihood_pick_and_key(client: Client, done: Run) -> None:
    sample = next(row for row in _rows(done) if not row["correct"])
    html = get(client, f"/runs/{done.pk}?doc={sample['doc_id']}")
    for choice, response in zip(sample["choices"], sample["responses"], strict=True):
        assert choice in html
        assert f"{response['loglikelihood']:.2f}".replace("-", "−") in html
    letters = "ABCD"
    verdict = (
        f"Wrong: picked {letters[sample['pick']]}, the answer is {letters[sample['gold'][0]]}."
    )
    assert verdict in html
    assert html.count("is-pick") == 1
    assert html.count("is-gold") == 1


def _rows(run: Run) -> list[dict[str, Any]]:
    digest = run.artifacts.get(kind=Artifact.Kind.SAMPLES).sha256
    rows: list[dict[str, Any]] = pq.read_table(artifacts.path_of(digest)).to_pylist()
    return rows


@pytest.mark.parametrize("outcome", ["right", "wrong"])
def test_the_filter_leaves_only_its_outcome(client: Client, done: Run, outcome: str) -> None:
    expected = sum((row["correct"] == 1) == (outcome == "right") for row in _rows(done))
    html = get(client, f"/runs/{done.pk}?outcome={outcome}")
    listing = html[html.index("<ol>", html.index('aria-label="Questions"')) :]
    listing = listing[: listing.index("</ol>")]
    assert f"{expected} of 40 questions" in text(html)
    assert listing.count(f"{outcome}</span>") == min(expected, 12) == listing.count("<li>")


def test_pages_and_neighbours_lead_through_every_question_once(client: Client, done: Run) -> None:
    seen, address = [], f"/runs/{done.pk}"
    while address:
        html = get(client, address)
        seen += re.findall(r'<span class="meta">(\d+)</span>\s*<span>', html)
        following = re.search(r'href="([^"#]+)#questions" rel="next"', html)
        address = html_module.unescape(following[1]) if following else ""
    assert seen == [str(number) for number in range(1, 41)], "counting starts at 1"


def test_a_deep_link_opens_the_page_that_its_question_stands_on(client: Client, done: Run) -> None:
    html = get(client, f"/runs/{done.pk}?doc=30")
    assert "Page 3 of 4" in html
    assert "Question 31<" in html
    assert re.search(r'doc=30#question" aria-current="true"', html)


def test_the_questions_stand_under_the_score_and_the_digests_are_folded(
    client: Client, done: Run
) -> None:
    html = get(client, f"/runs/{done.pk}")
    order = ["95% interval", 'id="questions"', 'id="parts"', 'id="downloads"', 'id="pins"']
    places = [html.index(piece) for piece in order]
    assert places == sorted(places)
    (folded,) = re.findall(
        r'<details [^>]*id="all-pins">.*?</details>\s*</section>', html, re.DOTALL
    )
    assert done.task.config_digest in folded
    assert html.count(done.task.config_digest) == folded.count(done.task.config_digest)
    contents = html[html.index('aria-label="On this page"') :].partition("</nav>")[0]
    for target in re.findall(r'href="#([^"]+)"', contents):
        assert f'id="{target}"' in html
    assert contents.count("href") == 6


def test_a_question_says_how_many_others_got_it_right(
    client: Client, submitted: Any, suite: Suite
) -> None:
    entry = submitted.runs.get(task__name="facts").task.entries.get()
    own = make.finish(submitted.runs.get(task__name="facts"), skill=0.5, n=20, seed=1)
    alone = get(client, f"/runs/{own.pk}?doc=3")
    assert "got it right" not in alone
    others = []
    for number in range(4):
        queued = make.queued_run(make.make_variant(f"lab/peer-{number}"), entry)
        others.append(make.finish(queued, skill=0.5, n=20, seed=7 + number))
    for doc in (3, 4, 5):
        right = sum(corrects(run)[doc] == 1 for run in others)
        shown = text(get(client, f"/runs/{own.pk}?doc={doc}"))
        assert f"{right} of 4 other models got it right." in shown, "and the kept page is not shown"
    for number in range(4, 11):
        queued = make.queued_run(make.make_variant(f"lab/peer-{number}"), entry)
        others.append(make.finish(queued, skill=0.5, n=20, seed=7 + number))
    items._looked.clear()
    assert items.analyse_due()
    for doc in (3, 4, 5):
        right = sum(corrects(run)[doc] == 1 for run in others)
        shown = text(get(client, f"/runs/{own.pk}?doc={doc}"))
        assert f"{right} of 11 other models got it right." in shown


def corrects(run: Run) -> list[float]:
    path = artifacts.path_of(run.artifacts.get(kind="samples").sha256)
    return [row["correct"] for row in read_samples(path)]


def test_a_question_that_the_run_does_not_have_is_not_found(client: Client, done: Run) -> None:
    for doc in ("999", "nonsense", "other_task:3", "-1", "9" * 30):
        assert client.get(f"/runs/{done.pk}?doc={doc}").status_code == 404, doc


@pytest.mark.parametrize("doc", ["abc", "zz:1", "4999"])
def test_a_missing_question_is_named_and_leads_to_its_run(
    client: Client, done: Run, doc: str
) -> None:
    response = client.get(f"/runs/{done.pk}?doc={doc}")
    html = response.content.decode()
    assert response.status_code == 404
    assert f"This run has no question with doc={doc}." in text(html)
    assert f'href="/runs/{done.pk}"' in html
    assert "There is no page" not in html


def test_a_filter_that_leaves_nothing_says_so(client: Client, submitted: Any) -> None:
    run = make.finish(submitted.runs.get(task__name="facts"), skill=1.0, n=40)
    shown = text(get(client, f"/runs/{run.pk}?outcome=wrong"))
    assert "No question passes this filter" in shown
    assert "Drop Wrong would show 40 questions" in shown


def test_a_lost_samples_file_costs_the_browser_and_not_the_number(
    client: Client, done: Run
) -> None:
    artifacts.path_of(done.artifacts.get(kind="samples").sha256).unlink()
    html = get(client, f"/runs/{done.pk}")
    assert "could not be read just now" in html
    assert "percent (acc)" in html
    assert client.get(f"/runs/{done.pk}/samples.parquet").status_code == 404


def test_hostile_questions_and_choices_are_text(client: Client, submitted: Any) -> None:
    run = submitted.runs.get(task__name="facts_mmlu")
    make.finish(run, questions=[HOSTILE], choices=[f"{HOSTILE}{n}" for n in range(4)], n=10)
    html = get(client, f"/runs/{run.pk}?doc=3")
    assert "<script>alert" not in html
    assert "<img" not in html
    assert "&lt;script&gt;alert" in html
    assert "{{ 7|add:7 }}" in html


def test_run_pages_are_not_for_search_engines(client: Client, done: Run) -> None:
    response = client.get(f"/runs/{done.pk}")
    assert response["X-Robots-Tag"] == "noindex"
    assert '<meta name="robots" content="noindex">' in response.content.decode()


def test_an_unknown_run_is_not_found(client: Client, db: None) -> None:
    for tail in ("", "/progress", "/record.json", "/samples.parquet", "/samples.jsonl"):
        assert client.get(f"/runs/{uuid4()}{tail}").status_code == 404


# Downloads


def content(response: Any) -> bytes:
    return b"".join(response.streaming_content)


def test_the_parquet_file_arrives_as_it_is_stored(client: Client, done: Run) -> None:
    stored = done.artifacts.get(kind="samples")
    response = client.get(f"/runs/{done.pk}/samples.parquet")
    assert content(response) == artifacts.path_of(stored.sha256).read_bytes()
    assert response["ETag"] == f'"{stored.sha256}"'
    assert response["Content-Length"] == str(stored.bytes)
    assert response["Content-Disposition"] == (
        'attachment; filename="lab__one_facts_mmlu_samples.parquet"'
    )
    assert response["X-Content-Type-Options"] == "nosniff"


def test_the_lines_of_pandas_work_on_the_downloaded_file(
    client: Client, done: Run, tmp_path: Path
) -> None:
    html = get(client, f"/runs/{done.pk}")
    block = html[html.index("Lines of Python") :]
    lines = html_module.unescape(re.findall(r"<code\s*>(.*?)</code>", block, re.DOTALL)[0])
    url = f"http://testserver/runs/{done.pk}/samples.parquet"
    assert lines.count("\n") == 2
    file = tmp_path / "samples.parquet"
    file.write_bytes(b"".join(client.get(url).streaming_content))
    names: dict[str, Any] = {}
    exec(lines.replace(url, str(file)), names)
    answers = names["answers"]
    responses = answers["responses"].iloc[0]
    told = [response["loglikelihood"] for response in responses]
    assert answers["loglikelihoods"].iloc[0].tolist() == told
    assert answers["correct"].mean() == done.results.get(metric="acc", subset="").value


def test_a_file_from_before_the_flat_column_is_read_and_offered_without_it(
    client: Client, done: Run
) -> None:
    path = artifacts.path_of(done.artifacts.get(kind="samples").sha256)
    table = pq.read_table(path)
    path.chmod(0o644)
    pq.write_table(table.drop_columns(["loglikelihoods"]), path)
    html = get(client, f"/runs/{done.pk}?doc=3")
    assert "Question 4<" in html
    lines = html[html.index("Lines of Python") :].partition("</pre>")[0]
    assert "correct" in lines
    assert "loglikelihoods" not in lines


def test_what_is_known_already_is_not_sent_again(client: Client, done: Run) -> None:
    for name in ("record.json", "samples.parquet", "samples.jsonl"):
        address = f"/runs/{done.pk}/{name}"
        etag = client.get(address)["ETag"]
        assert client.get(address, headers={"If-None-Match": etag}).status_code == 304


@pytest.mark.parametrize("known", ["W/{}", '"another", {}', "*"])
def test_a_weak_tag_and_any_tag_say_that_it_is_known(client: Client, done: Run, known: str) -> None:
    address = f"/runs/{done.pk}/samples.parquet"
    headers = {"If-None-Match": known.format(client.get(address)["ETag"])}
    assert client.get(address, headers=headers).status_code == 304


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (f"bytes=0-{'9' * 5000}", 206),
        (f"bytes=-{'9' * 5000}", 206),
        (f"bytes={'9' * 5000}-", 416),
    ],
)
def test_a_range_of_thousands_of_digits_is_beyond_the_file(
    client: Client, done: Run, asked: str, status: int
) -> None:
    response = client.get(f"/runs/{done.pk}/samples.parquet", headers={"Range": asked})
    assert response.status_code == status
    if status == 206:
        stored = artifacts.path_of(done.artifacts.get(kind="samples").sha256).read_bytes()
        assert content(response) == stored


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [("bytes=0-9", 0, 10), ("bytes=-8", -8, None), ("bytes=20-", 20, None)],
)
def test_a_range_is_sent_as_asked(
    client: Client, done: Run, asked: str, start: int, end: int | None
) -> None:
    stored = artifacts.path_of(done.artifacts.get(kind="samples").sha256).read_bytes()
    response = client.get(f"/runs/{done.pk}/samples.parquet", headers={"Range": asked})
    assert response.status_code == 206
    assert content(response) == stored[start:end]


def test_a_range_beyond_the_file_is_refused_with_its_size(client: Client, done: Run) -> None:
    size = done.artifacts.get(kind="samples").bytes
    address = f"/runs/{done.pk}/samples.parquet"
    response = client.get(address, headers={"Range": f"bytes={size}-"})
    assert response.status_code == 416
    assert response["Content-Range"] == f"bytes */{size}"


def test_the_jsonl_has_a_line_for_each_sample_in_the_peers_form(client: Client, done: Run) -> None:
    response = client.get(f"/runs/{done.pk}/samples.jsonl")
    lines = [json.loads(line) for line in content(response).splitlines()]
    assert [line["doc_id"] for line in lines] == list(range(40))
    first = _rows(done)[0]
    assert lines[0]["arguments"]["gen_args_0"]["arg_0"] == first["prompt"]
    assert lines[0]["acc"] == first["correct"]


def test_the_record_reads_back_as_a_record(client: Client, done: Run) -> None:
    record = RunRecord.of(json.loads(content(client.get(f"/runs/{done.pk}/record.json"))))
    assert record.run_key == done.run_key
    shown = done.results.get(metric="acc", subset="")
    assert record.own_results()[0].value == shown.value
