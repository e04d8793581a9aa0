"""The figures of a chart as a file, in full precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from django.http import Http404, HttpRequest
from django.urls import reverse

from leaderboard.charts.axis import Axis
from leaderboard.charts.chart import Chart
from leaderboard.charts.page import address_of, chart_of
from leaderboard.snapshot import MEASURES, TableFile, table_file


def along(axis: Axis) -> Callable[[HttpRequest], TableFile]:
    return lambda request: _file(request, axis)


def _file(request: HttpRequest, axis: Axis) -> TableFile:
    address = address_of(request)
    chart = chart_of(address, axis)
    if chart is None:
        raise Http404("there is nothing to draw yet")
    board = chart.board
    site = request.build_absolute_uri("/").rstrip("/")
    page = address.url(suite=f"{board.suite}@{board.version}", against=axis.key, page=1)
    return TableFile(
        name=f"plumbline-{board.suite}-{board.version}-{chart.score}-by-{axis.key}",
        built=board.built,
        about={
            "suite": board.suite,
            "suite_version": board.version,
            "score": chart.score,
            **({"machine": chart.machine} if axis.machines else {}),
            "built": board.built.isoformat(),
            "data_version": board.data_version,
            "address": f"{site}{page.replace(request.path, reverse('charts'), 1)}",
        },
        details={"left_out": chart.left_out},
        batches=lambda: _batches(chart),
    )


def _batches(chart: Chart) -> Iterator[pa.RecordBatch]:
    axis = chart.axis
    family: list[int | None] = [None] * len(chart.rows)
    for number, places in enumerate(chart.families):
        for place in places:
            family[place] = number
    yield pa.RecordBatch.from_pydict(
        {
            **table_file.of_models(chart.board.models.take(chart.rows)),
            **({axis.key: pa.array(chart.across)} if axis.key in MEASURES else {}),
            **table_file.bounds("value", "", chart.scores),
            "on_front": pa.array(chart.on_front),
            "family": pa.array(family, pa.int32()),
        }
    )
