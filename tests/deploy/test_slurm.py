"""docs/deploy/slurm on a real Slurm: jobs wait in line, compute, give back, end by themselves."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import services
from tests.hub import serve
from tests.runners import place
from tests.runners.place import ANSWERING, ROOT, STARTS_WITHIN, STATES, Onlooker, wait_until

pytestmark = pytest.mark.services

SCRIPTS = ROOT / "docs" / "deploy" / "slurm"
HERE = {
    "partition=gpu": "partition=all",
    "gres=gpu:1": "gres=none",
    "cpus-per-task=8": "cpus-per-task=1",
    "mem=64G": "mem=0",
}
"""What the script asks of a cluster, and what is here in its place."""
TRIED = """
print(*set(Run.objects.values_list("state", "attempt", "error_message")))
"""
LIVE = "print(Worker.objects.filter(ended=None).count())"
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


@dataclass(frozen=True)
class Slurm:
    """A Slurm of the test's own; its folder has the logs of its programs."""

    folder: Path

    @property
    def variables(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def ask(self, *command: str, **variables: str) -> str:
        """What one of Slurm's programs prints."""
        environment = {**os.environ, **self.variables, **variables}
        told = subprocess.run(
            command, env=environment, cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert told.returncode == 0, told.stderr
        return told.stdout.strip()

    def block(self) -> str:
        """Have a job on all of the cluster, so that others wait for it; its number."""
        job = self.ask("sbatch", "--parsable", "--exclusive", "--wrap", "sleep 600")
        self.wait_for(job, "RUNNING")
        return job

    def state(self, job: str) -> str:
        """COMPLETED, PENDING and so on, also of a job that has just ended."""
        told = self.ask("scontrol", "--oneliner", "show", "job", job)
        return told.partition("JobState=")[2].partition(" ")[0]

    def jobs(self) -> list[str]:
        """The states of the jobs that wait or run, one of each of an array."""
        return self.ask("squeue", "--array", "--noheader", "--format=%T").split()

    def logs(self) -> str:
        return "\n".join(log.read_text()[-3000:] for log in sorted(self.folder.glob("*.log")))

    def wait_for(self, job: str, state: str) -> None:
        wait_until(lambda: self.state(job) == state, STARTS_WITHIN, self.logs)


@contextmanager
def slurm(folder: Path) -> Iterator[Slurm]:
    """munged, slurmctld and slurmd, without accounting. `folder`: short, sockets lie in it."""
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
    ports = {"controller": services.free_port(), "daemon": services.free_port()}
    configuration = CONFIGURATION.format(host=host, folder=folder, **ports)
    (folder / "slurm.conf").write_text(configuration)
    files = {"key-file": "key", "socket": "munge.sock", "pid-file": "munged.pid", "seed-file": "s"}
    munged = [f"--{option}={folder / name}" for option, name in files.items()]
    cluster = Slurm(folder)

    def is_idle() -> bool:
        told = subprocess.run(
            ["sinfo", "--noheader", "--format", "%T"], capture_output=True, text=True, check=False,
            env={**os.environ, **cluster.variables},
        )  # fmt: skip
        return told.stdout.strip() == "idle"

    with ExitStack() as started:
        munged = ["munged", "--foreground", "--force", *munged, f"--log-file={folder / 'm'}"]
        started.enter_context(_running(munged, cluster))
        wait_until((folder / "munge.sock").exists, STARTS_WITHIN, cluster.logs)
        started.enter_context(_running(["slurmctld", "-D"], cluster))
        started.enter_context(_running(["slurmd", "-D", "-N", host], cluster))
        wait_until(is_idle, STARTS_WITHIN, cluster.logs)
        yield cluster


@contextmanager
def _running(command: list[str], cluster: Slurm) -> Iterator[None]:
    with (cluster.folder / f"{command[0]}.log").open("wb") as log:
        process = subprocess.Popen(
            command, env={**os.environ, **cluster.variables}, stdout=log, stderr=subprocess.STDOUT
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


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    with tempfile.TemporaryDirectory() as folder, slurm(Path(folder)) as cluster:
        yield cluster


@dataclass(frozen=True)
class Site:
    """On which nothing evaluates but what is submitted here; with the scripts of its operator."""

    cluster: Slurm
    onlooker: Onlooker
    scripts: Path
    variables: dict[str, str]

    def sbatch(self, *options: str) -> str:
        """Submit a worker; the number of its job."""
        script = str(self.scripts / "worker.sbatch")
        return self.cluster.ask("sbatch", "--parsable", script, *options, **self.variables)

    def start_workers(self) -> str:
        """As cron does; what it prints."""
        script = str(self.scripts / "start-workers.sh")
        return self.cluster.ask(script, "--drain", **self.variables)


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """docs/deploy/slurm, as an operator of this cluster has changed it."""
    folder = tmp_path / "scripts"
    shutil.copytree(SCRIPTS, folder)
    text = (folder / "worker.sbatch").read_text()
    for stated, here in HERE.items():
        assert text.count(f"#SBATCH --{stated}\n") == 1
        text = text.replace(f"#SBATCH --{stated}\n", f"#SBATCH --{here}\n")
    (folder / "worker.sbatch").write_text(text)
    return folder


@pytest.fixture
def site(
    request: pytest.FixtureRequest, tmp_path: Path, scripts: Path, cluster: Slurm
) -> Iterator[Site]:
    """At its end no job is left. The parameter: how many questions the benchmark has."""
    with serve([place.write_content(tmp_path / "content", rows=request.param)]) as hub:
        variables, onlooker = place.prepared(tmp_path, hub)
        names = ("PLUMBLINE_", "HF_", "DJANGO_")
        lines = [f"{name}={value!r}" for name, value in variables.items() if name.startswith(names)]
        (tmp_path / "worker.env").write_text("\n".join(lines))
        try:
            told = {"PLUMBLINE_ROOT": str(ROOT), "PLUMBLINE_ENV": str(tmp_path / "worker.env")}
            yield Site(cluster, onlooker, scripts, told)
        finally:
            onlooker.end()
            cluster.ask("scancel", "--me")
            wait_until(lambda: cluster.jobs() == [], STARTS_WITHIN, cluster.logs)


def test_bash_takes_the_scripts() -> None:
    for script in SCRIPTS.iterdir():
        assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0


@pytest.mark.parametrize("site", [12], indirect=True)
def test_a_job_waits_in_line_computes_a_model_and_ends_by_itself(site: Site) -> None:
    site.onlooker.ask(place.SUBMIT)
    before = site.cluster.block()
    job = site.sbatch("--until-idle", "0.05")
    assert site.cluster.state(job) == "PENDING"
    assert site.onlooker.ask(STATES) == "queued queued"
    site.cluster.ask("scancel", before)
    site.onlooker.wait_for(STATES, lambda states: states == "done done", site.cluster.logs)
    site.cluster.wait_for(job, "COMPLETED")
    assert site.onlooker.ask(LIVE) == "0"


@pytest.mark.parametrize("site", [4000], indirect=True)
def test_scancel_gives_the_runs_back(site: Site) -> None:
    site.onlooker.ask(place.SUBMIT)
    job = site.sbatch()
    site.onlooker.wait_for(ANSWERING, lambda count: count != "0", site.cluster.logs)
    site.cluster.ask("scancel", job)
    # Slurm would kill it much later.
    wait_until(lambda: site.cluster.jobs() == [], STARTS_WITHIN, site.cluster.logs)
    assert site.cluster.state(job) == "CANCELLED"
    assert site.onlooker.ask(TRIED) == "('queued', 0, '')", site.cluster.logs()
    assert site.onlooker.ask(LIVE) == "0"


@pytest.mark.parametrize("site", [12], indirect=True)
def test_cron_submits_the_workers_that_are_missing_and_no_more(site: Site) -> None:
    assert site.start_workers() == ""
    site.onlooker.ask(place.SUBMIT)
    before = site.cluster.block()
    assert site.start_workers().startswith("Submitted batch job ")
    assert sorted(site.cluster.jobs()) == ["PENDING", "RUNNING"]
    assert site.start_workers() == ""
    site.cluster.ask("scancel", before)
    site.onlooker.wait_for(STATES, lambda states: states == "done done", site.cluster.logs)
    wait_until(lambda: site.cluster.jobs() == [], STARTS_WITHIN, site.cluster.logs)
    assert site.start_workers() == ""
