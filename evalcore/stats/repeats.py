"""What do K answers to each question say?

Source: Chen et al. 2021 (arXiv 2107.03374), eq. 1, for pass@k.
"""

from __future__ import annotations

from math import prod


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Chance that one of k answers is right, without bias, from n answers of which some are.

    `1 - C(n - correct, k) / C(n, k)`, as a product so that nothing overflows. Raises ValueError
    unless 1 <= k <= n and 0 <= correct <= n.
    """
    if not 1 <= k <= n:
        raise ValueError(f"k: expected 1 to {n}, got {k}")
    if not 0 <= correct <= n:
        raise ValueError(f"correct: expected 0 to {n}, got {correct}")
    if n - correct < k:
        return 1.0
    return 1.0 - prod(1.0 - k / total for total in range(n - correct + 1, n + 1))
