"""The models: who made them, from what, and how well they would answer.

A fifth are what providers train, in families of several sizes; the others are what people make of
them by tuning and merging. Ability grows with the logarithm of the size. A model answers much like
the family that it comes from.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import count, islice
from math import log10

import numpy as np
from numpy.typing import NDArray

from demo.generated.words import Words
from evalcore.digest import digest_of
from leaderboard.models.variant import Dtype, HubModel, Kind

SIZES = (
    *(0.13, 0.36, 0.5, 0.77, 1.1, 1.6, 2.6, 3.2, 4, 6.9, 8, 9.2),
    *(13, 14.7, 24, 32, 47, 72, 104, 236, 400),
)
"""Of models that providers train, in thousand millions of parameters."""
MIXTURES = (47, 104, 236, 400)
ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "mistral": "MistralForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "falcon": "FalconForCausalLM",
    "olmo2": "Olmo2ForCausalLM",
    "gpt_neox": "GPTNeoXForCausalLM",
    "mamba": "MambaForCausalLM",
    "granite": "GraniteForCausalLM",
}
MIXTURE = ("mixtral", "MixtralForCausalLM")
LICENCES = ("apache-2.0", "mit", "llama3.1", "gemma", "cc-by-nc-4.0", "other", "")
DAYS = 540
"""Over how many days the models came in."""
FLAGS = (
    "Invented case: 41 of 50 sampled test questions complete verbatim from their first half.",
    "Invented case: the weights are those of another model under a new name.",
    "Invented case: its author asked for its numbers to be left out of the ranking.",
)


@dataclass(frozen=True, kw_only=True)
class Made:
    """One variant: what the site stores of it, and what decides its answers."""

    repo_id: str
    commit: str
    dtype: str
    model_type: str
    architecture: str
    parameters: int
    licence: str
    kind: str
    base_model: str
    merged: bool
    moe: bool
    official: bool
    weights_digest: str
    added: datetime
    flag_reason: str = ""
    hub_state: str = HubModel.HubState.PRESENT
    renamed_to: str = ""

    family: int
    likeness: float
    """Share of the questions on which it is as lucky as its family."""
    ability: float
    """0 for a model of 3 thousand million parameters; 1 is a large step."""
    letters: float
    """How much of its ability it shows where it must name a letter."""
    cloze: float
    """What it gains where it continues the question."""
    twin: bool = False
    """Whether it has the weights of the one before it."""


@dataclass(frozen=True)
class Population:
    """All variants, and what decides their answers as arrays of shape (models,)."""

    models: Sequence[Made]

    @cached_property
    def family(self) -> NDArray[np.int64]:
        return np.array([made.family for made in self.models])

    @cached_property
    def families(self) -> int:
        return int(self.family.max()) + 1

    def of(self, trait: str) -> NDArray[np.float32]:
        return np.array([getattr(made, trait) for made in self.models], dtype=np.float32)

    @cached_property
    def twins(self) -> NDArray[np.int64]:
        """Rows that answer exactly as the row before."""
        return np.flatnonzero([made.twin for made in self.models])

    def __len__(self) -> int:
        return len(self.models)


def populate(size: int, *, seed: int, until: datetime) -> Population:
    """So many variants, the last of which came in at `until`."""
    return Population(_Maker(size, seed, until).models())


@dataclass(frozen=True, kw_only=True)
class _Family:
    """What the models of one generation of a provider share."""

    number: int
    name: str
    model_type: str
    licence: str
    recency: float
    """From 0 for the oldest to 1 for the newest."""
    good: float
    """By how much its models are better than others of their size and time."""


@dataclass
class _Maker:
    size: int
    seed: int
    until: datetime
    _taken: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._draw = random.Random(f"population/{self.seed}")
        self._words = Words(self.seed)

    def models(self) -> list[Made]:
        trained = list(islice(self._trained(), self.size // 5))
        people = [self._words.person() for _ in range(max(2, self.size // 9))]
        models = list(trained)
        while len(models) < self.size:
            author = people[int(len(people) * self._draw.random() ** 2)]
            models += self._derived(author, trained)
        return models[: self.size]

    def _trained(self) -> Iterator[Made]:
        """Families of providers, without an end: a base and a chat model of each size."""
        providers = [self._words.provider() for _ in range(max(3, self.size // 250))]
        for number in count():
            family = _Family(
                number=number,
                name=f"{providers[number % len(providers)]}/{self._words.family()}",
                model_type=self._draw.choice(list(ARCHITECTURES)),
                licence=self._draw.choice(LICENCES),
                recency=self._draw.random(),
                good=self._draw.gauss(0, 0.2),
            )
            first = self._draw.randrange(len(SIZES) - 3)
            for size in SIZES[first : first + self._draw.randrange(2, 6)]:
                base = self._base(family, size)
                yield self._with_letters(base)
                yield self._with_letters(self._chat_of(base))

    def _base(self, family: _Family, size: float) -> Made:
        moe = size in MIXTURES and self._draw.random() < 0.6
        label = f"{size:g}B" if size >= 1 else f"{size * 1000:.0f}M"
        repo_id = self._new(f"{family.name}-{'MoE-' if moe else ''}{label}")
        usual = (family.model_type, ARCHITECTURES[family.model_type])
        model_type, architecture = MIXTURE if moe else usual
        return Made(
            repo_id=repo_id,
            commit=digest_of([repo_id, "commit"])[:40],
            dtype=self._draw.choices(list(Dtype.values), (1, 16, 3))[0],
            model_type=model_type,
            architecture=architecture,
            parameters=round(size * 1e9 * self._draw.uniform(0.97, 1.03)),
            licence=family.licence,
            kind=Kind.PRETRAINED,
            base_model="",
            merged=False,
            moe=moe,
            official=True,
            weights_digest=digest_of([repo_id, "weights"]),
            added=self._came(family.recency),
            family=family.number,
            likeness=0.75,
            ability=0.95 * log10(size / 3) + family.good + 0.5 * family.recency,
            letters=0.0,
            cloze=0.0,
        )

    def _chat_of(self, base: Made) -> Made:
        repo_id = self._new(f"{base.repo_id}-{self._draw.choice(('Instruct', 'Chat', 'it'))}")
        gain = self._draw.gauss(0.1, 0.12)
        return self._made_of(base, repo_id, kind=Kind.CHAT, gain=gain, official=True)

    def _derived(self, author: str, trained: Sequence[Made]) -> Iterator[Made]:
        """What a person uploads: one model, now and then in two revisions, precisions or names."""
        (base,) = self._draw.choices(trained, [made.parameters**-0.5 for made in trained])
        merged = self._draw.random() < 0.35
        name = base.repo_id.partition("/")[2]
        tail = "merge" if merged else self._draw.choice(("SFT", "DPO", "ft", "tuned"))
        made = self._made_of(
            base,
            self._new(f"{author}/{name}-{self._words.addition()}-{tail}"),
            kind=Kind.MERGE if merged else self._draw.choice((Kind.FINE_TUNED, Kind.CHAT, "")),
            gain=self._draw.gauss(0.05 if merged else 0.0, 0.18),
            merged=merged,
        )
        made = self._with_letters(self._with_fate(made))
        yield made
        chance = self._draw.random()
        if chance < 0.012:
            again = digest_of([made.repo_id, "second commit"])
            later = made.added + (self.until - made.added) * self._draw.random()
            ability = made.ability + self._draw.gauss(0.05, 0.08)
            yield replace(
                made, commit=again[:40], weights_digest=again, ability=ability, added=later
            )
        elif chance < 0.02:
            other = Dtype.FLOAT16 if made.dtype == Dtype.BFLOAT16 else Dtype.BFLOAT16
            yield replace(made, dtype=other, likeness=0.98)
        elif chance < 0.024:
            copied = self._new(f"{self._words.person()}/{made.repo_id.partition('/')[2]}-v2")
            commit = digest_of([copied, "commit"])[:40]
            yield replace(made, repo_id=copied, commit=commit, twin=True)

    def _made_of(
        self,
        base: Made,
        repo_id: str,
        *,
        kind: str,
        gain: float,
        merged: bool = False,
        official: bool = False,
    ) -> Made:
        return replace(
            base,
            repo_id=repo_id,
            commit=digest_of([repo_id, "commit"])[:40],
            licence=base.licence if self._draw.random() < 0.8 else "",
            kind=kind,
            base_model=base.repo_id,
            merged=merged,
            official=official,
            weights_digest=digest_of([repo_id, "weights"]),
            added=base.added + (self.until - base.added) * self._draw.random(),
            likeness=self._draw.uniform(0.35, 0.7),
            ability=base.ability + gain,
        )

    def _with_letters(self, made: Made) -> Made:
        """Larger and tuned models have learnt to answer with a letter; some never do."""
        chat = 0.8 if made.kind == Kind.CHAT else 0.0
        learnt = 2.5 * (made.ability + 0.1) + chat + self._draw.gauss(0, 1.2)
        return replace(
            made, letters=1 / (1 + 2.718 ** (-learnt)), cloze=self._draw.gauss(-0.25, 0.15)
        )

    def _with_fate(self, made: Made) -> Made:
        """One in twenty-five is flagged, or no longer where it was."""
        drawn, state = self._draw.random(), HubModel.HubState
        if drawn < 0.006:
            return replace(made, flag_reason=self._draw.choice(FLAGS))
        if drawn < 0.026:
            return replace(made, hub_state=state.GONE)
        if drawn < 0.034:
            return replace(made, hub_state=state.PRIVATE)
        if drawn < 0.042:
            return replace(made, hub_state=state.RENAMED, renamed_to=f"{made.repo_id}-renamed")
        return made

    def _came(self, recency: float) -> datetime:
        days = DAYS * (1 - 0.95 * recency * self._draw.uniform(0.9, 1))
        return self.until - timedelta(days=days, seconds=self._draw.randrange(86_400))

    def _new(self, repo_id: str) -> str:
        """The ID, with a number where it is taken."""
        name, number = repo_id, 2
        while name in self._taken:
            name, number = f"{repo_id}-{number}", number + 1
        self._taken.add(name)
        return name
