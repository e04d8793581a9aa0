"""A run's page: its number and the check of it, every question, its files, and what went in."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from math import isclose, sqrt
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pyarrow.parquet as pq
from csp.decorators import csp_update
from django.conf import settings
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.template.loader import render_to_string
from django.urls import reverse

from evalcore.record import RunRecord
from evalcore.stats import Interval
from leaderboard.models import Artifact, Result, Run
from leaderboard.models.run import MEASURED
from leaderboard.models.task import is_share
from leaderboard.queue import reproduce, title_of
from leaderboard.runs import headline, peers, recount
from leaderboard.runs.browser import FIELDS, browse
from leaderboard.runs.downloads import DIALECTS
from leaderboard.runs.peers import Peers
from leaderboard.samples import Damaged, Unavailable, as_written
from leaderboard.samples import store as artifacts
from leaderboard.snapshot import adjusted
from leaderboard.stats import Standing
from leaderboard.templatetags.figures import bounds_in, shown
from leaderboard.web import Address, Scale, kept, part

LIVE_NOW = (Run.State.QUEUED, Run.State.RUNNING)


@dataclass(frozen=True)
class Download:
    """A file of the run as the page offers it; `sha256` is of a stored file."""

    name: str
    holds: str
    format: str
    url: str
    bytes: int | None = None
    sha256: str = ""


# Thumbnails of a question's images stand in the page itself.
@csp_update({"img-src": ["data:"]})  # type: ignore[arg-type]  # views have arguments, too
def run(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    """The page of a run, which stands until its data change or it is counted again."""
    return kept.answer(
        request,
        lambda: (*headline.editions(pk), recount.last_counted(pk)),
        lambda: _answer(request, pk),
    )


def _answer(request: HttpRequest, pk: UUID) -> str | HttpResponseBase:
    """The page of a run that is not done changes with every report of its worker: not kept."""
    run = get_object_or_404(headline.runs(), pk=pk)
    page = _page(request, run)
    if isinstance(page, str) and run.state == Run.State.DONE:
        return kept.Unlisted(page)
    response = HttpResponse(page) if isinstance(page, str) else page
    response["X-Robots-Tag"] = "noindex"
    return response


def _page(request: HttpRequest, run: Run) -> str | HttpResponseBase:
    address = Address(request, FIELDS)
    files = {file.kind: file for file in run.artifacts.all()}
    results = list(run.results.all())
    primary = headline.primary(run, results)
    away = False
    try:
        record = _record(files.get(Artifact.Kind.RECORD))
        samples = _path(files.get(Artifact.Kind.SAMPLES))
    except Unavailable:
        # Not one without the other: the record says which texts are withheld.
        record = samples = None
        away = True
        kept.only_for_now()
    searchable = record is None or not record.datasets.keys() <= set(record.without_text)
    browser = None
    if samples:
        others = _peers(run, primary)
        with suppress(Damaged), as_written(samples):
            browser = browse(samples, address, searchable=searchable, peers=others)
    if redirect := address.redirect():
        return redirect
    if browser and run.state == Run.State.DONE and browser.get("question"):
        digest, place = browser["doc_digest"], browser["place"]
        browser["ways"] = peers.ways(run, digest, place, browser["question"])
    metric = headline.metric(run)
    outcome = recount.last_outcome(run, results) if primary else None
    context = {
        "run": run,
        "record": record,
        "metric": metric,
        "primary": primary,
        "title": _title(run, primary, metric, browser),
        "description": _description(browser),
        **_sharing(run, primary, browser),
        "squares": headline.squares(primary) if primary else None,
        "can_be_counted": bool(browser and record),
        "can_be_compared": run.state == Run.State.DONE
        or (run.state == Run.State.SUPERSEDED and not run.recall),
        "outcome": outcome,
        "last": outcome is not None,
        "unfinished": run.state not in MEASURED,
        **_numbers(run, record, results, primary, address),
        **_provenance(request, run, record),
        "pandas": _pandas(request, run, samples),
        "downloads": [] if away else list(_downloads(run, files, searchable)),
        "events": run.events.all(),
        **_progress(run),
        "in_place_of": run.supersedes.select_related("task").first(),
        "again": run.replacements.filter(state__in=LIVE_NOW).select_related("rerun").first(),
        "browser": browser,
        "searchable": searchable,
        "away": away,
        "samples_lost": Artifact.Kind.SAMPLES in files and browser is None,
        "address": address,
    }
    return render_to_string("runs/page.html", context, request)


def _peers(run: Run, primary: Result | None) -> Peers | None:
    """The others in its column; None where the run has no number there."""
    return peers.of_result(primary) if primary and run.state == Run.State.DONE else None


def _title(run: Run, primary: Result | None, metric: str, browser: Mapping[str, Any] | None) -> str:
    """First what was found: the number with its range, or the verdict on one question."""
    about = f"{run.variant.hub_model.repo_id} on {title_of(run)}, {run.task.get_style_display()}"
    if browser and browser.get("asked"):
        verdict = browser["question"].verdict.rstrip(".")
        return f"Question {browser['name']}, {verdict[0].lower()}{verdict[1:]}: {about}"
    if primary is None or run.recall:
        return about
    return f"{shown(primary, metric)} ({bounds_in(primary, metric)}): {about}"


def _description(browser: Mapping[str, Any] | None) -> str:
    if browser and browser.get("asked") and browser["question"].title:
        return str(browser["question"].title)
    return "The score with its interval, what went in, and every question with its answer"


def _sharing(run: Run, primary: Result | None, browser: Mapping[str, Any] | None) -> dict[str, str]:
    """The picture of the number, or of the question that is asked for."""
    if primary is None or run.state not in MEASURED:
        return {}
    url = reverse("run-picture", args=[run.pk])
    if browser and browser.get("asked"):
        asked = urlencode({"doc": browser["doc"]})
        return {"picture_url": f"{url}?{asked}", "picture_alt": "How likely each choice was"}
    return {"picture_url": url, "picture_alt": "The score with a square for each question"}


def progress(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The part of the page that changes while a run waits or runs."""
    run = get_object_or_404(headline.runs(), pk=pk)
    response = render(request, "runs/progress.html", {"run": run, **_progress(run)})
    response["Cache-Control"] = "no-store"
    response["X-Robots-Tag"] = "noindex"
    return response


def _progress(run: Run) -> dict[str, Any]:
    return {"live": run.state in LIVE_NOW, "ahead": _ahead(run), "funnel": _funnel(run)}


@dataclass(frozen=True)
class Mark:
    """A look at a run that goes, and its places on the scale, in percent of its width."""

    stood: Standing
    low: str
    x: str
    high: str


@dataclass(frozen=True)
class Funnel:
    """Where the score stood at each look, the oldest first, and between what it will end."""

    metric: str
    marks: Sequence[Mark]
    ends: tuple[str, str]
    """Of the scale, as they are written."""

    @property
    def now(self) -> Standing:
        return self.marks[-1].stood


def _funnel(run: Run) -> Funnel | None:
    """None where the run does not go, or nobody has looked."""
    metric = headline.metric(run)
    if run.state != Run.State.RUNNING or run.so_far.get("metric") != metric:
        return None
    looks = [Standing(**look) for look in run.so_far["looks"]]
    scale = Scale.over(looks)
    marks = [
        Mark(look, *(f"{scale.x(value):.2f}%" for value in (look.low, look.value, look.high)))
        for look in looks
    ]
    return Funnel(metric, marks, scale.ends)


PARTS = 100
"""On a page."""


def _numbers(
    run: Run,
    record: RunRecord | None,
    results: Sequence[Result],
    primary: Result | None,
    address: Address,
) -> dict[str, Any]:
    """All that is known of how sure the run's number is, its other numbers, its parts."""
    metric = headline.metric(run)
    own = [result for result in results if headline.is_own(run, result)]
    method = method_of(primary, record) if primary else ""
    parts = sorted((r for r in results if r.subset and r.metric == metric), key=lambda r: r.subset)
    listed = part(address, "parts", len(parts), PARTS, "parts")
    return {
        "second": adjusted.of_results([primary.pk]).get(primary.pk) if primary else None,
        "method": method,
        "method_in_words": METHODS.get(method, method),
        "other_parts": if_other_parts(primary, parts) if primary else None,
        "others": [result for result in own if result is not primary],
        "parts": parts,
        "listed": listed,
        "listed_parts": parts[listed.slice],
        "lowest_part": min(parts, key=lambda part: part.value, default=None),
        "highest_part": max(parts, key=lambda part: part.value, default=None),
        "parts_scale": Scale.over(parts, run.task.chance, share=is_share(metric)),
    }


def _provenance(request: HttpRequest, run: Run, record: RunRecord | None) -> dict[str, Any]:
    """What went in, and the commands by which anybody can do it again or check it."""
    context: dict[str, Any] = {
        "command": command(run),
        "dataset_commits": commits(run),
    }
    if record:
        urls = (reverse(name, args=[run.pk]) for name in ("run-record", "run-parquet"))
        context |= {
            "libraries": libraries(record),
            "timed": timed(run, record),
            "verification": verification(
                record, *(request.build_absolute_uri(url) for url in urls)
            ),
        }
    return context


def _pandas(request: HttpRequest, run: Run, samples: Path | None) -> str:
    url = request.build_absolute_uri(reverse("run-parquet", args=[run.pk]))
    return pandas(samples, url) if samples else ""


def _ahead(run: Run) -> int | None:
    """How many queued runs a worker would take before this one; None where it does not wait."""
    if run.state != Run.State.QUEUED:
        return None
    earlier = (
        Q(priority__gt=run.priority)
        | Q(priority=run.priority, due__lt=run.due)
        | Q(priority=run.priority, due=run.due, pk__lt=run.pk)
    )
    return Run.objects.filter(earlier, state=Run.State.QUEUED).count()


def _path(artifact: Artifact | None) -> Path | None:
    path = artifacts.path_of(artifact.sha256) if artifact else None
    return path if path and path.is_file() else None


def _record(artifact: Artifact | None) -> RunRecord | None:
    path = _path(artifact)
    return RunRecord.read(path) if path else None


def _downloads(run: Run, files: Mapping[str, Artifact], has_text: bool) -> Iterator[Download]:
    """The stored files, and the forms of other tools where both are there to make them of."""
    if samples := files.get(Artifact.Kind.SAMPLES):
        asked = "prompt, choices" if has_text else "the digest of each text"
        yield Download(
            "Every answer",
            f"One row for each question: {asked}, loglikelihoods, scores",
            "Parquet",
            reverse("run-parquet", args=[run.pk]),
            samples.bytes,
            samples.sha256,
        )
    if record := files.get(Artifact.Kind.RECORD):
        yield Download(
            "Record",
            "All scores with their intervals, versions and settings",
            "JSON",
            reverse("run-record", args=[run.pk]),
            record.bytes,
            record.sha256,
        )
    if samples and record:
        for dialect in DIALECTS:
            url = reverse("run-file", args=[run.pk, dialect.file])
            yield Download(dialect.title, dialect.holds, dialect.format, url)


# What the number rests on


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
