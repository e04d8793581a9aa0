"""Whose fault is it when a library fails over a model's files? Nearly always the model's.

The files were made by a stranger, so a library may raise anything over them. Ours is only what the
machine lacks (room on the disk, open files, a sound GPU), and what our own code raises.
"""

from __future__ import annotations

import errno
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from traceback import walk_tb

from evalcore.errors import EvalError, InfraError, ModelError

log = logging.getLogger(__name__)

LIBRARIES = frozenset(
    (
        "accelerate",
        "bitsandbytes",
        "compressed_tensors",
        "gguf",
        "gptqmodel",
        "huggingface_hub",
        "jinja2",
        "peft",
        "safetensors",
        "sentencepiece",
        "tokenizers",
        "torch",
        "torchao",
        "transformers",
        "vllm",
    )
)
"""What reads a model's files and runs its layers."""

OF_THE_MACHINE = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ESTALE, errno.EMFILE, errno.ENFILE)
)
"""Errors of the system that no file's content can cause."""

OF_THE_DEVICE = ("device-side assert", "illegal memory access")
"""How a GPU says that a kernel was given nonsense, such as a token beyond the vocabulary; all else
that it reports is a fault of its own."""

OF_THE_DRIVER = (
    *("cudaGetDeviceCount()", "No CUDA GPUs are available", "Found no NVIDIA driver"),
    *("NVIDIA driver on your system is too old", "uncorrectable ECC error", "CUDA unknown error"),
)
"""What PyTorch says as any other RuntimeError where a driver does not start or a GPU is broken. Not
what its libraries report (cuBLAS, cuDNN): a model's shapes can be behind that."""

LONGEST_REASON, LONGEST_LINE = 400, 160


@contextmanager
def models_fault(
    what: str, *, folder: Path | None = None, name: str = "", only_libraries: bool = False
) -> Iterator[None]:
    """Whatever is raised inside becomes ModelError, "`what`: reason", or InfraError.

    `folder`: where the files lie on this machine, which would tell the reader nothing; `name`
    stands in its place. `only_libraries`: what our own code raises passes.
    """
    try:
        yield
    except BaseException as problem:
        is_ours = only_libraries and not (_is_panic(problem) or _from_library(problem))
        if _passes(problem) or is_ours:
            raise
        raise _error(problem, what, folder, name) from problem


@contextmanager
def within(seconds: float, what: str) -> Iterator[None]:
    """What takes longer ends in ModelError, "`what` took more than …".

    A list of special tokens, say, of which a library compares each with all others. Outside the
    main thread, where Python hears no signal, nothing is ended.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        raise ModelError(f"{what} took more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


libraries_fault = partial(models_fault, only_libraries=True)
"""Around code of ours that uses the model."""


def reason_of(error: Exception) -> str:
    """The error in a line."""
    said = " ".join(str(error).split())[:LONGEST_LINE]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def set_aside(what: str, error: Exception) -> str:
    """The error in a line, of a way to compute that a plainer one replaces; how it came to it
    stands in the log, unless it says itself that a model is not for it."""
    reason = reason_of(error)
    if not isinstance(error, NotImplementedError):
        log.warning("%s failed: %s", what, reason, exc_info=error)
    return reason


def _passes(problem: BaseException) -> bool:
    """Errors that say whose fault they are, a shortage that is met by smaller passes, and what
    ends a program."""
    if isinstance(problem, Exception):
        return isinstance(problem, EvalError)
    return not _is_panic(problem)


def _is_panic(problem: BaseException) -> bool:
    """Rust's tokenizers end so where they did not expect a file's content; it is no Exception."""
    return type(problem).__name__ == "PanicException"


def _from_library(problem: BaseException) -> bool:
    """Whether the innermost code that is not Python's own is a library's."""
    inside = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(problem.__traceback__)]
    roots = (module.partition(".")[0] for module in reversed(inside))
    return next((root for root in roots if root not in sys.stdlib_module_names), "") in LIBRARIES


def _error(problem: BaseException, what: str, folder: Path | None, name: str) -> EvalError:
    reason = " ".join(str(problem).split())[:LONGEST_REASON]
    if folder is not None:
        reason = reason.replace(str(folder), name)
    kind = type(problem).__name__
    # Of a KeyError the text is the key alone.
    told = reason if " " in reason else f"{kind}: {reason}" if reason else kind
    if isinstance(problem, OSError) and problem.errno in OF_THE_MACHINE:
        return InfraError(f"{what}: {told}")
    if is_devices_fault(problem):
        return InfraError(f"{what}: {told}")
    return ModelError(f"{what}: {told}")


def is_devices_fault(problem: BaseException) -> bool:
    """Whether a GPU or its driver failed, whatever the model is. A full memory is no such fault."""
    said = " ".join(str(problem).split())
    torch = sys.modules.get("torch")  # who has not loaded it cannot raise its errors
    if isinstance(problem, getattr(torch, "AcceleratorError", ())):
        return not any(nonsense in said for nonsense in OF_THE_DEVICE)
    return isinstance(problem, RuntimeError) and any(words in said for words in OF_THE_DRIVER)
