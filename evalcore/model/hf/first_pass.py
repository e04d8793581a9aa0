"""When a model was first run."""

from __future__ import annotations

import time
from typing import Any


class FirstPass:
    """Notes the moment at which a model is first given tokens, and then watches no more."""

    def __init__(self, model: Any) -> None:
        self.at: float | None = None
        """By `time.monotonic`; None so far."""
        # Every way to run a model reads its tokens' embeddings, and few begin at the whole model.
        self._hook = model.get_input_embeddings().register_forward_pre_hook(self._note)

    def _note(self, *_: Any) -> None:
        self.at = time.monotonic()
        self._hook.remove()
