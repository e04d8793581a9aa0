"""Questions that read like an exam's and mean nothing: made of invented facts, by a seed."""

from __future__ import annotations

import random
from typing import Any

_THINGS = (
    "ferrule", "sluice", "mortise", "heddle", "crucible", "sextant", "trammel", "bellows", "kiln",
    "lathe", "plumb bob", "theodolite", "gimbal", "ratchet", "spindle", "tenon", "windlass",
    "quern", "astrolabe", "caliper", "mandrel", "pantograph", "reamer", "treadle", "winnow",
)  # fmt: skip
_PEOPLE = (
    "surveyor", "miller", "navigator", "apothecary", "glazier", "engraver", "shipwright", "mason",
    "cartographer", "distiller", "weaver", "bookbinder", "lens grinder", "bell founder",
)  # fmt: skip
_PLACES = (
    "in the lower valley", "on the northern coast", "at the third lock", "beyond the salt flats",
    "under the old treaty", "during the second survey", "at high water", "after the harvest",
)  # fmt: skip
_QUALITIES = (
    "narrower than the bore", "heated twice", "kept under oil", "cut across the grain",
    "turned against the sun", "weighed in the dark", "set level with the sill", "left to cool",
    "marked on both faces", "drawn through once", "held by a single pin", "lined with lead",
)  # fmt: skip
_ASKED = (
    "According to the {person}, which of the following is true of a {thing} {place}?",
    "A {person} sets a {thing} beside a {other} {place}. Which of these must be done first?",
    "Why was the {thing} given up for the {other} {place}?",
    "Which rule does a {person} follow when a {thing} is {quality}?",
    "The {thing} of a {person} differs from a common {other} in that it is",
)


def question(name: str, choices: int) -> dict[str, Any]:
    """A question with so many choices, the same for the same name; `answer` is the right place."""
    draw = random.Random(name)
    thing, other = draw.sample(_THINGS, 2)
    asked = draw.choice(_ASKED).format(
        thing=thing,
        other=other,
        person=draw.choice(_PEOPLE),
        place=draw.choice(_PLACES),
        quality=draw.choice(_QUALITIES),
    )
    made = [
        f"It is {quality} and {draw.choice(_PLACES)} {draw.randrange(2, 90)} times"
        for quality in draw.sample(_QUALITIES, choices)
    ]
    return {"question": asked, "choices": made, "answer": draw.randrange(choices)}
