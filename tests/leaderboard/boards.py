"""Boards made up without a database, of any size: for tests and benchmarks of what is done to one.

Scores are drawn around a skill for each model; one model in twenty is flagged, one in ten lacks a
column and with it average and rank.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import numpy as np

from evalcore.digest import digest_of
from evalcore.lengths import NAMES
from leaderboard.models import BoardSnapshot, Suite
from leaderboard.snapshot import (
    OWN,
    STANDINGS,
    Board,
    Column,
    Model,
    Models,
    Ranks,
    Scores,
    Standing,
    published,
)

FIRST = datetime(2025, 1, 1, tzinfo=UTC)
FAMILIES = ("llama", "mistral", "gpt_neox", "qwen2", "phi", "olmo", "gemma2", "falcon")
KINDS = ("pretrained", "fine-tuned", "chat", "merge", "")
LICENCES = ("apache-2.0", "mit", "llama3", "")
DTYPES = ("bfloat16", "float16", "float32")
CHANCE = 0.25
QUESTIONS = 1000


def synthetic_board(
    models: int = 120,
    columns: int = 6,
    seed: int = 0,
    *,
    normalisation: str = "none",
    style: str = OWN,
    uncounted: int = 0,
) -> Board:
    """A board of so many rows and columns, of which the last `uncounted` are perplexities."""
    draw = np.random.default_rng(seed)
    plain = np.arange(columns) >= columns - uncounted
    skill = draw.normal(0.55, 0.12, size=(models, 1))
    value = np.clip(skill + draw.normal(0, 0.08, size=(models, columns)), 0.02, 0.98)
    half = 1.96 * np.sqrt(value * (1 - value) / QUESTIONS)
    value[:, plain], half[:, plain] = 40 * value[:, plain], 0.3
    missing = np.zeros((models, columns), np.bool_)
    incomplete = draw.random(models) < 0.1
    missing[incomplete, draw.integers(columns, size=int(incomplete.sum()))] = True
    value[missing] = np.nan
    scores = Scores(value, value - half, value + half)
    of_chance = np.where(plain, 0.0, CHANCE)
    normalised = Scores(
        *((a - of_chance) / (1 - of_chance) for a in (value, value - half, value + half))
    )
    counted = np.flatnonzero(~plain).tolist()
    chosen = normalised if normalisation == "chance" else scores
    average = chosen.mean(counted).where(~missing.any(axis=1))

    listed = [_model(row, draw) for row in range(models)]
    names = np.array([model.repo_id.lower() for model in listed], dtype=str)
    order = np.lexsort((names, -average.value))
    listed = [listed[row] for row in order]
    missing, average = missing[order], average.rows(order)
    standing = np.where(missing, STANDINGS.index(Standing.QUEUED), STANDINGS.index(Standing.SCORED))
    return Board(
        suite="synthetic",
        version="1.0",
        title="Synthetic",
        normalisation=normalisation,
        style=style,
        built=FIRST + timedelta(days=200),
        data_version=digest_of([models, columns, seed, normalisation, style, uncounted]),
        columns=tuple(_column(number, plain=bool(plain[number])) for number in range(columns)),
        models=Models.of(listed),
        scores=scores.rows(order),
        normalised=normalised.rows(order),
        n=np.where(missing, 0, QUESTIONS).astype(np.int32),
        standing=standing.astype(np.int8),
        sd_of_draws=np.zeros((models, columns)),
        lengths=np.zeros((models, columns, len(NAMES)), np.int32),
        run=_runs(models, columns),
        average=average,
        ranks=_ranks(average, listed),
        styles=("cloze", "mmlu"),
    )


def publish(board: Board, suite: Suite) -> BoardSnapshot:
    """Store the board as the newest snapshot of a suite, as the boards worker would."""
    return published.publish(suite, board, seconds=1.0)


def _column(number: int, *, plain: bool) -> Column:
    name = f"bench_{number:02}"
    return Column(
        benchmark=name,
        title=f"Bench {number}",
        style=("cloze", "mmlu")[number % 2],
        own=True,
        counts=not plain,
        task=name,
        task_version="1.0",
        metric="word_perplexity" if plain else "acc",
        filter="none",
        shots=5 * (number % 2),
        draws=1,
        chance=None if plain else CHANCE,
        people=0.9 if number == 0 else None,
        people_source="Ada and Bo, 2024, on 100 questions" if number == 0 else "",
        run_key=digest_of(["run", number]),
        comparability_key=digest_of(["column", number]),
        n=QUESTIONS,
    )


def _model(row: int, draw: np.random.Generator) -> Model:
    family = FAMILIES[int(draw.integers(len(FAMILIES)))]
    billions = float(np.exp(draw.normal(1.5, 1.2)))
    kind = KINDS[int(draw.integers(len(KINDS)))]
    owner = f"lab-{int(draw.integers(max(2, row // 8 + 2)))}"
    return Model(
        variant=row + 1,
        repo_id=f"{owner}/{family.title()}-{row:05}-{billions:.1f}b",
        commit=digest_of(["commit", row])[:40],
        dtype=DTYPES[int(draw.integers(len(DTYPES)))],
        quantisation="4bit" if draw.random() < 0.05 else "",
        adapter_base="",
        chat=False,
        backend="hf",
        apart="",
        weights="",
        architecture=f"{family.title()}ForCausalLM",
        model_type=family,
        parameters=int(billions * 10**9),
        licence=LICENCES[int(draw.integers(len(LICENCES)))],
        kind=kind,
        base_model=f"lab-1/{family.title()}-base" if kind in ("fine-tuned", "merge") else "",
        merged=kind == "merge",
        moe=bool(draw.random() < 0.1),
        official=kind == "pretrained",
        flag_reason="Trained on the questions" if draw.random() < 0.05 else "",
        chat_template=kind == "chat",
        hub_state="gone" if draw.random() < 0.05 else "present",
        superseded_by="",
        added=(added := FIRST + timedelta(hours=int(draw.integers(4000)))),
        released=added - timedelta(days=60) if draw.random() < 0.9 else None,
    )


def _runs(models: int, columns: int) -> np.ndarray:
    runs = [UUID(int=place + 1).bytes for place in range(models * columns)]
    return np.frombuffer(b"".join(runs), "V16").reshape(models, columns)


def _ranks(average: Scores, listed: list[Model]) -> Ranks:
    """Ranks with a range of two places to both sides."""
    unflagged = np.array([not model.flagged for model in listed], np.bool_)
    rows = np.flatnonzero(unflagged & ~np.isnan(average.value))
    rank = np.arange(1, len(rows) + 1, dtype=np.int32)
    no = np.zeros(len(rows), np.bool_)
    found = Ranks(
        rank=rank,
        low=np.maximum(rank - 2, 1),
        high=np.minimum(rank + 2, len(rows)),
        cut_low=no,
        cut_high=no,
        better=np.zeros((len(rows), 1), np.uint8),
        reach=8,
    )
    return Ranks.none(len(listed)).having(rows, found)


def shown_better(ranks: Ranks, first: int, second: int) -> bool:
    """Whether the `first`-th ranked model was shown to be better than the `second`-th (from 0).

    Farther apart than `reach` nothing was shown.
    """
    distance = second - first - 1
    if not 0 <= distance < ranks.reach:
        return False
    return bool(ranks.better[first, distance // 8] >> (7 - distance % 8) & 1)
