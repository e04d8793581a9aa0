"""How many queries each page of a generated site takes, printed as JSON.

For a process of its own (`test_query_counts.py` starts it), so that nothing is kept in memory from
another database.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from urllib.parse import urlencode

from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from leaderboard import court, disputed, recalls
from leaderboard.court.bench import bench
from leaderboard.models import (
    Artifact,
    Departure,
    Flag,
    FlagAnswer,
    HubModel,
    Run,
    Submission,
    TaskVersion,
    User,
)
from leaderboard.models.run import State


def _run(**fields: object) -> list[str]:
    return [
        str(Run.objects.filter(**fields).order_by("created", "pk").values_list("pk", flat=True)[0])
    ]


def _with_file() -> list[str]:
    return _run(artifacts__kind=Artifact.Kind.SAMPLES)


def _board(name: str) -> list[str]:
    views = (
        {},
        {"style": "mmlu"},
        {"score": "chance"},
        {"q": "a;b"},
        {"type": "chat", "size": "1-"},
    )
    return [f"{reverse(name)}?{urlencode(view)}" for view in views]


def _compared(name: str, by: str) -> list[str]:
    """Two runs with their files, or the two variants that were run."""
    runs = Run.objects.filter(artifacts__kind=Artifact.Kind.SAMPLES, task__style="mmlu")
    wanted = [run.variant_id if by == "m" else run.pk for run in runs.order_by("variant")[:2]]
    return [f"{reverse(name)}?{urlencode({by: ','.join(map(str, wanted))})}"]


def _of_run(name: str, pk: list[str], *more: str) -> str:
    return reverse(name, args=[*pk, *more])


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
    made = Flag.objects.create(hub_model=model, reason="copied", evidence="look", by=by)
    FlagAnswer.objects.create(flag=made, by=by, side=FlagAnswer.Side.RAISED, text="and more")
    return [made.get_absolute_url()]


def _ruled() -> tuple[str, str]:
    """The name of a task with a file, and a question of it that two people dispute; with every
    second figure, so that all pages that are counted show them."""
    task = Artifact.objects.filter(kind=Artifact.Kind.SAMPLES, run__task__style="mmlu").order_by(
        "run__task__name"
    )[0].run.task  # fmt: skip
    found = bench(task.name)
    label = found.facts.label(0)
    said = {"verdict": "wrong", "answer": "", "reason": "look", "source": ""}
    for name in ("rules-one", "rules-two"):
        by, _ = User.objects.get_or_create(username=name)
        if not found.question(label).standing_of(by):
            court.rule(found.question(label), **said, by=by)
    while disputed.compute_due():
        pass
    return task.name, label


def _departed() -> list[str]:
    """With one that lasts, and one that ended."""
    by = User.objects.create_user("departures")
    first, second = HubModel.objects.order_by("pk")[:2]
    Departure.objects.create(hub_model=first, by=by, side=Departure.Side.AUTHOR, words="a draft")
    Departure.objects.create(
        hub_model=second, by=by, side=Departure.Side.MODERATOR, words="asked for by mail",
        ended=timezone.now(), ended_by=by,
    )  # fmt: skip
    return [reverse("departures")]


def _one_address(name: str, *args: str) -> Callable[[], list[str]]:
    return lambda: [reverse(name, args=args)]


SIGNING_UP = (
    "account_login",
    "account_signup",
    "account_inactive",
    "account_email_verification_sent",
    "account_reset_password",
    "account_reset_password_done",
    "account_reset_password_from_key_done",
    "socialaccount_login_cancelled",
)

PAGES: Mapping[str, Callable[[], list[str]]] = {
    "board": lambda: _board("board"),
    "board-csv": lambda: _board("board-csv"),
    "board-json": lambda: _board("board-json"),
    "board-parquet": lambda: _board("board-parquet"),
    "styles": _one_address("styles"),
    "styles-csv": _one_address("styles-csv"),
    "styles-json": _one_address("styles-json"),
    "styles-parquet": _one_address("styles-parquet"),
    "sisters": _one_address("sisters"),
    **{f"sisters-{form}": _one_address(f"sisters-{form}") for form in ("csv", "json", "parquet")},
    "compare": lambda: [*_compared("compare", "run"), *_compared("compare", "m")],
    "compare-csv": lambda: _compared("compare-csv", "m"),
    "compare-json": lambda: _compared("compare-json", "m"),
    "compare-parquet": lambda: _compared("compare-parquet", "m"),
    "charts": lambda: [
        reverse("charts"),
        *(
            f"{reverse('charts')}?against={axis}"
            for axis in ("time", "tokens", "seconds", "joules")
        ),
    ],
    "charts-agreement": _one_address("charts-agreement"),
    "charts-questions": _one_address("charts-questions"),
    "charts-spread": _one_address("charts-spread"),
    **{
        f"charts-{page}-{form}": _one_address(f"charts-{page}-{form}")
        for page in ("agreement", "questions", "spread")
        for form in ("svg", "csv", "json", "parquet")
    },
    **{
        f"charts-by-{axis}-{form}": _one_address(f"charts-by-{axis}-{form}")
        for axis in ("size", "time", "tokens", "seconds", "joules")
        for form in ("svg", "csv", "json", "parquet")
    },
    "submit": _one_address("submit"),
    "submission": lambda: [
        Submission.objects.filter(runs__state=state).order_by("pk")[0].get_absolute_url()
        for state in (State.DONE, State.FAILED)
    ],
    "api-submission": lambda: [
        reverse("api-submission", args=[Submission.objects.order_by("pk")[0].pk])
    ],
    "queue": _one_address("queue"),
    "pool": _one_address("pool"),
    "backends": _one_address("backends"),
    "suites": _one_address("suites"),
    "suite": _one_address("suite", "generated"),
    "suite-cite": _one_address("suite-cite", "generated"),
    "method": _one_address("method"),
    "about": _one_address("about"),
    "changelog": _one_address("changelog"),
    "model": _models,
    "task": lambda: [TaskVersion.objects.order_by("pk")[0].get_absolute_url()],
    "task-questions": lambda: [
        reverse("task-questions", args=[TaskVersion.objects.order_by("pk")[0].name])
    ],
    "run": lambda: [
        _of_run("run", pk)
        for pk in (_with_file(), _run(state=State.FAILED), _run(state=State.QUEUED))
    ],
    "run-progress": lambda: [_of_run("run-progress", _run(state=State.QUEUED))],
    "run-recount": lambda: [_of_run("run-recount", _with_file())],
    "run-record": lambda: [_of_run("run-record", _with_file())],
    "run-parquet": lambda: [_of_run("run-parquet", _with_file())],
    "run-file": lambda: [_of_run("run-file", _with_file(), "samples.jsonl")],
    "login": _one_address("login"),
    **{name: _one_address(name) for name in SIGNING_UP},
    "healthz": _one_address("healthz"),
    "readyz": _one_address("readyz"),
    "metrics": _one_address("metrics"),
    "robots": _one_address("robots"),
    "sitemap": _one_address("sitemap"),
    "sitemap-section": lambda: [
        reverse("sitemap-section", args=[section]) for section in ("suites", "tasks", "models")
    ],
    "picture": _one_address("picture", "generated"),
    "compare-picture": lambda: _compared("compare-picture", "m"),
    "model-picture": lambda: [
        reverse("model-picture", args=[address.removeprefix("/models/")]) for address in _models()
    ],
    "flags": _one_address("flags"),
    "flag": _flagged,
    "departures": _departed,
    "court": _one_address("court"),
    **{f"court-{form}": _one_address(f"court-{form}") for form in ("csv", "json", "parquet")},
    "task-keys": lambda: [reverse("task-keys", args=[_ruled()[0]])],
    "task-key": lambda: [
        f"{reverse('task-key', args=[name])}?{urlencode({'doc': label})}"
        for name, label in [_ruled()]
    ],
    # The last: what is recalled is missing on other pages.
    "recall": _recalled,
    "recalls": _one_address("recalls"),
}
"""By name of the address what to visit."""


def main() -> None:
    """By page the number for each of its addresses, or what went wrong."""
    client = Client(headers={"host": "127.0.0.1"}, raise_request_exception=False)
    found: dict[str, list[int | str]] = {}
    _ruled()
    for page, addresses in PAGES.items():
        found[page] = [_counted(client, address) for address in addresses()]
    json.dump(found, sys.stdout)


def _counted(client: Client, address: str) -> int | str:
    """Queries of the first visit: what a process then keeps in memory must not come row by row."""
    known = {"authorization": f"Bearer {settings.PLUMBLINE_METRICS_TOKEN}"}
    with CaptureQueriesContext(connection) as queries:
        # To the API this would be an account's token.
        response = client.get(address, headers=known if address == reverse("metrics") else None)
        list(response)
    return len(queries) if response.status_code == 200 else f"{address}: {response.status_code}"
