"""A model's page: one commit in full, in parts that the address chooses from.

Read from the address down: `model` finds the record, `_page` adds the portrait that every part
shows, and each part of PARTS its own table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.template import engines
from django.template.loader import render_to_string
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_safe

from leaderboard.board import GPUS, BoardQuery
from leaderboard.model_pages import pictures, records, sharing, standing
from leaderboard.model_pages.records import ModelRecord, RunLine, read_model
from leaderboard.model_pages.scores import Benchmark, benchmarks_of, scores_table
from leaderboard.model_pages.standing import Place, extremes, positions_of
from leaderboard.models import HubModel, Variant
from leaderboard.models import edition as editions
from leaderboard.models.run import run_url
from leaderboard.models.variant import needed_bytes
from leaderboard.queue import title_of
from leaderboard.snapshot import Board
from leaderboard.templatetags.design import style_sign
from leaderboard.templatetags.figures import bounds_in, exactly, plural, shown, utc
from leaderboard.templatetags.runs import state_mark
from leaderboard.web import Address, kept

SCORES, FIELD, SIZE, FAMILY, RUNS, VERSIONS = ("", "field", "size", "family", "runs", "versions")
GIBIBYTE = 2**30


@require_safe
def model(request: HttpRequest, repo_id: str) -> HttpResponseBase:
    """One commit in one precision in full, the others as a line each; the address says which."""
    pages = dict.fromkeys(("revisions", "runs", "submissions"), "1")
    address = Address(request, {"variant": "", "suite": "", "tab": "", "state": "", **pages})
    return kept.answer(request, editions.now, lambda: _page(request, repo_id, address))


def _page(request: HttpRequest, repo_id: str, address: Address) -> str | HttpResponseBase:
    try:
        record = read_model(repo_id, address)
    except Http404:
        former = HubModel.objects.filter(renamed_to=repo_id).first()
        if former is None:
            raise
        return HttpResponseRedirect(former.get_absolute_url())
    tab = address.choice("tab", PARTS)
    address.choice("state", records.STATES)
    if not tab:
        # Addresses from before the page had parts name only a page of a list, or a state of runs.
        runs = address["state"] or address["runs"] != "1"
        lists = address["revisions"] != "1" or address["submissions"] != "1"
        tab = RUNS if runs else VERSIONS if lists else SCORES
    address = address.at(tab=tab)
    words, part = PARTS[tab]
    firsts = address.at(**_FIRST_PAGES)
    urls = {name: firsts.url("parts", tab=name) for name in PARTS}
    context = {
        **_head(record),
        **part(record, address),
        "part_template": f"model_pages/{tab or 'scores'}.html",
        "part_words": words,
        "tabs": [(label, urls[name], name == tab) for name, (label, _) in PARTS.items()],
        "runs_url": urls[RUNS],
        "versions_url": urls[VERSIONS],
        "suites": [
            (suite, firsts.url("parts", suite=suite.name), suite == record.suite)
            for suite in record.suites
        ],
    }
    if redirect := address.redirect():
        return redirect
    if record.variant:
        origin = request.build_absolute_uri("/").rstrip("/")
        context["take_away"] = sharing.take_away(record, origin)
    return render_to_string("model_pages/page.html", context, request)


_FIRST_PAGES = {"state": "", "revisions": "1", "runs": "1", "submissions": "1"}


def _head(record: ModelRecord) -> dict[str, Any]:
    """What stands above the parts: who the model is, how well it does, and against whom."""
    own, variant, board = record.place, record.variant, record.boards.own
    context: dict[str, Any] = {
        "model": record.model,
        "variant": variant,
        "suite": record.suite,
        "own": own,
        "same_weights": record.same_weights,
        "renamed": record.known_here.get(record.model.renamed_to),
        "n_versions": len(record.variants),
        "share_title": sharing.headline(record),
        "picture_url": sharing.picture_url(record),
        "picture_alt": f"{sharing.headline(record)}, among the averages of all models",
    }
    if variant:
        context["fits"] = _smallest_gpu(variant)
    if variant is None or own is None or board is None:
        return context
    found = positions_of(board, own.row)
    claims = standing.verdicts(board, own.row)
    context["not_told_apart"] = standing.not_told_apart(own, claims)
    context["extremes"] = _extremes(own, found)
    context["recountable"] = _recountable(own, found)
    if own.average:
        context["wide_field"] = pictures.field_picture(own, 690)
        context["thin_field"] = pictures.field_picture(own, 340)
        context["styles"] = pictures.style_lines(standing.in_styles(record.boards, variant.pk))
    return context


def _smallest_gpu(variant: Variant) -> str:
    """The smallest graphics card that holds its weights: packed as they are, else in 8 bits."""
    weights = variant.weight_bytes if variant.quantisation else variant.parameters
    if not weights:
        return ""
    fits = (gpu for gpu in GPUS if needed_bytes(weights) <= int(gpu) * GIBIBYTE)
    gpu = next(fits, None)
    if gpu is None:
        return ""
    return f"fits {gpu} GB as it is packed" if variant.quantisation else f"fits {gpu} GB in 8-bit"


def _extremes(own: Place, found: list[standing.Position]) -> dict[str, Any] | None:
    picked = extremes(found)
    if picked is None:
        return None

    def lines(of: list[standing.Position]) -> list[dict[str, Any]]:
        return [
            {
                "position": position,
                "score": own.board.score(own.row, position.place),
                "run_url": _run_url(own, position.place),
                "picture": pictures.position_picture(position),
            }
            for position in of
        ]

    return {"picked": picked, "highest": lines(picked.highest), "lowest": lines(picked.lowest)}


def _run_url(own: Place, column: int) -> str:
    run = own.board.run_id(own.row, column)
    return run_url(run) if run else ""


def _recountable(own: Place, found: list[standing.Position]) -> dict[str, Any] | None:
    """The run behind its highest rank whose stored answers can be counted again: the number that a
    reader doubts first."""
    ordered = sorted(found, key=lambda position: -position.at)
    runs = {own.board.run_id(own.row, position.place): position for position in ordered}
    run = records.run_with_files([run for run in runs if run])
    return {"run": run, "title": runs[run].column.title} if run else None


def _scores(record: ModelRecord, address: Address) -> dict[str, Any]:  # noqa: ARG001
    benchmarks = _benchmarks(record)
    own, variant, suite = record.place, record.variant, record.suite
    if not benchmarks or variant is None or suite is None:
        return {}
    found = positions_of(own.board, own.row) if own else []
    files = BoardQuery(suite=suite.name, q=record.model.repo_id, cols="all")
    return {
        "scores": scores_table(benchmarks, variant, record.boards.every, found),
        "files": [
            (words, files.url(to=f"board-{kind}"))
            for words, kind in (("CSV", "csv"), ("JSON", "json"), ("Parquet", "parquet"))
        ],
    }


def _benchmarks(record: ModelRecord) -> list[Benchmark]:
    if record.variant is None or record.suite is None:
        return []
    return benchmarks_of(record.suite, record.variant, record.boards.every)


def _field(record: ModelRecord, address: Address) -> dict[str, Any]:  # noqa: ARG001
    """Its rank on each benchmark in each style, and its places on all boards."""
    variant = record.variant
    if variant is None:
        return {}
    styled = standing.in_styles(record.boards, variant.pk)
    by_benchmark: dict[str, dict[str, standing.Position]] = {}
    for place in styled:
        for position in positions_of(place.board, place.row):
            by_benchmark.setdefault(position.column.benchmark, {})[place.style] = position
    styles = [(place.style, place.style_words) for place in styled]
    profile = [
        (
            next(iter(of_style.values())).column.title,
            [
                (found, pictures.position_picture(found))
                if (found := of_style.get(style))
                else None
                for style, _ in styles
            ],
        )
        for of_style in by_benchmark.values()
    ]
    return {
        "profile": profile,
        "profile_styles": styles,
        "places": standing.places(record.boards, variant.pk),
    }


def _size(record: ModelRecord, address: Address) -> dict[str, Any]:  # noqa: ARG001
    """Models of its size, and what its answers took."""
    own = record.place
    if own is None or own.average is None:
        return {}
    near, n_near, n_below = standing.of_size(own, standing.verdicts(own.board, own.row))
    return {
        "size_picture": pictures.size_picture(own),
        "near": near,
        "n_near": n_near,
        "n_below": n_below,
        "costs": _costs(own.board, own.row),
    }


def _costs(board: Board, row: int) -> list[tuple[str, float | None, float | None, str]]:
    """By benchmark tokens and seconds of a question, and on what the seconds were taken; of those
    of which anything is known."""
    costs = board.costs
    if costs is None:
        return []
    rows = []
    for at, column in enumerate(board.columns):
        tokens, seconds = (None if np.isnan(x) else float(x) for x in costs.of[row, at, :2])
        kind = int(costs.kind[row, at, 0])
        if tokens is not None or seconds is not None:
            machine = costs.kinds[kind] if kind >= 0 else ""
            rows.append((column.title, tokens, seconds, machine))
    return rows


def _family(record: ModelRecord, address: Address) -> dict[str, Any]:  # noqa: ARG001
    own, variant = record.place, record.variant
    related = records.family_of(record.model, record.base)
    context: dict[str, Any] = {
        "base": record.base,
        "base_here": record.known_here.get(variant.base_model) if variant else None,
        "family": related,
    }
    if own:
        claims = standing.verdicts(own.board, own.row)
        context["on_board"], context["n_on_board"] = standing.of_family(own, record.base, claims)
    return context


def _runs(record: ModelRecord, address: Address) -> dict[str, Any]:
    history = records.runs(record, address)
    if history["running"]:
        kept.only_for_now()  # how far it is, is no new edition
    table = _runs_table(history["runs"]) if history["runs"] else ""
    return {**history, "runs": table, **records.submissions(record, address)}


def _runs_table(lines: list[RunLine]) -> SafeString:
    """The whole <table>; Django's own templates are too slow for it."""
    rows = [
        {
            "key": str(line.run.pk),
            "url": run_url(line.run.pk),
            "title": conditional_escape(title_of(line.run)),
            "style": style_sign(line.run.task.style) + line.run.task.get_style_display(),
            "shots": f"{line.run.shots}-shot",
            "commit": line.run.variant.commit[:7],
            "dtype": conditional_escape(line.run.variant.told),
            "state": state_mark(line.run),
            "number": shown(line.score, line.metric) if line.score else "",
            "bounds": bounds_in(line.score, line.metric) if line.score else "",
            "exactly": exactly(line.score) if line.score else "",
            "n": plural(line.score.n, "question") if line.score else "",
            "how_far": ""
            if line.score
            else render_to_string("web/how_far.html", {"run": line.run}),
            "created": utc(line.run.created),
        }
        for line in lines
    ]
    html = engines["jinja2"].get_template("model_pages/runs_table.jinja").render({"runs": rows})
    return mark_safe(html)  # noqa: S308 what it takes over is escaped here


def _versions(record: ModelRecord, address: Address) -> dict[str, Any]:
    return {
        **records.revisions(record, address),
        "base_here": record.known_here.get(record.variant.base_model) if record.variant else None,
    }


PARTS: dict[str, tuple[str, Callable[[ModelRecord, Address], dict[str, Any]]]] = {
    SCORES: ("Scores", _scores),
    FIELD: ("Against the field", _field),
    SIZE: ("Size and cost", _size),
    FAMILY: ("Family", _family),
    RUNS: ("Runs", _runs),
    VERSIONS: ("Versions and settings", _versions),
}
"""By what the address says of a part its words and what it shows."""
