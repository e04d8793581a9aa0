"""CoQA's scores as lm-evaluation-harness gives them (Reddy et al. 2019, arXiv:1808.07042)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evalcore.task.transforms.answers import coqa_scores


def of_different_answers(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, float]:
    """Exact match and F1 against the different answers of column `accepted`, each left out in turn.

    An answer that several people gave stands there once.
    """
    return coqa_scores({**doc, "humans": doc["accepted"]}, results)
