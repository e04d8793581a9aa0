"""`python -m demo.hub FOLDER… --port N`: serve folders of models and data sets until stopped."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import uvicorn
import yaml

from demo.hub.faults import Fault, parse_faults
from demo.hub.repositories import KINDS, Library
from demo.hub.server import build_app

CONTENT = Path(__file__).resolve().parent.parent / "content"


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes: 2 for a wrong folder, fault file or port; otherwise how the server was ended."""
    args = parse_arguments(argv)
    try:
        library = Library([check_root(folder) for folder in args.folders])
        n_repositories = sum(len(library.all(kind)) for kind in KINDS)
        faults = read_faults(args.faults) if args.faults else []
        listener = listen(args.host, args.port)
    except ValueError as problem:
        print(f"demo.hub: {problem}", file=sys.stderr)
        return 2
    host, port = listener.getsockname()[:2]
    print(f"Local Hub: {n_repositories} repositories at http://{host}:{port}", flush=True)
    serve(build_server(library, faults, verbose=args.verbose), listener)
    return 0


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m demo.hub", description=__doc__)
    parser.add_argument(
        "folders",
        nargs="*",
        type=Path,
        default=[CONTENT],
        metavar="FOLDER",
        help="holds models/<org>/<name>/ and datasets/<org>/<name>/; of several, the first that has"
        " a repository serves it (default: the demo's content)",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 (default): any free port")
    parser.add_argument("--faults", type=Path, metavar="FILE", help="JSON or YAML list of faults")
    parser.add_argument("--verbose", action="store_true", help="one line per request")
    return parser.parse_args(argv)


def check_root(folder: Path) -> Path:
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder; name one that holds models/ or datasets/")
    if not any((folder / kind).is_dir() for kind in KINDS):
        raise ValueError(
            f"{folder} holds neither models/ nor datasets/; name the folder above them"
        )
    return folder.resolve()


def read_faults(file: Path) -> list[Fault]:
    try:
        return parse_faults(yaml.safe_load(file.read_text(encoding="utf-8")))
    except OSError as problem:
        raise ValueError(f"--faults {file}: {problem.strerror}; name a readable file") from None
    except (yaml.YAMLError, ValueError) as problem:
        raise ValueError(f"--faults {file}: {problem}") from None


def listen(host: str, port: int) -> socket.socket:
    """A listening socket: from here on clients may connect, even before the server reads."""
    try:
        listener = socket.create_server((host, port), backlog=128)
    except (OSError, OverflowError) as problem:
        raise ValueError(
            f"cannot listen on {host}:{port} ({problem}); stop what uses it or name another --port"
        ) from None
    # Headers and body are written apart: without this each answer waits 40 ms for the client's ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def build_server(library: Library, faults: list[Fault], *, verbose: bool) -> uvicorn.Server:
    logging.getLogger("uvicorn.error").addFilter(without_expected_endings)
    config = uvicorn.Config(
        build_app(library, faults),
        log_level="info" if verbose else "error",
        access_log=verbose,
        # Ends at once: a client that waits on a slow fault must not hold up Ctrl-C.
        timeout_graceful_shutdown=0,
        lifespan="off",
    )
    return uvicorn.Server(config)


def serve(server: uvicorn.Server, listener: socket.socket) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listener])


def without_expected_endings(record: logging.LogRecord) -> bool:
    """False for the server's reports of bodies cut on order and of requests ended by a signal."""
    cancelled = record.exc_info is not None and record.exc_info[0] is asyncio.CancelledError
    message = record.getMessage()
    cut = message.startswith("ASGI callable returned without completing response")
    stopped = message.startswith("Cancel ") and "graceful shutdown" in message
    return not (cancelled or cut or stopped)


if __name__ == "__main__":
    sys.exit(main())
