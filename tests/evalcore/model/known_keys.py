"""Keys of some dozens of requests, prompts and tasks; `known_keys.json` has them as they were
before chat messages were kept in a request and the `hf` backend was divided.

    python -m tests.evalcore.model.known_keys

writes them anew, which only a new `SCORING_VERSION` justifies.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evalcore.digest import digest_of
from evalcore.model.base import Request
from evalcore.model.fake import DummyLM, FakeLM
from evalcore.model.hf.huggingface import HuggingFaceLM
from tests import tiny
from tests.evalcore.toys import evaluated, evaluated_strictly, write_toys

KNOWN = Path(__file__).with_suffix(".json")

REQUESTS = [
    Request("loglikelihood", "Question: Which of these is made of wood?", " a table"),
    Request("loglikelihood", "Question: Which of these is made of wood? ", "a table"),
    Request("loglikelihood", "", " a table"),
    Request("loglikelihood", "", "<s> a table"),
    Request("loglikelihood", "<s>Question", " a river", repeats=2),
    Request("loglikelihood", "wood " * 90, " 🙂 é"),
    Request("loglikelihood_rolling", "", "The following are multiple choice questions.\n" * 6),
    Request("loglikelihood_rolling", "", "one"),
    Request("loglikelihood_rolling", "", "<s>one"),
    Request("generate_until", "Question:", generation={"until": ["\n"], "max_gen_toks": 8}),
    Request("generate_until", "<s>Question:", generation={"until": "\n\n", "max_gen_toks": 8}),
    Request("generate_until", "wood " * 90, generation={"until": [], "max_gen_toks": 8}),
    Request(
        "generate_until",
        "Question:",
        generation={"until": ["Q"], "max_gen_toks": 4, "temperature": 0.7, "top_p": 0.9},
        repeats=3,
    ),
]
TURNS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Which?"},
    {"role": "assistant", "content": "The"},
]
MODELS: dict[str, dict[str, Any]] = {
    "plain": {},
    "bos": {"adds_bos": True},
    "words": {"words": True},
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "default": {},
    "never": {"add_bos_token": "False"},
    "always": {"add_bos_token": "True", "rolling_stride": "20"},
    "thinking": {"think_end_token": "</s>", "max_length": "48"},
}


def keys() -> dict[str, str]:
    """By a name for each."""
    return {
        **dict(_of_texts()),
        **dict(_of_tokens(mode="compat")),
        **dict(_of_tokens(mode="strict")),
        **dict(_of_tasks()),
    }


def _of_texts() -> Iterator[tuple[str, str]]:
    for name, model in (("dummy", DummyLM()), ("fake", FakeLM(lambda *_: None, identity="it"))):
        yield f"{name}, model", model.info.model_key
        yield f"{name}, requests", _together(model.encode(REQUESTS, seed=7))


def _of_tokens(mode: Any) -> Iterator[tuple[str, str]]:
    for kind, made in MODELS.items():
        with tempfile.TemporaryDirectory() as place:
            folder = tiny.make(Path(place), positions=64, chat_template=tiny.CHAT, **made)
            for name, arguments in ARGUMENTS.items():
                given = {"pretrained": str(folder), "dtype": "float32", **arguments}
                model = HuggingFaceLM.from_arguments(given, device="cpu", mode=mode)
                for of_kind in ("loglikelihood", "loglikelihood_rolling", "generate_until"):
                    asked = [request for request in REQUESTS if request.kind == of_kind]
                    found = _together(model.encode(asked, seed=7))
                    yield f"{mode}, {kind}, {name}, {of_kind}", found
                template = model.chat_template()
                texts = [template.render(TURNS[:2], True), template.render(TURNS, False)]
                yield f"{mode}, {kind}, {name}, conversations", digest_of([texts, template.digest])
                asked = [Request("loglikelihood", text, " a") for text in texts]
                yield f"{mode}, {kind}, {name}, of conversations", _together(model.encode(asked))


def _of_tasks() -> Iterator[tuple[str, str]]:
    ways: dict[str, dict[str, Any]] = {
        "plain": {},
        "conversation": {"apply_chat_template": True},
        "one question": {"apply_chat_template": True, "fewshot_as_multiturn": False},
        "instructed": {"apply_chat_template": True, "system_instruction": "Be brief."},
    }
    with tempfile.TemporaryDirectory() as place:
        tasks = write_toys(Path(place) / "toys")
        for way, settings in ways.items():
            yield from _of_run(f"tasks, {way}", evaluated(tasks, **settings))
        yield from _of_run("tasks, strict", evaluated_strictly(tasks))


def _of_run(name: str, evaluations: Any) -> Iterator[tuple[str, str]]:
    for evaluation in evaluations:
        record = evaluation.record
        told = [
            [sample["prompt"], sample["arguments"], sample["responses"]]
            for sample in evaluation.samples
        ]
        yield f"{name}, {record.task}, conversation", digest_of(record.chat)
        yield f"{name}, {record.task}, prompts and answers", digest_of(told)
        yield f"{name}, {record.task}, documents", record.docs_digest


def _together(encoded: Any) -> str:
    return digest_of([request.key for request in encoded])


if __name__ == "__main__":
    KNOWN.write_text(json.dumps(keys(), indent=0) + "\n")
