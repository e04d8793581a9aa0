"""A task that is a class: `class: !function task.SQuAD2` in its file.

Its methods are what the keys of other tasks are: where it has a method, that counts; else the
configuration that it hands to `ConfigurableTask`. Examples are drawn and prompts written as for any
other task.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from evalcore.errors import TaskError, code_of_others, said_of
from evalcore.model.base import Request
from evalcore.model.text_lm import Instance
from evalcore.peer.classes import ConfigurableTask
from evalcore.peer.metrics import Configured
from evalcore.task.asking.chat import Chat
from evalcore.task.asking.documents import Documents
from evalcore.task.asking.item import Item, check_can_be_asked
from evalcore.task.asking.prompt import Doc
from evalcore.task.asking.task import Task
from evalcore.task.config import TaskSpec
from evalcore.task.data.dataset import TaskData
from evalcore.task.data.seeds import FixedRandomness
from evalcore.task.functions import FunctionRef, GivenFunction, at_hand
from evalcore.task.parse import TASK_KINDS, parse_task

_METHODS = (
    "doc_to_text",
    "doc_to_target",
    "doc_to_choice",
    "process_results",
    "doc_to_decontamination_query",
)
"""Methods of a class that stand for the keys of that name."""

_ASKING = ("fewshot_context", "construct_requests")

_NEVER_CALLED = (
    *("apply_filters", "build_all_requests", "build_qa_turn", "count_bytes", "count_words"),
    *("doc_iterator", "doc_to_audio", "doc_to_prefix", "multiple_input_context"),
    *("override_metric", "resolve_field"),
)
"""Methods of lm-evaluation-harness's class that nothing here calls: what a class does there with
one of them would be another task here, without a word."""


class PythonTask(Task):
    """A task whose class is made at once; its data are loaded at the first need of them."""

    def __init__(self, spec: TaskSpec, **options: Any) -> None:
        """Raises TaskError if the class cannot be loaded or made, or its configuration is wrong."""
        self.instance = _made(spec)
        super().__init__(_described(spec, self.instance), **options)
        self.instance.configured = Configured(self.instance, self.spec, self.mode)
        self._documents = ClassDocuments(
            self.spec, self.limit, self.samples, instance=self.instance
        )

    @property
    def own_aggregations(self) -> Mapping[str, Callable[..., Any]]:
        return self._stated_by("aggregation")

    @property
    def own_higher_is_better(self) -> Mapping[str, bool]:
        return self._stated_by("higher_is_better")

    def _stated_by(self, method: str) -> Mapping[str, Any]:
        if not _overrides(self.instance, method):
            return {}
        with code_of_others(f"The task {self.name}: {method}"):
            return getattr(self.instance, method)() or {}

    def items(self) -> list[Item]:
        """All documents as the class asks them. Raises TaskError that names the one at fault."""
        items = super().items()
        if not any(_overrides(self.instance, method) for method in _ASKING):
            return items
        asked = []
        with FixedRandomness() as randomness:
            for item in items:
                asked.append(self._asked(item))
                randomness.let_others()
        return asked

    def _asked(self, item: Item) -> Item:
        """The item with the requests that the class constructs from its prompt."""
        instance, chat = self.instance, self.chat
        instance.write_prompt = lambda _doc: item.prompt
        instance.ask = lambda doc, prompt: [
            Instance(request.kind, doc, _after(prompt, request, item.prompt), number)
            for number, request in enumerate(item.requests)
        ]
        options = {
            "apply_chat_template": chat is not None,
            "chat_template": chat and _template_of(chat),
        }
        with code_of_others(f"The task {self.name}: construct_requests of document {item.doc_id}"):
            context = instance.fewshot_context(
                item.doc,
                num_fewshot=self.shots,
                system_instruction=self.system_instruction,
                fewshot_as_multiturn=chat is not None and chat.multiturn,
                **options,
            )
            made = instance.construct_requests(
                doc=item.doc,
                ctx=context,
                metadata=(self.name, item.doc_id, self.spec.repeats),
                **options,
            )
        asked = [
            self._request_of(instance) for instance in (made if isinstance(made, list) else [made])
        ]
        with said_of(f"The task {self.name}, document {item.doc_id} of {item.split}"):
            check_can_be_asked(asked)
        return dataclasses.replace(item, prompt=asked[0].context, requests=asked)

    def _request_of(self, asked: Any) -> Request:
        """A request as the class wrote it. Raises TaskError for one of no known kind."""
        kind, repeats = getattr(asked, "request_type", None), self.spec.repeats
        arguments: list[Any] = list(getattr(asked, "args", ()))
        if kind == "loglikelihood_rolling" and len(arguments) == 1:
            return Request("loglikelihood_rolling", "", arguments[0], repeats=repeats)
        if kind in ("loglikelihood", "multiple_choice") and len(arguments) == 2:
            return Request("loglikelihood", arguments[0], arguments[1], repeats=repeats)
        if kind == "generate_until" and len(arguments) == 2 and isinstance(arguments[1], dict):
            # lm-eval passes over what the command says of generation.
            stated = self.generation if self.mode == "strict" else None
            generation = {**arguments[1], **(stated or {})}
            return Request("generate_until", arguments[0], generation=generation, repeats=repeats)
        raise TaskError(
            f"The task {self.name}: construct_requests gives {asked!r}: expected an Instance of "
            "loglikelihood (context, continuation), loglikelihood_rolling (text,) or "
            "generate_until (context, arguments)"
        )


def _after(prompt: Any, request: Request, written: Any) -> tuple[Any, ...]:
    """The request's arguments after another prompt than the one that was written for it."""
    if request.kind == "loglikelihood_rolling" or not isinstance(prompt, str):
        return request.arguments
    context, *others = request.arguments
    if not context.startswith(written):  # of a choice by itself
        return request.arguments
    return prompt + context.removeprefix(written), *others


def _template_of(chat: Chat) -> Callable[..., str]:
    def render(turns: Any, add_generation_prompt: bool = True) -> str:
        return chat.template.render(turns, add_generation_prompt)

    return render


def _made(spec: TaskSpec) -> ConfigurableTask:
    if spec.python_class is None:
        raise TaskError(f"The task {spec.name} names no class")
    made_by = spec.python_class.load()
    config = {
        **at_hand(spec.class_config),
        "task": spec.task,
        "class": made_by,  # which classes take out again, since nothing else knows what it is
        **({} if spec.task_alias is None else {"task_alias": spec.task_alias}),
        "metadata": spec.told_to_code,
    }
    with code_of_others(f"The task {spec.name}: {spec.python_class}"):
        takes_config = "config" in inspect.signature(made_by).parameters
        made = made_by(config=config) if takes_config else made_by()
    if not isinstance(made, ConfigurableTask):
        raise TaskError(
            f"The task {spec.name}: {spec.python_class} must derive from ConfigurableTask, which "
            f"{type(made).__name__} does not"
        )
    _refuse_what_is_never_called(spec, made)
    made.config["task"] = spec.name
    return made


def _refuse_what_is_never_called(spec: TaskSpec, made: ConfigurableTask) -> None:
    for method in _NEVER_CALLED:
        if _overrides(made, method):
            raise TaskError(
                f"The task {spec.name}: {spec.python_class} has a {method} of its own, which "
                "evalcore does not call: the task would be another one than in "
                "lm-evaluation-harness. Say the same by keys, or in construct_requests and "
                "process_results"
            )
    scores = _overrides(made, "process_results") or callable(made.config.process_results)
    if _overrides(made, "aggregation") and not scores:
        raise TaskError(
            f"The task {spec.name}: {spec.python_class} has an aggregation of its own and no "
            "process_results, which names the numbers that it is for: add that"
        )


def _described(spec: TaskSpec, instance: ConfigurableTask) -> TaskSpec:
    """The task as keys would describe it, its methods in place of the functions of a file."""

    def named(value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {name: named(entry, name) for name, entry in value.items()}
        if isinstance(value, list):
            return [named(entry, key) for entry in value]
        return _given(spec, key, value) if callable(value) else value

    stated = {key: value for key, value in instance.config.items() if key in TASK_KINDS}
    values = named(stated, "class")
    metadata = {**spec.metadata, "version": instance.VERSION}
    known = {"task": spec.name, "class": spec.python_class, "metadata": metadata}
    own = parse_task({**values, **known}, lambda _key: str(spec.source), spec.source)
    methods: dict[str, Any] = {
        name: _given(spec, name, getattr(instance, name))
        for name in _METHODS
        if _overrides(instance, name)
    }
    if own.output_type == "generate_until" and own.doc_to_choice is None:
        methods.pop("doc_to_choice", None)  # asked for where the key is there
    few: dict[str, Any] = {
        name: _of_examples(spec, instance, name, getattr(own.fewshot, name))
        for name in _METHODS[:3]
        if name in methods
    }
    own_way = _overrides(instance, "construct_requests") and "process_results" in methods
    return dataclasses.replace(
        own,
        **methods,
        output_type="generate_until" if own_way else own.output_type,
        fewshot=dataclasses.replace(own.fewshot, **few),
        class_config=spec.class_config,
        unsafe_code=own.unsafe_code or bool(getattr(instance, "UNSAFE_CODE", False)),
    )


def _given(spec: TaskSpec, name: str, function: Callable[..., Any]) -> GivenFunction:
    made_by = spec.python_class
    folder, source = (made_by.folder, made_by.digest()) if made_by else (Path(), "")
    return GivenFunction(f"{made_by}.{name}", folder, function, source)


def _of_examples(
    spec: TaskSpec, instance: ConfigurableTask, name: str, stated: Any
) -> GivenFunction:
    """The method as it reads an example: given what is stated for those, if it takes that."""
    method = getattr(instance, name)
    try:
        inspect.signature(method).bind(None, None)
    except TypeError:
        return _given(spec, name, method)
    source = stated.load() if isinstance(stated, FunctionRef) else stated
    return _given(spec, name, lambda doc: method(doc, source))


def _overrides(instance: ConfigurableTask, method: str) -> bool:
    # Static, since a class method is another object at each look.
    own = inspect.getattr_static(type(instance), method, None)
    return own is not None and own is not inspect.getattr_static(ConfigurableTask, method, None)


@dataclass(frozen=True)
class ClassDocuments(Documents):
    """The documents that a class gives."""

    instance: ConfigurableTask = dataclasses.field(kw_only=True)

    @cached_property
    def data(self) -> TaskData:
        with code_of_others(f"The task {self.spec.name}: download"):
            splits = self.instance.dataset
        path = self.instance.DATASET_PATH
        return TaskData(splits, self.instance.commit, f"The data set {path}")

    @property
    def split(self) -> str:
        if self.instance.has_test_docs():
            return self.spec.test_split or "test"
        return self.spec.validation_split or "validation"

    def _rows_of(self, split: str) -> Sequence[Doc]:
        """What a class makes of which rows, it does not say."""
        return self.whole if split == self.split else self.pool

    @cached_property
    def whole(self) -> Sequence[Doc]:
        _ = self.data
        with code_of_others(f"The task {self.spec.name}: {self.split}_docs"):
            docs = _indexable(self.instance.eval_docs)
        if not len(docs):
            raise TaskError(f"{self._place}: {self.spec.python_class} gives no document")
        return docs

    @property
    def pool_split(self) -> str:
        if self.spec.fewshot.split:
            return self.spec.fewshot.split
        if self.instance.has_training_docs():
            return self.spec.training_split or "train"
        return self.split

    @cached_property
    def pool(self) -> Sequence[Doc]:
        if self.pool_split == self.split and not _overrides(self.instance, "fewshot_docs"):
            return self.whole
        with code_of_others(f"The task {self.spec.name}: fewshot_docs"):
            return _indexable(self.instance.fewshot_docs())


def _indexable(docs: Any) -> Sequence[Doc]:
    return docs if hasattr(docs, "__getitem__") and hasattr(docs, "__len__") else list(docs)
