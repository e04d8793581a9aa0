"""One command that was started as many processes: `torchrun` and `accelerate launch` do that.

Requests are not divided among processes, so each would do and write everything.
"""

from __future__ import annotations

from collections.abc import Mapping


def rank_of(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """This process's rank and how many there are; None for a process by itself.

    Launchers set both variables. One alone, or a number that fits no rank, is of something else.
    """
    rank, size = (environment.get(name, "") for name in ("RANK", "WORLD_SIZE"))
    if not (rank.isdecimal() and size.isdecimal() and int(rank) < int(size)) or int(size) == 1:
        return None
    return int(rank), int(size)


def said_once(size: int) -> str:
    """What the process of rank 0 says."""
    return (
        f"evalcore: started as {size} processes (RANK and WORLD_SIZE are set): requests are not "
        f"divided among processes, so rank 0 does everything and the others end at once. "
        "parallelize=True in --model_args spreads a model over the devices of one process\n"
    )
