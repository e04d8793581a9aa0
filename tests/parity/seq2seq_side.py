"""lm-evaluation-harness's own `hf` backend on models with an encoder; run in a process of its own.

Started with a FOLDER: it reads FOLDER/order.json, a list of models (their arguments) with what each
is asked, and writes FOLDER/answers.json, one list of answers for each.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM


def answers(arguments: dict[str, Any], asked: list[tuple[str, list[Any]]]) -> list[Any]:
    """One request at a time: of several its own padding moves learnt positions."""
    lm = HFLM(device="cpu", batch_size=1, **arguments)
    found = []
    for number, (kind, stated) in enumerate(asked):
        request = Instance(kind, {}, tuple(stated), number)
        found.extend(getattr(lm, kind)([request], disable_tqdm=True))
    return found


def main(folder: Path) -> None:
    logging.disable(logging.WARNING)
    orders = json.loads((folder / "order.json").read_text())
    found = [answers(order["arguments"], order["asked"]) for order in orders]
    (folder / "answers.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
