"""The instance lines of Every Eval Ever 0.3.0: one for each document and number it counts in."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from evalcore.formats.lmeval.samples import sha256_of
from evalcore.record import RunRecord

Sample = Mapping[str, Any]

_UNSCORED = {"metric": "none", "filter": "none", "value": None}
_NO_SCORE = "no metric gives a single document a score; the 0 stands for none"


def instances_of(
    record: RunRecord, samples: Iterable[Sample], evaluation: str
) -> Iterator[dict[str, Any]]:
    """One line for each score that is a number; where none is, one that says so.

    The first line of a document carries our whole sample as JSON.
    """
    known = {(row.task, row.metric, row.filter): row for row in record.results}
    for sample in samples:
        whole: str | None = whole_sample(sample)
        numbers = [score for score in sample["scores"] if score["value"] is not None]
        for score in numbers or sample["scores"][:1] or [_UNSCORED]:
            row = known.get((sample["task"], score["metric"], score["filter"]))
            name = [sample["task"], row.subset if row else "", score["metric"], score["filter"]]
            yield {
                "schema_version": "0.3.0",
                "evaluation_id": evaluation,
                "model_id": record.model_name,
                "evaluation_name": sample["task"],
                "evaluation_result_id": "/".join(name),
                **_content(sample, {**score, "value": score["value"] or 0.0}),
                **({} if numbers else {"error": _NO_SCORE}),
                "metadata": {"doc_digest": sample["doc_digest"]}
                | ({"sample": whole} if whole else {}),
            }
            whole = None


def whole_sample(sample: Sample) -> str:
    """All of a sample as JSON; thumbnails as base64, and no word of images, or sounds, where there
    are none."""
    images = [
        {**image, "thumbnail": image["thumbnail"] and b64encode(image["thumbnail"]).decode()}
        for image in sample.get("images") or ()
    ]
    silent = {"images"} if sample.get("sounds") else {"images", "sounds"}
    without = {name: value for name, value in sample.items() if name not in silent}
    return json.dumps({**without, **({"images": images} if images else {})}, ensure_ascii=False)


def sample_of(whole: str) -> dict[str, Any]:
    """The sample that `whole_sample` wrote."""
    sample: dict[str, Any] = json.loads(whole)
    sample.setdefault("sounds", None)
    for image in sample.setdefault("images", None) or ():
        image["thumbnail"] = image["thumbnail"] and b64decode(image["thumbnail"])
    return sample


def _content(sample: Sample, score: Mapping[str, Any]) -> dict[str, Any]:
    reference = _reference(sample)
    answers = _answers(sample)
    return {
        "sample_id": f"{sample['split']}_{sample['doc_id']}",
        "sample_hash": sha256_of(sample["prompt"] + "".join(reference)),
        "interaction_type": "single_turn",
        "input": {
            "raw": sample["prompt"],
            "formatted": sample["prompt"],
            "reference": reference,
            "choices": list(sample["choices"]) or None,
        },
        "output": {"raw": answers},
        "answer_attribution": [
            {
                "turn_idx": 0,
                "source": "output.raw",
                "extracted_value": _extracted(sample, score["filter"], answers),
                "extraction_method": score["filter"],
                "is_terminal": True,
            }
        ],
        "evaluation": {"score": score["value"], "is_correct": score["value"] == 1.0},
        "token_usage": _tokens(sample),
    }


def _reference(sample: Sample) -> list[str]:
    chosen = [
        sample["choices"][place] for place in sample["gold"] if 0 <= place < len(sample["choices"])
    ]
    return chosen or [sample["target"]]


def _answers(sample: Sample) -> list[str]:
    """What was written; of choices the one that was taken, else how likely the text is."""
    responses = sample["responses"]
    if written := [response["text"] for response in responses if response["text"] is not None]:
        return written
    if sample["pick"] is not None and sample["choices"]:
        return [sample["choices"][sample["pick"]]]
    return [str(response["loglikelihood"]) for response in responses]


def _extracted(sample: Sample, filter: str, answers: Sequence[str]) -> str:
    if sample["pick"] is None:
        for entry in sample.get("filtered") or ():
            if entry["filter"] == filter:
                return str(next(iter(json.loads(entry["values"])), ""))
    return answers[0] if answers else ""


def _tokens(sample: Sample) -> dict[str, int]:
    read = sum(response["n_context_tokens"] or 0 for response in sample["responses"])
    written = sum(len(response["token_ids"] or ()) for response in sample["responses"])
    return {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
