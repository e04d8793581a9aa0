"""What the options of an evaluation stand for: tasks, settings, the model."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evalcore import values
from evalcore.command.importing import backend
from evalcore.command.options import OptionError
from evalcore.errors import ModelError, did_you_mean
from evalcore.model.hf.arguments import NAMES, SECRETS
from evalcore.selection import library_of, select
from evalcore.settings import Settings, exclusion
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.library.load import TaskLibrary
from evalcore.task.yaml_file import INSTALLED_TASKS, OWN_TASKS
from evalcore.values import SEEDS, as_texts, seed_or_fresh, typed_pairs

if TYPE_CHECKING:
    from evalcore.task.data.dataset import TaskData


COPIES_OF_VLLM = "data_parallel_size"
"""What lm-evaluation-harness's users state where `--data_parallel` says it here."""

NO_TASKS = "--tasks: give at least one name; `evalcore ls tasks` lists them"


def folder_to_change(stated: Path | None) -> Path:
    """The folder of tasks that a command writes in: by default our own, in a checkout.

    Raises OptionError where those are part of an installed package, which nobody should write in.
    """
    if stated is None and OWN_TASKS == INSTALLED_TASKS:
        raise OptionError(
            f"folder: our own tasks are part of the installed package ({OWN_TASKS}): name a folder "
            "of yours, or work in a checkout"
        )
    return stated or OWN_TASKS


def folder_of(spec: TaskSpec, folders: Sequence[Path]) -> Path | None:
    """The folder of tasks in which the task's file lies."""
    source = spec.source
    within = (folder for folder in folders if source and source.is_relative_to(folder))
    return next(within, None)


def own_rows_of(options: argparse.Namespace) -> Callable[[TaskSpec], TaskData] | None:
    """Under --own_rows: what gives a task the sample rows of its folder; else None."""
    if not options.own_rows:
        return None
    from evalcore.task.data.sample_rows import sample_data

    folders = library_of(options.include_path).folders
    return lambda spec: sample_data(spec, folder_of(spec, folders) or OWN_TASKS)


def specs_of(options: argparse.Namespace) -> list[TaskSpec | GroupSpec]:
    """The tasks and groups of `--tasks`, with the metadata of the command.

    Raises OptionError where none is given.
    """
    if not options.tasks:
        raise OptionError(NO_TASKS)
    library = library_of(options.include_path)
    specs = select(
        library,
        options.tasks,
        metadata=options.metadata,
        model_args=typed_model_args(options),
        mode=options.mode,
    )
    _check_samples(options.samples or {}, specs, library)
    return specs


def _check_samples(
    samples: Mapping[str, Any], specs: Sequence[TaskSpec | GroupSpec], library: TaskLibrary
) -> None:
    """A task whose name is written wrong would be evaluated whole.

    Tasks that are not run may be named: one file serves several commands. Raises OptionError.
    """
    known = {leaf.name for spec in specs for leaf in spec.leaves()}
    if not samples.keys() - known:
        return
    known |= set(library.tasks)
    for name in sorted(samples.keys() - known):
        raise OptionError(f"--samples: there is no task {name!r}{did_you_mean(name, known)}")


def typed_model_args(options: argparse.Namespace) -> dict[str, Any]:
    """The model's arguments as lm-evaluation-harness types them, for files: without secrets."""
    given = typed_pairs(options.model_args or {})
    return {name: value for name, value in given.items() if name not in SECRETS}


def settings_of(options: argparse.Namespace) -> Settings:
    """Raises OptionError for options that exclude one another."""
    if not options.tasks:
        raise OptionError(NO_TASKS)
    if problem := exclusion(options, "--{name}", "--{name} {value}"):
        raise OptionError(problem)
    python, numpy, torch, fewshot = options.seed
    if (python, numpy) != SEEDS[:2] and len({python, numpy, torch, fewshot}) > 1:
        sys.stderr.write(
            "evalcore: --seed: the first two decide nothing here; documents are processed under "
            "fixed seeds\n"
        )
    chosen = {
        field.name: getattr(options, field.name)
        for field in dataclasses.fields(Settings)
        if hasattr(options, field.name)
    }
    return Settings(
        **{
            **chosen,
            "fewshot_seed": seed_or_fresh(fewshot),
            "seed": seed_or_fresh(torch),
            "decontaminate": tuple(options.decontaminate),
        }
    )


def model_of(options: argparse.Namespace, *, weights: bool = True) -> Any:
    """The model of `--model` and its arguments; without `weights` it says what it would read."""
    return loaded_by(partial(backend(options.model).from_arguments, weights=weights), options)


def loaded_by(from_arguments: Callable[..., Any], options: argparse.Namespace) -> Any:
    """The same by what loads it."""
    return from_arguments(
        _with_limits(options),
        batch_size=options.batch_size or options.max_batch_size,
        device=options.device,
        mode=options.mode,
    )


def devices_wanted(options: argparse.Namespace) -> list[str]:
    """Where each copy of the model shall lie; nothing where one process computes it as it is.

    Raises ModelError for copies that this machine has no room for, or that a backend has not.
    """
    from evalcore.model.parallel.launch import copies_wanted, devices_of, launched

    launcher = launched(os.environ)
    copies = copies_wanted(_copies_stated(options), launcher)
    is_divided = dict(options.model_args or {}).get("tp_plan") is not None
    if is_divided and copies is not None and launcher is None:
        raise ModelError(
            "--data_parallel and tp_plan: a model that is divided takes all GPUs: leave one of the "
            "two out"
        )
    if copies in (None, 1) and not is_divided:
        return []
    import torch

    return devices_of(copies or "auto", options.device, torch.cuda.device_count())


def _copies_stated(options: argparse.Namespace) -> int | Literal["auto"] | None:
    """Raises ModelError where option and argument contradict one another."""
    option: int | Literal["auto"] | None = options.data_parallel
    argument = dict(options.model_args or {}).get(COPIES_OF_VLLM)
    if options.model != "vllm" or argument is None:
        return option
    try:
        number = values.positive(argument)
    except ValueError as problem:
        raise ModelError(f"--model_args: {COPIES_OF_VLLM}: {problem}") from None
    if option not in (None, number):
        raise ModelError(
            f"--data_parallel {option} and {COPIES_OF_VLLM}={number} say how many copies there are "
            "to be: leave one of them out"
        )
    return number


def copies_of(options: argparse.Namespace, devices: Sequence[str]) -> Any:
    """The model on each of the devices, in processes that share its requests."""
    from evalcore.model.parallel.launch import launched
    from evalcore.model.parallel.messages import Loading
    from evalcore.model.parallel.replicas import replicas_of

    loading = Loading(
        backend=options.model,
        arguments=_with_limits(options),
        batch_size=options.batch_size or options.max_batch_size,
        device=options.device,
        mode=options.mode,
    )
    return replicas_of(loading, devices, launched(os.environ))


def _with_limits(options: argparse.Namespace) -> dict[str, str]:
    """What the model is made of, with what a service may cost: a model that is no service says that
    it has no price."""
    limits = {name: getattr(options, name, None) for name in ("max_cost", "prices")}
    return as_texts({**model_args_of(options), **limits})


def model_args_of(options: argparse.Namespace) -> dict[str, Any]:
    """Raises OptionError where a model that is loaded from somewhere is given no arguments."""
    from evalcore.model.registry import MODELS

    if not options.model_args and options.model in MODELS and options.model != "dummy":
        raise OptionError("--model_args: say which model, such as pretrained=ORG/NAME")
    given = dict(options.model_args or {})
    if getattr(options, "trust_remote_code", False) and options.model in NAMES:
        given.setdefault("trust_remote_code", True)
    if options.model == "vllm":  # how many copies there are is no matter of each
        given.pop(COPIES_OF_VLLM, None)
    return given
