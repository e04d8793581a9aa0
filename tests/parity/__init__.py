"""Both engines beside each other: the same task files, data and models, the same numbers."""

from __future__ import annotations

import importlib.util

import pytest

NEEDS_LM_EVAL = (
    pytest.mark.peer,
    pytest.mark.skipif(
        importlib.util.find_spec("lm_eval") is None,
        reason="lm_eval is not installed (extra `peer`)",
    ),
)
