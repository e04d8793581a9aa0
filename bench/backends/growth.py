"""How the time of each backend grows: with documents, with shots, and with the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from bench.backends.asking import Order, apart, asks_of, run
from bench.models import Model, save_model, save_tokenizer
from bench.texts import Row, running_text, texts
from bench.workloads import WORKLOADS, Workload

ENGINES = ("lm_eval_hf", "lm_eval", "hf", "vllm")
"""lm-evaluation-harness on transformers and on vLLM, evalcore packed and on vLLM."""
LONGEST = 400.0
"""Seconds that a point may take: what would take longer is told in proportion to its text."""
SMALLEST = Model("llama", "30m", 32_000)


@dataclass(frozen=True)
class Point:
    value: int | str
    workload: Workload
    model: Model = SMALLEST


@dataclass(frozen=True)
class Scale:
    """What grows, and how many rows lm-evaluation-harness's batches have on transformers."""

    of: str
    title: str
    rows: int
    points: tuple[Point, ...]


def _documents(name: str, counts: Sequence[int]) -> tuple[Point, ...]:
    workload = WORKLOADS[name]
    rows = texts(workload.data).asked
    return tuple(
        Point(count, replace(workload.with_documents(count), rows=_numbered(rows, count)))
        for count in counts
    )


def _numbered(rows: Sequence[Row], count: int) -> list[Row]:
    """As many that differ: after the last the first comes again, under another number."""
    text = "query" if "query" in rows[0] else "question"
    return [
        {**row, text: f"{number}. {row[text]}"}
        for number, row in enumerate(islice(cycle(rows), count), start=1)
    ]


def scales() -> tuple[Scale, ...]:
    """In the order of the page."""
    arc = WORKLOADS["arc_25_shot"].with_documents(4)
    few = replace(arc, documents=2, shots=5)
    return (
        Scale(
            "documents", WORKLOADS["piqa_0_shot"].title, 4,
            _documents("piqa_0_shot", (1, 10, 100, 1_000, 10_000)),
        ),
        Scale(
            "texts",
            WORKLOADS["gsm8k_stops"].title,
            4,
            _documents("gsm8k_stops", (1, 10, 100, 1_000)),
        ),
        Scale(
            "shots", f"{arc.title.partition(',')[0]}, shots that differ, 4 documents", 1,
            tuple(Point(shots, replace(arc, shots=shots)) for shots in (0, 5, 10, 25)),
        ),
        Scale(
            "model", f"{arc.title.partition(',')[0]}, 5 shots that differ, 2 documents", 1,
            tuple(
                Point(model.name, few, model)
                for model in (SMALLEST, *(replace(SMALLEST, size=size) for size in ("125m", "1b")))
            ),
        ),
    )  # fmt: skip


def grown(scale: Scale, work: Path) -> dict[str, Any]:
    """Seconds of each engine at each point, and how far evalcore's answers are from the others'."""
    points: list[dict[str, Any]] = []
    for model, of_model in _by_model(scale.points):
        asks = {
            str(point.value): asks_of(point.workload, work / f"{scale.of}_{point.value}")
            for point in of_model
        }
        order = Order(asks, dict.fromkeys(asks, scale.rows), LONGEST)
        folder = saved(model, work)
        found = {engine: run(engine, folder, order, work)["workloads"] for engine in ENGINES}
        points += (
            _point(point, {engine: of[str(point.value)] for engine, of in found.items()})
            for point in of_model
        )
    return {"title": scale.title, "rows": scale.rows, "points": points}


def _point(point: Point, found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """`other`: evalcore's answers that are not lm-evaluation-harness's on the same engine."""
    other = compared = 0
    for ours, theirs in (("hf", "lm_eval_hf"), ("vllm", "lm_eval")):
        if found[ours]["answers"] and found[theirs]["answers"]:
            far = apart(found[ours]["answers"], found[theirs]["answers"])
            compared += len(found[ours]["answers"])
            other += far["beyond_bound"] + far["different"]
    return {
        "value": point.value,
        "seconds": {engine: of["seconds"] for engine, of in found.items()},
        "estimated": [engine for engine, of in found.items() if not of["answers"]],
        "compared": compared,
        "other": other,
    }


def _by_model(points: Sequence[Point]) -> Iterator[tuple[Model, list[Point]]]:
    for model in dict.fromkeys(point.model for point in points):
        yield model, [point for point in points if point.model == model]


def saved(model: Model, work: Path) -> Path:
    """The folder of a model with its tokenizer, made where it is not there."""
    folder = work / model.name
    if not folder.is_dir():
        folder.mkdir()
        save_tokenizer(model, running_text(), folder)
        save_model(model, folder)
    return folder


def lines_of(grown_by: Mapping[str, Any]) -> Iterator[str]:
    """For people."""
    for of, scale in grown_by.items():
        yield f"{of}: {scale['title']}; {', '.join(ENGINES)}"
        for point in scale["points"]:
            seconds = (f"{point['seconds'][engine]:.2f}" for engine in ENGINES)
            yield f"  {point['value']}: {', '.join(seconds)}; other {point['other']}"
