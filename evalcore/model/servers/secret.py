"""The key of a service: from the environment only, and in nothing that anybody reads."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from evalcore.errors import ModelError

HIDDEN = "[key]"


@dataclass(frozen=True)
class Secret:
    """A key, which neither its text nor a message of this room shows."""

    variable: str
    """Of the environment, where it stands."""
    value: str = field(default="", repr=False)
    """Empty where there is none."""
    header: str = "Authorization"
    """In which it is sent."""

    @classmethod
    def of(cls, variable: str, header: str = "Authorization") -> Secret:
        """Raises ModelError for a key that cannot be sent, without showing it."""
        value = os.environ.get(variable, "").strip()
        if not all("!" <= sign <= "~" for sign in value):
            raise ModelError(
                f"the variable {variable} holds signs that no key has (spaces, line ends or "
                "letters beyond ASCII): set it to the key alone"
            )
        return cls(variable, value, header)

    @property
    def headers(self) -> dict[str, str]:
        """What a request has of it."""
        if not self.value:
            return {}
        bearer = "Bearer " if self.header == "Authorization" else ""
        return {self.header: f"{bearer}{self.value}"}

    def hidden_in(self, text: str) -> str:
        """The text without the key, which a server's message may repeat."""
        return text.replace(self.value, HIDDEN) if self.value else text
