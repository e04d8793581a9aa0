"""Planning of rows and batches: everything once, nothing over budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcore.model.forward.plain import batches_of, rows_of

tokens = st.lists(st.integers(0, 3), min_size=1, max_size=12).map(tuple)


@given(st.lists(tokens, max_size=60), st.integers(1, 40), st.none() | st.integers(1, 5))
def test_every_request_is_computed_once_within_the_budget(sequences, budget, most_rows):
    batches = batches_of(rows_of(sequences), budget=budget, most_rows=most_rows)
    found = [index for batch in batches for row in batch for index in row.requests]
    assert sorted(found) == list(range(len(sequences)))
    for batch in batches:
        padded = len(batch) * max(len(row.tokens) for row in batch)
        assert padded <= budget or len(batch) == 1
        assert most_rows is None or len(batch) <= most_rows
        for row in batch:
            assert all(sequences[index] == row.tokens for index in row.requests)


@given(st.lists(tokens, min_size=1, max_size=60))
def test_equal_sequences_are_one_row_and_the_longest_come_first(sequences):
    rows = rows_of(sequences)
    assert len(rows) == len(set(sequences))
    lengths = [len(row.tokens) for row in rows]
    assert lengths == sorted(lengths, reverse=True)


def test_a_budget_below_one_is_refused():
    with pytest.raises(ValueError, match="budget 0"):
        batches_of([], budget=0)
