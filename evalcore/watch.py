"""Who looks on while a model is evaluated: a progress bar, or a worker that reads lines."""

from __future__ import annotations

from typing import Protocol


class Watch(Protocol):
    """What is told to who looks on."""

    def phase(self, name: str) -> None: ...

    def progress(self, task: str, done: int, total: int, tokens: int) -> None:
        """So many of the requests are answered; answering them took so many tokens till now."""
        ...

    def wants_stop(self) -> bool:
        """Asked after each pack, and while the next benchmark is waited for; what was answered
        until then is in the journal."""
        ...


class Silent:
    """Looks on and says nothing."""

    def phase(self, name: str) -> None: ...

    def progress(self, task: str, done: int, total: int, tokens: int) -> None: ...

    def wants_stop(self) -> bool:
        return False
