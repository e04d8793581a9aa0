"""Can this model be evaluated? Answered from the Hub's metadata, within one deadline: read `check`.

The check runs no model code and downloads no weights. What it cannot see (a tokenizer that does
not load, a known architecture with settings of its own) the worker finds, as a ModelError.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from time import monotonic
from typing import Any

from django.conf import settings
from django.core.cache import caches
from django.db.models import Q, QuerySet

from evalcore.model.hf.quantisation import method_of
from leaderboard.hub import (
    HubSilent,
    ModelReference,
    Origin,
    Problem,
    Refused,
    Repository,
    clean_count,
    clean_text,
    faults,
    model_id,
    origin_of,
    read_repository,
    refuses_system,
)
from leaderboard.models import LIVE, HubModel, Submission, Suite, Variant, Worker
from leaderboard.models.packing import packed_bytes, quantisation_by
from leaderboard.models.variant import NAMES, TRANSFORMERS, Dtype, needed_bytes, weight_bytes
from leaderboard.queue import estimate
from leaderboard.web import background

SECONDS = 2.0
"""For all requests of a live check together."""
MIN_BASE_SECONDS = 0.5
"""For the model under an adapter, however long the adapter took."""
CACHED_SECONDS = 60
FULL_SECONDS = 5
"""After which to ask again where too many models are being looked at."""
MAX_NAMED_TEMPLATES = 5
"""Chat templates that a sentence names."""
GIGABYTE = 10**9
PENDING, CHECKS_FULL = "hub_pending", "checks_full"
"""Codes of problems that say nothing of the model: the Hub is still being asked about it; so many
models are being asked about that it is not."""
SUBMITTED_BEFORE = "submitted_before"
"""The code of the problem that is nobody's mistake: the runs are there already."""
REPOSITORY_FIELDS = ("adapter_base", "code")
"""Fields of a variant that name repositories, each of which is pinned to a commit as well."""


@dataclass(frozen=True)
class Way:
    """How a model is made up and asked, beside its precision; as typed."""

    base: str = ""
    """Of an adapter, the model that it is put on; empty: the one that it names."""
    packing: str = ""
    """One of `Packing`; empty: the weights as they are stored."""
    chat: bool = False
    """Whether it is asked in its chat template."""
    backend: str = TRANSFORMERS


PLAIN = Way()


@dataclass(frozen=True)
class Facts:
    """What is known of a model, at the commit that would be evaluated."""

    repo_id: str
    commit: str
    architecture: str
    model_type: str
    parameters: int
    """Of an adapter with those of the model that it is put on."""
    licence: str
    stored_dtype: str
    """The precision in which its weights are stored."""
    dtype: str
    """The precision in which it would be evaluated."""
    origin: Origin
    released: datetime | None
    """When its repository was made, where the Hub knows it."""
    file_bytes: int | None
    """What the files of its weights take; None where the Hub does not tell all."""
    n_files: int
    stored_quantisation: str = ""
    """Method and bits, as config.json states them."""
    table_parameters: int = 0
    """Those of its parameters that are tables of tokens, as far as config.json tells."""
    adapter_parameters: int = 0
    adapter_base: str = ""
    adapter_base_commit: str = ""
    code: tuple[str, ...] = ()
    """What code of the model's own would be run, each repository with its commit."""
    has_template: bool | None = None
    """None where nobody looked for a chat template."""
    template_names: tuple[str, ...] = ()
    """Of several chat templates without a default one."""
    refuses_system: str = ""
    """In what words its chat template refuses an instruction; empty where none is known to."""
    packing: str = ""
    chat: bool = False
    backend: str = TRANSFORMERS

    @property
    def quantisation(self) -> str:
        """How the weights would be packed, in the engine's words."""
        return self.stored_quantisation or quantisation_by(self.packing, self.dtype)

    @property
    def weight_bytes(self) -> int:
        """What the weights take in memory."""
        if self.stored_quantisation and self.file_bytes is not None:
            return self.file_bytes + weight_bytes(self.adapter_parameters, self.dtype)
        if self.packing:
            whole = self.parameters - self.adapter_parameters
            packed = packed_bytes(self.packing, self.dtype, whole, self.table_parameters)
            return packed + weight_bytes(self.adapter_parameters, self.dtype)
        return weight_bytes(self.parameters, self.dtype)

    @property
    def needed_bytes(self) -> int:
        return needed_bytes(self.weight_bytes)

    @property
    def computed_by(self) -> str:
        """What else than transformers would compute it; empty for nothing else."""
        return "" if self.backend == TRANSFORMERS else NAMES[self.backend]

    @property
    def identity(self) -> dict[str, Any]:
        """What tells its variant from others, by the names of the fields."""
        return {
            "commit": self.commit,
            "dtype": self.dtype,
            "quantisation": self.quantisation,
            "adapter_base": self.adapter_base,
            "adapter_base_commit": self.adapter_base_commit,
            "chat": self.chat,
            "backend": self.backend,
            "code": ",".join(self.code),
        }

    def __str__(self) -> str:
        """The variant as a sentence names it."""
        text = f"{self.repo_id} at commit {self.commit[:8]} in {self.quantisation or self.dtype}"
        if self.adapter_base:
            text += f" on {self.adapter_base} at {self.adapter_base_commit[:8]}"
        if self.chat:
            text += " in its chat template"
        return f"{text} by {self.computed_by}" if self.computed_by else text


@dataclass(frozen=True)
class Room:
    """The workers that run now, and those of them that can hold the model."""

    fitting: int
    workers: int
    largest: int
    """Bytes of the largest that computes so."""


@dataclass(frozen=True)
class Precheck:
    """The outcome of a check: problems stop a submission, warnings do not.

    Nor does a check that did not finish: submitting asks the Hub again, for longer.
    """

    checked: bool
    """Whether the Hub has answered."""
    revision: str = ""
    """The branch, tag or commit that was asked for."""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    facts: Facts | None = None
    """None where not checked, and where too little could be read."""
    existing: Submission | None = None
    """An active submission of the same variant and suite."""
    twin: HubModel | None = None
    """A model of this site under another name whose weights are equal byte for byte."""
    room: Room | None = None
    """Where it fits; None where it does not, or nobody knows."""

    @property
    def ok(self) -> bool:
        return self.checked and not self.problems

    @property
    def hub_trouble(self) -> Problem | None:
        """Why the Hub gave no usable answer, or was not asked; None where it did."""
        return next((p for p in self.warnings if not self.checked), None)


def check(
    typed_id: str,
    revision: str = "main",
    dtype: str = "",
    way: Way = PLAIN,
    *,
    seconds: float = SECONDS,
    thorough: bool = False,
    remembered: bool = False,
) -> Precheck:
    """Judge what was typed; `dtype` empty means as stored. Writes nothing.

    Asks the Hub within `seconds`, where `thorough` for the chat template too; where `remembered`,
    takes its answer of the last minute. Precision, packing and engine are among the form's choices.
    """
    try:
        reference = model_id.read(typed_id, revision)
        facts, problems, warnings = judge(
            reference, way, seconds, thorough=thorough, remembered=remembered
        )
    except Refused as refused:
        return Precheck(checked=True, problems=refused.problems)
    except HubSilent as silent:
        return Precheck(checked=False, warnings=(silent.problem,))
    if facts is None:
        return Precheck(checked=True, problems=problems, warnings=warnings)
    facts = replace(facts, dtype=dtype or facts.stored_dtype)
    workers = estimate.live_workers()
    existing = existing_submission(facts, reference.repo_id)
    repeated = _submitted_or_failed(facts, existing)
    twin = None if existing else _twin_of(facts, reference.repo_id)
    of_this_site = (
        *_against_workers(facts, workers),
        departed(rows_of(facts.repo_id, reference.repo_id)),
        repeated,
        _same_weights(facts, twin),
    )
    remarks = [problem for problem in of_this_site if problem is not None]
    return Precheck(
        checked=True,
        revision=reference.revision,
        problems=(*problems, *(p for p in remarks if p.code not in HARMLESS)),
        warnings=(*warnings, *(p for p in remarks if p.code in HARMLESS)),
        facts=facts,
        existing=existing,
        twin=twin,
        room=_room(facts, workers),
    )


HARMLESS = frozenset({"no_worker", "failed_before", "same_weights"})
"""Codes of what this site itself has to say of a model, and that stops nobody."""


# What the Hub alone says

Judgement = tuple[Facts | None, tuple[Problem, ...], tuple[Problem, ...]]
"""Facts, problems and warnings."""

looks: background.Background[Judgement] = background.Background(
    "hub", threads=16, most=32, keep_seconds=CACHED_SECONDS
)
"""At models on the Hub, each until its deadline; requests do not wait for them."""


def judge(
    reference: ModelReference, way: Way, seconds: float, *, thorough: bool, remembered: bool
) -> Judgement:
    """From the Hub alone, kept for a minute.

    Raises HubSilent, with PENDING where the Hub is still being asked: whoever asks the same again
    gets what it said.
    """
    key = _key(reference, way, thorough=thorough or way.chat)
    judgement: Judgement | None = caches["local"].get(key) if remembered else None
    if judgement is None:
        look = partial(_look, reference, way, seconds, thorough=thorough or way.chat)
        judgement = _outcome_of(_key_of_look(key, thorough=thorough), look)
        caches["local"].set(key, judgement, CACHED_SECONDS)
    facts, problems, warnings = judgement
    if facts is None:
        return judgement
    facts = replace(facts, packing=way.packing, chat=way.chat, backend=way.backend)
    return facts, (*problems, *_faults_of_way(facts)), (*warnings, *_refused_instructions(facts))


def is_under_way(typed_id: str, revision: str, way: Way, *, thorough: bool = False) -> bool:
    """Whether somebody has asked for this check and not got it yet: it costs the Hub nothing."""
    try:
        reference = model_id.read(typed_id, revision)
    except Refused:
        return False
    key = _key(reference, way, thorough=thorough or way.chat)
    return looks.has(_key_of_look(key, thorough=thorough))


def _key(reference: ModelReference, way: Way, *, thorough: bool) -> str:
    question = [settings.HF_ENDPOINT, reference.repo_id, reference.revision, way.base, thorough]
    return f"precheck-{hashlib.sha256(json.dumps(question).encode()).hexdigest()}"


def _key_of_look(key: str, *, thorough: bool) -> str:
    """A submission waits longer for the Hub than a check, so neither takes the other's answer."""
    return f"{key}-{thorough}"


def _outcome_of(key: str, look: Callable[[], Judgement]) -> Judgement:
    """What the look under this key found, once: who asks then looks anew. Raises HubSilent."""
    try:
        judgement = looks.ask(key, look)
    except background.NotReady:
        pending = Problem(PENDING, wait_seconds=background.ASK_AGAIN_SECONDS)
        raise HubSilent(pending) from None
    except background.TooMuchWork:
        raise HubSilent(Problem(CHECKS_FULL, wait_seconds=FULL_SECONDS)) from None
    except HubSilent:
        looks.forget(key)
        raise
    looks.forget(key)
    return judgement


def _look(reference: ModelReference, way: Way, seconds: float, *, thorough: bool) -> Judgement:
    """At a whole model, or at an adapter and the model that it is put on. Raises HubSilent."""
    begun = monotonic()
    try:
        repository = read_repository(reference, seconds, thorough=thorough)
        notes = _renaming("model", reference, repository)
        if not repository.is_adapter:
            findings = faults.examine(repository)
            if way.base:
                findings.problems.append(Problem("no_adapter", "base", repository.repo_id))
            return _judgement(repository, None, findings, notes)
        if problems := faults.faults_of_adapter(repository):
            return None, tuple(problems), tuple(notes)
        base_reference = faults.base_of(repository, way.base)
        seconds_left = max(MIN_BASE_SECONDS, seconds - (monotonic() - begun))
        try:
            base = read_repository(base_reference, seconds_left, thorough=thorough)
        except Refused as refused:
            raise Refused(*faults.at_base(refused.problems)) from None
    except Refused as refused:
        return None, refused.problems, ()
    notes += _renaming("base", base_reference, base)
    notes += faults.another_base(repository, base)
    if base.is_adapter:
        return None, (Problem("adapter", "base", base.repo_id),), tuple(notes)
    findings = faults.examine(base)
    findings = replace(
        findings,
        problems=faults.at_base(findings.problems),
        notes=faults.at_base(findings.notes),
    )
    return _judgement(base, repository, findings, notes)


def _judgement(
    whole: Repository,
    adapter: Repository | None,
    findings: faults.Findings,
    notes: list[Problem],
) -> Judgement:
    if findings.problems:
        return None, tuple(findings.problems), tuple(notes)
    notes = [*notes, *findings.notes]
    if findings.code:
        notes.append(Problem("own_code", details={"repositories": ", ".join(findings.code)}))
    return _facts_of(whole, adapter, findings.code), (), tuple(notes)


def _renaming(field: str, reference: ModelReference, repository: Repository) -> list[Problem]:
    if reference.repo_id == repository.repo_id:
        return []
    return [Problem("renamed", field, repository.repo_id, {"old": reference.repo_id})]


def _facts_of(whole: Repository, adapter: Repository | None, code: tuple[str, ...]) -> Facts:
    """Of a whole model, or of an adapter on it."""
    config, own, template = whole.config or {}, adapter or whole, whole.chat_template
    of_adapter = adapter.weights.count if adapter and adapter.weights else 0
    table_parameters = min(_table_parameters(config), whole.parameters)
    sizes = [whole.sizes.get(name) for name in whole.weight_files]
    known_sizes = [size for size in sizes if size is not None]
    origin = origin_of(own)
    if adapter:
        under = origin_of(whole)
        active = under.active_parameters and under.active_parameters + of_adapter
        base_model = origin.base_model or whole.repo_id
        origin = replace(origin, moe=under.moe, active_parameters=active, base_model=base_model)
    return Facts(
        repo_id=own.repo_id,
        commit=own.commit,
        architecture=faults.architecture_in(config)[:100],
        model_type=clean_text(config.get("model_type"), 64),
        parameters=whole.parameters + of_adapter,
        licence=own.licence[:100],
        stored_dtype=whole.stored_dtype,
        dtype=whole.stored_dtype,
        origin=origin,
        released=own.released,
        file_bytes=sum(known_sizes) if len(known_sizes) == len(sizes) else None,
        n_files=len(sizes),
        stored_quantisation=whole.quantisation,
        table_parameters=table_parameters,
        adapter_parameters=of_adapter,
        adapter_base=whole.repo_id if adapter else "",
        adapter_base_commit=whole.commit if adapter else "",
        code=code,
        has_template=None if template is None else bool(template or whole.template_names),
        template_names=whole.template_names,
        refuses_system=refuses_system(template or ""),
    )


def _table_parameters(config: Mapping[str, Any]) -> int:
    """Of the tables that tokens are read from and written by: they are never packed."""
    texts = config.get("text_config")
    of_text = texts if isinstance(texts, dict) else config
    tokens = clean_count(of_text.get("vocab_size")) or 0
    widths = [width for name in faults.WIDTHS if (width := clean_count(of_text.get(name)))]
    tables = 1 if of_text.get("tie_word_embeddings") else 2
    return tables * tokens * max(widths, default=0)


def _faults_of_way(facts: Facts) -> list[Problem]:
    """What does not go together with how the model is to be computed and asked."""
    problems, whole = [], facts.adapter_base or facts.repo_id
    if facts.packing and facts.stored_quantisation:
        method = {"method": facts.stored_quantisation}
        problems.append(Problem("packed_already", "packing", whole, method))
    if facts.backend != TRANSFORMERS and (kind := _kind_for_transformers(facts)):
        problems.append(Problem("plain_models_only", "engine", whole, {"kind": kind}))
    if facts.chat and (names := facts.template_names):
        more = len(names) - MAX_NAMED_TEMPLATES
        listed = ", ".join(name[:40] for name in names[:MAX_NAMED_TEMPLATES])
        details = {"names": f"{listed} and {more} more" if more > 0 else listed}
        problems.append(Problem("no_default_template", "asked", whole, details))
    if facts.chat and facts.has_template is False:
        problems.append(Problem("no_template", "asked", whole))
    return problems


def _kind_for_transformers(facts: Facts) -> str:
    """What kind of model it is that transformers alone computes here; empty for a plain one."""
    if facts.adapter_base:
        return "Adapters"
    if facts.code:
        return "Models with code of their own"
    if facts.architecture in faults.SEEING:
        return "Models that see"
    return "Quantised weights" if facts.quantisation else ""


def _refused_instructions(facts: Facts) -> list[Problem]:
    if not (facts.chat and facts.refuses_system):
        return []
    whole = facts.adapter_base or facts.repo_id
    return [Problem("refuses_system", "asked", whole, {"words": facts.refuses_system})]


# The workers that run


def _against_workers(facts: Facts, workers: list[Worker]) -> list[Problem]:
    """At most one: why no worker that is alive computes this model."""
    if not workers:
        return [Problem("no_worker", "form")]
    if not any(worker.backend == facts.backend for worker in workers):
        running = [NAMES.get(name, name) for name in sorted({w.backend for w in workers})]
        engine = NAMES[facts.backend]
        return [Problem("no_worker_for_engine", "engine", engine, {"choices": _choose(running)})]
    if facts.code and not any(worker.runs_code for worker in workers):
        return [Problem("no_worker_for_code", "model", facts.repo_id)]
    largest = _largest(facts, workers)
    others = [replace(facts, dtype=dtype) for dtype in Dtype.values if dtype != facts.dtype]
    if largest is None and facts.quantisation:
        library = {"library": method_of(facts.quantisation)}
        if facts.packing:
            return [Problem("no_worker_for_packing.chosen", "packing", facts.packing, library)]
        return [Problem("no_worker_for_packing.stored", "model", facts.repo_id, library)]
    if largest is None:
        possible = [other.dtype for other in others if _largest(other, workers) is not None]
        choices = {"choices": _choose(possible)}
        return [Problem("no_worker_for_dtype", "dtype", facts.dtype, choices)]
    if facts.needed_bytes <= largest:
        return []
    fitting = [
        other.dtype for other in others if other.needed_bytes <= (_largest(other, workers) or 0)
    ]
    details = {
        "needed": _gigabytes(facts.needed_bytes),
        "precision": facts.quantisation or facts.dtype,
        "parameters": facts.parameters,
        "largest": _gigabytes(largest),
        "choices": _choose(fitting),
    }
    if fitting:
        return [Problem("too_large.precision", "dtype", facts.repo_id, details)]
    return [Problem("too_large", "model", facts.repo_id, details)]


def _largest(facts: Facts, workers: list[Worker]) -> int | None:
    code = facts.identity["code"]
    return estimate.largest_memory(workers, facts.dtype, facts.quantisation, facts.backend, code)


def _room(facts: Facts, workers: list[Worker]) -> Room | None:
    how = (facts.dtype, facts.quantisation, facts.backend, facts.identity["code"])
    able = [worker for worker in workers if worker.computes(*how)]
    fitting = sum(facts.needed_bytes <= worker.memory_bytes for worker in able)
    if not fitting:
        return None
    return Room(fitting, len(workers), max(worker.memory_bytes for worker in able))


def _choose(choices: Iterable[str]) -> str:
    listed = " or ".join(choices)
    return f"Choose {listed}." if listed else ""


def _gigabytes(n_bytes: int) -> str:
    return f"{n_bytes / GIGABYTE:.1f} GB"


# What this site has of the model already, under every name that it knows the model by

# A repository keeps its commits when it is renamed, and the Hub goes on answering to its old names.
# Other repositories may have the same commit, so a commit alone makes no two models one.


def current_suite() -> Suite | None:
    """The newest version of the suite that this site runs; None before `manage.py sync_tasks`."""
    return Suite.objects.filter(name=settings.PLUMBLINE_SUITE).order_by("-created", "-pk").first()


def rows_of(*names: str) -> QuerySet[HubModel]:
    """The rows of a model that has these names now, the earliest first."""
    return HubModel.objects.filter(Q(repo_id__in=names) | Q(renamed_to__in=names)).order_by("pk")


def variants_of(facts: Facts, *former: str) -> list[Variant]:
    """Those of the same commits, asked in the same way; `former`: other names of the model."""
    identity = {
        name: value for name, value in facts.identity.items() if name not in REPOSITORY_FIELDS
    }
    variants = Variant.objects.filter(hub_model__in=rows_of(facts.repo_id, *former), **identity)
    return [
        variant
        for variant in variants.order_by("pk")
        if _commits(variant.code) == _commits(",".join(facts.code))
        and bool(variant.adapter_base) == bool(facts.adapter_base)
    ]


def _commits(code: str) -> list[str]:
    return [pin.rpartition("@")[2] for pin in code.split(",") if pin]


def existing_submission(facts: Facts, *former: str) -> Submission | None:
    """The newest active submission of this commit and precision on the current suite, under any of
    the model's names; `former`: such as the site may not know yet."""
    return (
        Submission.objects.filter(
            variant__in=variants_of(facts, *former),
            suite=current_suite(),
            state=Submission.State.ACTIVE,
        )
        .order_by("-created")
        .first()
    )


def _submitted_or_failed(facts: Facts, existing: Submission | None) -> Problem | None:
    """Why submitting again would repeat nothing, or what it would repeat."""
    if existing is None:
        return None
    variant = {"variant": str(facts)}
    if failed := existing.runs.exclude(state__in=LIVE).count():
        details = {**variant, "failed": failed}
        return Problem("failed_before", "model", facts.repo_id, details)
    return Problem(SUBMITTED_BEFORE, "model", facts.repo_id, variant)


def submitted_before(facts: Facts) -> Problem | None:
    """Why submitting would repeat nothing: every run of an earlier submission is alive."""
    problem = _submitted_or_failed(facts, existing_submission(facts))
    return problem if problem and problem.code == SUBMITTED_BEFORE else None


def departed(models: Iterable[HubModel]) -> Problem | None:
    """Why a model with these rows is not evaluated, whoever asks: its author does not want it
    ranked here."""
    model = next((model for model in models if model.departed), None)
    return Problem("departed", "model", model.repo_id) if model else None


def _twin_of(facts: Facts, *former: str) -> HubModel | None:
    """A model of this site under another name, with the same weights, asked in the same way."""
    digest = facts.origin.weights_digest
    if not digest or facts.adapter_base:
        return None
    same = Variant.objects.filter(
        weights_digest=digest,
        adapter_base="",
        submissions__state=Submission.State.ACTIVE,
        **{name: facts.identity[name] for name in ("dtype", "quantisation", "chat", "backend")},
    ).exclude(hub_model__in=rows_of(facts.repo_id, *former))
    same = same.exclude(hub_model__departed=True)
    variant = same.select_related("hub_model").order_by("pk").first()
    return variant.hub_model if variant else None


def _same_weights(facts: Facts, twin: HubModel | None) -> Problem | None:
    suite = current_suite()
    if twin is None or suite is None:
        return None
    details = {"twin": twin.repo_id, "runs": suite.entries.count()}
    return Problem("same_weights", "model", facts.repo_id, details)
