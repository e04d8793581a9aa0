"""What a model thought before its answer, apart from it: in the samples and on a run's page."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
from django.test import Client

from evalcore.record import read_samples
from leaderboard.models import Run
from leaderboard.models.run import Artifact
from leaderboard.samples import store as artifacts
from tests.leaderboard import engine_runs
from tests.leaderboard.runs.test_page import content, get, text


def samples_of(run: Run) -> Path:
    return artifacts.path_of(run.artifacts.get(kind=Artifact.Kind.SAMPLES).sha256)


def test_thoughts_stand_apart_from_the_answer_and_are_closed(
    client: Client, tmp_path: Path, db: None
) -> None:
    run = engine_runs.thinking(tmp_path, thinking_budget=6)
    (row,) = [row for row in read_samples(samples_of(run)) if row["doc_id"] == 3]
    html = get(client, f"/runs/{run.pk}?spaces=1&doc=3")
    shown = text(html)
    cut = [response for response in row["responses"] if response["thinking"] == "cut"]
    assert cut
    for response in cut:
        tokens = response["n_thought_tokens"]
        assert tokens > 6
        assert f"What the model thought first, {tokens} tokens, ended by its budget" in shown
        assert "</think>" not in response["thoughts"]
    assert '<details class="fold">' in html
    assert "<details open" not in html
    assert "</think>" not in row["responses"][0]["text"]


def test_an_answer_that_never_came_is_told_apart(client: Client, tmp_path: Path, db: None) -> None:
    run = engine_runs.thinking(tmp_path)
    (row,) = [row for row in read_samples(samples_of(run)) if row["doc_id"] == 3]
    lost = [response for response in row["responses"] if response["thinking"] == "unended"]
    assert lost
    assert all(response["thoughts"] is None for response in lost)
    shown = text(get(client, f"/runs/{run.pk}?doc=3"))
    assert shown.count("cut at its longest length, still thinking") == len(lost)
    assert "thought first" not in shown


def test_thoughts_are_withheld_where_answers_are(client: Client, tmp_path: Path, db: None) -> None:
    told = engine_runs.thinking(tmp_path / "full", thinking_budget=6)
    withheld = engine_runs.thinking(tmp_path / "ids", publish="ids", thinking_budget=6)
    thoughts = {
        response["thoughts"]
        for row in read_samples(samples_of(told))
        for response in row["responses"]
        if response["thoughts"]
    }
    assert len(thoughts) > 5
    pages = [f"/runs/{withheld.pk}?doc={doc}" for doc in range(12)]
    said = [get(client, page) for page in pages]
    files = ["samples.jsonl", "every_eval_ever_samples.jsonl", "record.json"]
    said += [content(client.get(f"/runs/{withheld.pk}/{file}")).decode() for file in files]
    said.append(json.dumps(pq.read_table(samples_of(withheld)).to_pylist()))
    for secret in thoughts:
        written = json.dumps(secret)[1:-1]
        assert not [page for page in said if secret in page or written in page]
    assert "Thoughts sha256:" in text(said[0])
