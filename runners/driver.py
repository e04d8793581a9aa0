"""Whether CUDA's driver starts in a process that is confined as a model's is.

nvidia-smi does not tell: it asks another library, which needs less. A worker asks once, as it
starts, and takes no run where CUDA does not start, so that no run fails for it.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import tempfile
from pathlib import Path

from runners import backends, confinement
from runners.confinement import Needs, Way, failure
from runners.sandbox import child_environment

logger = logging.getLogger(__name__)

DEV = Path("/dev")
LONGEST = 180.0
"""Seconds: without persistence mode a driver wakes each GPU first."""
PROBE = """
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
TORCH = """
import importlib.util, pathlib
told, torch = {}, pathlib.Path(importlib.util.find_spec("torch").origin)
exec(torch.with_name("version.py").read_text(), told)
if not told.get("cuda"):
    sys.exit(f"torch {told['__version__']} is built without it: install one that is built with it")
"""
"""After that. Without importing PyTorch, which takes seconds."""
REMEDY = (
    "No run is taken here until it does. See nvidia-smi and the system's log; /dev/nvidia-uvm must "
    "be there (`nvidia-modprobe -c0 -u` makes it), and the driver's library of its version; or "
    "have the processor compute (--devices cpu, PLUMBLINE_DEVICES=cpu)"
)

INSTEAD = "CUDA does not start with %s (%s): models are confined by %s alone"


def refusal() -> str | None:
    """Why no model may be run on the GPUs of this process; None where one may.

    Where CUDA does not start as models are confined here but does in another way that confines
    them, that way is taken, and the log says so.
    """
    strictest = confinement.here()
    why = _refused(strictest)
    if why is None:
        return None
    for way in confinement.less_strict(strictest):
        if _refused(way) is None:
            logger.warning(INSTEAD, strictest.name, why, way.name)
            confinement.take(way)
            return None
    free = _refused(None)
    beside = "it starts where nothing confines it" if free is None else "nor without confinement"
    return f"CUDA does not start in a model's process ({strictest.name}): {why}; {beside}. {REMEDY}"


def _refused(way: Way | None) -> str | None:
    """What CUDA ends with in a process that is so confined, or free; None where it starts."""
    with tempfile.TemporaryDirectory(prefix="driver-") as name:
        folder = Path(name)
        environment = child_environment(folder, online=False)
        probe = [*backends.python(), "-c", PROBE + TORCH]
        if way is None:
            return failure(probe, environment, folder, seconds=LONGEST)
        write = [Path(environment[kind]) for kind in ("HOME", "TMPDIR")]
        needs = Needs(folder=folder, read=backends.folders(), write=write)
        with confinement.confined(probe, needs, way) as confined:
            return failure(confined, environment, folder, seconds=LONGEST)


def make_devices() -> None:
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
