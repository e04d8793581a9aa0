"""Can this model be evaluated? Answered from the Hub's metadata, within one deadline.

The check runs no model code and downloads no weights. What it cannot see (a tokenizer that does
not load, a known architecture with settings of its own) the worker finds, as a ModelError.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from django.conf import settings

from evalcore.model.hf.quantisation import method_of
from leaderboard.hub import HubSilent, model_id
from leaderboard.models import LIVE, HubModel, Submission, Suite, Worker
from leaderboard.models.packing import Packing
from leaderboard.models.variant import NAMES, TRANSFORMERS, Dtype
from leaderboard.queue import estimate
from leaderboard.submissions import names
from leaderboard.submissions.facts import PLAIN, Facts, Way
from leaderboard.submissions.judgement import NO_ROOM, PENDING, is_pending, judged
from leaderboard.web import Problem, Refused

SECONDS = 2.0
"""For all requests of a live check together."""
GIGABYTE = 10**9
SUBMITTED_BEFORE = "submitted_before"
"""The code of the problem that is nobody's mistake: the runs are there already."""
ASK_AGAIN = frozenset({PENDING, NO_ROOM})
"""The codes of problems that say nothing of the model: the same may be asked again at once."""


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
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    facts: Facts | None = None
    """None where not checked, and where too little could be read."""
    existing: Submission | None = None
    """An active submission of the same variant and suite."""
    room: Room | None = None
    """Where it fits; None where it does not, or nobody knows."""

    @property
    def ok(self) -> bool:
        return self.checked and not self.problems

    @property
    def pending(self) -> bool:
        """Whether the Hub is still being asked."""
        return any(warning.code == PENDING for warning in self.warnings)

    @property
    def no_room(self) -> Problem | None:
        """Why the Hub was not asked; None where it was."""
        return next((warning for warning in self.warnings if warning.code == NO_ROOM), None)

    @property
    def hub_trouble(self) -> Problem | None:
        """Why the Hub gave no usable answer; None where it did."""
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
    takes its answer of the last minute.
    """
    if dtype not in ("", *Dtype.values):
        return Precheck(checked=False, problems=(_unknown_dtype(dtype),))
    if way.packing not in ("", *Packing.values):
        return Precheck(checked=False, problems=(_unknown_packing(way.packing),))
    try:
        asked = model_id.read(typed_id, revision)
        facts, problems, warnings = judged(
            asked, way, seconds, thorough=thorough, remembered=remembered
        )
    except Refused as refused:
        return Precheck(checked=True, problems=refused.problems)
    except HubSilent as silent:
        return Precheck(checked=False, warnings=(silent.problem,))
    if facts is None:
        return Precheck(checked=True, problems=problems, warnings=warnings)
    facts = replace(facts, dtype=dtype or facts.stored_dtype)
    workers = estimate.live_workers()
    too_large, waiting = _against_workers(facts, workers)
    existing = existing_submission(facts, asked.repo_id)
    left = departed(names.rows_of(facts.repo_id, asked.repo_id))
    repeated, retried = submitted_before(facts, existing), _failed_before(facts, existing)
    return Precheck(
        checked=True,
        problems=problems + too_large + tuple(one for one in (left, repeated) if one),
        warnings=warnings + waiting + ((retried,) if retried else ()),
        facts=facts,
        existing=existing,
        room=_room(facts, workers),
    )


def is_under_way(typed_id: str, revision: str, way: Way, *, thorough: bool = False) -> bool:
    """Whether somebody has asked for this check and not got it yet: it costs the Hub nothing."""
    try:
        return is_pending(model_id.read(typed_id, revision), way, thorough=thorough)
    except Refused:
        return False


def _against_workers(
    facts: Facts, workers: list[Worker]
) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Problems and warnings that come from the workers that are alive."""
    if not workers:
        message = "No worker is running at the moment."
        return (), (Problem("form", "no_worker", message, "The runs will wait for one."),)
    if not any(worker.backend == facts.backend for worker in workers):
        message = f"No worker that is running computes with {NAMES[facts.backend]}."
        remedy = f"Choose {_named(sorted({worker.backend for worker in workers}))}."
        return (Problem("engine", "no_worker_for_engine", message, remedy),), ()
    if facts.code and not any(worker.runs_code for worker in workers):
        message = "No worker that is running may run a model's own code."
        remedy = "Submit it again when one runs that keeps such code from everything else."
        return (Problem("model", "no_worker_for_code", message, remedy),), ()
    largest = _largest(facts, workers)
    others = [replace(facts, dtype=dtype) for dtype in Dtype.values if dtype != facts.dtype]
    if largest is None and facts.quantisation:
        library = method_of(facts.quantisation)
        message = f"No worker that is running has {library}, which computes such weights."
        if facts.packing:
            remedy = "Choose as stored."
            return (Problem("packing", "no_worker_for_packing", message, remedy),), ()
        remedy = "Submit the model that it was made from."
        return (Problem("model", "no_worker_for_packing", message, remedy),), ()
    if largest is None:
        possible = [other.dtype for other in others if _largest(other, workers) is not None]
        message = f"No worker that is running computes in {facts.dtype}."
        return (Problem("dtype", "no_worker_for_dtype", message, _choose(possible)),), ()
    if facts.needed_bytes <= largest:
        return (), ()
    fitting = [
        other.dtype for other in others if other.needed_bytes <= (_largest(other, workers) or 0)
    ]
    message = (
        f"{facts.repo_id} needs {_gigabytes(facts.needed_bytes)} in "
        f"{facts.quantisation or facts.dtype} "
        f"({facts.parameters:,} parameters); the largest worker has {_gigabytes(largest)}."
    )
    remedy = _choose(fitting) or "Submit a smaller model, or again when a larger worker runs."
    return (Problem("dtype" if fitting else "model", "too_large", message, remedy),), ()


def _named(backends: list[str]) -> str:
    return " or ".join(NAMES.get(backend, backend) for backend in backends)


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


def _unknown_packing(packing: str) -> Problem:
    return Problem(
        "packing",
        "unknown_packing",
        f"“{packing[:40]}” is no way to pack weights.",
        f"Choose {' or '.join(Packing.values)}, or leave them as stored.",
    )


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


def existing_submission(facts: Facts, *former: str) -> Submission | None:
    """The newest active submission of this commit and precision on the current suite, under any of
    the model's names; `former`: such as the site may not know yet."""
    return (
        Submission.objects.filter(
            variant__in=names.variants_of(facts, *former),
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


def departed(models: Iterable[HubModel]) -> Problem | None:
    """Why a model with these rows is not evaluated, whoever asks: its author does not want it
    ranked here."""
    model = next((model for model in models if model.departed), None)
    if model is None:
        return None
    message = f"The author of {model} took it out of the ranking, so it is not evaluated."
    remedy = "Its author can bring it back: see Departures, at the foot of every page."
    return Problem("model", "departed", message, remedy)


def _failed_before(facts: Facts, existing: Submission | None) -> Problem | None:
    ended = _ended_badly(existing) if existing else 0
    if not ended:
        return None
    message = f"{_what(facts)} was submitted before; {ended} of its runs failed or were stopped."
    return Problem("model", "failed_before", message, "Submitting again repeats only these.")


def _ended_badly(submission: Submission) -> int:
    return submission.runs.exclude(state__in=LIVE).count()


def _what(facts: Facts) -> str:
    told = f"{facts.repo_id} at commit {facts.commit[:8]} in {facts.quantisation or facts.dtype}"
    if facts.adapter_base:
        told += f" on {facts.adapter_base} at {facts.adapter_base_commit[:8]}"
    if facts.chat:
        told += " in its chat template"
    return told if facts.backend == TRANSFORMERS else f"{told} by {NAMES[facts.backend]}"
