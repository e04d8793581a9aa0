"""What a run's number rests on, made ready for its page: uncertainty, data, time, commands."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isclose, sqrt
from pathlib import Path

import pyarrow.parquet as pq
from django.conf import settings

from evalcore.record import RunRecord
from evalcore.stats import Interval
from leaderboard.models import Result, Run
from leaderboard.queue import reproduce

FEWEST_PARTS = 5
"""With fewer a draw of other parts cannot be told from them."""

METHODS = {
    "normal": "1.96 standard errors to each side",
    "clustered": "Student’s t over groups of questions that belong together",
    "wilson": "Wilson’s, as few answers are of one kind",
    "pooled": "1.96 standard errors, pooled over parts that are fixed",
    "bootstrap": "percentiles of the score on drawn sets of questions",
    "none": "none: nothing tells how much the score would vary",
}
COLUMNS = ("doc_id", "target", "gold", "pick", "correct", "loglikelihoods")
"""Of a samples file, the flat ones that say what came back; older files lack the last."""
LIBRARIES = ("torch", "transformers", "tokenizers", "datasets", "numpy", "python")


@dataclass(frozen=True)
class Timed:
    """How long a run took, by what it went into, and on which device."""

    seconds: float
    parts: list[tuple[str, float]]
    device: str


def method_of(result: Result, record: RunRecord | None) -> str:
    """How the interval of a number was made, one of METHODS; empty where no record says."""
    wanted = (result.task_name, result.subset, result.metric, result.filter)
    for row in record.results if record else ():
        if (row.task, row.subset, row.metric, row.filter) == wanted:
            return row.interval
    return ""


def if_other_parts(whole: Result, parts: Sequence[Result]) -> Interval | None:
    """The interval of a mean if its parts were a draw of many, and not the fixed ones they are.

    That is the interval clustered by part, which the parts' own means give: `n_c (mean_c - mean)`
    is the sum of the deviations within a part. None where the parts are too few or all alike, which
    says nothing of others, or where the number is no mean over all their questions.
    """
    sizes = [part.n for part in parts]
    if len(parts) < FEWEST_PARTS or sum(sizes) != whole.n:
        return None
    mean = sum(part.n * part.value for part in parts) / whole.n
    if not isclose(mean, whole.value, abs_tol=1e-9) or len({part.value for part in parts}) == 1:
        return None
    from scipy.stats import t  # imported late: half a second that most pages need not spend

    squares = sum((part.n * (part.value - mean)) ** 2 for part in parts)
    groups = len(parts)
    error = sqrt(squares * groups / (groups - 1)) / whole.n
    half = float(t.ppf(0.975, groups - 1)) * error
    return Interval(mean - half, mean, mean + half)


def commits(run: Run) -> list[tuple[str | None, str]]:
    """Each data set commit with the tasks that were read from it."""
    by_commit: dict[str | None, list[str]] = {}
    for task, commit in run.dataset_commits.items():
        by_commit.setdefault(commit, []).append(task)
    return [(commit, ", ".join(tasks)) for commit, tasks in by_commit.items()]


def libraries(record: RunRecord) -> list[tuple[str, str]]:
    """The libraries that computed, with their versions."""
    known = record.environment
    return [(name, str(known[name])) for name in LIBRARIES if known.get(name)]


def timed(run: Run, record: RunRecord) -> Timed:
    """Seconds of this run alone, and its worker's device."""
    steps = ("prompts", "tokens", "answers", "scores")
    parts = [(name, record.timing[name]) for name in steps if name in record.timing]
    return Timed(record.seconds, parts, run.worker.device if run.worker else "")


def command(run: Run) -> str:
    """The command that evaluates it again, one line for each option; names the Hub if it must."""
    hub = settings.HF_ENDPOINT
    elsewhere = "" if hub == settings.PUBLIC_HUB else f"HF_ENDPOINT={hub} "
    return elsewhere + shlex.join(reproduce.command(run)).replace(" --", " \\\n  --")


def pandas(samples: Path, url: str) -> str:
    """Lines of Python that read a run's answers and show of each what came back and its score."""
    there = _columns_in(samples)
    shown = [name for name in COLUMNS if name in there]
    names = ", ".join(f'"{name}"' for name in shown)
    return "\n".join(
        [
            "import pandas as pd",
            f'answers = pd.read_parquet("{url}")',
            f"print(answers[[{names}]])",
        ]
    )


@lru_cache(maxsize=256)
def _columns_in(samples: Path) -> tuple[str, ...]:
    """A stored file never changes."""
    return tuple(pq.read_schema(samples).names)


def verification(record: RunRecord, record_url: str, samples_url: str) -> str:
    """The commands that fetch a run's files under the names they know, and compute it again."""
    fetched = shlex.quote(record.samples.file)
    return "\n".join(
        [
            f"curl -fo record.json {record_url}",
            f"curl -fo {fetched} {samples_url}",
            "evalcore verify record.json --level aggregate",
            *([] if record.without_text else ["evalcore verify record.json --level rescore"]),
        ]
    )
