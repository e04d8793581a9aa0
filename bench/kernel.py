"""Attention as a GPU's own kernel answers it for stretches, beside float64."""

from __future__ import annotations

from itertools import pairwise, product

import torch
from torch import Tensor

from evalcore.model.packs import stretches
from evalcore.model.packs.stretches import Call, Stretches

STRETCHES = {
    "of many lengths": ((5, 17), (35, 3), (260, 400), (1, 1), (9, 179)),
    "of one row": ((1, 40), (1, 7), (1, 300)),
}
"""Rows and keys of each."""
WINDOW = 33
HEADS = ((64, 8, 2), (64, 4, 4), (80, 4, 4), (128, 8, 1), (256, 4, 2))
"""Size, heads and heads of keys."""


def attention_of_stretches(device: torch.device) -> dict[str, dict[str, float]]:
    """By what is asked, how far the kernel's answers and their log-sum-exps are from float64's, in
    steps between neighbouring numbers of the precision; the latter in 1e-5 nats."""
    draw = torch.Generator(device).manual_seed(0)
    found = {}
    for dtype, (size, heads, kept) in product((torch.bfloat16, torch.float16), HEADS):
        for name, of in (*STRETCHES.items(), ("causal", None), (f"a window of {WINDOW}", None)):
            lengths = of or tuple((rows, rows) for rows, _ in STRETCHES["of many lengths"])
            rows, keys = (_side_by_side(of, device) for of in zip(*lengths, strict=True))
            query, key, value = (
                torch.randn(1, n, states, size, generator=draw, device=device, dtype=dtype)
                for states, n in (
                    (int(rows.borders[-1]), heads),
                    (int(keys.borders[-1]), kept),
                    (int(keys.borders[-1]), kept),
                )
            )
            if not stretches.takes(query, value, None):
                continue
            window = WINDOW if name.startswith("a window") else None
            call = Call(rows, keys, causal=of is None, window=window)
            asked = (call.rows.of(query), call.keys.of(key), call.keys.of(value))
            out, logsumexp = stretches.flash(*asked, call, size**-0.5)
            right, right_logsumexp = _plainly(*asked, call, size**-0.5)
            found[f"{dtype} {size} {heads}/{kept} {name}"] = {
                "answers": float((out - right).abs().max() / torch.finfo(dtype).eps),
                "log-sum-exps": float((logsumexp - right_logsumexp).abs().max() * 1e5),
            }
    return found


def _side_by_side(lengths: tuple[int, ...], device: torch.device) -> Stretches:
    borders = [0]
    for length in lengths:
        borders.append(borders[-1] + length)
    return Stretches(list(pairwise(borders)), device)


def _plainly(
    query: Tensor, key: Tensor, value: Tensor, call: Call, scale: float
) -> tuple[Tensor, Tensor]:
    """As `stretches.flash`, in float64, stretch by stretch."""
    sharing = query.shape[1] // key.shape[1]
    outs, logsumexps = [], []
    for (first, last), (oldest, newest) in zip(
        *(pairwise(of.borders.tolist()) for of in (call.rows, call.keys)), strict=True
    ):
        rows, keys, values = (
            of.double().transpose(0, 1)
            for of in (query[first:last], key[oldest:newest], value[oldest:newest])
        )
        scores = rows @ keys.repeat_interleave(sharing, 0).transpose(1, 2) * scale
        ago = torch.arange(last - first)[:, None] - torch.arange(newest - oldest)[None]
        hidden = (ago < 0) & call.causal
        if call.window is not None:
            hidden |= ago >= call.window
        scores = scores.masked_fill(hidden.to(scores.device), float("-inf"))
        outs.append((scores.softmax(-1) @ values.repeat_interleave(sharing, 0)).transpose(0, 1))
        logsumexps.append(scores.logsumexp(-1))
    return torch.cat(outs), torch.cat(logsumexps, dim=1)
