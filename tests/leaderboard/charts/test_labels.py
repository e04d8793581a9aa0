"""Names beside dots: none touches another, a dot, the line or the frame, and each is at its dot."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
import pytest
from django.conf import settings
from hypothesis import given
from hypothesis import settings as rules
from hypothesis import strategies as st
from PIL import ImageFont

from leaderboard.charts import drawing
from leaderboard.charts.drawing import Dot, Picture
from leaderboard.charts.labels import LONGEST, NARROW_SIZE, SIZE
from tests.leaderboard.charts.test_drawing import chart, places

FONT = settings.BASE_DIR / "static" / "fonts" / "inter-latin-opsz-normal.woff2"
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
def pictures(draw: st.DrawFn, most: int = 60) -> tuple[Picture, Picture]:
    """The same models drawn twice."""
    models = draw(st.lists(WHERE, min_size=1, max_size=most))
    names = draw(st.lists(NAMES, min_size=len(models), max_size=len(models)))
    models.sort(key=lambda model: (model[0], -model[1]))
    return picture(models, names), picture(models, names)


def picture(models: list[tuple[float, float]], names: list[str] | None = None) -> Picture:
    return drawing.picture(chart(*models, names=names, front=None), lambda name: f"/models/{name}")


def labelled(of: Picture) -> list[Dot]:
    return [dot for dot in of.dots if dot.label]


def box(dot: Dot, size: float) -> Box:
    """Where a browser writes the name, by the typeface's own widths, in letters of a size."""
    assert dot.label
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
    every = labelled(of)
    return [
        [(dot, box(dot, SIZE)) for dot in every],
        [(dot, box(dot, NARROW_SIZE)) for dot in every if dot.label and dot.label.narrow],
    ]


@given(pictures())
@rules(deadline=None)
def test_no_two_names_touch_none_leaves_the_frame_and_none_hides_a_dot(
    drawn: tuple[Picture, Picture],
) -> None:
    nothing_touches(drawn[0])


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


@given(pictures())
@rules(deadline=None)
def test_each_name_is_beside_its_own_dot(drawn: tuple[Picture, Picture]) -> None:
    for shown in windows(drawn[0]):
        for dot, text in shown:
            assert dot.label
            away_x = max(text.left - dot.x, dot.x - text.right, 0)
            away_y = max(text.top - dot.y, dot.y - text.bottom, 0)
            # Letters of a wide window stand in the middle of the room for larger ones.
            assert max(away_x, away_y) <= 5 + 3 + 0.2 * NARROW_SIZE
            own = dot.name.partition("/")[2]
            assert dot.label.text in (own, f"{own[: LONGEST - 1]}…")
            assert len(dot.label.text) <= LONGEST


@given(pictures())
@rules(deadline=None)
def test_the_same_models_have_the_same_names_beside_them(drawn: tuple[Picture, Picture]) -> None:
    first, second = drawn
    assert [dot.label for dot in first.dots] == [dot.label for dot in second.dots]


@given(pictures())
@rules(deadline=None)
def test_no_name_lies_on_the_line_or_beyond_it(drawn: tuple[Picture, Picture]) -> None:
    nothing_crosses_the_line(drawn[0])


@pytest.mark.parametrize("seed", range(8))
def test_the_same_holds_where_it_is_crowded(seed: int) -> None:
    lot = np.random.default_rng(seed)
    skill = lot.normal(0.5, 0.12, 150).clip(0, 1)
    models = sorted(zip((10 ** lot.uniform(8, 11, 150)).tolist(), skill.tolist(), strict=True))
    letters = lot.integers(3, 40, 150).tolist()
    crowded = picture(models, [f"lab/{'model-' * 7}"[: 4 + n] for n in letters])
    nothing_touches(crowded)
    nothing_crosses_the_line(crowded)
    wide, narrow = windows(crowded)
    assert len(wide) > len(narrow) > 5


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


def test_the_line_comes_first_and_then_the_highest() -> None:
    """At one place there is room for one name."""
    crowd = [(1e9, 0.5 + place / 1000) for place in range(30)]
    found = labelled(picture(sorted(crowd, key=lambda model: -model[1])))
    best = max(found, key=lambda dot: -dot.y)
    assert best.on_front
    others = [dot for dot in found if not dot.on_front]
    assert len(found) < 12, "thirty names would not fit beside them"
    assert max(dot.place for dot in others) == 29, "the lowest has room below it"


def test_a_model_alone_has_its_name_and_a_long_one_is_cut() -> None:
    (dot,) = picture([(7e9, 0.5)], ["lab/" + "W" * 90]).dots
    assert dot.label
    assert dot.label.text == "W" * (LONGEST - 1) + "…"
    assert dot.name == "lab/" + "W" * 90


@pytest.mark.parametrize("models", [drawing.ALONE, drawing.ALONE + 1])
def test_names_keep_off_the_dots_that_lead_nowhere_as_well(models: int) -> None:
    """Of many models most are no link; they are as much in the way."""
    many = sorted((10 ** (8 + 4 * (n * 0.618 % 1)), 0.3 + 0.4 * n / models) for n in range(models))
    one = picture(many)
    assert bool(one.crowd) == (models > drawing.ALONE)
    every = picture(many[: drawing.ALONE]).dots if not one.crowd else places(one)
    for shown in windows(one):
        assert shown
        for _, text in shown:
            for dot in every:
                x, y = (dot.x, dot.y) if isinstance(dot, Dot) else dot
                assert not overlap(text, Box(x - 3, y - 3, x + 3, y + 3))
