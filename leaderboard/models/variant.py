"""What is evaluated: a repository on the Hub at one commit, in one precision."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.urls import reverse

from leaderboard.models.edition import SITE, Fact, note


class OfBoards(Fact):
    """What boards say of a model; a new one comes onto them with its runs."""

    class Meta:
        abstract = True

    @classmethod
    def note_change(cls, *, created: bool) -> None:
        if created:
            note("pages", of=[SITE])
        else:
            note("data")


BYTES_PER_PARAMETER = {"float32": 4, "bfloat16": 2, "float16": 2}


class Dtype(models.TextChoices):
    FLOAT32 = "float32", "float32"
    BFLOAT16 = "bfloat16", "bfloat16"
    FLOAT16 = "float16", "float16"


class HubModel(OfBoards):
    """A model repository, by the ID under which the Hub knows it."""

    class HubState(models.TextChoices):
        PRESENT = "present", "On the Hub"
        RENAMED = "renamed", "Renamed"
        PRIVATE = "private", "Gated or private"
        GONE = "gone", "Gone"

    ASIDE: ClassVar = ("hub_checked",)

    repo_id = models.CharField(max_length=200, unique=True)
    first_seen = models.DateTimeField(auto_now_add=True)
    official = models.BooleanField(default=False)
    """Whether the repository is known to be its provider's own."""
    flag_reason = models.CharField(max_length=500, blank=True)
    """Why its numbers should not be trusted; a flagged model has no rank."""
    hub_state = models.CharField(max_length=16, choices=HubState.choices, default=HubState.PRESENT)
    renamed_to = models.CharField(max_length=200, blank=True)
    hub_checked = models.DateTimeField(null=True, blank=True)
    """When the Hub last answered for it."""

    def __str__(self) -> str:
        return self.repo_id

    def get_absolute_url(self) -> str:
        return reverse("model", args=[self.repo_id])

    @property
    def owner(self) -> str:
        return self.repo_id.partition("/")[0]

    @property
    def name(self) -> str:
        return self.repo_id.partition("/")[2]


class Kind(models.TextChoices):
    """What was done to the weights, as the model's card says."""

    PRETRAINED = "pretrained", "Pretrained"
    FINE_TUNED = "fine-tuned", "Fine-tuned"
    CHAT = "chat", "Chat"
    MERGE = "merge", "Merge"
    UNKNOWN = "", "Not stated"


class Variant(OfBoards):
    """One commit of a model in one precision; two equal ones are one row."""

    KV_BUDGET: ClassVar[int] = 512 * 2**20

    hub_model = models.ForeignKey(HubModel, on_delete=models.PROTECT, related_name="variants")
    commit = models.CharField(max_length=40)
    dtype = models.CharField(max_length=16, choices=Dtype.choices)
    quantisation = models.CharField(max_length=32, blank=True)
    adapter = models.CharField(max_length=200, blank=True)
    adapter_base_commit = models.CharField(max_length=40, blank=True)
    chat_template_digest = models.CharField(max_length=64, blank=True)
    backend = models.CharField(max_length=16, default="hf")

    # What the Hub said of it when it was submitted.
    architecture = models.CharField(max_length=100, blank=True)
    model_type = models.CharField(max_length=64, blank=True)
    parameters = models.BigIntegerField()
    licence = models.CharField(max_length=100, blank=True)
    kind = models.CharField(max_length=16, choices=Kind.choices, blank=True)
    base_model = models.CharField(max_length=200, blank=True)
    merged = models.BooleanField(default=False)
    moe = models.BooleanField(default=False)
    """Whether only some of its parameters are used for a token (mixture of experts)."""
    weights_digest = models.CharField(max_length=64, blank=True, db_index=True)
    """Digest over those of its weight files; equal for the same weights under two names."""
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=[
                    "hub_model",
                    "commit",
                    "dtype",
                    "quantisation",
                    "adapter",
                    "adapter_base_commit",
                    "chat_template_digest",
                    "backend",
                ],
                name="one_row_per_variant",
            ),
            models.CheckConstraint(condition=Q(parameters__gt=0), name="variant_has_parameters"),
            models.CheckConstraint(
                condition=Q(commit__regex=r"^[0-9a-f]{40}$"), name="variant_is_pinned_to_a_commit"
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["base_model"], name="variant_by_base")]

    def __str__(self) -> str:
        return f"{self.hub_model}@{self.commit[:8]} {self.dtype}"

    @property
    def needed_bytes(self) -> int:
        """Memory that a worker must have free: weights with a fifth on top, and the KV budget."""
        return needed_bytes(self.parameters, self.dtype)


def needed_bytes(parameters: int, dtype: str) -> int:
    """Bytes of memory that a model of so many parameters needs in this precision."""
    return int(parameters * BYTES_PER_PARAMETER[dtype] * 1.2) + Variant.KV_BUDGET
