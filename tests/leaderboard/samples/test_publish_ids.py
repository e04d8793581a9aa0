"""Data sets whose text may not be put online: no word of theirs leaves the site, in any form."""

from __future__ import annotations

import html as html_module
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.test import Client

from evalcore.record import read_samples
from leaderboard.models import Artifact, Run
from leaderboard.runs.dialects import DIALECTS
from leaderboard.samples import store as artifacts
from tests.evalcore.toys import evaluated, write_toys
from tests.leaderboard import engine_runs
from tests.leaderboard.runs.test_page import content, get, text

TASKS = ("toy_choice", "toy_shots", "toy_likely", "toy_rolling", "toy_written")


@pytest.fixture
def withheld(db: None, tmp_path: Path) -> dict[str, Run]:
    return engine_runs.finished(tmp_path / "ids", TASKS, publish="ids")


@pytest.fixture
def secrets(tmp_path: Path) -> set[str]:
    """Every text of the documents and every answer, as the same tasks have them in full."""
    evaluations = evaluated(write_toys(tmp_path / "full"), ",".join(TASKS))
    return {
        secret
        for evaluation in evaluations
        for sample in evaluation.samples
        for secret in (
            *_texts(json.loads(sample["doc"])),
            *(response["text"] or "" for response in sample["responses"]),
        )
        if len(secret) > 3
    }


def _samples(run: Run) -> Path:
    return artifacts.path_of(run.artifacts.get(kind=Artifact.Kind.SAMPLES).sha256)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


def test_no_page_and_no_file_holds_a_text_of_the_data_set(
    client: Client, withheld: dict[str, Run], secrets: set[str]
) -> None:
    assert {"What is the capital of country 3?", "city 3 a", "It is 0 or 4."} <= secrets
    for run in withheld.values():
        sent = {address: _said(client, address) for address in _addresses(run)}
        for address, said in sent.items():
            assert not [secret for secret in secrets if secret in said], address


def _addresses(run: Run) -> list[str]:
    page = f"/runs/{run.pk}"
    views = [f"{page}?doc={doc}" for doc in range(12)]
    views += [f"{page}?{query}" for query in ("spaces=1", "sort=long", "outcome=wrong", "doc=99")]
    files = ["record.json", "samples.parquet", *(dialect.file for dialect in DIALECTS)]
    return [page, *views, f"{page}/progress", *(f"{page}/{file}" for file in files)]


def _said(client: Client, address: str) -> str:
    """All that an address answers, as text; parquet row by row."""
    response = client.get(address)
    assert response.status_code == (404 if address.endswith("=99") else 200)
    if address.endswith(".parquet"):
        rows = pq.read_table(pa.BufferReader(content(response))).to_pylist()
        return json.dumps(rows, ensure_ascii=False)
    if response.streaming:
        lines = content(response).decode().splitlines()
        whole = lines if address.endswith(".jsonl") else ["\n".join(lines)]
        return "\n".join(json.dumps(json.loads(line), ensure_ascii=False) for line in whole)
    return html_module.unescape(response.content.decode())


def test_the_page_says_so_and_has_no_search_for_text(
    client: Client, withheld: dict[str, Run]
) -> None:
    run = withheld["toy_choice"]
    html = get(client, f"/runs/{run.pk}?q=capital")
    shown = text(html)
    assert "ask that its text is not put online: every text is its SHA-256" in shown
    assert "No text to search: this data set is published as ids only." in shown
    assert 'disabled aria-describedby="q-note"' in html
    assert "12 questions" in shown
    assert "<mark" not in html


def test_digests_loglikelihoods_and_scores_remain(client: Client, withheld: dict[str, Run]) -> None:
    run = withheld["toy_choice"]
    (sample,) = [row for row in read_samples(_samples(run)) if row["doc_id"] == 4]
    html = get(client, f"/runs/{run.pk}?doc=4")
    shown = text(html)
    assert f"sha256:{sample['doc_digest']}" in shown
    assert sample["prompt"].startswith("sha256:")
    assert sample["prompt"] in shown
    for choice, response in zip(sample["choices"], sample["responses"], strict=True):
        assert choice in shown
        assert f"{response['loglikelihood']:.2f}".replace("-", "−") in shown
    assert "Prompt as sent" not in shown


def test_the_numbers_are_checked_at_the_level_that_needs_no_text(
    client: Client, withheld: dict[str, Run]
) -> None:
    html = get(client, f"/runs/{withheld['toy_written'].pk}")
    assert "--level aggregate" in html
    assert "--level rescore" not in html
    assert "the level rescore would need the text, which is withheld" in text(html)
