"""The model asked for the answers to prepared requests: equal ones once, known ones never."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from evalcore.energy import Meter, Part
from evalcore.errors import InfraError, Stopped
from evalcore.journal import Journal
from evalcore.model.base import LM, EncodedRequest, Response
from evalcore.preparation import Prepared


class Watch(Protocol):
    """Who looks on: a progress bar, or a worker that reads lines."""

    def phase(self, name: str) -> None: ...

    def progress(self, task: str, done: int, total: int, tokens: int) -> None:
        """So many of the requests are answered; answering them took so many tokens till now."""
        ...

    def wants_stop(self) -> bool:
        """Asked after each pack, and while the next benchmark is waited for; what was answered
        until then is in the journal."""
        ...


@dataclass
class Progress:
    """How far one of several parts that are asked together is."""

    task: str
    total: int
    asked: Counter[str]
    """How often each key is asked."""
    done: int
    tokens: int = 0
    """Read and written for answers to this part, or to an earlier one that asks the same."""


def _asking(
    stands: Sequence[Progress], keys: Collection[str]
) -> Mapping[str, list[tuple[int, Progress]]]:
    """By key the parts that ask it, with their places: a pack is about few of many parts."""
    asking: dict[str, list[tuple[int, Progress]]] = {key: [] for key in keys}
    for place, stand in enumerate(stands):
        for key in stand.asked:
            if key in asking:
                asking[key].append((place, stand))
    return asking


@dataclass
class Answers:
    """What was answered so far to the requests of a benchmark."""

    journal: Journal | None
    known: dict[str, Response] = field(default_factory=dict)
    journalled: dict[str, int] = field(default_factory=dict)
    """By task or group: how many of its requests an earlier process had answered."""
    seconds: dict[str, float] = field(default_factory=dict)
    """By task or group: its share of the time, by its tokens."""
    meter: Meter = field(default_factory=Meter)
    joules: dict[str, dict[Part, float]] = field(default_factory=dict)
    """By task or group: its share of the energy, by its tokens, too."""

    def ask(self, model: LM, parts: Sequence[Prepared], watch: Watch) -> None:
        """Asks what is not known yet. Raises Stopped after a pack when the watch wants it."""
        clock, energy = time.monotonic(), self.meter.read()
        stands = [self._stand(part) for part in parts]
        waiting = {
            one.key: one for part in parts for one in part.encoded if one.key not in self.known
        }
        for stand in stands:
            watch.progress(stand.task, stand.done, stand.total, 0)
        try:
            self._ask(model, list(waiting.values()), stands, watch)
        finally:
            used = {part: now - energy[part] for part, now in self.meter.read().items()}
            self._share(time.monotonic() - clock, used, stands)

    def _stand(self, part: Prepared) -> Progress:
        asked = Counter(one.key for one in part.encoded)
        if self.journal:
            self.known.update((key, self.journal[key]) for key in asked if key in self.journal)
        name = part.spec.name
        done = sum(times for key, times in asked.items() if key in self.known)
        self.journalled.setdefault(name, done)
        return Progress(name, len(part.encoded), asked, done)

    def _ask(
        self,
        model: LM,
        waiting: Sequence[EncodedRequest],
        stands: Sequence[Progress],
        watch: Watch,
    ) -> None:
        asking = _asking(stands, {one.key for one in waiting})
        for pack in model.answer(waiting) if waiting else ():
            responses = [response for _, response in pack]
            self.meter.read()
            if self.journal:
                self.journal.append(responses)
            self.known.update({response.key: response for response in responses})
            further: dict[int, Progress] = {}
            for response in responses:
                for place, stand in asking.get(response.key, ()):
                    stand.done += stand.asked[response.key]
                    stand.tokens += response.n_context_tokens + len(response.token_ids)
                    further[place] = stand
            for _, stand in sorted(further.items()):
                watch.progress(stand.task, stand.done, stand.total, stand.tokens)
            if watch.wants_stop():
                raise Stopped

    def _share(
        self, seconds: float, joules: Mapping[Part, float], stands: Sequence[Progress]
    ) -> None:
        tokens = sum(stand.tokens for stand in stands)
        for stand in stands:
            share = stand.tokens / tokens if tokens else 1 / len(stands)
            self.seconds[stand.task] = self.seconds.get(stand.task, 0.0) + seconds * share
            own = self.joules.setdefault(stand.task, {})
            for part, used in joules.items():
                own[part] = own.get(part, 0.0) + used * share

    def energy(self, task: str) -> list[dict[str, Any]]:
        """By part of the machine what answering took; nothing where some was used before."""
        if self.journalled[task]:
            return []
        followed = self.meter.read()
        return [
            {"source": part[0], "part": part[1], "joules": round(joules, 3)}
            for part, joules in self.joules[task].items()
            if part in followed
        ]

    def to(self, part: Prepared) -> list[Response]:
        """The responses to all requests of a part, in order. Raises InfraError if one lacks."""
        encoded = part.encoded
        if missing := sum(one.key not in self.known for one in encoded):
            name = part.spec.name
            raise InfraError(f"{name}: {missing} of {len(encoded)} requests were not answered")
        # Equal requests may have lost different beginnings: that much is each one's own.
        return [
            replace(
                self.known[one.key],
                n_context_tokens=one.n_context_tokens,
                n_truncated=one.n_truncated,
            )
            for one in encoded
        ]
