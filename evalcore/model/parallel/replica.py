"""One copy of the model, or a part of one: a process that loads it and answers share after share.

Processes that hold parts compute the same passes in step, and the first of them speaks for all. A
process ends when the process that evaluates does, whatever ended that one.
"""

from __future__ import annotations

import gc
import os
import queue
import signal
import sys
import threading
from multiprocessing.connection import Client, Connection

from evalcore.engine import COLLECTIONS
from evalcore.errors import EvalError, InfraError
from evalcore.model.base import LM
from evalcore.model.parallel.launch import OF_A_LAUNCHER, meet
from evalcore.model.parallel.messages import (
    Done,
    Failed,
    Loaded,
    Loading,
    Pack,
    Part,
    Share,
    Unwanted,
)
from evalcore.model.protocols import Computing


class Inbox:
    """What is wanted of this copy, read in a thread: while the model is computed, too."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._waiting: queue.SimpleQueue[Loading | Share] = queue.SimpleQueue()
        self.unwanted = 0
        """The highest number of a share that nobody wants any more."""
        threading.Thread(target=self._read, name="evalcore-replica", daemon=True).start()

    def get(self) -> Loading | Share:
        return self._waiting.get()

    def _read(self) -> None:
        while True:
            try:
                message = self._connection.recv()
            except (EOFError, OSError):
                os._exit(0)  # nobody is left to answer to; a pass may take minutes
            if isinstance(message, Unwanted):
                self.unwanted = max(self.unwanted, message.number)
            else:
                self._waiting.put(message)


def serve(connection: Connection) -> None:
    """Answers what comes over the connection for as long as it is open."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; one decides
    inbox = Inbox(connection)
    loading = inbox.get()
    assert isinstance(loading, Loading)  # noqa: S101  # which is how a conversation begins
    speaks = loading.part is None or loading.part.rank == 0
    try:
        if loading.part is not None:
            _come_together(loading.part, loading.device)
        model = _loaded(loading)
        connection.send(Loaded(model.info, getattr(model, "accelerators", ())))
    except EvalError as error:
        connection.send(Failed(0, type(error), error.reason))
        return
    while True:
        share = inbox.get()
        assert isinstance(share, Share)  # noqa: S101
        try:
            if share.number > inbox.unwanted:
                for answers in model.answer(share.requests):
                    if not speaks:
                        continue
                    connection.send(Pack(share.number, answers))
                    if loading.part is None and share.number <= inbox.unwanted:
                        break
        except EvalError as error:
            if speaks or isinstance(error, InfraError):  # which is this process's own
                connection.send(Failed(share.number, type(error), error.reason))
            continue
        if not speaks:
            continue
        execution = model.execution if isinstance(model, Computing) else {}
        first_forward = getattr(model, "first_forward", None)
        connection.send(Done(share.number, execution, first_forward))


def _come_together(part: Part, device: str | None) -> None:
    """The group of processes among which transformers divides the layers of a model."""
    import torch
    from torch import distributed

    # What it divides by, it reads from the launcher's variables.
    told = {"RANK": part.rank, "LOCAL_RANK": part.rank, "WORLD_SIZE": part.size}
    os.environ.update({name: str(number) for name, number in told.items()})
    on_gpu = device is not None and device.startswith("cuda")
    if on_gpu:
        torch.cuda.set_device(part.rank)
    distributed.init_process_group(
        "nccl" if on_gpu else "gloo",
        init_method=part.meeting.as_uri(),
        rank=part.rank,
        world_size=part.size,
    )


def _loaded(loading: Loading) -> LM:
    from evalcore.model.registry import backend_of

    return backend_of(loading.backend).from_arguments(
        loading.arguments,
        batch_size=loading.batch_size,
        device=loading.device,
        mode=loading.mode,
    )


def join() -> int:
    """What a launcher's process of a rank above 0 does: it holds a copy for rank 0."""
    try:
        address = meet(None)
    except EvalError as error:
        sys.stderr.write(f"evalcore: {error}\n")
        return error.exit_code
    for name in OF_A_LAUNCHER:
        os.environ.pop(name, None)
    serve(Client(address))
    return 0


if __name__ == "__main__":
    gc.set_threshold(*COLLECTIONS)
    serve(Connection(int(sys.argv[1])))
