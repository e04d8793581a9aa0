"""What of `bench.gpu`'s table cannot be right, as sentences; none where all of it may be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

FLOAT32_NATS = 3e-4
"""By which a loglikelihood of float32 may be off: sums of some hundred nats in another order."""
NOISE, LEAST_NOISE = 3.0, 0.05
"""In half precision: times what one request at a time is off, and nats that are always allowed."""
STEPS, LOGSUMEXPS = 4.0, 20.0
"""By which attention itself may be off: steps of half precision, and 1e-5 nats."""
SAME = ("again", "known", "shuffled", "smaller", "two streams")
"""Ways to ask the same again, compared with our first answers."""


def wrong(found: Mapping[str, Any]) -> list[str]:
    """`found` is what `bench.gpu` writes, by model and precision, then by workload."""
    told: list[str] = []
    for name, of_model in found.items():
        if not isinstance(of_model, Mapping):
            continue
        if "failed" in of_model:
            told.append(f"{name}: failed: {of_model['failed']}")
            continue
        half = not name.endswith("float32")
        for workload, row in of_model.items():
            if "ours" in row:
                told += [f"{name} {workload}: {what}" for what in _of_row(row, half)]
        for asked, gap in of_model.get("attention", {}).items():
            for what, most in (("answers", STEPS), ("log-sum-exps", LOGSUMEXPS)):
                if not gap[what] <= most:
                    told.append(
                        f"attention of {asked}: {what} off by {gap[what]:.3g}, {most} are allowed"
                    )
        for left, outcome in of_model.get("nearly full", {}).items():
            if "failed" in outcome:
                told.append(f"{name} with {left} of memory left: failed: {outcome['failed']}")
    return told


def _of_row(row: Mapping[str, Any], half: bool) -> Iterator[str]:
    if "largest" not in row["ours"]:  # texts: rounding in half precision decides some of them
        for side in ("ours", *SAME) if not half else ():
            if row.get(side) and row[side]["changed"]:
                yield f"{row[side]['changed']} of {row[side]['of']} texts are others ({side})"
        return
    allowed = FLOAT32_NATS
    if half:
        allowed = max(LEAST_NOISE, NOISE * row["alone"]["largest"])
    for side in ("ours", *SAME):
        if not row.get(side):
            continue
        largest = row[side]["largest"]
        if not largest <= allowed:  # NaN is not
            yield f"off by {largest:.3g} nats, {allowed:.3g} are allowed ({side})"
        if not half and row[side]["changed"]:
            yield f"{row[side]['changed']} of {row[side]['of']} picks are others ({side})"
