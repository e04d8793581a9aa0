"""A site with a Hub of its own and a real worker: from the form to the board in one process."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import caches

from leaderboard.catalogue import sync as catalogue
from leaderboard.models import Run, Worker
from leaderboard.queue import claims
from leaderboard.snapshot import published
from leaderboard.web import background
from runners.engine import Keeper
from runners.evaluate import evaluate_claim
from tests import tiny
from tests.hub import serve
from tests.runners import place, rows
from tests.runners.conftest import live_in

TEMPLATE = (
    "{% for turn in messages %}<{{ turn.role }}> {{ turn.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant> {% endif %}"
)
CHATTY, LORA, WIDE = "awkward/chatty", "awkward/lora", "awkward/wide"


@contextmanager
def open_site(
    folder: Path, settings: Any, monkeypatch: pytest.MonkeyPatch, *, wide: bool = False
) -> Iterator[None]:
    """The suite `small`, a model with a chat template, and an adapter on it; files in `folder`.

    Where `wide`, one more model, with heads that vLLM can compute on a processor.
    """
    content = place.write_content(folder / "content", rows=40)
    models = content / "models" / "awkward"
    shutil.copytree(models / "tiny-llama", models / "chatty")
    (models / "chatty" / "chat_template.jinja").write_text(TEMPLATE)
    tiny.adapt(models / "chatty", models / "lora")
    file = models / "lora" / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "base_model_name_or_path": CHATTY}))
    if wide:
        tiny.make(models / "wide", adds_bos=True, positions=512, width=128)
    tasks = place.write_tasks(folder / "tasks")
    live_in(folder, settings, monkeypatch)
    settings.PLUMBLINE_TASKS = tasks
    settings.PLUMBLINE_SUITE = "small"
    settings.PLUMBLINE_OPEN_SUBMIT = True
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    # A test waits for the Hub where a page would ask again.
    monkeypatch.setattr(background, "PATIENCE_SECONDS", 120.0)
    with serve([content]) as url:
        settings.HF_ENDPOINT = url
        caches["local"].clear()
        published.forget()
        catalogue.sync(tasks)
        yield


def worker(name: str = "here", backend: str = "hf") -> Worker:
    made = rows.worker(name)
    made.quantisations, made.backend = ["bitsandbytes"], backend
    made.save()
    return made


def work_off(alive: Worker) -> None:
    """Evaluate what waits for this worker, as it would."""
    while claim := claims.claim_next(alive):
        with Keeper() as keeper:
            evaluate_claim(claim, alive, threading.Event(), keeper)
    for run in Run.objects.filter(worker=alive):
        assert run.state == "done", (str(run), run.error_message, run.log_tail[-2000:])
