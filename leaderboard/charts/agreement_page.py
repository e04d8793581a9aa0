"""The page of the agreement of benchmarks, its picture as a file, and its figures as one."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from typing import Any

import numpy as np
import pyarrow as pa
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.charts.agreement import MOST, Agreement, Pair, agreement_of
from leaderboard.charts.files import links, picture_file
from leaderboard.charts.heat_map import heat_map, told, two_places
from leaderboard.charts.kinds import AGREEMENT, kinds
from leaderboard.snapshot import TableFile, published, table_file
from leaderboard.stats import CORRELATED_FEWEST
from leaderboard.web import Address, kept, part, throttle

PER_PAGE = 50


def _address(request: HttpRequest) -> Address:
    return Address(request, {"suite": settings.PLUMBLINE_SUITE, "page": "1"})


@require_safe
def agreement(request: HttpRequest) -> HttpResponseBase:
    address = _address(request)
    return kept.answer(
        request, lambda: published.edition(address["suite"]), lambda: _page(request, address)
    )


def _page(request: HttpRequest, address: Address) -> str | HttpResponseBase:
    found = agreement_of(address["suite"])
    shown = part(address, "page", len(found.pairs) if found else 0, PER_PAGE, "table")
    if redirect := address.redirect():
        return redirect
    context: dict[str, Any] = {
        "agreement": found,
        "axes": kinds(address["suite"], AGREEMENT),
        "suite_name": address["suite"],
        "fewest": CORRELATED_FEWEST,
        "part": shown,
    }
    if found is None:
        return render(request, "charts/agreement.html", context)
    context |= {
        **_drawn(found),
        "drawn_from": found.of if found.of > MOST else 0,
        "lines": [_line(found, pair) for pair in found.by_agreement[shown.slice]],
        "files": links(address.url(page=1), "charts-agreement", "charts-agreement"),
    }
    return render_to_string("charts/agreement.html", context, request)


@require_safe
def svg(request: HttpRequest) -> HttpResponse:
    """The picture as a file, with colours of its own."""
    throttle.count_download(request)
    found = _or_404(request)
    return picture_file("charts/agreement.svg", _drawn(found), _name(found))


def file(request: HttpRequest) -> TableFile:
    """Every two columns, in full precision."""
    found = _or_404(request)
    board, site = found.board, request.build_absolute_uri("/").rstrip("/")
    return TableFile(
        name=_name(found),
        built=board.built,
        about={
            "suite": board.suite,
            "suite_version": board.version,
            "built": board.built.isoformat(),
            "data_version": board.data_version,
            "address": f"{site}{reverse('charts-agreement')}?suite={board.suite}@{board.version}",
        },
        details={"models_drawn": found.drawn, "of": found.of},
        batches=lambda: _batches(found),
        rows="pairs",
    )


def _or_404(request: HttpRequest) -> Agreement:
    found = agreement_of(_address(request)["suite"])
    if found is None or not found.known:
        raise Http404("there is nothing to draw yet")
    return found


def _batches(found: Agreement) -> Iterator[pa.RecordBatch]:
    pairs = found.pairs
    numbers = {
        name: table_file.numbers(np.array([getattr(pair, name) for pair in pairs], np.float64))
        for name in ("rho", "low", "high")
    }
    sides = {
        side: [found.columns[getattr(pair, side)] for pair in pairs] for side in ("first", "second")
    }
    yield pa.RecordBatch.from_pydict(
        {
            **{side: [column.task for column in columns] for side, columns in sides.items()},
            **{
                f"{side}_title": [column.title for column in columns]
                for side, columns in sides.items()
            },
            **numbers,
            "models": [pair.n for pair in pairs],
        }
    )


def _name(found: Agreement) -> str:
    return f"plumbline-{found.board.suite}-{found.board.version}-agreement"


def _drawn(found: Agreement) -> dict[str, Any]:
    ordered = [pair for pair in found.by_agreement if not isnan(pair.rho)]
    return {
        "agreement": found,
        "picture": heat_map(found) if ordered else None,
        "most": [told(found, pair) for pair in ordered[:3]],
        "least": [told(found, pair) for pair in ordered[:-4:-1]] if len(ordered) > 3 else [],
    }


def _line(found: Agreement, pair: Pair) -> dict[str, Any]:
    known = not isnan(pair.rho)
    return {
        "columns": [found.columns[pair.first], found.columns[pair.second]],
        "rho": two_places(pair.rho) if known else "",
        "low": two_places(pair.low) if known else "",
        "high": two_places(pair.high) if known else "",
        "n": pair.n,
        "few": pair.n < CORRELATED_FEWEST,
    }
