"""What each command does; imported only when one is given."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

from evalcore.cli import STOPPED, TASKS
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.load import TaskLibrary


def run(options: argparse.Namespace) -> int:
    """Evaluate; writes records as each task completes, lm-evaluation-harness's files at the end."""
    from evalcore.model.snapshot import Arguments

    show = options.show
    show.start()
    specs = _specs(options)
    arguments = Arguments.of(options.model_args)
    show.phase("load")
    from evalcore.evaluate import Settings, Stopped, evaluate
    from evalcore.formats.lmeval import folder_name
    from evalcore.journal import Journal
    from evalcore.model.huggingface import HuggingFaceLM

    model = HuggingFaceLM(arguments, batch_size=options.batch_size, device=options.device)
    settings = Settings(
        mode=options.mode,
        num_fewshot=options.num_fewshot,
        fewshot_seed=options.seed,
        limit=options.limit,
    )
    journal = Journal(options.use_cache, model.info.model_key) if options.use_cache else None
    stamp = datetime.now().isoformat().replace(":", "-")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if options.output_path:
            folder = options.output_path / folder_name(arguments.pretrained)
            folder.mkdir(parents=True, exist_ok=True)
        written = []
        try:
            for evaluation in evaluate(model, specs, settings, show, journal):
                record_path, samples_path = evaluation.write(
                    folder, f"{folder_name(evaluation.record.task)}_{stamp}"
                )
                show.task(evaluation.record, record_path, samples_path)
                written.append((evaluation.record, samples_path))
        except Stopped:
            return STOPPED
        files = _write_theirs(folder, stamp, written, options) if options.output_path else {}
    show.done(files)
    return 0


def fetch(options: argparse.Namespace) -> int:
    """Download the pinned model and the data of the tasks, so that a run needs no network."""
    from evalcore.model.snapshot import Arguments, download
    from evalcore.task.dataset import load_data

    options.show.start()
    options.show.phase("download")
    download(Arguments.of(options.model_args))
    leaves = [leaf for spec in _specs(options) for leaf in spec.leaves()]
    for done, leaf in enumerate(leaves, start=1):
        load_data(leaf)
        options.show.progress(leaf.name, done, len(leaves))
    options.show.done({})
    return 0


def ls(options: argparse.Namespace) -> int:
    """Names of tasks, groups or tags, one a line; unreadable files go to standard error."""
    library = _library(options)
    names: list[str] = getattr(library, options.kind)
    sys.stdout.write("".join(f"{name}\n" for name in names))
    for problem in library.unreadable:
        sys.stderr.write(f"{problem}\n")
    return 0


def _library(options: argparse.Namespace) -> TaskLibrary:
    return TaskLibrary([TASKS, *options.include_path])


def _specs(options: argparse.Namespace) -> list[TaskSpec | GroupSpec]:
    return _library(options).select(options.tasks)


def _write_theirs(
    folder: Path, stamp: str, written: list[tuple[Any, Path]], options: argparse.Namespace
) -> dict[str, Path]:
    """lm-evaluation-harness's results JSON and, where asked for, a samples JSONL per leaf task."""
    from evalcore.formats.lmeval import results_json, sample_lines, task_hash
    from evalcore.record import read_samples

    files = {"results": folder / f"results_{stamp}.json"}
    given = {
        "model": options.model,
        "model_args": options.model_args,
        "batch_size": options.batch_size or "auto",
        "use_cache": str(options.use_cache) if options.use_cache else None,
    }
    results = results_json([record for record, _ in written], given)
    hashes = {}
    for record, samples_path in written:
        for leaf in record.configs:
            samples = [x for x in read_samples(samples_path) if x["task"] == leaf]
            hashes[leaf] = task_hash(samples)
            if options.log_samples:
                path = folder / f"samples_{leaf}_{stamp}.jsonl"
                path.write_text("".join(sample_lines(samples)), encoding="utf-8")
                files[f"samples of {leaf}"] = path
    results["task_hashes"] = hashes
    files["results"].write_text(json.dumps(results, indent=2, ensure_ascii=False), encoding="utf-8")
    return files
