"""The operator's view of the tables. What runners wrote can be read here and not changed."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.contrib.auth.admin import UserAdmin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.text import Truncator

from leaderboard import models
from leaderboard.corrections import recalls
from leaderboard.corrections.reports import Refused
from leaderboard.queue import claims, reruns
from leaderboard.submissions import submit

FIRST = 100
"""The priority of runs at the front of the queue."""


def _not_above(request: HttpRequest, account: Any | None) -> bool:
    """Whether the account is none of a superuser's, whose password would be theirs, too."""
    return request.user.is_superuser or not (account and account.is_superuser)


def _never(self: Any, request: HttpRequest, obj: Any | None = None) -> bool:  # noqa: ARG001
    return False


# Django admin classes cannot be subscripted at run time.
@admin.register(models.User)
class AccountAdmin(UserAdmin):  # type: ignore[type-arg]
    """Operators give roles, and no more than their own: what is beyond is a superuser's."""

    def get_readonly_fields(self, request: HttpRequest, obj: Any | None = None) -> Any:
        fields = tuple(super().get_readonly_fields(request, obj))
        if request.user.is_superuser:
            return fields
        return (*fields, "is_superuser", "user_permissions")

    def has_change_permission(self, request: HttpRequest, obj: Any | None = None) -> bool:
        return _not_above(request, obj) and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any | None = None) -> bool:
        return _not_above(request, obj) and super().has_delete_permission(request, obj)


@admin.register(models.Quota)
class QuotaAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """How many models one account may submit in a day, where that is not what everybody may."""

    list_display = ("user", "most", "why")
    search_fields = ("user__username",)
    list_select_related = ("user",)
    raw_id_fields = ("user",)


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
    reason = forms.CharField(required=False, label="Reason:")


def reason_of(request: HttpRequest) -> str:
    """What the operator gave with an action; everybody reads it where the action shows."""
    return str(request.POST.get("reason", "")).strip()


@admin.register(models.Run)
class RunAdmin(ReadOnly):
    action_form = WithReason
    list_display = ("model_name", "task", "state", "cause", "worker", "created")
    list_filter = ("state", "error_class", "task__style", "worker")
    search_fields = ("id", "variant__hub_model__repo_id", "error_message")
    list_select_related = ("variant__hub_model", "task", "worker")
    inlines = (EventInline,)
    actions = ("cancel", "retry", "put_first", "put_last", "put_back", "rerun")

    @admin.display(description="model", ordering="variant__hub_model__repo_id")
    def model_name(self, run: models.Run) -> str:
        return run.variant.hub_model.repo_id

    @admin.display(empty_value="")
    def cause(self, run: models.Run) -> str:
        return Truncator(run.error_message).chars(60)

    @admin.action(permissions=["operate"], description="Cancel (needs a reason)")
    def cancel(self, request: HttpRequest, chosen: QuerySet[models.Run]) -> None:
        why = reason_of(request)
        if not why:
            text = "Nothing is cancelled. Say why under “Reason”: it stands on the runs' pages."
            self.message_user(request, text, messages.ERROR)
            return
        by = request.user.get_username()
        self._said(request, [claims.cancel(run, by=by, why=why) for run in chosen], "cancelled")

    @admin.action(permissions=["operate"], description="Try failed or cancelled runs again")
    def retry(self, request: HttpRequest, chosen: QuerySet[models.Run]) -> None:
        by = request.user.get_username()
        self._said(request, [claims.retry(run, by=by) for run in chosen], "queued again")

    @admin.action(permissions=["operate"], description="Move to the front of the queue")
    def put_first(self, request: HttpRequest, chosen: QuerySet[models.Run]) -> None:
        self._put(request, chosen, FIRST)

    @admin.action(permissions=["operate"], description="Move to the end of the queue")
    def put_last(self, request: HttpRequest, chosen: QuerySet[models.Run]) -> None:
        self._put(request, chosen, -FIRST)

    @admin.action(permissions=["operate"], description="Move back to their own place in the queue")
    def put_back(self, request: HttpRequest, chosen: QuerySet[models.Run]) -> None:
        self._put(request, chosen, 0)

    @admin.action(permissions=["operate"], description="Evaluate again (needs a reason)")
    def rerun(self, request: HttpRequest, chosen: QuerySet[models.Run]) -> None:
        done = chosen.filter(state=models.Run.State.DONE, superseded_by=None)
        runs = done.select_related("variant", "task").order_by("finished")
        try:
            by = request.user.get_username()
            ordered = reruns.rerun(runs, by=by, reason=reason_of(request))
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


class RecallForm(forms.ModelForm):  # type: ignore[type-arg]
    """Looks first: nothing is recalled before the operator has read what that concerns."""

    names = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text="One a line: versions of the engine, NAME@VERSION of tasks, or IDs of runs and "
        "SHA-256 of their files.",
    )
    reason = forms.CharField(
        max_length=recalls.LONGEST_REASON,
        widget=forms.TextInput(attrs={"size": 80}),
        help_text="One sentence; everybody reads it.",
    )
    only_look = forms.BooleanField(
        required=False, initial=True, help_text="Only say what is concerned, and recall nothing."
    )

    class Meta:
        model = models.Recall
        fields = ("kind",)

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        if self.errors:
            return given
        try:
            found = recalls.look(given["kind"], given["names"].splitlines())
        except Refused as problem:
            raise forms.ValidationError(str(problem)) from None
        if given["only_look"] or not (found.stand or found.past):
            raise forms.ValidationError(
                f"Nothing was recalled. Concerned: {found.words}. Untick “only look” to do it."
            )
        return given


@admin.register(models.Recall)
class RecallAdmin(ReadOnly):
    """Made here or by `manage.py recall`; undone by an action with its reason."""

    form = RecallForm
    action_form = WithReason
    list_display = ("id", "reason", "kind", "results", "by", "at", "undone")
    list_filter = ("kind",)
    fields = ("kind", "names", "reason", "only_look")
    actions = ("undo", "again")

    def has_add_permission(self, request: HttpRequest, obj: Any | None = None) -> bool:  # noqa: ARG002
        return request.user.has_perm("leaderboard.add_recall")

    def get_fields(self, request: HttpRequest, obj: Any | None = None) -> Any:  # noqa: ARG002
        if obj is None:
            return self.fields
        own = ("kind", "named", "reason", "by", "at", "results")
        return (*own, "undone", "undone_by", "undone_why")

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        # Without Django's transaction around it: a recall stands before it takes anything.
        return self._changeform_view(request, object_id, form_url, extra_context)  # type: ignore[attr-defined]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:  # noqa: ARG002
        made, taken = recalls.recall(
            obj.kind,
            form.cleaned_data["names"].splitlines(),
            reason=form.cleaned_data["reason"],
            by=request.user.get_username(),
        )
        obj.pk = made.pk
        obj.refresh_from_db()
        text = f"{taken.words} are recalled, {taken.queued} runs are queued to measure again."
        self.message_user(request, text)

    @admin.action(permissions=["operate"], description="Undo (needs a reason)")
    def undo(self, request: HttpRequest, chosen: QuerySet[models.Recall]) -> None:
        by, reason = request.user.get_username(), reason_of(request)
        for made in chosen:
            try:
                n = recalls.undo(made, reason=reason, by=by)
                self.message_user(request, f"Recall {made.pk} is undone: {n} results stand again.")
            except Refused as problem:
                self.message_user(request, str(problem), messages.ERROR)

    @admin.action(permissions=["operate"], description="Queue what nothing waits to replace")
    def again(self, request: HttpRequest, chosen: QuerySet[models.Recall]) -> None:
        for made in chosen:
            try:
                n = recalls.again(made, by=request.user.get_username())
                self.message_user(request, f"Recall {made.pk}: {n} runs are queued.")
            except Refused as problem:
                self.message_user(request, str(problem), messages.ERROR)


@admin.register(models.Report)
class ReportAdmin(ReadOnly):
    """Made, answered and ruled on at the site's own pages."""

    list_display = ("kind", "hub_model", "task", "reason", "by", "at", "state")
    list_filter = ("kind", "state")
    search_fields = ("hub_model__repo_id", "task__name", "reason", "by__username")
    list_select_related = ("hub_model", "task", "by")


@admin.register(models.ReportAnswer)
class ReportAnswerAdmin(ReadOnly):
    list_display = ("report", "by", "side", "text", "at")
    list_select_related = ("report__hub_model", "report__task", "by")


@admin.register(models.Ruling)
class RulingAdmin(ReadOnly):
    list_display = ("report", "effect", "words", "by", "side", "at", "undone")
    list_filter = ("effect",)
    search_fields = ("words", "by__username")
    list_select_related = ("report__hub_model", "report__task", "by")


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

    list_display = ("repo_id", "official", "flag_reason", "departed", "hub_state", "first_seen")
    list_filter = ("official", "hub_state")
    search_fields = ("repo_id",)
    fields = (
        *("repo_id", "official", "flag_reason", "departed"),
        *("hub_state", "renamed_to", "hub_checked"),
    )
    readonly_fields = ("repo_id", "departed", "hub_state", "renamed_to", "hub_checked")

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
