"""Corrections: people report problems, moderators rule, and what was wrong counts no more.

Read `reports.py` first (what people say, and its limits), then `rulings.py` (what a ruling
does) and `recalls.py` (results that are taken from every board).
"""

from leaderboard.corrections import recalls, reports, rulings, second_figures

__all__ = ["recalls", "reports", "rulings", "second_figures"]
