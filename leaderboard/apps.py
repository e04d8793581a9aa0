from django.apps import AppConfig
from django.contrib.admin import apps as admin_apps
from django.db.models.signals import post_migrate


class LeaderboardConfig(AppConfig):
    name = "leaderboard"
    default = True
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from leaderboard.models.role import grant_rights

        # After Django's own listener, which makes the permissions that are granted.
        post_migrate.connect(grant_rights, sender=self)


class Administration(admin_apps.AdminConfig):
    default = False
    default_site = "leaderboard.dashboard.OperatorSite"
