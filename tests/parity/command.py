"""An engine's command with YAML read by the parser written in C: `python -m tests.parity.command`.

`datasets` reads a data set's README again for each of its configurations: half of the time of a
command that asks for MMLU's subjects, in the parser written in Python. The other reads the same
language.
"""

from __future__ import annotations

import runpy
import sys

import yaml

if __name__ == "__main__":
    yaml.SafeLoader = yaml.CSafeLoader  # type: ignore[misc, assignment]
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
