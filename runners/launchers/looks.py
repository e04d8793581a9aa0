"""How long look has followed look: before a worker is missed, it has had the time to be seen.

Where the database was away for minutes nobody could be seen, neither by us nor by others.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

PAUSE = timedelta(minutes=1)
"""A look that is lost or slow is none; they come every 15 seconds."""


@dataclass
class Looks:
    """Of this process; moments are of the database's clock."""

    since: datetime | None = None
    last: datetime | None = None
    resumed: bool = False
    """Whether the newest one came after a pause: what it sees is from before that."""

    def note(self, now: datetime) -> None:
        self.resumed = self.last is not None and abs(now - self.last) > PAUSE
        if self.since is None or self.resumed:
            self.since = now
        self.last = now

    def lasted(self, now: datetime) -> timedelta:
        return now - self.since if self.since else timedelta()
