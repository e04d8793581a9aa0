"""The lines of lm-evaluation-harness's samples JSONL, read as samples of ours."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evalcore.formats.foreign import foreign_sample
from evalcore.task.identity.digest import doc_digest

Line = Mapping[str, Any]

_KINDS = {"multiple_choice": "loglikelihood"}


def samples_of(path: Path, task: str, config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Samples (fields of SAMPLE_SCHEMA) of one task; none where there is no such file.

    A document has one line for each filter there, and is one sample here.
    """
    if not path.is_file():
        return
    lines: dict[int, dict[str, Line]] = {}
    with path.open(encoding="utf-8") as file:
        for text in file:
            line = json.loads(text)
            lines.setdefault(line["doc_id"], {})[line["filter"]] = line
    for by_filter in lines.values():
        yield _sample(list(by_filter.values()), task, config)


def _sample(lines: list[Line], task: str, config: Mapping[str, Any]) -> dict[str, Any]:
    first = lines[0]
    output_type = config.get("output_type", "generate_until")
    kind = _KINDS.get(output_type, output_type)
    arguments = [_argument(kind, argument) for argument in first["arguments"].values()]
    responses = [_response(kind, result) for results in first["resps"] for result in results]
    scores = [score for line in lines for score in _scores(line)]
    is_choice = output_type == "multiple_choice"
    answer = _answer(first["target"], is_choice)
    delimiter = config.get("target_delimiter", " ")
    best = max(
        range(len(responses)), key=lambda place: responses[place]["loglikelihood"], default=0
    )
    return foreign_sample(
        task=task,
        split=config.get("test_split") or config.get("validation_split"),
        doc_id=first["doc_id"],
        doc_digest=doc_digest(first["doc"]),
        doc=json.dumps(first["doc"], ensure_ascii=False),
        prompt=arguments[0]["context"] if arguments else "",
        choices=[x["continuation"].removeprefix(delimiter) for x in arguments if is_choice],
        gold=[answer] if is_choice and isinstance(answer, int) else [],
        target=first["target"],
        answer=json.dumps(answer, ensure_ascii=False),
        pick=best if is_choice else None,
        correct=scores[0]["value"] if scores else None,
        arguments=arguments,
        repeats=max((len(results) for results in first["resps"]), default=1),
        responses=responses,
        filtered=[
            {
                "filter": line["filter"],
                "values": json.dumps(
                    [_result(kind, response) for response in line["filtered_resps"]]
                ),
            }
            for line in lines
        ],
        scores=scores,
    )


def _argument(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    argument = {"context": given["arg_0"], "continuation": "", "kind": kind, "generation": None}
    if kind == "loglikelihood_rolling":
        argument |= {"context": "", "continuation": given["arg_0"]}
    elif kind == "generate_until":
        argument["generation"] = json.dumps(given["arg_1"], ensure_ascii=False)
    else:
        argument["continuation"] = given["arg_1"]
    return argument


def _response(kind: str, given: Any) -> dict[str, Any]:
    """Tokens are not in those files."""
    result = _result(kind, given)
    number = result[0] if isinstance(result, list) else result
    return {
        "key": "",
        "kind": kind,
        "loglikelihood": 0.0 if kind == "generate_until" else number,
        "is_greedy": bool(result[1]) if isinstance(result, list) else False,
        "token_ids": [],
        "token_logprobs": [],
        "n_context_tokens": 0,
        "n_truncated": 0,
        "text": result if kind == "generate_until" else None,
        "finish_reason": None,
        "path": None,
    }


def _result(kind: str, given: Any) -> Any:
    """Numbers are text in those files: here they are numbers again."""
    if kind == "loglikelihood_rolling":
        return float(given)
    if kind == "loglikelihood" and isinstance(given, list) and len(given) == 2:
        return [float(given[0]), given[1] == "True"]
    return given


def _scores(line: Line) -> Iterator[dict[str, Any]]:
    for metric in line["metrics"]:
        found = line[metric]
        is_number = isinstance(found, int | float)
        yield {
            "metric": metric,
            "filter": line["filter"],
            "value": float(found) if is_number else None,
            "item": None if is_number else json.dumps(found, ensure_ascii=False),
        }


def _answer(target: str, is_choice: bool) -> Any:
    """`doc_to_target` as it was before it was written as text, as far as that can be told."""
    if is_choice and target.lstrip("-").isdecimal():
        return int(target)
    if target.startswith("[") and target.endswith("]"):
        try:
            return ast.literal_eval(target)
        except (ValueError, SyntaxError):
            return target
    return target
