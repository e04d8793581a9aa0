"""What the page of sisters shows: a pair, its models in an order, where their marks stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from django.conf import settings
from django.db.models import Max, Min, QuerySet
from django.http import HttpRequest

from leaderboard.catalogue import suite_asked_for
from leaderboard.models import SisterAnalysis, SisterGap, Suite, Variant
from leaderboard.tasks import sisters
from leaderboard.templatetags.figures import precise_interval
from leaderboard.web import Address, Scale

BETTER, WORSE, NAME = "better", "worse", "name"
ORDERS = {
    BETTER: ("Most above first", ("-gap", "variant")),
    WORSE: ("Most below first", ("gap", "variant")),
    NAME: ("By name", ("variant__hub_model__repo_id", "variant")),
}
NARROWEST = 0.02
"""Each side of the drawing shows this much at least, a share of 1."""
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
MOST_TICKS = 3


@dataclass(frozen=True)
class View:
    suite: Suite | None
    pairs: list[sisters.Pair]
    """Of the suite."""
    pair: sisters.Pair | None
    analysis: SisterAnalysis | None
    order: str

    @cached_property
    def gaps(self) -> QuerySet[SisterGap]:
        if self.analysis is None:
            return SisterGap.objects.none()
        return self.analysis.gaps.select_related("variant__hub_model").order_by(
            *ORDERS[self.order][1]
        )

    @cached_property
    def count(self) -> int:
        return self.gaps.count()

    @cached_property
    def above(self) -> list[SisterGap]:
        """The models that stand out with a score above what was expected, the farthest first."""
        return list(self.gaps.filter(stands_out=True, gap__gt=0).order_by("-gap", "variant"))

    @cached_property
    def below(self) -> list[SisterGap]:
        return list(self.gaps.filter(stands_out=True, gap__lt=0).order_by("gap", "variant"))

    @cached_property
    def reach(self) -> float:
        """How far the drawing goes to each side of zero."""
        ends = self.gaps.order_by().aggregate(low=Min("low"), high=Max("high"))
        return max(NARROWEST, -(ends["low"] or 0.0), ends["high"] or 0.0)

    @cached_property
    def middle(self) -> float:
        """Of the sister's scores: whether a model is at the upper end or at the lower."""
        ends = self.gaps.order_by().aggregate(low=Min("sister"), high=Max("sister"))
        return ((ends["low"] or 0.0) + (ends["high"] or 0.0)) / 2


@dataclass(frozen=True)
class Line:
    """A model, in percent of the drawing's width."""

    found: SisterGap
    variant: Variant
    url: str
    low: str
    x: str
    high: str

    @property
    def state(self) -> str:
        """As the comparison's drawings call it: a full mark for what stands out."""
        return "ahead" if self.found.stands_out else "open"

    @property
    def says(self) -> str:
        if not self.found.stands_out:
            return "within the scatter"
        return "above what was expected" if self.found.gap > 0 else "below what was expected"

    @property
    def exactly(self) -> str:
        """For those who hover."""
        found = self.found
        return (
            f"{precise_interval(found.gap, found.low, found.high)}; "
            f"p {found.p_value:.3g}, adjusted for all models"
        )


def address_of(request: HttpRequest) -> Address:
    usual = {"suite": settings.PLUMBLINE_SUITE, "pair": "", "order": BETTER, "page": "1"}
    return Address(request, usual)


def view(address: Address) -> View:
    """Raises Http404 for a suite that is not there."""
    suite = suite_asked_for(address["suite"])
    pairs = sisters.pairs_of([suite]) if suite else []
    asked = address.choice("pair", [pair.name for pair in pairs])
    pair = next((pair for pair in pairs if pair.name == asked), pairs[0] if pairs else None)
    keys = pair.keys if pair else None
    analysis = sisters.newest([pair]).get(keys) if pair and keys else None
    return View(suite, pairs, pair, analysis, address.choice("order", ORDERS))


def lines(seen: View, found: Sequence[SisterGap]) -> list[Line]:
    scale = Scale.plain(-seen.reach, seen.reach, start=2.0, end=98.0)
    return [
        Line(
            gap,
            gap.variant,
            model_url(gap.variant),
            *(f"{scale.x(end):.2f}%" for end in (gap.low, gap.gap, gap.high)),
        )
        for gap in found
    ]


def ticks(seen: View) -> list[tuple[str, float]]:
    """Place and value of a few round differences on both sides of zero."""
    fitting = (step for step in STEPS if seen.reach / step < MOST_TICKS + 1)
    step = next(fitting, STEPS[-1])
    scale = Scale.plain(-seen.reach, seen.reach, start=2.0, end=98.0)
    places = range(1, min(int(seen.reach / step), MOST_TICKS) + 1)
    values = sorted(sign * step * place for place in places for sign in (-1, 1))
    return [(f"{scale.x(value):.2f}", value) for value in values]


def model_url(variant: Variant) -> str:
    return f"{variant.hub_model.get_absolute_url()}?variant={variant.pk}"
