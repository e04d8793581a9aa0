"""The evaluation of one variant on one task or group. The rows of `Run` are the queue.

A state changes by one conditional UPDATE, in `leaderboard/queue/claims.py` only. A message to a
worker is a hint and nothing more: lost, doubled, late or reordered, it changes nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import cache
from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Coalesce
from django.urls import reverse
from django.utils import timezone

from evalcore.lengths import NAMES, Lengths
from evalcore.model.hf.quantisation import method_of
from leaderboard.models.edition import Fact
from leaderboard.models.variant import TRANSFORMERS


class State(models.TextChoices):
    QUEUED = "queued", "Queued"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"
    SUPERSEDED = "superseded", "Superseded"
    RECALLED = "recalled", "Recalled"


LIVE = (State.QUEUED, State.RUNNING, State.DONE, State.RECALLED)
"""States in which a second run of the same variant and key would be a waste; a recalled one is
replaced by its rerun."""
REPLACEABLE = (State.DONE, State.RECALLED)
"""What a rerun takes the place of."""
MOST_VOTES = 8
"""Of a run so many votes count."""
WAITING = (State.QUEUED, State.RUNNING)
MEASURED = (State.DONE, State.SUPERSEDED, State.RECALLED)
"""States of runs that have numbers and files; only those that are done stand on boards."""


IN_TURN = ("-priority", "due", "id")
"""The order in which queued runs are taken."""
WAITING_SINCE = Coalesce("not_before", "created")
"""When a queued run was queued last, or may be taken from."""


class ErrorClass(models.TextChoices):
    """Who must act on a failure."""

    MODEL = "ModelError", "The model's author or submitter"
    TASK = "TaskError", "The task's author"
    INFRA = "InfraError", "Us"


class Worker(Fact):
    """A process that evaluates, and what it can hold; its last heartbeat says whether it lives."""

    ASIDE: ClassVar = (
        *("seen", "started", "memory_bytes", "dtypes", "quantisations", "backend", "runs_code"),
        *("ended", "full_until", "confinement", "memory_in_use", "tokens"),
        "refusal",
    )
    """Pages of runs name its device; what else is told of workers is asked each time."""

    name = models.CharField(max_length=200, primary_key=True)
    device = models.CharField(max_length=100)
    memory_bytes = models.BigIntegerField()
    backend = models.CharField(max_length=16, default=TRANSFORMERS)
    """What it computes models with."""
    dtypes = models.JSONField(default=list)
    quantisations = models.JSONField(default=list)
    """The methods of quantised weights whose libraries it has."""
    runs_code = models.BooleanField(default=False)
    """Whether it takes models with code of their own, which it keeps from everything else."""
    confinement = models.CharField(max_length=40, blank=True)
    """What keeps its models from everything else, in the words of their records."""
    started = models.DateTimeField()
    seen = models.DateTimeField(db_index=True)
    ended = models.DateTimeField(null=True, blank=True)
    """When it said that it ends; null while it works, and where it was cut off."""
    full_until = models.DateTimeField(null=True, blank=True)
    """Its machine had no memory or no disk left: it takes nothing before this time."""
    refusal = models.TextField(blank=True, default="")
    """Why its GPUs cannot be used, which it tries again; empty where it can work."""
    memory_in_use = models.JSONField(default=list)
    """Of its devices, each as name, bytes in use and bytes in all; empty where unknown."""
    tokens = models.BigIntegerField(default=0)
    """Of the runs that it ever finished and whose tokens are known; it only grows."""

    def __str__(self) -> str:
        return self.name

    def is_full(self) -> bool:
        return self.full_until is not None and self.full_until > timezone.now()

    def computes(self, dtype: str, quantisation: str, backend: str, code: str = "") -> bool:
        """Whether it has what a model needs that is computed so, with this code of its own."""
        packed = not quantisation or method_of(quantisation) in self.quantisations
        trusted = self.runs_code or not code
        return backend == self.backend and dtype in self.dtypes and packed and trusted


class Run(models.Model):
    """One variant on one task or group; its leaf tasks are Results with a subset."""

    State = State
    ErrorClass = ErrorClass

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    variant = models.ForeignKey(
        "leaderboard.Variant", on_delete=models.PROTECT, related_name="runs", db_index=False
    )
    task = models.ForeignKey(
        "leaderboard.TaskVersion", on_delete=models.PROTECT, related_name="runs"
    )
    shots = models.PositiveSmallIntegerField()
    mode = models.CharField(max_length=8, default="strict")
    fewshot_draw = models.CharField(max_length=16, default="per-document")
    fewshot_seed = models.PositiveIntegerField(default=1234)
    run_key = models.CharField(max_length=64, db_index=True)
    """Comparability key without metric and documents: what is known before the run."""

    state = models.CharField(max_length=16, choices=State.choices, default=State.QUEUED)
    priority = models.SmallIntegerField(default=0)
    needed_bytes = models.BigIntegerField()
    created = models.DateTimeField(auto_now_add=True)
    due = models.DateTimeField(default=timezone.now)
    """Whose turn comes first: `created`, or later where its submitter has others waiting."""
    votes = models.PositiveSmallIntegerField(default=0)
    """By how many votes its turn was moved forward."""
    not_before = models.DateTimeField(null=True, blank=True)
    """Of a run that was queued again: when, or until when it rests after a failure of ours."""
    started = models.DateTimeField(null=True, blank=True)
    finished = models.DateTimeField(null=True, blank=True)

    attempt = models.PositiveSmallIntegerField(default=0)
    times_full = models.PositiveSmallIntegerField(default=0)
    """How often it was given back because its worker's machine was full."""
    full_on = models.CharField(max_length=200, blank=True)
    """The worker of the last such time, which does not take it again before `full_until`."""
    full_until = models.DateTimeField(null=True, blank=True)
    lease_token = models.UUIDField(null=True, blank=True, db_index=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    worker = models.ForeignKey(
        Worker, null=True, blank=True, on_delete=models.SET_NULL, related_name="runs"
    )
    phase = models.CharField(max_length=16, blank=True)
    progress_done = models.PositiveIntegerField(default=0)
    progress_total = models.PositiveIntegerField(default=0)
    so_far = models.JSONField(default=dict, blank=True)
    """While it runs: the metric, and where its score stood at each look (`stats.Standing`)."""

    error_class = models.CharField(max_length=16, choices=ErrorClass.choices, blank=True)
    error_message = models.TextField(blank=True)
    log_tail = models.TextField(blank=True)
    rerun = models.ForeignKey(
        "leaderboard.Rerun", null=True, blank=True, on_delete=models.PROTECT, related_name="runs"
    )
    """The operator's order to measure again what stands already."""
    replaces = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="replacements"
    )
    """The finished run in whose place this one will stand, until it does."""
    superseded_by = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="supersedes"
    )
    recall = models.ForeignKey(
        "leaderboard.Recall", null=True, blank=True, on_delete=models.PROTECT, related_name="runs"
    )
    """What says that its numbers are wrong; also of one that was superseded before or since."""
    environment = models.JSONField(default=dict, blank=True)
    engine_version = models.CharField(max_length=32, blank=True)
    computed_by = models.CharField(max_length=64, blank=True)
    """The backend with its version and kind of device, where it is not transformers."""
    docs_digest = models.CharField(max_length=64, blank=True)
    dataset_commits = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering: ClassVar = IN_TURN
        indexes: ClassVar = [
            models.Index(fields=["state", "-priority", "due"], name="queue_order"),
            models.Index(fields=["state", "-finished"], name="newest_ended"),
            models.Index(WAITING_SINCE, condition=Q(state=State.QUEUED), name="waiting_longest"),
            # All that a model's page asks of hundreds of runs: it reads a few pages of this index,
            # where the rows lie on as many pages of the table as there are runs.
            models.Index(
                fields=["variant", "state", "created", "task", "id", "run_key"],
                name="runs_of_a_variant",
            ),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["variant", "run_key"],
                condition=Q(state__in=LIVE, replaces=None),
                name="one_live_run_per_variant_and_key",
            ),
            models.UniqueConstraint(
                fields=["variant", "run_key"],
                condition=Q(state__in=WAITING),
                name="one_waiting_run_per_variant_and_key",
            ),
            # With the first of them: never two results of one variant and key.
            models.CheckConstraint(
                condition=~Q(state=State.DONE) | Q(replaces=None), name="done_replaces_nothing"
            ),
            models.CheckConstraint(
                condition=~Q(state=State.SUPERSEDED) | Q(superseded_by__isnull=False),
                name="superseded_by_a_run",
            ),
            models.CheckConstraint(
                condition=~Q(state=State.RECALLED) | Q(recall__isnull=False),
                name="recalled_by_a_recall",
            ),
            # Whatever asks for finished runs forgets the recalled ones without knowing of recalls.
            models.CheckConstraint(
                condition=~Q(state=State.DONE) | Q(recall=None), name="done_is_not_recalled"
            ),
            models.CheckConstraint(
                condition=Q(
                    state=State.RUNNING, lease_token__isnull=False, lease_until__isnull=False
                )
                | (~Q(state=State.RUNNING) & Q(lease_token__isnull=True)),
                name="running_means_leased",
            ),
            models.CheckConstraint(
                condition=~Q(state=State.FAILED) | (~Q(error_class="") & ~Q(error_message="")),
                name="failed_says_why",
            ),
            models.CheckConstraint(condition=Q(votes__lte=MOST_VOTES), name="votes_are_bounded"),
            models.CheckConstraint(
                condition=Q(progress_done__lte=F("progress_total")), name="progress_within_total"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.variant} on {self.task}"

    def get_absolute_url(self) -> str:
        return run_url(self.id)


def run_url(pk: object) -> str:
    """A run's address; resolved once, since pages have hundreds of them."""
    return _runs_at() + str(pk)


@cache
def _runs_at() -> str:
    no_run = uuid.UUID(int=0)
    return reverse("run", args=[no_run]).removesuffix(str(no_run))


class RunEvent(models.Model):
    """What happened to a run, in order; appended, never changed."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    state = models.CharField(max_length=16, choices=State.choices)
    by = models.CharField(max_length=200)
    why = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar = ["id"]

    def __str__(self) -> str:
        return f"{self.state} by {self.by}"


class Result(models.Model):
    """One number with all that it needs to be read: interval, n, metric, filter and key."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="results")
    task_name = models.CharField(max_length=200)
    """The leaf task, or the run's own group."""
    subset = models.CharField(max_length=200, blank=True)
    """Empty for the whole run; else the part of the benchmark that this number is about."""
    metric = models.CharField(max_length=64)
    filter = models.CharField(max_length=64)
    value = models.FloatField()
    stderr = models.FloatField(null=True)
    low = models.FloatField()
    high = models.FloatField()
    n = models.PositiveIntegerField()
    higher_is_better = models.BooleanField()
    comparability_key = models.CharField(max_length=64, db_index=True)
    # What was cut short, by the names of evalcore.lengths; null for runs from before that.
    requests = models.PositiveIntegerField(null=True)
    prompts_cut = models.PositiveIntegerField(null=True)
    answers = models.PositiveIntegerField(null=True)
    by_length = models.PositiveIntegerField(null=True)
    still_thinking = models.PositiveIntegerField(null=True)
    thoughts_cut = models.PositiveIntegerField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["run", "task_name", "subset", "metric", "filter"],
                name="one_result_per_metric_and_filter",
            ),
            models.CheckConstraint(
                condition=Q(low__lte=F("value")) & Q(value__lte=F("high")),
                name="value_inside_its_interval",
            ),
            models.CheckConstraint(condition=Q(n__gt=0), name="result_has_documents"),
        ]

    def __str__(self) -> str:
        return f"{self.task_name} {self.metric}={self.value:.4f}"

    @property
    def lengths(self) -> Lengths | None:
        return lengths_of([getattr(self, name) for name in NAMES])


def lengths_of(counts: Sequence[int | None]) -> Lengths | None:
    """Of a result's columns in the order of NAMES; None where nobody counted."""
    if not counts[0]:
        return None
    return Lengths(**{name: count or 0 for name, count in zip(NAMES, counts, strict=True)})


class Artifact(models.Model):
    """A file of a run in the artifact store, addressed by its SHA-256."""

    class Kind(models.TextChoices):
        RECORD = "record", "Record"
        SAMPLES = "samples", "Samples"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="artifacts")
    kind = models.CharField(max_length=16, choices=Kind.choices)
    sha256 = models.CharField(max_length=64, db_index=True)
    bytes = models.BigIntegerField()
    rows = models.PositiveIntegerField(null=True)
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["run", "kind"], name="one_artifact_per_kind"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.sha256[:12]}"

    @property
    def path(self) -> str:
        """Where it lies in the artifact store."""
        return f"{self.sha256[:2]}/{self.sha256}"
