"""Migrations that take something away, on a database that has rows; on PostgreSQL by its group."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from leaderboard.corrections import reports
from leaderboard.models import HubModel, Report, Run, User, Worker
from tests.runners import rows

pytestmark = pytest.mark.django_db(transaction=True)


def migrate(name: str) -> Any:
    """Bring the database to this migration; its models as they are there."""
    executor = MigrationExecutor(connection)
    executor.migrate([("leaderboard", name)])
    return executor.loader.project_state([("leaderboard", name)]).apps


@pytest.fixture
def before(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The models of a migration, in the database too; it is up to date again at the end."""
    yield migrate(request.param)
    to_the_newest()


def to_the_newest() -> None:
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


@pytest.mark.parametrize("before", ["0039_active_parameters"], indirect=True)
def test_launches_go_and_the_workers_that_they_began_stay_with_their_runs(before: Any) -> None:
    launch = before.get_model("leaderboard", "Launch").objects.create(
        kind="a100", engine="slurm", gpus=1, hours=8, price=1.9, asked=timezone.now()
    )
    before.get_model("leaderboard", "Worker").objects.create(
        name="ada", launch=launch, device="cpu", memory_bytes=10**10, dtypes=["float32"],
        started=timezone.now(), seen=timezone.now(),
    )  # fmt: skip
    migrate("0040_no_launches")
    assert "leaderboard_launch" not in connection.introspection.table_names()
    to_the_newest()
    worker = Worker.objects.get(name="ada")
    rows.queued("arc")
    claim = rows.claimed_by(worker)
    assert Run.objects.get(worker="ada").lease_token == claim.token


@pytest.mark.parametrize("before", ["0044_board_fault"], indirect=True)
def test_flags_departures_and_rulings_on_keys_are_kept_as_reports(before: Any) -> None:
    def table(name: str) -> Any:
        return before.get_model("leaderboard", name).objects

    ada, mo = (table("User").create(username=name) for name in ("ada", "mo"))
    model = table("HubModel").create(repo_id="lab/one")
    task = table("TaskVersion").create(
        name="facts", version="1.0", benchmark="facts", style="cloze", chance=0.25,
        primary_metric="acc", config_digest="c", origin="", known_gaps="",
    )  # fmt: skip
    then = timezone.now() - timedelta(days=300)

    def flag(state: str) -> int:
        decided = {} if state == "open" else {"decision": "so", "decided": then, "decided_by": mo}
        made = table("Flag").create(
            hub_model=model, reason=f"copied, {state}", evidence="look", by=ada, state=state,
            **decided,
        )  # fmt: skip
        table("Flag").filter(pk=made.pk).update(at=then)
        return int(made.pk)

    gone = flag("dismissed")
    table("Flag").filter(pk=gone).delete()
    flags = {state: flag(state) for state in ("open", "upheld", "dismissed", "withheld", "lifted")}
    said = table("FlagAnswer").create(flag_id=flags["open"], by=mo, side="raised", text="more")
    ended = {"ended": timezone.now(), "ended_by": mo}
    table("Departure").create(hub_model=model, by=ada, side="author", words="a draft", **ended)
    table("Departure").create(hub_model=model, by=ada, side="author", words="again")

    def on_key(ending: str = "", words: str = "") -> None:
        closed = {"ending": ending, "ending_words": words, **ended} if ending else {}
        table("Ruling").create(
            task=task, docs_digest="d", part="facts", doc_id=3, doc_digest="e", question="Why?",
            verdict="wrong", answer="B", reason=f"page {ending}", source="https://e.org", by=ada,
            **closed,
        )  # fmt: skip

    on_key("changed")
    on_key("withdrawn")
    on_key("struck", "an insult")
    on_key()
    migrate("0045_reports")

    for state, number in flags.items():
        kept = Report.objects.get(pk=number)
        assert (kept.kind, kept.state, kept.reason) == ("number", state, f"copied, {state}")
        assert (kept.at, kept.by.username, kept.hub_model.repo_id) == (then, "ada", "lab/one")
        rulings = list(kept.rulings.values_list("effect", "words", "by__username", "undone"))
        effect = {"upheld": "mark", "lifted": "mark", "withheld": "withheld"}.get(state, "none")
        undone = then if state == "lifted" else None
        assert rulings == ([] if state == "open" else [(effect, "so", "mo", undone)])
    answer = Report.objects.get(pk=flags["open"]).answers.get()
    assert (answer.pk, answer.text, answer.side) == (said.pk, "more", "raised")

    wishes = Report.objects.filter(kind="wish").order_by("pk")
    assert [(one.reason, one.state) for one in wishes] == [
        ("a draft", "lifted"),
        ("again", "upheld"),
    ]
    assert [one.rulings.get().undone for one in wishes] == [ended["ended"], None]
    assert {(one.rulings.get().effect, one.rulings.get().side) for one in wishes} == {
        ("out", "author")
    }

    on_keys = Report.objects.filter(kind="key").order_by("pk")
    states = ["changed", "withdrawn", "withheld", "open"]
    assert [one.state for one in on_keys] == states
    assert on_keys[2].rulings.get().words == "an insult"
    assert {
        (one.task.name, one.part, one.doc_id, one.verdict, one.answer, one.evidence, one.question)
        for one in on_keys
    } == {("facts", "facts", 3, "wrong", "B", "https://e.org", "Why?")}

    target = reports.Target(HubModel.objects.get())
    told = {
        "kind": "licence",
        "reason": "x",
        "evidence": "y",
        "by": User.objects.get(username="mo"),
    }
    assert reports.report(target, **told).pk == Report.objects.latest("pk").pk, "numbers go on"
    assert Report.objects.count() == 12
    names = connection.introspection.table_names()
    gone_too = ("flag", "flaganswer", "departure", "keyruling")
    assert not [name for name in gone_too if f"leaderboard_{name}" in names]
