"""Which test documents does the training text contain, in whole or in part?

The rule of GPT-3 (Brown et al. 2020, appendix C, "overlap methodology"): a document is dirty if any
N-gram of its words occurs anywhere in the training text, case and punctuation ignored; N is the
5th percentile of the task's document lengths in words, at least 8 and at most 13. A document that
is shorter than N counts as one n-gram if it has 8 words; with fewer nothing can be told from it.

The n-grams of the test documents are indexed, which is little, and the training text streams past
once, which may be anything: memory depends on the test documents alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from evalcore.contamination.grams import LONGEST, SHORTEST, GramIndex, Words
from evalcore.contamination.sources import Source, source_of
from evalcore.errors import TaskError

Overlaps = list[str] | None
"""The passages of a document that the training text has, too; None if it is too short to tell."""

PERCENTILE = 5


class Decontamination:
    """Searches training text for test documents.

    A source is a file (plain text, .jsonl, .parquet, .arrow; text and JSON lines also as .gz and
    .zst), a folder of those or of `Dataset.save_to_disk`, or `ID[:CONFIG[:SPLIT]]` on the Hub. `n`
    is the length of the n-grams, 8 to 13; None: by the rule, for each task. Raises TaskError for a
    source that is none of these, and another `n`.
    """

    def __init__(self, sources: Sequence[str | Path], n: int | None = None) -> None:
        if n is not None and not SHORTEST <= n <= LONGEST:
            raise TaskError(
                f"decontaminate_n: expected {SHORTEST} to {LONGEST} words, got {n}; fewer match "
                "by chance, more miss copies"
            )
        self._sources: list[Source] = [source_of(str(source)) for source in sources]
        self._n = n

    def search(self, tasks: Sequence[Sequence[str]]) -> list[list[Overlaps]]:
        """The overlapping passages of each document of each task, in one pass over the sources.

        Raises TaskError that names a source's file and line where it is not as its name says, and
        InfraError where it cannot be read.
        """
        documents = [[Words.of(query) for query in queries] for queries in tasks]
        sizes = [
            [min(n, len(words)) if len(words) >= SHORTEST else None for words in of_task]
            for of_task in documents
            for n in [self._n or gram_size(list(map(len, of_task)))]
        ]
        index = GramIndex(
            (words, size)
            for of_task, of_sizes in zip(documents, sizes, strict=True)
            for words, size in zip(of_task, of_sizes, strict=True)
            if size is not None
        )
        for source in self._sources:
            index.read(source())
        passages = iter(index.passages())
        return [[None if n is None else next(passages) for n in of_task] for of_task in sizes]


def gram_size(lengths: Sequence[int]) -> int:
    """N of a task whose documents have so many words: their 5th percentile within 8 to 13."""
    if not lengths:
        return LONGEST
    return int(np.clip(np.percentile(lengths, PERCENTILE), SHORTEST, LONGEST))
