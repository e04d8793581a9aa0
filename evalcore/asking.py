"""The model asked for the answers to prepared requests: equal ones once, known ones never.

Tasks are asked in random waves, whoever looks on: which requests are computed together, and so the
rounding, is decided by the tasks and their documents alone.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evalcore.energy import Meter, Part
from evalcore.errors import InfraError, ModelError, Stopped, TaskError
from evalcore.journal import Journal
from evalcore.looks import Looks
from evalcore.model.base import LM, EncodedRequest, Response
from evalcore.preparation import Prepared
from evalcore.watch import Watch


@dataclass
class Progress:
    """How far the answers to one part of a benchmark are, and what they took."""

    part: Prepared
    asked: Counter[str]
    """How often each key is asked."""
    journalled: int
    """How many of its requests an earlier process had answered."""
    done: int
    tokens: int = 0
    """Read and written for answers to this part, or to an earlier one that asks the same."""
    seconds: float = 0.0
    """Its share of the time in which all that were asked together were answered, by its tokens."""
    joules: dict[Part, float] = field(default_factory=dict)
    """Its share of the energy, by its tokens, too."""
    looks: Looks = field(init=False)
    """What there is to see of its score meanwhile."""

    def __post_init__(self) -> None:
        self.looks = Looks(self.part)

    def tell(self, watch: Watch) -> None:
        watch.progress(self.part.spec.name, self.done, len(self.part.encoded), self.tokens)


@dataclass
class Answers:
    """What was answered so far to the requests of a benchmark."""

    model: LM
    watch: Watch
    journal: Journal | None
    meter: Meter
    known: dict[str, Response] = field(default_factory=dict)
    _progress: dict[int, Progress] = field(default_factory=dict)
    """By the identity of the part."""

    def ask_together(self, parts: Sequence[Prepared]) -> bool:
        """Whether several could be asked at once; if not, one is at fault: ask them in turn."""
        if len(parts) < 2:
            return False
        try:
            self.ask(parts)
        except (TaskError, ModelError):
            return False
        return True

    def ask(self, parts: Sequence[Prepared]) -> None:
        """Asks what is not known yet. Raises Stopped after a pack when the watch wants it."""
        self.watch.phase("evaluate")
        clock, energy = time.monotonic(), self.meter.read()
        asked = [self._begun(part) for part in parts]
        # What shares a pass with what decides the rounding of 16 bits: that must not depend on the
        # order in which somebody named the tasks.
        in_order = sorted(parts, key=lambda part: part.spec.name)
        waiting: dict[str, EncodedRequest] = {}
        for part in in_order:
            waves = self.progress_of(part).looks.of_requests
            for request, wave in zip(part.encoded, waves, strict=True):
                first = waiting.get(request.key)
                if request.key not in self.known and (first is None or wave < first.wave):
                    waiting[request.key] = replace(request, wave=wave) if wave else request
        for progress in asked:
            progress.tell(self.watch)
            self._look(progress, progress.asked.keys() & self.known.keys())
        try:
            # Some models answer in the order in which they are asked.
            self._ask(sorted(waiting.values(), key=lambda request: request.wave), asked)
        finally:
            used = {part: now - energy[part] for part, now in self.meter.read().items()}
            _share(time.monotonic() - clock, used, asked)

    def _begun(self, part: Prepared) -> Progress:
        asked = Counter(request.key for request in part.encoded)
        if self.journal:
            self.known.update((key, self.journal[key]) for key in asked if key in self.journal)
        done = sum(times for key, times in asked.items() if key in self.known)
        progress = self._progress.setdefault(id(part), Progress(part, asked, done, done))
        progress.done, progress.tokens = done, 0
        return progress

    def _ask(self, waiting: Sequence[EncodedRequest], parts: Sequence[Progress]) -> None:
        asking: dict[str, list[Progress]] = defaultdict(list)
        for progress in parts:
            for key in progress.asked:
                asking[key].append(progress)
        for pack in self.model.answer(waiting) if waiting else ():
            responses = [response for _, response in pack]
            self.meter.read()
            if self.journal:
                self.journal.append(responses)
            self.known.update({response.key: response for response in responses})
            for response in responses:
                for progress in asking[response.key]:
                    progress.done += progress.asked[response.key]
                    progress.tokens += response.n_context_tokens + len(response.token_ids)
            about = {id(progress) for response in responses for progress in asking[response.key]}
            keys = [response.key for response in responses]
            for progress in parts:
                if id(progress) in about:
                    progress.tell(self.watch)
                    self._look(progress, keys)
            if self.watch.wants_stop():
                raise Stopped

    def _look(self, progress: Progress, keys: Collection[str]) -> None:
        for look in progress.looks.after(keys, self.known):
            self.watch.look(look)

    def progress_of(self, part: Prepared) -> Progress:
        return self._progress[id(part)]

    def energy_of(self, part: Prepared) -> list[dict[str, Any]]:
        """By part of the machine what answering took; nothing where some was used before."""
        progress = self.progress_of(part)
        if progress.journalled:
            return []
        followed = self.meter.read()
        return [
            {"source": source, "part": name, "joules": round(joules, 3)}
            for (source, name), joules in progress.joules.items()
            if (source, name) in followed
        ]

    def responses_to(self, part: Prepared) -> list[Response]:
        """The responses to all requests of a part, in order. Raises InfraError if one lacks."""
        encoded = part.encoded
        if missing := sum(request.key not in self.known for request in encoded):
            name = part.spec.name
            raise InfraError(f"{name}: {missing} of {len(encoded)} requests were not answered")
        # Equal requests may have lost different beginnings: that much is each one's own.
        return [
            replace(
                self.known[request.key],
                n_context_tokens=request.n_context_tokens,
                n_truncated=request.n_truncated,
            )
            for request in encoded
        ]


def _share(seconds: float, joules: Mapping[Part, float], parts: Sequence[Progress]) -> None:
    tokens = sum(progress.tokens for progress in parts)
    for progress in parts:
        share = progress.tokens / tokens if tokens else 1 / len(parts)
        progress.seconds += seconds * share
        for part, used in joules.items():
            progress.joules[part] = progress.joules.get(part, 0.0) + used * share
