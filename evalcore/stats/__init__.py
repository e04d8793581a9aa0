"""Statistics, one file per question; each function names its source."""

from evalcore.stats.combination import difference_interval, mean_interval
from evalcore.stats.interval import Interval, interval, standard_error, wilson
from evalcore.stats.strata import pooled_standard_error

__all__ = [
    "Interval",
    "difference_interval",
    "interval",
    "mean_interval",
    "pooled_standard_error",
    "standard_error",
    "wilson",
]
