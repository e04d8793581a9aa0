"""What a task file can say, typed: every field of lm-eval's TaskConfig, FewshotConfig, GroupConfig.

The key names and defaults are lm-eval's. A file that says something else is refused with all of
its problems at once (`evalcore.task.fields`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalcore.task.functions import FunctionRef
from evalcore.task.metadata import TaskMetadata

TextSource = str | int | FunctionRef | None
"""A column, a template or a function; a number stands for itself."""
TargetSource = str | int | list[Any] | FunctionRef | None
MediaSource = str | list[Any] | FunctionRef | None
ChoiceSource = str | list[Any] | dict[str, Any] | FunctionRef | None

OUTPUT_TYPES = ("multiple_choice", "loglikelihood", "loglikelihood_rolling", "generate_until")

DEFAULT_METRICS: Mapping[str, tuple[str, ...]] = {
    "multiple_choice": ("acc", "acc_norm"),
    "loglikelihood": ("perplexity", "acc"),
    "loglikelihood_rolling": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
    "generate_until": ("exact_match",),
}


@dataclass(frozen=True, kw_only=True)
class MetricSpec:
    """An entry of `metric_list`; `arguments` are its other keys, passed to the metric."""

    metric: str | FunctionRef
    aggregation: str | FunctionRef | None = None
    higher_is_better: bool | None = None
    hf_evaluate: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The metric's name in results; a function goes by its own."""
        return self.metric if isinstance(self.metric, str) else self.metric.name.split(".")[-1]


@dataclass(frozen=True, kw_only=True)
class FilterStep:
    function: str | FunctionRef
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FilterSpec:
    """A named pipeline that turns the responses to a request into one."""

    name: str
    steps: tuple[FilterStep, ...]


DEFAULT_FILTERS = (FilterSpec(name="none", steps=(FilterStep(function="take_first"),)),)


@dataclass(frozen=True, kw_only=True)
class FewshotSpec:
    """`fewshot_config`; what it does not say is inherited from its task."""

    sampler: str | FunctionRef = "default"
    split: str | None = None
    process_docs: FunctionRef | None = None
    samples: list[dict[str, Any]] | FunctionRef | None = None
    doc_to_text: TextSource = None
    doc_to_choice: ChoiceSource = None
    doc_to_target: TargetSource = None
    gen_prefix: str | None = None
    fewshot_delimiter: str = "\n\n"
    target_delimiter: str = " "
    fewshot_indices: list[int] | None = None


class _Spec:
    """What tasks and groups have in common."""

    about: TaskMetadata

    @property
    def version(self) -> str:
        return self.about.version

    def parts(self) -> Iterator[TaskSpec | GroupSpec]:
        """It and everything inside it, in order."""
        raise NotImplementedError

    def leaves(self) -> Iterator[TaskSpec]:
        """The task, or those of the group and of its groups, in order."""
        return (part for part in self.parts() if isinstance(part, TaskSpec))

    def groups(self) -> Iterator[GroupSpec]:
        """The group and every group inside it."""
        return (part for part in self.parts() if isinstance(part, GroupSpec))


@dataclass(frozen=True, kw_only=True)
class TaskSpec(_Spec):
    """One task, resolved: includes merged, overrides applied, defaults filled in."""

    task: str
    task_alias: str | None = None
    tag: tuple[str, ...] = ()
    python_class: FunctionRef | None = None
    """The key `class`: a task written in Python."""
    class_config: dict[str, Any] = field(default_factory=dict)
    """The keys of the file of such a task, of which its class takes what it likes."""

    custom_dataset: FunctionRef | None = None
    dataset_path: str | None = None
    dataset_name: str | None = None
    dataset_kwargs: dict[str, Any] = field(default_factory=dict)
    training_split: str | None = None
    validation_split: str | None = None
    test_split: str | None = None
    fewshot_split: str | None = None
    process_docs: FunctionRef | None = None

    doc_to_text: TextSource = None
    doc_to_target: TargetSource = None
    doc_to_choice: ChoiceSource = None
    doc_to_image: MediaSource = None
    doc_to_audio: MediaSource = None
    use_prompt: str | None = None
    description: str = ""
    gen_prefix: str | None = None
    target_delimiter: str = " "
    fewshot_delimiter: str = "\n\n"
    fewshot: FewshotSpec = field(default_factory=FewshotSpec)
    """The key `fewshot_config`."""
    num_fewshot: int | None = None

    output_type: str = "generate_until"
    generation_kwargs: dict[str, Any] | None = None
    repeats: int = 1
    process_results: FunctionRef | None = None
    filter_list: tuple[FilterSpec, ...] = DEFAULT_FILTERS
    metric_list: tuple[MetricSpec, ...] = ()
    """Never empty: without the key, the output type's default metrics."""
    should_decontaminate: bool = False
    doc_to_decontamination_query: str | FunctionRef | None = None
    unsafe_code: bool = False

    metadata: dict[str, Any] = field(default_factory=dict)
    """As written; `about` is the part of it that we understand."""
    model_arguments: dict[str, Any] = field(default_factory=dict)
    """What lm-eval puts over the metadata that code makes documents from. No part of what the task
    is: two models must compare, and documents have digests of their own."""
    about: TaskMetadata
    source: Path | None = None

    @property
    def name(self) -> str:
        return self.task

    @property
    def alias(self) -> str:
        return self.task_alias or self.task

    @property
    def metrics(self) -> list[str]:
        """Their names, as listed."""
        return [entry.name for entry in self.metric_list]

    @property
    def primary_metric(self) -> str:
        """The board's metric: the one that is named, else the first that is measured."""
        return self.about.primary_metric or next(iter(self.metrics), "")

    @property
    def eval_split(self) -> str | None:
        """The split whose documents are scored: test, else validation."""
        return self.test_split or self.validation_split

    @property
    def told_to_code(self) -> dict[str, Any]:
        """The metadata as lm-eval hands them to the code that makes a task or its documents."""
        return {"config_source": str(self.source), **self.metadata, **self.model_arguments}

    def parts(self) -> Iterator[TaskSpec | GroupSpec]:
        yield self


@dataclass(frozen=True, kw_only=True)
class AggregateSpec:
    """An entry of `aggregate_metric_list`; no `filter_list` means every filter of the tasks."""

    metric: str | FunctionRef
    filter_list: tuple[str, ...] | None = None
    aggregation: str | FunctionRef = "mean"
    weight_by_size: bool = True


@dataclass(frozen=True, kw_only=True)
class GroupSpec(_Spec):
    """A named set of tasks and groups whose scores may be aggregated."""

    group: str
    group_alias: str | None = None
    members: tuple[TaskSpec | GroupSpec, ...] = ()
    aggregate_metric_list: tuple[AggregateSpec, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    about: TaskMetadata
    source: Path | None = None

    @property
    def name(self) -> str:
        return self.group

    @property
    def alias(self) -> str:
        return self.group_alias or self.group

    @property
    def metrics(self) -> list[str]:
        """Those that it aggregates, as listed."""
        return [str(entry.metric) for entry in self.aggregate_metric_list]

    @property
    def primary_metric(self) -> str:
        """As of a task; of a group that aggregates nothing that of its first task."""
        named = self.about.primary_metric or next(iter(self.metrics), None)
        return named or next(self.leaves()).primary_metric

    def parts(self) -> Iterator[TaskSpec | GroupSpec]:
        yield self
        for member in self.members:
            yield from member.parts()
