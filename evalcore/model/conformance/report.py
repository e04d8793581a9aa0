"""What was found of a backend, for people."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

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
