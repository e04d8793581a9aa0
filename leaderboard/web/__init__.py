"""What every page stands on: addresses, lists in pages, one rule of keeping, throttles, errors."""

from leaderboard.web import background, bearer, canvas, kept, prose, throttle, unseen
from leaderboard.web.address import Address, page_number, redirect_to, short_address
from leaderboard.web.canvas import INK_2, INK_3, LEFT, RIGHT, STYLE_INKS, Canvas, length, shorten
from leaderboard.web.paging import Part, page_links, part, uncounted
from leaderboard.web.plotly_script import MAP_STYLE_ID
from leaderboard.web.recent import Recent
from leaderboard.web.refreshed import Refreshed
from leaderboard.web.request_log import page_of
from leaderboard.web.scale import Scale
from leaderboard.web.span import NO_SPAN, Span, total_span

__all__ = [
    "INK_2",
    "INK_3",
    "LEFT",
    "MAP_STYLE_ID",
    "NO_SPAN",
    "RIGHT",
    "STYLE_INKS",
    "Address",
    "Canvas",
    "Part",
    "Recent",
    "Refreshed",
    "Scale",
    "Span",
    "background",
    "bearer",
    "canvas",
    "kept",
    "length",
    "page_links",
    "page_number",
    "page_of",
    "part",
    "prose",
    "redirect_to",
    "short_address",
    "shorten",
    "throttle",
    "total_span",
    "uncounted",
    "unseen",
]
