"""A worker that evaluates, as an engine or an operator starts it, without a tree around it; and the
end of a whole tree: stopped it gives its runs back, and nothing outlives it. Before these, the
real engine from form to board: adapters, packed weights, chat templates and a model that is kept
from one claim to the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.contrib.auth.models import AnonymousUser
from django.db.models.functions import Now
from django.test import Client

from evalcore.record import read_samples
from evalcore.sandbox.confinement import BOOT
from leaderboard.models import Result, Run, Suite, Variant
from leaderboard.samples import store as artifacts
from leaderboard.snapshot import OWN, published
from leaderboard.submissions.precheck import Way
from leaderboard.submissions.submit import submit
from runners import child
from runners.engine import Keeper
from tests import databases
from tests.hub import get_json, serve, set_faults
from tests.runners import place, rows
from tests.runners.place import ANSWERING, ATTEMPTS, STATES, SUBMIT
from tests.runners.site import CHATTY, LORA, WIDE, open_site, work_off, worker

ROW = 'class="row"'
"""A model's row of a board."""


@pytest.fixture
def real_site(
    tmp_path: Path, transactional_db: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    with open_site(tmp_path, settings, monkeypatch, wide=True):
        yield


@pytest.mark.usefixtures("real_site")
def test_an_adapter_that_does_not_fit_the_model_it_is_put_on_says_what_it_was_trained_on() -> None:
    """The check of the form sees another name only; the weights are the worker's to see."""
    submission = submit(LORA, way=Way(base=WIDE), user=AnonymousUser())
    rows.evaluate_next(worker())
    for run in submission.runs.all():
        assert (run.state, run.error_class) == ("failed", "ModelError")
        assert LORA in run.error_message, run.error_message
        assert CHATTY in run.error_message, "what it was trained on"


@pytest.mark.usefixtures("real_site")
def test_each_way_of_a_model_has_numbers_of_its_own_in_the_same_columns(client: Client) -> None:
    wanted = {
        "plain": (CHATTY, Way()),
        "chat": (CHATTY, Way(chat=True)),
        "packed": (CHATTY, Way(packing="8bit")),
        "adapter": (LORA, Way()),
    }
    variants = {
        name: submit(model, way=way, user=AnonymousUser()).variant
        for name, (model, way) in wanted.items()
    }
    work_off(worker())
    assert not Run.objects.exclude(state="done").exists()
    suite = Suite.objects.get()
    for entry in suite.entries.all():
        assert entry.comparability_key
        assert entry.chat_comparability_key
        assert entry.comparability_key != entry.chat_comparability_key
    keys = {
        name: set(Result.objects.filter(run__variant=v).values_list("comparability_key", flat=True))
        for name, v in variants.items()
    }
    assert keys["plain"] == keys["packed"] == keys["adapter"]
    assert not keys["plain"] & keys["chat"]
    digests = {
        name: Run.objects.filter(variant=v, task__name="counting")
        .get()
        .artifacts.get(kind="samples")
        .sha256
        for name, v in variants.items()
    }
    assert len(set(digests.values())) == len(variants), "each answered otherwise"

    published.build_due()
    board = published.newest(suite, OWN)
    assert board is not None
    assert board.ranked == len(variants)
    html = client.get("/").content.decode()
    assert html.count(ROW) == len(variants)
    assert "asked in its chat template" in html
    assert f"adapter on {CHATTY}" in html
    assert "bitsandbytes 8-bit" in html
    one = client.get("/?asked=only").content.decode()
    assert one.count(ROW) == 1
    plain = client.get("/?asked=hide&adapter=hide&packed=hide").content.decode()
    assert plain.count(ROW) == 1
    page = client.get(f"/models/{CHATTY}?variant={variants['chat'].pk}").content.decode()
    assert "its chat template" in page
    assert Variant.objects.get(pk=variants["adapter"].pk).hub_model.repo_id == LORA


def numbers(run: Run) -> list[Any]:
    """All that a run came to, but for the keys of its samples, which name the model."""
    fields = ("metric", "filter", "subset", "value", "stderr", "low", "high", "n")
    found = [*run.results.order_by("metric", "filter", "subset").values_list(*fields)]
    samples = artifacts.path_of(run.artifacts.get(kind="samples").sha256)
    return [
        found,
        [{n: value for n, value in row.items() if "key" not in n} for row in read_samples(samples)],
    ]


@pytest.mark.usefixtures("real_site")
def test_a_second_claim_of_a_kept_model_has_the_numbers_of_a_fresh_process_to_the_last_bit(
    settings: Any,
) -> None:
    settings.PLUMBLINE_KEEP_MODEL = 3600
    here = worker()
    kept = [*submit(place.MODEL, way=Way(), user=AnonymousUser()).runs.order_by("task__name")]
    fresh = [*submit(CHATTY, way=Way(), user=AnonymousUser()).runs.order_by("task__name")]
    with Keeper() as keeper:
        for run in kept:
            Run.objects.filter(state="queued").update(not_before=Now() + timedelta(hours=1))
            Run.objects.filter(pk=run.pk).update(not_before=None)
            rows.evaluate_next(here, keeper=keeper)
            run.refresh_from_db()
            assert run.state == "done", run.log_tail
            assert keeper.holds_a_model
    Run.objects.update(not_before=None)
    work_off(here)
    assert [numbers(run) for run in kept] == [numbers(run) for run in fresh]


# Workers and trees as processes

ENDLESS, WORDS = 5000, 30
"""Questions that keep the engine busy for longer than any test looks, and words in each. All are
read and made to prompts before the first answer."""
MIB = 2**20
TOLD = """
import os
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families as families
page = Client().get("/metrics", headers={"authorization": "Bearer of this test"})
for family in families(page.content.decode()):
    for sample in family.samples:
        if {"worker"} <= set(sample.labels):
            print(sample.name, sample.labels.get("device"), int(sample.value))
"""
"""What a scrape says of each worker."""
METRICS = {"PLUMBLINE_METRICS_TOKEN": "of this test"}
WORKERS = "print(*((w.name, w.ended is not None) for w in Worker.objects.all()))"
LONG = 600
"""Seconds that a Hub or a prompt takes, for which nobody waits who was asked to stop."""
SOON = LONG / 5
"""By when a worker has stopped, on a machine however slow and busy."""
SLOW_PROMPTS = f"""\
import sys, time
def as_they_are(dataset):
    return dataset.map(lambda doc: {{"question": doc["question"]}})
def slowly(doc):
    print("a prompt is rendered", file=sys.stderr, flush=True)
    for _ in range({10 * LONG}):
        time.sleep(0.1)
    return doc["question"]
"""
DOC_TO_TEXT = 'doc_to_text: "Question: {{question}}\\nAnswer:"'


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """With a few questions."""
    with serve([place.write_content(tmp_path_factory.mktemp("few"), rows=12)]) as url:
        yield url


@pytest.fixture(scope="module")
def endless_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    many = place.write_content(tmp_path_factory.mktemp("many"), rows=4 * ENDLESS, words=WORDS)
    with serve([many]) as url:
        yield url


def test_it_sweeps_its_machine_evaluates_what_waits_and_ends_with_a_database_alone(
    tmp_path: Path, hub: str
) -> None:
    with place.site(tmp_path, hub, **METRICS) as here:
        work = here.home / "work" / "11111111-1111-4111-8111-111111111111"
        journal, log = here.home / "journal" / "7", here.home / "logs" / "old.log"
        for folder in (work, journal, log.parent):
            folder.mkdir(parents=True)
        log.write_text("of last month")
        for path in (journal, log):
            os.utime(path, (0, 0))
        drained = here.drained("cpu")
        assert here.ask(STATES) == "done done", drained.stderr
        assert [path.name for path in (work, journal, log) if path.exists()] == []
        (name, ended) = eval(here.ask(WORKERS))
        assert (name.startswith("evaluate-cpu@"), ended) == (True, True)
        costs = here.ask("print(*RunCost.objects.values_list('tokens', flat=True))")
        tokens = sum(map(int, costs.split()))
        assert tokens > 100
        assert here.ask(TOLD) == f"plumbline_worker_tokens_total None {tokens}"
        assert here.ask("from leaderboard.queue import live_workers as l\nprint(l())") == "[]"


def test_a_gpu_that_is_not_there_or_that_the_model_cannot_use_is_not_replaced(
    tmp_path: Path, hub: str
) -> None:
    with place.site(tmp_path, hub) as here:
        refused = place.finished_worker(here.variables, "--devices", "3")
        assert refused.returncode == 1
        assert refused.stderr.startswith("plumbline: --devices: nvidia-smi does not tell of GPUs")
        assert "Traceback" not in refused.stderr
        # The driver lists it; torch finds no eighth GPU on any machine that runs tests.
        here.add_gpus("7, GPU-7, A stand-in, 8000, 0, 8000, 7.5")
        drained = here.drained("7")
        assert here.ask(STATES) == "queued queued", drained.stderr
        assert "InfraError: --device cuda: this machine does not have it" in drained.stderr


def used_in(said: str) -> int:
    """Bytes in use on the processor, in what a scrape says."""
    values = {(name, device): int(n) for name, device, n in map(str.split, said.splitlines())}
    used = values["plumbline_device_memory_used_bytes", "cpu"]
    assert 0 < used < values["plumbline_device_memory_total_bytes", "cpu"]
    return used


def test_asked_to_stop_while_it_answers_it_gives_its_runs_back(
    tmp_path: Path, endless_hub: str
) -> None:
    with (
        place.site(tmp_path, endless_hub, **METRICS) as here,
        here.running("--until-idle", "--devices", "cpu") as worker,
    ):
        here.wait_for(ANSWERING, lambda said: said != "0")
        model = max(child.own_memory(one) for one in child.living(worker.pid))
        here.wait_for(TOLD, lambda said: used_in(said) > 0.8 * model)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(SOON) == 0
        assert (here.ask(STATES), here.ask(ATTEMPTS)) == ("queued queued", "0 0")


@pytest.mark.parametrize("meanwhile", ["the Hub is slow", "prompts are rendered"])
def test_asked_to_stop_it_waits_for_neither_the_hub_nor_the_prompts(
    tmp_path: Path, hub: str, meanwhile: str
) -> None:
    most = 1000
    is_hub = meanwhile == "the Hub is slow"
    tasks = place.write_tasks(tmp_path / "tasks")
    (tasks / "documents.py").write_text(SLOW_PROMPTS)
    for task in tasks.glob("*.yaml"):
        text = task.read_text()
        assert DOC_TO_TEXT in text
        task.write_text(text.replace(DOC_TO_TEXT, "doc_to_text: !function documents.slowly"))

    with place.site(tmp_path, hub) as here:

        def is_at_it() -> bool:
            if is_hub:
                return bool(get_json(hub, "/_faults")[0]["times"] < most)
            return "a prompt is rendered" in here.log()

        slow = {"match": "*datasets/*/resolve/*", "delay": float(LONG), "times": most}
        set_faults(hub, [slow] if is_hub else [])
        try:
            with here.running("--devices", "cpu") as worker:
                place.wait_until(is_at_it, place.STARTS_WITHIN, here.log)
                worker.send_signal(signal.SIGTERM)
                worker.wait(SOON)
        finally:
            set_faults(hub, [])
        assert here.ask("print(*Run.objects.values_list('lease_token', flat=True))") == "None None"
        assert (here.ask(STATES), here.ask(ATTEMPTS)) == ("queued queued", "0 0")


def engines(pid: int) -> list[psutil.Process]:
    """The engines below a process, without what wraps them."""
    wrappers = {BOOT, "runners.child"}
    return [
        process
        for process in psutil.Process(pid).children(recursive=True)
        if process.name().startswith("python")
        and "evalcore" in process.cmdline()
        and not wrappers & set(process.cmdline())
    ]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_kept_model_ends_with_its_worker(
    tmp_path: Path, hub: str, number: signal.Signals
) -> None:
    with (
        place.site(tmp_path, hub, PLUMBLINE_KEEP_MODEL="3600") as here,
        here.running("--devices", "cpu") as worker,
    ):
        here.wait_for(STATES, lambda said: said == "done done")
        place.wait_until(lambda: len(engines(worker.pid)) == 1, place.STARTS_WITHIN, here.log)
        below = psutil.Process(worker.pid).children(recursive=True)
        worker.send_signal(number)
        status = worker.wait(SOON)
        assert psutil.wait_procs(below, timeout=SOON)[1] == []
        if number == signal.SIGTERM:
            assert status == 0, here.log()
            assert [*(here.home / "work").iterdir()] == []


@pytest.fixture(scope="module")
def hub_of_tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    content = place.write_content(tmp_path_factory.mktemp("endless"), rows=ENDLESS, words=WORDS)
    with serve([content]) as url:
        yield url


@pytest.fixture
def tree(tmp_path: Path, hub_of_tree: str) -> Iterator[place.Tree]:
    """One whose worker answers questions."""
    databases.begin_at(tmp_path / "home")
    tasks = place.write_tasks(tmp_path / "tasks")
    variables = place.environment(tmp_path / "home", tasks, hub_of_tree)
    with place.tree(variables, tmp_path / "log") as tree:
        tree.wait_for_site()
        tree.ask(SUBMIT)
        tree.wait_for_answers()
        yield tree


def test_a_stopped_tree_gives_its_runs_back_and_a_second_one_beside_it_is_refused(
    tree: place.Tree,
) -> None:
    again = subprocess.run(
        [sys.executable, "-m", "runners"],
        cwd=place.ROOT, env=tree.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert again.returncode == 1
    port = tree.environment["PLUMBLINE_PORT"]
    assert f"already running at http://127.0.0.1:{port}" in again.stderr
    tree.ends(signal.SIGTERM)
    assert tree.ask(STATES) == "queued queued"
    assert tree.ask(ATTEMPTS) == "0 0"


def test_nothing_survives_a_killed_supervisor(tree: place.Tree) -> None:
    tree.ends(signal.SIGKILL)
