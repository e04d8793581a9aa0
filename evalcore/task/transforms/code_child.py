"""Runs one program that a model wrote, in the process that code_sandbox.py has confined.

Reads an order from standard input, says `ready`, runs the program and, if it comes to its end
without an error, writes the order's token. Imports only the standard library: it is run as a file,
without our package.
"""

from __future__ import annotations

import json
import os
import sys
from types import ModuleType
from typing import Any


def main() -> None:
    order: dict[str, Any] = json.load(sys.stdin)
    verdict = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.write(verdict, b"ready\n")
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.closerange(verdict + 1, 256)
    run(order["program"], verdict, order["token"])


def run(program: str, verdict: int, token: str) -> None:
    """Only a program that comes to its end has passed; `sys.exit()` is an exception like others."""
    module = ModuleType("program")
    sys.modules["program"] = sys.modules["__main__"] = module
    sys.argv[:] = ["program"]
    try:
        exec(compile(program, "program", "exec", dont_inherit=True), module.__dict__)  # noqa: S102
    except BaseException:
        os._exit(1)
    os.write(verdict, token.encode())
    os._exit(0)


if __name__ == "__main__":
    main()
