"""`manage.py role ada moderator`: what an account may do."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from leaderboard.models import Role, User, give, role_of

ROLES = [role.value for role in Role if role != Role.NOBODY]


class Command(BaseCommand):
    help = "Say which role an account has, or give it another: each may what those before it may."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("account", help="its name, as who has it signs in")
        parser.add_argument("role", nargs="?", choices=ROLES, help="empty: say which it has")

    def handle(self, *_args: Any, account: str, role: str | None, **_options: Any) -> None:
        try:
            user = User.objects.get(username=account)
        except User.DoesNotExist:
            raise CommandError(
                f"no account is called “{account}”: names are as on /admin/leaderboard/user/"
            ) from None
        if role:
            if user.is_superuser and role != Role.OPERATOR:
                raise CommandError(
                    f"“{account}” is a superuser, who may everything: take that away first, in "
                    "the administration"
                )
            give(user, Role(role))
        self.stdout.write(f"{account} is {role_of(User.objects.get(pk=user.pk))}")
