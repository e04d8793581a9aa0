"""How long a run may take: so generously that only what is wrong takes longer.

A watch for silence alone is not enough: a tokenizer that repeats text, or a model of a thousand
thin layers, gives signs of life for hours.

    budget of a run = factor x (START + requests x (A_REQUEST + 2 x parameters x tokens / speed))

2 x parameters is the work for one token in floating-point operations (Kaplan et al. 2020, section
2.1). Our engine has needed a tenth of that or less: prompts share what they have in common, and
processors are faster. What is generated comes token by token and counts sixteen times.
"""

from __future__ import annotations

from django.conf import settings
from django.db.models import Max

from leaderboard.models import Run, Worker
from leaderboard.models.task import Style

START = 1800.0
"""Seconds for loading, for the data and their prompts, and for scores."""
A_REQUEST = 0.1
"""Seconds that each request may take whatever the model's size: its text, its tokens, its pass."""
TOKENS = 2048
"""Of a request."""
GENERATED = 16
GENERATES = (Style.GENERATE, Style.COT, Style.HELM_GENERATE)
CPU_SPEED, GPU_SPEED = 5e10, 5e13
"""Floating-point operations in a second, with everything that stands around them."""
UNCOUNTED = 20_000
"""Requests of a run while nobody has counted them."""
MOST = 1_000_000
"""As many as count where no such run was ever finished: it is the model's process that counts."""


def seconds(run: Run, worker: Worker, counted: int) -> float:
    """Wall-clock seconds for one run from when it is asked, of `counted` requests (0: not yet)."""
    requests = min(counted or UNCOUNTED, MOST)
    speed = CPU_SPEED if worker.device.startswith("cpu") else GPU_SPEED
    tokens = TOKENS * (GENERATED if run.task.style in GENERATES else 1)
    each = A_REQUEST + 2 * run.variant.parameters * tokens / speed
    return settings.PLUMBLINE_TIME_FACTOR * (START + requests * each)


def believable(run: Run, counted: int) -> int:
    """`counted`, at most twice the requests of any run of this task that was finished."""
    usual = Run.objects.filter(task=run.task, state=Run.State.DONE).aggregate(
        most=Max("progress_total")
    )["most"]
    return min(counted, 2 * usual) if usual else counted


def told(run: Run, allowed: float) -> str:
    """Why a run was ended that took longer."""
    return (
        f"{run.task.name} took longer than the {allowed / 3600:.1f} hours that a model of "
        f"{run.variant.parameters:,} parameters is given for it"
    )
