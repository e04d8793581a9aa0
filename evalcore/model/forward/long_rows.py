"""A row that is read at so many positions that their logits fill gigabytes.

The model's base computes its hidden rows once, and logits are made of some of them at a time: by
the output embeddings alone, else by the model's own last step. Whether that says what the model
says is asked of the beginning of a real row.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evalcore.model.faults import set_aside
from evalcore.model.forward.head import read, rows_at_once
from evalcore.model.forward.last_step import way_to_logits
from evalcore.model.forward.logits import logits_at
from evalcore.model.forward.selfcheck import PLACES, coarseness, is_half, tolerated

log = logging.getLogger(__name__)


class LongRows:
    """For one model, and what is known of it."""

    def __init__(self, model: Any, softmax: torch.dtype) -> None:
        """`softmax` is the precision of the log-softmax."""
        self._model = model
        self._softmax = softmax
        self._is_tried = False
        self._through_head: bool | None = None
        """Whether the output embeddings alone make the logits; None where neither way is right."""

    @torch.inference_mode()
    def read(
        self,
        tokens: Tensor,
        places: Tensor,
        rows: NDArray[np.int64],
        targets: NDArray[np.int64],
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]] | None:
        """Log-probability of each target, and whether it is the likeliest token; None for a model
        whose logits have to be made at once.

        `tokens` is of shape (1, n); target i is read off position `places[rows[i]]`.
        """
        if not self._is_tried:
            self._through_head = self._tried(tokens[:, : 2 * PLACES])
            self._is_tried = True
        if self._through_head is None:
            return None
        output = self._output(tokens)
        hidden = output.last_hidden_state[0, places]
        with way_to_logits(self._model, output, through_head=self._through_head) as to_logits:
            return read(
                hidden,
                to_logits,
                rows,
                targets,
                at_once=self._at_once(hidden.device),
                softmax=self._softmax,
            )

    def _tried(self, tokens: Tensor) -> bool | None:
        # In half precision rounding would hide what else the model does there, such as a soft cap.
        ways = (False,) if is_half(self._model) else (True, False)
        return next((way for way in ways if self._is_right(tokens, way)), None)

    def _output(self, tokens: Tensor) -> Any:
        return self._model.base_model(input_ids=tokens, use_cache=False)

    def _at_once(self, device: torch.device) -> int:
        return rows_at_once(len(self._model.get_input_embeddings().weight), device=device.type)

    def _is_right(self, tokens: Tensor, through_head: bool) -> bool:
        last = torch.arange(tokens.shape[1], device=tokens.device)[-PLACES:]
        expected = logits_at(self._model, tokens, last)[0].float()
        try:
            output = self._output(tokens)
            with way_to_logits(self._model, output, through_head=through_head) as to_logits:
                parts = output.last_hidden_state[0, last].tensor_split(2)
                found = torch.cat([to_logits(part).float() for part in parts])
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # another way may bear what this one does not
            set_aside("to read a long row in parts", error)
            return False
        apart = float((expected.log_softmax(-1) - found.log_softmax(-1)).abs().max())
        rounding = coarseness(expected, self._model.dtype) if is_half(self._model) else 0.0
        if not apart <= max(tolerated(self._model, 0.0), rounding):
            log.info("a long row is not read in parts, which are %.2g nats off", apart)
            return False
        return True
