"""Suites: what a board asks, its versions, and how it is cited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Count, OuterRef, Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.template.loader import render_to_string
from django.urls import reverse

from leaderboard.catalogue import LICENCE, Citation, find_suite
from leaderboard.models import BoardSnapshot, Suite, SuiteEntry
from leaderboard.snapshot import OWN
from leaderboard.tasks.page import earlier_changes
from leaderboard.texts import METHOD
from leaderboard.web import kept, prose

DOWNLOADS = {
    "text/csv": "board-csv",
    "application/json": "board-json",
    "application/vnd.apache.parquet": "board-parquet",
}


@dataclass(frozen=True)
class Asked:
    """A column of the suite, as its table shows it."""

    entry: SuiteEntry
    draws: int
    """How often its examples are drawn."""
    metric_url: str
    """The sentence that says how its metric is made; empty where there is none."""


def suites(request: HttpRequest) -> HttpResponseBase:
    """The newest version of each."""
    newest = {suite.name: suite for suite in Suite.objects.order_by("created", "pk")}
    snapshots = _newest_snapshots(newest.values())
    benchmarks = dict(
        SuiteEntry.objects.filter(suite__in=newest.values())
        .values_list("suite")
        .annotate(n=Count("benchmark", distinct=True))
        .order_by()
    )
    default = settings.PLUMBLINE_SUITE.partition("@")[0]
    in_order = sorted(
        newest.values(), key=lambda listed: (listed.name != default, listed.title.casefold())
    )
    rows = [(suite, benchmarks.get(suite.pk, 0), snapshots.get(suite.pk)) for suite in in_order]
    context = {"rows": rows, "default": default}
    return kept.compressed(request, render_to_string("tasks/suites_page.html", context, request))


def suite(request: HttpRequest, reference: str) -> HttpResponseBase:
    """`reference` is a name, for the newest version, or `name@version`."""
    shown = find_suite(reference)
    versions = list(Suite.objects.filter(name=shown.name).order_by("-created", "-pk"))
    snapshots = _newest_snapshots(versions)
    entries = list(shown.entries.select_related("task"))
    asked = list(_asked(entries))
    citation = _citation(request, shown, snapshots.get(shown.pk))
    context = {
        "suite": shown,
        "reference": _reference(shown),
        "newest": versions[0],
        "snapshot": citation.snapshot,
        "own": [task for task in asked if task.entry.own],
        "others": [task for task in asked if not task.entry.own],
        "shots": any(entry.shots for entry in entries),
        "counted": len({entry.benchmark for entry in entries if entry.counts}),
        "commands": _commands(shown, entries),
        "people": {e.benchmark: e for e in entries if e.own and e.people is not None}.values(),
        "versions": [
            (version, str(version.changelog.get(version.version, "")), snapshots.get(version.pk))
            for version in versions
        ],
        "earlier": earlier_changes(versions),
        "citation": citation,
        "licence": LICENCE,
        "dataset": citation.dataset([task.entry for task in asked], _downloads(request, shown)),
    }
    return kept.compressed(request, render_to_string("tasks/suite_page.html", context, request))


def cite(request: HttpRequest, reference: str) -> HttpResponse:
    """The suite's BibTeX entry as a file."""
    shown = find_suite(reference)
    citation = _citation(request, shown, _newest_snapshots([shown]).get(shown.pk))
    return HttpResponse(
        citation.bibtex,
        content_type="application/x-bibtex; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{citation.key}.bib"'},
    )


def _reference(suite: Suite) -> str:
    return f"{suite.name}@{suite.version}"


def _downloads(request: HttpRequest, suite: Suite) -> dict[str, str]:
    """The addresses of its whole board, by media type."""
    query = urlencode({"suite": _reference(suite)})
    return {
        media: request.build_absolute_uri(f"{reverse(name)}?{query}")
        for media, name in DOWNLOADS.items()
    }


def _citation(request: HttpRequest, suite: Suite, snapshot: BoardSnapshot | None) -> Citation:
    own = request.build_absolute_uri(reverse("suite", args=[_reference(suite)]))
    return Citation(suite, snapshot, own, settings.PLUMBLINE_OPERATOR or "Plumbline")


def _newest_snapshots(suites: Iterable[Suite]) -> dict[int, BoardSnapshot]:
    """By suite the newest published snapshot of its own styles."""
    published = BoardSnapshot.objects.filter(suite=OuterRef("pk"), style=OWN, published=True)
    newest = Suite.objects.filter(pk__in=[suite.pk for suite in suites]).values_list(
        Subquery(published.order_by("-built").values("pk")[:1])
    )
    return {snapshot.suite_id: snapshot for snapshot in BoardSnapshot.objects.filter(pk__in=newest)}


def _asked(entries: Iterable[SuiteEntry]) -> Iterable[Asked]:
    """One for each benchmark and style, in the suite's order."""
    defined = prose.read_prose(METHOD).words
    entries = list(entries)
    draws = Counter((entry.benchmark, entry.style) for entry in entries)
    for entry in entries:
        if entry.draw == 0:
            word = prose.address_of(entry.metric)
            url = f"{reverse('method')}#{word}" if word in defined else ""
            yield Asked(entry, draws[entry.benchmark, entry.style], url)


def _commands(suite: Suite, entries: Iterable[SuiteEntry]) -> list[str]:
    """What measures the suite's columns on anybody's machine; one for each number of examples."""
    tasks: dict[int, list[str]] = {}
    for entry in entries:
        if entry.own and entry.draw == 0:
            tasks.setdefault(entry.shots, []).append(entry.task.name)
    usual = suite.fewshot_draw == "per-document"
    drawn = () if usual else (f"--fewshot_draw {suite.fewshot_draw}",)
    return [
        " \\\n  ".join(
            (
                *("evalcore run", "--model hf", "--model_args pretrained=ORG/NAME"),
                *(f"--tasks {','.join(names)}", f"--num_fewshot {shots}"),
                *drawn[: bool(shots)],
                *("--mode strict", "--output_path results", "--log_samples"),
            )
        )
        for shots, names in sorted(tasks.items())
    ]
