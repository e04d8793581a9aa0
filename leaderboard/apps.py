from django.apps import AppConfig
from django.db.models.signals import post_migrate


class LeaderboardConfig(AppConfig):
    name = "leaderboard"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from leaderboard.models.role import grant_rights

        # After Django's own listener, which makes the permissions that are granted.
        post_migrate.connect(grant_rights, sender=self)
