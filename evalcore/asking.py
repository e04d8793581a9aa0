"""The model asked for the answers to prepared requests: equal ones once, known ones never."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evalcore.energy import Meter, Part
from evalcore.errors import InfraError, ModelError, Stopped, TaskError
from evalcore.journal import Journal
from evalcore.model.base import LM, EncodedRequest, Response
from evalcore.preparation import Prepared
from evalcore.watch import Watch


@dataclass(frozen=True, kw_only=True)
class Account:
    """How the answers came about."""

    responses: Sequence[Response]
    journalled: int
    """How many of them an earlier process had given."""
    started: str
    prompts: float
    """Seconds for its documents and prompts; the next three: for their tokens, its share of the
    answers to all that were asked together, and its scores."""
    tokens: float
    answers: float
    scores: float
    energy: list[dict[str, Any]]
    """What the answers took, as the record has it."""
    command: Mapping[str, float]
    """Seconds that whoever started the evaluation measured."""

    @property
    def timing(self) -> dict[str, float]:
        own = {name: getattr(self, name) for name in ("prompts", "tokens", "answers", "scores")}
        return {name: round(seconds, 3) for name, seconds in {**own, **self.command}.items()}

    @property
    def seconds(self) -> float:
        return round(self.prompts + self.tokens + self.answers + self.scores, 3)


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
    parts: Sequence[Progress], keys: Collection[str]
) -> Mapping[str, list[tuple[int, Progress]]]:
    """By key the parts that ask it, with their places: a pack is about few of many parts."""
    asking: dict[str, list[tuple[int, Progress]]] = {key: [] for key in keys}
    for place, progress in enumerate(parts):
        for key in progress.asked:
            if key in asking:
                asking[key].append((place, progress))
    return asking


@dataclass
class Answers:
    """What was answered so far to the requests of a benchmark."""

    model: LM
    watch: Watch
    journal: Journal | None
    meter: Meter
    known: dict[str, Response] = field(default_factory=dict)
    journalled: dict[str, int] = field(default_factory=dict)
    """By task or group: how many of its requests an earlier process had answered."""
    seconds: dict[str, float] = field(default_factory=dict)
    """By task or group: its share of the time, by its tokens."""
    joules: dict[str, dict[Part, float]] = field(default_factory=dict)
    """By task or group: its share of the energy, by its tokens, too."""

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
        asked = [self._progress_of(part) for part in parts]
        waiting = {
            one.key: one for part in parts for one in part.encoded if one.key not in self.known
        }
        for progress in asked:
            self.watch.progress(progress.task, progress.done, progress.total, 0)
        try:
            self._ask(list(waiting.values()), asked)
        finally:
            used = {part: now - energy[part] for part, now in self.meter.read().items()}
            self._share(time.monotonic() - clock, used, asked)

    def _progress_of(self, part: Prepared) -> Progress:
        asked = Counter(one.key for one in part.encoded)
        if self.journal:
            self.known.update((key, self.journal[key]) for key in asked if key in self.journal)
        name = part.spec.name
        done = sum(times for key, times in asked.items() if key in self.known)
        self.journalled.setdefault(name, done)
        return Progress(name, len(part.encoded), asked, done)

    def _ask(self, waiting: Sequence[EncodedRequest], parts: Sequence[Progress]) -> None:
        asking = _asking(parts, {one.key for one in waiting})
        for pack in self.model.answer(waiting) if waiting else ():
            responses = [response for _, response in pack]
            self.meter.read()
            if self.journal:
                self.journal.append(responses)
            self.known.update({response.key: response for response in responses})
            further: dict[int, Progress] = {}
            for response in responses:
                for place, progress in asking.get(response.key, ()):
                    progress.done += progress.asked[response.key]
                    progress.tokens += response.n_context_tokens + len(response.token_ids)
                    further[place] = progress
            for _, progress in sorted(further.items()):
                self.watch.progress(progress.task, progress.done, progress.total, progress.tokens)
            if self.watch.wants_stop():
                raise Stopped

    def _share(
        self, seconds: float, joules: Mapping[Part, float], parts: Sequence[Progress]
    ) -> None:
        tokens = sum(progress.tokens for progress in parts)
        for progress in parts:
            share = progress.tokens / tokens if tokens else 1 / len(parts)
            self.seconds[progress.task] = self.seconds.get(progress.task, 0.0) + seconds * share
            own = self.joules.setdefault(progress.task, {})
            for part, used in joules.items():
                own[part] = own.get(part, 0.0) + used * share

    def _energy(self, task: str) -> list[dict[str, Any]]:
        """By part of the machine what answering took; nothing where some was used before."""
        if self.journalled[task]:
            return []
        followed = self.meter.read()
        return [
            {"source": part[0], "part": part[1], "joules": round(joules, 3)}
            for part, joules in self.joules[task].items()
            if part in followed
        ]

    def account(
        self,
        part: Prepared,
        responses: Sequence[Response],
        *,
        scores: float,
        command: Mapping[str, float],
    ) -> Account:
        """How the responses to a part came about, with the seconds that its `scores` took."""
        name = part.spec.name
        return Account(
            responses=responses,
            journalled=self.journalled[name],
            started=part.started.isoformat(timespec="seconds"),
            prompts=part.prompt_seconds,
            tokens=part.token_seconds,
            answers=self.seconds[name],
            scores=scores,
            energy=self._energy(name),
            command=command,
        )

    def responses_to(self, part: Prepared) -> list[Response]:
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
