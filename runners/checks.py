"""What `manage.py check` says of a machine that runs models."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error

from runners import sandboxed

CONFINEMENT = "confinement"


def models_are_confined(**_: Any) -> list[CheckMessage]:
    """An error where models would run with nothing around them, against the operator's word."""
    computes = find_spec("torch") is not None or settings.PLUMBLINE_VLLM_PYTHON
    # Asked last: it starts a process to see what works.
    if not computes or settings.PLUMBLINE_UNCONFINED or not sandboxed.refusal():
        return []
    return [
        Error(
            "Nothing on this machine confines the process that runs a model: it could read the "
            "database and the secret key.",
            hint=sandboxed.HINT,
            id="runners.E001",
        )
    ]
