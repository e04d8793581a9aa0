"""Statistics, one file per question; each function names its source."""

from evalcore.stats.interval import Interval, interval, standard_error, wilson
from evalcore.stats.strata import mean_standard_error, pooled_standard_error

__all__ = [
    "Interval",
    "interval",
    "mean_standard_error",
    "pooled_standard_error",
    "standard_error",
    "wilson",
]
