"""What is evaluated: a repository on the Hub at one commit, in one precision, asked in one way."""

from __future__ import annotations

import re
from typing import ClassVar, Protocol

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
            note("data", benchmarks=())


TRANSFORMERS, VLLM = "hf", "vllm"
"""What computes a model, by the names of `--model`."""
NAMES = {TRANSFORMERS: "transformers", VLLM: "vLLM"}
"""How it is called on pages."""
BYTES_PER_PARAMETER = {"float32": 4, "bfloat16": 2, "float16": 2}


class Dtype(models.TextChoices):
    FLOAT32 = "float32", "float32"
    BFLOAT16 = "bfloat16", "bfloat16"
    FLOAT16 = "float16", "float16"


_SIZE = re.compile(r"[-_](?:moe-)?\d+(?:\.\d+)?[bm](?![a-z]).*", re.IGNORECASE)
"""A model's name from its size on: 7B, 0.5b, 410m."""


def family_of(repo_id: str) -> str:
    """What models of one series share: the name before its size, as in Llama-3.1 and Qwen2.5."""
    name = repo_id.rpartition("/")[2]
    return _SIZE.sub("", name) or name


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
    departed = models.BooleanField(default=False)
    """Whether its author took it out of the ranking (`Ruling`): no rank, no new runs."""
    hub_state = models.CharField(max_length=16, choices=HubState.choices, default=HubState.PRESENT)
    renamed_to = models.CharField(max_length=200, blank=True)
    released = models.DateTimeField(null=True, blank=True)
    """When the repository was made on the Hub, where the Hub knows it."""
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
    """One commit of a model in one precision, asked in one way; two equal ones are one row.

    The repository may be an adapter's; then `commit` is the adapter's own.
    """

    KV_BUDGET: ClassVar[int] = 512 * 2**20

    hub_model = models.ForeignKey(HubModel, on_delete=models.PROTECT, related_name="variants")
    commit = models.CharField(max_length=40)
    dtype = models.CharField(max_length=16, choices=Dtype.choices)
    quantisation = models.CharField(max_length=64, blank=True)
    """How its weights are packed, in the engine's words: as they are stored, or at loading."""
    adapter_base = models.CharField(max_length=200, blank=True)
    """The model that an adapter is put on; empty for a whole model."""
    adapter_base_commit = models.CharField(max_length=40, blank=True)
    chat = models.BooleanField(default=False)
    """Whether it is asked in its own chat template, with the examples as turns."""
    chat_template_digest = models.CharField(max_length=64, blank=True)
    backend = models.CharField(max_length=16, default=TRANSFORMERS)

    code = models.CharField(max_length=500, blank=True)
    """What code of its own is run: repositories with @ and a commit, by commas."""

    # What the Hub said of it when it was submitted.
    architecture = models.CharField(max_length=100, blank=True)
    model_type = models.CharField(max_length=64, blank=True)
    parameters = models.BigIntegerField()
    """Of an adapter with those of the model that it is put on."""
    weight_bytes = models.BigIntegerField(null=True)
    """What its weights take in memory, where that is not parameters times precision."""
    licence = models.CharField(max_length=100, blank=True)
    kind = models.CharField(max_length=16, choices=Kind.choices, blank=True)
    base_model = models.CharField(max_length=200, blank=True)
    merged = models.BooleanField(default=False)
    moe = models.BooleanField(default=False)
    """Whether only some of its parameters are used for a token (mixture of experts)."""
    active_parameters = models.BigIntegerField(null=True)
    """How many; None where the Hub's files do not tell."""
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
                    "adapter_base",
                    "adapter_base_commit",
                    "chat",
                    "chat_template_digest",
                    "backend",
                    "code",
                ],
                name="one_row_per_variant",
            ),
            models.CheckConstraint(
                condition=Q(adapter_base="", adapter_base_commit="")
                | Q(adapter_base_commit__regex=r"^[0-9a-f]{40}$") & ~Q(adapter_base=""),
                name="adapter_is_pinned_with_its_base",
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
    def way(self) -> str:
        return way_of(self)

    @property
    def told(self) -> str:
        """Its precision, and what else sets it apart from others of its commit."""
        return ", ".join(filter(None, (self.quantisation or self.dtype, self.way)))

    @property
    def adapter(self) -> str:
        """The adapter and its commit, as the engine's record names it; empty for a whole model."""
        return f"{self.hub_model.repo_id}@{self.commit}" if self.adapter_base else ""

    @property
    def whole(self) -> tuple[str, str]:
        """Repository and commit of the whole model: its own, or what the adapter is put on."""
        if self.adapter_base:
            return self.adapter_base, self.adapter_base_commit
        return self.hub_model.repo_id, self.commit

    @property
    def code_pins(self) -> tuple[tuple[str, str], ...]:
        """The repositories whose code is run for it, each with its commit."""
        pins = (pin.partition("@") for pin in self.code.split(",") if pin)
        return tuple((name, commit) for name, _, commit in pins)

    @property
    def code_elsewhere(self) -> str:
        """The commit of the code that it takes from another repository; empty for none."""
        apart = [commit for name, commit in self.code_pins if name != self.whole[0]]
        return apart[0] if apart else ""

    @property
    def repositories(self) -> tuple[tuple[str, str], ...]:
        """Each with its commit: all that is downloaded for it."""
        own = self.hub_model.repo_id, self.commit
        return tuple(dict.fromkeys((own, self.whole, *self.code_pins)))

    @property
    def needed_bytes(self) -> int:
        """Memory that a worker must have free: weights with a fifth on top, and the KV budget."""
        return needed_bytes(self.weight_bytes or weight_bytes(self.parameters, self.dtype))


class Asked(Protocol):
    """What is asked, and how: a variant, or a row of a board that was made of one."""

    @property
    def adapter_base(self) -> str: ...
    @property
    def chat(self) -> bool: ...
    @property
    def backend(self) -> str: ...


def way_of(asked: Asked) -> str:
    """What sets it apart from a whole model that is asked in plain text; empty for such."""
    ways = []
    if asked.adapter_base:
        ways.append(f"adapter on {asked.adapter_base}")
    if asked.chat:
        ways.append("asked in its chat template")
    if asked.backend != TRANSFORMERS:
        ways.append(f"computed by {NAMES.get(asked.backend, asked.backend)}")
    return ", ".join(ways)


def weight_bytes(parameters: int, dtype: str) -> int:
    """Bytes of so many parameters in this precision."""
    return parameters * BYTES_PER_PARAMETER[dtype]


def needed_bytes(of_weights: int) -> int:
    """Bytes of memory that a model needs whose weights take `of_weights`."""
    return int(of_weights * 1.2) + Variant.KV_BUDGET
