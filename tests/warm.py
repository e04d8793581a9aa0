"""Programs of Python that begin with torch imported already: a fork in place of a start.

A start that loads a model takes seconds of a processor for imports alone, and tests start many. One
server for each test process has imported what no environment changes (torch, scipy, pandas and what
these stand on) and forks for each program: a process of its own, with its own number, standard
streams, folder, environment and exit status, to which signals are sent as to any other. All that
reads the environment when it is imported, as the Hub's clients do, and all that is under test is
imported in the fork, as at a start.

Not for tests of the start itself: what it imports, how quick it is, confinement, a kill.
What differs besides: the parent is the server, `/proc` shows its command line, texts hash alike in
all forks of one server, no object that is left at the end is told so (`__del__`), and what
`AT_START` names cannot differ from the environment of the tests.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import IO, Any, NoReturn

PRELOADED = (
    "torch",
    "torch._dynamo",
    "torch.distributed.tensor",
    "torch.export",
    "scipy.optimize",
    "scipy.stats",
    "sklearn.metrics",
    "pandas",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "aiohttp",
    "fsspec",
    "httpx",
    "httpx2",
    "jinja2",
    "yaml",
    "regex",
    "tokenizers",
    "safetensors.torch",
)
"""What takes long to import, starts no thread, and reads nothing that tests set."""

NEVER = ("huggingface_hub", "transformers", "datasets", "accelerate", "evalcore", "tests", "django")
"""What reads its environment when it is imported, or is under test: not for the server."""

AT_START = ("PYTHON", "LANG", "LC_", "LD_", "OMP_", "MKL_", "TORCH", "PYTORCH", "CUDA_")
"""How variables begin that Python, its linker and torch read once, when they start."""

ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""In which the server imports and every program computes; a fork would lose all others."""

IMPORTED_FROM = "PYTHONPATH"
"""The one of these that a program may have of its own: it only adds folders to import from."""

LARGEST_ORDER = 2**17
"""Bytes: of arguments and environment."""


def run(
    arguments: Sequence[object],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    timeout: float,
    stdout: IO[Any] | None = None,
    stderr: IO[Any] | None = None,
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run([sys.executable, *arguments], text=True, ...)`, with nothing to read.

    `arguments` begin with `-m` and a module, or with `-c` and code. What is given no file of its
    own to be written to is captured. Raises ValueError where `env` differs in what counts at a
    start, subprocess.TimeoutExpired after `timeout` seconds, with the program killed.
    """
    given = [str(argument) for argument in arguments]
    variables = {**(os.environ if env is None else env), **ONE_THREAD}
    server = _server_for(variables)
    order = json.dumps({"arguments": given, "env": variables, "cwd": str(cwd or Path.cwd())})
    with contextlib.ExitStack() as stack:
        streams = [
            file or stack.enter_context(tempfile.TemporaryFile("w+"))
            for file in (None, stdout, stderr)
        ]
        here, there = map(stack.enter_context, socket.socketpair())
        files = [there.fileno(), *(file.fileno() for file in streams)]
        socket.send_fds(server, [order.encode()], files)
        there.close()
        here.settimeout(timeout)
        answers = stack.enter_context(here.makefile())
        pid = answers.readline()
        try:
            status = answers.readline()
        except TimeoutError as late:
            os.kill(int(pid), signal.SIGKILL)
            raise subprocess.TimeoutExpired(given, timeout) from late
        if not status:
            raise RuntimeError(f"the server that forks ended before {given[:2]} did")
        outputs = [
            None if file else _whole(stream)
            for file, stream in zip((stdout, stderr), streams[1:], strict=True)
        ]
    return subprocess.CompletedProcess(given, int(status), *outputs)


def _whole(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def _server_for(variables: Mapping[str, str]) -> socket.socket:
    """The line to the server, which is started when it is first wanted."""
    control, known = _start()
    differing = sorted(
        name
        for name in {*variables, *known}
        if name.startswith(AT_START) and name != IMPORTED_FROM
        and variables.get(name) != known.get(name)
    )  # fmt: skip
    if differing:
        raise ValueError(
            f"{', '.join(differing)}: counts when a program starts, and the server of forks has "
            "another: start this one by subprocess"
        )
    return control


@cache
def _start() -> tuple[socket.socket, dict[str, str]]:
    """The line to the server of this test process, and the environment that it started with."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {**os.environ, **ONE_THREAD}
    process = subprocess.Popen(
        [sys.executable, __file__, str(there.fileno())],
        pass_fds=[there.fileno()],
        stdout=subprocess.DEVNULL,  # so that no fork writes line by line, as to a terminal
        # pyarrow's allocator would begin a thread that gives memory back.
        env={**environment, "JE_ARROW_MALLOC_CONF": "background_thread:false"},
    )
    there.close()

    def stop() -> None:
        here.close()
        process.wait(timeout=60)

    atexit.register(stop)
    if not here.recv(1):
        raise RuntimeError("the server that forks did not start; what it said stands above")
    return here, environment


# What follows runs in the server and in its forks.


def serve(control: socket.socket) -> dict[str, Any] | None:
    """Forks for each order until the tests end. In a fork: its order, which is to be run."""
    # An interruption of the tests is their own matter; they hang up then.
    interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)
    ended = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for who waits
    while True:
        message, files, _, _ = socket.recv_fds(control, LARGEST_ORDER, 4)
        if not message:
            return None
        if not os.fork():
            signal.signal(signal.SIGCHLD, ended)
            if pid := os.fork():
                _tell_of(pid, files[0])
            control.close()
            signal.signal(signal.SIGINT, interrupted)
            return _become(json.loads(message), files)
        for number in files:
            os.close(number)


def _tell_of(pid: int, line: int) -> NoReturn:
    """Say which process it is, and when it has ended, how."""
    os.write(line, f"{pid}\n".encode())
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(BrokenPipeError):
        os.write(line, f"{status}\n".encode())
    os._exit(0)


def _become(order: dict[str, Any], files: Sequence[int]) -> dict[str, Any]:
    """Put this fork into the place that it was ordered for; returns the order."""
    line, *streams = files
    os.close(line)
    for place, number in enumerate(streams):
        os.dup2(number, place)
        os.close(number)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    # As at a start, where these draw their seed.
    sys.modules["numpy"].random.seed()
    return order


def begin(arguments: Sequence[str], folders: str) -> None:
    """Run the module or the code, as `python` does with these arguments."""
    how, what, *rest = arguments
    first = str(Path.cwd()) if how == "-m" else ""
    sys.path[:0] = [first, *(folder for folder in folders.split(os.pathsep) if folder)]
    if how == "-m":
        sys.argv[:] = [what, *rest]
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    elif how == "-c":
        sys.argv[:] = ["-c", *rest]
        sys.modules["__main__"] = main = ModuleType("__main__")
        exec(compile(what, "<string>", "exec"), vars(main))
    else:
        raise ValueError(f"{how}: expected -m or -c")


def run_to_its_end(order: Mapping[str, Any]) -> None:
    """As Python does, threads, exit functions and status, but for taking apart all that the server
    has imported: a third of a second for each fork."""
    try:
        begin(order["arguments"], order["env"].get(IMPORTED_FROM, ""))
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if status and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except Exception:
        sys.excepthook(*sys.exc_info())
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status & 0xFF)


def main() -> dict[str, Any] | None:
    own = {name for name in os.environ.get(IMPORTED_FROM, "").split(os.pathsep) if name}
    sys.path[:] = [folder for folder in sys.path[1:] if folder not in own]
    for name in PRELOADED:
        importlib.import_module(name)
    # torch has imported it; it reads variables that tests set, and is imported anew by a program.
    for name in [name for name in sys.modules if name.partition(".")[0] == "tqdm"]:
        del sys.modules[name]
    if early := {name.partition(".")[0] for name in sys.modules} & {*NEVER}:
        sys.exit(f"the server of forks has imported {', '.join(sorted(early))}")
    if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208
        sys.exit("the server of forks has begun a thread, which no fork would have")
    gc.freeze()  # so that a fork's search for garbage copies no page of it
    control = socket.socket(fileno=int(sys.argv[1]))
    control.send(b".")
    return serve(control)


if __name__ == "__main__" and (order := main()):
    run_to_its_end(order)
