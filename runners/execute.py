"""From a claim to stored results: read `evaluate_claim` first.

Two children, one after the other. The first downloads what is pinned and runs nothing of it; the
second runs the model, offline. They are the commands that the run's page shows.
"""

from __future__ import annotations

import dataclasses
import logging
import shutil
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from evalcore.record import RunRecord
from leaderboard import artifacts, queue, reproduce
from leaderboard.models import Artifact, Run, Worker
from leaderboard.models.run import ErrorClass, State
from runners.logtail import harmless, tail
from runners.process import PYTHON, Child
from runners.protocol import ERRORS, Failure, TaskDone
from runners.sandbox import child_environment, no_network
from runners.watch import Failed, Stopping, Taken, Watch
from runners.withheld import REASON, may_be_quoted

logger = logging.getLogger(__name__)

STOPPED = 75
"""Exit status of an engine that stopped because it was asked to."""


def evaluate_claim(claim: queue.Claim, worker: Worker, stopping: threading.Event) -> None:
    """Evaluate the claim's runs and store what each one gave; ends when none is ours any more.

    What one pass leaves undone, because a run was cancelled or a task failed, the next pass takes
    up from the journal. When `stopping` is set the unfinished runs are given back.
    """
    waiting = list(claim.runs)
    log = settings.PLUMBLINE_HOME / "logs" / f"{claim.token}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    one_by_one = False
    while waiting and not stopping.is_set():
        runs = {run.task.name: run for run in (waiting[:1] if one_by_one else waiting)}
        watch = Watch(claim, worker, runs, stopping)
        try:
            with _work_folder(claim) as folder:
                _fetch(watch, folder, log)
                _evaluate(watch, folder, log)
        except (Taken, Stopping) as interruption:
            logger.info("%s: %s", claim.token, interruption.__doc__)
        except Failed as failure:
            logger.warning("%s: %s: %s", claim.token, failure.error_class, failure.message)
            # Where nobody says which of several tasks is at fault, the next passes find it.
            one_by_one = not _blame(watch, failure, log)
        ours = queue.renew(claim.token)
        waiting = [run for run in waiting if run.pk in ours]
    queue.give_back(claim.token, why=f"{claim.worker} was stopped")
    _tidy(claim, log)


def _fetch(watch: Watch, folder: Path, log: Path) -> None:
    tasks = str(settings.PLUMBLINE_TASKS)
    command = reproduce.fetch_command(*watch.runs.values(), include_path=tasks)
    command += ["--progress", "json"]
    environment = child_environment(folder, online=True)
    with Child([*PYTHON, "-m", *command], environment=environment, folder=folder, log=log) as child:
        failure = None
        for event in watch.follow(child, "download"):
            if isinstance(event, Failure):
                failure = event
        _judge(child.kill(), failure, watch)


def _evaluate(watch: Watch, folder: Path, log: Path) -> None:
    runs = list(watch.runs.values())
    command = reproduce.command(
        *runs,
        include_path=str(settings.PLUMBLINE_TASKS),
        output_path=str(folder / "results"),
    )
    journal = _journal(runs[0])
    journal.mkdir(parents=True, exist_ok=True)
    command += ["--use_cache", str(journal), "--progress", "json"]
    environment = child_environment(folder, online=False)
    isolated = [*no_network(), *PYTHON, "-m", *command]
    with Child(isolated, environment=environment, folder=folder, log=log) as child:
        failure = None
        for event in watch.follow(child, "load"):
            if isinstance(event, TaskDone) and event.task in watch.runs:
                _store(watch, event, folder)
            elif isinstance(event, Failure):
                failure = event
        _judge(child.kill(), failure, watch)
    if watch.runs:
        names = ", ".join(sorted(watch.runs))
        raise Failed(ErrorClass.INFRA, f"the engine ended without results for {names}")


def _store(watch: Watch, event: TaskDone, folder: Path) -> None:
    """Put a finished task's files into the store, and its numbers into the database."""
    run = watch.runs[event.task]
    try:
        record_file = _inside(folder, event.record)
        samples_file = _inside(folder, event.samples)
        record = RunRecord.read(record_file)
    except (ValueError, OSError) as problem:
        raise Failed(ErrorClass.INFRA, f"{event.task}: {problem}", event.task) from problem
    if record.run_key != run.run_key:
        raise Failed(
            ErrorClass.TASK,
            f"{event.task}: the task files on this worker are not those of the queued version",
            event.task,
        )
    isolation = "none" if no_network() else "not isolated"
    record = dataclasses.replace(record, environment={**record.environment, "network": isolation})
    samples = artifacts.store(samples_file, kind=Artifact.Kind.SAMPLES, rows=record.samples.rows)
    if samples.sha256 != record.samples.sha256:
        message = f"{event.task}: the sample file is not the one that its record describes"
        raise Failed(ErrorClass.INFRA, message, event.task)
    files = [artifacts.store(record_file, kind=Artifact.Kind.RECORD), samples]
    try:
        queue.complete(watch.token, run, record, files)
    except queue.LeaseLost:
        raise Taken from None
    except ValueError as problem:
        raise Failed(ErrorClass.INFRA, str(problem), event.task) from problem
    watch.finished(event.task)
    logger.info("%s is done", run)


def _inside(folder: Path, name: str) -> Path:
    """The file of that name, which must lie in `folder`: a child could name any file of ours."""
    file = (folder / name).resolve()
    if not file.is_relative_to(folder.resolve()) or not file.is_file():
        raise ValueError(f"no file of the run: {Path(name).name!r}")
    return file


def _judge(status: int, failure: Failure | None, watch: Watch) -> None:
    """Raise what the child's end means, unless it ended well."""
    if status == 0:
        return
    by_status = {error.exit_code: name for name, error in ERRORS.items()}
    if failure and by_status.get(status) == failure.error_class != ErrorClass.INFRA:
        raise _told(failure, watch)
    if status == STOPPED or watch.stopping.is_set():
        raise Stopping
    if failure:
        raise _told(failure, watch)
    if status == -signal.SIGKILL and watch.was_out_of_memory():
        raise Failed(ErrorClass.MODEL, "out of memory: the system killed the model's process")
    if status < 0:
        message = f"the model's process was ended by {signal.Signals(-status).name}"
        raise Failed(ErrorClass.INFRA, message)
    error_class = ErrorClass(by_status.get(status, ErrorClass.INFRA))
    raise Failed(error_class, f"the engine ended with exit status {status} and gave no reason")


def _told(failure: Failure, watch: Watch) -> Failed:
    """What the child says of its failure, as everybody may read it."""
    quotes = may_be_quoted(watch.claimed)
    message = REASON if quotes else harmless(failure.message)
    return Failed(ErrorClass(failure.error_class), message, failure.task)


def _blame(watch: Watch, failure: Failed, log: Path) -> bool:
    """Fail the runs that a failure is about; False where nobody knows which of several it is.

    A model may fail in one task and do well in others. Where our machine fails, whatever task it
    was at, all runs rest.
    """
    guilty: Sequence[Run] = list(watch.runs.values())
    if failure.task in watch.runs and failure.error_class != ErrorClass.INFRA:
        guilty = [watch.runs[failure.task]]
    elif failure.error_class == ErrorClass.TASK and len(guilty) > 1:
        return False
    said = "" if may_be_quoted(watch.claimed) else tail(log)
    for run in guilty:
        try:
            queue.fail(
                watch.token,
                run,
                error_class=failure.error_class,
                message=failure.message,
                log_tail=said,
            )
        except queue.LeaseLost:
            logger.info("%s was taken away before it failed", run)
    return True


def _journal(run: Run) -> Path:
    return Path(settings.PLUMBLINE_HOME / "journal" / str(run.variant_id))


@contextmanager
def _work_folder(claim: queue.Claim) -> Iterator[Path]:
    folder = Path(settings.PLUMBLINE_HOME / "work" / str(claim.token))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _tidy(claim: queue.Claim, log: Path) -> None:
    """After success: remove the log, and the journal when no run of the variant needs it."""
    if Run.objects.filter(pk__in=[run.pk for run in claim.runs]).exclude(state=State.DONE).exists():
        return
    log.unlink(missing_ok=True)
    unfinished = Run.objects.filter(
        variant_id=claim.runs[0].variant_id, state__in=(State.QUEUED, State.RUNNING)
    )
    if not unfinished.exists():
        shutil.rmtree(_journal(claim.runs[0]), ignore_errors=True)
