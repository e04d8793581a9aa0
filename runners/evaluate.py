"""One claim, from its runs to their stored results: fetch, run, store, tidy.

Read `evaluate_claim` first. Two children work one after the other, both confined: the first
downloads what is pinned and runs nothing of it, the second runs the model and is offline. Both are
the commands that the run's page shows.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from django.conf import settings
from structlog.contextvars import bound_contextvars

from evalcore.sandbox.confinement import Needs
from leaderboard.models import Run, Variant, Worker
from leaderboard.models.run import ErrorClass, State
from leaderboard.queue import claims, records, reproduce
from leaderboard.samples import store as artifacts
from runners import cleanup, sandboxed
from runners.cleanup import in_use, journal_folder
from runners.engine import EngineRequest, Keeper
from runners.failures import Failed, Stopping, Taken, blame, full_machine_fails, judge
from runners.folders import Footprint, empty, hides_files, remove
from runners.process import Child, Documents, Failure, TaskDone, Waits
from runners.registration import persistently
from runners.results import store
from runners.sandboxed import child_environment, confined, download_folders, limits
from runners.watch import Heartbeat, Watch

logger = logging.getLogger(__name__)

DOWNLOADED_FILE_BYTES = 1 << 40
"""More than any file of weights on the Hub has."""


def evaluate_claim(
    claim: claims.Claim, worker: Worker, stopping: threading.Event, keeper: Keeper
) -> None:
    """Evaluate the claim's runs and store what each one gave; ends when none is ours any more.

    Each pass evaluates some of the runs together. What it leaves undone, because a run was
    cancelled or a task failed, the next pass takes up from the journal. Unfinished runs are given
    back when `stopping` is set, when the worker is drained, and when the lease could not be renewed
    for as long as it lasts. `keeper` has the engine of the claim before and is given that of this.
    """
    log = settings.PLUMBLINE_HOME / "logs" / f"{claim.token}.log"
    with bound_contextvars(claim=str(claim.token), runs=[str(run.pk) for run in claim.runs]):
        keeper.release_other(claim.runs[0].variant)
        with Heartbeat(claim, worker) as heartbeat:
            waiting, one_by_one = list(claim.runs), False
            while waiting and not (stopping.is_set() or heartbeat.wants_runs_back()):
                together = _runs_of_next_child(waiting, one_by_one)
                behind = [run for run in waiting if run not in together]
                persistently(partial(claims.put_behind, claim.token, behind))
                runs = {run.task.name: run for run in together}
                watch = Watch(claim, worker, heartbeat, runs, stopping)
                try:
                    _refuse_unlisted_code(claim.runs[0].variant)
                    with full_machine_fails():
                        log.parent.mkdir(parents=True, exist_ok=True)
                        with _work_folder(claim) as folder:
                            _fetch(watch, folder, log)
                        _run(watch, folder, log, keeper)
                except (Taken, Stopping) as interruption:
                    logger.info("%s: %s", claim.token, interruption.__doc__)
                except Failed as problem:
                    failure = watch.check_disk(problem) if problem.disk_full else problem
                    logger.warning("%s: %s: %s", claim.token, failure.error_class, failure.message)
                    if failure.no_room:
                        why = failure.message
                        persistently(partial(claims.set_aside, claim.token, worker, message=why))
                        break
                    # Where nobody says which of several tasks is at fault, the next passes find it.
                    one_by_one = not blame(watch, failure, log)
                if behind:
                    keeper.release()  # each of the passes has a child of its own
                ours = persistently(partial(claims.renew, claim.token))
                waiting = [run for run in waiting if run.pk in ours]
            why = heartbeat.why_given_back()
            persistently(partial(claims.give_back, claim.token, why=why))
        persistently(partial(_tidy, claim, log, keeper))


def _runs_of_next_child(waiting: Sequence[Run], one_by_one: bool) -> Sequence[Run]:
    """Those of the runs for one child: all, but for each that has its last attempt, by itself.

    Whatever ends a child then ends no other run for good.
    """
    if one_by_one:
        return waiting[:1]
    others = [run for run in waiting if run.attempt < claims.MAX_ATTEMPTS]
    return others or waiting[:1]


def _refuse_unlisted_code(variant: Variant) -> None:
    """Raises Failed where code of this variant is not listed here, or could get out.

    The site queues such a model by its own list; a worker goes by the list and the confinement that
    it has itself, as it may be another machine.
    """
    for name, commit in variant.code_pins:
        if commit not in settings.PLUMBLINE_TRUSTED_CODE.get(name, ()):
            raise Failed(
                ErrorClass.INFRA,
                f"this worker does not trust the code of {name} at {commit}: list it in "
                "PLUMBLINE_TRUSTED_CODE of every worker, as on the site",
                of_all=True,
            )
    if variant.code_pins and not sandboxed.way_of_machine().namespaces:
        raise Failed(
            ErrorClass.INFRA,
            "this worker cannot keep a model's own code from the network (no namespaces, "
            "docs/sandbox.md), and runs none",
            of_all=True,
        )


def _fetch(watch: Watch, folder: Path, log: Path) -> None:
    """Download the model and the data sets that these runs pin."""
    runs = list(watch.runs.values())
    variant = runs[0].variant
    cleanup.make_room(variant)
    first = [run.task.name for run in runs if persistently(partial(records.opens_a_column, run))]
    command = reproduce.fetch_command(
        *runs, include_path=str(settings.PLUMBLINE_TASKS), documents=first
    )
    environment = child_environment(folder, online=True)
    needs = Needs(
        folder=folder,
        read=sandboxed.engine_folders(),
        write=[
            *download_folders(variant, runs),
            *(Path(environment[name]) for name in ("HOME", "TMPDIR")),
        ],
        network=True,
        limits=limits(
            int(watch.longest_download() * (os.cpu_count() or 1)), file_bytes=DOWNLOADED_FILE_BYTES
        ),
    )
    words = [*sandboxed.engine_python(), "-m", *command, "--progress", "json"]
    footprint = Footprint([folder], [sandboxed.hub_home()], cleanup.most_to_come(variant))
    with Child(confined(words, needs), environment=environment, folder=folder, log=log) as child:
        failure = None
        for event in watch.follow(child, "download", footprint):
            if isinstance(event, Failure):
                failure = event
            elif isinstance(event, Documents):
                watch.documents[event.task] = event.docs_digest
        judge(child.kill(), failure, watch)
    if unknown := sorted({*first} - watch.documents.keys()):
        raise Failed(ErrorClass.INFRA, f"the download did not say what {unknown[0]} asks")


def _run(watch: Watch, folder: Path, log: Path, keeper: Keeper) -> None:
    """Have an engine answer what the runs ask, and store each task's results as they come."""
    runs = list(watch.runs.values())
    journal = journal_folder(runs[0])
    if hides_files(journal):
        remove(journal)  # and what was answered with it: no engine of ours has left it so
    journal.mkdir(parents=True, exist_ok=True)
    request = EngineRequest(tuple(runs), watch.device, journal, watch.longest())
    with keeper.engine(request, folder, log) as engine:
        footprint = Footprint([engine.folder, journal], [artifacts.storage().here])
        failure, waits = None, False
        for event in watch.follow(engine.child, "load", footprint):
            if isinstance(event, TaskDone) and event.task in watch.runs:
                store(watch, event, engine)
            elif isinstance(event, Failure):
                failure = event
            waits = isinstance(event, Waits)
        if waits and not watch.runs and not watch.must_stop():
            keeper.keep(engine)
            return
        judge(0 if waits else engine.child.kill(), failure, watch)
    if watch.runs:
        names = ", ".join(sorted(watch.runs))
        raise Failed(ErrorClass.INFRA, f"the engine ended without results for {names}")


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
        journal = journal_folder(first)
        empty(journal)
        if not keeper.holds(journal):
            remove(journal)
