"""Models with code of their own on the site: by the operator's list, and where nothing gets out.

From the form to the stored record, with the real local Hub and real children. The code tries to
leave: it ends the run where it reaches the network, or writes where nobody asked it to.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from evalcore.sandbox.confinement import LANDLOCK, NAMESPACES
from leaderboard.catalogue import sync as catalogue
from leaderboard.hub import Refused
from leaderboard.models import Run, Submission, User, Worker
from leaderboard.queue import claims, reproduce
from leaderboard.samples import store as artifacts
from leaderboard.submissions import precheck
from leaderboard.submissions.precheck import Way
from leaderboard.submissions.submit import submit
from runners import sandboxed
from runners.registration import Registration
from tests import own_code
from tests.hub import ROOT, client_environment, get_json, serve
from tests.runners import rows
from tests.runners.conftest import live_in, works
from tests.runners.rows import evaluate_next

pytestmark = pytest.mark.django_db(transaction=True)

ESCAPE = """
import socket
from pathlib import Path

for place in {places!r}:
    try:
        Path(place).write_text("was here")
        raise RuntimeError("it wrote outside")
    except OSError:
        pass
try:
    socket.create_connection({address!r}, timeout=3).close()
    raise RuntimeError("it reached the network")
except OSError:
    pass
"""


FORGERY = """
import json
import pyarrow as pa
import pyarrow.parquet as pq
from evalcore.digest import digest_of_file
from evalcore.evaluation import Evaluation

honest = Evaluation.write


def forged(self, folder, stem):
    record, samples = honest(self, folder, stem)
    table = pq.read_table(samples)
    at = table.schema.get_field_index("doc_digest")
    others = pa.array([f"{number:064}" for number in range(len(table))])
    pq.write_table(table.set_column(at, "doc_digest", others), samples)
    fields = json.loads(record.read_text())
    fields["samples"]["sha256"] = digest_of_file(samples)
    record.write_text(json.dumps(fields))
    return record, samples


Evaluation.write = forged
"""
"""What a model does that lets the engine write both files, and edits them before it says so."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A Hub with the demo's data and models whose code tries to leave."""
    root = tmp_path_factory.mktemp("hub")
    outside = tmp_path_factory.mktemp("outside")
    owner = root / "models" / "somebody"
    owner.mkdir(parents=True)
    with serve([root, ROOT / "demo" / "content"]) as url:
        address = urlsplit(url)
        before = ESCAPE.format(
            places=[str(outside / "file"), str(root / "models" / "file")],
            address=(address.hostname, address.port),
        )
        own_code.make(owner / "own", before=before)
        own_code.write_code(owner / "code", before=before)
        own_code.make(owner / "borrowing", elsewhere="somebody/code")
        own_code.make(owner / "forging", before=FORGERY)
        tasks = root / "tasks"
        shutil.copytree(ROOT / "tasks" / "demo", tasks / "demo")
        (tasks / "suites").mkdir()
        shutil.copy(ROOT / "tasks" / "suites" / "demo.yaml", tasks / "suites")
        yield SimpleNamespace(url=url, owner=owner, outside=outside, tasks=tasks)


@pytest.fixture(autouse=True)
def site(
    served: SimpleNamespace, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> SimpleNamespace:
    live_in(tmp_path, settings, monkeypatch)
    settings.HF_ENDPOINT = served.url
    settings.PLUMBLINE_SUITE = "demo"
    settings.PLUMBLINE_TASKS = served.tasks
    settings.PLUMBLINE_OPEN_SUBMIT = True
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    catalogue.sync(served.tasks)
    return served


@pytest.fixture
def worker() -> Worker:
    """One that takes models with code of their own."""
    made = rows.worker()
    made.runs_code = True
    made.save()
    return made


def commit_of(site: SimpleNamespace, name: str) -> str:
    return str(get_json(site.url, f"/api/models/somebody/{name}")["sha"])


def trust(settings: Any, *pins: str) -> None:
    listed: dict[str, frozenset[str]] = {}
    for pin in pins:
        name, _, commit = pin.partition("@")
        listed[name] = listed.get(name, frozenset()) | {commit}
    settings.PLUMBLINE_TRUSTED_CODE = listed


def submitted(name: str) -> Submission:
    user, _ = User.objects.get_or_create(username="ada")
    return submit(f"somebody/{name}", user=user)


def one_run(submission: Submission) -> Run:
    """The run of one task; the others are taken back."""
    runs = list(submission.runs.order_by("task__name"))
    for other in runs[1:]:
        claims.cancel(other, by="test")
    return runs[0]


def evaluated(run: Run, worker: Worker) -> Run:
    evaluate_next(worker)
    run.refresh_from_db()
    return run


@pytest.mark.parametrize("name", ["own", "borrowing"])
def test_listed_code_is_run_and_cannot_leave(
    name: str, site: SimpleNamespace, settings: Any, worker: Worker
) -> None:
    works(NAMESPACES)
    of = "own" if name == "own" else "code"
    pin = f"somebody/{of}@{commit_of(site, of)}"
    trust(settings, pin)
    run = evaluated(one_run(submitted(name)), worker)
    assert run.state == "done", (run.error_message, run.log_tail)
    assert run.variant.code == pin
    record = json.loads(artifacts.path_of(run.artifacts.get(kind="record").sha256).read_text())
    assert record["model"]["code"] == [pin]
    assert record["model"]["architecture"] == "OwnForCausalLM"
    assert run.environment["network"] == "none"
    assert list(site.outside.iterdir()) == []
    command = " ".join(reproduce.command(run))
    assert "trust_remote_code=True" in command
    assert (f"code_revision={commit_of(site, 'code')}" in command) == (name == "borrowing")


def test_the_same_code_leaves_where_nothing_keeps_it(site: SimpleNamespace, tmp_path: Path) -> None:
    """What the test before would see of a confinement that fails."""
    stated = f"pretrained={site.owner / 'own'},trust_remote_code=True"
    done = subprocess.run(
        [sys.executable, "-m", "evalcore", "run", "--model_args", stated, "--tasks", "demo_facts"],
        cwd=ROOT,
        env=client_environment(site.url, tmp_path / "hf"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 10
    assert "it wrote outside" in done.stderr
    for file in (*site.outside.iterdir(), site.owner.parent / "file"):
        file.unlink(missing_ok=True)


def test_what_a_model_makes_of_its_files_is_not_stored(
    site: SimpleNamespace, settings: Any, worker: Worker
) -> None:
    works(NAMESPACES)
    trust(settings, f"somebody/forging@{commit_of(site, 'forging')}")
    run = evaluated(one_run(submitted("forging")), worker)
    assert (run.state, run.error_class) == ("queued", "InfraError")
    assert "doc_digest is 000000000000, that of its document" in run.error_message
    assert not run.results.exists()
    assert not run.artifacts.exists()
    assert not list(artifacts.storage().here.rglob("incoming-*"))


def refused(name: str) -> Any:
    with pytest.raises(Refused) as refusal:
        submitted(name)
    (problem,) = refusal.value.problems
    assert problem.code == "custom_code"
    assert not Run.objects.exists()
    return problem


def test_code_that_the_operator_has_not_listed_at_this_commit_is_refused_with_the_remedy(
    site: SimpleNamespace, settings: Any
) -> None:
    problem = refused("own")
    assert "code from the Hub is never run here" in problem.message
    assert problem.remedy == "Submit a version whose architecture is part of transformers."
    trust(settings, f"somebody/else@{'a' * 40}")
    problem = refused("own")
    commit = commit_of(site, "own")
    assert f"has not listed somebody/own at commit {commit[:8]}" in problem.message
    assert "ask the operator of this site to read the code" in problem.remedy
    problem = refused("borrowing")
    assert "takes code from somebody/code, which the operator has not listed" in problem.message
    trust(settings, f"somebody/own@{'a' * 40}")
    assert refused("own").remedy.startswith(f"Submit the revision {'a' * 40}")
    trust(settings, f"somebody/code@{'a' * 40}", f"somebody/code@{'b' * 40}")
    assert "is listed at several commits" in refused("borrowing").message


def test_the_check_says_that_code_is_trusted_and_who_can_run_it(
    site: SimpleNamespace, settings: Any, worker: Worker
) -> None:
    pin = f"somebody/own@{commit_of(site, 'own')}"
    trust(settings, pin)
    outcome = precheck.check("somebody/own")
    assert outcome.ok
    (warning,) = outcome.warnings
    assert warning.code == "own_code"
    assert pin in warning.message
    problems = precheck.check("somebody/own", way=Way(backend="vllm")).problems
    assert "plain_models_only" in [problem.code for problem in problems]
    worker.runs_code = False
    worker.save()
    (problem,) = precheck.check("somebody/own").problems
    assert problem.code == "no_worker_for_code"


def test_code_is_run_by_no_worker_with_weaker_confinement_or_another_list_or_that_runs_none(
    site: SimpleNamespace, settings: Any, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust(settings, f"somebody/own@{commit_of(site, 'own')}")
    run = one_run(submitted("own"))
    assert claims.claim_next(rows.worker("bo")) is None
    with monkeypatch.context() as weaker:
        weaker.setattr(sandboxed, "way_of_machine", lambda: LANDLOCK)
        assert not Registration("worker", "cpu").announce().runs_code
        evaluated(run, worker)
    assert (run.state, run.error_class) == ("queued", "InfraError")
    assert "cannot keep a model's own code from the network" in run.error_message
    trust(settings, f"somebody/own@{'a' * 40}")
    Run.objects.update(not_before=None)
    evaluated(run, worker)
    assert run.state == "queued"
    assert "this worker does not trust the code of somebody/own" in run.error_message
    assert not (Path(settings.PLUMBLINE_HOME) / "hf").exists()
