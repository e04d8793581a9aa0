"""What every confined process sees of the machine: the system's folders, Python and the engine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from django.conf import settings

import evalcore
from evalcore.task.transforms.code_child import DEVICES, SYSTEM_FOLDERS
from evalcore.task.yaml_file import OWN_TASKS

SYSTEM_FILES = tuple(
    f"/etc/{name}"
    for name in (
        *("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime"),
        *("nsswitch.conf", "passwd", "group", "hosts"),
        # The Hub's client reads certificates before it notices that it is offline.
        *("ssl/certs", "ssl/openssl.cnf", "pki/tls/certs"),
    )
)
OF_THE_NETWORK = tuple(
    f"/etc/{name}"
    for name in (
        *("resolv.conf", "host.conf", "gai.conf", "services", "protocols"),
        *("ca-certificates", "pki/ca-trust/extracted", "crypto-policies"),
    )
)
"""How names are looked up and certificates checked, for a process that has the network."""
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables in which an operator names certificates of their own."""
PARTS_OF_PYTHON = ("bin", "lib", "lib64", "include", "share", "pyvenv.cfg")
OF_CUDA = "nvidia*"
ACCELERATORS = (OF_CUDA, "kfd", "dri", "accel")
"""Devices that a model computes on, below `/dev`."""


def to_be_read(*, network: bool) -> list[Path]:
    libraries = [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    # Not a whole prefix: an environment may have been made in a folder that holds other things.
    python = [f"{prefix}/{part}" for prefix in sorted(prefixes) for part in PARTS_OF_PYTHON]
    ours = [Path(evalcore.__file__).parent, Path(__file__).parent]
    own = (os.environ.get(name, "") for name in CERTIFICATES)
    named = (
        *SYSTEM_FOLDERS,
        *SYSTEM_FILES,
        *((*OF_THE_NETWORK, *filter(os.path.isabs, own)) if network else ()),
        "/opt/rocm",
        *python,
        *filter(os.path.isabs, libraries),
    )
    return [*map(Path, named), *ours, OWN_TASKS, settings.PLUMBLINE_TASKS]


def devices(*, accelerators: bool) -> list[Path]:
    harmless = [Path(device) for device in DEVICES]
    if not accelerators:
        return harmless
    return [*harmless, *(found for name in ACCELERATORS for found in Path("/dev").glob(name))]


def has_cuda() -> bool:
    """Whether a process that is shown the accelerators may start CUDA's driver on them."""
    return any(Path("/dev").glob(OF_CUDA))


def with_targets(places: Iterable[Path]) -> list[str]:
    """Each path as it is written, and where it leads, should it be a link."""
    found = dict.fromkeys(place for path in places for place in (path, path.resolve()))
    return [str(place) for place in found if place.exists()]
