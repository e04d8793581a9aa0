"""What a run's number rests on, made ready for its page: uncertainty, data, machine, commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose, sqrt
from pathlib import Path

import pyarrow.parquet as pq
from django.conf import settings

from evalcore.record import RunRecord
from evalcore.stats import Interval
from leaderboard.models import Result, Run
from leaderboard.queue import reproduce

JOULES = 3_600_000
"""In a kilowatt hour."""

# Watts by the name that the driver reports: the board power in the makers' data sheets.
RATED_WATTS = {
    "NVIDIA H200": 700,
    "NVIDIA H100 80GB HBM3": 700,
    "NVIDIA H100 PCIe": 350,
    "NVIDIA A100-SXM4-80GB": 400,
    "NVIDIA A100-SXM4-40GB": 400,
    "NVIDIA A100 80GB PCIe": 300,
    "NVIDIA A100-PCIE-40GB": 250,
    "NVIDIA L40S": 350,
    "NVIDIA L40": 300,
    "NVIDIA L4": 72,
    "NVIDIA A40": 300,
    "NVIDIA RTX A6000": 300,
    "NVIDIA GeForce RTX 4090": 450,
    "NVIDIA GeForce RTX 3090": 350,
    "Tesla T4": 70,
}


@dataclass(frozen=True)
class Measured:
    """Kilowatt hours by counters (evalcore/energy.py), and of which parts of the machine."""

    kilowatt_hours: float
    parts: tuple[str, ...]


def measured(record: RunRecord) -> Measured | None:
    """What the record says that counters counted; None where it has none."""
    if not record.energy:
        return None
    joules = sum(meter["joules"] for meter in record.energy)
    parts = tuple(f"{meter['part']} ({meter['source']})" for meter in record.energy)
    return Measured(joules / JOULES, parts)


@dataclass(frozen=True)
class Estimate:
    """Kilowatt hours if devices of this rated power (watts, all together) never rested.

    Given where no counter could be read; the rest of the machine is not in it.
    """

    kilowatt_hours: float
    watts: int


def estimate(device: str, seconds: float) -> Estimate | None:
    """Of a worker's device, as in "2 x NVIDIA L4"; None where its rated power is not known."""
    match = re.fullmatch(r"([1-9][0-9]*) x (.+)", device)
    rated = RATED_WATTS.get(match[2]) if match else None
    if match is None or rated is None:
        return None
    watts = int(match[1]) * rated
    return Estimate(watts * seconds / JOULES, watts)


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
    """How long a run took and what that cost."""

    seconds: float
    parts: list[tuple[str, float]]
    device: str
    measured: Measured | None
    estimate: Estimate | None


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
    """Seconds of this run alone, by what they went into; its worker's device and its energy."""
    device = run.worker.device if run.worker else ""
    return Timed(
        seconds=record.seconds,
        parts=[
            (name, record.timing[name])
            for name in ("prompts", "tokens", "answers", "scores")
            if name in record.timing
        ],
        device=device,
        measured=measured(record),
        estimate=estimate(device, record.seconds),
    )


def command(run: Run) -> str:
    """The command that evaluates it again, one line for each option; names the Hub if it must."""
    hub = settings.HF_ENDPOINT
    elsewhere = "" if hub == settings.PUBLIC_HUB else f"HF_ENDPOINT={hub} "
    return elsewhere + shlex.join(reproduce.command(run)).replace(" --", " \\\n  --")


def pandas(samples: Path, url: str) -> str:
    """Lines of Python that read a run's answers and show of each what came back and its score."""
    file = pq.read_schema(samples)
    shown = [name for name in COLUMNS if name in file.names]
    names = ", ".join(f'"{name}"' for name in shown)
    return "\n".join(
        [
            "import pandas as pd",
            f'answers = pd.read_parquet("{url}")',
            f"print(answers[[{names}]])",
        ]
    )


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
