"""Dots, lines, scales and names stand where the numbers say, and none touches another."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from django.conf import settings as of_the_site
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import ImageFont

from leaderboard.charts import drawing
from leaderboard.charts.axis import DAY, MOST_DATES, SIZE, TIME, Axis
from leaderboard.charts.chart import Chart, families
from leaderboard.charts.chart import front as best
from leaderboard.charts.drawing import Dot, Picture
from leaderboard.charts.labels import LONGEST, NARROW_SIZE
from leaderboard.charts.labels import SIZE as WIDE_SIZE
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


def crowded(n: int) -> list[tuple[float, float]]:
    """The best one first, then two models at each place."""
    places = [place // 2 for place in range(n - 1)]
    return [(1e8, 0.9), *((1e9 * 1.01**place, 0.3 + 0.3 * (place % 97) / 97) for place in places)]


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


def test_dots_stand_at_their_score_and_their_size_ten_times_as_large_as_far_each_time():
    picture = drawn((1e9, 0.35), (2e9, 0.55))
    (dot,) = [dot for dot in picture.dots if dot.place == 0]
    heights = {tick.label: tick.at for tick in picture.up}
    assert dot.y == pytest.approx((heights["30.0"] + heights["40.0"]) / 2, abs=0.11)
    assert dot.x == {tick.label: tick.at for tick in picture.across}["1B"]
    assert dot.low > dot.y > dot.high
    assert dot.told == "1B, 35.0 (33.0 to 37.0)"
    dots = sorted(drawn((1e8, 0.3), (1e9, 0.4), (1e10, 0.5)).dots, key=lambda dot: dot.place)
    first, second, third = (dot.x for dot in dots)
    assert second - first == pytest.approx(third - second, abs=0.11)
    assert first < second


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


def test_of_few_models_each_is_a_dot_with_a_whisker_and_of_many_those_that_stand_out():
    few, many = drawn(*crowded(drawing.ALONE)), drawn(*crowded(drawing.ALONE + 1))
    assert (len(few.dots), few.crowd) == (drawing.ALONE, [])
    assert len(many.dots) == drawing.STANDING_OUT
    assert many.dots[-1].place == 0, "the front, on top"
    heights = sorted(dot.y for dot in drawn(*crowded(drawing.ALONE)).dots)
    lowest = max(dot.y for dot in many.dots)
    assert lowest <= heights[drawing.STANDING_OUT + 5], "and the highest"
    many = [(1e9 + place, 0.5) for place in range(drawing.ALL_WHISKERS + 1)]
    picture = drawn(*many)
    assert [dot.place for dot in picture.dots if dot.whisker] == [0]
    assert picture.dots[-1].place == 0
    assert all(dot.whisker for dot in drawn(*many[:-1]).dots)


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


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=20))
def test_a_model_is_on_the_front_exactly_where_none_dominates_it(models: list[tuple[int, int]]):
    ordered = sorted(models, key=lambda model: (model[0], -model[1]))
    dominated = [
        any(other != model and other[0] <= model[0] and other[1] >= model[1] for other in ordered)
        for model in ordered
    ]
    size, value = (np.array(side, float) for side in zip(*ordered, strict=True))
    assert best(size, value).tolist() == [not one for one in dominated]


def test_a_family_is_of_one_maker_and_names_that_differ_by_size_alone():
    names = ["a/Nut-0.5B", "a/Nut-410m-chat", "b/Nut-7B", "a/Nut-7b", "a/Nut-2-7B", "a/Nut-13B-v2"]
    assert families(names, np.array([0.5, 0.41, 7, 7, 7, 13.0])) == ((0, 3),)
    assert families(["a/Nut-7B", "a/nut-7b"], np.array([7, 7.0])) == ()
    assert families(["a/Mix-8x7B-7B", "a/Mix-8x7B-9B"], np.array([7, 9.0])) == ((0, 1),)
    assert families(["a/Mix-2B-7B", "a/Mix-2B-9B"], np.array([7, 9.0])) == ()


FONT = of_the_site.BASE_DIR / "static" / "fonts" / "inter-latin-opsz-normal.woff2"
LETTERS = "abgiljmwMW0179.-_ABQ"
WHERE = st.tuples(
    st.floats(8.0, 12.0).map(lambda power: 10**power), st.integers(0, 200).map(lambda n: n / 200)
)
"""Size and score; scores often coincide."""
NAMES = st.text(LETTERS, min_size=1, max_size=60).map(lambda name: f"lab/{name}")


class Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float


@st.composite
def pictures(draw: st.DrawFn, most: int = 60) -> Picture:
    models = draw(st.lists(WHERE, min_size=1, max_size=most))
    names = draw(st.lists(NAMES, min_size=len(models), max_size=len(models)))
    models.sort(key=lambda model: (model[0], -model[1]))
    return drawn(*models, names=names, front=None)


def box(dot: Dot, size: float) -> Box:
    """Where a browser writes the name, by the typeface's own widths, in letters of a size."""
    font = ImageFont.truetype(str(FONT), 100)
    wide = font.getlength(dot.label.text) * size / 100
    before = {"start": 0.0, "middle": wide / 2, "end": wide}[dot.label.anchor]
    half = 0.6 * size
    left = dot.label.x - before
    return Box(left, dot.label.y - half, left + wide, dot.label.y + half)


def overlap(one: Box, other: Box) -> bool:
    across = min(one.right, other.right) - max(one.left, other.left)
    down = min(one.bottom, other.bottom) - max(one.top, other.top)
    return across > 0 and down > 0


def windows(of: Picture) -> list[list[tuple[Dot, Box]]]:
    """What a wide window shows, and what a narrow one does in larger letters."""
    labelled = [dot for dot in of.dots if dot.label]
    return [
        [(dot, box(dot, WIDE_SIZE)) for dot in labelled],
        [(dot, box(dot, NARROW_SIZE)) for dot in labelled if dot.label.narrow],
    ]


@given(pictures())
@settings(deadline=None)
def test_no_two_names_touch_and_each_is_beside_its_dot_off_other_dots_the_line_and_the_frame(
    picture: Picture,
) -> None:
    nothing_touches(picture)
    nothing_crosses_the_line(picture)
    for shown in windows(picture):
        for dot, text in shown:
            away_x = max(text.left - dot.x, dot.x - text.right, 0)
            away_y = max(text.top - dot.y, dot.y - text.bottom, 0)
            # Letters of a wide window stand in the middle of the room for larger ones.
            assert max(away_x, away_y) <= 5 + 3 + 0.2 * NARROW_SIZE
            own = dot.name.partition("/")[2]
            assert dot.label.text in (own, f"{own[: LONGEST - 1]}…")
            assert len(dot.label.text) <= LONGEST


def nothing_touches(one: Picture) -> None:
    for shown in windows(one):
        for (_, first), (_, second) in combinations(shown, 2):
            assert not overlap(first, second)
        for _, text in shown:
            assert one.left <= text.left
            assert text.right <= one.right
            assert one.top <= text.top
            assert text.bottom <= one.bottom
            for dot in one.dots:
                r = dot.radius
                assert not overlap(text, Box(dot.x - r, dot.y - r, dot.x + r, dot.y + r)), dot.name


def nothing_crosses_the_line(one: Picture) -> None:
    corners = [tuple(map(float, point.split(","))) for point in one.front.split()]
    lines = [Box(*min(ends), *max(ends)) for ends in pairwise(corners)]
    lines = [Box(a, min(b, d), c, max(b, d)) for a, b, c, d in lines]
    for shown in windows(one):
        for dot, text in shown:
            assert not any(crosses(line, text) for line in lines), dot.name
            if not dot.on_front:
                x, y = (text.left + text.right) / 2, (text.top + text.bottom) / 2
                way = Box(min(x, dot.x), min(y, dot.y), max(x, dot.x), max(y, dot.y))
                assert not any(crosses(line, way) for line in lines), dot.name


def crosses(line: Box, box: Box) -> bool:
    """A line has no width."""
    across = box.left < line.right and line.left < box.right
    return across and box.top < line.bottom and line.top < box.bottom


def test_a_model_alone_has_its_name_and_a_long_one_is_cut() -> None:
    (dot,) = drawn((7e9, 0.5), names=["lab/" + "W" * 90]).dots
    assert dot.label.text == "W" * (LONGEST - 1) + "…"
    assert dot.name == "lab/" + "W" * 90


def test_names_keep_off_the_dots_that_lead_nowhere_as_well() -> None:
    """Of many models most are no link; they are as much in the way."""
    models = drawing.ALONE + 1
    many = sorted((10 ** (8 + 4 * (n * 0.618 % 1)), 0.3 + 0.4 * n / models) for n in range(models))
    one = drawn(*many, front=None)
    assert one.crowd
    for shown in windows(one):
        assert shown
        for _, text in shown:
            for x, y in places(one):
                assert not overlap(text, Box(x - 3, y - 3, x + 3, y + 3))
