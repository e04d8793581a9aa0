"""What people say of a question's key, and what follows: disputed questions, second figures."""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import urlencode

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.urls import reverse

from leaderboard.models.edition import Fact
from leaderboard.models.run import Result
from leaderboard.models.task import TaskVersion


class Ruling(Fact):
    """One account's word on the key of one question of one task version; never changed, only ended.

    Who changes a ruling ends it by the next one, so that all that was ever said stays readable.
    """

    class Verdict(models.TextChoices):
        RIGHT = "right", "Key is right"
        WRONG = "wrong", "Key is wrong"
        AMBIGUOUS = "ambiguous", "Ambiguous"

    class Ending(models.TextChoices):
        CHANGED = "changed", "Changed"
        WITHDRAWN = "withdrawn", "Withdrawn"
        STRUCK = "struck", "Struck by a moderator"

    task = models.ForeignKey(TaskVersion, on_delete=models.PROTECT, related_name="rulings")
    docs_digest = models.CharField(max_length=64)
    """Of all questions that were asked then: of other data the ruling says nothing."""
    part = models.CharField(max_length=200)
    """The leaf task that asks it."""
    doc_id = models.PositiveIntegerField()
    doc_digest = models.CharField(max_length=64)
    """Of this question's document, by which anybody finds it in a sample file."""
    question = models.CharField(max_length=160, blank=True)
    """How it begins; empty where its authors ask that its text is not put online."""
    verdict = models.CharField(max_length=10, choices=Verdict.choices)
    answer = models.CharField(max_length=200, blank=True)
    """The right one, where the key is wrong and somebody names it."""
    reason = models.CharField(max_length=500)
    source = models.CharField(max_length=500, blank=True)
    """Address of a page."""
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="rulings"
    )
    """Without an account any more it does not count."""
    at = models.DateTimeField(auto_now_add=True)
    ended = models.DateTimeField(null=True, blank=True)
    ending = models.CharField(max_length=10, choices=Ending.choices, blank=True)
    ended_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    ending_words = models.CharField(max_length=250, blank=True)
    """Why a moderator struck it."""

    class Meta:
        ordering: ClassVar = ["-id"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=~Q(reason=""), name="ruling_says_why"),
            models.CheckConstraint(
                condition=Q(answer="") | Q(verdict="wrong"), name="only_a_wrong_key_has_another"
            ),
            models.CheckConstraint(
                condition=Q(ended=None, ending="", ending_words="")
                | (Q(ended__isnull=False) & ~Q(ending="")),
                name="ended_ruling_says_how",
            ),
            models.CheckConstraint(
                condition=~Q(ending="struck") | ~Q(ending_words=""), name="struck_ruling_says_why"
            ),
            models.UniqueConstraint(
                fields=["task", "docs_digest", "part", "doc_id", "by"],
                condition=Q(ended=None),
                name="one_standing_ruling_of_an_account_on_a_question",
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["task", "docs_digest", "part", "doc_id"], name="rulings_by_question"
            ),
        ]

    def __str__(self) -> str:
        return f"ruling {self.pk} on {self.called} of {self.task}"

    @property
    def called(self) -> str:
        """As pages name the question: numbers count from 1."""
        of_part = f"{self.part} " if self.part != self.task.name else ""
        return f"{of_part}{self.doc_id + 1}"

    @property
    def label(self) -> str:
        """As addresses name it."""
        return f"{self.part}:{self.doc_id}"

    @property
    def is_struck(self) -> bool:
        return self.ending == self.Ending.STRUCK

    def get_absolute_url(self) -> str:
        address = reverse("task-key", args=[self.task.name])
        of_data = {"doc": self.label, "digest": self.doc_digest[:12]}
        return f"{address}?{urlencode(of_data)}#report-{self.pk}"


class DisputedSet(models.Model):
    """Which questions of a task version are disputed; a change makes a new row."""

    task = models.ForeignKey(TaskVersion, on_delete=models.PROTECT, related_name="disputed")
    docs_digest = models.CharField(max_length=64)
    questions = models.JSONField()
    """Pairs of leaf task and number there, in order."""
    n = models.PositiveIntegerField()
    made = models.DateTimeField(auto_now_add=True)
    current = models.BooleanField(default=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["task", "docs_digest"],
                condition=Q(current=True),
                name="one_current_disputed_set",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.n} disputed questions of {self.task}"


class SecondFigure(models.Model):
    """A result over all but the disputed questions. It never ranks."""

    disputed = models.ForeignKey(DisputedSet, on_delete=models.CASCADE, related_name="figures")
    result = models.ForeignKey(Result, on_delete=models.CASCADE, related_name="second_figures")
    n = models.PositiveIntegerField()
    """Questions that are left."""
    value = models.FloatField(null=True)
    """None where the result does not come out of its scores by question, so that no other would."""
    low = models.FloatField(null=True)
    high = models.FloatField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["disputed", "result"], name="one_second_figure"),
            models.CheckConstraint(
                condition=Q(value=None, low=None, high=None)
                | Q(low__lte=F("value"), high__gte=F("value")),
                name="second_figure_inside_its_interval",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.result_id} without {self.disputed}"
