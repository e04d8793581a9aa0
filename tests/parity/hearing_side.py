"""lm-evaluation-harness's own `hf-audiolm-qwen` backend; run in a process of its own.

Started with a FOLDER: it reads FOLDER/order.json, what a model is asked, and writes
FOLDER/answers.json, a list of prompts and texts.

Three things of it do not work as they are in 0.4.13 and are mended here, and nothing else: it gives
sounds as `audios`, which transformers passes over, so that its model would hear nothing; it puts
tokens on `cuda` by name; and its register names a class that its module does not have, so that the
module cannot be imported.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lm_eval.api.instance import Instance
from lm_eval.api.registry import model_registry
from lm_eval.models import MODEL_MAPPING


class Mended:
    """A processor that takes sounds under the name that lm-eval has for them."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._processor, name)

    def __call__(self, *, audios: list[Any], **how: Any) -> Any:
        return self._processor(audio=audios, **how)


def on_the_cpu(moved: Any) -> Any:
    def to(self: torch.Tensor, *where: Any, **how: Any) -> torch.Tensor:
        return self if where == ("cuda",) else moved(self, *where, **how)

    return to


def main(folder: Path) -> None:
    logging.disable(logging.WARNING)
    torch.Tensor.to = on_the_cpu(torch.Tensor.to)  # type: ignore[method-assign]
    assert model_registry._objs.pop("hf-audiolm-qwen") == MODEL_MAPPING["hf-audiolm-qwen"]
    from lm_eval.models.hf_audiolm import HFAUDIOLMQWEN

    order = json.loads((folder / "order.json").read_text())
    lm = HFAUDIOLMQWEN(device="cpu", batch_size=1, **order["arguments"])
    lm.processor = Mended(lm.processor)
    found = []
    for number, question in enumerate(order["asked"]):
        prompt = question["prompt"]
        if question["messages"]:
            prompt = lm.apply_chat_template(question["messages"])
        sounds = [{"array": np.load(file)} for file in question["sounds"]]
        arguments = (prompt, question["generation"], {"audio": sounds})
        request = Instance("generate_until", {}, arguments, number)
        found.append([prompt, *lm.generate_until([request], disable_tqdm=True)])
    (folder / "answers.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
