"""The operator's view of the tables. What runners wrote can be read here and not changed."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.contrib.auth.admin import UserAdmin
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from leaderboard import models
from leaderboard.queue import claims, reruns
from leaderboard.submissions import submit

FIRST = 100
"""The priority of what the operator puts first."""

admin.site.site_header = "Plumbline"
admin.site.register(models.User, UserAdmin)


def _never(self: Any, request: HttpRequest, obj: Any | None = None) -> bool:  # noqa: ARG001
    return False


# Django admin classes cannot be subscripted at run time.
class ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg]
    """For rows that only the queue, a worker or `sync_tasks` may write."""

    has_add_permission = has_change_permission = has_delete_permission = _never

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Who may change rows by actions, which know what else must change; not who may look."""
        return request.user.has_perm(f"leaderboard.change_{self.opts.model_name}")


class EventInline(admin.TabularInline):  # type: ignore[type-arg]
    model = models.RunEvent
    extra = 0
    can_delete = False
    readonly_fields = ("at", "state", "by", "why")
    has_add_permission = _never


class WithReason(ActionForm):
    reason = forms.CharField(required=False, label="Reason, of what runs again:")


@admin.register(models.Run)
class RunAdmin(ReadOnly):
    action_form = WithReason
    list_display = (
        *("variant", "task", "shots", "state", "priority", "error_class", "worker", "created"),
    )
    list_filter = ("state", "error_class", "task__benchmark", "task__style", "worker")
    search_fields = ("id", "variant__hub_model__repo_id", "error_message")
    list_select_related = ("variant__hub_model", "task", "worker")
    inlines = (EventInline,)
    actions = ("cancel", "retry", "put_first", "put_last", "put_back", "rerun")

    @admin.action(permissions=["operate"], description="Cancel, whoever wants them")
    def cancel(self, request: HttpRequest, chosen: QuerySet[models.Run]) -> None:
        by = request.user.get_username()
        why = "by an operator"
        self._said(request, [claims.cancel(run, by=by, why=why) for run in chosen], "cancelled")

    @admin.action(permissions=["operate"], description="Try again what failed or was cancelled")
    def retry(self, request: HttpRequest, chosen: QuerySet[models.Run]) -> None:
        by = request.user.get_username()
        self._said(request, [claims.retry(run, by=by) for run in chosen], "queued again")

    @admin.action(permissions=["operate"], description="Put before all others that wait")
    def put_first(self, request: HttpRequest, chosen: QuerySet[models.Run]) -> None:
        self._put(request, chosen, FIRST)

    @admin.action(permissions=["operate"], description="Put behind all others that wait")
    def put_last(self, request: HttpRequest, chosen: QuerySet[models.Run]) -> None:
        self._put(request, chosen, -FIRST)

    @admin.action(permissions=["operate"], description="Put back to their place in the queue")
    def put_back(self, request: HttpRequest, chosen: QuerySet[models.Run]) -> None:
        self._put(request, chosen, 0)

    @admin.action(permissions=["operate"], description="Run again, and replace what is done")
    def rerun(self, request: HttpRequest, chosen: QuerySet[models.Run]) -> None:
        done = chosen.filter(state=models.Run.State.DONE, superseded_by=None)
        runs = done.select_related("variant", "task").order_by("finished")
        try:
            by, reason = request.user.get_username(), request.POST.get("reason", "")
            ordered = reruns.rerun(runs, by=by, reason=reason)
        except reruns.NoReason as problem:
            self.message_user(request, f"Nothing is queued. {problem}", messages.ERROR)
            return
        queued = len(ordered.queued)
        self._said(request, [True] * queued + [False] * (len(chosen) - queued), "queued again")

    def _put(self, request: HttpRequest, chosen: QuerySet[models.Run], priority: int) -> None:
        by = request.user.get_username()
        moved = [claims.put(run, priority, by=by) for run in chosen]
        self._said(request, moved, "moved")

    def _said(self, request: HttpRequest, done: list[bool], what: str) -> None:
        """How many; the others were in no state for it."""
        left = len(done) - sum(done)
        also = f" {left} could not be: look at their state." if left else ""
        level = messages.WARNING if left else messages.SUCCESS
        self.message_user(request, f"{sum(done)} of {len(done)} runs were {what}.{also}", level)


@admin.register(models.Rerun)
class RerunAdmin(ReadOnly):
    """Given by an action on runs, or by `manage.py supersede`."""

    list_display = ("reason", "by", "at")


@admin.register(models.PoolOrder)
class PoolOrderAdmin(ReadOnly):
    """Given on the page of workers, or by `manage.py pool`."""

    list_display = ("worker", "kind", "why", "by", "at")


@admin.register(models.RunEvent)
class RunEventAdmin(ReadOnly):
    list_display = ("run", "at", "state", "by", "why")
    list_filter = ("state",)
    list_select_related = ("run__variant__hub_model", "run__task")


@admin.register(models.Result)
class ResultAdmin(ReadOnly):
    list_display = ("run", "task_name", "subset", "metric", "filter", "value", "stderr", "n")
    list_filter = ("metric", "filter")
    search_fields = ("task_name", "run__variant__hub_model__repo_id")
    list_select_related = ("run__variant__hub_model", "run__task")


@admin.register(models.Artifact)
class ArtifactAdmin(ReadOnly):
    list_display = ("run", "kind", "sha256", "bytes", "rows", "created")
    list_filter = ("kind",)
    search_fields = ("sha256",)
    list_select_related = ("run__variant__hub_model", "run__task")


@admin.register(models.Worker)
class WorkerAdmin(ReadOnly):
    list_display = ("name", "device", "memory_bytes", "dtypes", "seen")


@admin.register(models.TaskVersion)
class TaskVersionAdmin(ReadOnly):
    list_display = ("name", "version", "benchmark", "style", "primary_metric", "config_digest")
    list_filter = ("style", "benchmark")
    search_fields = ("name", "config_digest")


class EntryInline(admin.TabularInline):  # type: ignore[type-arg]
    model = models.SuiteEntry
    extra = 0


@admin.register(models.Suite)
class SuiteAdmin(ReadOnly):
    list_display = ("name", "version", "title", "created")
    inlines = (EntryInline,)


@admin.register(models.HubModel)
class HubModelAdmin(ReadOnly):
    """What nobody else can know is for the operator to say; the rest is the Hub's word."""

    list_display = ("repo_id", "official", "flag_reason", "hub_state", "hub_checked", "first_seen")
    list_filter = ("official", "hub_state")
    search_fields = ("repo_id",)
    fields = ("repo_id", "official", "flag_reason", "hub_state", "renamed_to", "hub_checked")
    readonly_fields = ("repo_id", "hub_state", "renamed_to", "hub_checked")

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002
        return request.user.has_perm("leaderboard.change_hubmodel")


@admin.register(models.Variant)
class VariantAdmin(ReadOnly):
    list_display = ("hub_model", "commit", "dtype", "kind", "architecture", "parameters", "created")
    list_filter = ("dtype", "kind", "merged", "moe")
    search_fields = ("hub_model__repo_id", "commit")
    list_select_related = ("hub_model",)


@admin.register(models.Submission)
class SubmissionAdmin(ReadOnly):
    list_display = ("variant", "suite", "submitter", "state", "created")
    list_filter = ("state", "suite")
    search_fields = ("variant__hub_model__repo_id", "submitter__username")
    list_select_related = ("variant__hub_model", "suite", "submitter")
    actions = ("withdraw",)

    @admin.action(
        permissions=["operate"], description="Withdraw, and stop the runs that nobody else wants"
    )
    def withdraw(self, request: HttpRequest, chosen: QuerySet[Model]) -> None:
        stopped = []
        for submission in models.Submission.objects.filter(pk__in=chosen):
            stopped += submit.withdraw(submission, request.user)
        self.message_user(request, f"{len(stopped)} runs were stopped.")
