"""What is asked: task versions, and the suites that put them side by side."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar

from django.db import models
from django.urls import reverse

from leaderboard.models.edition import Fact, changing, note

PLAIN = frozenset({"perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte"})
"""Metrics that have no upper end and of which less is better."""


def is_share(metric: str) -> bool:
    return metric not in PLAIN


class Style(models.TextChoices):
    """How a question is put; the site never mixes two styles in one column."""

    CLOZE = "cloze", "Cloze"
    MMLU = "mmlu", "MMLU-style"
    HYBRID = "hybrid", "Hybrid"
    GENERATE = "generate", "Generated"
    COT = "cot", "Chain of thought"
    LIKELIHOOD = "likelihood", "Likelihood of the text"
    ORIGINAL = "original", "As the paper’s code"
    HELM = "helm", "HELM"
    HELM_GENERATE = "helm-generate", "HELM, generated"
    HARNESS_2023 = "harness-2023", "Harness of 2023"
    CLOZE_BARE = "cloze-bare", "Cloze, no label"
    MMLU_BARE = "mmlu-bare", "MMLU-style, no header"
    MMLU_ROTATED = "mmlu-rotated", "MMLU-style, rotated"
    MMLU_DIGITS = "mmlu-digits", "MMLU-style, digits"

    @property
    def in_a_sentence(self) -> str:
        """Its label without a capital of its own: “hybrid”, yet “MMLU-style” and “HELM”."""
        label = str(self.label)
        return label if label[1].isupper() else label[0].lower() + label[1:]


class TaskVersion(Fact):
    """A task or group of `tasks/` as it stood; a row is never changed."""

    name = models.CharField(max_length=200)
    version = models.CharField(max_length=32)
    benchmark = models.CharField(max_length=100)
    style = models.CharField(max_length=16, choices=Style.choices)
    config_digest = models.CharField(max_length=64)
    primary_metric = models.CharField(max_length=64)
    chance = models.FloatField(null=True)
    dataset = models.CharField(max_length=200, blank=True)
    changelog = models.JSONField(default=dict, blank=True)
    """By version what changed, as the task's file tells it."""
    origin = models.TextField(blank=True)
    """Paper, data set and licence, as Markdown."""
    known_gaps = models.TextField(blank=True)
    answer_extraction = models.TextField(blank=True)
    asks = models.CharField(max_length=64, blank=True)
    """Digest of what it asks of its sample rows, as pinned."""
    dataset_commit = models.CharField(max_length=64, null=True, blank=True)  # noqa: DJ001
    """Pinned commit of its data set; null where nobody read one from the Hub."""
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["name", "version"], name="one_row_per_task_version"),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    def get_absolute_url(self) -> str:
        return task_url(self.name)

    def titled(self, title: str) -> str:
        """As pages name it: the title that a suite gives its benchmark, and its style."""
        return f"{title or self.benchmark}, {self.style_words}"

    @property
    def style_words(self) -> str:
        return Style(self.style).in_a_sentence


@lru_cache(maxsize=4096)
def task_url(name: str) -> str:
    """`TaskVersion.get_absolute_url` without the row; pages have hundreds of them."""
    return reverse("task", args=[name])


class Suite(Fact):
    """A versioned set of benchmarks, each asked in one or more styles."""

    name = models.CharField(max_length=64)
    version = models.CharField(max_length=32)
    title = models.CharField(max_length=100)
    description = models.TextField()
    notice = models.TextField(blank=True)
    average = models.CharField(max_length=8, default="mean")
    normalisation = models.CharField(max_length=8, default="none")
    fewshot_draw = models.CharField(max_length=16, default="per-document")
    changelog = models.JSONField(default=dict, blank=True)
    reported = models.JSONField(null=True, blank=True)
    """Figures that others published: source, link, columns (tasks) and rows (by model)."""
    digest = models.CharField(max_length=64)
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["name", "version"], name="one_row_per_suite_version"),
        ]

    def __str__(self) -> str:
        return f"{self.title} {self.version}"

    @classmethod
    def note_change(cls, *, created: bool) -> None:  # noqa: ARG003
        """Boards carry the titles of all suites."""
        note("data", "pages")

    def save(self, *args: Any, **options: Any) -> None:
        with changing():
            super().save(*args, **options)
            note("data", "pages", of=[self.pk])


class SuiteEntry(Fact):
    """One column of a suite: a benchmark in one style with so many shots, in one draw of them."""

    ASIDE: ClassVar = ("comparability_key", "chat_comparability_key")
    """They come with a run's result, which is noted."""

    suite = models.ForeignKey(Suite, on_delete=models.CASCADE, related_name="entries")
    position = models.PositiveSmallIntegerField()
    benchmark = models.CharField(max_length=100)
    title = models.CharField(max_length=100)
    style = models.CharField(max_length=16, choices=Style.choices)
    own = models.BooleanField()
    """Whether this is the style that the suite counts for this benchmark."""
    task = models.ForeignKey(TaskVersion, on_delete=models.PROTECT, related_name="entries")
    shots = models.PositiveSmallIntegerField()
    metric = models.CharField(max_length=64)
    filter = models.CharField(max_length=64, default="none")
    counts = models.BooleanField(default=True)
    """Whether the benchmark is part of the suite's average."""
    part_chances = models.JSONField(default=dict, blank=True)
    """By part the score of a guesser, where the parts of a group differ in it."""
    people = models.FloatField(null=True, blank=True)
    """What people score, where somebody published it; with its source beside it."""
    people_source = models.CharField(max_length=300, blank=True)
    draw = models.PositiveSmallIntegerField(default=0)
    """Which of the suite's draws of examples; a column shows the mean over all."""
    fewshot_seed = models.PositiveIntegerField(default=1234)
    run_key = models.CharField(max_length=64, db_index=True)
    comparability_key = models.CharField(max_length=64, blank=True)
    """The key that a result must have to stand in this column: that of the first one stored."""
    chat_run_key = models.CharField(max_length=64, blank=True, db_index=True)
    """The same question in a model's own chat template. Its answers stand in this column, too, in
    rows of their own that say so."""
    chat_comparability_key = models.CharField(max_length=64, blank=True)

    class Meta:
        ordering: ClassVar = ["position"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["suite", "benchmark", "style", "draw"], name="one_column_per_style"
            ),
            models.UniqueConstraint(
                fields=["suite", "benchmark", "draw"],
                condition=models.Q(own=True),
                name="one_own_style_per_benchmark",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.suite}: {self.title}, {self.get_style_display()}"

    @classmethod
    def note_change(cls, *, created: bool) -> None:  # noqa: ARG003
        note("data", "pages")

    def run_key_of(self, *, chat: bool) -> str:
        return self.chat_run_key if chat else self.run_key

    @property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """Run key and comparability key of what may stand here; the second empty before the first
        result."""
        pairs = (
            (self.run_key, self.comparability_key),
            (self.chat_run_key, self.chat_comparability_key),
        )
        return tuple(pair for pair in pairs if pair[0])

    @staticmethod
    def asking(run_key: Any) -> models.Q:
        """Entries that a run with this key (or an expression for it) answers."""
        return models.Q(run_key=run_key) | models.Q(chat_run_key=run_key)

    @property
    def task_title(self) -> str:
        """“Physics, hybrid”, where the task's name is `brioner_physics_test_hybrid`."""
        return self.task.titled(self.title)
