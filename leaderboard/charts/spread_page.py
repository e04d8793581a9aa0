"""The page of a benchmark over prompts and draws, its picture as a file, and its figures as one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.charts.files import links, picture_file
from leaderboard.charts.kinds import SPREAD, kinds
from leaderboard.charts.spread import Line, Spread, spread_of
from leaderboard.charts.spread_drawing import distance, picture, style_name
from leaderboard.models.task import is_share
from leaderboard.snapshot import TableFile, published
from leaderboard.templatetags.figures import in_unit
from leaderboard.web import Address, kept, part, throttle

PER_PAGE = 25
AT_ONCE = 500
"""Lines of a file that are made together."""


def _address(request: HttpRequest) -> Address:
    return Address(request, {"suite": settings.PLUMBLINE_SUITE, "benchmark": "", "page": "1"})


@require_safe
def spread(request: HttpRequest) -> HttpResponseBase:
    address = _address(request)
    return kept.answer(
        request, lambda: published.edition(address["suite"]), lambda: _page(request, address)
    )


def _page(request: HttpRequest, address: Address) -> str | HttpResponseBase:
    found = spread_of(address)
    shown = part(address, "page", len(found.rows) if found else 0, PER_PAGE, "table")
    if redirect := address.redirect():
        return redirect
    context: dict[str, Any] = {
        "spread": found,
        "axes": kinds(address["suite"], SPREAD),
        "suite_name": address["suite"],
        "part": shown,
    }
    if found is None or not len(found.rows):
        return render(request, "charts/spread.html", context)
    lines = found.lines(found.rows[shown.slice].tolist())
    context |= {
        **_drawn(found, lines),
        "styles": [_style(found, place) for place in range(len(found.columns))],
        "apart": _apart(found),
        "table": [_row(found, line) for line in lines],
        "files": links(address.url(page=1), "charts-spread", "charts-spread"),
    }
    return render_to_string("charts/spread.html", context, request)


@require_safe
def svg(request: HttpRequest) -> HttpResponse:
    """The picture of the first models as a file, with colours of its own."""
    throttle.count_download(request)
    found = _or_404(request)
    lines = found.lines(found.rows[:PER_PAGE].tolist())
    return picture_file("charts/spread.svg", _drawn(found, lines), _name(found))


def file(request: HttpRequest) -> TableFile:
    """Every model in every style, in full precision."""
    found = _or_404(request)
    board, site = found.board, request.build_absolute_uri("/").rstrip("/")
    query = f"suite={board.suite}@{board.version}&benchmark={found.benchmark}"
    return TableFile(
        name=_name(found),
        built=board.built,
        about={
            "suite": board.suite,
            "suite_version": board.version,
            "benchmark": found.benchmark,
            "metric": found.columns[0].metric,
            "built": board.built.isoformat(),
            "data_version": board.data_version,
            "address": f"{site}{reverse('charts-spread')}?{query}",
        },
        details={"models": len(found.rows)},
        batches=lambda: _batches(found),
        rows="scores",
    )


def _or_404(request: HttpRequest) -> Spread:
    found = spread_of(_address(request))
    if found is None or not len(found.rows):
        raise Http404("there is nothing to draw yet")
    return found


def _batches(found: Spread) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(found.rows), AT_ONCE):
        lines = found.lines(found.rows[start : start + AT_ONCE].tolist())
        asked = [
            (line.model, column, one)
            for line in lines
            for column, one in zip(found.columns, line.asked, strict=True)
            if one
        ]
        yield pa.RecordBatch.from_pydict(
            {
                "model": [model.repo_id for model, _, _ in asked],
                "commit": [model.commit for model, _, _ in asked],
                "precision": [model.dtype for model, _, _ in asked],
                "style": [column.style for _, column, _ in asked],
                "task": [column.task for _, column, _ in asked],
                **{
                    name: pa.array([getattr(one.score, name) for _, _, one in asked], pa.float64())
                    for name in ("value", "low", "high")
                },
                # A list is no value of a CSV file.
                "draws": [" ".join(map(repr, one.draws)) for *_, one in asked],
            }
        )


def _name(found: Spread) -> str:
    return f"plumbline-{found.board.suite}-{found.board.version}-{found.benchmark}-spread"


def _drawn(found: Spread, lines: list[Line]) -> dict[str, Any]:
    urls = [f"{reverse('model', args=[line.model.repo_id])}" for line in lines]
    return {"spread": found, "picture": picture(found.columns, lines, urls), "n": len(lines)}


def _style(found: Spread, place: int) -> dict[str, Any]:
    column = found.columns[place]
    return {
        "column": column,
        "name": style_name(column),
        "n": int((~np.isnan(found.values[:, place])).sum()),
        "quarters": [in_unit(value, column.metric) for value in found.quarters(place)],
    }


def _apart(found: Spread) -> dict[str, Any] | None:
    """Over the models that have every style; None where there is none, or one style."""
    if not len(found.apart):
        return None
    metric = found.columns[0].metric
    middle, most = np.quantile(found.apart, (0.5, 0.9)).tolist()
    return {
        "middle": distance(middle, metric),
        "most": distance(most, metric),
        "models": len(found.apart),
        "points": is_share(metric),
    }


def _row(found: Spread, line: Line) -> dict[str, Any]:
    metric = found.columns[0].metric
    return {
        "model": line.model,
        "url": reverse("model", args=[line.model.repo_id]),
        "cells": [
            {
                "name": style_name(found.columns[place]),
                "score": one
                and {
                    "value": in_unit(one.score.value, metric),
                    "low": in_unit(one.score.low, metric),
                    "high": in_unit(one.score.high, metric),
                    "draws": [in_unit(value, metric) for value in one.draws],
                },
            }
            for place, one in enumerate(line.asked)
        ],
        "apart": distance(line.apart, metric),
    }
