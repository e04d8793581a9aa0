"""No page asks the database more often because it has more rows: 14 models against 60.

The pages of each generated site are visited in a process of its own, which imports this module and
calls `main`, so that nothing is kept in memory from another database.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import get_resolver, reverse

from leaderboard.corrections import recalls, reports, rulings, second_figures
from leaderboard.corrections.questions import questions_of_task
from leaderboard.model_pages.page import PARTS
from leaderboard.models import (
    Artifact,
    HubModel,
    Role,
    Run,
    Submission,
    TaskVersion,
    User,
    give,
)
from leaderboard.models.run import State
from tests import generated
from tests.leaderboard.site_process import python
from tests.leaderboard.test_access import ANYBODY, ROWS

LARGER = ("--models", "60", "--tasks", "4", "--largest", "120", "--files", "2")
NO_PAGES = {name for name, row in ROWS.items() if row != ANYBODY} | {
    *("account-deleted", "feed", "account_logout", "account_confirm_email"),
    *("account_reset_password_from_key", "socialaccount_signup", "socialaccount_connections"),
    *("openid_connect_login", "openid_connect_callback", "logout", "favicon", "cell"),
    "reversal-picture",
}
"""Addresses that take forms, are of one person or one attempt to sign in, or lead elsewhere; and a
picture of two models that so few models have not."""

FURTHER = 2
"""A page may have more to say: of questions with a likely wrong key there are none in the small
site. What is asked row by row is asked dozens of times more."""

COUNT = """
import django
django.setup()
from tests.leaderboard.test_query_counts import main
main()
"""

SITE = {
    "PLUMBLINE_SUITE": "generated",
    "PLUMBLINE_METRICS_TOKEN": "of a test",
    "PLUMBLINE_DEBUG": "1",  # pages are rendered each time, not kept
    "PLUMBLINE_DOWNLOADS_PER_MINUTE": "1000",  # one visitor looks at every address
    "PLUMBLINE_PAGES_PER_MINUTE": "1000",
}


def test_queries_of_a_page_do_not_grow_with_the_rows(tmp_path: Path) -> None:
    small, larger = tmp_path / "small", tmp_path / "larger"
    generated.copy_to(small)
    generated.make(larger, LARGER)
    few, many = queries(small), queries(larger)
    failed = {page: counts for page, counts in few.items() if set(map(type, counts)) != {int}}
    assert failed == {}, "say what to visit in ADDRESSES"
    grown = {
        page: (few[page], many[page])
        for page in few
        if any(more > less + FURTHER for less, more in zip(few[page], many[page], strict=True))
    }
    assert grown == {}


def queries(home: Path) -> dict[str, list[int]]:
    """By page the queries of each of its addresses, on the site in this folder."""
    names = {name for name in get_resolver().reverse_dict if isinstance(name, str)}
    done = python(home, "-c", COUNT, *sorted(names - NO_PAGES), **SITE)
    found: dict[str, list[int]] = json.loads(done.stdout)
    return found


# The pages of one site


def _named(name: str, *args: str) -> list[str]:
    return [reverse(name, args=args)]


def _run(**fields: object) -> str:
    return str(
        Run.objects.filter(**fields).order_by("created", "pk").values_list("pk", flat=True)[0]
    )


def _with_file() -> str:
    return _run(artifacts__kind=Artifact.Kind.SAMPLES)


def _board(name: str) -> list[str]:
    views: list[dict[str, str]] = [{}, {"style": "mmlu"}, {"score": "chance"}, {"q": "a;b"}]
    views.append({"type": "chat", "size": "1-"})
    return [f"{reverse(name)}?{urlencode(view)}" for view in views]


def _compared(name: str, by: str) -> list[str]:
    """Two runs with their files, or the two variants that were run."""
    runs = Run.objects.filter(artifacts__kind=Artifact.Kind.SAMPLES, task__style="mmlu")
    wanted = [run.variant_id if by == "m" else run.pk for run in runs.order_by("variant")[:2]]
    return [f"{reverse(name)}?{urlencode({by: ','.join(map(str, wanted))})}"]


def _models() -> list[str]:
    """One that is complete, one with a failure, one that has two variants where there is one."""
    done = HubModel.objects.exclude(variants__runs__state__in=[State.FAILED, State.QUEUED])
    failed = HubModel.objects.filter(variants__runs__state=State.FAILED)
    return [group.order_by("pk")[0].get_absolute_url() for group in (done, failed)]


def _recalled() -> list[str]:
    """Of every result of a task."""
    task = TaskVersion.objects.order_by("pk")[0]
    named = [f"{task.name}@{task.version}"]
    made, _ = recalls.recall("task", named, reason="to be counted", by="a test")
    return [made.get_absolute_url()]


def _flagged() -> list[str]:
    """With an answer."""
    by = User.objects.create_user("flags-and-answers")
    model = HubModel.objects.order_by("pk")[0]
    target = reports.Target(model)
    made = reports.report(target, kind="number", reason="copied", evidence="look", by=by)
    reports.answer(made, "and more", by=by)
    return [made.get_absolute_url()]


def _ruled() -> tuple[str, str]:
    """The name of a task with a file, and a question of it that two people dispute; with every
    second figure, so that all pages that are counted show them."""
    task = Artifact.objects.filter(kind=Artifact.Kind.SAMPLES, run__task__style="mmlu").order_by(
        "run__task__name"
    )[0].run.task  # fmt: skip
    found = questions_of_task(task.name)
    label = found.facts.label(0)
    said = {"verdict": "wrong", "answer": "", "reason": "look", "evidence": ""}
    for name in ("rules-one", "rules-two"):
        by, _ = User.objects.get_or_create(username=name)
        if not found.question(label).standing_of(by):
            reports.report_key(found.question(label), **said, by=by)
    while second_figures.compute_due():
        pass
    return task.name, label


def _departed() -> list[str]:
    """With one that lasts, and one that ended."""
    by = User.objects.create_user("departures")
    give(by, Role.MODERATOR)
    for model in HubModel.objects.order_by("pk")[:2]:
        rulings.take_out(model, "asked for by mail", by=by)
    rulings.bring_back(model, by=by)
    return [reverse("corrections")]


FILES = ("csv", "json", "parquet")
AXES = ("time", "tokens", "seconds")

ADDRESSES: Mapping[str, Callable[[], list[str]]] = {
    **{name: partial(_board, name) for name in ("board", *(f"board-{form}" for form in FILES))},
    "compare": lambda: [*_compared("compare", "run"), *_compared("compare", "m")],
    **{f"compare-{form}": partial(_compared, f"compare-{form}", "m") for form in FILES},
    "compare-picture": partial(_compared, "compare-picture", "m"),
    "charts": lambda: [
        reverse("charts"),
        *(f"{reverse('charts')}?against={axis}" for axis in AXES),
    ],
    "submission": lambda: [
        Submission.objects.filter(runs__state=state).order_by("pk")[0].get_absolute_url()
        for state in (State.DONE, State.FAILED)
    ],
    "api-submission": lambda: [
        reverse("api-submission", args=[Submission.objects.order_by("pk")[0].pk])
    ],
    **{name: partial(_named, name, "generated") for name in ("suite", "suite-cite", "picture")},
    "model": lambda: [
        f"{address}{tab}"
        for address in _models()
        for tab in ("", *(f"?tab={tab}" for tab in PARTS if tab))
    ],
    **{
        name: lambda name=name: [
            reverse(name, args=[address.removeprefix("/models/")]) for address in _models()
        ]
        for name in ("model-picture", "model-badge", "model-badge-dark", "model-embed")
    },
    "task": lambda: [TaskVersion.objects.order_by("pk")[0].get_absolute_url()],
    "task-questions": lambda: _named("task-questions", TaskVersion.objects.order_by("pk")[0].name),
    "run": lambda: [
        *_named("run", _with_file()),
        *(_named("run", _run(state=state))[0] for state in (State.FAILED, State.QUEUED)),
    ],
    "run-progress": lambda: _named("run-progress", _run(state=State.QUEUED)),
    **{
        name: lambda name=name: _named(name, _with_file())
        for name in ("run-recount", "run-picture", "run-record", "run-parquet")
    },
    "run-file": lambda: _named("run-file", _with_file(), "samples.jsonl"),
    "sitemap-section": lambda: [
        reverse("sitemap-section", args=[section]) for section in ("suites", "tasks", "models")
    ],
    "report": _flagged,
    "corrections": _departed,
    "task-keys": lambda: _named("task-keys", _ruled()[0]),
    "task-key": lambda: [
        f"{reverse('task-key', args=[name])}?{urlencode({'doc': label})}"
        for name, label in [_ruled()]
    ],
    "gpu": lambda: _named("gpu", 24),
    "recall": _recalled,
}
"""By name what to visit, where it is not the one address without arguments."""


def main() -> None:
    """By page the number for each of its addresses, or what went wrong."""
    client = Client(headers={"host": "127.0.0.1"}, raise_request_exception=False)
    found: dict[str, list[int | str]] = {}
    _ruled()
    # The recall is the last: what is recalled is missing on other pages.
    for page in sorted(sys.argv[1:], key=lambda name: (name.startswith("recall"), name)):
        addresses = ADDRESSES.get(page, lambda page=page: [reverse(page)])
        found[page] = [_counted(client, address) for address in addresses()]
    json.dump(found, sys.stdout)


def _counted(client: Client, address: str) -> int | str:
    """Queries of the first visit: what a process then keeps in memory must not come row by row."""
    known = {"authorization": f"Bearer {settings.PLUMBLINE_METRICS_TOKEN}"}
    with CaptureQueriesContext(connection) as queries:
        # To the API this would be an account's token.
        response = client.get(address, headers=known if address == reverse("metrics") else None)
        list(response)
    done = response.status_code in (200, 202)  # a count that goes on beside the request
    return len(queries) if done else f"{address}: {response.status_code}"
