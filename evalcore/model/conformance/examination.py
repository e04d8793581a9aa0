"""All checks of a backend, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from evalcore.errors import EvalError
from evalcore.model.base import LM
from evalcore.model.conformance import company, numbers, reading, writing
from evalcore.model.conformance.examinee import Examinee, Failed, NotAsked
from evalcore.model.conformance.reference import Reference, Referenced
from evalcore.model.conformance.report import Finding, Report

CHECKS: Mapping[str, Callable[[Examinee], str]] = {
    "requests and answers": reading.answers,
    "tokenisation": reading.tokenisation,
    "beginning of a text": reading.beginning,
    "empty context": reading.empty_context,
    "over-long prompts": reading.long_prompts,
    "chat template": reading.conversations,
    "alignment": numbers.alignment,
    "sums": numbers.sums,
    "additivity": numbers.additivity,
    "whole texts": numbers.whole_texts,
    "greedy flag": numbers.greedy,
    "stop strings": writing.stop_strings,
    "length of texts": writing.length,
    "batch invariance": company.batch,
    "order invariance": company.order,
    "determinism": company.determinism,
}
"""By name; each says in words what it found, or raises Failed or NotAsked."""


def examine(
    model: LM, *, reference: Reference | None = None, only: Collection[str] = tuple(CHECKS)
) -> Report:
    """Asks the model some hundred short requests, and says what is right and what is wrong.

    `reference`: the same model by other means; by default the one that it brings, if it does.
    `only`: names of checks (CHECKS), by default all. Whatever a backend raises is a finding.
    """
    if reference is None and isinstance(model, Referenced):
        reference = model.reference
    examinee = Examinee(model, reference)
    findings = tuple(
        _found(name, check, examinee) for name, check in CHECKS.items() if name in only
    )
    return Report(examinee.info.name, examinee.can.backend, findings)


def _found(name: str, check: Callable[[Examinee], str], examinee: Examinee) -> Finding:
    try:
        return Finding(name, "passed", check(examinee))
    except NotAsked as reason:
        return Finding(name, "not asked", str(reason))
    except Failed as problem:
        return Finding(name, "FAILED", str(problem))
    except EvalError as problem:
        return Finding(name, "FAILED", f"it refuses: {problem.reason}")
    except Exception as problem:  # somebody else's code
        return Finding(name, "FAILED", f"it raises {type(problem).__name__}: {problem}")
