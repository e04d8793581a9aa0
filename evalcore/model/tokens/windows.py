"""A long text in windows of the model's length, each token scored once.

Source: Gao et al. 2024, "Lessons from the Trenches on Reproducible Evaluation of Language Models",
appendix A.3.
"""

from __future__ import annotations

from collections.abc import Sequence

Window = tuple[list[int], list[int]]
"""The tokens fed, of which the last positions predict the tokens scored."""


def rolling_windows(
    tokens: Sequence[int], *, prefix: int, length: int, stride: int | None = None
) -> list[Window]:
    """Windows over `tokens` that feed at most `length` tokens each; none for no tokens.

    The first feeds `prefix` and scores as many tokens as fit; every further one scores `stride`
    tokens. With the default stride, the whole length, windows do not overlap: one token of what
    went before is fed, except that the last window, which is shorter, feeds as much as there is
    room for. A smaller stride leaves `length - stride + 1` tokens to every window.
    Raises ValueError for a stride outside 1 to `length`.
    """
    stride = length if stride is None else stride
    if not 1 <= stride <= length:
        raise ValueError(f"a stride of {stride} tokens does not fit windows of {length}")
    if not tokens:
        return []
    whole = [prefix, *tokens]
    ends = [min(length, len(tokens))]
    while ends[-1] < len(tokens):
        ends.append(min(ends[-1] + stride, len(tokens)))
    starts = [0, *ends[:-1]]
    # The token scored at `place` is whole[place + 1], so the window that ends with it feeds up to
    # whole[place].
    return [
        (whole[max(0, end - length) : end], list(tokens[start:end]))
        for start, end in zip(starts, ends, strict=True)
    ]
