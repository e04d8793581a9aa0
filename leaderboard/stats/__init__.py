"""Statistics that only the site reads: ranges of ranks, styles, questions, several draws."""

from leaderboard.stats.contrast import Share, paired_share, total_difference
from leaderboard.stats.correlation import FEWEST as CORRELATED_FEWEST
from leaderboard.stats.correlation import Correlations, order_of_likeness, rank_correlations
from leaderboard.stats.draws import normalised, over_draws
from leaderboard.stats.fragility import Places, deciding
from leaderboard.stats.front import bend, front
from leaderboard.stats.funnel import Standing, check_strata, standing
from leaderboard.stats.items import item_analysis
from leaderboard.stats.ranges import BoardRanges, Earlier, among, bands, board_ranges
from leaderboard.stats.saturation import BEST, Saturation, saturation
from leaderboard.stats.separate import held_together, ranges_of
from leaderboard.stats.separation import Separation, separation
from leaderboard.stats.styles import (
    BestStyles,
    StyleSpreads,
    VarianceShares,
    best_by_part,
    best_of,
    clear_flips,
    flipped_share,
    style_spreads,
    variance_shares,
)

__all__ = [
    "BEST",
    "CORRELATED_FEWEST",
    "BestStyles",
    "BoardRanges",
    "Correlations",
    "Earlier",
    "Places",
    "Saturation",
    "Separation",
    "Share",
    "Standing",
    "StyleSpreads",
    "VarianceShares",
    "among",
    "bands",
    "bend",
    "best_by_part",
    "best_of",
    "board_ranges",
    "check_strata",
    "clear_flips",
    "deciding",
    "flipped_share",
    "front",
    "held_together",
    "item_analysis",
    "normalised",
    "order_of_likeness",
    "over_draws",
    "paired_share",
    "ranges_of",
    "rank_correlations",
    "saturation",
    "separation",
    "standing",
    "style_spreads",
    "total_difference",
    "variance_shares",
]
