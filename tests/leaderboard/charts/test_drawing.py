"""Dots, lines and scales stand where the numbers say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.charts import drawing
from leaderboard.charts.axis import DAY, MOST_DATES, SIZE, TIME, Axis
from leaderboard.charts.chart import Chart
from leaderboard.snapshot import Scores


def chart(
    *models: tuple[float, float], half: float = 0.02, front: int = 1, axis: Axis = SIZE
) -> Chart:
    """Of (place, score); the first so many are on the front."""
    across, value = (np.array(side, float) for side in zip(*models, strict=True))
    names = [f"lab/m{place}" for place in range(len(models))]
    board: Any = SimpleNamespace(models=SimpleNamespace(values=lambda _: names))
    return Chart(
        axis=axis,
        board=board,
        score="average",
        rows=np.arange(len(models)),
        across=across,
        scores=Scores(value, value - half, value + half),
        on_front=np.arange(len(models)) < front,
        families=((0, 1),) if len(models) > 1 else (),
        left_out=0,
    )


def drawn(*models: tuple[float, float], **options: Any) -> drawing.Picture:
    return drawing.picture(chart(*models, **options), lambda name: f"/models/{name}")


def test_ten_times_as_large_is_as_far_to_the_right_each_time():
    dots = sorted(drawn((1e8, 0.3), (1e9, 0.4), (1e10, 0.5)).dots, key=lambda dot: dot.place)
    first, second, third = (dot.x for dot in dots)
    assert second - first == pytest.approx(third - second, abs=0.11)
    assert first < second


def test_a_dot_stands_between_the_lines_of_its_score_and_size():
    picture = drawn((1e9, 0.35), (2e9, 0.55))
    (dot,) = [dot for dot in picture.dots if dot.place == 0]
    heights = {tick.label: tick.at for tick in picture.up}
    assert dot.y == pytest.approx((heights["30.0"] + heights["40.0"]) / 2, abs=0.11)
    assert dot.x == {tick.label: tick.at for tick in picture.across}["1B"]
    assert dot.low > dot.y > dot.high
    assert dot.told == "1B, 35.0 (33.0 to 37.0)"


def test_a_day_is_as_long_everywhere_and_its_line_stands_at_midnight():
    monday = datetime(2026, 11, 23, tzinfo=UTC).timestamp()
    moments = [(monday, 0.3), (monday + 1.5 * DAY, 0.4), (monday + 3 * DAY, 0.5)]
    picture = drawn(*moments, axis=TIME)
    first, second, third = (dot.x for dot in sorted(picture.dots, key=lambda dot: dot.place))
    assert second - first == pytest.approx(third - second, abs=0.11)
    at = {tick.label: tick.at for tick in picture.across}
    assert at["23 Nov 2026"] == first
    assert at["26 Nov 2026"] == third
    assert sorted(picture.dots, key=lambda dot: dot.place)[1].told == (
        "24 Nov 2026, 40.0 (38.0 to 42.0)"
    )


@given(
    st.datetimes(datetime(2019, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC)),
    st.timedeltas(timedelta(0), timedelta(days=9000)),
)
def test_dates_are_few_differ_and_lie_within_the_axis(first: datetime, long: timedelta) -> None:
    ends = first.timestamp(), (first + long).timestamp()
    picture = drawn((ends[0], 0.3), (ends[1], 0.5), axis=TIME)
    assert 1 <= len(picture.across) <= MOST_DATES + 1
    assert len({tick.label for tick in picture.across}) == len(picture.across)
    places = [tick.at for tick in picture.across]
    assert places == sorted(places)
    assert picture.left <= places[0]
    assert places[-1] <= picture.right


def test_everything_is_on_the_picture_also_of_one_model_at_the_edge():
    for models in [((7e9, 1.0),), ((7e9, 0.0),), ((1e6, -0.2), (1e12, 0.9))]:
        picture = drawn(*models, half=0.0)
        for dot in picture.dots:
            assert picture.left < dot.x < picture.right
            assert picture.top <= dot.high <= dot.y <= dot.low <= picture.bottom
        assert len(picture.up) >= 2


def test_the_line_steps_up_at_each_model_of_the_front_and_goes_on_to_the_edge():
    picture = drawn((1e9, 0.3), (2e9, 0.5), front=2)
    low, high = sorted(picture.dots, key=lambda dot: dot.place)
    assert picture.front == (
        f"{low.x},{low.y} {high.x},{low.y} {high.x},{high.y} {picture.right},{high.y}"
    )


def test_of_many_models_only_those_of_the_front_have_whiskers_and_lie_on_top():
    many = [(1e9 + place, 0.5) for place in range(drawing.ALL_WHISKERS + 1)]
    picture = drawn(*many)
    assert [dot.place for dot in picture.dots if dot.whisker] == [0]
    assert picture.dots[-1].place == 0
    assert all(dot.whisker for dot in drawn(*many[:-1]).dots)
