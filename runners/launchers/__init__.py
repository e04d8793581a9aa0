"""Engines (Slurm, Kubernetes, Ray) that are asked for workers when runs wait that none can take.

They start `python -m runners worker` and own nothing of the queue: read `launching.py` first.
"""

from runners.launchers.engine import EngineTrouble, Launcher, NoAnswer, Order, launcher_of
from runners.launchers.kinds import Configuration, Kind, WrongFile, read
from runners.launchers.launching import look

__all__ = [
    "Configuration",
    "EngineTrouble",
    "Kind",
    "Launcher",
    "NoAnswer",
    "Order",
    "WrongFile",
    "launcher_of",
    "look",
    "read",
]
