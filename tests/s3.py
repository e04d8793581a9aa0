"""A real S3 server for tests: Ceph's object gateway with a cluster of one, whose disk is memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.services import STARTS_WITHIN, Server, free_port, missing

ACCESS, SECRET = "the-key-of-a-test", "the-secret-of-a-test"
PROGRAMS = ("ceph", "ceph-authtool", "ceph-mon", "ceph-osd", "radosgw", "radosgw-admin")
CONFIGURATION = """\
[global]
fsid = {cluster}
mon host = [v2:127.0.0.1:{monitor}]
mon initial members = a
keyring = {folder}/keyring
mon data = {folder}/mon
osd data = {folder}/osd
rgw data = {folder}
rgw frontends = beast endpoint=127.0.0.1:{port}
run dir = {folder}
admin socket =
log file =
log to stderr = true
osd objectstore = memstore
memstore device bytes = 1073741824
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon data avail crit = 1
"""
ALL = ("--cap", "mon", "allow *", "--cap", "osd", "allow *", "--cap", "mgr", "allow *")


@contextmanager
def server(folder: Path) -> Iterator[Server]:
    """Its account is ACCESS with SECRET; while it is stopped, what is stored stays, as disk and
    monitor go on. Everything that was started ends with it."""
    if lacking := [program for program in PROGRAMS if shutil.which(program) is None]:
        missing(f"NO S3 SERVER: {', '.join(lacking)} not installed: ceph-mon ceph-osd radosgw")
    cluster, disk = str(uuid.uuid4()), str(uuid.uuid4())
    for part in ("mon", "osd"):
        (folder / part).mkdir(parents=True)
    configuration = folder / "ceph.conf"
    environment = {**os.environ, "CEPH_ARGS": f"--conf {configuration}"}
    keys = str(folder / "keyring")

    def run(*command: str) -> None:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=STARTS_WITHIN,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr[-2000:])

    with ExitStack() as started, (folder / "log").open("wb") as log:
        gateway = Server(
            lambda _: ["radosgw", "-f", "-n", "client.admin"],
            env=environment, stdout=log, stderr=log,
        )  # fmt: skip
        configuration.write_text(
            CONFIGURATION.format(
                cluster=cluster, folder=folder, port=gateway.port, monitor=free_port()
            )
        )

        def start(*command: str) -> subprocess.Popen[bytes]:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            started.callback(process.wait, 30)
            started.callback(process.kill)
            return process

        run("ceph-authtool", "-C", keys, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        run("ceph-authtool", keys, "--gen-key", "-n", "client.admin", *ALL)
        run("ceph-authtool", keys, "--gen-key", "-n", "osd.0", *ALL)
        run("ceph-mon", "--mkfs", "-i", "a", "--keyring", keys, "--fsid", cluster)
        start("ceph-mon", "-f", "-i", "a")
        run("ceph", "osd", "new", disk)
        run("ceph", "auth", "import", "-i", keys)
        run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", disk, "--no-mon-config")
        start("ceph-osd", "-f", "-i", "0")
        user = ("--uid", "plumbline", "--display-name", "plumbline")
        run(
            "radosgw-admin", "user", "create", *user, "--access-key", ACCESS, "--secret-key", SECRET
        )
        yield started.enter_context(gateway)
