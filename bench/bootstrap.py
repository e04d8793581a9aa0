"""Standard errors by 100,000 resamples of 1,000 documents, in compat: the very same numbers."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from typing import Any

from bench.timing import Comparison, seconds, silence

DOCUMENTS = 1000
DRAWS = 100_000
STRICT_DRAWS = 10_000
SHARE = {"f1": 200, "matthews_corrcoef": 200, "perplexity": 2000, "median": 2000, "bleu": 10}
"""Resamples that lm-evaluation-harness really takes here; its time grows in proportion."""


def compare() -> Iterator[Comparison]:
    os.environ["DISABLE_MULTIPROC"] = "1"  # one core each
    from lm_eval.api.metrics import stderr_for_metric
    from lm_eval.api.registry import get_aggregation

    from evalcore.stats import bootstrap, compat_draws, compat_stderr

    for name, items in _items().items():
        draws = compat_draws(name, DRAWS)
        aggregation, share = get_aggregation(name), SHARE[name]
        with silence():
            theirs = seconds(lambda: stderr_for_metric(aggregation, share)(items))  # noqa: B023
            expected = stderr_for_metric(aggregation, share)(items)
        found = compat_stderr(name, items, share)
        if found is None or abs(found - expected) > 1e-9 * max(1.0, abs(expected)):
            raise SystemExit(f"{name}: ours {found}, lm-evaluation-harness {expected}")
        yield Comparison(
            f"bootstrap of {name}, {draws:,} resamples",
            theirs * draws / share,
            seconds(lambda: compat_stderr(name, items, draws), at_best_of=3),  # noqa: B023
            f"theirs timed on {share:,} resamples",
        )
        in_strict = max(draws, STRICT_DRAWS)
        yield Comparison(
            f"  in strict, by counts, {in_strict:,} resamples",
            theirs * in_strict / share,
            seconds(lambda: bootstrap(name, items, draws=in_strict, seed=0), at_best_of=3),  # noqa: B023
        )


def _items() -> dict[str, Sequence[Any]]:
    generator = random.Random(0)
    golds = [generator.randrange(2) for _ in range(DOCUMENTS)]
    pairs = [(gold, gold if generator.random() < 0.8 else 1 - gold) for gold in golds]
    numbers = [generator.gauss(-3, 1) for _ in range(DOCUMENTS)]
    words = [f"word{number}" for number in range(300)]
    sentences = [" ".join(generator.choices(words, k=25)) for _ in range(DOCUMENTS)]
    translations = [
        (sentence, " ".join(w for w in sentence.split() if generator.random() < 0.8))
        for sentence in sentences
    ]
    return {
        "f1": pairs,
        "matthews_corrcoef": pairs,
        "perplexity": numbers,
        "median": numbers,
        "bleu": translations,
    }
