"""Who may do what, who gets through at every address, and what the operator does with the tables.

A new address fails until it has a row. Got through is whoever is neither sent to sign in nor told
403. What an address then says (there is no such model, this form is wrong) is tested in its room.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import StringIO
from typing import Any, NamedTuple

import pytest
from django.contrib.auth.models import AnonymousUser, Group, Permission
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from leaderboard.models import (
    Report,
    Role,
    Run,
    Submission,
    Suite,
    TaskVersion,
    User,
    give,
    may_moderate,
    may_operate,
    may_submit,
    may_tell_workers,
    role_of,
)
from leaderboard.models.run import State
from leaderboard.queue.estimate import in_order
from tests.leaderboard import factories as make

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("suite")]

# Roles


def account(role: Role) -> User:
    user = User.objects.create_user(f"a-{role}")
    give(user, role)
    return User.objects.get(pk=user.pk)  # Django keeps the permissions of an instance


def powers(visitor: User | AnonymousUser) -> list[str]:
    asked = (may_submit, may_moderate, may_operate, may_tell_workers)
    return [may.__name__ for may in asked if may(visitor)]


def test_each_role_may_what_those_before_it_may() -> None:
    for role, expected in (
        (Role.USER, []),
        (Role.SUBMITTER, ["may_submit"]),
        (Role.MODERATOR, ["may_submit", "may_moderate"]),
        (Role.OPERATOR, ["may_submit", "may_moderate", "may_operate", "may_tell_workers"]),
    ):
        user = account(role)
        assert powers(user) == expected
        assert role_of(user) == role
        assert user.is_staff is (role == Role.OPERATOR)
    assert role_of(User.objects.create_user("ada")) == Role.SUBMITTER
    assert role_of(User.objects.create_superuser("root")) == Role.OPERATOR
    gone = User.objects.get(username="a-operator")
    gone.is_active = False
    assert powers(gone) == []


def test_nobody_may_submit_where_the_site_is_open_and_nothing_else(settings: Any) -> None:
    assert (role_of(AnonymousUser()), powers(AnonymousUser())) == (Role.NOBODY, [])
    settings.PLUMBLINE_OPEN_SUBMIT = True
    assert powers(AnonymousUser()) == ["may_submit"]
    # Who was told not to submit cannot do it under the name of the account.
    assert powers(account(Role.USER)) == []


def test_every_migrate_puts_the_permissions_of_the_groups_right() -> None:
    moderators = Group.objects.get(name="Moderators")
    moderators.permissions.clear()
    Group.objects.get(name="Submitters").delete()
    call_command("migrate", verbosity=0)
    names = {p.codename for p in moderators.permissions.all()}
    assert names == {"submit", "moderate"}
    assert role_of(account(Role.SUBMITTER)) == Role.SUBMITTER


def test_the_operators_command_says_and_gives_roles(ada: User) -> None:
    assert command("ada") == "ada is submitter\n"
    assert command("ada", "moderator") == "ada is moderator\n"
    assert command("ada", "user") == "ada is user\n"
    with pytest.raises(CommandError, match="no account is called “eve”"):
        command("eve", "user")
    User.objects.create_superuser("root")
    with pytest.raises(CommandError, match="“root” is a superuser"):
        command("root", "user")


def command(*args: str) -> str:
    out = StringIO()
    call_command("role", *args, stdout=out)
    return out.getvalue()


@pytest.mark.usefixtures("hub")
def test_an_account_that_may_not_submit_is_told_and_not_sent_to_sign_in(client: Client) -> None:
    client.force_login(account(Role.USER))
    form = client.get("/submit").text
    assert 'id="submit-button"' not in form
    assert 'id="sign-in-button"' not in form
    assert "The account a-user may check models, but not submit them." in form
    answer = client.post("/submit", {"model": "awkward/tiny-llama"})
    assert answer.status_code == 403
    assert "The account a-user may not submit models. Ask who runs this site why" in answer.text
    assert not Submission.objects.exists()


# Addresses

ORDER = list(Role)


class Row(NamedTuple):
    least: Role
    """Whoever has this role or a later one gets through."""
    method: str = "get"
    fields: dict[str, str] | None = None


ANYBODY, FORM = Row(Role.NOBODY), Row(Role.NOBODY, "post")
AXES = ("size", "time", "tokens", "seconds")
TABLES = ("board", "styles", "compare", "corrections-keys")
CHARTS = ("charts-agreement", "charts-questions", "charts-spread")
DRAWN = (*CHARTS, *(f"charts-by-{axis}" for axis in AXES))
READ = (
    *("board", "styles", "compare", "corrections"),
    *(f"{page}-{form}" for page in TABLES for form in ("csv", "json", "parquet")),
    *("charts", *CHARTS, "cell", "gpu"),
    *(f"{chart}-{form}" for chart in DRAWN for form in ("csv", "json", "parquet")),
    *(f"{chart}-plotly" for chart in DRAWN if chart != "charts-agreement"),
    "charts-agreement-svg",
    *("run-recount", "run-picture", "model-picture", "compare-picture"),
    *("model-badge", "model-badge-dark", "model-embed", "reversal-picture"),
    *("submit", "submit-suggestions", "submission", "queue", "pool", "backends", "model"),
    *("task", "task-questions", "corrections-feed", "report", "recall"),
    *("task-keys", "task-key"),
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
    "report-new": Row(Role.USER, "post"),
    "report-answer": Row(Role.MODERATOR, "post"),
    "report-rule": Row(Role.MODERATOR, "post"),
    "task-key-report": Row(Role.USER, "post"),
    "key-report-end": Row(Role.MODERATOR, "post"),
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
    "memory": 24,
    "section": "pages",
    "provider_id": "huggingface",
    "app_label": "leaderboard",
    "content_type_id": 1,
    "object_id": 1,
    "url": "nosuch",
    "key": "nosuch",
    "uidb36": "1",
}
OF_ITS_OWN: dict[str, dict[str, Any]] = {"key-report-end": {"number": 2}}


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
def submission(ada: User, bo: User, suite: Suite) -> Submission:
    """With its runs, and a flag and a ruling of somebody else's, whose numbers are in addresses."""
    variant = make.make_variant("lab/one")
    said = {"reason": "copied", "evidence": "look", "by": bo}
    Report.objects.create(pk=1, kind=Report.Kind.NUMBER, hub_model=variant.hub_model, **said)
    Report.objects.create(
        pk=2, kind=Report.Kind.KEY, task=TaskVersion.objects.get(name="facts"), docs_digest="d",
        part="facts", doc_id=0, doc_digest="e", verdict=Report.Verdict.WRONG, **said,
    )  # fmt: skip
    return make.make_submission(variant, suite, submitter=ada)


def browser_of(role: Role) -> Client:
    client = Client(raise_request_exception=False)
    if role != Role.NOBODY:
        client.force_login(account(role))
    return client


def got_through(client: Client, row: Row, address: str) -> bool:
    answer = getattr(client, row.method)(address, row.fields or {})
    assert answer.status_code != 500, address
    sent_to_sign_in = answer.status_code == 302 and answer["Location"].startswith(
        ("/accounts/login?", "/admin/login/")
    )
    return not (sent_to_sign_in or answer.status_code == 403)


@pytest.mark.parametrize("role", ORDER)
def test_every_page_and_form_lets_through_whom_its_row_says(
    role: Role, submission: Submission, settings: Any
) -> None:
    settings.PLUMBLINE_METRICS_TOKEN = ""
    client = browser_of(role)
    wrong = []
    for name, row in ROWS.items():
        address = EVERY[name].format(pk=submission.pk, **VALUES | OF_ITS_OWN.get(name, {}))
        wanted = ORDER.index(role) >= ORDER.index(row.least)
        if name.startswith(("logout", "account_logout")):
            continue  # it ends the session of this very test
        if got_through(client, row, address) != wanted:
            wrong.append((name, address))
    assert wrong == []


@pytest.mark.parametrize("role", ORDER)
def test_the_administration_is_the_operators(role: Role, submission: Submission) -> None:
    client = browser_of(role)
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


def test_an_operator_makes_no_superuser_and_changes_none(ada: User) -> None:
    client = browser_of(Role.OPERATOR)
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


# The operator's pages: all can be read; accounts and words about a model can be edited


@pytest.fixture
def operator(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("operator"))
    return client


def test_a_run_is_shown_with_its_events_and_cannot_be_changed(
    operator: Client, submission: Submission
) -> None:
    run = submission.runs.all()[0]
    page = reverse("admin:leaderboard_run_change", args=[run.pk])
    assert "submitted" in operator.get(page).text
    assert operator.post(page, {"state": "done"}).status_code == 403
    assert operator.post(reverse("admin:leaderboard_run_delete", args=[run.pk])).status_code == 403
    assert operator.get(reverse("admin:leaderboard_run_add")).status_code == 403


def act(operator: Client, action: str, *rows: Run | Submission) -> str:
    chosen = {
        "action": action,
        "_selected_action": [str(row.pk) for row in rows],
        "reason": "a fault of ours",
    }
    page = reverse(f"admin:leaderboard_{rows[0]._meta.model_name}_changelist")
    return operator.post(page, chosen, follow=True).text


def test_the_operator_withdraws_a_submission_with_its_runs(
    operator: Client, submission: Submission
) -> None:
    act(operator, "withdraw", submission)
    assert set(Run.objects.values_list("state", flat=True)) == {State.CANCELLED}


def test_the_operator_cancels_a_run_and_has_it_tried_again_unless_another_stands_in_its_place(
    operator: Client, submission: Submission, suite: Suite
) -> None:
    first, second = submission.runs.order_by("pk")
    assert "2 of 2 runs were cancelled." in act(operator, "cancel", first, second)
    assert "0 of 1 runs were cancelled. 1 could not be" in act(operator, "cancel", first)
    assert "1 of 1 runs were queued again." in act(operator, "retry", first)
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.state, second.state) == (State.QUEUED, State.CANCELLED)
    assert [event.state for event in first.events.all()] == ["queued", "cancelled", "queued"]
    make.queued_run(submission.variant, suite.entries.get(task=second.task))
    assert "0 of 1 runs were queued again. 1 could not be" in act(operator, "retry", second)
    second.refresh_from_db()
    assert second.state == State.CANCELLED


def test_who_may_only_look_acts_on_nothing(client: Client, submission: Submission) -> None:
    looker = User.objects.create_user("looker", is_staff=True)
    tables = ("view_run", "view_submission")
    looker.user_permissions.set(Permission.objects.filter(codename__in=tables))
    client.force_login(looker)
    run = Run.objects.earliest("pk")
    assert str(run.pk) in client.get(reverse("admin:leaderboard_run_changelist")).text
    act(client, "cancel", run)
    act(client, "withdraw", submission)
    assert set(Run.objects.values_list("state", flat=True)) == {State.QUEUED}


def test_the_operator_moves_runs_in_the_queue_and_the_page_says_so(
    operator: Client, submission: Submission
) -> None:
    *_, last = in_order(Run.objects.all())
    act(operator, "put_first", last)
    assert in_order(Run.objects.all())[0] == last
    assert "Put before others by the operator." in operator.get("/queue").text
    act(operator, "put_last", last)
    assert [*in_order(Run.objects.all())][-1] == last
    act(operator, "put_last", *Run.objects.all())
    assert "Put behind others by the operator." in operator.get("/queue").text
    act(operator, "put_back", *Run.objects.all())
    last.refresh_from_db()
    assert last.priority == 0
    assert "by the operator." not in operator.get("/queue").text


def test_the_operator_says_what_is_official_and_what_not_to_trust(
    operator: Client, submission: Submission
) -> None:
    model = submission.variant.hub_model
    page = reverse("admin:leaderboard_hubmodel_change", args=[model.pk])
    operator.post(page, {"official": "on", "flag_reason": "trained on the test", "hub_state": "x"})
    model.refresh_from_db()
    assert (model.official, model.flag_reason) == (True, "trained on the test")
    assert model.hub_state == "present"
