"""`evalcore convert`: results of any known form, written in another."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from evalcore.command.files import read
from evalcore.command.options import OptionError
from evalcore.evaluation import Evaluation
from evalcore.formats import table
from evalcore.formats.every_eval_ever import aggregate
from evalcore.formats.lmeval.results import folder_name, results_json
from evalcore.formats.lmeval.samples import task_hashes, write_task_lines
from evalcore.formats.run_files import Run
from evalcore.whole_file import write_whole


def convert(options: argparse.Namespace) -> int:
    """Writes every run of the files; prints the paths."""
    runs = read(options.files)
    folder: Path = options.output_path
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"--output_path: {folder} cannot be written: {error.strerror}") from error
    if options.to == "record":
        written = _records(runs, folder)
    elif options.to == "lm-eval":
        written = _lm_eval(runs, folder)
    elif options.to == "parquet":
        written = _parquet(runs, folder)
    else:
        written = _every_eval_ever(runs, folder, options.organization)
    sys.stdout.write("".join(f"{path}\n" for path in written))
    return 0


def _stem(run: Run) -> str:
    """Names a run among others: its model, task and time."""
    started = run.record.started.replace(":", "-")
    return folder_name(f"{run.record.model['repository']}_{run.record.task}_{started}")


def _records(runs: Sequence[Run], folder: Path) -> list[Path]:
    return [
        path
        for run in runs
        for path in Evaluation(run.record, run.samples).write(folder, _stem(run))
    ]


def _lm_eval(runs: Sequence[Run], folder: Path) -> list[Path]:
    """Runs of one command share a results file, as they did there."""
    commands: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        model = run.record.model_name
        commands.setdefault((model, _time_of(run)), []).append(run)
    written = []
    for (model, time), of_command in commands.items():
        place = folder / folder_name(model)
        place.mkdir(exist_ok=True)
        hashes: dict[str, str] = {}
        for run in of_command:
            hashes |= task_hashes(run.samples)
            for leaf in run.record.configs if run.samples else ():
                samples = [sample for sample in run.samples if sample["task"] == leaf]
                written.append(write_task_lines(samples, leaf, place, time))
        results = results_json([run.record for run in of_command], {}, hashes)
        path = place / f"results_{time}.json"
        write_whole(path, json.dumps(results, indent=2, ensure_ascii=False))
        written.append(path)
    return written


def _time_of(run: Run) -> str:
    """The time that the files of one command bear in their names, else that of the run."""
    _, underscore, time = run.source.stem.rpartition("_")
    is_time = underscore and len(time) > 10 and time[10] == "T"
    return time if is_time else run.record.started.replace(":", "-")


def _parquet(runs: Sequence[Run], folder: Path) -> list[Path]:
    numbers = folder / "results.parquet"
    table.write_results([run.record for run in runs], numbers)
    written = [numbers]
    for run in runs:
        path = folder / f"run_{_stem(run)}.parquet"
        table.write_run(run.record, run.samples, path)
        written.append(path)
    return written


def _every_eval_ever(runs: Sequence[Run], folder: Path, organization: str) -> list[Path]:
    now = datetime.now(UTC)
    return [
        path
        for run in runs
        for path in aggregate.write(
            run.record, run.samples, folder, organization=organization, now=now
        )
    ]
