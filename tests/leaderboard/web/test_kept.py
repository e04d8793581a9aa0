"""Pages of models and tasks that were kept follow every change of what they show."""

from __future__ import annotations

import gzip
import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from leaderboard.models import (
    BoardSnapshot,
    HubModel,
    ItemAnalysis,
    Run,
    ScoreVector,
    Submission,
    Suite,
    SuiteEntry,
    TaskVersion,
    User,
    Variant,
    edition,
)
from leaderboard.queue import claims
from leaderboard.runs.dialects import DIALECTS
from leaderboard.samples import store as artifacts
from leaderboard.samples import vectors
from leaderboard.snapshot import EVERY, OWN, published
from leaderboard.tasks import items
from leaderboard.web import kept
from tests.leaderboard import factories as make

SKILL = {"cloze": 0.7, "mmlu": 0.4}
Change = Callable[[Suite], Any]


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    """lab/one with its numbers and a run that goes on in a second commit; lab/two beside it."""
    settings.PLUMBLINE_SUITE = "demo"
    suite = make.make_suite(benchmarks=("facts",), styles=("cloze", "mmlu"))
    make.evaluated("lab/one", suite, SKILL)
    make.make_variant("lab/two", commit="2" * 40)
    make.publish(suite)
    later = make.make_variant("lab/one", commit="c" * 40)
    ada = User.objects.create_user("ada")
    make.make_submission(later, suite, submitter=ada)
    make.start(waiting("facts"), done=3, total=40)
    return suite


def waiting(task: str) -> Run:
    return Run.objects.get(variant__commit="c" * 40, task__name=task)


def one() -> Variant:
    return Variant.objects.filter(hub_model__repo_id="lab/one").order_by("created")[0]


def two() -> Variant:
    return Variant.objects.get(hub_model__repo_id="lab/two")


def text(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    main = response.content.decode().split("<main")[1].split("</main>")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", main)).split())


def models(name: str) -> Any:
    return HubModel.objects.filter(repo_id=name)


def variants(name: str) -> Any:
    return Variant.objects.filter(hub_model__repo_id=name)


def go_on(done: int, phase: str = "evaluate") -> None:
    run = waiting("facts")
    assert run.lease_token
    claims.report(run.lease_token, run, phase=phase, done=done, total=40)


def try_again(_: Suite) -> None:
    """A second model of the family, from whoever submitted the first."""
    variants("lab/two").update(base_model="lab/one")
    make.make_submission(two(), Suite.objects.get(), submitter=User.objects.get(username="ada"))


def rename(name: str, other: str) -> None:
    user = User.objects.get(username=name)
    user.username = other
    user.save()


def newer_version(_: Suite) -> None:
    make.make_suite(benchmarks=("facts", "riddles"), styles=("cloze", "mmlu"), version="2.0")


OF_MODEL: dict[str, tuple[Change, str]] = {
    "a run goes on": (lambda _: go_on(21), "21 of 40 requests answered"),
    "a run comes to its next phase": (lambda _: go_on(3, "store"), "storing the results"),
    "a run ends": (
        lambda _: make.fail(waiting("facts_mmlu"), "TaskError", "column answer is missing"),
        "column answer is missing",
    ),
    "a run is cancelled": (
        lambda _: claims.cancel(waiting("facts_mmlu"), by="ada"),
        "Cancelled 1",
    ),
    "a rank changes": (
        lambda suite: (make.evaluated("lab/three", suite, SKILL), make.publish(suite)),
        "of 2 with an average",
    ),
    "it is flagged": (
        lambda _: models("lab/one").update(flag_reason="trained on the test"),
        "Flagged: trained on the test",
    ),
    "it is gone": (lambda _: models("lab/one").update(hub_state="gone"), "No longer on the Hub."),
    "it is its provider’s own": (
        lambda _: models("lab/one").update(official=True),
        "its provider’s own",
    ),
    "it is described": (lambda _: variants("lab/one").update(kind="chat"), "Type Chat"),
    "its base is known": (
        lambda _: variants("lab/one").update(base_model="lab/two"),
        "Family of lab/two",
    ),
    "another states it as its base": (
        lambda _: variants("lab/two").update(base_model="lab/one"),
        "Also here: lab/two",
    ),
    "the same weights have two names": (
        lambda _: Variant.objects.update(weights_digest="d" * 64),
        "under another name",
    ),
    "a commit is submitted": (
        lambda suite: make.make_submission(make.make_variant("lab/one", commit="d" * 40), suite),
        "dddddddddddd",
    ),
    "a submission is withdrawn": (
        lambda _: Submission.objects.filter(submitter__username="ada").update(state="withdrawn"),
        "by ada, withdrawn",
    ),
    "a submitter is called otherwise": (
        lambda _: rename("ada", "countess"),
        "by countess",
    ),
    "its submitter tries another of the family": (try_again, "ada has submitted 2 commits"),
    "a suite is called otherwise": (
        lambda _: Suite.objects.update(title="Foundry"),
        "Foundry 1.0 / model",
    ),
    "a benchmark is called otherwise": (
        lambda _: SuiteEntry.objects.update(title="Hard facts"),
        "Hard facts",
    ),
    "a suite has a new version": (newer_version, "/ model lab/one Not ranked"),
}


@pytest.mark.parametrize("what", OF_MODEL)
def test_a_models_page_follows(client: Client, suite: Suite, what: str) -> None:
    change, words = OF_MODEL[what]
    assert words not in text(client, "/models/lab/one")
    change(suite)
    assert words in text(client, "/models/lab/one")


def test_the_new_name_leads_to_its_page_as_soon_as_it_has_one(client: Client, suite: Suite) -> None:
    models("lab/one").update(hub_state="renamed", renamed_to="lab/uno")
    assert "What was measured under the new one" not in text(client, "/models/lab/one")
    make.make_variant("lab/uno")
    assert "What was measured under the new one" in text(client, "/models/lab/one")


def test_further_tries_of_a_submitter_are_counted_at_once(client: Client, suite: Suite) -> None:
    try_again(suite)
    assert "in 2 submissions" in text(client, "/models/lab/one")
    make.make_submission(
        make.make_variant("lab/two", commit="e" * 40),
        suite,
        submitter=User.objects.get(username="ada"),
    )
    assert "in 3 submissions" in text(client, "/models/lab/one")


def test_scores_by_question_that_are_read_later_pair_the_styles(
    client: Client, suite: Suite
) -> None:
    address = f"/models/lab/one?variant={one().pk}"
    ScoreVector.objects.all().delete()
    BoardSnapshot.objects.filter(style=EVERY).delete()
    make.publish(suite)
    assert "as independent scores" in text(client, address)
    assert vectors.fill_missing() == 2
    assert "on the same questions" in text(client, address)


def test_the_frame_leads_to_where_one_signs_in_however_the_site_is_set(
    client: Client, suite: Suite, settings: Any
) -> None:
    for address in ("/models/lab/one", "/tasks/facts"):
        for open_submit in (True, False):
            settings.PLUMBLINE_OPEN_SUBMIT = open_submit
            assert b">Sign in<" in client.get(address).content


def again_measured(suite: Suite) -> None:
    items._looked.clear()
    for number in range(items.ENOUGH):
        variant = make.make_variant(f"lab/m{number}")
        make.finish(make.queued_run(variant, facts(suite)), skill=number / 10, seed=number)
    assert items.analyse_due() == 1


def facts(suite: Suite) -> SuiteEntry:
    return suite.entries.get(task__name="facts")


def other_task(_: Suite) -> None:
    make.task_version("facts", "hybrid")


OF_TASK: dict[str, tuple[Change, str]] = {
    "a board is built": (
        lambda suite: (make.evaluated("lab/three", suite, SKILL), published.build(suite, OWN)),
        "Of 2 models on Workshop",
    ),
    "its questions are judged": (again_measured, "Analysed "),
    "its words are put better": (
        lambda _: TaskVersion.objects.update(known_gaps="Not as in the paper."),
        "Not as in the paper.",
    ),
    "it has a new version": (lambda _: make.task_version("facts", "cloze", "2.0"), "version 2.0"),
    "it is asked in another style": (other_task, "Facts, hybrid"),
    "a suite is called otherwise": (lambda _: Suite.objects.update(title="Foundry"), "Foundry"),
    "a suite has a new version": (newer_version, "Workshop 2.0"),
    "a model is flagged": (
        lambda _: models("lab/one").update(flag_reason="trained on the test"),
        "0 models measured so far",
    ),
}


@pytest.mark.parametrize("what", OF_TASK)
def test_a_tasks_page_follows(client: Client, suite: Suite, what: str) -> None:
    change, words = OF_TASK[what]
    assert words not in text(client, "/tasks/facts")
    change(suite)
    assert words in text(client, "/tasks/facts")


def test_finished_runs_are_counted_at_once(client: Client, suite: Suite) -> None:
    assert text(client, "/tasks/facts_mmlu").endswith("2 shots 1")
    make.finish(waiting("facts_mmlu"))
    assert text(client, "/tasks/facts_mmlu").endswith("2 shots 2")


def test_an_analysis_of_which_the_file_is_lost_is_gone(client: Client, suite: Suite) -> None:
    again_measured(suite)
    assert "Analysed " in text(client, "/tasks/facts")
    artifacts.path_of(ItemAnalysis.objects.get().sha256).unlink()
    claims.cancel(waiting("facts_mmlu"), by="ada")  # the store tells nobody: with the next change
    assert "Analysed " not in text(client, "/tasks/facts")


@pytest.mark.parametrize("address", ["/models/lab/one", "/tasks/facts"])
class TestAgain:
    def test_a_page_that_did_not_change_is_not_made_again(
        self, client: Client, suite: Suite, address: str
    ) -> None:
        run = waiting("facts")
        assert run.lease_token
        claims.give_back(run.lease_token, why="a page of a run that goes on is not kept")
        first = client.get(address, headers={"Accept-Encoding": "gzip"})
        with CaptureQueriesContext(connection) as queries:
            again = client.get(address, headers={"Accept-Encoding": "gzip"})
        assert len(queries) == 1, "the numbers of the editions"
        assert again["Content-Encoding"] == "gzip"
        assert gzip.decompress(again.content) == gzip.decompress(first.content)
        known = client.get(address, headers={"If-None-Match": first["ETag"]})
        assert (known.status_code, known.content) == (304, b"")

    def test_who_is_signed_in_gets_a_page_of_their_own(
        self, client: Client, suite: Suite, address: str
    ) -> None:
        client.get(address)
        client.force_login(User.objects.get(username="ada"))
        assert "ETag" not in client.get(address)
        assert b"Sign out" in client.get(address).content

    def test_each_view_of_it_is_kept_apart(
        self, client: Client, suite: Suite, address: str
    ) -> None:
        view = f"{address}?state=done" if "models" in address else f"{address}?suite=demo"
        wrong = client.get(f"{address}?nonsense=1")
        assert (wrong.status_code, wrong["Location"]) == (302, address)
        one, other = client.get(address), client.get(view)
        assert (one["ETag"] == other["ETag"]) == (one.content == other.content)
        assert (one.content == other.content) == ("tasks" in address), "its only suite"


@pytest.mark.parametrize(
    ("setting", "value", "addresses"),
    [
        ("HF_ENDPOINT", "https://hub.example", ("/runs/RUN", "/models/lab/one")),
        ("PLUMBLINE_OPERATOR", "Ada", ("/about", "/suites/demo")),
    ],
)
def test_another_setting_makes_other_pages_where_they_show_it(
    client: Client, suite: Suite, settings: Any, setting: str, value: object, addresses: list[str]
) -> None:
    run = Run.objects.filter(state=Run.State.DONE).first()
    assert run is not None
    for address in (address.replace("RUN", str(run.pk)) for address in addresses):
        tag = client.get(address)["ETag"]
        assert client.get(address, headers={"if-none-match": tag}).status_code == 304
        before = getattr(settings, setting)
        setattr(settings, setting, value)
        assert client.get(address, headers={"if-none-match": tag}).status_code == 200, address
        setattr(settings, setting, before)


def test_another_release_of_the_engine_makes_other_pages_and_files(
    client: Client, suite: Suite, settings: Any, tmp_path: Any, monkeypatch: Any
) -> None:
    engine = tmp_path / "evalcore" / "stats"
    engine.mkdir(parents=True)
    (tmp_path / "CHANGELOG.md").write_text("")
    (engine / "interval.py").write_text("Z = 1.9")
    settings.BASE_DIR = tmp_path
    try:
        kept.release.cache_clear()
        page, file = client.get("/styles")["ETag"], client.get("/board.csv")["ETag"]
        monkeypatch.setattr("leaderboard.styles.page.render_to_string", lambda *_: "corrected")
        assert client.get("/styles", headers={"if-none-match": page}).status_code == 304
        (engine / "interval.py").write_text("Z = 1.96")
        kept.release.cache_clear()
        again = client.get("/styles", headers={"if-none-match": page})
        assert (again.status_code, again.content) == (200, b"corrected")
        assert client.get("/board.csv")["ETag"] != file
    finally:
        kept.release.cache_clear()


def test_a_page_made_anew_with_the_same_content_is_the_one_that_the_browser_has(
    client: Client, suite: Suite
) -> None:
    tag = client.get("/")["ETag"]
    kept.forget()
    assert client.get("/", headers={"if-none-match": tag}).status_code == 304


def test_who_looks_while_a_run_goes_on_is_told_how_far_it_is_and_nothing_is_kept(
    client: Client, suite: Suite
) -> None:
    before = edition.now()
    assert "3 of 40" in text(client, "/models/lab/one")
    go_on(21)
    assert edition.now() == before, "workers report every second: that is no new edition"
    assert "21 of 40" in text(client, "/models/lab/one")


def test_what_only_replaces_a_board_for_a_moment_is_not_kept(
    client: Client, suite: Suite, monkeypatch: Any
) -> None:
    """A large board of another machine is being read while its edition is already the newest."""
    make.evaluated("lab/three", suite, SKILL)
    published.build(suite, OWN)
    show = published._to_show

    def before(row: Any, recalls: Any) -> Any:
        kept.only_for_now()
        return show(row, recalls)

    monkeypatch.setattr(published, "_to_show", before)
    client.get("/")
    monkeypatch.setattr("leaderboard.board.page.render_to_string", lambda *_: "the newest")
    monkeypatch.setattr(published, "_to_show", show)
    assert client.get("/").content == b"the newest"


def test_a_file_that_names_the_site_is_another_one_for_another_host(
    client: Client, suite: Suite, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = ["one.example", "two.example"]
    one, two = (
        client.get("/board.csv", headers={"host": host})["ETag"] for host in settings.ALLOWED_HOSTS
    )
    assert one != two


def test_a_file_of_a_run_is_another_one_for_another_host(
    client: Client, suite: Suite, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = ["one.example", "two.example"]
    run = Run.objects.filter(state=Run.State.DONE).first()
    assert run is not None
    address = f"/runs/{run.pk}/{DIALECTS[0].file}"
    one, two = (client.get(address, headers={"host": host}) for host in settings.ALLOWED_HOSTS)
    assert one["ETag"] != two["ETag"]
    pages = [client.get("/", headers={"host": host}) for host in settings.ALLOWED_HOSTS]
    assert [b"two.example" in page.content for page in pages] == [False, True]
