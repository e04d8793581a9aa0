"""Loglikelihoods by vLLM: each context once where what is kept of it may be read, else each prompt
by itself.

vLLM keeps whole blocks of what it read, and a prompt that begins alike need not be read again up to
there; but it says nothing of the positions that it did not read again. So a context is asked first,
for the first token of all that follow it, and then its continuations, of which the other tokens lie
behind it; an answer that lacks one, or kept too much, is asked for again without anything kept. A
few real requests are tried in both ways before the first is believed.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from evalcore.model.base import Answers, EncodedRequest
from evalcore.model.forward.head import Scores, response_of
from evalcore.model.vllm.asking import (
    Missing,
    Said,
    after,
    in_portions,
    said_after,
    said_within,
)
from evalcore.model.vllm.engine import Asked, Engine

log = logging.getLogger(__name__)

Tokens = tuple[int, ...]
Way = Literal["shared", "plain"]
Found = dict[int, tuple[Scores, Way]]
"""Scores of requests by their place, and how each was computed."""

ROWS_PER_PACK = 256
"""Prompts that are answered before their answers are given away: what a crash can lose."""

NATS, SHARE_OF_IT = {True: 0.05, False: 1e-4}, {True: 1e-2, False: 1e-6}
"""By which two ways may differ, of a loglikelihood in half precision and in float32."""


@dataclass
class Family:
    """A context, and what follows it: the tokens fed behind it, with the requests of each."""

    context: Tokens
    rests: dict[Tokens, list[int]] = field(default_factory=lambda: defaultdict(list))


class VllmScorer:
    """Scores targets after what is fed."""

    def __init__(self, engine: Engine, *, is_half: bool) -> None:
        self._engine = engine
        self._is_half = is_half
        self._problem = "" if engine.keeps_prefixes else "vLLM was told to keep no prefixes"
        self._refused = ""
        self._longest_checked = 0
        self._largest = 0.0
        self._ways: dict[Way, int] = {}

    @property
    def execution(self) -> dict[str, Any]:
        """How the last requests were computed; empty before the first."""
        if not self._ways:
            return {}
        is_shared = self._ways.get("shared", 0) > 0
        checked = (
            f"at most {self._largest:.1g} nats from plain requests of up to "
            f"{self._longest_checked} tokens"
        )
        reason = checked if is_shared else self._problem or "no context is as long as a block"
        return {
            "path": "shared" if is_shared else "plain",
            "step": "each context once" if is_shared else "each prompt by itself",
            "reason": reason,
            "refused": self._refused,
        }

    def answers(self, requests: Sequence[EncodedRequest]) -> Answers:
        """Raises ModelError for a model whose output is no number."""
        asked = dict(enumerate(requests))
        families = _families(requests)
        self._ways = {}
        if not self._problem and (probes := self._probes(families, requests)):
            yield self._given(self._checked(probes, requests), asked)
        for pack in self._packs(families, requests, asked):
            yield self._given(pack, asked)

    def _given(self, found: Found, asked: dict[int, EncodedRequest]) -> list[tuple[int, Any]]:
        """Responses, whose requests are asked no more."""
        pack = []
        for place, (scores, way) in found.items():
            # The log-softmax is taken in float32, whatever the model's precision.
            pack.append((place, response_of(asked.pop(place), scores, torch.float32, way)))
            self._ways[way] = self._ways.get(way, 0) + 1
        return pack

    def _packs(
        self,
        families: Sequence[Family],
        requests: Sequence[EncodedRequest],
        open_: Mapping[int, EncodedRequest],
    ) -> Iterator[Found]:
        """In the order of a trie, so that what is kept is what comes next."""
        pack: list[Family] = []
        n_tokens = 0
        for family in families:
            left = Family(family.context)
            for rest, places in family.rests.items():
                if still := [place for place in places if place in open_]:
                    left.rests[rest] = still
            if not left.rests:
                continue
            size = len(left.context) + sum(map(len, left.rests))
            rows = sum(len(one.rests) for one in pack)
            if pack and (rows >= ROWS_PER_PACK or n_tokens + size > self._engine.capacity // 2):
                yield self._scores(pack, requests)
                pack, n_tokens = [], 0
            pack.append(left)
            n_tokens += size
        if pack:
            yield self._scores(pack, requests)

    def _scores(self, families: Sequence[Family], requests: Sequence[EncodedRequest]) -> Found:
        plain = [family for family in families if self._problem or not self._is_worth(family)]
        alone = {id(family) for family in plain}
        shared = [family for family in families if id(family) not in alone]
        found, again = self._shared(shared, requests)
        return found | self._plain([*plain, *again], requests)

    def _is_worth(self, family: Family) -> bool:
        """Whether a block of the context can be kept."""
        return len(family.context) >= self._engine.block_size

    def _shared(
        self, families: Sequence[Family], requests: Sequence[EncodedRequest]
    ) -> tuple[Found, list[Family]]:
        """Scores, and what must be asked again without anything kept."""
        firsts = self._after(
            [
                (family.context, {requests[place].targets[0] for place in _places(family)})
                for family in families
            ]
        )
        rows = [(family, rest) for family in families for rest in family.rests if rest]
        lasts: list[dict[int, Said]] = [{} for _ in rows]
        kept: list[list[Said] | None] = [None for _ in rows]
        for number, output, ids in self._asked_behind(rows, requests):
            family, rest = rows[number]
            lasts[number] |= said_after(output, ids)
            kept[number] = _behind(output, family.context, rest)
        found: Found = {}
        again: list[Family] = []
        behind = {(id(family), rest): number for number, (family, rest) in enumerate(rows)}
        for family, first in zip(families, firsts, strict=True):
            for rest, places in family.rests.items():
                inner: list[Said] = []
                last: dict[int, Said] = {}
                if rest:
                    number = behind[id(family), rest]
                    if (answered := kept[number]) is None:
                        again.append(Family(family.context, {rest: places}))
                        continue
                    inner, last = answered, lasts[number]
                for place in places:
                    targets = requests[place].targets
                    said = [first[targets[0]], *inner, *([last[targets[-1]]] if rest else [])]
                    found[place] = _scored(said), "shared"
        return found, again

    def _asked_behind(
        self, rows: Sequence[tuple[Family, Tokens]], requests: Sequence[EncodedRequest]
    ) -> Iterator[tuple[int, Any, list[int]]]:
        """Each continuation after its context, with what is kept of that."""
        asked: list[Asked] = []
        portions: list[tuple[int, list[int]]] = []
        for number, (family, rest) in enumerate(rows):
            ids = {requests[place].targets[-1] for place in family.rests[rest]}
            for portion in in_portions(ids):
                params = after(portion, within=len(rest) > 1, reuse=True)
                asked.append((len(portions), family.context + rest, params))
                portions.append((number, portion))
        for place, output in self._engine.outputs(asked, within=True):
            number, portion = portions[place]
            yield number, output, portion

    def _after(self, wanted: Sequence[tuple[Tokens, set[int]]]) -> list[dict[int, Said]]:
        """Of the tokens wanted after each prompt."""
        found: list[dict[int, Said]] = [{} for _ in wanted]
        portions = [
            (number, portion)
            for number, (_, ids) in enumerate(wanted)
            for portion in in_portions(ids)
        ]
        asked = [
            (place, wanted[number][0], after(portion, within=False, reuse=True))
            for place, (number, portion) in enumerate(portions)
        ]
        for place, output in self._engine.outputs(asked):
            number, portion = portions[place]
            found[number] |= said_after(output, portion)
        return found

    def _plain(self, families: Sequence[Family], requests: Sequence[EncodedRequest]) -> Found:
        """Every distinct prompt by itself, with nothing kept."""
        rows: dict[Tokens, list[int]] = defaultdict(list)
        for family in families:
            for rest, places in family.rests.items():
                rows[family.context + rest] += places
        portions: list[tuple[Tokens, list[int], set[int]]] = []
        asked: list[Asked] = []
        for tokens, places in rows.items():
            within = any(len(requests[place].targets) > 1 for place in places)
            for portion in in_portions(requests[place].targets[-1] for place in places):
                asked.append((len(asked), tokens, after(portion, within=within, reuse=False)))
                portions.append((tokens, places, set(portion)))
        found: Found = {}
        for number, output in self._engine.outputs(asked, within=True):
            tokens, places, ids = portions[number]
            last = said_after(output, ids)
            for place in places:
                targets = requests[place].targets
                if targets[-1] not in ids:
                    continue
                start = len(tokens) + 1 - len(targets)
                inner = said_within(output, range(start, len(tokens)), tokens)
                found[place] = _scored([*inner, last[targets[-1]]]), "plain"
        return found

    def _probes(
        self, families: Sequence[Family], requests: Sequence[EncodedRequest]
    ) -> list[Family]:
        """What to try before what is kept is believed: the longest context and the one that begins
        most like it, the shortest, and one that ends with a block; none where an earlier trial
        holds."""
        worth = [family for family in families if self._is_worth(family)]
        longest = max(
            (len(requests[place].tokens) for family in worth for place in _places(family)),
            default=0,
        )
        if longest <= self._longest_checked:
            return []
        sizes = [len(family.context) for family in worth]
        first = sizes.index(max(sizes))
        on_border = [n for n, size in enumerate(sizes) if size % self._engine.block_size == 0]
        chosen = {first, max(first - 1, 0), sizes.index(min(sizes)), *on_border[-1:]}
        probes = []
        for number in sorted(chosen):
            family = worth[number]
            by_length = sorted(family.rests, key=len)
            # Each costs its whole context, alone: two of the longest, one of the others.
            few = dict.fromkeys([by_length[-1], by_length[0] if number == first else by_length[-1]])
            probes.append(Family(family.context, {rest: family.rests[rest] for rest in few}))
        return probes

    def _checked(self, probes: Sequence[Family], requests: Sequence[EncodedRequest]) -> Found:
        """The plain answers to what was tried; what is kept is not read where they differ."""
        # First with what is kept, so that nothing plain has left it.
        shared, _ = self._shared(probes, requests)
        plain = self._plain(probes, requests)
        for place, (scores, _) in shared.items():
            total, expected = sum(scores.logprobs), sum(plain[place][0].logprobs)
            bound = NATS[self._is_half] + SHARE_OF_IT[self._is_half] * abs(expected)
            self._largest = max(self._largest, abs(total - expected))
            if not abs(total - expected) <= bound and not self._problem:
                self._problem = (
                    f"with what is kept of a context of {requests[place].n_context_tokens} tokens "
                    f"it says {total:.6g}, and {expected:.6g} without"
                )
                self._refused = f"not each context once: {self._problem}"
                log.warning("what vLLM keeps of contexts is not read: %s", self._problem)
        self._longest_checked = max(len(requests[place].tokens) for place in plain)
        return plain


def _families(requests: Sequence[EncodedRequest]) -> list[Family]:
    families: dict[Tokens, Family] = {}
    waves: dict[Tokens, int] = {}
    for place, request in enumerate(requests):
        cut = len(request.tokens) + 1 - len(request.targets)
        context, rest = request.tokens[:cut], request.tokens[cut:]
        family = families.setdefault(context, Family(context))
        family.rests[rest].append(place)
        waves[context] = min(request.wave, waves.get(context, request.wave))
    return [families[context] for _, context in sorted((waves[one], one) for one in families)]


def _places(family: Family) -> list[int]:
    return [place for places in family.rests.values() for place in places]


def _behind(output: Any, context: Tokens, rest: Tokens) -> list[Said] | None:
    """Of the tokens that are fed behind the context's first target; None where the answer may not
    have computed them, as what was kept reaches beyond the context."""
    if len(rest) < 2:
        return []
    if (output.num_cached_tokens or 0) > len(context):
        return None
    positions = range(len(context) + 1, len(context) + len(rest))
    try:
        return said_within(output, positions, context + rest)
    except Missing:
        return None


def _scored(said: Sequence[Said]) -> Scores:
    return Scores(tuple(logprob for logprob, _ in said), all(greedy for _, greedy in said))
