"""lm-evaluation-harness's own backends of models that see, hear or have an encoder.

Run in a process of its own.

Started with a FOLDER: it reads FOLDER/order.json, a list of models (their arguments) with what each
is asked, and writes FOLDER/answers.json, for each model a list of prompts and texts, or of
loglikelihoods and flags. One request at a time: of several its own padding moves learnt positions.

Without torchvision transformers loads no processor of a model that also reads videos; lm-eval is
then given the one that this engine loads, whose code for images is transformers' own. And three
things of `hf-audiolm-qwen` do not work as they are in 0.4.13 and are mended here, and nothing else:
it gives sounds as `audios`, which transformers passes over, so that its model would hear nothing;
it puts tokens on `cuda` by name; and its register names a class that its module does not have, so
that the module cannot be imported.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from lm_eval.api.instance import Instance
from lm_eval.api.registry import model_registry
from lm_eval.models import MODEL_MAPPING
from lm_eval.models.hf_vlms import HFMultimodalLM
from lm_eval.models.huggingface import HFLM
from PIL import Image

from evalcore.model.hf.image_arguments import ImageArguments
from evalcore.model.hf.processor import load_processor
from evalcore.model.hf.snapshot import Snapshot


class ProcessorsWithoutVideos:
    @staticmethod
    def from_pretrained(folder: str, **how: Any) -> Any:
        pixels = {name: value for name, value in how.items() if name.endswith("_pixels")}
        arguments = ImageArguments(pretrained=folder, **pixels)
        return load_processor(arguments, Snapshot(folder, Path(folder), None))


class RenamingProcessor:
    """A processor that takes sounds under the name that lm-eval has for them."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._processor, name)

    def __call__(self, *, audios: list[Any], **how: Any) -> Any:
        return self._processor(audio=audios, **how)


def stay_on_the_cpu() -> None:
    move: Any = torch.Tensor.to

    def to(self: torch.Tensor, *where: Any, **how: Any) -> torch.Tensor:
        return self if where == ("cuda",) else move(self, *where, **how)

    torch.Tensor.to = to  # type: ignore[method-assign, assignment]


def load(kind: str, arguments: dict[str, Any]) -> Any:
    how = {"device": "cpu", "batch_size": 1, **arguments}
    if kind == "encodes":
        return HFLM(**how)
    if kind == "sees":
        return HFMultimodalLM(**how)
    from lm_eval.models.hf_audiolm import HFAUDIOLMQWEN

    lm = HFAUDIOLMQWEN(**how)
    lm.processor = RenamingProcessor(lm.processor)
    return lm


def answer(lm: Any, kind: str, number: int, question: dict[str, Any]) -> Any:
    """Loglikelihood and flag, or prompt and text."""
    prompt, continuation = question["prompt"], question["continuation"]
    if continuation:
        request = Instance("loglikelihood", {}, (prompt, continuation), number)
        return lm.loglikelihood([request], disable_tqdm=True)[0]
    lm.chat_applied = False
    if question["messages"]:
        prompt = lm.apply_chat_template(question["messages"])
    media: list[Any] = []
    if kind == "sees":
        media.append({"visual": [Image.open(file) for file in question["media"]]})
    elif kind == "hears":
        media.append({"audio": [{"array": np.load(file)} for file in question["media"]]})
    request = Instance("generate_until", {}, (prompt, question["generation"], *media), number)
    return [prompt, *lm.generate_until([request], disable_tqdm=True)]


def main(folder: Path) -> None:
    logging.disable(logging.WARNING)
    stay_on_the_cpu()
    wrong_entry = model_registry._objs.pop("hf-audiolm-qwen")
    assert wrong_entry == MODEL_MAPPING["hf-audiolm-qwen"]
    processors = transformers.AutoProcessor
    answers = []
    for order in json.loads((folder / "order.json").read_text()):
        without_videos = order["without_videos"]
        transformers.AutoProcessor = ProcessorsWithoutVideos if without_videos else processors
        lm = load(order["kind"], order["arguments"])
        answers.append(
            [
                answer(lm, order["kind"], number, question)
                for number, question in enumerate(order["questions"])
            ]
        )
    (folder / "answers.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
