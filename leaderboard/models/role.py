"""Who may do what: five roles, of which each may what those before it may.

Nobody is who is not signed in, a user who is. The other three are groups of Django's, so that an
account has its role in the administration, too, and a group its permissions in this file alone:
they are put right after every `migrate`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from django.apps import AppConfig, apps
from django.apps.registry import Apps
from django.conf import settings
from django.contrib.auth.models import AnonymousUser, Group
from django.db import transaction
from django.db.models.signals import post_save
from django.dispatch import receiver

from leaderboard.models.submission import Submission, User

Visitor = User | AnonymousUser


class Role(StrEnum):
    NOBODY = "nobody"
    """Reads everything that is public; where PLUMBLINE_OPEN_SUBMIT says so, submits."""
    USER = "user"
    """Has an account and signs in: votes under a name."""
    SUBMITTER = "submitter"
    """Submits models, and withdraws them. Every new account is one until somebody takes it back."""
    MODERATOR = "moderator"
    """Judges what others submit: withdraws it, and decides what is in dispute."""
    OPERATOR = "operator"
    """Answers for the site: workers, queue, models and accounts, in the administration."""


GROUPS = {
    Role.SUBMITTER: "Submitters",
    Role.MODERATOR: "Moderators",
    Role.OPERATOR: "Operators",
}
RIGHTS = {Role.SUBMITTER: ["submit"], Role.MODERATOR: ["submit", "moderate"]}
"""By role its permissions, which stand at `User`; operators have each of the site's tables, too."""


def role_of(visitor: Visitor) -> Role:
    if not visitor.is_authenticated:
        return Role.NOBODY
    for permission, role in (
        ("operate", Role.OPERATOR),
        ("moderate", Role.MODERATOR),
        ("submit", Role.SUBMITTER),
    ):
        if visitor.has_perm(f"leaderboard.{permission}"):
            return role
    return Role.USER


def may_submit(visitor: Visitor) -> bool:
    """Where the site is open, everybody but who has an account that may not."""
    if not visitor.is_authenticated:
        return bool(settings.PLUMBLINE_OPEN_SUBMIT)
    return visitor.has_perm("leaderboard.submit")


def may_withdraw(submission: Submission, visitor: Visitor) -> bool:
    """Who submitted it, and moderators; a submission of nobody's only these."""
    if not visitor.is_authenticated:
        return False
    return submission.submitter_id == visitor.pk or may_moderate(visitor)


def may_moderate(visitor: Visitor) -> bool:
    return visitor.has_perm("leaderboard.moderate")


def may_operate(visitor: Visitor) -> bool:
    return visitor.has_perm("leaderboard.operate")


def may_tell_workers(visitor: Visitor) -> bool:
    """Operators, and whoever was given this one permission."""
    return visitor.has_perm("leaderboard.change_poolorder")


def give(user: User, role: Role) -> None:
    """Put the account into this role and out of every other; operators enter the administration."""
    if role == Role.NOBODY:
        raise ValueError("an account is never nobody: deactivate or delete it instead")
    with transaction.atomic():
        user.groups.remove(*Group.objects.filter(name__in=GROUPS.values()))
        if role in GROUPS:
            user.groups.add(Group.objects.get_or_create(name=GROUPS[role])[0])
        user.is_staff = user.is_superuser or role == Role.OPERATOR
        user.save(update_fields=["is_staff"])


@receiver(post_save, sender=User)
def _submits(instance: User, created: bool, raw: bool, **_: Any) -> None:
    if created and not raw:
        instance.groups.add(Group.objects.get_or_create(name=GROUPS[Role.SUBMITTER])[0])


def grant_rights(app_config: AppConfig, using: str, apps: Apps = apps, **_: Any) -> None:
    """Give each group the permissions of its role: after `migrate`, which makes these last."""
    try:
        permissions = apps.get_model("auth", "Permission").objects.using(using)
        groups = apps.get_model("auth", "Group").objects.using(using)
    except LookupError:
        return  # an early part of the migrations, before there are any
    ours = permissions.filter(content_type__app_label=app_config.label)
    for role, name in GROUPS.items():
        group = groups.get_or_create(name=name)[0]
        group.permissions.set(ours.filter(codename__in=RIGHTS[role]) if role in RIGHTS else ours)
