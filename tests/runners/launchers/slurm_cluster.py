"""A Slurm of the test's own on this machine: munged, slurmctld and slurmd, without accounting."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests import services
from tests.runners.place import STARTS_WITHIN

CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
KillWait=15
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@contextmanager
def slurm(folder: Path) -> Iterator[dict[str, str]]:
    """The variables with which Slurm's commands find it. `folder`: short, sockets lie in it."""
    for program in ("slurmctld", "slurmd", "munged"):
        if shutil.which(program) is None:
            services.missing(f"NO SLURM: there is no {program}: apt-get install slurm-wlm munge")
    if os.geteuid() != 0:
        services.missing("NO SLURM: only root can start slurmd")
    for part in ("state", "spool"):
        (folder / part).mkdir()
    (folder / "key").write_bytes(os.urandom(1024))
    (folder / "key").chmod(0o400)
    host = socket.gethostname().partition(".")[0]
    configuration = folder / "slurm.conf"
    ports = {"controller": services.free_port(), "daemon": services.free_port()}
    configuration.write_text(CONFIGURATION.format(host=host, folder=folder, **ports))
    variables = {"SLURM_CONF": str(configuration)}
    files = {"key-file": "key", "socket": "munge.sock", "pid-file": "munged.pid", "seed-file": "s"}
    munged = [f"--{option}={folder / name}" for option, name in files.items()]
    with ExitStack() as started:
        for command in (
            ["munged", "--foreground", "--force", *munged, f"--log-file={folder / 'm'}"],
            ["slurmctld", "-D"],
            ["slurmd", "-D", "-N", host],
        ):
            started.enter_context(_running(command, folder, variables))
            time.sleep(1)
        _wait(variables, folder)
        yield variables


@contextmanager
def _running(command: list[str], folder: Path, variables: dict[str, str]) -> Iterator[None]:
    with (folder / f"{command[0]}.log").open("wb") as log:
        process = subprocess.Popen(
            command, env={**os.environ, **variables}, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(variables: dict[str, str], folder: Path) -> None:
    deadline = time.monotonic() + STARTS_WITHIN
    while True:
        told = subprocess.run(
            ["sinfo", "--noheader", "--format", "%T"],
            env={**os.environ, **variables}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if told.stdout.strip() == "idle":
            return
        logs = "\n".join(log.read_text()[-1500:] for log in sorted(folder.glob("*.log")))
        assert time.monotonic() < deadline, f"{told}\n{logs}"
        time.sleep(0.2)
