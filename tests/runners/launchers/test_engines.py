"""What engines are asked and what is made of their answers, with stand-ins; a real Slurm is in
`test_slurm`, a real Ray in tests/backends. And our manifests for Kubernetes."""

from __future__ import annotations

import json
import os
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import UUID

import kubernetes_validate
import pytest
import yaml
from django.db import connection

from leaderboard.queue import claims, orders
from runners import launchers
from runners.launchers import Configuration, EngineTrouble, Launcher, NoAnswer, Order
from runners.launchers.ray_jobs import RayJobs
from runners.launchers.slurm import Slurm
from tests.runners import rows
from tests.runners.launchers.test_need import kind
from tests.runners.place import ROOT

DEPLOY = ROOT / "docs" / "deploy"
MANIFESTS = [
    (file.name, manifest)
    for file in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for manifest in yaml.safe_load_all(file.read_text())
]
JOB_OF_KEDA = "keda-scaledjob.yaml"
VERSION = "1.31"
LAUNCH = UUID("00000000-0000-4000-8000-000000000001")
ORDER = Order(LAUNCH, kind())

Answer = tuple[int, str] | None


@contextmanager
def served(answer: Callable[[str, str, bytes], Answer]) -> Iterator[str]:
    """The address of a server that answers so; None is a connection that breaks."""

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            told = answer(self.command, self.path, body)
            if told is None:
                self.close_connection = True
                return
            status, content = told
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content.encode())))
            self.end_headers()
            self.wfile.write(content.encode())

        do_GET = do_POST = do_DELETE = _do

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class BatchApi:
    """A stand-in of Kubernetes': it keeps Jobs, checks them against the schema, runs none."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.is_forbidden = False
        self.says_nothing = False
        """It does what it is asked, and the connection breaks before it says so."""

    def answer(self, method: str, path: str, body: bytes) -> Answer:
        if self.is_forbidden:
            return self._refusal(403, "Forbidden", 'jobs.batch is forbidden: User "lab"')
        folder, _, name = path.partition("?")[0].partition("/jobs")
        assert folder == "/apis/batch/v1/namespaces/lab"
        name = name.strip("/")
        if method == "POST":
            job = json.loads(body)
            kubernetes_validate.validate(job, VERSION, strict=True)
            name = job["metadata"]["name"]
            if name in self.jobs:
                return self._refusal(409, "AlreadyExists", name)
            self.jobs[name] = {**job, "status": {}}
        if self.says_nothing:
            return None
        if name not in self.jobs:
            return self._refusal(404, "NotFound", name)
        told = self.jobs.pop(name) if method == "DELETE" else self.jobs[name]
        return 200, json.dumps(told)

    def _refusal(self, code: int, reason: str, message: str) -> Answer:
        told = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
        return code, json.dumps({**told, "reason": reason, "message": message, "code": code})


def use_cluster(server: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the client find this server where it looks for the user's clusters."""
    file = folder / "config"
    stated = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
        "clusters": [{"name": "lab", "cluster": {"server": server}}],
        "users": [{"name": "lab", "user": {"token": "none"}}],
    }
    file.write_text(yaml.safe_dump(stated))
    for module in ("kubernetes.config", "kubernetes.config.kube_config"):
        monkeypatch.setattr(f"{module}.KUBE_CONFIG_DEFAULT_LOCATION", str(file))


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchApi]:
    api = BatchApi()
    with served(api.answer) as server:
        use_cluster(server, tmp_path, monkeypatch)
        yield api


def kubernetes(**options: Any) -> Launcher:
    options.setdefault("manifest", str(DEPLOY / "kubernetes" / "worker-job.yaml"))
    plan = {"engine": "kubernetes", "options": {"namespace": "lab", **options}, "kinds": (kind(),)}
    return launchers.launcher_of(
        Configuration(after_minutes=1.0, show_up_minutes=1.0, budget=None, **plan)
    )


def test_a_job_is_made_from_the_manifest_watched_and_deleted(api: BatchApi) -> None:
    jobs = kubernetes(queue="plumbline", node_selector={"gpu": "a100"})
    handle = jobs.launch(Order(LAUNCH, kind(gpus=2, hours=0.5)))
    job = api.jobs[handle]
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "plumbline"
    assert (job["spec"]["suspend"], job["spec"]["activeDeadlineSeconds"]) == (True, 1800)
    pod = job["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"gpu": "a100"}
    (container,) = pod["containers"]
    words = f"python -m runners worker --until-idle 5 --launch {LAUNCH}"
    assert container["command"] == shlex.split(words)
    assert container["resources"]["limits"] == {"memory": "64Gi", "nvidia.com/gpu": 2}

    assert jobs.alive(handle) is True
    for condition in ("Complete", "Failed"):
        api.jobs[handle]["status"] = {"conditions": [{"type": condition, "status": "True"}]}
        assert jobs.alive(handle) is False
    jobs.cancel(handle)
    jobs.cancel(handle)  # gone is no trouble
    assert (api.jobs, jobs.alive(handle)) == ({}, False)

    job = api.jobs[kubernetes().launch(Order(LAUNCH, kind(gpus=0)))]
    assert "suspend" not in job["spec"]
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["command"][4:6] == ["--devices", "cpu"]
    assert container["resources"]["limits"] == {"memory": "64Gi"}


def test_a_job_is_not_made_twice_where_nobody_heard_of_it_and_none_is_where_it_is_refused(
    api: BatchApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = kubernetes()
    assert jobs.find(ORDER.name) is None
    api.says_nothing = True
    with pytest.raises(NoAnswer, match="Kubernetes"):
        jobs.launch(ORDER)
    api.says_nothing = False
    assert jobs.find(ORDER.name) == jobs.launch(ORDER) == ORDER.name
    assert list(api.jobs) == [ORDER.name]

    api.is_forbidden = True
    said = r"Kubernetes: 403 Forbidden: .*jobs\.batch is forbidden"
    with pytest.raises(EngineTrouble, match=said) as refused:
        jobs.launch(ORDER)
    with pytest.raises(EngineTrouble, match="403"):
        jobs.alive("one")
    use_cluster("http://127.0.0.1:1", tmp_path, monkeypatch)
    with pytest.raises(EngineTrouble) as away:
        jobs.launch(ORDER)
    assert (refused.type, away.type) == (EngineTrouble, EngineTrouble)


def test_a_manifest_that_is_none_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    with pytest.raises(launchers.WrongFile, match="No such file"):
        kubernetes(manifest=str(file))
    file.write_text("kind: Pod")
    with pytest.raises(launchers.WrongFile, match="expected one Job"):
        kubernetes(manifest=str(file))


@pytest.mark.parametrize(
    ("status", "content", "trouble"),
    [
        (200, "<html>Sign in</html>", NoAnswer),
        (200, "{}", NoAnswer),
        (504, "a gateway's time is over", NoAnswer),
        (500, "runtime_env: not a dictionary", EngineTrouble),
    ],
)
def test_ray_may_have_made_what_it_did_not_refuse(
    status: int, content: str, trouble: type[EngineTrouble]
) -> None:
    with served(lambda *_: (status, content)) as address:
        jobs = RayJobs({"address": address})
        with pytest.raises(EngineTrouble, match=r"Ray at http://127\.0\.0\.1") as met:
            jobs.launch(ORDER)
        with pytest.raises(EngineTrouble, match=r"Ray at http://127\.0\.0\.1"):
            jobs.alive(ORDER.name)
    assert met.type is trouble
    with pytest.raises(EngineTrouble) as away:
        RayJobs({"address": "http://127.0.0.1:1"}).launch(ORDER)
    assert away.type is EngineTrouble


def test_a_job_of_rays_is_found_by_its_name() -> None:
    answers = iter([(200, '{"status": "PENDING"}'), (404, "")])
    with served(lambda *_: next(answers)) as address:
        jobs = RayJobs({"address": address})
        assert [jobs.find(ORDER.name), jobs.find(ORDER.name)] == [ORDER.name, None]


def test_sbatch_may_have_made_the_job_where_it_got_no_answer_and_a_job_that_is_there_is_the_one(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PLUMBLINE_HOME = tmp_path / "home"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def command(name: str, does: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)

    command("srun", "exit 0")
    command("squeue", "exit 0")
    lost = "Batch job submission failed: Socket timed out on send/recv operation"
    for said, trouble in (("invalid partition specified", EngineTrouble), (lost, NoAnswer)):
        command("sbatch", f"echo 'sbatch: {said}' >&2; exit 1")
        with pytest.raises(EngineTrouble, match=said) as met:
            Slurm({}).launch(ORDER)
        assert met.type is trouble
    command("squeue", f'case "$*" in *"--name {ORDER.name}"*) echo 17;; esac')
    assert Slurm({}).launch(ORDER) == "17"


def test_our_manifests_keep_to_their_schemas_and_name_what_others_of_them_make() -> None:
    made = set()
    for name, manifest in MANIFESTS:
        if "kind" not in manifest:
            continue
        made.add((manifest["kind"], manifest["metadata"]["name"]))
        if name == JOB_OF_KEDA:
            # KEDA's kind is in no schema of Kubernetes; what it makes is a Job.
            assert (manifest["kind"], manifest["apiVersion"]) == ("ScaledJob", "keda.sh/v1alpha1")
            job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "made"}}
            manifest = {**job, "spec": manifest["spec"]["jobTargetRef"]}
        kubernetes_validate.validate(manifest, VERSION, strict=True)
    text = "\n".join(file.read_text() for file in (DEPLOY / "kubernetes").glob("*.yaml"))
    assert ("PersistentVolumeClaim", "plumbline-home") in made
    assert ("ServiceAccount", "plumbline-launcher") in made
    for part in ("site", "beat", "chores", "boards"):
        assert ("Deployment", f"plumbline-{part}") in made
        assert f"[python, -m, runners, {part}]" in text


@pytest.mark.django_db
def test_keda_counts_the_models_that_wait_for_such_a_worker() -> None:
    (scaled,) = (manifest for name, manifest in MANIFESTS if name == JOB_OF_KEDA)
    query = scaled["spec"]["triggers"][0]["metadata"]["query"]

    def counted() -> int:
        with connection.cursor() as cursor:
            cursor.execute(query)
            return int(cursor.fetchone()[0])

    assert counted() == 0
    rows.queued("arc", "mmlu")
    rows.queued("arc", variant=rows.variant("tiny/gpt2"))
    rows.queued("arc", variant=rows.variant("huge/model"), needed_bytes=80 * 10**9)
    assert counted() == 2
    claim = rows.claimed_by(rows.worker())
    assert counted() == 1
    claims.fail(claim.token, claim.runs[0], error_class="InfraError", message="rests now")
    assert counted() == 1
    orders.give("pause", by="the operator")
    assert counted() == 0


@pytest.mark.parametrize("file", sorted(DEPLOY.glob("*/launch.yaml")), ids=lambda f: f.parent.name)
def test_a_file_of_launches_of_ours_is_read(file: Path) -> None:
    plan = launchers.read(file)
    assert plan.engine == file.parent.name
    if "manifest" in plan.options:
        beside = str(file.with_name(Path(plan.options["manifest"]).name))
        plan = Configuration(**{**vars(plan), "options": {**plan.options, "manifest": beside}})
    launchers.launcher_of(plan)
