"""A model that is several copies: this process reads and writes down, they compute.

Whoever evaluates sees one model: the same pins, keys, requests and answers, in another order. Which
copy answers what depends on which is free; what they say of a request differs by rounding at most,
as it does between two runs of one process that were interrupted at different requests.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, Listener, Pipe, wait
from pathlib import Path
from typing import Any

from evalcore.errors import InfraError, ModelError
from evalcore.model.base import LM, Answers, ChatTemplate, EncodedRequest, ModelInfo, Request
from evalcore.model.capabilities import Capabilities
from evalcore.model.parallel.launch import Launched, meet, without_launcher
from evalcore.model.parallel.messages import (
    Done,
    Failed,
    Loaded,
    Loading,
    Pack,
    Part,
    Share,
    Told,
    Unwanted,
)
from evalcore.model.parallel.shares import shares_of
from evalcore.model.protocols import Spelled
from evalcore.model.registry import backend_of


@dataclass(eq=False)
class Member:
    """A process that holds a copy, or a part of one."""

    name: str
    connection: Connection
    process: subprocess.Popen[bytes] | None
    """None for one that a launcher has started."""

    def send(self, message: object) -> None:
        try:
            self.connection.send(message)
        except OSError as gone:
            raise self._ended() from gone

    def told(self) -> Told:
        """Raises InfraError where it has ended."""
        try:
            message: Told = self.connection.recv()
        except (EOFError, OSError) as gone:
            raise self._ended() from gone
        return message

    def loaded(self) -> Loaded:
        """Raises what it raised when it loaded the model."""
        message = self.told()
        if isinstance(message, Failed):
            raise message.kind(message.reason)
        assert isinstance(message, Loaded)  # noqa: S101  # which is what it says first
        return message

    def _ended(self) -> InfraError:
        how = ""
        if self.process is not None:
            with suppress(subprocess.TimeoutExpired):
                status = self.process.wait(5)
                how = f" by signal {-status}" if status < 0 else f" with status {status}"
        return InfraError(
            f"{self.name} ended{how}: start again, with --use_cache to go on from what is answered"
        )


@dataclass(eq=False)
class Replica:
    """One copy of the model: the process that holds it, or those that hold its parts, of which the
    first speaks for all."""

    members: Sequence[Member]
    busy: int = 0
    """The number of the share that it has in hand; 0: none."""

    def send(self, share: Share) -> None:
        self.busy = share.number
        for member in self.members:
            member.send(share)

    def drop(self) -> None:
        """No answer is wanted any more to what it has in hand; parts end that in step."""
        if len(self.members) == 1:
            self.members[0].send(Unwanted(self.busy))


class Replicas:
    """Copies of one model; satisfies `evalcore.model.base.LM`."""

    def __init__(self, reader: LM, replicas: Sequence[Replica], loading: Loading) -> None:
        """`reader`: the same model without its weights, which reads in this process.

        Raises what a copy raised when it loaded the model, InfraError where two hold different
        models.
        """
        self._reader = reader
        self._replicas = replicas
        self._execution: dict[Replica, Mapping[str, Mapping[str, Any]]] = {}
        self._number = 0
        self.first_forward: float | None = None
        """When one was first run, by `time.monotonic`."""
        loaded = [member.loaded() for replica in replicas for member in replica.members]
        self.accelerators = [place for each in loaded for place in each.accelerators]
        infos = [each.info for each in loaded]
        if len({info.model_key for info in infos}) > 1:
            raise InfraError(
                f"{loading.arguments.get('pretrained', 'the model')} changed while its copies were "
                "loaded: start again, or state its commit as revision"
            )
        self.info: ModelInfo = replace(infos[0], device=", ".join(info.device for info in infos))

    @property
    def capabilities(self) -> Capabilities:
        return self._reader.capabilities

    @property
    def reads_ahead(self) -> bool:
        return bool(getattr(self._reader, "reads_ahead", False))

    @property
    def execution(self) -> dict[str, dict[str, Any]]:
        """As one copy says it where all say the same; else all that they say."""
        kinds = {kind: None for how in self._execution.values() for kind in how}
        return {
            kind: _joined([how[kind] for how in self._execution.values() if how.get(kind)])
            for kind in kinds
        }

    def encode(self, requests: Sequence[Request], *, seed: int = 1234) -> list[EncodedRequest]:
        return self._reader.encode(requests, seed=seed)

    def chat_template(self, name: str | None = None) -> ChatTemplate:
        return self._reader.chat_template(name)

    def token_texts(self, tokens: Sequence[int]) -> list[str | None]:
        if isinstance(self._reader, Spelled):
            return self._reader.token_texts(tokens)
        return [None] * len(tokens)

    def answer(self, requests: Sequence[EncodedRequest]) -> Answers:
        """Raises what a copy raises, InfraError where one has ended."""
        self._execution.clear()
        waiting = deque(shares_of(requests, len(self._replicas)))
        places: dict[int, range] = {}
        try:
            while waiting or places:
                for replica in self._idle():
                    if waiting:
                        self._number += 1
                        places[self._number] = share = waiting.popleft()
                        replica.send(Share(self._number, [requests[place] for place in share]))
                for replica, member in self._speaking():
                    message = member.told()
                    if not isinstance(message, Pack):
                        replica.busy = 0
                    if isinstance(message, Loaded) or message.share not in places:
                        continue  # of a share that nobody wants any more
                    match message:
                        case Pack():
                            share = places[message.share]
                            yield [(share[at], response) for at, response in message.answers]
                        case Done():
                            del places[message.share]
                            self._note(replica, message)
                        case Failed():
                            del places[message.share]
                            raise message.kind(message.reason)
        finally:
            for replica in self._replicas:
                if replica.busy in places:
                    with suppress(InfraError):
                        replica.drop()

    def _idle(self) -> list[Replica]:
        return [replica for replica in self._replicas if not replica.busy]

    def _speaking(self) -> Iterator[tuple[Replica, Member]]:
        busy = {
            member.connection: (replica, member)
            for replica in self._replicas
            if replica.busy
            for member in replica.members
        }
        for connection in wait(list(busy)):
            assert isinstance(connection, Connection)  # noqa: S101  # nothing else was given
            yield busy[connection]

    def _note(self, replica: Replica, done: Done) -> None:
        self._execution[replica] = done.execution
        if done.first_forward is not None:
            known = self.first_forward
            self.first_forward = min(known or done.first_forward, done.first_forward)


def replicas_of(
    loading: Loading, devices: Sequence[str], launcher: Launched | None = None
) -> Replicas:
    """The model in as many processes as there are devices, each loaded on its own.

    With `launcher` its other processes hold copies, and one is started beside this one, which is
    rank 0. Raises ModelError for a backend that does not divide its requests so, and as `Replicas`.
    """
    _check_can_be_divided(loading)
    backend = backend_of(loading.backend)
    n_started = len(devices) if launcher is None else 1
    connections: list[tuple[Connection, subprocess.Popen[bytes] | None]] = [
        _started() for _ in range(n_started)
    ]
    with tempfile.TemporaryDirectory(prefix="evalcore-") as folder:  # that nobody else may enter
        if launcher is not None:
            connections += [(joined, None) for joined in _joining(launcher.size - 1, Path(folder))]
        in_parts = loading.arguments.get("tp_plan") is not None
        members = []
        for rank, (connection, process) in enumerate(connections):
            what = "part" if in_parts else "copy"
            name = f"{what} {rank + 1} of {len(devices)} of the model, on {devices[rank]},"
            part = Part(rank=rank, size=len(devices), meeting=Path(folder) / "parts")
            members.append(Member(name, connection, process))
            members[-1].send(
                replace(loading, device=devices[rank], part=part if in_parts else None)
            )
        reader = backend.from_arguments(
            loading.arguments, batch_size=loading.batch_size, mode=loading.mode, weights=False
        )
        copies = [members] if in_parts else [[member] for member in members]
        return Replicas(reader, [Replica(of_one) for of_one in copies], loading)


def _check_can_be_divided(loading: Loading) -> None:
    if not backend_of(loading.backend).capabilities.copies:
        raise ModelError(
            f"--model {loading.backend} is not divided among processes: leave --data_parallel, "
            "torchrun and accelerate launch out"
        )
    if loading.arguments.get("parallelize", "").lower() == "true":
        raise ModelError(
            "--model_args: parallelize=True spreads a model over all GPUs from one process, and "
            "here each has a GPU of its own: leave parallelize out, or --data_parallel and torchrun"
        )


def _started() -> tuple[Connection, subprocess.Popen[bytes]]:
    ours, theirs = Pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "evalcore.model.parallel.replica", str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        env=without_launcher(),
        stdin=subprocess.DEVNULL,
    )
    theirs.close()  # so that its end shows
    return ours, process


def _joining(number: int, folder: Path) -> Iterator[Connection]:
    """Those of a launcher's processes that rank 0 asks for help, as they come."""
    with Listener(str(folder / "rank-0")) as listener:  # all run on this machine
        meet(str(listener.address))
        for _ in range(number):
            yield listener.accept()


def _joined(told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What copies say of how they computed one kind of requests, and how many they are."""
    return {**_together(told), "copies": len(told)}


def _together(told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of each entry what all say, or the lowest number, or all texts; counts are summed up."""
    names = {name: None for each in told for name in each}
    return {name: _value(name, [each[name] for each in told if name in each]) for name in names}


def _value(name: str, values: Sequence[Any]) -> Any:
    if name == "halvings":
        return sum(values)
    if all(isinstance(value, Mapping) for value in values):
        return _together(values)
    if all(value == values[0] for value in values):
        return values[0]
    if all(isinstance(value, int | float) for value in values):
        return min(values)
    return "; ".join(dict.fromkeys(map(str, values)))
