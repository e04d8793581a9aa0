"""Our manifests for Kubernetes, and the query by which KEDA counts the workers that are missing."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import kubernetes_validate
import psycopg2
import pytest
import yaml

from tests import services
from tests.runners.place import ROOT, Onlooker, environment_of_site, printed

FOLDER = ROOT / "docs" / "deploy" / "kubernetes"
MANIFESTS = [
    (file.name, manifest)
    for file in sorted(FOLDER.glob("*.yaml"))
    for manifest in yaml.safe_load_all(file.read_text())
]
SCALED_JOB = "keda-scaledjob.yaml"
VERSION = "1.31"


def test_manifests_keep_to_their_schemas_and_name_what_others_of_them_make() -> None:
    made = {(manifest["kind"], manifest["metadata"]["name"]) for _, manifest in MANIFESTS}
    for name, manifest in MANIFESTS:
        if name == SCALED_JOB:
            # KEDA's kind is in no schema of Kubernetes; what it makes is a Job.
            assert (manifest["kind"], manifest["apiVersion"]) == ("ScaledJob", "keda.sh/v1alpha1")
            job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "made"}}
            manifest = {**job, "spec": manifest["spec"]["jobTargetRef"]}
        kubernetes_validate.validate(manifest, VERSION, strict=True)
    text = "\n".join(file.read_text() for file in FOLDER.glob("*.yaml"))
    assert set(re.findall(r"claimName: ([\w-]+)", text)) == {"plumbline-home"}
    assert ("PersistentVolumeClaim", "plumbline-home") in made
    for part in ("site", "beat", "chores", "boards"):
        assert ("Deployment", f"plumbline-{part}") in made
        assert f"[python, -m, runners, {part}]" in text


def test_only_keda_and_the_deployment_start_workers_and_keda_s_end_by_themselves() -> None:
    found = {}
    for name, manifest in MANIFESTS:
        spec = manifest.get("spec", {})
        template = spec.get("jobTargetRef", spec).get("template", {})
        for container in template.get("spec", {}).get("containers", []):
            if container["image"] == "plumbline-worker":
                found[name] = container["command"]
    worker = shlex.split("celery --quiet --app runners worker --queues evaluate")
    assert found == {"worker-deployment.yaml": worker, SCALED_JOB: [*worker, "--drain"]}


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with services.postgresql() as address:
        yield address


@pytest.fixture(scope="module")
def onlooker(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Onlooker]:
    """A program of the site, on PostgreSQL."""
    home = tmp_path_factory.mktemp("home")
    variables = environment_of_site(home, database)
    (home / "secret_key").write_text("of a test, and long enough for a key that signs sessions")
    printed([sys.executable, "manage.py", "migrate", "--verbosity", "0"], variables)
    onlooker = Onlooker(variables)
    yield onlooker
    onlooker.end()


BEGIN = """
from datetime import timedelta
from django.db.models.functions import Now
from leaderboard.queue import claims, orders
from tests.leaderboard import factories as make

def ask(name, gb=20, **fields):
    variant = make.make_variant(f"lab/{name}", parameters=10**9)
    Variant.objects.filter(pk=variant.pk).update(**fields)
    for entry in Suite.objects.get().entries.all():
        make.queued_run(variant, entry, needed_bytes=gb * 10**9)
"""
SITUATIONS = {
    "nothing waits": ("make.make_suite(styles=('mmlu', 'hybrid'))", 0),
    "two models wait, with four runs each": ("ask('one'); ask('two')", 2),
    "one more is too large for such a worker": ("ask('large', gb=80)", 2),
    "one more is of packed weights": ("ask('p', quantisation='bitsandbytes 4-bit')", 3),
    "one more has code of its own": ("ask('programmed', code='lab/code@a')", 3),
    "one more is for vLLM": ("ask('served', backend='vllm')", 3),
    "a worker is idle, too small for any": ("make.make_worker('small', memory_bytes=10**9)", 3),
    "a worker is idle and fits": ("make.make_worker('one')", 2),
    "it has taken a model": ("claims.claim_next(Worker.objects.get(name='one'))", 2),
    "a model rests": (
        "v = Run.objects.filter(state='queued', variant__hub_model__repo_id='lab/two')\n"
        "v.update(not_before=Now() + timedelta(hours=1))", 1,
    ),
    "all are paused": ("orders.give('pause', by='the operator')", 0),
    "all go on": ("orders.lift()", 1),
    "the worker died, and its model waits again": (
        "Run.objects.filter(state='running').update(lease_until=Now() - timedelta(seconds=1))\n"
        "claims.release_stalled(); Worker.objects.update(seen=Now() - timedelta(hours=1))", 2,
    ),
}  # fmt: skip
"""Each after those before it: what is done, and how many workers are wanted then."""


def test_keda_s_query_is_the_one_that_is_printed_and_both_count_the_same(
    database: str, onlooker: Onlooker
) -> None:
    text = (FOLDER / SCALED_JOB).read_text()
    (command,) = re.findall(
        r"^ *# +python manage.py (workers-wanted .+) --sql$", text, re.MULTILINE
    )
    (trigger,) = yaml.safe_load(text)["spec"]["triggers"]
    query = trigger["metadata"]["query"]
    count = f"from django.core.management import call_command\ncall_command(*{command.split()!r}"
    assert onlooker.ask(f"{count}, '--sql')") == query
    with psycopg2.connect(database) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        for situation, (change, expected) in SITUATIONS.items():
            onlooker.ask(BEGIN + change)
            cursor.execute(query)
            assert cursor.fetchone() == (expected,), situation
            assert onlooker.ask(f"{count})") == str(expected), situation


def test_a_database_that_is_away_is_no_number(tmp_path: Path) -> None:
    away = environment_of_site(tmp_path, "postgresql://postgres@127.0.0.1:9/none")
    told = subprocess.run(
        [sys.executable, "manage.py", "workers-wanted", "--memory", "1"],
        env=away, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (told.returncode, told.stdout) == (1, "")
    (line,) = told.stderr.splitlines()
    assert line.startswith("CommandError: the database does not answer: ")
