"""Every question behind a number: stored, listed, searched, as scores by question."""

from leaderboard.samples import checking, costs, excerpts, store, vectors
from leaderboard.samples.facts import NO_PICK, Facts, Numbered, facts_of
from leaderboard.samples.listing import (
    LONGEST_TEXT,
    MARGINS,
    OPENING_LENGTH,
    OUTCOMES,
    QUESTIONS_ON_PAGE,
    SORTS,
    Line,
    Samples,
    Search,
    question_in,
    rows_in,
)
from leaderboard.samples.question import (
    CHOICE_COLUMNS,
    Choice,
    Question,
    choices_of,
    is_withheld,
    letter,
    read_question,
)
from leaderboard.samples.store import (
    Damaged,
    Folder,
    StoredFile,
    Unavailable,
    as_written,
    path_of,
)
from leaderboard.samples.vectors import Layout, Vector, by_result
from leaderboard.samples.waffle import Waffle, draw_waffle

__all__ = [
    "CHOICE_COLUMNS",
    "LONGEST_TEXT",
    "MARGINS",
    "NO_PICK",
    "OPENING_LENGTH",
    "OUTCOMES",
    "QUESTIONS_ON_PAGE",
    "SORTS",
    "Choice",
    "Damaged",
    "Facts",
    "Folder",
    "Layout",
    "Line",
    "Numbered",
    "Question",
    "Samples",
    "Search",
    "StoredFile",
    "Unavailable",
    "Vector",
    "Waffle",
    "as_written",
    "by_result",
    "checking",
    "choices_of",
    "costs",
    "draw_waffle",
    "excerpts",
    "facts_of",
    "is_withheld",
    "letter",
    "path_of",
    "question_in",
    "read_question",
    "rows_in",
    "store",
    "vectors",
]
