"""Can this model be evaluated? Answered from the Hub's metadata, within one deadline.

The check runs no model code and downloads no weights. What it cannot see (a tokenizer that does
not load, a known architecture with settings of its own) the worker finds, as a ModelError.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace

from django.conf import settings
from django.core.cache import cache

from evalcore.model.hf.quantisation import quantisation_of
from leaderboard.hub import (
    HubSilent,
    Origin,
    Repository,
    architectures,
    cleaning,
    client,
    model_id,
    origin_of,
)
from leaderboard.hub import files as repository_files
from leaderboard.models import LIVE, Submission, Suite
from leaderboard.models.variant import Dtype, needed_bytes
from leaderboard.queue import estimate
from leaderboard.web import Problem, Refused

SECONDS = 2.0
"""For all requests of a live check together."""
CACHED_SECONDS = 60
GIGABYTE = 10**9
SUBMITTED_BEFORE = "submitted_before"
"""The code of the problem that is nobody's mistake: the runs are there already."""


@dataclass(frozen=True)
class Facts:
    """What is known of a model, at the commit that would be evaluated."""

    repo_id: str
    commit: str
    architecture: str
    model_type: str
    parameters: int
    licence: str
    stored_dtype: str
    """The precision in which its weights are stored."""
    dtype: str
    """The precision in which it would be evaluated."""
    origin: Origin
    quantisation: str = ""
    """Method and bits, as config.json states them."""

    @property
    def needed_bytes(self) -> int:
        return needed_bytes(self.parameters, self.dtype)


@dataclass(frozen=True)
class Precheck:
    """The outcome of a check: problems stop a submission, warnings do not.

    Nor does a check that did not finish: submitting asks the Hub again, for longer.
    """

    checked: bool
    """Whether the Hub has answered."""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    facts: Facts | None = None
    """None where not checked, and where too little could be read."""
    existing: Submission | None = None
    """An active submission of the same commit, precision and suite."""

    @property
    def ok(self) -> bool:
        return self.checked and not self.problems

    @property
    def hub_trouble(self) -> Problem | None:
        """Why the Hub gave no usable answer; None where it did."""
        return next((p for p in self.warnings if not self.checked), None)


def check(
    typed_id: str,
    revision: str = "main",
    dtype: str = "",
    *,
    seconds: float = SECONDS,
    thorough: bool = False,
    remembered: bool = False,
) -> Precheck:
    """Judge what was typed; `dtype` empty means as stored. Writes nothing.

    Asks the Hub within `seconds`, where `thorough` for the chat template too; where `remembered`,
    takes its answer of the last minute.
    """
    if dtype not in ("", *Dtype.values):
        return Precheck(checked=False, problems=(_unknown_dtype(dtype),))
    try:
        asked = model_id.read(typed_id, revision)
        facts, problems, warnings = _judged(asked, seconds, thorough, remembered)
    except Refused as refused:
        return Precheck(checked=True, problems=refused.problems)
    except HubSilent as silent:
        return Precheck(checked=False, warnings=(silent.problem,))
    if facts is None:
        return Precheck(checked=True, problems=problems, warnings=warnings)
    facts = replace(facts, dtype=dtype or facts.stored_dtype)
    too_large, waiting = _against_workers(facts)
    existing = existing_submission(facts)
    repeated, retried = submitted_before(facts, existing), _failed_before(facts, existing)
    return Precheck(
        checked=True,
        problems=problems + too_large + ((repeated,) if repeated else ()),
        warnings=warnings + waiting + ((retried,) if retried else ()),
        facts=facts,
        existing=existing,
    )


Judgement = tuple[Facts | None, tuple[Problem, ...], tuple[Problem, ...]]


def _judged(asked: model_id.Asked, seconds: float, thorough: bool, remembered: bool) -> Judgement:
    """Facts, problems and warnings from the Hub alone, kept for a minute."""
    question = json.dumps([settings.HF_ENDPOINT, asked.repo_id, asked.revision])
    key = f"precheck-{hashlib.sha256(question.encode()).hexdigest()}"
    judgement: Judgement | None = cache.get(key) if remembered else None
    if judgement is None:
        try:
            repository = client.read_repository(asked, seconds, thorough=thorough)
            judgement = _judge(asked, repository)
        except Refused as refused:
            judgement = (None, refused.problems, ())
        cache.set(key, judgement, CACHED_SECONDS)
    return judgement


def _judge(asked: model_id.Asked, repository: Repository) -> Judgement:
    problems = repository_files.problems_with(repository)
    facts = None if problems else _facts(repository)
    if facts is None and not problems:
        problems.append(_unknown_size(repository))
    return facts, tuple(problems), tuple(_renaming(asked, repository))


def _facts(repository: Repository) -> Facts | None:
    """None where the number of parameters cannot be told."""
    config, weights = repository.config or {}, repository.weights
    if weights is None or weights.count < 1:
        return None
    return Facts(
        repo_id=repository.repo_id,
        commit=repository.commit,
        architecture=architectures.named_in(config)[:100],
        model_type=cleaning.text(config.get("model_type"), 64),
        parameters=weights.count,
        licence=repository.licence[:100],
        stored_dtype=_stored_dtype(repository),
        dtype=_stored_dtype(repository),
        origin=origin_of(repository),
        quantisation=quantisation_of(config) or "",
    )


def _stored_dtype(repository: Repository) -> str:
    """What config.json says; else what most weights are stored in; else float32."""
    named = client.dtype_in(repository.config or {})
    if named in Dtype.values:
        return named
    by_dtype = repository.weights.by_dtype if repository.weights else {}
    largest = max(by_dtype, key=lambda name: by_dtype[name], default="")
    return client.STORED_DTYPES.get(largest, Dtype.FLOAT32.value)


def _unknown_size(repository: Repository) -> Problem:
    return Problem(
        "model",
        "unknown_size",
        f"The number of parameters of {repository.repo_id} cannot be read from its "
        "safetensors files.",
        "Save the model with save_pretrained() and push it again: a file may be cut short.",
    )


def _renaming(asked: model_id.Asked, repository: Repository) -> list[Problem]:
    if asked.repo_id == repository.repo_id:
        return []
    return [
        Problem(
            "model",
            "renamed",
            f"The Hub knows {asked.repo_id} as {repository.repo_id} now; that name is used.",
        )
    ]


def _against_workers(facts: Facts) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Problems and warnings that come from the workers that are alive."""
    workers = estimate.live_workers()
    if not workers:
        message = "No worker is running at the moment."
        return (), (Problem("form", "no_worker", message, "The runs will wait for one."),)
    largest = estimate.largest_memory(workers, facts.dtype)
    others = [dtype for dtype in Dtype.values if dtype != facts.dtype]
    if largest is None:
        possible = [d for d in others if estimate.largest_memory(workers, d) is not None]
        message = f"No worker that is running computes in {facts.dtype}."
        return (Problem("dtype", "no_worker_for_dtype", message, _choose(possible)),), ()
    if facts.needed_bytes <= largest:
        return (), ()
    fitting = [
        dtype
        for dtype in others
        if needed_bytes(facts.parameters, dtype) <= (estimate.largest_memory(workers, dtype) or 0)
    ]
    message = (
        f"{facts.repo_id} needs {_gigabytes(facts.needed_bytes)} in {facts.dtype} "
        f"({facts.parameters:,} parameters); the largest worker has {_gigabytes(largest)}."
    )
    remedy = _choose(fitting) or "Submit a smaller model, or again when a larger worker runs."
    return (Problem("dtype" if fitting else "model", "too_large", message, remedy),), ()


def _unknown_dtype(dtype: str) -> Problem:
    return Problem(
        "dtype",
        "unknown_dtype",
        f"“{dtype[:40]}” is no precision that models are evaluated in.",
        _choose(Dtype.values),
    )


def _choose(dtypes: list[str]) -> str:
    return f"Choose {' or '.join(dtypes)}." if dtypes else ""


def _gigabytes(n_bytes: int) -> str:
    return f"{n_bytes / GIGABYTE:.1f} GB"


def current_suite() -> Suite | None:
    """The newest version of the suite that this site runs; None before `manage.py sync_tasks`."""
    return Suite.objects.filter(name=settings.PLUMBLINE_SUITE).order_by("-created", "-pk").first()


def existing_submission(facts: Facts) -> Submission | None:
    """The newest active submission of this commit and precision on the current suite."""
    return (
        Submission.objects.filter(
            variant__hub_model__repo_id=facts.repo_id,
            variant__commit=facts.commit,
            variant__dtype=facts.dtype,
            suite=current_suite(),
            state=Submission.State.ACTIVE,
        )
        .order_by("-created")
        .first()
    )


def submitted_before(facts: Facts, existing: Submission | None) -> Problem | None:
    """Why submitting again would repeat nothing: every run of the earlier submission is alive."""
    if existing is None or _ended_badly(existing):
        return None
    message = f"{_what(facts)} was submitted before."
    remedy = "See the earlier submission, or choose another revision or precision."
    return Problem("model", SUBMITTED_BEFORE, message, remedy)


def _failed_before(facts: Facts, existing: Submission | None) -> Problem | None:
    ended = _ended_badly(existing) if existing else 0
    if not ended:
        return None
    message = f"{_what(facts)} was submitted before; {ended} of its runs failed or were stopped."
    return Problem("model", "failed_before", message, "Submitting again repeats only these.")


def _ended_badly(submission: Submission) -> int:
    return submission.runs.exclude(state__in=LIVE).count()


def _what(facts: Facts) -> str:
    return f"{facts.repo_id} at commit {facts.commit[:8]} in {facts.dtype}"
