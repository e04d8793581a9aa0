"""A real Slurm starts a worker for a run that waits, and the run is evaluated."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests import services
from tests.hub import serve
from tests.runners import place
from tests.runners.place import STARTS_WITHIN, STATES, SUBMIT, prepared, wait_until

pytestmark = pytest.mark.services

PLAN = """\
engine: slurm
budget: {workers_at_once: 2}
kinds:
  - {name: small, gpus: 0, memory_gb: 4, hours: 0.5, options: {partition: all}}
"""
LOOK = "from runners import launchers\nlaunchers.look()\n"
LAUNCHES = "print(*((l.state, l.claims, l.handle) for l in Launch.objects.all()))"
ENGINE = """
from pathlib import Path
from django.conf import settings
from runners import launchers
launch = Launch.objects.get()
engine = launchers.launcher_of(launchers.read(Path(settings.PLUMBLINE_LAUNCH)))
"""
LAUNCHES_OF_WORKERS = "print(*(w.launch.kind for w in Worker.objects.all()))"

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
KillWait=600
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@contextmanager
def slurm(folder: Path) -> Iterator[dict[str, str]]:
    """A Slurm of the test's own: munged, slurmctld and slurmd, without accounting.

    The variables with which its commands find it. `folder`: short, sockets lie in it.
    """
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
    def is_idle() -> bool:
        told = subprocess.run(
            ["sinfo", "--noheader", "--format", "%T"],
            env={**os.environ, **variables}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return told.stdout.strip() == "idle"

    def logs() -> str:
        return "\n".join(log.read_text()[-1500:] for log in sorted(folder.glob("*.log")))

    wait_until(is_idle, STARTS_WITHIN, logs)


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder, slurm(Path(folder)) as variables:
        yield variables


def test_the_script_for_workers_by_hand_is_one_that_slurm_takes(cluster: dict[str, str]) -> None:
    script = place.ROOT / "docs" / "deploy" / "slurm" / "worker.sbatch"
    # What is here of a cluster in place of what the script asks for.
    here = ["--partition=all", "--gres=none", "--cpus-per-task=1", "--mem=0"]
    tried = subprocess.run(
        ["sbatch", "--test-only", *here, str(script)],
        env={**os.environ, **cluster}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert tried.returncode == 0, tried.stderr
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0


def test_slurm_starts_the_worker_that_is_missing_and_ends_it(
    tmp_path: Path, cluster: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "launch.yaml").write_text(PLAN)
    monkeypatch.setenv("SLURM_CONF", cluster["SLURM_CONF"])
    with serve([place.write_content(tmp_path / "content", rows=12)]) as hub:
        _, onlooker = prepared(tmp_path, hub, PLUMBLINE_LAUNCH=str(tmp_path / "launch.yaml"))
        try:
            onlooker.ask(LOOK)
            assert onlooker.ask(LAUNCHES) == ""
            onlooker.ask(SUBMIT)
            onlooker.ask(LOOK)
            # The second look sees that one is on its way.
            onlooker.ask(LOOK)
            ((state, claims, job),) = [eval(onlooker.ask(LAUNCHES))]
            assert (state, claims) == ("waiting", 0), onlooker.ask(
                "print(Launch.objects.get().why)"
            )
            assert onlooker.ask(f"{ENGINE}print(engine.alive(launch.handle))") == "True"
            found = f"{ENGINE}print(engine.find(launchers.engine.name_of(launch.pk)))"
            assert onlooker.ask(found) == job
            assert onlooker.ask(f"{ENGINE}print(engine.find('none'))") == "None"
            logs = tmp_path / "home" / "launches" / job

            def told() -> str:
                return "".join(file.read_text() for file in logs.glob("*"))

            onlooker.wait_for(STATES, lambda said: said == "done done", told)
            assert eval(onlooker.ask(LAUNCHES)) == ("up", 1, job)
            assert onlooker.ask(LAUNCHES_OF_WORKERS) == "small"

            onlooker.ask(f"{ENGINE}engine.cancel(launch.handle)")
            wait_until(
                lambda: onlooker.ask(f"{ENGINE}print(engine.alive(launch.handle))") == "False",
                STARTS_WITHIN,
                lambda: "the job is still there",
            )
            # By SIGTERM: it would be killed later than we wait.
            assert eval(onlooker.ask(LAUNCHES)) == ("ended", 1, job)
            onlooker.ask(f"{ENGINE}engine.cancel('999999')\nassert engine.alive('999999') is False")
        finally:
            onlooker.end()
