"""Configurations, workers and launches to plan with; none of them is in a database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from leaderboard.models import Launch, Worker
from leaderboard.queue import unserved
from runners.launchers.kinds import Budget, Configuration, Kind
from runners.launchers.need import Standing

GB = 10**9
NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


def kind(name: str = "a100", gpus: int = 1, memory_gb: int = 80, **fields: Any) -> Kind:
    return Kind(
        name=name,
        gpus=gpus,
        memory_bytes=memory_gb * GB,
        **{
            "hours": 4.0,
            "price": 2.0 * gpus,
            "idle_minutes": 5.0,
            "dtypes": ("float32", "bfloat16"),
            "quantisations": (),
            "backend": "hf",
            "runs_code": False,
            "options": {},
            **fields,
        },
    )


def plan(*kinds: Kind, **budget: Any) -> Configuration:
    return Configuration(
        engine="slurm",
        options={},
        after_minutes=15.0,
        show_up_minutes=60.0,
        budget=Budget(**{"workers_at_once": 10, **budget}),
        kinds=kinds or (kind(),),
    )


def group(gb: int = 10, minutes: float = 1.0, dtype: str = "bfloat16") -> unserved.Group:
    return unserved.Group(gb * GB, dtype, "", "hf", "", NOW - timedelta(minutes=minutes))


def worker(gb: int, name: str = "live") -> Worker:
    return Worker(name=name, memory_bytes=gb * GB, dtypes=["float32", "bfloat16"], backend="hf")


def launch(of: Kind, state: str, *, minutes: float = 10.0, **fields: Any) -> Launch:
    """Asked for so long ago; what is over is over now."""
    asked = NOW - timedelta(minutes=minutes)
    came = asked if state in ("up", "ended") else None
    ended = NOW if state in ("ended", "failed") else None
    told = {"asked": asked, "came": came, "ended": ended, "claims": int(state in ("up", "ended"))}
    return Launch(
        kind=of.name, state=state, gpus=of.gpus, hours=of.hours, price=of.price, **(told | fields)
    )


def standing(
    *waiting: unserved.Group,
    workers: tuple[Worker, ...] = (),
    launches: tuple[Launch, ...] = (),
    now: datetime = NOW,
    **measured: int,
) -> Standing:
    return Standing(now, waiting, workers, launches, measured)
