"""Prompts that are named instead of written: `use_prompt: promptsource:<name>`, or `*` for all.

Three kinds are known, as in lm-evaluation-harness: templates of PromptSource (Bach et al. 2022), a
file `prompts.yaml:<name>` with doc_to_text and doc_to_target by name, and the two of `qa-basic`.
The templates of a data set lie in PromptSource's own form in
`templates/<dataset>/<configuration>/templates.yaml`, in a folder `promptsource_templates` beside
the task file or above it, or in the package promptsource if it is installed.

The command line names them, too: `--tasks x@name`, or `x@*`, a pattern, which makes a group whose
members are the task under each prompt.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import importlib.util
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from jinja2 import pass_context
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

from evalcore.errors import TaskError, did_you_mean
from evalcore.task.config import AggregateSpec, GroupSpec, TaskSpec
from evalcore.task.functions import GivenFunction
from evalcore.task.template import compiled, render

SIGN = "@"
"""Between the name of a task and that of a prompt, or a pattern of such."""


_BASIC = {
    "question-newline-answer": "Question: {{question}}\nAnswer:",
    "q-newline-a": "Q: {{question}}\nA:",
}
_SEPARATOR = "|||"
_ESCAPED = "3ed2dface8203c4c9dfb1a5dc58e41e0"
"""Stands for the separator in a document's own text while a template is rendered."""
_LONGEST_VALUE = 2048
"""PromptSource cuts every value in a template after so many characters."""

Reading = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One named prompt."""

    name: str
    source: str
    text: Reading
    target: Reading | None
    """None: the task's own doc_to_target counts."""
    choices: Reading | None

    def applied_to(self, spec: TaskSpec) -> TaskSpec:
        """The task, asked by this prompt, in its examples too."""
        parts: dict[str, Any] = {
            "doc_to_text": self._part(self.text, spec),
            "doc_to_target": self._part(self.target, spec) or spec.doc_to_target,
        }
        if self.choices and (spec.output_type == "multiple_choice" or spec.doc_to_choice):
            parts["doc_to_choice"] = self._part(self.choices, spec)
        if spec.output_type == "multiple_choice" and not (
            spec.doc_to_choice or parts.get("doc_to_choice")
        ):
            raise TaskError(
                f"The task {spec.name}: use_prompt: {self.name} has no answer choices, which "
                "multiple_choice needs: name another, or set output_type: generate_until"
            )
        return dataclasses.replace(
            spec, **parts, fewshot=dataclasses.replace(spec.fewshot, **parts)
        )

    def _part(self, read: Reading | None, spec: TaskSpec) -> GivenFunction | None:
        folder = spec.source.parent if spec.source else Path()
        name = f"use_prompt {self.name}"
        return GivenFunction(name, folder, read, self.source) if read else None


def expanded(spec: TaskSpec, place_of: Callable[[str], str]) -> Iterator[TaskSpec]:
    """The task as its `use_prompt` says, once for each prompt that a pattern means.

    Those of a pattern are called `<task>::<prompt>`. `place_of(key)` says where a key was set, for
    messages. Raises TaskError where there is no such prompt.
    """
    if spec.use_prompt is None:
        yield spec
        return
    place = place_of("use_prompt")
    category, colon, wanted = spec.use_prompt.rpartition(":")
    if not colon:
        raise TaskError(
            f"{place}: use_prompt: expected `promptsource:<name>`, `<file>.yaml:<name>` or "
            f"`qa-basic:<name>`, got {spec.use_prompt!r}"
        )
    prompts = _prompts(category, spec, place)
    if wanted in prompts:
        yield prompts[wanted].applied_to(spec)
        return
    names = fnmatch.filter(prompts, wanted)
    if not names:
        raise TaskError(
            f"{place}: use_prompt: {category} has no prompt {wanted!r}"
            f"{did_you_mean(wanted, prompts)}; it has {', '.join(prompts)}"
        )
    for name in names:
        one = dataclasses.replace(
            spec,
            task=f"{spec.task}::{name}",
            task_alias=f"{spec.alias} ({name})",
            use_prompt=f"{category}:{name}",
        )
        yield prompts[name].applied_to(one)


def prompted(spec: TaskSpec | GroupSpec, wanted: str, place: str) -> TaskSpec | GroupSpec:
    """The task under the prompt `wanted`, or under all prompts that the pattern `wanted` means.

    Raises TaskError for a group, and where there is no such prompt; `place` says what asked.
    """
    if isinstance(spec, GroupSpec):
        raise TaskError(f"{place}: {spec.name} is a group: name one of its tasks before the {SIGN}")
    asked = dataclasses.replace(spec, use_prompt=f"promptsource:{wanted}")
    tasks = [
        # With the sign of the command line in its name in place of a file's `::`.
        dataclasses.replace(task, task=task.task.replace(f"{spec.task}::", f"{spec.task}{SIGN}", 1))
        for task in expanded(asked, lambda _: place)
    ]
    if not any(sign in wanted for sign in "*?["):
        (task,) = tasks
        return dataclasses.replace(task, task=f"{spec.task}{SIGN}{wanted}")
    metrics = dict.fromkeys(spec.metrics)
    return GroupSpec(
        group=f"{spec.task}{SIGN}{wanted}",
        group_alias=f"{spec.alias}, {len(tasks)} prompts",
        members=tuple(tasks),
        aggregate_metric_list=tuple(AggregateSpec(metric=metric) for metric in metrics),
        metadata=spec.metadata,
        about=spec.about,
        source=spec.source,
    )


def is_prompted(name: str) -> bool:
    """Whether a group of this name is one task under several prompts."""
    return SIGN in name


def _prompts(category: str, spec: TaskSpec, place: str) -> Mapping[str, Prompt]:
    if category == "promptsource":
        return _of_promptsource(spec, place)
    if ".yaml" in category:
        return _of_file(category, spec, place)
    if category == "qa-basic":
        return {
            name: Prompt(name, text, _Applied(render, (text,)), None, None)
            for name, text in _BASIC.items()
        }
    raise TaskError(
        f"{place}: use_prompt: there are no prompts {category!r}: write promptsource, qa-basic or "
        "the path of a .yaml file before the colon"
    )


@dataclass(frozen=True)
class _Applied:
    """A function with its first arguments at hand; equal ones compare, as partials do not."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def __call__(self, doc: dict[str, Any]) -> Any:
        return self.function(*self.arguments, doc)


def _of_file(name: str, spec: TaskSpec, place: str) -> dict[str, Prompt]:
    """The prompts of a file: a path from the working folder, or from the task file's."""
    beside = spec.source.parent if spec.source else Path()
    path = Path(name) if Path(name).is_file() else beside / name
    entries = _read(path, place).get("prompts")
    if not isinstance(entries, dict):
        raise TaskError(f"{place}: use_prompt: {path} has no mapping `prompts`")
    prompts = {}
    for prompt, entry in entries.items():
        if not isinstance(entry, dict) or not {"doc_to_text", "doc_to_target"} <= entry.keys():
            raise TaskError(
                f"{path}: prompts.{prompt}: expected doc_to_text and doc_to_target, got {entry!r}"
            )
        if "doc_to_choice" in entry:
            raise TaskError(
                f"{path}: prompts.{prompt}.doc_to_choice: a prompt of a file has none: write it "
                "into the task"
            )
        text, target = str(entry["doc_to_text"]), str(entry["doc_to_target"])
        source = f"{text}\0{target}"
        prompts[str(prompt)] = Prompt(
            str(prompt), source, _Applied(render, (text,)), _Applied(render, (target,)), None
        )
    return prompts


def _of_promptsource(spec: TaskSpec, place: str) -> dict[str, Prompt]:
    file = _templates_file(spec)
    if file is None:
        raise TaskError(
            f"{place}: use_prompt: there are no templates for {spec.dataset_path}"
            f"{f', {spec.dataset_name}' if spec.dataset_name else ''}: install promptsource, or "
            f"write promptsource_templates/{_folder_of(spec)}/templates.yaml beside the task file"
        )
    templates = _read(file, place).get("templates")
    if not isinstance(templates, dict):
        raise TaskError(f"{file}: expected a mapping `templates`")
    prompts = {}
    for template in templates.values():
        name, jinja = str(template["name"]), str(template["jinja"])
        choices = template.get("answer_choices")
        source = f"{jinja}\0{choices}"
        prompts[name] = Prompt(
            name,
            source,
            _Applied(_side, (0, jinja, choices, spec.fewshot_delimiter)),
            _Applied(_side, (1, jinja, choices, spec.fewshot_delimiter)),
            _Applied(_divided, (choices,)) if choices else None,
        )
    return prompts


def _folder_of(spec: TaskSpec) -> str:
    return "/".join(part for part in (spec.dataset_path, spec.dataset_name) if part)


def _templates_file(spec: TaskSpec) -> Path | None:
    roots = []
    if spec.source:
        for folder in spec.source.parents:
            own = folder / "promptsource_templates"
            roots += [own / "templates", own]
    # What lies beside a task is meant for it, whatever else is installed.
    package = importlib.util.find_spec("promptsource")
    if package and package.origin:
        roots.append(Path(package.origin).parent / "templates")
    files = (root / _folder_of(spec) / "templates.yaml" for root in roots)
    return next((file for file in files if file.is_file()), None)


class _TemplateLoader(yaml.CSafeLoader):
    """Safe YAML plus the two tags of PromptSource's files, read as mappings."""


def _mapping(loader: _TemplateLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    return loader.construct_mapping(node, deep=True)


for _tag in ("!Template", "!TemplateMetadata"):
    _TemplateLoader.add_constructor(_tag, _mapping)


def _read(path: Path, place: str) -> dict[str, Any]:
    try:
        values = yaml.load(path.read_bytes(), Loader=_TemplateLoader)  # noqa: S506
    except OSError as error:
        raise TaskError(f"{place}: use_prompt: {path} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise TaskError(f"{path} is not valid YAML: {error}") from error
    return values if isinstance(values, dict) else {}


_WHOLE = "the whole document"
"""What a template's filters know the document by; no column can be asked for by such a name."""

_ENVIRONMENT = SandboxedEnvironment(autoescape=False)
_ENVIRONMENT.globals["zip"] = zip


@pass_context
def _choice(context: Context, choices: Sequence[Any]) -> Any:
    """One of `choices`, drawn by the document: the same in its question and in its answer."""
    return random.Random(repr(context[_WHOLE])).choice(choices)  # noqa: S311


def _most_frequent(entries: Sequence[Any]) -> list[Any]:
    counts = Counter(entries)
    return [entry for entry, count in counts.items() if count == max(counts.values())]


_ENVIRONMENT.filters.update(choice=_choice, most_frequent=_most_frequent)


def _divided(template: str, doc: Mapping[str, Any], **more: Any) -> list[str]:
    """The parts of the rendered template; a column that a document lacks is empty text."""
    values = {
        key: value.replace(_SEPARATOR, _ESCAPED) if isinstance(value, str) else value
        for key, value in doc.items()
    }
    try:
        text = compiled(_ENVIRONMENT, template).render({**values, **more, _WHOLE: doc})
    except Exception as error:  # whatever the expressions of a template may raise
        raise TaskError(
            f"the template {template!r} failed on a document: {type(error).__name__}: {error}"
        ) from error
    return [part.replace(_ESCAPED, _SEPARATOR).strip() for part in text.split(_SEPARATOR)]


def _side(
    side: int, jinja: str, choices: str | None, otherwise: str, doc: Mapping[str, Any]
) -> str:
    """The question (0) or the answer (1) of a template, whose text the separator divides.

    A template that does not divide gives `otherwise`, the few-shot delimiter, as in
    lm-evaluation-harness.
    """
    template = jinja.replace("}}", f" | string | truncate({_LONGEST_VALUE}) }}}}")
    answers = _divided(choices, doc) if choices else None
    parts = _divided(template, doc, answer_choices=answers)
    return parts[side] if len(parts) == 2 else otherwise
