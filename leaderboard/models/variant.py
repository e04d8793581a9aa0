"""What is evaluated: a repository on the Hub at one commit, in one precision."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.urls import reverse

BYTES_PER_PARAMETER = {"float32": 4, "bfloat16": 2, "float16": 2}


class Dtype(models.TextChoices):
    FLOAT32 = "float32", "float32"
    BFLOAT16 = "bfloat16", "bfloat16"
    FLOAT16 = "float16", "float16"


class HubModel(models.Model):
    """A model repository, by the ID under which the Hub knows it."""

    repo_id = models.CharField(max_length=200, unique=True)
    first_seen = models.DateTimeField(auto_now_add=True)

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


class Variant(models.Model):
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

    def __str__(self) -> str:
        return f"{self.hub_model}@{self.commit[:8]} {self.dtype}"

    @property
    def needed_bytes(self) -> int:
        """Memory that a worker must have free: weights with a fifth on top, and the KV budget."""
        return needed_bytes(self.parameters, self.dtype)


def needed_bytes(parameters: int, dtype: str) -> int:
    """Bytes of memory that a model of so many parameters needs in this precision."""
    return int(parameters * BYTES_PER_PARAMETER[dtype] * 1.2) + Variant.KV_BUDGET
