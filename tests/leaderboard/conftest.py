"""The site's surroundings in tests: real Hub processes, a small tasks folder, workers, pages."""

from __future__ import annotations

import html as html_module
import math
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache, caches

from leaderboard.catalogue import sync as catalogue
from leaderboard.corrections import second_figures
from leaderboard.models import Suite, User, Worker
from leaderboard.snapshot import published
from leaderboard.submissions import precheck
from leaderboard.tasks import items
from leaderboard.web import background, kept, refreshed
from tests import awkward
from tests.hub import Orders, serve, set_faults
from tests.leaderboard import factories as make
from tests.leaderboard.pages import get as get

Fail = Callable[[Orders], None]
"""Makes the site's Hub fail so until the end of the test."""
TINY = f"{awkward.ORGANISATION}/tiny-llama"
"""A model of the site's Hub that can be evaluated."""
TASK = """\
task: {name}
dataset_path: org/questions
dataset_kwargs: {{revision: 0123456789012345678901234567890123456789}}
output_type: multiple_choice
test_split: test
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_choice: choices
doc_to_target: answer
metric_list:
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
metadata: {{version: 1.0, benchmark: facts, style: {style}, chance: 0.25, primary_metric: acc}}
"""
SUITE = """\
suite: small
version: 1.0
title: Small
description: One benchmark in two styles.
notice: null
benchmarks:
  - benchmark: facts
    title: Facts
    own: cloze
    shots: 0
    metric: acc
    styles: {cloze: facts, mmlu: facts_mmlu}
"""


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test's rows are rolled back, and the next one's editions have the same numbers again.

    Nor is what took a busy machine long to make given to a later test.
    """
    kept.forget()
    published.forget()
    monkeypatch.setattr(refreshed, "QUICK", math.inf)


@pytest.fixture(scope="session", autouse=True)
def _no_haste() -> Iterator[None]:
    """A round of a chore comes to its end, and the Hub is heard, however busy the machine is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(precheck.check.__kwdefaults__, "seconds", 120.0)
        patch.setattr(background, "PATIENCE_SECONDS", 120.0)
        patch.setattr(items, "SECONDS", math.inf)
        patch.setattr(second_figures, "MAX_SECONDS", math.inf)
        yield


@pytest.fixture(scope="session")
def hub_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Hub with the awkward models; its address."""
    with serve([awkward.build(tmp_path_factory.mktemp("hub"))]) as url:
        yield url


@pytest.fixture
def hub(hub_process: str, settings: Any) -> Iterator[Fail]:
    """The site's Hub for one test; call it with faults to make it fail."""
    settings.HF_ENDPOINT = hub_process
    cache.clear()
    caches["local"].clear()

    def fail(faults: Orders) -> None:
        set_faults(hub_process, faults)

    yield fail
    fail([])


@dataclass(frozen=True)
class OwnHub:
    """A Hub whose repositories the tests write themselves."""

    address: str
    models: Path
    fine: Path
    """A model to copy; it is not served."""

    def write(self, repo_id: str, change: Callable[[Path], object] = lambda _: None) -> Path:
        """Serves a copy of the fine model under this name, changed so."""
        folder = self.models / repo_id
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.fine, folder)
        change(folder)
        return folder


@pytest.fixture(scope="session")
def hub_of_own_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnHub]:
    root = tmp_path_factory.mktemp("own-hub")
    awkward.write_tiny_llama(root / "fine")
    (root / "models").mkdir()
    with serve([root]) as address:
        yield OwnHub(address, root / "models", root / "fine")


@pytest.fixture
def own_hub(hub_of_own_models: OwnHub, settings: Any) -> OwnHub:
    """The site asks this Hub for one test."""
    settings.HF_ENDPOINT = hub_of_own_models.address
    caches["local"].clear()
    return hub_of_own_models


@pytest.fixture
def artifacts_folder(tmp_path: Path, settings: Any) -> Path:
    """Where this test's site stores files, and nothing else does."""
    folder = tmp_path / "artifacts"
    storage = {**settings.STORAGES["artifacts"], "OPTIONS": {"location": folder}}
    settings.STORAGES = {**settings.STORAGES, "artifacts": storage}
    return folder


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """A tasks folder with the suite `small`."""
    folder = tmp_path / "tasks"
    (folder / "suites").mkdir(parents=True)
    for name, style in (("facts", "cloze"), ("facts_mmlu", "mmlu")):
        (folder / f"{name}.yaml").write_text(TASK.format(name=name, style=style))
    (folder / "suites" / "small.yaml").write_text(SUITE)
    return folder


@pytest.fixture
def suite(db: None, tasks: Path, settings: Any) -> Suite:
    """The suite that the site runs."""
    settings.PLUMBLINE_TASKS = tasks
    settings.PLUMBLINE_SUITE = "small"
    catalogue.sync(tasks)
    return Suite.objects.get()


@pytest.fixture
def closed(hub: Fail, suite: Suite, settings: Any) -> Suite:
    """A site that takes submissions from accounts only, with a worker that is alive."""
    settings.PLUMBLINE_OPEN_SUBMIT = False
    worker(16 * 10**9)
    return suite


@pytest.fixture
def opened(closed: Suite, settings: Any) -> Suite:
    """A site that takes submissions from anybody, with a worker that is alive."""
    settings.PLUMBLINE_OPEN_SUBMIT = True
    return closed


@pytest.fixture
def ada(db: None) -> User:
    return User.objects.create_user("ada")


@pytest.fixture
def bo(db: None) -> User:
    return User.objects.create_user("bo")


def worker(
    memory_bytes: int, *, dtypes: tuple[str, ...] = ("float32", "bfloat16", "float16")
) -> Worker:
    """A worker that was seen just now."""
    return make.make_worker(f"worker-{memory_bytes}", memory_bytes=memory_bytes, dtypes=dtypes)


def text_of(html: str) -> str:
    """What a reader sees: no markup, and white space as a browser joins it."""
    return " ".join(characters(html).split())


def characters(html: str) -> str:
    """Every character between the tags, as in a <pre>."""
    return html_module.unescape(re.sub(r"<[^>]+>", "", html))
