"""lm-evaluation-harness's own `vllm-vlm` backend; run in a process of its own.

Started with a FOLDER: it reads FOLDER/order.json, what a model is asked, and writes
FOLDER/answers.json, a list of prompts and texts. Its module imports Ray, which it uses for copies
alone: an empty module stands for it.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from types import ModuleType

from lm_eval.api.instance import Instance
from PIL import Image


def main(folder: Path) -> None:
    sys.modules["ray"] = ModuleType("ray")
    from lm_eval.models.vllm_vlms import VLLM_VLM

    logging.disable(logging.WARNING)
    order = json.loads((folder / "order.json").read_text())
    lm = VLLM_VLM(batch_size=1, **order["arguments"])
    found = []
    for number, question in enumerate(order["asked"]):
        prompt, lm.chat_applied = question["prompt"], False
        if question["messages"]:
            prompt = lm.apply_chat_template(question["messages"])
        images = [Image.open(file) for file in question["images"]]
        arguments = (prompt, question["generation"], {"visual": images})
        request = Instance("generate_until", {}, arguments, number)
        found.append([prompt, *lm.generate_until([request], disable_tqdm=True)])
    (folder / "answers.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
