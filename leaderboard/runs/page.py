"""A run: its number, what went into it, its files, and every question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from csp.decorators import csp_update
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.template.loader import render_to_string
from django.urls import reverse

from evalcore.record import RunRecord
from leaderboard.disputed import of_results
from leaderboard.models import Artifact, Run
from leaderboard.models import edition as editions
from leaderboard.models.task import is_share
from leaderboard.runs import headline, materials, peers
from leaderboard.runs.browser import FIELDS, browse
from leaderboard.runs.dialects import DIALECTS
from leaderboard.runs.funnel import funnel
from leaderboard.runs.peers import Peers
from leaderboard.samples import Damaged, Unavailable, as_written
from leaderboard.samples import store as artifacts
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
    return kept.answer(request, editions.now, lambda: _answer(request, pk))


def _answer(request: HttpRequest, pk: UUID) -> str | HttpResponseBase:
    """The page of a run that is not done changes with every report of its worker: not kept."""
    shown = get_object_or_404(headline.runs(), pk=pk)
    files = {file.kind: file for file in shown.artifacts.all()}
    done = shown.state == Run.State.DONE
    page = _page(request, shown, files, _peers(shown) if done else None)
    if isinstance(page, str) and done:
        return kept.Unlisted(page)
    response = HttpResponse(page) if isinstance(page, str) else page
    response["X-Robots-Tag"] = "noindex"
    return response


def _peers(run: Run) -> Peers | None:
    """The others in its column; None where the run has no number there."""
    own = headline.primary(run, run.results.all())
    return peers.of_result(own) if own else None


def _page(
    request: HttpRequest, shown: Run, files: Mapping[str, Artifact], others: Peers | None = None
) -> str | HttpResponseBase:
    address = Address(request, FIELDS)
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
        with suppress(Damaged), as_written(samples):
            browser = browse(samples, address, searchable=searchable, peers=others)
    if redirect := address.redirect():
        return redirect
    context = {
        "run": shown,
        "record": record,
        **_numbers(shown, record, address),
        **_provenance(request, shown, record),
        "pandas": _pandas(request, shown, samples),
        "downloads": [] if away else list(_downloads(shown, files, searchable)),
        "events": shown.events.all(),
        **_progress(shown),
        "in_place_of": shown.supersedes.select_related("task").first(),
        "again": shown.replacements.filter(state__in=LIVE_NOW).select_related("rerun").first(),
        "browser": browser,
        "searchable": searchable,
        "away": away,
        "samples_lost": Artifact.Kind.SAMPLES in files and browser is None,
        "address": address,
    }
    return render_to_string("runs/page.html", context, request)


def progress(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The part of the page that changes while a run waits or runs."""
    shown = get_object_or_404(headline.runs(), pk=pk)
    context = {"run": shown, **_progress(shown)}
    response = render(request, "runs/progress.html", context)
    response["Cache-Control"] = "no-store"
    response["X-Robots-Tag"] = "noindex"
    return response


def _progress(run: Run) -> dict[str, Any]:
    return {"live": run.state in LIVE_NOW, "ahead": _ahead(run), "funnel": funnel(run)}


PARTS = 100
"""On a page."""


def _numbers(run: Run, record: RunRecord | None, address: Address) -> dict[str, Any]:
    """The run's number with all that is known of how sure it is, its other numbers, its parts."""
    metric = headline.metric(run)
    results = list(run.results.all())
    own = [result for result in results if headline.is_own(run, result)]
    primary = headline.primary(run, results)
    method = materials.method_of(primary, record) if primary else ""
    parts = sorted((r for r in results if r.subset and r.metric == metric), key=lambda r: r.subset)
    listed = part(address, "parts", len(parts), PARTS, "parts")
    return {
        "metric": metric,
        "primary": primary,
        "second": of_results([primary.pk]).get(primary.pk) if primary else None,
        "method": method,
        "method_in_words": materials.METHODS.get(method, method),
        "other_parts": materials.if_other_parts(primary, parts) if primary else None,
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
        "command": materials.command(run),
        "dataset_commits": materials.commits(run),
    }
    if record:
        urls = (reverse(name, args=[run.pk]) for name in ("run-record", "run-parquet"))
        context |= {
            "libraries": materials.libraries(record),
            "timed": materials.timed(run, record),
            "verification": materials.verification(
                record, *(request.build_absolute_uri(url) for url in urls)
            ),
        }
    return context


def _pandas(request: HttpRequest, run: Run, samples: Path | None) -> str:
    url = request.build_absolute_uri(reverse("run-parquet", args=[run.pk]))
    return materials.pandas(samples, url) if samples else ""


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
