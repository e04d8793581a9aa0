"""All checks of a backend, one after the other, and what was found, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from evalcore.errors import EvalError
from evalcore.model.base import LM
from evalcore.model.conformance import answers, numbers, reading
from evalcore.model.conformance.examinee import (
    Examinee,
    Failed,
    NotAsked,
    Pair,
    Reference,
    Referenced,
)

Verdict = Literal["passed", "FAILED", "not asked"]


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    check: str
    verdict: Verdict
    detail: str
    """How much was asked and how far apart the numbers were; or what is wrong; or why it was not
    asked."""


@dataclass(frozen=True)
class Report:
    """The outcome of all checks; as a text it ends with pass or fail."""

    model: str
    backend: str
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        return not self.failed

    @property
    def failed(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.verdict == "FAILED"]

    def of(self, check: str) -> Finding:
        """The finding of that check."""
        return next(finding for finding in self.findings if finding.check == check)

    def __str__(self) -> str:
        width = max((len(finding.check) for finding in self.findings), default=0)
        counts = Counter(finding.verdict for finding in self.findings)
        told = ", ".join(f"{count} {verdict.lower()}" for verdict, count in counts.items())
        return "\n".join(
            [
                f"{self.model} by {self.backend}",
                *(
                    f"  {finding.verdict:<9}  {finding.check:<{width}}  {finding.detail}"
                    for finding in self.findings
                ),
                f"{'pass' if self.passed else 'fail'}: {told}",
            ]
        )


Check = Callable[[Examinee], str | Iterator[Pair]]
"""Says in words what it found, or gives pairs to compare; or raises Failed or NotAsked."""

CHECKS: Mapping[str, Check] = {
    "requests and answers": reading.answers,
    "tokenisation": reading.tokenisation,
    "beginning of a text": reading.beginning,
    "end of a text": reading.end,
    "empty context": reading.empty_context,
    "over-long prompts": reading.long_prompts,
    "chat template": reading.conversations,
    "alignment": numbers.alignment,
    "sums": numbers.sums,
    "additivity": numbers.additivity,
    "whole texts": numbers.whole_texts,
    "greedy flag": numbers.greedy,
    "stop strings": answers.stop_strings,
    "length of texts": answers.length,
    "batch invariance": answers.batch,
    "order invariance": answers.order,
    "determinism": answers.determinism,
}
"""By name."""


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


def _found(name: str, check: Check, examinee: Examinee) -> Finding:
    try:
        found = check(examinee)
        detail = found if isinstance(found, str) else examinee.apart(found)
        return Finding(name, "passed", detail)
    except NotAsked as reason:
        return Finding(name, "not asked", str(reason))
    except Failed as problem:
        return Finding(name, "FAILED", str(problem))
    except EvalError as problem:
        return Finding(name, "FAILED", f"it refuses: {problem.reason}")
    except Exception as problem:  # somebody else's code
        return Finding(name, "FAILED", f"it raises {type(problem).__name__}: {problem}")
