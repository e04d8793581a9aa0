"""Two engines side by side: what each takes for the same work, and the ratio."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Comparison:
    """Seconds of lm-evaluation-harness and of evalcore for one piece of work."""

    work: str
    theirs: float
    ours: float
    note: str = ""

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours

    def __str__(self) -> str:
        ratio = f"{self.ratio:,.0f}" if self.ratio > 10 else f"{self.ratio:.1f}"
        return (
            f"{self.work:<52} {self.theirs:>10.2f} s {self.ours:>10.3f} s {ratio:>8} x  {self.note}"
        )


def seconds(work: Callable[[], object], *, at_best_of: int = 1) -> float:
    """The shortest time that the work took."""
    taken = []
    for _ in range(at_best_of):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return min(taken)


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Drops what is printed meanwhile, progress bars above all."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield
