"""Statistics, one file per question; each function names its source."""

from evalcore.stats.agreement import kendall_interval, kendall_tau
from evalcore.stats.blocks import Block, block
from evalcore.stats.bootstrap import bootstrap, bootstrap_stderr
from evalcore.stats.combination import (
    difference_interval,
    mean_interval,
    pooled_standard_error,
)
from evalcore.stats.comparisons import benjamini_hochberg, holm
from evalcore.stats.difference import (
    PairedDifference,
    mcnemar,
    paired_difference,
    paired_rows,
)
from evalcore.stats.interval import Interval, interval, standard_error, wilson
from evalcore.stats.ranking import RankRanges, rank_ranges, rank_upper_bound
from evalcore.stats.repeats import pass_at_k
from evalcore.stats.resampling import compat_draws, compat_stderr
from evalcore.stats.resolution import minimum_detectable_difference
from evalcore.stats.spread import spread

__all__ = [
    "Block",
    "Interval",
    "PairedDifference",
    "RankRanges",
    "benjamini_hochberg",
    "block",
    "bootstrap",
    "bootstrap_stderr",
    "compat_draws",
    "compat_stderr",
    "difference_interval",
    "holm",
    "interval",
    "kendall_interval",
    "kendall_tau",
    "mcnemar",
    "mean_interval",
    "minimum_detectable_difference",
    "paired_difference",
    "paired_rows",
    "pass_at_k",
    "pooled_standard_error",
    "rank_ranges",
    "rank_upper_bound",
    "spread",
    "standard_error",
    "wilson",
]
