"""lm-eval's side of tasks with sounds: started with a FOLDER of tasks and their names, it prints by
name the prompt of each document and what its sounds are known by.

`datasets` decodes sounds by torchcodec, which wants FFmpeg; rows are opened by this engine instead.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from lm_eval.api.task import ConfigurableTask
from lm_eval.tasks import TaskManager

from evalcore.model.sounds import Sound
from evalcore.task.data.undecoded import undecoded


def main(folder: str, *names: str) -> None:
    logging.disable(logging.WARNING)
    theirs = ConfigurableTask.download

    def download(task: Any, *given: Any, **stated: Any) -> None:
        theirs(task, *given, **stated)
        task.dataset = {split: undecoded(rows) for split, rows in task.dataset.items()}

    ConfigurableTask.download = download
    manager = TaskManager(include_path=folder, include_defaults=False)
    tasks = manager.load(list(names))["tasks"]
    found = {}
    for name in names:
        task = tasks[name]
        task.build_all_requests(limit=None, rank=0, world_size=1)
        found[name] = [
            [request.args[0], [Sound(sound).digest for sound in request.args[2]["audio"]]]
            for request in task.instances
        ]
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
