"""The run page: its number, what that rests on and cost, how far it is, and every question."""

from __future__ import annotations

import html as html_module
import json
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from django.core.cache import caches
from django.test import Client
from hypothesis import assume, given
from hypothesis import strategies as st

from evalcore.digest import digest_of
from evalcore.stats import interval
from leaderboard.models import Artifact, HubModel, Run, Submission, User, Variant, Worker, edition
from leaderboard.models.run import IN_TURN, State
from leaderboard.queue import claims, history, reruns
from leaderboard.runs import page
from leaderboard.runs.page import FEWEST_PARTS, if_other_parts
from leaderboard.samples import store as artifacts
from leaderboard.tasks import items
from leaderboard.templatetags.runs import MEANINGS
from leaderboard.web import kept
from tests.leaderboard import factories as make
from tests.leaderboard.conftest import characters, get, text_of
from tests.leaderboard.rows import once_per_module

HOSTILE = (
    '<script>alert("x")</script>\n\n</pre><img src=x onerror=alert(1)> {{ 7|add:7 }} \x1b[2J\u202e'
)


pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _shown(settings: Any) -> None:
    settings.PLUMBLINE_SUITE = "demo"


@once_per_module
def submitted() -> Submission:
    """Facts and sums in three styles, of which facts in MMLU style are done."""
    submission = make.make_submission(make.make_variant("lab/one"), make.make_suite())
    make.finish(submission.runs.get(task__name="facts_mmlu"), skill=0.5, n=40)
    return submission


@pytest.fixture
def done(submitted: Submission) -> Run:
    return submitted.runs.get(task__name="facts_mmlu")


@pytest.fixture
def waiting(submitted: Submission) -> Run:
    return submitted.runs.get(task__name="facts")


@pytest.fixture
def fragile(submitted: Submission) -> Run:
    """A finished run whose files no other test reads."""
    run = submitted.runs.get(task__name="sums_mmlu")
    return make.finish(run, skill=0.5, n=40, seed=uuid4().int)


def test_the_number_stands_with_interval_style_shots_and_its_questions_under_it(
    client: Client, done: Run
) -> None:
    result = done.results.get(metric="acc", subset="")
    html = get(client, f"/runs/{done.pk}")
    shown = text_of(html)
    low, value, high = (f"{100 * number:.1f}" for number in (result.low, result.value, result.high))
    assert f"Right answers {value} {low}–{high}" in shown
    assert "MMLU-style · 2-shot · float32" in shown
    assert f"{value} ({low}–{high}): lab/one on" in html[html.index("<title>") :]
    assert f"{low} to {high}" in shown
    assert 'href="?subset=tools#questions"' in html
    of_part = text_of(get(client, f"/runs/{done.pk}?subset=tools"))
    assert of_part.count("Which tool number") == 12 + 2, "in the list, as heading and in the prompt"
    order = ['class="verify"', 'id="questions"', 'id="parts"', 'id="downloads"', 'id="pins"']
    places = [html.index(piece) for piece in order]
    assert places == sorted(places)
    folded = html[html.index('id="all-pins"') : html.index('id="again"')]
    assert done.task.config_digest in folded
    assert html.count(done.task.config_digest) == folded.count(done.task.config_digest)
    for target in set(re.findall(r'href="#([^"]+)"', html)):
        assert f'id="{target}"' in html


def test_the_questions_of_a_number_are_a_square_each(client: Client, done: Run) -> None:
    right = sum(row["correct"] == 1 for row in make.samples_of(done))
    html = get(client, f"/runs/{done.pk}")
    assert html.count(f'aria-label="40 questions, {right} right"') == 2, "for desks and for phones"
    assert "40 questions in the order of the file; hollow is wrong" in html
    wide = html[html.index('viewBox="0 0 845') :]
    hollow, filled = re.findall(r'<path class="[wr]" d="([^"]*)"', wide)[:2]
    assert (hollow.count("M"), filled.count("M")) == (40 - right, right)


def test_every_pin_is_on_the_page_with_the_machine_and_the_workers_own_command(
    client: Client, done: Run, settings: Any
) -> None:
    html = get(client, f"/runs/{done.pk}")
    result = done.results.get(metric="acc", subset="")
    digests = [f">{artifact.sha256}</code>" for artifact in done.artifacts.all()]
    assert len(digests) == 2
    for pin in (
        *digests,
        done.variant.commit,
        digest_of("tokenizer"),
        done.task.config_digest,
        "c" * 40,
        result.comparability_key,
        "float32, no quantisation",
    ):
        assert pin in html, pin
    shown = text_of(html)
    assert "special tokens as the tokenizer adds them" in shown
    assert "Libraries torch 2.9.1, transformers 5.23.0, python 3.11" in shown
    assert "Machine cpu, Linux-6.1-x86_64" in shown
    assert shown.count("made as it is sent") == 4, "files of other tools have no size yet"
    command = (
        "evalcore run",
        f"pretrained=lab/one,revision={done.variant.commit},dtype=float32",
        "--tasks facts_mmlu",
        "--num_fewshot 2",
    )
    for words in command:
        assert words in shown
    assert "HF_ENDPOINT" not in shown
    settings.HF_ENDPOINT = "http://127.0.0.1:8001"
    shown = text_of(get(client, f"/runs/{done.pk}"))
    assert "HF_ENDPOINT=http://127.0.0.1:8001 evalcore run" in shown


def test_how_shots_were_chosen_is_said_in_words_and_only_where_there_are_any(
    client: Client, submitted: Submission, done: Run, waiting: Run
) -> None:
    shown = text_of(get(client, f"/runs/{done.pk}"))
    assert "MMLU-style, 2 shots, drawn for each question, seed 1234" in shown
    without = make.finish(waiting)
    assert "Prompt style Cloze, 0 shots Mode" in text_of(get(client, f"/runs/{without.pk}"))
    for task, rule, words in (
        ("sums_mmlu", "first_n", "2 shots, the first ones of the split Mode"),
        ("sums_hybrid", "inline first_n", "2 shots, the first ones in the task file Mode"),
    ):
        run = submitted.runs.get(task__name=task)
        make.finish(run, record={"shot_rule": rule, "shot_seed": None})
        assert words in text_of(get(client, f"/runs/{run.pk}")), "nobody drew them: no seed"


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
    assert said not in text_of(get(client, f"/runs/{done.pk}"))
    row = done.artifacts.get(kind=Artifact.Kind.RECORD)
    record = json.loads(artifacts.path_of(row.sha256).read_text())
    for result in record["results"]:
        result["interval"] = "wilson"
    file = tmp_path / "record.json"
    file.write_text(json.dumps(record))
    stored = artifacts.store(file, kind="record")
    Artifact.objects.filter(pk=row.pk).update(sha256=stored.sha256, bytes=stored.bytes)
    kept.forget()  # no run's files are ever replaced but here
    shown = text_of(get(client, f"/runs/{done.pk}"))
    assert said in shown
    assert "how it is made: Wilson’s, as few answers are of one kind" in shown


def test_a_finished_run_can_be_compared_and_says_how_its_interval_was_made(
    client: Client, waiting: Run
) -> None:
    run = waiting
    assert ">Compare</a>" not in get(client, f"/runs/{run.pk}").partition("<main")[2]
    make.finish(run, n=60)
    html = get(client, f"/runs/{run.pk}")
    link = re.search(r'<a class="btn" href="([^"]+)">Compare</a>', html)
    assert link[1] == f"/compare?run={run.pk}"
    assert "lab/one" in get(client, link[1])
    shown = text_of(html)
    assert "(how it is made: 1.96 standard errors to each side)." in shown
    stderr = 100 * waiting.results.get(metric="acc", subset="").stderr
    assert f"Standard error {stderr:.2f}" in shown


# What its number rests on and cost

PARTS = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40)), min_size=1, max_size=30)


@given(PARTS)
def test_an_interval_for_other_parts_is_the_one_clustered_by_part(
    sizes: list[tuple[int, int]],
) -> None:
    counts = [(n, min(right, n)) for n, right in sizes]
    scores = [float(i < right) for n, right in counts for i in range(n)]
    labels = [place for place, (n, _) in enumerate(counts) for _ in range(n)]
    mean = sum(scores) / len(scores)
    found: Any = if_other_parts(
        SimpleNamespace(value=mean, n=len(scores)),  # type: ignore[arg-type]
        [SimpleNamespace(value=right / n, n=n) for n, right in counts],  # type: ignore[misc]
    )
    alike = len({right / n for n, right in counts}) == 1
    assert (found is None) == (len(counts) < FEWEST_PARTS or alike)
    assume(found)
    known = interval(scores, clusters=labels)
    assert (found.low, found.value, found.high) == pytest.approx(
        (known.low, known.value, known.high), abs=1e-9
    )


def test_an_interval_for_other_parts_is_only_of_a_mean_over_all_questions() -> None:
    parts: Any = [SimpleNamespace(value=place / 10, n=10 * (place + 1)) for place in range(6)]
    total = sum(part.n for part in parts)
    plain = sum(part.value for part in parts) / 6
    weighted = sum(part.value * part.n for part in parts) / total
    whole: Any = SimpleNamespace
    assert if_other_parts(whole(value=weighted, n=total), parts)
    assert if_other_parts(whole(value=plain, n=total), parts) is None
    assert if_other_parts(whole(value=weighted, n=total + 1), parts) is None


def test_many_parts_are_shown_by_the_hundred(client: Client, fragile: Run) -> None:
    """A record may have thousands; each is on a page, and no page grows with them."""
    own = fragile.results.get(metric="acc", subset="")
    for number in range(230):
        own.pk, own.subset = None, f"subject {number:03}"
        own.save()
    pages = [get(client, f"/runs/{fragile.pk}?parts={page}") for page in (1, 2, 3)]
    shown = [re.findall(r"subset=subject%20(\d+)", page) for page in pages]
    assert [len(numbers) <= 100 for numbers in shown] == [True] * 3
    assert sorted(number for numbers in shown for number in numbers) == [
        f"{number:03}" for number in range(230)
    ]
    assert f"/runs/{fragile.pk}?parts=3#parts" in pages[1]


# What is kept of it


def lose(sha256: str) -> None:
    """The store tells nobody: it is seen with the next change of anything."""
    artifacts.path_of(sha256).unlink()
    edition.note("data")


def told(response: Any) -> str:
    """The page's text and its addresses."""
    html = response.content.decode()
    return html + text_of(html)


def test_a_finished_run_is_kept_while_others_are_claimed_and_until_it_is_counted(
    client: Client, fragile: Run, waiting: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"/runs/{fragile.pk}"
    worker = make.make_worker("another")
    before = client.get(address)["ETag"]
    held = make.claimed(waiting, worker)
    claims.report(held.claim.token, held.run, phase="evaluate", done=12, total=160)
    with monkeypatch.context() as patched:
        patched.setattr(page, "_page", None)  # whoever renders it now fails
        assert client.get(address)["ETag"] == before
    caches["throttle"].clear()  # whatever was counted in this minute
    while client.get(f"{address}/recount").status_code == 202:
        time.sleep(0.1)
    shown = text_of(get(client, address))
    assert "Last counted" in shown
    assert "from the stored answers" not in shown


def test_a_finished_run_says_at_once_that_it_is_measured_again(
    client: Client, fragile: Run
) -> None:
    address = f"/runs/{fragile.pk}"
    assert "measured again" not in text_of(get(client, address))
    reruns.rerun([fragile], by="ada", reason="the tokenizer was mended")
    assert "It is measured again: the tokenizer was mended" in text_of(get(client, address))
    claims.cancel(fragile.replacements.get(), by="ada")
    assert "It is measured again" not in text_of(get(client, address))


def test_a_finished_run_is_kept_for_visitors_until_something_on_it_changes(
    client: Client, fragile: Run
) -> None:
    done = fragile
    address = f"/runs/{done.pk}"
    etag = client.get(address)["ETag"]
    Worker.objects.update(seen=done.created)
    assert client.get(address)["ETag"] == etag, "a heartbeat of its worker changes nothing"
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
        'title="lab/renamed"',
        "int8",
        "Other words",
        "Metric acc_norm",
        "looked at",
        "9 x NVIDIA L4",
        "could not be read just now",
    )
    for change, words in zip(changes, said, strict=True):
        assert words not in told(client.get(address))
        change()
        response = client.get(address, headers={"If-None-Match": etag})
        assert response.status_code == 200, words
        assert words in told(response)
        etag = response["ETag"]


# Live


def test_a_running_run_says_how_far_it_is_where_its_score_stands_and_will_end(
    client: Client, waiting: Run
) -> None:
    run = make.start(waiting, 12, 160)
    html = get(client, f"/runs/{run.pk}")
    assert f'<progress id="bar-{run.pk}" max="160" value="12">' in html
    assert "percent (acc)" not in html
    fragment = get(client, f"/runs/{run.pk}/progress")
    assert "12 of 160 requests answered" in fragment
    assert "<html" not in fragment
    assert f'hx-get="/runs/{run.pk}/progress"' in fragment
    looked(run)
    for address in (f"/runs/{run.pk}", f"/runs/{run.pk}/progress"):
        html = get(client, address)
        shown = text_of(html)
        assert "So far: 60.0 percent (acc) on 293 of 1,172 questions drawn at random" in shown
        assert "lies between 54.1 and 66.0: 95%, however often you look" in shown
        assert "No rank follows from it yet" in shown
        first, second = "147 questions 61.2 51.7 to 70.3", "293 questions 60.0 54.1 to 66.0"
        assert shown.index(first) < shown.index(second)
        assert html.count('<line class="i"') == 2
        assert 'x1="18.42%" x2="63.16%"' in html  # from 50 to 75
        assert 'href="/method#score-so-far"' in html
    assert 'id="score-so-far"' in get(client, "/method")


def looked(run: Run, metric: str = "acc") -> None:
    looks = [
        {"answered": 147, "documents": 1172, "value": 0.612, "low": 0.517, "high": 0.703},
        {"answered": 293, "documents": 1172, "value": 0.6, "low": 0.541, "high": 0.66},
    ]
    Run.objects.filter(pk=run.pk).update(so_far={"metric": metric, "looks": looks})


def test_a_score_so_far_is_in_the_boards_metric_on_no_board_and_gone_when_the_run_ends(
    client: Client, waiting: Run
) -> None:
    run = make.start(waiting, 12, 160)
    looked(run, "acc_norm")
    html = get(client, f"/runs/{run.pk}")
    assert "So far" not in html
    assert "A score appears here when every question is answered" in text_of(html)
    looked(run)
    for address in ("/", "/board", "/queue", f"/api/v1/runs/{run.pk}"):
        response = client.get(address)
        assert b"60.0" not in response.content, address
        assert b"0.541" not in response.content, address
    Run.objects.filter(pk=run.pk).update(state="queued", lease_token=None, lease_until=None)
    assert "So far" not in get(client, f"/runs/{run.pk}")


def test_a_waiting_run_says_how_many_are_ahead(client: Client, submitted: Submission) -> None:
    runs = list(Run.objects.filter(state=State.QUEUED).order_by(*IN_TURN))
    assert "next in line" in get(client, f"/runs/{runs[0].pk}")
    assert "Waiting: 2 runs ahead" in get(client, f"/runs/{runs[2].pk}")


def test_a_finished_run_is_not_polled_any_more_and_not_for_search_engines(
    client: Client, done: Run
) -> None:
    fragment = get(client, f"/runs/{done.pk}/progress")
    assert "hx-get" not in fragment
    assert "Show the result" in fragment
    response = client.get(f"/runs/{done.pk}")
    assert response["X-Robots-Tag"] == "noindex"
    assert '<meta name="robots" content="noindex">' in response.content.decode()


def test_a_failed_run_names_class_reason_log_and_remedy_and_one_of_ours_waits(
    client: Client, submitted: Submission
) -> None:
    for task, error_class, who in (
        ("facts", "ModelError", "The model could not be evaluated"),
        ("sums", "TaskError", "The task failed"),
    ):
        run = submitted.runs.get(task__name=task)
        make.fail(run, error_class, "four tokens have no vector", "line one\nline two")
        html = get(client, f"/runs/{run.pk}")
        for said in (who, error_class, "four tokens have no vector", "line two", "Remedy"):
            assert said in html
        assert 'href="/submit?model=lab%2Fone' in html
    ours = submitted.runs.get(task__name="sums_hybrid")
    run = make.fail(ours, "InfraError", "the disk is full")
    assert run.state == Run.State.QUEUED
    shown = text_of(get(client, f"/runs/{run.pk}"))
    assert "Attempt 1 failed by our fault" in shown
    assert "the disk is full" in shown


def test_every_field_that_the_page_explains_has_a_meaning(settings: Any) -> None:
    folders = [Path(folder) for engine in settings.TEMPLATES for folder in engine["DIRS"]]
    files = [file for folder in folders for file in folder.glob("runs/**/*.html")]
    named = {name for file in files for name in re.findall(r'{% term "(.+?)"', file.read_text())}
    assert len(named) > 10
    assert named <= MEANINGS.keys()


def test_a_question_shows_the_prompt_as_sent_and_each_choice_with_loglikelihood_pick_and_key(
    client: Client, done: Run
) -> None:
    (sample,) = [row for row in make.samples_of(done) if row["doc_id"] == 5]
    html = get(client, f"/runs/{done.pk}?doc=5")
    prompts = re.findall(r'<pre\s+class="prompt[^"]*"[^>]*>(.*?)</pre>', html, re.S)
    folded, asked = map(characters, prompts)
    marked = asked.index("␣A")
    assert folded + asked[:marked] == sample["prompt"]
    assert asked[marked:] == "␣A | ␣B | ␣C | ␣D"
    sample = next(row for row in make.samples_of(done) if not row["correct"])
    html = get(client, f"/runs/{done.pk}?doc={sample['doc_id']}")
    for choice, response in zip(sample["choices"], sample["responses"], strict=True):
        assert choice in html
        assert f"{response['loglikelihood']:.3f}".replace("-", "−") in html
    picked, gold = ("ABCD"[place] for place in (sample["pick"], sample["gold"][0]))
    assert f"Wrong: picked {picked}, the answer is {gold}." in html
    marks = re.findall(r'<span class="key-mark[^"]*">([^<]+)</span>', html)
    assert sorted(marks) == ["the key", "✗ picked"]


def test_the_filter_leaves_only_its_outcome_and_pages_lead_through_every_question(
    client: Client, done: Run
) -> None:
    for outcome in ("right", "wrong"):
        expected = sum(
            (row["correct"] == 1) == (outcome == "right") for row in make.samples_of(done)
        )
        html = get(client, f"/runs/{done.pk}?outcome={outcome}")
        listing = html[html.index('aria-label="Questions"') :].partition("</nav>")[0]
        assert f"{expected} of 40 questions" in text_of(html)
        assert listing.count(f"{outcome}</span>") == min(expected, 12) == listing.count("<a ")
    seen, address = [], f"/runs/{done.pk}"
    while address:
        html = get(client, address)
        seen += re.findall(r'<span class="i">(\d+)</span>', html)
        following = re.search(r'href="([^"#]+)#questions" rel="next"', html)
        address = html_module.unescape(following[1]) if following else ""
    assert seen == [str(number) for number in range(1, 41)], "counting starts at 1"
    html = get(client, f"/runs/{done.pk}?doc=30")
    assert "Page 3 of 4" in html
    assert "Question 31 · 31 of 40" in text_of(html)
    assert re.search(r'doc=30#question" aria-current="true"', html)


def test_a_question_says_how_many_others_got_it_right(client: Client, waiting: Run) -> None:
    entry = waiting.task.entries.get()
    own = make.finish(waiting, skill=0.5, n=20, seed=1)
    alone = get(client, f"/runs/{own.pk}?doc=3")
    assert "got it right" not in alone
    others = []
    for number in range(4):
        queued = make.queued_run(make.make_variant(f"lab/peer-{number}"), entry)
        others.append(make.finish(queued, skill=0.5, n=20, seed=7 + number))
    for doc in (3, 4, 5):
        shown = text_of(get(client, f"/runs/{own.pk}?doc={doc}"))
        said = f"{right(doc, others)} of 4 other models got it right."
        assert said in shown, "and the kept page is not shown"
    for number in range(4, 11):
        queued = make.queued_run(make.make_variant(f"lab/peer-{number}"), entry)
        others.append(make.finish(queued, skill=0.5, n=20, seed=7 + number))
    items._looked.clear()
    assert items.analyse_due()
    for doc in (3, 4, 5):
        shown = text_of(get(client, f"/runs/{own.pk}?doc={doc}"))
        assert f"{right(doc, others)} of 11 other models got it right." in shown


def right(doc: int, others: list[Run]) -> int:
    """How many of these runs have the question right."""
    return sum(make.samples_of(run)[doc]["correct"] == 1 for run in others)


def test_a_question_shows_what_the_same_model_picked_when_it_was_asked_in_other_styles(
    client: Client, submitted: Submission, done: Run, waiting: Run
) -> None:
    assert "asked two ways" not in get(client, f"/runs/{done.pk}?doc=3")
    cloze = make.finish(waiting, skill=0.5, n=40, seed=9)
    html = get(client, f"/runs/{done.pk}?doc=3")
    ways = html[html.index("The same question, asked two ways") :].partition("</section>")[0]
    for run in (cloze, done):
        row = make.samples_of(run)[3]
        sign = "✓" if row["correct"] else "✗"
        assert f"{sign} picked {'ABCD'[row['pick']]}" in text_of(ways)
    assert f'href="{cloze.get_absolute_url()}?doc=3#question"' in ways


def test_a_run_and_its_questions_are_shared_with_a_title_and_a_picture_of_their_own(
    client: Client, done: Run, waiting: Run
) -> None:
    pictures = set()
    for query in ("", "?doc=3", "?doc=4"):
        html = get(client, f"/runs/{done.pk}{query}")
        url = re.search(r'property="og:image"\s+content="http://testserver([^"]+)"', html)
        response = client.get(html_module.unescape(url[1]))
        assert (response.status_code, response["Content-Type"]) == (200, "image/png")
        pictures.add(response.content)
        assert f'<link rel="canonical" href="http://testserver/runs/{done.pk}{query}">' in html
    assert len(pictures) == 3
    assert re.search(r'og:title" content="Question 5, (right|wrong): picked', html)
    assert 'og:description" content="Which ' in html
    for nothing in (f"{done.pk}.png?doc=999", f"{waiting.pk}.png", f"{uuid4()}.png"):
        assert client.get(f"/og/runs/{nothing}").status_code == 404


def test_whoever_thinks_a_number_is_wrong_finds_the_run_in_the_form(
    client: Client, done: Run
) -> None:
    link = re.search(r'href="(/corrections/new[^"]+)"', get(client, f"/runs/{done.pk}"))
    client.force_login(User.objects.create_user("ada"))
    form = client.get(html_module.unescape(link[1])).text
    assert f'href="/runs/{done.pk}"' in form
    assert client.get(f"/corrections/new?run={uuid4()}").status_code == 404


def test_a_question_that_the_run_does_not_have_is_named_and_leads_to_the_run(
    client: Client, done: Run
) -> None:
    for doc in ("999", "nonsense", "other_task:3", "-1", "9" * 30):
        response = client.get(f"/runs/{done.pk}?doc={doc}")
        assert response.status_code == 404, doc
        assert f"This run has no question with doc={doc}." in text_of(response.text)
        assert f'href="/runs/{done.pk}"' in response.text
        assert "There is no page" not in response.text


def test_hostile_questions_and_choices_are_text(client: Client, waiting: Run) -> None:
    run = waiting
    make.finish(run, questions=[HOSTILE], choices=[f"{HOSTILE}{n}" for n in range(4)], n=10)
    html = get(client, f"/runs/{run.pk}?doc=3")
    assert "<script>alert" not in html
    assert "<img" not in html
    assert "&lt;script&gt;alert" in html
    assert "{{ 7|add:7 }}" in html
    assert "\x1b" not in html
    assert "\u202e" not in html
    assert html.count("[U+001B][2J[U+202E]") > 4, "question, list and each choice"
