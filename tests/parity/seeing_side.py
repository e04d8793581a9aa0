"""lm-evaluation-harness's own `hf-multimodal` backend; run in a process of its own.

Started with a FOLDER: it reads FOLDER/order.json, a list of models (their arguments) with what each
is asked, and writes FOLDER/answers.json, for each model a list of prompts and texts.

Without torchvision transformers loads no processor of a model that also reads videos; lm-eval is
then given the one that this engine loads, whose code for images is transformers' own.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import transformers
from lm_eval.api.instance import Instance
from lm_eval.models.hf_vlms import HFMultimodalLM
from PIL import Image

from evalcore.model.hf.image_arguments import ImageArguments
from evalcore.model.hf.processor import load_processor
from evalcore.model.hf.snapshot import Snapshot


class Processors:
    @staticmethod
    def from_pretrained(folder: str, **how: Any) -> Any:
        pixels = {name: value for name, value in how.items() if name.endswith("_pixels")}
        arguments = ImageArguments(pretrained=folder, **pixels)
        return load_processor(arguments, Snapshot(folder, Path(folder), None))


def answers(arguments: dict[str, Any], asked: list[dict[str, Any]]) -> list[list[str]]:
    """One request at a time."""
    lm = HFMultimodalLM(device="cpu", batch_size=1, **arguments)
    found = []
    for number, question in enumerate(asked):
        if lm.chat_applied != bool(question["messages"]):
            lm.chat_applied = False
        prompt = question["prompt"]
        if question["messages"]:
            prompt = lm.apply_chat_template(question["messages"])
        seen = {"visual": [Image.open(file) for file in question["images"]]}
        request = Instance("generate_until", {}, (prompt, question["generation"], seen), number)
        found.append([prompt, *lm.generate_until([request], disable_tqdm=True)])
    return found


def main(folder: Path) -> None:
    logging.disable(logging.WARNING)
    orders = json.loads((folder / "order.json").read_text())
    known = transformers.AutoProcessor
    found = []
    for order in orders:
        transformers.AutoProcessor = Processors if order["without_videos"] else known
        found.append(answers(order["arguments"], order["asked"]))
    (folder / "answers.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
