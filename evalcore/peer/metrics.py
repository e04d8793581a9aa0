"""What the metrics of a task's configuration give, for a class that asks for it in its own scoring.

That is `super().process_results(doc, results)` and `super().aggregation()` of a task in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from evalcore.errors import TaskError
from evalcore.model.base import Mode
from evalcore.peer.classes import ConfigurableTask
from evalcore.score.answered import Answered
from evalcore.score.process import process
from evalcore.score.task_metrics import Measures
from evalcore.task.asking.gold import gold_of
from evalcore.task.asking.item import Item
from evalcore.task.asking.prompt import Doc
from evalcore.task.config import TaskSpec


class Configured:
    """The metrics of one class's configuration."""

    def __init__(self, instance: ConfigurableTask, spec: TaskSpec, mode: Mode) -> None:
        self._instance = instance
        self._spec = replace(
            spec, output_type=instance.config.output_type, process_results=None, python_class=None
        )
        self._mode = mode

    @cached_property
    def _measures(self) -> Measures:
        return Measures(
            self._spec, self._mode, by_the_task=False, own_aggregations={}, own_higher_is_better={}
        )

    @property
    def aggregations(self) -> Mapping[str, Callable[..., Any]]:
        """By metric."""
        found = self._measures.aggregations
        return {name: aggregation.function for name, aggregation in found.items()}

    @property
    def higher_is_better(self) -> Mapping[str, bool]:
        return self._measures.higher_is_better

    def scores(self, doc: Doc, results: Sequence[Any]) -> dict[str, Any]:
        """By metric what a document's results are worth. Raises TaskError where one fails."""
        answered = Answered(
            item=self._item(doc),
            results=list(results),
            every=[[result] for result in results],
            responses=[],
        )
        processed = process(answered, self._measures, None)
        problems = {**self._measures.problems, **processed.problems}
        for name, why in problems.items():
            raise TaskError(f"process_results: {name}: {why}")
        return processed.items

    def _item(self, doc: Doc) -> Item:
        instance = self._instance
        target = instance.doc_to_target(doc)
        choices: list[str] = []
        if self._spec.doc_to_choice is not None:
            choices = list(instance.doc_to_choice(doc))
        first_is_context, first_target = self._first
        gold = instance.doc_to_text(doc) if first_is_context else target
        several = target if self._mode == "strict" else first_target
        return Item(
            doc_id=0,
            split="",
            doc=doc,
            doc_digest="",
            shots=[],
            prompt="",
            choices=choices,
            gold=gold_of(gold, choices) if self._spec.output_type == "multiple_choice" else [],
            target=str(target),
            answer=target,
            several_answers=isinstance(several, list) and bool(several),
            choices_are_contexts=first_is_context,
            requests=[],
        )

    @cached_property
    def _first(self) -> tuple[bool, Any]:
        """Of document 0: whether its choices are contexts, and its target."""
        doc = self._instance.eval_docs[0]
        has_choices = self._spec.doc_to_choice is not None
        are_contexts = has_choices and isinstance(self._instance.doc_to_text(doc), int)
        return are_contexts, self._instance.doc_to_target(doc)
