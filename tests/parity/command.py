"""An engine's command that reads YAML quickly: `python -m tests.parity.command MODULE ...`."""

from __future__ import annotations

import runpy
import sys

from tests.parity.yaml_once import read_yaml_once

if __name__ == "__main__":
    read_yaml_once()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
