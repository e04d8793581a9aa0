"""lm-eval's side of tasks with images: started with a FOLDER of tasks and their names, it prints by
name the prompt of each document and what its images are known by."""

from __future__ import annotations

import json
import logging
import sys

from lm_eval.tasks import TaskManager

from evalcore.task.identity.digest import json_ready


def main(folder: str, *names: str) -> None:
    logging.disable(logging.WARNING)
    manager = TaskManager(include_path=folder, include_defaults=False)
    tasks = manager.load(list(names))["tasks"]
    found = {}
    for name in names:
        task = tasks[name]
        task.build_all_requests(limit=None, rank=0, world_size=1)
        found[name] = [
            [request.args[0], [json_ready(image) for image in request.args[2]["visual"]]]
            for request in task.instances
        ]
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
