"""Statistics, one file per question; each function names its source."""

from evalcore.stats.agreement import kendall_interval, kendall_tau
from evalcore.stats.best_of_parts import best_by_part
from evalcore.stats.blocks import Block, block
from evalcore.stats.board_ranges import BoardRanges, bands, board_ranges
from evalcore.stats.bootstrap import Resampled, bootstrap, bootstrap_stderr, multinomial_bootstrap
from evalcore.stats.combination import difference_interval, mean_interval
from evalcore.stats.comparisons import benjamini_hochberg, holm
from evalcore.stats.contrast import Share, paired_share, total_difference
from evalcore.stats.difference import (
    PairedDifference,
    PairedRows,
    mcnemar,
    paired_difference,
    paired_rows,
)
from evalcore.stats.draws import DrawnScore, normalised, over_draws
from evalcore.stats.interval import Interval, interval, standard_error, wilson
from evalcore.stats.items import Items, item_analysis
from evalcore.stats.ranking import RankRanges, rank_ranges, rank_upper_bound
from evalcore.stats.repeats import RepeatedScore, pass_at_k, repeated_score
from evalcore.stats.resampling import compat_draws, compat_stderr
from evalcore.stats.resolution import minimum_detectable_difference
from evalcore.stats.spread import Spread, spread
from evalcore.stats.strata import pooled_standard_error
from evalcore.stats.styles import (
    BestStyles,
    StyleSpreads,
    VarianceShares,
    best_of,
    clear_flips,
    flipped_share,
    style_spreads,
    variance_shares,
)

__all__ = [
    "BestStyles",
    "Block",
    "BoardRanges",
    "DrawnScore",
    "Interval",
    "Items",
    "PairedDifference",
    "PairedRows",
    "RankRanges",
    "RepeatedScore",
    "Resampled",
    "Share",
    "Spread",
    "StyleSpreads",
    "VarianceShares",
    "bands",
    "benjamini_hochberg",
    "best_by_part",
    "best_of",
    "block",
    "board_ranges",
    "bootstrap",
    "bootstrap_stderr",
    "clear_flips",
    "compat_draws",
    "compat_stderr",
    "difference_interval",
    "flipped_share",
    "holm",
    "interval",
    "item_analysis",
    "kendall_interval",
    "kendall_tau",
    "mcnemar",
    "mean_interval",
    "minimum_detectable_difference",
    "multinomial_bootstrap",
    "normalised",
    "over_draws",
    "paired_difference",
    "paired_rows",
    "paired_share",
    "pass_at_k",
    "pooled_standard_error",
    "rank_ranges",
    "rank_upper_bound",
    "repeated_score",
    "spread",
    "standard_error",
    "style_spreads",
    "total_difference",
    "variance_shares",
    "wilson",
]
