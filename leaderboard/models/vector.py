"""Scores by question: what ranges of ranks, comparisons and item analysis are computed from."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class QuestionSet(models.Model):
    """The documents that a run scored, in the order of its sample file.

    Two vectors are about the same questions where their sets have the same `docs_digest`; sets of
    one digest can still differ in the names of tasks and parts, as those of two styles do.
    """

    digest = models.CharField(max_length=64, unique=True)
    """Of everything below."""
    docs_digest = models.CharField(max_length=64, db_index=True)
    n = models.PositiveIntegerField()
    layout = models.BinaryField()
    """Task, number, part and cluster of each document (`leaderboard/samples/vectors.py`)."""

    def __str__(self) -> str:
        return f"{self.n} questions {self.docs_digest[:12]}"


class ScoreVector(models.Model):
    """One result's score on each question, in the order of its question set."""

    class Weighting(models.TextChoices):
        DOCUMENTS = "documents", "The result is the mean over documents"
        PARTS = "parts", "The result is the mean over the means of its parts"
        NONE = "none", "The result is no mean of scores by question"

    result = models.OneToOneField(
        "leaderboard.Result", on_delete=models.CASCADE, primary_key=True, related_name="vector"
    )
    questions = models.ForeignKey(
        QuestionSet, null=True, on_delete=models.PROTECT, related_name="vectors"
    )
    weighting = models.CharField(max_length=16, choices=Weighting.choices)
    values = models.BinaryField()
    """One bit a question where each is right or wrong, else four bytes; empty where no mean."""

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(weighting="none", questions__isnull=True)
                | (~models.Q(weighting="none") & models.Q(questions__isnull=False)),
                name="vector_is_about_questions",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.result_id} by question"


NOISE, CEILING, KEYS = "noise", "ceiling", "keys"
"""What can stand in the way of a column that is to tell models apart."""


class ItemAnalysis(models.Model):
    """How hard each question of a column is, and whether it tells models apart; never changed."""

    comparability_key = models.CharField(max_length=64, db_index=True)
    docs_digest = models.CharField(max_length=64)
    models_n = models.PositiveIntegerField()
    detectable = models.FloatField(null=True)
    """Median minimum detectable difference between neighbours in rank, a share of 1."""
    built = models.DateTimeField()
    data_version = models.CharField(max_length=64)
    sha256 = models.CharField(max_length=64)
    """Of the table by question, in the artifact store."""
    health = models.JSONField(default=dict)
    """`leaderboard/tasks/health.py`, as JSON; empty in analyses of before it was computed."""
    marks = models.JSONField(default=list)
    """What boards warn of: any of NOISE, CEILING and KEYS."""

    class Meta:
        get_latest_by = "built"

    def __str__(self) -> str:
        return f"items of {self.comparability_key[:12]}"
