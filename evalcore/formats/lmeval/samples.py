"""lm-evaluation-harness's samples JSONL (as of 0.4.13), from our samples.

One line for each document and filter. Numbers inside responses are text there, as in its files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalcore.whole_file import name_in_file, write_whole

Sample = Mapping[str, Any]


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


HASHED = ("task", "doc", "target", "arguments", "filtered", "scores")
"""Fields of a sample that `task_hashes` reads."""


def task_hashes(samples: Iterable[Sample]) -> dict[str, str]:
    """By leaf task the digest of its documents, prompts and targets; one pass over all samples."""
    hashes: dict[str, list[str]] = {}
    filters: dict[str, int] = {}
    for sample in samples:
        task = sample["task"]
        filters.setdefault(task, len(filters_of(sample)))
        hashes.setdefault(task, []).append("".join(_hashes_of(sample).values()))
    return {task: sha256_of("".join(each) * filters[task]) for task, each in hashes.items()}


def task_lines(samples: Sequence[Sample]) -> Iterator[str]:
    """The samples file of one leaf task, line by line: filter by filter."""
    for logged in logged_samples(samples):
        yield json.dumps(_as_line(logged), ensure_ascii=False) + "\n"


def samples_file(task: str, time: str) -> str:
    """The name of the samples file of a leaf task; all files of one command bear its time."""
    return f"samples_{name_in_file(task.replace('/', '__'))}_{time}.jsonl"


def write_task_lines(samples: Sequence[Sample], task: str, folder: Path, time: str) -> Path:
    """Writes the samples file of one leaf task; returns its path. Raises as `write_whole`."""
    path = folder / samples_file(task, time)
    write_whole(path, "".join(task_lines(samples)))
    return path


def sample_lines(samples: Iterable[Sample]) -> Iterator[str]:
    """Samples of any tasks in one pass, document by document; our `task` is kept, too."""
    for sample in samples:
        for filter in filters_of(sample):
            line = {**_as_line(logged_sample(sample, filter)), "task": sample["task"]}
            yield json.dumps(line, ensure_ascii=False) + "\n"


def logged_samples(samples: Sequence[Sample]) -> Iterator[dict[str, Any]]:
    """The samples of one leaf task as lm-evaluation-harness's library returns them."""
    filters = filters_of(samples[0]) if samples else []
    for filter in filters:
        for sample in samples:
            yield logged_sample(sample, filter)


def filters_of(sample: Sample) -> list[str]:
    """The names of the filter pipelines that the sample went through."""
    named = [entry["filter"] for entry in sample.get("filtered") or ()]
    return named or list(dict.fromkeys(score["filter"] for score in sample["scores"])) or ["none"]


def logged_sample(sample: Sample, filter: str) -> dict[str, Any]:
    """One sample (fields of SAMPLE_SCHEMA) under one filter, in lm-evaluation-harness's form.

    A metric that could not be computed for it is left out.
    """
    answer = sample.get("answer")
    arguments = [arguments_of(argument) for argument in sample["arguments"]]
    scores = {
        score["metric"]: item_of(score)
        for score in sample["scores"]
        if score["filter"] == filter and (score["value"], score.get("item")) != (None, None)
    }
    return {
        "doc_id": sample["doc_id"],
        "doc": json.loads(sample["doc"]),
        "target": sample["target"] if answer is None else json.loads(answer),
        "arguments": arguments,
        "resps": _responses(sample),
        "filtered_resps": _filtered(sample, filter),
        "filter": filter,
        "metrics": list(scores),
        **_hashes_of(sample),
        **scores,
    }


def _hashes_of(sample: Sample) -> dict[str, str]:
    """In the order in which lm-evaluation-harness joins them."""
    doc = json.dumps(json.loads(sample["doc"]), indent=2, ensure_ascii=False)
    arguments = sample["arguments"]
    return {
        "doc_hash": sha256_of(doc),
        "prompt_hash": sha256_of(arguments_of(arguments[0])[0] if arguments else ""),
        "target_hash": sha256_of(sample["target"]),
    }


def _as_line(logged: dict[str, Any]) -> dict[str, Any]:
    """As in the file: arguments by name, the target and all that is in responses as text."""
    return {
        **logged,
        "target": str(logged["target"]),
        "arguments": {
            f"gen_args_{place}": {f"arg_{which}": argument for which, argument in enumerate(each)}
            for place, each in enumerate(logged["arguments"])
        },
        "resps": _as_text(logged["resps"]),
        "filtered_resps": _as_text(logged["filtered_resps"]),
    }


def arguments_of(argument: Mapping[str, Any]) -> tuple[Any, ...]:
    """What lm-evaluation-harness calls the arguments of a request."""
    if argument.get("kind") == "loglikelihood_rolling":
        return (argument["continuation"],)
    if argument.get("kind") == "generate_until":
        return (argument["context"], json.loads(argument["generation"] or "{}"))
    return (argument["context"], argument["continuation"])


def item_of(score: Mapping[str, Any]) -> Any:
    """What is aggregated: a number, or what a metric over all documents collects of each."""
    return score["value"] if score.get("item") is None else json.loads(score["item"])


def result_of(response: Mapping[str, Any]) -> Any:
    """What a model of lm-evaluation-harness would have returned."""
    if response["kind"] == "generate_until":
        return response["text"]
    if response["kind"] == "loglikelihood_rolling":
        return response["loglikelihood"]
    return [response["loglikelihood"], response["is_greedy"]]


def _responses(sample: Sample) -> list[list[Any]]:
    """By request, as many results as it was repeated."""
    results = [result_of(response) for response in sample["responses"]]
    repeats = sample.get("repeats") or 1
    return [results[start : start + repeats] for start in range(0, len(results), repeats)]


def _filtered(sample: Sample, filter: str) -> list[Any]:
    for entry in sample.get("filtered") or ():
        if entry["filter"] == filter:
            return list(json.loads(entry["values"]))
    return [results[0] for results in _responses(sample)]


def _as_text(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_as_text(entry) for entry in value]
    return str(value)
