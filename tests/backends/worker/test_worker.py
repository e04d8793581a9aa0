"""A worker of vLLM: its model's process is confined, and its answers are those of transformers.

Run by `make test-backends` in the site's environment, beside that of vLLM.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.test import Client

from leaderboard.backends.agree import compare_due
from leaderboard.models import Agreement, Run, Suite
from leaderboard.snapshot import OWN, published
from leaderboard.submissions.precheck import Way
from leaderboard.submissions.submit import submit
from tests.runners.site import WIDE, open_site, work_off, worker

pytestmark = pytest.mark.django_db(transaction=True)

PYTHON = os.environ.get("PLUMBLINE_VLLM_PYTHON", "")


@pytest.fixture(autouse=True)
def _site(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    assert PYTHON, "PLUMBLINE_VLLM_PYTHON: name the Python of vLLM's environment"
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    settings.PLUMBLINE_VLLM_ARGS = "enforce_eager=True"  # compiling takes minutes here
    settings.PLUMBLINE_VLLM_PYTHON = ""
    with open_site(tmp_path, settings, monkeypatch, wide=True):
        yield


def test_what_vllm_computes_agrees_with_transformers_and_is_ranked(
    settings: Any, client: Client
) -> None:
    ours, theirs = worker("ours"), worker("theirs", backend="vllm")
    variants = {
        backend: submit(WIDE, way=Way(backend=backend), user=AnonymousUser()).variant
        for backend in ("hf", "vllm")
    }
    work_off(ours)
    settings.PLUMBLINE_VLLM_PYTHON = PYTHON
    work_off(theirs)
    runs = Run.objects.filter(variant=variants["vllm"])
    assert set(runs.values_list("state", "computed_by")) == {("done", "vllm 0.32.0 on cpu")}
    assert "namespaces" in runs[0].environment["confinement"]
    assert runs[0].environment["network"] == "none"

    while compare_due():
        pass
    rows = Agreement.objects.all()
    assert rows.count() == runs.count()
    for row in rows:
        assert row.within, row.why
        assert row.responses == 4 * row.documents
        assert 0 < row.largest < 1e-3
    (suite,) = Suite.objects.all()
    published.build_due()
    board = published.newest(suite, OWN)
    assert board is not None
    assert board.ranked == 2
    assert "computed by vLLM" in client.get("/").content.decode()
