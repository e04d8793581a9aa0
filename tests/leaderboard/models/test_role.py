"""Who may do what, and that an upgrade takes nothing from anybody."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group
from django.core.management import CommandError, call_command
from django.test import Client

from leaderboard.models import (
    Role,
    Submission,
    User,
    give,
    may_moderate,
    may_operate,
    may_submit,
    may_tell_workers,
    may_withdraw,
    role_of,
)

pytestmark = pytest.mark.django_db


def account(role: Role) -> User:
    user = User.objects.create_user(f"a-{role}")
    give(user, role)
    return User.objects.get(pk=user.pk)  # Django keeps the permissions of an instance


def powers(visitor: User | AnonymousUser) -> list[str]:
    asked = (may_submit, may_moderate, may_operate, may_tell_workers)
    return [may.__name__ for may in asked if may(visitor)]


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        (Role.USER, []),
        (Role.SUBMITTER, ["may_submit"]),
        (Role.MODERATOR, ["may_submit", "may_moderate"]),
        (Role.OPERATOR, ["may_submit", "may_moderate", "may_operate", "may_tell_workers"]),
    ],
)
def test_each_role_may_what_those_before_it_may(role: Role, expected: list[str]) -> None:
    assert powers(account(role)) == expected
    assert role_of(account_again := User.objects.get(username=f"a-{role}")) == role
    assert account_again.is_staff is (role == Role.OPERATOR)


def test_nobody_may_submit_where_the_site_is_open_and_nothing_else(settings: Any) -> None:
    assert (role_of(AnonymousUser()), powers(AnonymousUser())) == (Role.NOBODY, [])
    settings.PLUMBLINE_OPEN_SUBMIT = True
    assert powers(AnonymousUser()) == ["may_submit"]
    # Who was told not to submit cannot do it under the name of the account.
    assert powers(account(Role.USER)) == []


def test_a_new_account_submits_and_a_superuser_may_everything() -> None:
    assert role_of(User.objects.create_user("ada")) == Role.SUBMITTER
    assert role_of(User.objects.create_superuser("root")) == Role.OPERATOR


def test_a_submission_is_withdrawn_by_its_submitter_and_by_moderators(ada: User, bo: User) -> None:
    submission = Submission(submitter=ada)
    assert [may_withdraw(submission, who) for who in (ada, bo, AnonymousUser())] == [
        True,
        False,
        False,
    ]
    assert may_withdraw(submission, account(Role.MODERATOR))
    of_a_visitor = Submission(submitter=None)
    assert not may_withdraw(of_a_visitor, ada)
    assert not may_withdraw(of_a_visitor, AnonymousUser())
    assert may_withdraw(of_a_visitor, account(Role.OPERATOR))


def test_an_account_that_is_not_active_may_nothing() -> None:
    gone = account(Role.OPERATOR)
    gone.is_active = False
    assert powers(gone) == []


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


@pytest.mark.usefixtures("suite", "hub")
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
