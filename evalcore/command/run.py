"""`evalcore run`: from the options to the files."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalcore.command.importing import backend
from evalcore.command.options import OptionError
from evalcore.command.selection import (
    copies_of,
    devices_wanted,
    model_args_of,
    model_of,
    settings_of,
    specs_of,
    typed_model_args,
)
from evalcore.command.superseded import AtWork
from evalcore.errors import EvalError, InfraError
from evalcore.progress import first_prompts
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.values import as_texts
from evalcore.whole_file import write_whole

if TYPE_CHECKING:
    from evalcore.settings import Settings


def run(options: argparse.Namespace) -> int:
    """Evaluate; writes records as each task completes, lm-evaluation-harness's files at the end.

    Where a task fails, the files of the others are written all the same; so are the answers to one
    whose scoring fails.
    """
    if (options.log_samples or options.predict_only) and not options.output_path:
        raise OptionError("--output_path: say where --log_samples or --predict_only shall write")
    model_args_of(options)
    settings = settings_of(options)
    _check_writable(options.output_path)
    show = options.show
    show.start()
    if not options.adapters:
        _evaluate(options, settings, options.staying.begin(options))
        return 0
    options.staying.begin(options)
    failed: list[EvalError] = []
    for each, load in _with_adapters(options, settings):
        try:
            _evaluate(each, settings, load)
        except InfraError as error:
            error.others = (*failed, *error.others)
            raise
        except EvalError as error:  # of this adapter, or of a task: the others go on
            failed += [*error.others, error]
    if failed:
        failed[-1].others = failed[:-1]
        raise failed[-1]
    return 0


def _with_adapters(
    options: argparse.Namespace, settings: Settings
) -> Iterator[tuple[argparse.Namespace, Callable[[], Any]]]:
    """For each of `--adapters` the options of the run with it alone, and what loads it."""
    from evalcore.model.protocols import Adapting
    from evalcore.refusals import check_supported, refuse_before

    model = backend(options.model)
    if not isinstance(model, Adapting):
        raise OptionError(f"--adapters: --model {options.model} takes none")
    if len(devices_wanted(options)) > 1:
        raise OptionError(
            "--adapters: one process loads the weights once for all: leave --data_parallel, "
            "tp_plan and torchrun out"
        )
    specs = specs_of(options)
    for spec in specs:
        check_supported(spec, confirm_unsafe=settings.confirm_run_unsafe_code)
    refuse_before(model.capabilities, specs, settings)
    stated = model_args_of(options)
    names = list(dict.fromkeys(options.adapters))
    loaders = model.with_adapters(
        as_texts(stated),
        names,
        batch_size=options.batch_size or options.max_batch_size,
        device=options.device,
        mode=options.mode,
    )
    for name, load in zip(names, loaders, strict=True):
        sys.stderr.write(f"evalcore: adapter {name}\n")
        yield argparse.Namespace(**{**vars(options), "model_args": {**stated, "peft": name}}), load


def _evaluate(
    options: argparse.Namespace, settings: Settings, load: Callable[[], Any] | None = None
) -> None:
    """One model on the tasks, and its files; `load` where it is one of several adapters."""
    show = options.show
    specs = specs_of(options)
    show.phase("load")
    from evalcore.evaluation import evaluate
    from evalcore.journal import Journal

    model, start = _loaded(options, specs, settings, load)
    with ExitStack() as ending:
        journal = None
        if options.use_cache:
            journal = Journal(options.use_cache, model.info.model_key)
            ending.callback(journal.close)
        place = ending.enter_context(_place(options, model.info.name))
        written = Written(place, options)
        try:
            for evaluation in evaluate(model, specs, settings, show, journal, start.timing):
                written.add(evaluation)
        except EvalError as error:
            try:
                written.finish()
            except InfraError as unwritten:
                if isinstance(error, InfraError):
                    raise error from unwritten
                unwritten.others = (*error.others, error)
                raise
            raise
        show.done(written.finish())
        sys.stderr.write(start.in_words())


def _loaded(
    options: argparse.Namespace,
    specs: Sequence[TaskSpec | GroupSpec],
    settings: Settings,
    load_model: Callable[[], Any] | None,
) -> tuple[Any, Start]:
    """The model, as the options say or as `load_model` does; the data of the first benchmark are
    loaded meanwhile."""
    from evalcore.model.protocols import Foretelling, KeepingChecks
    from evalcore.preparation import benchmarks_of
    from evalcore.refusals import check_supported, refuse_before

    began = time.monotonic()
    wanted = backend(options.model)  # here, so that the two threads do not import it at once
    devices = devices_wanted(options)
    for spec in specs:  # a model of gigabytes is not fetched for a task that cannot be run
        check_supported(spec, confirm_unsafe=settings.confirm_run_unsafe_code)
    refuse_before(wanted.capabilities, specs, settings)
    if isinstance(wanted, Foretelling):
        arguments = as_texts(model_args_of(options))
        refuse_before(wanted.capabilities_of(arguments), specs, settings)
    with _data_of(benchmarks_of(specs)[0]):
        if load_model is None:
            several = len(devices) > 1
            load_model = (
                partial(copies_of, options, devices) if several else partial(model_of, options)
            )
        model = load_model()
        if isinstance(model, KeepingChecks):
            model.keep_checks(again=options.check_again)
        load = time.monotonic() - began
    return model, Start(model, load, options.staying.began)


@contextmanager
def _data_of(specs: Sequence[TaskSpec | GroupSpec]) -> Iterator[None]:
    """Meanwhile downloads and prepares data in a thread; they lie ready on the disk then.

    What fails is said when it is the task's turn. Data that a task's code makes are left alone.
    """
    from evalcore.task.data.dataset import load_data

    over = threading.Event()

    def load() -> None:
        for leaf in (leaf for spec in specs for leaf in spec.leaves()):
            if over.is_set():
                return
            if not leaf.custom_dataset and not leaf.python_class:
                with suppress(Exception):
                    load_data(leaf)

    # Nobody waits at the end for a download that hangs.
    thread = threading.Thread(target=load, name="evalcore-data", daemon=True)
    thread.start()
    try:
        yield
        over.set()
        # With the data set at hand: two threads would wait for one another's file locks.
        thread.join()
    finally:
        over.set()


@dataclass(frozen=True)
class Start:
    """How long it took until the model was first run, and how much of that it was loaded."""

    model: Any
    load: float
    """Seconds, with the import of what loads it."""
    began: float
    """When the run was asked for, by `time.monotonic`."""

    def timing(self) -> dict[str, float]:
        first = getattr(self.model, "first_forward", None)
        since = {} if first is None else {"first_forward": first - self.began}
        return {"load": self.load, **since}

    def in_words(self) -> str:
        first = self.timing().get("first_forward")
        if first is None:
            return ""
        return (
            f"evalcore: first forward pass {first:.1f} s after the start; "
            f"loading the model took {self.load:.1f} s\n"
        )


def _check_writable(path: Path | None) -> None:
    """Raises OptionError before anything is loaded, not when all is done."""
    if path is None:
        return
    folder = path.parent if path.suffix == ".json" else path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError as error:
        raise OptionError(f"--output_path: {path} cannot be written: {error.strerror}") from error
    if not writable:
        raise OptionError(f"--output_path: {path} cannot be written: permission denied")


@contextmanager
def _place(options: argparse.Namespace, model: str) -> Iterator[AtWork]:
    """Without --output_path the files live as long as the command."""
    from evalcore.formats.lmeval.results import folder_name

    stamp = datetime.now().isoformat().replace(":", "-")
    path: Path | None = options.output_path
    is_file = path is not None and path.suffix == ".json"
    with ExitStack() as ending:
        if path is None:
            folder = Path(ending.enter_context(tempfile.TemporaryDirectory()))
        else:
            folder = path.parent if is_file else path / folder_name(model)
        folder.mkdir(parents=True, exist_ok=True)
        place = AtWork(folder, path.stem if path and is_file else "results", stamp)
        ending.callback(place.close)
        yield place


@dataclass
class Written:
    """What a run has written so far."""

    place: AtWork
    options: argparse.Namespace
    done: list[tuple[Any, Path]] = field(default_factory=list)
    """The record and the path of the samples of each finished task or group."""

    def add(self, evaluation: Any) -> None:
        """Writes a finished task or group, and says so."""
        from evalcore.formats.lmeval.results import folder_name

        record = evaluation.record
        stem = f"{folder_name(record.task)}_{self.place.stamp}"
        files = evaluation.write(self.place.folder, stem)
        if self.options.write_out:
            sys.stderr.write(first_prompts(evaluation.samples))
        self.options.show.task(record, files, evaluation.error)
        self.done.append((record, files[1]))

    def finish(self) -> dict[str, Path]:
        """Writes lm-evaluation-harness's files about everything that was finished, if asked to."""
        if not self.done:
            self.place.done([])
            return {}
        results, files = self._results()
        self.place.done(record for record, _ in self.done)
        if self.options.show_config:
            sys.stdout.write(f"{results}\n")
        return files

    def _results(self) -> tuple[str, dict[str, Path]]:
        """The results JSON, and what was written where: that and, if asked for, samples."""
        from evalcore.formats.lmeval.results import git_hash, results_json
        from evalcore.formats.lmeval.samples import task_hashes, write_task_lines
        from evalcore.record import read_samples

        options, place = self.options, self.place
        path = place.folder / f"{place.stem}_{place.stamp}.json"
        files = {"results": path}
        hashes: dict[str, str] = {}
        n_files = 0
        for record, samples_path in self.done:
            samples = list(read_samples(samples_path))
            hashes |= task_hashes(samples)
            for leaf in record.configs if options.log_samples or options.predict_only else ():
                of_leaf = [sample for sample in samples if sample["task"] == leaf]
                write_task_lines(of_leaf, leaf, place.folder, place.stamp)
                n_files += 1
        if n_files:
            files[f"samples of {n_files} task{'s' * (n_files > 1)}"] = place.folder
        records = [record for record, _ in self.done]
        results = results_json(records, config_of(options), hashes, git_hash())
        text = json.dumps(results, indent=2, ensure_ascii=False)
        if not options.output_path:
            return text, {}
        write_whole(path, text)
        return text, files


def config_of(options: argparse.Namespace) -> dict[str, Any]:
    """What the results file says about the command."""
    python, numpy, torch, fewshot = options.seed
    return {
        "model": options.model,
        "model_args": typed_model_args(options),
        "batch_size": options.batch_size or "auto",
        "device": options.device,
        "use_cache": str(options.use_cache) if options.use_cache else None,
        "gen_kwargs": options.gen_kwargs or {},
        "random_seed": python,
        "numpy_seed": numpy,
        "torch_seed": torch,
        "fewshot_seed": fewshot,
    }
