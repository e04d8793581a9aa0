"""An engine that is kept when a claim is done, with its model, for more runs of the same variant.

Kept is a process that was confined for this variant alone and has ended its work well. Until the
next claim all of it is stopped (SIGSTOP): it computes nothing and writes nothing. It is used again
only where a fresh one would be shown the very same files; all else it makes anew (`evalcore run
--stay`).
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Self

from django.conf import settings
from django.db import DatabaseError, InterfaceError

from evalcore.sandbox.confinement import Needs
from leaderboard.models import Run, Variant
from leaderboard.models.run import State
from leaderboard.models.variant import TRANSFORMERS, VLLM
from leaderboard.queue import reproduce
from runners import sandboxed
from runners.cleanup import in_use
from runners.folders import empty, remove
from runners.process import Child
from runners.sandboxed import child_environment, confined, limits, readable_folders

logger = logging.getLogger(__name__)

RESULTS = "results"
LIVING = (State.QUEUED, State.RUNNING)


@dataclass(frozen=True)
class EngineRequest:
    """Runs of one variant that one engine answers together, in whatever folder it works."""

    runs: tuple[Run, ...]
    device: str
    """As the worker's row has it."""
    journal: Path
    seconds: float
    """That all of them may take together."""

    @property
    def variant(self) -> Variant:
        return self.runs[0].variant

    def environment(self, folder: Path) -> dict[str, str]:
        return {**child_environment(folder, online=False), **sandboxed.engine_variables()}

    def needs(self, folder: Path, environment: Mapping[str, str]) -> Needs:
        own = [folder / RESULTS, Path(environment["HOME"]), Path(environment["TMPDIR"])]
        return Needs(
            folder=folder,
            read=[*readable_folders(self.variant), *sandboxed.engine_folders()],
            write=[*own, self.journal],
            loopback=sandboxed.backend() == VLLM,
            limits=limits(
                int(self.seconds * (os.cpu_count() or 1)), mapped_bytes=self.variant.needed_bytes
            ),
        )

    def command(self, folder: Path) -> list[str]:
        """Of evalcore, as the run's page shows it."""
        words = reproduce.command(
            *self.runs,
            include_path=str(settings.PLUMBLINE_TASKS),
            output_path=str(folder / RESULTS),
            model_args=sandboxed.model_args(
                self.device, max(run.needed_bytes for run in self.runs)
            ),
        )
        words += [*sandboxed.device_words(self.device), "--use_cache", str(self.journal)]
        words += ["--progress", "json"]
        # A kept one gives what a fresh one would, to the last bit, so it checks the model again.
        return [*words, "--stay", "--check_again"] if may_stay(self.variant) else words


def may_stay(variant: Variant) -> bool:
    """Whether an engine of this variant may be kept: not what has run code of a model's own, nor
    weights whose library keeps a state."""
    plain = not variant.code and not variant.quantisation
    ours = sandboxed.backend() == TRANSFORMERS
    return bool(settings.PLUMBLINE_KEEP_MODEL > 0 and ours and plain)


@dataclass
class Engine:
    """A confined process in a folder of its own, which goes with it (`end`)."""

    child: Child
    folder: Path
    variant: int
    needs: Needs
    environment: Mapping[str, str]
    folder_identities: Mapping[str, tuple[int, int]]
    journal: Path
    log: Path
    ending: ExitStack

    @classmethod
    def begin(
        cls,
        request: EngineRequest,
        folder: Path,
        log: Path,
    ) -> Self:
        with ExitStack() as ending:
            folder.mkdir(parents=True)
            ending.callback(remove, folder)
            ending.enter_context(in_use(folder))
            (folder / RESULTS).mkdir()
            environment = request.environment(folder)
            needs = request.needs(folder, environment)
            identities = _folder_identities(needs)
            command = [*sandboxed.engine_python(), "-m", *request.command(folder)]
            child = Child(confined(command, needs), environment=environment, folder=folder, log=log)
            ending.callback(child.close)
            rest = ending.pop_all()
        journal, variant = request.journal, request.variant.pk
        return cls(child, folder, variant, needs, environment, identities, journal, log, rest)

    def end(self) -> None:
        self.ending.close()


def _folder_identities(needs: Needs) -> dict[str, tuple[int, int]]:
    """By path which folder lies there: one that was made anew is another."""
    identities = {}
    for place in (*needs.read, *needs.write):
        with suppress(FileNotFoundError):
            status = place.stat()
            identities[str(place)] = (status.st_dev, status.st_ino)
    return identities


class Keeper:
    """What a worker keeps from one claim to the next; use it in a `with` statement."""

    def __init__(self) -> None:
        self._kept: Engine | None = None
        self._since = 0.0

    @property
    def holds_a_model(self) -> bool:
        return self._kept is not None

    def holds(self, place: Path) -> bool:
        """Whether the kept engine writes into this log, or is shown this folder."""
        kept = self._kept
        return kept is not None and (place == kept.log or str(place) in kept.folder_identities)

    @contextmanager
    def engine(
        self,
        request: EngineRequest,
        folder: Path,
        log: Path,
    ) -> Iterator[Engine]:
        """One at work on this request: the kept one where it will do, or a fresh one in `folder`.

        It ends with the statement, unless it was kept meanwhile.
        """
        engine = self._reuse(request, log) or Engine.begin(request, folder, log)
        try:
            yield engine
        finally:
            if engine is not self._kept:
                engine.end()

    def keep(self, engine: Engine) -> None:
        """Stop all of it until it is wanted, if that can be done."""
        limit = engine.needs.limits.get("RLIMIT_CPU")
        # The kernel counts for all claims together; an honest engine is far from the limit.
        worn = limit is not None and engine.child.processor_seconds() > limit / 2
        if not worn and engine.child.freeze():
            empty(engine.folder / RESULTS)
            self._kept, self._since = engine, monotonic()

    def _reuse(self, request: EngineRequest, log: Path) -> Engine | None:
        engine = self._kept
        if engine is None:
            return None
        environment = request.environment(engine.folder)
        needs = request.needs(engine.folder, environment)
        if (
            engine.variant != request.variant.pk
            or needs != engine.needs
            or environment != engine.environment
            or _folder_identities(needs) != engine.folder_identities
        ):
            self.release()
            return None
        engine.log.replace(log)  # in the place of what the download has said, which ended well
        engine.log, self._kept = log, None
        order = json.dumps(request.command(engine.folder)[1:])  # without `evalcore`
        if not engine.child.begin_again(f"{order}\n".encode(), log):
            engine.end()
            return None
        logger.info("the model of %s is loaded already", request.variant)
        return engine

    def release(self) -> None:
        """End what is kept."""
        if self._kept is None:
            return
        engine, self._kept = self._kept, None
        engine.end()
        engine.log.unlink(missing_ok=True)
        alive = Run.objects.filter(variant=engine.variant, state__in=LIVING)
        with suppress(OSError, DatabaseError, InterfaceError):
            if not alive.exists():
                engine.journal.rmdir()  # where it is empty

    def release_other(self, variant: Variant) -> None:
        """End what is kept of any other variant, whose memory is wanted."""
        if self._kept is not None and self._kept.variant != variant.pk:
            self.release()

    def release_idle(self) -> None:
        if monotonic() - self._since >= settings.PLUMBLINE_KEEP_MODEL:
            self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
