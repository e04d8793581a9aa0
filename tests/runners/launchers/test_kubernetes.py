"""Jobs of Kubernetes, by its own client, against a stand-in of the Batch API; and our manifests."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
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
from tests.runners import rows
from tests.runners.launchers import batch_api
from tests.runners.launchers.plans import kind
from tests.runners.place import ROOT

DEPLOY = ROOT / "docs" / "deploy"
MANIFESTS = [
    (file.name, number, manifest)
    for file in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for number, manifest in enumerate(yaml.safe_load_all(file.read_text()))
]
JOB_OF_KEDA = "keda-scaledjob.yaml"
CLUSTER = """\
apiVersion: v1
kind: Config
current-context: lab
contexts: [{{name: lab, context: {{cluster: lab, user: lab}}}}]
clusters: [{{name: lab, cluster: {{server: "{server}"}}}}]
users: [{{name: lab, user: {{token: none}}}}]
"""
LAUNCH = UUID("00000000-0000-4000-8000-000000000001")


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[batch_api.BatchApi]:
    with batch_api.serve() as (api, server):
        (tmp_path / "config").write_text(CLUSTER.format(server=server))
        for module in ("kubernetes.config", "kubernetes.config.kube_config"):
            where = f"{module}.KUBE_CONFIG_DEFAULT_LOCATION"
            monkeypatch.setattr(where, str(tmp_path / "config"))
        yield api


def engine(**options: Any) -> Launcher:
    options.setdefault("manifest", str(DEPLOY / "kubernetes" / "worker-job.yaml"))
    plan = {"engine": "kubernetes", "options": {"namespace": "lab", **options}, "kinds": (kind(),)}
    return launchers.launcher_of(
        Configuration(after_minutes=1.0, show_up_minutes=1.0, budget=None, **plan)
    )


def test_a_job_is_made_from_the_manifest_watched_and_deleted(api: batch_api.BatchApi) -> None:
    jobs = engine(queue="plumbline", node_selector={"gpu": "a100"})
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
        api.finish(handle, condition)
        assert jobs.alive(handle) is False
    jobs.cancel(handle)
    jobs.cancel(handle)  # gone is no trouble
    assert (api.jobs, jobs.alive(handle)) == ({}, False)


def test_without_kueue_a_job_begins_at_once_and_on_a_processor_without_gpus(
    api: batch_api.BatchApi,
) -> None:
    handle = engine().launch(Order(LAUNCH, kind(gpus=0)))
    job = api.jobs[handle]
    assert "suspend" not in job["spec"]
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["command"][4:6] == ["--devices", "cpu"]
    assert container["resources"]["limits"] == {"memory": "64Gi"}


def test_what_the_cluster_refuses_is_one_sentence(api: batch_api.BatchApi) -> None:
    jobs = engine()
    api.forbidden = True
    with pytest.raises(
        EngineTrouble, match=r"Kubernetes: 403 Forbidden: .*jobs\.batch is forbidden"
    ):
        jobs.launch(Order(LAUNCH, kind()))
    with pytest.raises(EngineTrouble, match="403"):
        jobs.alive("one")


def test_a_job_that_was_made_and_nobody_heard_of_is_found_and_not_made_twice(
    api: batch_api.BatchApi,
) -> None:
    jobs, order = engine(), Order(LAUNCH, kind())
    assert jobs.find(order.name) is None
    api.says_nothing = True
    with pytest.raises(NoAnswer, match="Kubernetes"):
        jobs.launch(order)
    api.says_nothing = False
    assert jobs.find(order.name) == jobs.launch(order) == order.name
    assert list(api.jobs) == [order.name]


def test_who_refuses_or_is_not_there_has_made_none(api: batch_api.BatchApi, tmp_path: Path) -> None:
    jobs = engine()
    api.forbidden = True
    with pytest.raises(EngineTrouble) as refused:
        jobs.launch(Order(LAUNCH, kind()))
    (tmp_path / "config").write_text(CLUSTER.format(server="http://127.0.0.1:1"))
    with pytest.raises(EngineTrouble) as away:
        jobs.launch(Order(LAUNCH, kind()))
    assert not {refused.type, away.type} & {NoAnswer}


@pytest.mark.parametrize(
    ("content", "said"), [(None, "No such file"), ("kind: Pod", "expected one Job")]
)
def test_a_manifest_that_is_none_is_refused(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "job.yaml"
    if content:
        file.write_text(content)
    with pytest.raises(launchers.WrongFile, match=said):
        engine(manifest=str(file))


@pytest.mark.parametrize(
    ("name", "manifest"),
    [pytest.param(name, made, id=f"{name}-{n}") for name, n, made in MANIFESTS if "kind" in made],
)
def test_a_manifest_of_ours_keeps_to_its_schema(name: str, manifest: dict[str, Any]) -> None:
    if name == JOB_OF_KEDA:
        # KEDA's kind is in no schema of Kubernetes; what it makes is a Job.
        assert (manifest["kind"], manifest["apiVersion"]) == ("ScaledJob", "keda.sh/v1alpha1")
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "made"}}
        manifest = {**job, "spec": manifest["spec"]["jobTargetRef"]}
    kubernetes_validate.validate(manifest, batch_api.VERSION, strict=True)


def test_manifests_name_what_others_of_them_make() -> None:
    made = {(m["kind"], m["metadata"]["name"]) for _, _, m in MANIFESTS if "kind" in m}
    text = "\n".join(file.read_text() for file in (DEPLOY / "kubernetes").glob("*.yaml"))
    assert ("PersistentVolumeClaim", "plumbline-home") in made
    assert ("ServiceAccount", "plumbline-launcher") in made
    parts = {"site", "beat", "chores", "boards"}
    assert {("Deployment", f"plumbline-{part}") for part in parts} <= made
    for part in parts:
        assert f"[python, -m, runners, {part}]" in text


@pytest.mark.django_db
def test_keda_counts_the_models_that_wait_for_such_a_worker() -> None:
    (scaled,) = (m for name, _, m in MANIFESTS if name == JOB_OF_KEDA)
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
    claim = claims.claim_next(rows.worker())
    assert claim is not None
    assert counted() == 1
    claims.fail(claim.token, claim.runs[0], error_class="InfraError", message="rests now")
    assert counted() == 1
    orders.give("pause", by="the operator")
    assert counted() == 0


@pytest.mark.parametrize("file", sorted(DEPLOY.glob("*/launch.yaml")), ids=lambda f: f.parent.name)
def test_a_file_of_launches_of_ours_is_read(file: Path, tmp_path: Path) -> None:
    plan = launchers.read(file)
    assert plan.engine == file.parent.name
    if "manifest" in plan.options:
        beside = str(file.with_name(Path(plan.options["manifest"]).name))
        plan = Configuration(**{**vars(plan), "options": {**plan.options, "manifest": beside}})
    launchers.launcher_of(plan)
