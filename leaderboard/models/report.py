"""Somebody's word that something is wrong, its answers, and what moderators rule."""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import urlencode

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone

from leaderboard.models.edition import Fact
from leaderboard.models.recall import Recall
from leaderboard.models.run import Run
from leaderboard.models.task import TaskVersion
from leaderboard.models.variant import HubModel


class Report(Fact):
    """A problem with a model, one of its runs, a benchmark, or the key of a question.

    It stays listed whatever is ruled. A report on a key needs no ruling: while it is open it
    counts among those of other people. Who changes it ends it by the next one, so that all that was
    ever said stays readable.
    """

    class Kind(models.TextChoices):
        NUMBER = "number", "Wrong number"
        CONTAMINATION = "contamination", "Contamination"
        LICENCE = "licence", "Licence"
        KEY = "key", "Wrong key"
        WISH = "wish", "Author’s wish"

    class State(models.TextChoices):
        OPEN = "open", "Open"
        UPHELD = "upheld", "Upheld"
        DISMISSED = "dismissed", "Dismissed"
        WITHHELD = "withheld", "Its text withheld"
        LIFTED = "lifted", "Lifted"
        CHANGED = "changed", "Changed"
        WITHDRAWN = "withdrawn", "Withdrawn"

    class Verdict(models.TextChoices):
        RIGHT = "right", "Key is right"
        WRONG = "wrong", "Key is wrong"
        AMBIGUOUS = "ambiguous", "Ambiguous"

    kind = models.CharField(max_length=13, choices=Kind.choices)
    hub_model = models.ForeignKey(
        HubModel, null=True, on_delete=models.PROTECT, related_name="reports"
    )
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="reports")
    """Whose number is meant, of a model."""
    task = models.ForeignKey(
        TaskVersion, null=True, on_delete=models.PROTECT, related_name="reports"
    )
    docs_digest = models.CharField(max_length=64, blank=True)
    """Of all questions that were asked then: of other data a report on a key says nothing."""
    part = models.CharField(max_length=200, blank=True)
    """The leaf task that asks the question."""
    doc_id = models.PositiveIntegerField(null=True)
    doc_digest = models.CharField(max_length=64, blank=True)
    """Of this question's document, by which anybody finds it in a sample file."""
    question = models.CharField(max_length=160, blank=True)
    """How it begins; empty where its authors ask that its text is not put online."""
    verdict = models.CharField(max_length=10, choices=Verdict.choices, blank=True)
    """What is said of a key."""
    answer = models.CharField(max_length=200, blank=True)
    """The right one, where the key is wrong and somebody names it."""
    reason = models.CharField(max_length=500)
    evidence = models.CharField(max_length=2000, blank=True)
    """Text, with addresses of pages in it or not; of a report on a key one address."""
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="reports"
    )
    """Without an account any more a report on a key does not count."""
    at = models.DateTimeField(default=timezone.now)
    state = models.CharField(max_length=10, choices=State.choices, default=State.OPEN)
    closed = models.DateTimeField(null=True, blank=True)
    """When its state changed last."""

    class Meta:
        ordering: ClassVar = ["-id"]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=~Q(reason="") & (~Q(evidence="") | Q(kind__in=("key", "wish"))),
                name="report_says_why",
            ),
            models.CheckConstraint(
                condition=(
                    Q(kind="key", task__isnull=False, doc_id__isnull=False, hub_model=None)
                    & ~Q(part="")
                    & ~Q(verdict="")
                )
                | (
                    ~Q(kind="key")
                    & Q(doc_id=None, verdict="")
                    & (
                        Q(hub_model__isnull=False, task=None)
                        | Q(hub_model=None, task__isnull=False)
                    )
                ),
                name="report_is_about_one_thing",
            ),
            models.CheckConstraint(
                condition=Q(answer="") | Q(verdict="wrong"), name="only_a_wrong_key_has_another"
            ),
            models.CheckConstraint(
                condition=Q(state="open", closed=None)
                | (~Q(state="open") & Q(closed__isnull=False)),
                name="closed_report_says_when",
            ),
            models.UniqueConstraint(
                fields=["hub_model", "by"],
                condition=Q(state="open"),
                name="one_open_report_of_an_account_on_a_model",
            ),
            models.UniqueConstraint(
                fields=["task", "docs_digest", "part", "doc_id", "by"],
                condition=Q(state="open"),
                name="one_standing_report_of_an_account_on_a_key",
            ),
            models.UniqueConstraint(
                fields=["hub_model"],
                condition=Q(kind="wish", state="upheld"),
                name="one_lasting_wish_for_a_model",
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["task", "docs_digest", "part", "doc_id"], name="reports_by_question"
            ),
        ]

    def __str__(self) -> str:
        return f"report {self.pk} on {self.hub_model or self.task}"

    @property
    def called(self) -> str:
        """As pages name the question: numbers count from 1."""
        if self.doc_id is None or self.task is None:
            return ""
        of_part = f"{self.part} " if self.part != self.task.name else ""
        return f"{of_part}{self.doc_id + 1}"

    @property
    def label(self) -> str:
        """As addresses name the question."""
        return f"{self.part}:{self.doc_id}"

    @property
    def is_withheld(self) -> bool:
        return self.state == self.State.WITHHELD

    def get_absolute_url(self) -> str:
        if self.kind != self.Kind.KEY or self.task is None:
            return reverse("report", args=[self.pk])
        query = urlencode({"doc": self.label, "digest": self.doc_digest[:12]})
        return f"{reverse('task-key', args=[self.task.name])}?{query}#report-{self.pk}"


class ReportAnswer(Fact):
    """What somebody said to a report, in the order in which it was said."""

    class Side(models.TextChoices):
        MODERATOR = "moderator", "moderator"
        AUTHOR = "author", "author of the model"
        REPORTER = "raised", "reported it"

    report = models.ForeignKey(Report, on_delete=models.CASCADE, related_name="answers")
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.SET_NULL,
        related_name="report_answers",
    )
    side = models.CharField(max_length=10, choices=Side.choices)
    """As what they said it: a role of that moment."""
    text = models.CharField(max_length=2000)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering: ClassVar = ["pk"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=~Q(text=""), name="report_answer_says_something"),
        ]

    def __str__(self) -> str:
        return f"{self.get_side_display()} to {self.report}"


class Ruling(Fact):
    """What a moderator decides on a report, or an author on their own model, and its effect.

    While it is not undone: a MARK stands in `HubModel.flag_reason`, and while a model is OUT
    `HubModel.departed` says so.
    """

    class Effect(models.TextChoices):
        NONE = "none", "Nothing changes"
        MARK = "mark", "The model is marked"
        OUT = "out", "Out of the ranking"
        RECALL = "recall", "The result is recalled"
        WITHHELD = "withheld", "The text is withheld"

    class Side(models.TextChoices):
        MODERATOR = "moderator", "a moderator"
        AUTHOR = "author", "its author"

    report = models.ForeignKey(Report, on_delete=models.CASCADE, related_name="rulings")
    effect = models.CharField(max_length=10, choices=Effect.choices)
    words = models.CharField(max_length=250)
    side = models.CharField(max_length=10, choices=Side.choices, default=Side.MODERATOR)
    """As what they ruled: a role of that moment."""
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="rulings"
    )
    at = models.DateTimeField(default=timezone.now)
    recall = models.ForeignKey(
        Recall, null=True, blank=True, on_delete=models.PROTECT, related_name="rulings"
    )
    undone = models.DateTimeField(null=True, blank=True)
    undone_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    undone_words = models.CharField(max_length=250, blank=True)

    class Meta:
        ordering: ClassVar = ["-id"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=~Q(words=""), name="ruling_has_words"),
            models.CheckConstraint(
                condition=Q(undone__isnull=False) | Q(undone_words=""), name="undone_says_when"
            ),
        ]

    def __str__(self) -> str:
        return f"ruling {self.pk} on {self.report}"
