"""What pyproject.toml cannot say: the task files beside the engine go into its wheel."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithTasks(build_py):
    """Puts `tasks/` into the package; an editable install reads the checkout's instead."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        inside = Path(self.build_lib, "evalcore", "tasks")
        shutil.rmtree(inside, ignore_errors=True)  # what an earlier build left may be gone by now
        shutil.copytree("tasks", inside, ignore=shutil.ignore_patterns("__pycache__"))


setup(cmdclass={"build_py": BuildWithTasks})
