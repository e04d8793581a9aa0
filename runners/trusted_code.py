"""Whether a worker may run a model's own code: what is listed, and where nothing gets out.

The site queues such a model by its own list; a worker goes by the list and the confinement that it
has itself, as it may be another machine.
"""

from __future__ import annotations

from django.conf import settings

from leaderboard.models import Variant
from leaderboard.models.run import ErrorClass
from runners import sandboxed
from runners.watch import Failed


def runs_code() -> bool:
    """Whether this worker takes models with code of their own at all."""
    return bool(settings.PLUMBLINE_TRUSTED_CODE) and sandboxed.here().namespaces


def check(variant: Variant) -> None:
    """Raises Failed where code of this variant is not listed here, or could get out."""
    for name, commit in variant.code_pins:
        if commit not in settings.PLUMBLINE_TRUSTED_CODE.get(name, ()):
            raise Failed(
                ErrorClass.INFRA,
                f"this worker does not trust the code of {name} at {commit}: list it in "
                "PLUMBLINE_TRUSTED_CODE of every worker, as on the site",
                of_all=True,
            )
    if variant.code_pins and not sandboxed.here().namespaces:
        raise Failed(
            ErrorClass.INFRA,
            "this worker cannot keep a model's own code from the network (no namespaces, "
            "docs/sandbox.md), and runs none",
            of_all=True,
        )
