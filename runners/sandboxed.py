"""What computes this site's models, what that and downloads are given, and how both are confined.

How a process is confined is the engine's (evalcore/sandbox/); here are the site's settings for it:
the backend, the environment, the folders and the limits of each child, the way that this machine
takes, and whether CUDA's driver starts in it. See docs/sandbox.md.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import psutil
from django.conf import settings

import evalcore
from evalcore.errors import TaskError
from evalcore.sandbox import confinement
from evalcore.sandbox.confinement import (
    LIMITS_ALONE,
    PARTS_OF_PYTHON,
    REMEDY,
    WAYS,
    Needs,
    Way,
    failure_of,
)
from evalcore.task.config import TaskSpec
from evalcore.task.library.load import TaskLibrary
from evalcore.task.yaml_file import OWN_TASKS
from leaderboard.models import Run, Variant
from leaderboard.models.variant import TRANSFORMERS, VLLM
from runners.devices import CPU, find_gpus, host_memory
from runners.process import PYTHON

logger = logging.getLogger(__name__)

INHERITED = (
    *("PATH", "LANG", "LD_LIBRARY_PATH", "OMP_NUM_THREADS"),
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"),
)
"""Variables that children take from the worker; nothing else of its environment reaches them."""
PROXIES = tuple(
    spelt
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
    for spelt in (name, name.lower())
)
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables in which an operator names certificates of their own."""
OF_A_DOWNLOAD = (*CERTIFICATES, *PROXIES)
"""What a child takes beside them that has the network."""
FILE_BYTES = 1 << 30
OPEN_FILES = 4096
OWN_MEMORY = 4 << 30
"""Address space for Python and its libraries, beside the model's."""


# What computes: transformers, in the worker's own environment; or vLLM, which wants other versions
# of torch and transformers and so has an environment of its own, into which evalcore is installed

SPREAD = "parallelize=True"
OPTIONS_OF_VLLM = "VLLM_"
"""How variables begin that vLLM takes settings from, such as the memory for its cache."""


def backend() -> str:
    """By the name of `--model`."""
    return VLLM if settings.PLUMBLINE_VLLM_PYTHON else TRANSFORMERS


def engine_python() -> tuple[str, ...]:
    """What starts the engine."""
    own = settings.PLUMBLINE_VLLM_PYTHON
    return (own, *PYTHON[1:]) if own else PYTHON


def model_args(device: str, needed_bytes: int) -> str:
    """What the engine is told beside the model, on a worker's `device` as its row has it.

    transformers puts a model on the first GPU alone unless it is told to spread it over all, whose
    memory together the worker counts; one that has room on each of them is computed on the first,
    as layers on several wait for each other.
    """
    if backend() == VLLM:
        return settings.PLUMBLINE_VLLM_ARGS
    count, several, _ = device.partition(" x ")
    if not several or count == "1":
        return ""
    # All of its memory, not what is free: with a model that was kept on it less would be.
    smallest = min((gpu.total_bytes or gpu.free_bytes for gpu in find_gpus("")), default=0)
    return SPREAD if needed_bytes > smallest else ""


def device_words(device: str) -> list[str]:
    """Where the engine is told to compute, on a worker's `device` as its row has it.

    By default it takes a GPU where it finds one. Where a worker has one that its model's process
    cannot use, the processor would compute in its place, unnoticed, and be filed as the GPU. vLLM
    computes on GPUs alone.
    """
    return ["--device", "cuda"] if backend() == TRANSFORMERS and not device.startswith(CPU) else []


def engine_folders() -> list[Path]:
    """What the engine's process must be able to read beside what the worker itself runs on."""
    if not settings.PLUMBLINE_VLLM_PYTHON:
        return []
    environment = Path(settings.PLUMBLINE_VLLM_PYTHON).parent.parent
    return [environment / part for part in PARTS_OF_PYTHON]


def engine_variables() -> dict[str, str]:
    """Of the worker's environment, what the engine takes settings from."""
    if backend() != VLLM:
        return {}
    return {name: value for name, value in os.environ.items() if name.startswith(OPTIONS_OF_VLLM)}


# What a child is given


def hub_home() -> Path:
    """HF_HOME of every child of this worker."""
    return Path(os.environ.get("HF_HOME") or settings.PLUMBLINE_HOME / "hf")


def child_environment(work: Path, *, online: bool) -> dict[str, str]:
    """The whole environment of a child that works in the folder `work`.

    Only a child that fetches is `online`: it gets the Hub token where the worker has one, and runs
    no model code. HOME and TMPDIR are folders below `work`, made here.
    """
    environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
    for name, folder in (("HOME", work / "home"), ("TMPDIR", work / "tmp")):
        folder.mkdir(parents=True, exist_ok=True)
        environment[name] = str(folder)
    environment["HF_ENDPOINT"] = settings.HF_ENDPOINT
    environment["HF_HOME"] = str(hub_home())
    # Where transformers and datasets copy code to; the cache of all models is no place for that.
    environment["HF_MODULES_CACHE"] = str(work / "home" / "modules")
    if not online:
        environment["HF_HUB_OFFLINE"] = "1"
        return environment
    environment |= {name: os.environ[name] for name in OF_A_DOWNLOAD if name in os.environ}
    # Of its own: files, and pieces of them, that one download kept would be taken by the next.
    environment["HF_XET_CACHE"] = str(work / "home" / "xet")
    environment["HF_HUB_DISABLE_SHARED_BLOBS"] = "1"
    if token := settings.HF_TOKEN or _token_of_the_cache():
        environment["HF_TOKEN"] = token
    return environment


def _token_of_the_cache() -> str:
    """What `hf auth login` left there; the child itself cannot read it."""
    try:
        return (hub_home() / "token").read_text().strip()
    except OSError:
        return ""


def readable_folders(variant: Variant) -> list[Path]:
    """What the cache has of this model, and the data sets; no other model, and no token."""
    hub = hub_home() / "hub"
    own = [hub / f"models--{name.replace('/', '--')}" for name, _ in variant.repositories]
    return [*own, *sorted(hub.glob("datasets--*")), hub_home() / "datasets"]


def download_folders(variant: Variant, runs: Iterable[Run]) -> list[Path]:
    """The cache's folders that a fetch for these runs writes, made here: none of another model.

    A download that exploits a bug of its client can spoil what it downloads, and nothing else but
    prepared data sets.
    """
    hub = hub_home() / "hub"
    prepared = hub_home() / "datasets"
    names = [f"models--{name}" for name, _ in variant.repositories]
    for leaf in _leaves(runs):
        if leaf.custom_dataset is not None:
            prepared.mkdir(parents=True, exist_ok=True)
            hub.mkdir(parents=True, exist_ok=True)
            return [hub, prepared]  # a function of the operator's loads what it likes
        if leaf.dataset_path and not Path(leaf.dataset_path).is_absolute():
            names.append(f"datasets--{leaf.dataset_path}")
        # A kind of file as its path, and where these lie.
        addresses = re.findall(r"hf://datasets/([\w.-]+/[\w.-]+)", str(leaf.dataset_kwargs))
        names += [f"datasets--{name}" for name in addresses]
    named = dict.fromkeys(name.replace("/", "--") for name in names)
    folders = [folder / name for name in named for folder in (hub, hub / ".locks")]
    for folder in (*folders, prepared):
        folder.mkdir(parents=True, exist_ok=True)
    return [*folders, prepared]


def _leaves(runs: Iterable[Run]) -> Iterable[TaskSpec]:
    """A task that is not in the library, or cannot be read, is left to the engine's own words."""
    library = TaskLibrary([settings.PLUMBLINE_TASKS])
    for run in runs:
        try:
            yield from library.one(run.task.name).leaves()
        except TaskError:
            continue


def limits(
    cpu_seconds: int | None = None, *, mapped_bytes: int = 0, file_bytes: int = FILE_BYTES
) -> dict[str, int]:
    """Of each process of a child, as `Needs.limits` has them.

    `mapped_bytes` are of weights that it maps from their files: they count as memory, and take
    none. `file_bytes` is the largest file that it may write.
    """
    each = {
        "RLIMIT_FSIZE": file_bytes,
        "RLIMIT_NOFILE": OPEN_FILES,
        # Private memory, not addresses: CUDA reserves terabytes of these.
        "RLIMIT_DATA": _memory() + mapped_bytes + OWN_MEMORY,
    }
    return each if cpu_seconds is None else {**each, "RLIMIT_CPU": cpu_seconds}


def _memory() -> int:
    """What the machine has to give just now: a process takes gigabytes between two looks at it.

    A GPU's driver counts as private memory what is none, so that there it is twice all of it.
    """
    if confinement.has_cuda():
        return 2 * host_memory()
    return min(host_memory(), psutil.virtual_memory().available)


def confined(command: Sequence[str], needs: Needs, way: Way | None = None) -> list[str]:
    """The command that runs `command` so confined, in the way of this machine.

    It sees the engine and the task files besides, and with the network the operator's certificates.
    """
    engine = Path(evalcore.__file__).parent
    own = [os.environ.get(name, "") for name in CERTIFICATES if needs.network]
    certificates = map(Path, filter(os.path.isabs, own))
    read = [engine, OWN_TASKS, settings.PLUMBLINE_TASKS, *certificates, *needs.read]
    return confinement.confined(command, replace(needs, read=read), way or way_of_machine())


# The way that this machine takes

_fallbacks: list[Way] = []


@functools.cache
def way_of_machine() -> Way:
    """The strictest way that works on this machine; a warning says what it leaves open."""
    if _fallbacks:
        return _fallbacks[-1]
    reasons: list[str] = []
    for way in WAYS:
        why = confinement.why_not(way)
        if why is None:
            if not way.namespaces:
                logger.warning(OPEN_WITHOUT_NAMESPACES, "; ".join(reasons))
            return way
        reasons.append(f"{way.name}: {why}")
    logger.warning(OPEN, "; ".join(reasons))
    return LIMITS_ALONE


def _fall_back_to(way: Way) -> None:
    """Have `way_of_machine` be this way from now on, in this process."""
    _fallbacks.append(way)
    way_of_machine.cache_clear()


def refusal() -> str | None:
    """Why no model may be run here; None where one may."""
    if settings.PLUMBLINE_UNCONFINED or way_of_machine() != LIMITS_ALONE:
        return None
    return f"nothing here confines a model's process. {HINT}"


HINT = (
    f"{REMEDY}; or set PLUMBLINE_UNCONFINED=yes where workers own nothing and nobody else submits "
    "models (docs/sandbox.md)"
)
OPEN_WITHOUT_NAMESPACES = (
    "NO NAMESPACES HERE: models are confined by Landlock and seccomp alone. Their process sees "
    "other processes and the machine's /proc, and what leaves its session is looked for and "
    "killed, not ended by the kernel (docs/sandbox.md). %s"
)
OPEN = (
    "MODELS ARE NOT CONFINED HERE: neither namespaces with Landlock nor Landlock with seccomp "
    "work, so a model's process can read and write all that this user can, the database and the "
    "secret key among it. Run workers as a user who owns nothing else, or on a machine of their "
    "own (docs/sandbox.md). %s"
)


# Whether CUDA's driver starts in it

DEV = Path("/dev")
LONGEST_CUDA_START = 180.0
"""Seconds: without persistence mode a driver wakes each GPU first."""
CUDA_PROBE = """
import ctypes, sys
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError:
    sys.exit()
name, count = ctypes.c_char_p(), ctypes.c_int()
for call, arguments in (("cuInit", (0,)), ("cuDeviceGetCount", (ctypes.byref(count),))):
    if number := getattr(cuda, call)(*arguments):
        cuda.cuGetErrorName(number, ctypes.byref(name))
        sys.exit(f"{call} ends with {number}, {(name.value or b'without a name').decode()}")
if not count.value:
    sys.exit("it finds no GPU")
"""
"""As PyTorch begins, without PyTorch. Where there is no such library there is another maker's."""
TORCH_PROBE = """
import importlib.util, pathlib
about, torch = {}, pathlib.Path(importlib.util.find_spec("torch").origin)
exec(torch.with_name("version.py").read_text(), about)
if not about.get("cuda"):
    sys.exit(f"torch {about['__version__']} is built without it: install one that is built with it")
"""
"""After that. Without importing PyTorch, which takes seconds."""
CUDA_REMEDY = (
    "No run is taken here until it does. See nvidia-smi and the system's log; /dev/nvidia-uvm must "
    "be there (`nvidia-modprobe -c0 -u` makes it), and the driver's library of its version; or "
    "have the processor compute (--devices cpu, PLUMBLINE_DEVICES=cpu)"
)
INSTEAD = "CUDA does not start with %s (%s): models are confined by %s alone"


def cuda_refusal() -> str | None:
    """Why no model may be run on the GPUs of this process; None where one may.

    nvidia-smi does not tell: it asks another library, which needs less. A worker asks once, as it
    starts, and takes no run where CUDA does not start, so that no run fails for it. Where CUDA does
    not start as models are confined here but does in a weaker way that confines them, that way is
    taken, and the log says so.
    """
    strictest = way_of_machine()
    why = _cuda_fails_with(strictest)
    if why is None:
        return None
    for way in WAYS[WAYS.index(strictest) + 1 :] if strictest in WAYS else ():
        if confinement.why_not(way) is None and _cuda_fails_with(way) is None:
            logger.warning(INSTEAD, strictest.name, why, way.name)
            _fall_back_to(way)
            return None
    free = _cuda_fails_with(None)
    beside = "it starts where nothing confines it" if free is None else "nor without confinement"
    start = f"CUDA does not start in a model's process ({strictest.name})"
    return f"{start}: {why}; {beside}. {CUDA_REMEDY}"


def _cuda_fails_with(way: Way | None) -> str | None:
    """What CUDA ends with in a process that is so confined, or free; None where it starts."""
    with tempfile.TemporaryDirectory(prefix="driver-") as name:
        folder = Path(name)
        environment = child_environment(folder, online=False)
        probe = [*engine_python(), "-c", CUDA_PROBE + TORCH_PROBE]
        if way is not None:
            write = [Path(environment[kind]) for kind in ("HOME", "TMPDIR")]
            needs = Needs(folder=folder, read=engine_folders(), write=write, limits=limits())
            probe = confined(probe, needs, way)
        return failure_of(probe, environment, folder, seconds=LONGEST_CUDA_START)


def make_cuda_device() -> None:
    """Have the device made that CUDA needs and no confined process can make.

    On bare metal it comes with the first program that uses CUDA as a user who may make it.
    """
    uvm = DEV / "nvidia-uvm"
    if uvm.exists() or not (DEV / "nvidiactl").exists():
        return
    if program := shutil.which("nvidia-modprobe"):
        try:
            subprocess.run([program, "-c0", "-u"], capture_output=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired) as problem:
            logger.warning("%s: %s", program, problem)
    if not uvm.exists():
        logger.warning("there is no %s: run `nvidia-modprobe -c0 -u` as root", uvm)
