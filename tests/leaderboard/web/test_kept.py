"""Pages that were kept follow every change of what they show, by the numbers of the editions.

Values that are dear to make are kept by the clock instead: quick ones are of this moment, slow ones
nobody waits for.
"""

from __future__ import annotations

import gzip
import html
import re
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from leaderboard.models import (
    HubModel,
    Run,
    Submission,
    Suite,
    SuiteEntry,
    TaskVersion,
    User,
    Variant,
    edition,
)
from leaderboard.models import edition as editions
from leaderboard.models.edition import SITE
from leaderboard.queue import claims
from leaderboard.runs.downloads import DIALECTS
from leaderboard.snapshot import OWN, published
from leaderboard.tasks import items
from leaderboard.web import kept, refreshed
from leaderboard.web.refreshed import Refreshed
from tests.leaderboard import factories as make
from tests.leaderboard.rows import once_per_module

SKILL = {"cloze": 0.7, "mmlu": 0.4}
PARTS = [f"?tab={part}" for part in ("field", "size", "family", "runs", "versions")]
Change = Callable[[Suite], Any]


pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _shown(settings: Any) -> None:
    settings.PLUMBLINE_SUITE = "demo"


@once_per_module
def suite() -> Suite:
    """lab/one with its numbers and a run that goes on in a second commit; lab/two beside it."""
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


def two() -> Variant:
    return Variant.objects.get(hub_model__repo_id="lab/two")


def text(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    main = response.content.decode().split("<main")[1].split("</main>")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", main)).split())


def whole_page(client: Client) -> str:
    """A model's page with all its parts."""
    return " ".join(text(client, f"/models/lab/one{part}") for part in ("", *PARTS))


def models(name: str) -> Any:
    return HubModel.objects.filter(repo_id=name)


def go_on(done: int) -> None:
    run = waiting("facts")
    assert run.lease_token
    claims.report(run.lease_token, run, phase="evaluate", done=done, total=40)


def try_again(_: Suite) -> None:
    """A second model of the family, from whoever submitted the first."""
    make.make_submission(two(), Suite.objects.get(), submitter=User.objects.get(username="ada"))


def rename(name: str, other: str) -> None:
    user = User.objects.get(username=name)
    user.username = other
    user.save()


def newer_version(_: Suite) -> None:
    make.make_suite(benchmarks=("facts", "riddles"), styles=("cloze", "mmlu"), version="2.0")


def test_a_models_page_follows_every_change_of_what_it_shows(client: Client, suite: Suite) -> None:
    changes: dict[str, tuple[Change, str]] = {
        "a run goes on": (lambda _: go_on(21), "21 of 40 requests answered"),
        "a run ends": (
            lambda _: make.fail(waiting("facts_mmlu"), "TaskError", "column answer is missing"),
            "column answer is missing",
        ),
        "a run is cancelled": (lambda _: claims.cancel(waiting("facts"), by="ada"), "Cancelled 1"),
        "a rank changes": (
            lambda suite: (make.evaluated("lab/three", suite, SKILL), make.publish(suite)),
            "Rank 2 of 2",
        ),
        "it is flagged": (
            lambda _: models("lab/one").update(flag_reason="trained on the test"),
            "Flagged: trained on the test",
        ),
        "another states it as its base": (
            lambda _: Variant.objects.filter(pk=two().pk).update(base_model="lab/one"),
            "Here of this family: lab/two",
        ),
        "its submitter tries another of the family": (
            try_again,
            "ada has submitted 2 commits or precisions",
        ),
        "a submission is withdrawn": (
            lambda _: Submission.objects.filter(submitter__username="ada").update(
                state="withdrawn"
            ),
            "by ada, withdrawn",
        ),
        "a submitter is called otherwise": (lambda _: rename("ada", "countess"), "by countess"),
        "a benchmark is called otherwise": (
            lambda _: SuiteEntry.objects.update(title="Hard facts"),
            "Hard facts",
        ),
        "a suite is called otherwise": (
            lambda _: Suite.objects.update(title="Foundry"),
            "Foundry / model",
        ),
        "a suite has a new version": (newer_version, "Not ranked"),
    }
    for what, (change, words) in changes.items():
        assert words not in whole_page(client), what
        change(suite)
        assert words in whole_page(client), what


def test_the_new_name_leads_to_its_page_as_soon_as_it_has_one(client: Client, suite: Suite) -> None:
    models("lab/one").update(hub_state="renamed", renamed_to="lab/uno")
    assert "What was measured under the new one" not in text(client, "/models/lab/one")
    make.make_variant("lab/uno")
    assert "What was measured under the new one" in text(client, "/models/lab/one")


def again_measured(suite: Suite) -> None:
    items._looked.clear()
    for number in range(items.ENOUGH):
        variant = make.make_variant(f"lab/m{number}")
        make.finish(make.queued_run(variant, facts(suite)), skill=number / 10, seed=number)
    assert items.analyse_due() == 1


def facts(suite: Suite) -> SuiteEntry:
    return suite.entries.get(task__name="facts")


def test_a_tasks_page_follows_every_change_of_what_it_shows(client: Client, suite: Suite) -> None:
    changes: dict[str, tuple[Change, str]] = {
        "a model is flagged": (
            lambda _: models("lab/one").update(flag_reason="trained on the test"),
            "0 models measured so far",
        ),
        "its flag is lifted": (
            lambda _: models("lab/one").update(flag_reason=""),
            "1 model measured so far",
        ),
        "a board is built": (
            lambda suite: (make.evaluated("lab/three", suite, SKILL), published.build(suite, OWN)),
            "Of 2 models on Workshop",
        ),
        "its questions are judged": (again_measured, "Analysed "),
        "its words are put better": (
            lambda _: TaskVersion.objects.update(known_gaps="Not as in the paper."),
            "Not as in the paper.",
        ),
        "it is asked in another style": (
            lambda _: make.task_version("facts", "hybrid"),
            "Facts, hybrid",
        ),
        "a suite has a new version": (newer_version, "Workshop 2.0"),
    }
    for what, (change, words) in changes.items():
        assert words not in text(client, "/tasks/facts"), what
        change(suite)
        assert words in text(client, "/tasks/facts"), what


PAGES = pytest.mark.parametrize("address", ["/models/lab/one", "/tasks/facts"])


@PAGES
def test_a_page_that_did_not_change_is_not_made_again_nor_sent_to_who_is_signed_in(
    client: Client, suite: Suite, address: str
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
    client.get(address)
    client.force_login(User.objects.get(username="ada"))
    assert "ETag" not in client.get(address)
    assert b"Sign out" in client.get(address).content


def test_each_view_of_a_page_is_kept_apart_and_the_same_content_is_not_sent_again(
    client: Client, suite: Suite
) -> None:
    for address, view in (("/models/lab/one", "tab=runs"), ("/tasks/facts", "suite=demo")):
        wrong = client.get(f"{address}?nonsense=1")
        assert (wrong.status_code, wrong["Location"]) == (302, address)
        one, other = client.get(address), client.get(f"{address}?{view}")
        assert (one["ETag"] == other["ETag"]) == (one.content == other.content)
        assert (one.content == other.content) == ("tasks" in address), "its only suite"
    tag = client.get("/")["ETag"]
    kept.forget()
    assert client.get("/", headers={"if-none-match": tag}).status_code == 304


def test_another_setting_makes_other_pages_where_they_show_it(
    client: Client, suite: Suite, settings: Any
) -> None:
    done = Run.objects.filter(state=Run.State.DONE)[0]
    for setting, value, address in (
        ("HF_ENDPOINT", "https://hub.example", done.get_absolute_url()),
        ("HF_ENDPOINT", "https://another.example", "/models/lab/one"),
        ("PLUMBLINE_OPERATOR", "Ada", "/about"),
    ):
        known = {"if-none-match": client.get(address)["ETag"]}
        assert client.get(address, headers=known).status_code == 304
        setattr(settings, setting, value)
        assert client.get(address, headers=known).status_code == 200, address


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


def test_who_looks_while_a_run_goes_on_is_told_how_far_it_is_and_nothing_is_kept(
    client: Client, suite: Suite
) -> None:
    before = edition.now()
    assert "3 of 40" in text(client, "/models/lab/one?tab=runs")
    go_on(21)
    assert edition.now() == before, "workers report every second: that is no new edition"
    assert "21 of 40" in text(client, "/models/lab/one?tab=runs")


def test_pages_and_files_that_name_the_site_are_others_for_another_host(
    client: Client, suite: Suite, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = ["one.example", "two.example"]
    run = Run.objects.filter(state=Run.State.DONE)[0]
    for address in ("/board.csv", f"/runs/{run.pk}/{DIALECTS[0].file}"):
        one, two = (client.get(address, headers={"host": host}) for host in settings.ALLOWED_HOSTS)
        assert one["ETag"] != two["ETag"], address
    pages = [client.get("/", headers={"host": host}) for host in settings.ALLOWED_HOSTS]
    assert [b"two.example" in page.content for page in pages] == [False, True]


def moved(before: tuple[tuple[int, int, int], ...]) -> set[tuple[str, str]]:
    """Which numbers are others than before: of whom, and data or pages."""
    names = {SITE: "site"} | dict(Suite.objects.values_list("pk", "name"))
    rows = zip(before, editions.now(), strict=True)
    return {
        (names[old[0]], name)
        for old, new in rows
        for at, name in ((1, "data"), (2, "pages"))
        if old[at] != new[at]
    }


def test_what_is_rolled_back_moves_nothing(suite: Suite) -> None:
    before = editions.now()

    def change_and_fail() -> None:
        with transaction.atomic(), editions.changing():
            Suite.objects.update(title="Foundry")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        change_and_fail()
    assert moved(before) == set()
    make.make_variant("lab/four")
    assert moved(before) == {("site", "pages")}, "nothing is left over from the one that failed"


def test_numbers_move_at_the_end_of_the_transaction_and_in_order(suite: Suite) -> None:
    worker = make.make_worker()
    with CaptureQueriesContext(connection) as queries:
        assert claims.claim_next(worker)
    told = [
        query["sql"] for query in queries if not query["sql"].startswith(("SAVEPOINT", "RELEASE"))
    ]
    tables = ["leaderboard_edition"] * 2 + ["leaderboard_benchmarkedition"] * 2
    for sql, table in zip(told[-4:], tables, strict=True):
        assert f'"{table}"' in sql
    assert not any('edition"' in sql for sql in told[:-4])
    for sql, table in ((told[-4], tables[0]), (told[-2], tables[-1])):
        assert re.search(f'ORDER BY (1|"{table}"."of") ASC', sql), sql


# Values that are dear to make


class Clock:
    """The time of values; what they cost is added by a Counter, and their timers run on demand."""

    def __init__(self) -> None:
        self.now = self.computed = 0.0
        self.timers: list[Callable[[], None]] = []

    def monotonic(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return self.computed

    def timer(self, after: float, action: Callable[[], None]) -> Any:
        assert after == refreshed.AFTER, "the page of who asks is made first"
        return SimpleNamespace(daemon=False, start=lambda: self.timers.append(action))

    def run_timer(self) -> None:
        (action,) = self.timers
        self.timers.clear()
        thread = threading.Thread(target=action)
        thread.start()
        thread.join()


class Counter:
    """Gives 1, 2, 3 …; each takes so many seconds of computing."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.clock, self.seconds, self.calls = clock, seconds, 0

    def __call__(self) -> int:
        self.calls += 1
        self.clock.computed += self.seconds
        return self.calls


QUICK = refreshed.QUICK


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(refreshed, "QUICK", QUICK)  # other tests have nothing kept
    monkeypatch.setattr(refreshed, "time", clock)
    threads = SimpleNamespace(Lock=threading.Lock, Timer=clock.timer)
    monkeypatch.setattr(refreshed, "threading", threads)
    return clock


def test_what_is_made_quickly_is_of_this_moment_and_for_what_is_slow_only_the_first_waits(
    clock: Clock,
) -> None:
    value = Refreshed(Counter(clock, 0.1))
    clock.now = refreshed.REST * 0.1
    assert value.get() == 1
    clock.now += refreshed.REST * 0.1
    assert [value.get() for _ in range(3)] == [1, 1, 1]
    assert clock.timers == [], "it rests"
    clock.now += 0.1
    assert [value.get() for _ in range(3)] == [1, 1, 1], "the next one is being made"
    clock.run_timer()
    assert value.get() == 2
    clock.now += refreshed.REST * 0.1 + 0.1
    assert value.get() == 2
    clock.run_timer()
    assert value.get() == 3
    quick = Refreshed(Counter(clock, QUICK))
    assert [quick.get() for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("oldest", [refreshed.OLDEST, 3600.0])
def test_what_is_too_old_is_given_to_nobody(clock: Clock, oldest: float) -> None:
    value = Refreshed(Counter(clock, 0.1), oldest=oldest)
    assert value.get() == 1
    clock.now = oldest - 1
    assert value.get() == 1
    clock.now = oldest
    assert value.get() == 2
