"""Who gets through at every address of the site, by role; a new address fails until it has a row.

Got through is whoever is neither sent to sign in nor told 403. What an address then says (there is
no such model, this form is wrong) is tested in its room.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from leaderboard.models import Flag, Role, Ruling, Submission, TaskVersion, User, give
from tests.leaderboard import factories as make

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("suite")]

ORDER = list(Role)


class Row(NamedTuple):
    least: Role
    """Whoever has this role or a later one gets through."""
    method: str = "get"
    fields: dict[str, str] | None = None


ANYBODY, FORM = Row(Role.NOBODY), Row(Role.NOBODY, "post")
AXES = ("size", "time", "tokens", "seconds", "joules")
CHART_FORMS = ("svg", "csv", "json", "parquet")
READ = (
    *("board", "board-csv", "board-json", "board-parquet", "cell"),
    *("styles", "styles-csv", "styles-json", "styles-parquet"),
    *("compare", "compare-csv", "compare-json", "compare-parquet"),
    *("sisters", "sisters-csv", "sisters-json", "sisters-parquet"),
    "charts",
    *("charts-agreement", *(f"charts-agreement-{form}" for form in CHART_FORMS)),
    *("charts-questions", *(f"charts-questions-{form}" for form in CHART_FORMS)),
    *("charts-spread", *(f"charts-spread-{form}" for form in CHART_FORMS)),
    *(f"charts-by-{axis}-{form}" for axis in AXES for form in CHART_FORMS),
    *("run-recount", "model-picture", "compare-picture"),
    *("submit", "submission", "queue", "pool", "backends", "model", "task", "task-questions"),
    *("recalls", "recall", "flags", "flag", "departures"),
    *("court", "court-csv", "court-json", "court-parquet", "task-keys", "task-key"),
    *("suites", "suite", "suite-cite", "method", "about", "changelog", "picture"),
    *("run", "run-progress", "run-record", "run-parquet", "run-file"),
    *("healthz", "readyz", "metrics", "robots", "sitemap", "sitemap-section", "favicon"),
)
SIGNING_IN = (
    *("login", "account_login", "logout", "account_logout", "account_signup", "account_inactive"),
    *("account_email_verification_sent", "account_confirm_email"),
    *("account_reset_password", "account_reset_password_done"),
    *("account_reset_password_from_key", "account_reset_password_from_key_done"),
    *("socialaccount_signup", "socialaccount_connections", "socialaccount_login_cancelled"),
    *("openid_connect_login", "openid_connect_callback"),
)
ROWS = {
    **dict.fromkeys((*READ, *SIGNING_IN), ANYBODY),
    "submission-vote": FORM,
    "submission-again": Row(Role.SUBMITTER, "post"),
    "submission-withdraw": Row(Role.MODERATOR, "post"),
    "pool-orders": Row(Role.OPERATOR, "post", {"order": "drain", "worker": ""}),
    **dict.fromkeys(("account", "account-submissions", "account-export"), Row(Role.USER)),
    "account-delete": Row(Role.USER),
    "account-notices": Row(Role.USER),
    "account-tokens": Row(Role.USER),
    "feed": ANYBODY,
    # Whom a token lets through is tested in its room: a session counts for nothing there.
    "api-submissions": FORM,
    "api-submission": ANYBODY,
    "account-deleted": ANYBODY,
    "flag-new": Row(Role.USER, "post"),
    "departure-change": Row(Role.USER),
    "flag-answer": Row(Role.MODERATOR, "post"),
    "flag-decide": Row(Role.MODERATOR, "post"),
    "task-key-rule": Row(Role.USER, "post"),
    "ruling-end": Row(Role.MODERATOR, "post"),
}
ADMINISTRATION = Row(Role.OPERATOR)

VALUES: dict[str, Any] = {
    "repo_id": "lab/one",
    "reference": "small",
    "name": "facts",
    "file": "samples.jsonl",
    "column": "facts",
    "variant": 1,
    "number": 1,
    "section": "pages",
    "provider_id": "huggingface",
    "app_label": "leaderboard",
    "content_type_id": 1,
    "object_id": 1,
    "url": "nosuch",
    "key": "nosuch",
    "uidb36": "1",
}


def addresses(
    patterns: list[URLPattern | URLResolver] | None = None, path: str = "/", space: str = ""
) -> Iterator[tuple[str, str]]:
    """Name and address, with gaps to fill, of everything that the site answers."""
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        here = path + _written(pattern)
        if isinstance(pattern, URLResolver):
            yield from addresses(pattern.url_patterns, here, pattern.namespace or space)
        else:
            yield f"{space}:{pattern.name}" if space else str(pattern.name), here


def _written(pattern: URLPattern | URLResolver) -> str:
    written = str(pattern.pattern).removeprefix("^").removesuffix("$").removesuffix("\\Z")
    written = re.sub(r"\(\?P<(\w+)>(?:[^()]|\([^()]*\))*\)", r"{\1}", written)
    return re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", written)


EVERY = dict(addresses())


def test_every_address_has_a_row() -> None:
    named = {name for name in EVERY if not name.startswith("admin:")}
    assert named - {"None"} == set(ROWS), "say in ROWS who gets through at the new address"


@pytest.fixture
def submission(ada: User, suite: Any) -> Submission:
    return Submission.objects.create(
        variant=make.make_variant("lab/one"), suite=suite, submitter=ada
    )


@pytest.fixture(autouse=True)
def _flag(submission: Submission, bo: User) -> None:
    """Of somebody else's, so that its number is in the addresses."""
    model = submission.variant.hub_model
    Flag.objects.create(pk=1, hub_model=model, reason="copied", evidence="look", by=bo)


@pytest.fixture(autouse=True)
def _ruling(suite: Any, bo: User) -> None:
    Ruling.objects.create(
        pk=1, task=TaskVersion.objects.get(name="facts"), docs_digest="d", part="facts", doc_id=0,
        doc_digest="e", verdict=Ruling.Verdict.WRONG, reason="look", by=bo,
    )  # fmt: skip


@pytest.fixture
def as_(db: None) -> Callable[[Role], Client]:
    def browser(role: Role) -> Client:
        client = Client(raise_request_exception=False)
        if role != Role.NOBODY:
            user = User.objects.create_user(f"a-{role}")
            give(user, role)
            client.force_login(user)
        return client

    return browser


def got_through(client: Client, row: Row, address: str) -> bool:
    answer = getattr(client, row.method)(address, row.fields or {})
    assert answer.status_code != 500, address
    sent_to_sign_in = answer.status_code == 302 and answer["Location"].startswith(
        ("/accounts/login?", "/admin/login/")
    )
    return not (sent_to_sign_in or answer.status_code == 403)


@pytest.mark.parametrize("role", ORDER)
def test_every_page_and_form_lets_through_whom_its_row_says(
    role: Role, as_: Callable[[Role], Client], submission: Submission, settings: Any
) -> None:
    settings.PLUMBLINE_METRICS_TOKEN = ""
    client = as_(role)
    wrong = []
    for name, row in ROWS.items():
        address = EVERY[name].format(pk=submission.pk, **VALUES)
        wanted = ORDER.index(role) >= ORDER.index(row.least)
        if name.startswith(("logout", "account_logout")):
            continue  # it ends the session of this very test
        if got_through(client, row, address) != wanted:
            wrong.append((name, address))
    assert wrong == []


@pytest.mark.parametrize("role", ORDER)
def test_the_administration_is_the_operators(
    role: Role, as_: Callable[[Role], Client], submission: Submission
) -> None:
    client = as_(role)
    pages = [
        name for name in EVERY if name.startswith("admin:leaderboard") or name == "admin:index"
    ]
    assert len(pages) > 60
    # Of what the runners wrote nothing is added, changed or deleted by hand, by anybody.
    looked_at = [name for name in pages if name.endswith(("_changelist", "index"))]
    through = [
        name
        for name in (pages if role != Role.OPERATOR else looked_at)
        if got_through(client, ADMINISTRATION, EVERY[name].format(pk=1, **VALUES))
    ]
    assert through == (looked_at if role == Role.OPERATOR else [])


def test_an_operator_makes_no_superuser_and_changes_none(
    as_: Callable[[Role], Client], ada: User
) -> None:
    client = as_(Role.OPERATOR)
    root = User.objects.create_superuser("root", password="of-root")
    address = f"/admin/leaderboard/user/{ada.pk}/change/"
    assert client.get(address).status_code == 200
    fields = {"username": "ada", "is_active": "on", "is_superuser": "on", "user_permissions": "1"}
    date = {"date_joined_0": "2026-01-01", "date_joined_1": "00:00:00"}
    assert client.post(address, fields | date).status_code == 302, "the rest is changed"
    ada.refresh_from_db()
    assert not ada.is_superuser
    assert not ada.user_permissions.exists()
    for page in (
        f"/admin/leaderboard/user/{root.pk}/change/",
        f"/admin/leaderboard/user/{root.pk}/password/",
    ):
        assert client.post(
            page, fields | date | {"password1": "x9-mine-now", "password2": "x9-mine-now"}
        ).status_code in (302, 403)
    root.refresh_from_db()
    assert root.check_password("of-root")
    assert root.username == "root"
    assert client.post(
        "/admin/leaderboard/user/",
        {"action": "delete_selected", "_selected_action": [root.pk], "post": "yes"},
    ).status_code in (200, 302, 403)
    assert User.objects.filter(pk=root.pk).exists()
