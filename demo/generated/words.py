"""Invented names of providers, models and benchmarks: sounds, never anybody's."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator


def _list(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_OPENINGS = _list(
    "al an ar bel bri cal cor dor el fen gal hol il jas kel lar mar nor or pel quen ros sel tal "
    "um val wes yar zan ber dun fal gren har lin mor nev osk"
)
_MIDDLES = _list("a e i o u ai ea io an en or el am im on")
_ENDINGS = _list("dra lin mar nis rel ta ven wick zor bel dan fir gon hart la mond ner phy rus sa")
_HOUSES = ("labs", "ai", "research", "intelligence", "systems", "institute", "works", "team")
_PEOPLE = _list(
    "ada bo cy dee eli fay gus hal ivy jo kit lou mae ned ola pat quin ray sue tom una vic wyn"
)
_CRAFTS = _list(
    "tunes merges weights models writes codes thinks lab dev bytes tensors nets llm craft"
)
_ADDITIONS = _list(
    "Sage Scholar Coder Math Story Guard Logic Vision Lite Plus Prime Nova Echo Drift Ember Frost "
    "Harbor Lumen Meadow Onyx Pine Quartz Raven Slate Terra Umber Violet Willow Zephyr Cobalt"
)
_SUBJECTS = _list(
    "anatomy astronomy botany chemistry civics commerce crafts dynamics ecology economics ethics "
    "farming geography geology geometry grammar history hydrology law linguistics logic masonry "
    "mechanics medicine metallurgy meteorology music navigation numismatics nutrition optics "
    "painting philology physics physiology poetics politics psychology rhetoric shipbuilding "
    "sociology statistics surveying theatre thermodynamics topology trade typography virology "
    "weaving zoology"
)
_FIELDS = _list(
    "Reading Sums Science Commonsense History Riddles Maps Tools Causes Stories Law Medicine "
    "Physics Letters Words Grammar Logic Safety Time Weather"
)
_FORMS = ("Bench", "QA", "Test", "Choice", "Quest", "Set", "Pairs", "Exam", "Trials", "Check")


class Words:
    """Names drawn by one seed; none comes twice."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(f"words/{seed}")
        self._given: set[str] = set()

    def provider(self) -> str:
        """A house that trains models of its own."""
        return self._new(lambda: f"{self.root()}-{self._draw.choice(_HOUSES)}".lower())

    def person(self) -> str:
        """An account that tunes or merges other people's models."""
        return self._new(
            lambda: (
                self._draw.choice(_PEOPLE)
                + self._draw.choice(("", "-", "_"))
                + self._draw.choice(_CRAFTS)
                + self._draw.choice(("", "", str(self._draw.randrange(1, 100))))
            )
        )

    def family(self) -> str:
        """The name that the models of one generation share."""
        return self._new(lambda: f"{self.root().title()}-{self._draw.choice((1, 2, 3, '1.5', 4))}")

    def addition(self) -> str:
        """What somebody who tunes a model adds to its name; may come again."""
        return self._draw.choice(_ADDITIONS)

    def benchmark(self) -> str:
        """Such as `Velmar Maps Exam`."""
        return self._new(
            lambda: (
                f"{self.root().title()} {self._draw.choice(_FIELDS)} {self._draw.choice(_FORMS)}"
            )
        )

    def root(self) -> str:
        sounds = [self._draw.choice(_OPENINGS), self._draw.choice(_MIDDLES)]
        return "".join([*sounds, self._draw.choice(_ENDINGS)])

    def _new(self, make: Callable[[], str]) -> str:
        for _ in range(1000):
            name = make()
            if name not in self._given:
                self._given.add(name)
                return name
        raise ValueError("names: there are no more of this kind")


def subjects(count: int) -> Iterator[str]:
    """So many subjects, in alphabetical order; past the last each comes again as advanced."""
    names = [*_SUBJECTS, *(f"advanced_{subject}" for subject in _SUBJECTS)]
    yield from sorted(names[:count])
