"""Dots, lines and scales stand where the numbers say."""

from __future__ import annotations

from dataclasses import replace
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
from leaderboard.charts.chart import front as best
from leaderboard.snapshot import Scores


def chart(
    *models: tuple[float, float],
    half: float = 0.02,
    front: int | None = 1,
    axis: Axis = SIZE,
    names: list[str] | None = None,
) -> Chart:
    """Of (place, score); the first so many are on the front, or those that are best for their
    place."""
    across, value = (np.array(side, float) for side in zip(*models, strict=True))
    names = names or [f"lab/m{place}" for place in range(len(models))]
    on_front = np.arange(len(models)) < front if front is not None else best(across, value)
    board: Any = SimpleNamespace(models=SimpleNamespace(values=lambda _: names))
    return Chart(
        axis=axis,
        board=board,
        score="average",
        rows=np.arange(len(models)),
        across=across,
        scores=Scores(value, value - half, value + half),
        on_front=on_front,
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


def crowded(n: int) -> list[tuple[float, float]]:
    """The best one first, then two models at each place."""
    places = [place // 2 for place in range(n - 1)]
    return [(1e8, 0.9), *((1e9 * 1.01**place, 0.3 + 0.3 * (place % 97) / 97) for place in places)]


def test_of_few_models_each_is_a_dot_and_of_many_those_that_stand_out():
    few, many = drawn(*crowded(drawing.ALONE)), drawn(*crowded(drawing.ALONE + 1))
    assert (len(few.dots), few.crowd) == (drawing.ALONE, [])
    assert len(many.dots) == drawing.STANDING_OUT
    assert many.dots[-1].place == 0, "the front, on top"
    heights = sorted(dot.y for dot in drawn(*crowded(drawing.ALONE)).dots)
    lowest = max(dot.y for dot in many.dots)
    assert lowest <= heights[drawing.STANDING_OUT + 5], "and the highest"


def test_all_of_a_long_line_are_dots_of_their_own():
    n = drawing.ALONE + 50
    models = [(1e8 * 1.01**place, 0.1 + 0.8 * place / n) for place in range(n)]
    assert len(drawn(*models, front=n).dots) == n


def test_every_other_model_is_drawn_where_it_stands_and_two_at_one_place_once(
    monkeypatch: pytest.MonkeyPatch,
):
    models = crowded(drawing.ALONE + 301)
    picture = drawn(*models)
    monkeypatch.setattr(drawing, "ALONE", len(models))
    every = {dot.place: (round(dot.x), round(dot.y)) for dot in drawn(*models).dots}
    rest = every.keys() - {dot.place for dot in picture.dots}
    found = places(picture)
    assert set(found) == {every[place] for place in rest}
    assert len(found) == len(set(found)) < len(rest)


def test_of_many_models_the_families_of_those_that_stand_out_are_joined():
    models = [*crowded(drawing.ALONE), (9e9, 0.1), (9e10, 0.1)]
    last = len(models) - 1

    def families(of: list[tuple[float, float]], *places: int) -> list[str]:
        joined = replace(chart(*of), families=((0, 1), places))
        return drawing.picture(joined, lambda name: name).families

    (line,) = families(models, last - 1, last)
    best = drawn(*models).dots[-1]
    assert line.startswith(f"{best.x},{best.y} ")
    assert len(families(models[-50:], 48, 49)) == 2


def places(picture: drawing.Picture) -> list[tuple[float, float]]:
    """Of the dots without a link, read from the paths as a browser does."""
    found = []
    for path in picture.crowd:
        x = y = 0
        for move in path.split("m")[1:]:
            dx, dy = map(int, move.removesuffix("h0").split())
            x, y = x + dx, y + dy
            found.append((float(x), float(y)))
    return found
