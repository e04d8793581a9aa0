"""What a run's score is so far: after each wave the share of right answers among its documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from evalcore.errors import TaskError
from evalcore.model.base import Response
from evalcore.preparation import Prepared, Spec
from evalcore.score.sample import is_number
from evalcore.score.scored import ScoredTask
from evalcore.score.scoring import score_task
from evalcore.task.asking.task import Item, Task
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.watch import LOOKS, Look, Stratum
from evalcore.waves import average_of, order_of, waves_of, waves_of_requests


class Looks:
    """Those at one task or group, as its waves are answered. None where there is one wave."""

    def __init__(self, part: Prepared) -> None:
        self._part = part
        self._waves = waves_of(part)
        self.of_requests = waves_of_requests(part, self._waves)
        """The wave of each of the part's encoded requests."""
        self._wave_of: dict[str, int] = {}
        for request, wave in zip(part.encoded, self.of_requests, strict=True):
            self._wave_of[request.key] = min(wave, self._wave_of.get(request.key, wave))
        self._left = Counter(self._wave_of.values())
        self._known: set[str] = set()
        self._next = 0 if max(self.of_requests, default=0) else LOOKS
        self._answered = [0] * len(part.tasks)
        self._right = [0.0] * len(part.tasks)

    def after(self, keys: Collection[str], known: Mapping[str, Response]) -> Iterator[Look]:
        """What there is to see now that these are among the `known` ones, too."""
        for key in keys:
            if key in self._wave_of and key not in self._known:
                self._known.add(key)
                self._left[self._wave_of[key]] -= 1
        while self._next < LOOKS and not self._left[self._next]:
            if not self._takes(self._next, known):
                self._next = LOOKS
                return
            self._next += 1
            yield Look(
                task=self._part.spec.name,
                metric=self._part.spec.primary_metric,
                strata=self._strata(),
            )

    def _takes(self, wave: int, known: Mapping[str, Response]) -> bool:
        """Whether its documents have scores; where not the end of the task says why."""
        metric, filter = self._part.spec.primary_metric, _filter_of(self._part.spec)
        try:
            for place, scored in enumerate(self._scored(wave, known)):
                scores = scored.items.get((metric, filter), [])
                if (
                    scored.measures.aggregation(metric).name != "mean"
                    or len(scores) != len(scored.samples)
                    or not all(is_number(score) and score in (0, 1) for score in scores)
                ):
                    return False
                self._answered[place] += len(scores)
                self._right[place] += float(sum(scores))
        except TaskError:
            return False
        return True

    def _scored(self, wave: int, known: Mapping[str, Response]) -> Iterator[ScoredTask]:
        """The documents of this wave by task."""
        encoded = iter(self._part.encoded)
        for task, items, waves in zip(self._part.tasks, self._part.items, self._waves, strict=True):
            chosen: list[Item] = []
            responses: list[Response] = []
            for item, own in zip(items, waves, strict=True):
                keys = [next(encoded).key for one in item.requests for _ in range(one.repeats)]
                if own == wave:
                    chosen.append(item)
                    responses += [known[key] for key in keys]
            yield score_task(task, chosen, iter(responses))

    def _strata(self) -> list[Stratum]:
        """Tasks that ask the same questions, and so the same of them first, are one stratum."""
        each = zip(self._part.tasks, self._part.items, strict=True)
        asked = [(task, len(items)) for task, items in each]
        weights = _weights_of(self._part.spec, asked)
        members: dict[str, list[int]] = {}
        for place, (task, documents) in enumerate(asked):
            members.setdefault(order_of(task, documents), []).append(place)
        strata = []
        for places in members.values():
            weight = sum(weights[place] for place in places)
            right = sum(self._right[place] * weights[place] for place in places) / weight
            strata.append(
                Stratum(
                    weight=weight,
                    documents=asked[places[0]][1],
                    answered=self._answered[places[0]],
                    right=self._right[places[0]] if len(places) == 1 else right,
                    zero_or_one=len(places) == 1,
                )
            )
        return strata


def _filter_of(spec: Spec) -> str:
    """The filter whose number leads: of a task the first, of a group that of its first row."""
    if isinstance(spec, TaskSpec):
        return spec.filter_list[0].name
    average = average_of(spec)
    stated = average.filter_list if average else None
    return (stated or sorted({one.name for leaf in spec.leaves() for one in leaf.filter_list}))[0]


def _weights_of(spec: Spec, asked: list[tuple[Task, int]]) -> list[float]:
    """Of each task in the score, as the group's own average has them."""
    average = average_of(spec) if isinstance(spec, GroupSpec) else None
    if average is None or average.weight_by_size:
        total = sum(documents for _, documents in asked)
        return [documents / total for _, documents in asked]
    return [1 / len(asked)] * len(asked)
