"""The metrics: what one document's responses are worth, and how documents make one number.

`docs/method.md` has a paragraph for each. A new metric is one function and its line in METRICS; a
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
from evalcore.score.metrics import choices, likelihood, several_texts, text
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


METRICS: Mapping[str, Metric] = {
    # Those of lm-evaluation-harness, in the order in which it lists them in its results.
    "perplexity": Metric(
        aggregation="perplexity",
        higher_is_better=False,
        loglikelihood=likelihood.loglikelihood,
        generate_until=text.pair,
    ),
    "acc": Metric(
        multiple_choice=choices.acc,
        loglikelihood=likelihood.is_greedy,
        generate_until=text.pair,
    ),
    "f1": Metric(
        aggregation="f1",
        multiple_choice=choices.gold_and_pick,
        generate_until=text.pair,
    ),
    "mcc": Metric(
        aggregation="matthews_corrcoef",
        multiple_choice=choices.gold_and_pick,
        generate_until=text.pair,
    ),
    "acc_norm": Metric(multiple_choice=choices.acc_norm, generate_until=text.pair),
    "acc_bytes": Metric(multiple_choice=choices.acc_bytes, generate_until=text.pair),
    "exact_match": Metric(multiple_choice=choices.exact_match, generate_until=text.exact_match),
    "brier_score": Metric(
        aggregation="brier_score",
        higher_is_better=False,
        multiple_choice=choices.gold_and_probabilities,
        generate_until=text.pair,
    ),
    "likelihood": Metric(multiple_choice=choices.gold_and_loglikelihoods, generate_until=text.pair),
    "acc_mutual_info": Metric(multiple_choice=choices.acc_mutual_info, generate_until=text.pair),
    "word_perplexity": Metric(
        aggregation="weighted_perplexity",
        higher_is_better=False,
        loglikelihood_rolling=likelihood.loglikelihood_and_words,
        generate_until=text.pair,
    ),
    "byte_perplexity": Metric(
        aggregation="weighted_perplexity",
        higher_is_better=False,
        loglikelihood_rolling=likelihood.loglikelihood_and_bytes,
        generate_until=text.pair,
    ),
    "bits_per_byte": Metric(
        aggregation="bits_per_byte",
        higher_is_better=False,
        loglikelihood_rolling=likelihood.loglikelihood_and_bytes,
        generate_until=text.pair,
    ),
    "bleu": Metric(aggregation="bleu", generate_until=text.pair),
    "chrf": Metric(aggregation="chrf", generate_until=text.pair),
    "chrf++": Metric(aggregation="chrf++", generate_until=text.pair),
    "ter": Metric(aggregation="ter", higher_is_better=False, generate_until=text.pair),
    "acc_all": Metric(generate_until=text.pair),
    "bypass": Metric(aggregation="bypass", generate_until=text.nothing),
    # Ours.
    "acc_tokens": Metric(multiple_choice=choices.acc_tokens),
    "token_perplexity": Metric(
        aggregation="weighted_perplexity",
        higher_is_better=False,
        loglikelihood_rolling=likelihood.loglikelihood_and_tokens,
    ),
    "quasi_exact_match": Metric(generate_until=text.quasi_exact_match),
    "rouge1": Metric(generate_until=partial(text.rouge, "rouge1")),
    "rouge2": Metric(generate_until=partial(text.rouge, "rouge2")),
    "rougeL": Metric(generate_until=partial(text.rouge, "rougeL")),
    "rougeLsum": Metric(generate_until=partial(text.rouge, "rougeLsum")),
}

OURS = frozenset(
    (
        "acc_tokens",
        "token_perplexity",
        "quasi_exact_match",
        "rouge1",
        "rouge2",
        "rougeL",
        "rougeLsum",
    )
)
"""Those that lm-evaluation-harness does not have."""

FAMILIES: Mapping[str, Callable[..., float]] = {
    "pass@k": several_texts.pass_at_k,
    "avg@k": several_texts.average_at_k,
    "majority@k": several_texts.majority_at_k,
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
