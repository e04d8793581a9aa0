"""The metrics: what one document's responses are worth, and how documents make one number.

`docs/method.md` has a paragraph for each. A new metric is one function and its line in _OURS; a
family such as pass@k has its line in FAMILIES.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from evalcore.errors import TaskError, did_you_mean
from evalcore.score.answered import Answered
from evalcore.score.metrics import loglikelihoods, text
from evalcore.score.metrics.from_evaluate import EQUIVALENTS, LOWER_IS_BETTER, cached_metric
from evalcore.task.config import TaskSpec
from evalcore.task.functions import functions_in, registered


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric, by what the task asks for; what is None is not measured there."""

    aggregation: str | None = "mean"
    higher_is_better: bool = True
    multiple_choice: Callable[[Answered], Any] | None = None
    loglikelihood: Callable[[Answered], Any] | None = None
    loglikelihood_rolling: Callable[[Answered], Any] | None = None
    generate_until: Callable[..., Any] | None = None
    """Of `references` and `predictions`, a pair of lists, as metrics of the library evaluate."""
    generate_repeats: Callable[..., float] | None = None
    """Of the accepted answers and of all texts for the document, one for each repeat."""


def _paired(**fields: Any) -> Metric:
    """A metric that of texts keeps pairs, for what is computed from all documents at once."""
    return Metric(generate_until=text.pair, **fields)


_OF_LM_EVAL = {
    "perplexity": _paired(
        aggregation="perplexity", higher_is_better=False, loglikelihood=loglikelihoods.loglikelihood
    ),
    "acc": _paired(
        multiple_choice=loglikelihoods.share_of("acc"), loglikelihood=loglikelihoods.is_greedy
    ),
    "f1": _paired(aggregation="f1", multiple_choice=loglikelihoods.gold_and_pick),
    "mcc": _paired(aggregation="matthews_corrcoef", multiple_choice=loglikelihoods.gold_and_pick),
    "acc_norm": _paired(multiple_choice=loglikelihoods.share_of("acc_norm")),
    "acc_bytes": _paired(multiple_choice=loglikelihoods.share_of("acc_bytes")),
    "exact_match": Metric(
        multiple_choice=loglikelihoods.exact_match, generate_until=text.exact_match
    ),
    "brier_score": _paired(
        aggregation="brier_score",
        higher_is_better=False,
        multiple_choice=loglikelihoods.gold_and_probabilities,
    ),
    "likelihood": _paired(multiple_choice=loglikelihoods.gold_and_loglikelihoods),
    "acc_mutual_info": _paired(multiple_choice=loglikelihoods.share_of("acc_mutual_info")),
    "word_perplexity": _paired(
        aggregation="weighted_perplexity",
        higher_is_better=False,
        loglikelihood_rolling=loglikelihoods.loglikelihood_and_words,
    ),
    "byte_perplexity": _paired(
        aggregation="weighted_perplexity",
        higher_is_better=False,
        loglikelihood_rolling=loglikelihoods.loglikelihood_and_bytes,
    ),
    "bits_per_byte": _paired(
        aggregation="bits_per_byte",
        higher_is_better=False,
        loglikelihood_rolling=loglikelihoods.loglikelihood_and_bytes,
    ),
    "bleu": _paired(aggregation="bleu"),
    "chrf": _paired(aggregation="chrf"),
    "chrf++": _paired(aggregation="chrf++"),
    "ter": _paired(aggregation="ter", higher_is_better=False),
    "acc_all": _paired(),
    "bypass": Metric(aggregation="bypass", generate_until=text.nothing),
}
"""Those of lm-evaluation-harness, in the order in which it lists them in its results."""

_OURS = {
    "acc_tokens": Metric(multiple_choice=loglikelihoods.share_of("acc_tokens")),
    "token_perplexity": Metric(
        aggregation="weighted_perplexity",
        higher_is_better=False,
        loglikelihood_rolling=loglikelihoods.loglikelihood_and_tokens,
    ),
    "quasi_exact_match": Metric(generate_until=text.quasi_exact_match),
    **{
        kind: Metric(generate_until=partial(text.rouge, kind))
        for kind in ("rouge1", "rouge2", "rougeL", "rougeLsum")
    },
}

METRICS: Mapping[str, Metric] = {**_OF_LM_EVAL, **_OURS}
OURS = _OURS.keys()
"""Those that lm-evaluation-harness does not have."""

FAMILIES: Mapping[str, Callable[..., float]] = {
    "pass@k": text.pass_at_k,
    "avg@k": text.average_at_k,
    "majority@k": text.majority_at_k,
}
"""Metrics of repeated answers; a task names them with a number for k."""


def metric_named(name: str) -> Metric | None:
    """The metric of that name, None if there is none."""
    if name in METRICS:
        return METRICS[name]
    family = re.fullmatch(r"([a-z]+@)([1-9][0-9]*)", name)
    if family and f"{family[1]}k" in FAMILIES:
        return Metric(generate_repeats=partial(FAMILIES[f"{family[1]}k"], k=int(family[2])))
    return None


def metric_of(name: str, spec: TaskSpec) -> Metric | None:
    """The metric of that name, or the one that the task's own code registers by it."""
    if name in METRICS.keys() - OURS:
        return METRICS[name]
    if own := registered("metric", name, functions_in(spec)):
        return Metric(
            aggregation=own.aggregation,
            higher_is_better=own.higher_is_better is not False,
            generate_until=own.value,
        )
    return metric_named(name)


def evaluate_metric(name: str) -> Metric:
    """The metric that the library evaluate has by that name. Raises TaskError if there is none."""
    compute = EQUIVALENTS.get(name) or cached_metric(name)
    if compute is None:
        known = sorted(known_metrics())
        raise TaskError(
            f"there is no metric {name!r}{did_you_mean(name, known)}; known are {', '.join(known)}."
            " One of the library evaluate must be in its cache: load it once beforehand, for "
            "nothing is fetched during an evaluation"
        )
    return Metric(higher_is_better=name not in LOWER_IS_BETTER, generate_until=compute)


def known_metrics() -> set[str]:
    """The names of all metrics; of a family as it is written in FAMILIES."""
    return {*METRICS, *FAMILIES, *EQUIVALENTS}
