"""That stored files cannot be had for the moment, which is another thing than that one is lost."""

from __future__ import annotations


class Unavailable(OSError):
    """The bucket does not answer, or refuses: what is in it is as it was."""
