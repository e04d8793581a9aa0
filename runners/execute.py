"""From a claim to stored results: read `evaluate_claim` first.

Two children, one after the other, both confined. The first downloads what is pinned and runs
nothing of it; the second runs the model, offline. They are the commands that the run's page shows.
"""

from __future__ import annotations

import dataclasses
import errno
import io
import logging
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from django.conf import settings
from django.db import DataError, IntegrityError
from structlog.contextvars import bound_contextvars

from evalcore.errors import DISK_FULL, DISK_IS_FULL
from evalcore.record import RunRecord
from evalcore.sandbox.confinement import Needs
from leaderboard.models import Artifact, Run, Worker
from leaderboard.models.run import ErrorClass, State
from leaderboard.models.variant import VLLM
from leaderboard.queue import claims, records, reproduce, room
from leaderboard.samples import store as artifacts
from runners import backends, cleanup, hub_cache, sandboxed, trusted_code
from runners.cleanup import in_use
from runners.devices import hardware
from runners.folders import Footprint, empty, hides_files, remove
from runners.handed_over import check_files, open_inside, read_bounded, read_record
from runners.kept import RESULTS, Engine, Keeper
from runners.logtail import harmless, tail
from runners.process import ERRORS, Child, Documents, Failure, TaskDone, Waits
from runners.reconnect import persistently
from runners.sandboxed import child_environment, confined, downloads, limits, readable
from runners.watch import Failed, Heartbeat, Stopping, Taken, Watch
from runners.withheld import REASON, touches_unpublished_data

logger = logging.getLogger(__name__)

STOPPED = 75
"""Exit status of an engine that stopped because it was asked to."""
NO_ROOM = DISK_FULL | {errno.ENOMEM}
"""What the system says to the worker itself where its machine is full."""
DOWNLOADED_FILE_BYTES = 1 << 40
"""More than any file of weights on the Hub has."""


def evaluate_claim(
    claim: claims.Claim,
    worker: Worker,
    stopping: threading.Event,
    keeper: Keeper | None = None,
) -> None:
    """Evaluate the claim's runs and store what each one gave; ends when none is ours any more.

    What one pass leaves undone, because a run was cancelled or a task failed, the next pass takes
    up from the journal. The unfinished runs are given back when `stopping` is set, and when the
    lease could not be renewed for as long as it lasts. `keeper` has the engine of the claim before,
    and is given that of this one; without it none outlives its claim.
    """
    with bound_contextvars(claim=str(claim.token), runs=[str(run.pk) for run in claim.runs]):
        if keeper is not None:
            _evaluate_claim(claim, worker, stopping, keeper)
            return
        with Keeper() as own:
            _evaluate_claim(claim, worker, stopping, own)


def _evaluate_claim(
    claim: claims.Claim, worker: Worker, stopping: threading.Event, keeper: Keeper
) -> None:
    keeper.release_other(claim.runs[0].variant)
    waiting = list(claim.runs)
    log = settings.PLUMBLINE_HOME / "logs" / f"{claim.token}.log"
    one_by_one = False
    with Heartbeat(claim, worker) as heartbeat:
        while waiting and not (stopping.is_set() or heartbeat.drains() or heartbeat.has_run_out()):
            together = _together(waiting, one_by_one)
            behind = [run for run in waiting if run not in together]
            persistently(partial(claims.put_behind, claim.token, behind))
            runs = {run.task.name: run for run in together}
            watch = Watch(claim, worker, heartbeat, runs, stopping)
            try:
                trusted_code.check(waiting[0].variant)
                with _full_machine_told():
                    log.parent.mkdir(parents=True, exist_ok=True)
                    with _work_folder(claim) as folder:
                        _fetch(watch, folder, log)
                    _evaluate(watch, folder, log, keeper)
            except (Taken, Stopping) as interruption:
                logger.info("%s: %s", claim.token, interruption.__doc__)
            except Failed as failure:
                if failure.disk_full:
                    failure = watch.looked_at(failure)
                logger.warning("%s: %s: %s", claim.token, failure.error_class, failure.message)
                if failure.no_room:
                    message = failure.message
                    persistently(partial(room.set_aside, claim.token, worker, message=message))
                    break
                # Where nobody says which of several tasks is at fault, the next passes find it.
                one_by_one = not _blame(watch, failure, log)
            if behind:
                keeper.release()  # each of the passes has a child of its own
            ours = persistently(partial(claims.renew, claim.token))
            waiting = [run for run in waiting if run.pk in ours]
        why = f"{claim.worker} was {'drained' if heartbeat.drains() else 'stopped'}"
        if heartbeat.has_run_out():
            why = f"{claim.worker} could not renew its lease on the run"
        persistently(partial(claims.give_back, claim.token, why=why))
    persistently(partial(_tidy, claim, log, keeper))


@contextmanager
def _full_machine_told() -> Iterator[None]:
    """What the system refuses the worker for want of room becomes Failed."""
    try:
        yield
    except OSError as problem:
        if problem.errno not in NO_ROOM:
            raise
        raise _no_room(problem) from problem


def _no_room(problem: OSError) -> Failed:
    message = f"the worker's machine has no room: {problem.strerror}"
    of_disk = problem.errno in DISK_FULL
    return Failed(ErrorClass.INFRA, message, no_room=not of_disk, disk_full=of_disk)


def _together(waiting: Sequence[Run], one_by_one: bool) -> Sequence[Run]:
    """Those of the runs for one child: all, but for each that has its last attempt, by itself.

    Whatever ends a child then ends no other run for good.
    """
    if one_by_one:
        return waiting[:1]
    others = [run for run in waiting if run.attempt < claims.MAX_ATTEMPTS]
    return others or waiting[:1]


def _fetch(watch: Watch, folder: Path, log: Path) -> None:
    variant = next(iter(watch.runs.values())).variant
    hub_cache.make_room(variant)
    tasks = str(settings.PLUMBLINE_TASKS)
    runs = list(watch.runs.values())
    first = [run.task.name for run in runs if persistently(partial(records.opens_a_column, run))]
    command = reproduce.fetch_command(*runs, include_path=tasks, documents=first)
    command += ["--progress", "json"]
    environment = child_environment(folder, online=True)
    needs = Needs(
        folder=folder,
        read=backends.folders(),
        write=[
            *downloads(variant, watch.runs.values()),
            *(Path(environment[name]) for name in ("HOME", "TMPDIR")),
        ],
        network=True,
        limits=limits(
            int(watch.longest_download() * (os.cpu_count() or 1)), file_bytes=DOWNLOADED_FILE_BYTES
        ),
    )
    wanted = [*backends.python(), "-m", *command]
    footprint = Footprint([folder], [hub_cache.home()], hub_cache.most_to_come(variant))
    with Child(confined(wanted, needs), environment=environment, folder=folder, log=log) as child:
        failure = None
        for event in watch.follow(child, "download", footprint):
            if isinstance(event, Failure):
                failure = event
            elif isinstance(event, Documents):
                watch.documents[event.task] = event.docs_digest
        _judge(child.kill(), failure, watch)
    if unknown := sorted({*first} - watch.documents.keys()):
        raise Failed(ErrorClass.INFRA, f"the download did not say what {unknown[0]} asks")


def _evaluate(watch: Watch, own_folder: Path, log: Path, keeper: Keeper) -> None:
    runs = list(watch.runs.values())
    variant, journal = runs[0].variant, _journal(runs[0])
    if hides_files(journal):
        remove(journal)  # and what was answered with it: no engine of ours has left it so
    journal.mkdir(parents=True, exist_ok=True)

    def around(folder: Path) -> tuple[Needs, dict[str, str]]:
        environment = {**child_environment(folder, online=False), **backends.variables()}
        own = [folder / RESULTS, Path(environment["HOME"]), Path(environment["TMPDIR"])]
        needs = Needs(
            folder=folder,
            read=[*readable(variant), *backends.folders()],
            write=[*own, journal],
            loopback=backends.backend() == VLLM,
            limits=limits(
                int(watch.longest() * (os.cpu_count() or 1)), mapped_bytes=variant.needed_bytes
            ),
        )
        return needs, environment

    def command(folder: Path) -> list[str]:
        words = reproduce.command(
            *runs,
            include_path=str(settings.PLUMBLINE_TASKS),
            output_path=str(folder / RESULTS),
            model_args=backends.arguments(watch.device, max(run.needed_bytes for run in runs)),
        )
        words += [*backends.place(watch.device), "--use_cache", str(journal), "--progress", "json"]
        # A kept one gives what a fresh one would, to the last bit, so it checks the model again.
        return [*words, "--stay", "--check_again"] if keeper.can_keep(variant) else words

    with keeper.engine(variant, around, command, own_folder, log) as engine:
        footprint = Footprint([engine.folder, journal], [artifacts.storage().here])
        failure, waits = None, False
        for event in watch.follow(engine.child, "load", footprint):
            if isinstance(event, TaskDone) and event.task in watch.runs:
                _store(watch, event, engine)
            elif isinstance(event, Failure):
                failure = event
            waits = isinstance(event, Waits)
        if waits and not watch.runs and not watch.must_stop():
            keeper.keep(engine)
            return
        _judge(0 if waits else engine.child.kill(), failure, watch)
    if watch.runs:
        names = ", ".join(sorted(watch.runs))
        raise Failed(ErrorClass.INFRA, f"the engine ended without results for {names}")


def _store(watch: Watch, event: TaskDone, engine: Engine) -> None:
    """Check a finished task's files, put them into the store and its numbers into the database."""
    run, folder = watch.runs[event.task], engine.folder
    with _told_of(event.task):
        with open_inside(folder, event.record) as file:
            # What is read is what is stored: the child could write into its file again.
            text = read_bounded(file)
        record = read_record(text)
        records.check(run, record)
        _check_documents(watch, record)
        with open_inside(folder, event.samples) as file:
            samples = artifacts.store_open(
                file,
                kind=Artifact.Kind.SAMPLES,
                rows=record.samples.rows,
                check=lambda copy: check_files(text, copy, partial(watch.attend, engine.child)),
            )
        files = [artifacts.store_open(io.BytesIO(text), kind=Artifact.Kind.RECORD), samples]
    way = sandboxed.here()
    kept = {
        "network": way.network,
        "confinement": way.name,
        "hardware": hardware(watch.device),
    }
    record = dataclasses.replace(record, environment={**record.environment, **kept})
    try:
        with _told_of(event.task):
            persistently(partial(claims.complete, watch.token, run, record, files))
    except claims.LeaseLost:
        raise Taken from None
    watch.finished(event.task)
    logger.info("%s is done", run)


def _check_documents(watch: Watch, record: RunRecord) -> None:
    """A model's process does not say by itself which questions a column asks."""
    expected = watch.documents.get(record.task, record.docs_digest)
    if record.docs_digest != expected:
        raise ValueError(
            f"{record.task}: the record says that its questions are {record.docs_digest[:12]}, "
            f"the pinned data give {expected[:12]}"
        )


@contextmanager
def _told_of(task: str) -> Iterator[None]:
    """What is wrong with a finished task's files, or keeps them from being stored, fails it."""
    try:
        yield
    except records.OtherTask as problem:
        message = f"{task}: the task files on this worker are not those of the queued version"
        raise Failed(ErrorClass.TASK, message, task) from problem
    except OSError as problem:
        if problem.errno in NO_ROOM:
            raise _no_room(problem) from problem
        raise Failed(ErrorClass.INFRA, f"{task}: {problem}", task) from problem
    except (ValueError, TypeError, KeyError, AttributeError, DataError, IntegrityError) as problem:
        # Of much of a record nobody has said which form it has.
        logger.warning("%s: what was handed over cannot be stored", task, exc_info=True)
        said = str(problem).partition("\n")[0]
        message = said if task in said else f"{task}: {said}"
        raise Failed(ErrorClass.INFRA, message, task) from problem


def _judge(status: int, failure: Failure | None, watch: Watch) -> None:
    """Raise what the child's end means, unless it ended well."""
    if status == 0:
        return
    by_status = {error.exit_code: name for name, error in ERRORS.items()}
    if failure and by_status.get(status) == failure.error_class != ErrorClass.INFRA:
        raise _told(failure, watch)
    if watch.must_stop() or (status == STOPPED and watch.hears_that_it_must_stop()):
        raise Stopping
    if status == STOPPED:  # or it would be begun anew for ever
        message = "the model's process ended as one that was asked to stop, and nobody had asked it"
        raise Failed(ErrorClass.INFRA, message)
    if status == DISK_IS_FULL:
        said = _told(failure, watch).message if failure else "a file could not be written"
        message = f"the worker's disk is full: {said}"
        raise Failed(ErrorClass.INFRA, message, disk_full=True)
    if failure:
        raise _told(failure, watch)
    if status == -signal.SIGKILL and (failed := watch.out_of_memory()):
        raise failed
    if status < 0:
        message = f"the model's process was ended by {_name_of(-status)}"
        raise Failed(ErrorClass.INFRA, message)
    error_class = ErrorClass(by_status.get(status, ErrorClass.INFRA))
    raise Failed(error_class, f"the engine ended with exit status {status} and gave no reason")


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # between SIGRTMIN and SIGRTMAX
        return f"signal {number}"


def _told(failure: Failure, watch: Watch) -> Failed:
    """What the child says of its failure, as everybody may read it."""
    quotes = touches_unpublished_data(watch.claimed)
    message = REASON if quotes else harmless(failure.message)
    return Failed(ErrorClass(failure.error_class), message, failure.task, of_all=True)


def _blame(watch: Watch, failure: Failed, log: Path) -> bool:
    """Fail the runs that a failure is about; False where nobody knows which of several it is.

    A run is blamed only for what it was asked: those that the child had not begun are evaluated in
    the next pass. What the engine itself says of the model or of our machine, without naming a
    task, is true of all.
    """
    guilty: Sequence[Run] = list(watch.runs.values())
    if failure.task in watch.runs:
        guilty = [watch.runs[failure.task]]
    elif failure.error_class == ErrorClass.TASK and len(guilty) > 1:
        return False
    elif not failure.of_all:
        guilty = watch.begun()
    said = "" if touches_unpublished_data(watch.claimed) else tail(log)
    for run in guilty:
        try:
            persistently(
                partial(
                    claims.fail,
                    watch.token,
                    run,
                    error_class=failure.error_class,
                    message=failure.message,
                    log_tail=said,
                )
            )
        except claims.LeaseLost:
            logger.info("%s was taken away before it failed", run)
    return True


def _journal(run: Run) -> Path:
    """What is measured again is asked again: its order has a journal of its own."""
    return Path(settings.PLUMBLINE_HOME / "journal" / cleanup.journal_of(run))


@contextmanager
def _work_folder(claim: claims.Claim) -> Iterator[Path]:
    folder = Path(settings.PLUMBLINE_HOME / "work" / str(claim.token))
    remove(folder)
    folder.mkdir(parents=True)
    try:
        with in_use(folder):
            yield folder
    finally:
        remove(folder)


def _tidy(claim: claims.Claim, log: Path, keeper: Keeper) -> None:
    """After success: remove the log, and the journal when no run of the variant needs it."""
    if Run.objects.filter(pk__in=[run.pk for run in claim.runs]).exclude(state=State.DONE).exists():
        return
    if keeper.holds(log):
        os.truncate(log, 0)
    else:
        log.unlink(missing_ok=True)
    first = claim.runs[0]
    unfinished = Run.objects.filter(
        variant_id=first.variant_id, rerun=first.rerun_id, state__in=(State.QUEUED, State.RUNNING)
    )
    if not unfinished.exists():
        journal = _journal(first)
        empty(journal)
        if not keeper.holds(journal):
            remove(journal)
