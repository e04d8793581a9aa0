"""The planner: each distinct prefix is computed once, and read wherever it is asked for."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcore.model.packs.prefix import plan


@st.composite
def requests(draw):
    """Sequences that branch off one another anywhere, and what is scored of each."""
    sequences: list[list[int]] = []
    for _ in range(draw(st.integers(1, 12))):
        begun = draw(st.sampled_from(sequences)) if sequences and draw(st.booleans()) else []
        shared = begun[: draw(st.integers(0, len(begun)))]
        own = draw(st.lists(st.integers(0, 2), min_size=0 if shared else 1, max_size=8))
        sequences.append(shared + own)
    return sequences, [draw(st.integers(1, len(sequence))) for sequence in sequences]


budgets = st.integers(1, 30)


def spelt(made):
    """The whole prefix that ends with each piece, spelt from the chain of pieces above it."""
    prefixes: list[list[int]] = []
    for pack in made.packs:
        for piece in made.pieces[pack.pieces.start : pack.pieces.stop]:
            above = prefixes[piece.parent] if piece.parent >= 0 else []
            assert piece.depth == len(above)
            prefixes.append(above + pack.tokens[piece.start : piece.start + piece.length].tolist())
    return prefixes


def subtrees(made):
    """Tokens of each piece with all its descendants."""
    sizes = [piece.length for piece in made.pieces]
    for index in range(len(sizes) - 1, -1, -1):
        if (parent := made.pieces[index].parent) >= 0:
            sizes[parent] += sizes[index]
    return sizes


def check_reads(made, sequences, n_scored):
    """Every scored position of every request is read once, after just the request's tokens."""
    prefixes = spelt(made)
    read = set()
    for pack in made.packs:
        assert sorted(set(pack.rows.tolist())) == pack.rows.tolist()
        assert set(pack.reads[:, 0].tolist()) == set(range(len(pack.rows)))
        piece_at = [index for index in pack.pieces for _ in range(made.pieces[index].length)]
        for row, request, ordinal in pack.reads.tolist():
            piece = piece_at[place := int(pack.rows[row])]
            behind = made.pieces[piece].start + made.pieces[piece].length - place - 1
            before = prefixes[piece][: len(prefixes[piece]) - behind]
            sequence = sequences[request]
            assert before == sequence[: len(sequence) - n_scored[request] + ordinal + 1]
            assert pack.positions[place] == len(before) - 1
            assert (request, ordinal) not in read
            read.add((request, ordinal))
    assert read == {(i, ordinal) for i, count in enumerate(n_scored) for ordinal in range(count)}


def peak_kept(made):
    """Most tokens kept from one pack to the next."""
    kept: set[int] = set()
    peak = 0
    for pack in made.packs:
        kept = (kept | set(pack.kept)) - set(pack.freed)
        peak = max(peak, sum(made.pieces[piece].length for piece in kept))
    return peak


def check_what_is_kept(made):
    """A piece is kept by its own pack exactly if a later one inherits it, freed by the last."""
    kept: set[int] = set()
    for index, pack in enumerate(made.packs):
        inherited = [each.piece for each in pack.inherited]
        wanted_later = {each.piece for later in made.packs[index + 1 :] for each in later.inherited}
        assert set(inherited) <= kept
        assert set(pack.freed) == set(inherited) - wanted_later
        assert set(pack.kept) == set(pack.pieces) & wanted_later
        kept = (kept | set(pack.kept)) - set(pack.freed)
    assert not kept


def check_structure(made, budget):
    """Pieces fill their packs, and know what descends from them."""
    assert [index for pack in made.packs for index in pack.pieces] == list(range(len(made.pieces)))
    for pack in made.packs:
        assert 1 <= len(pack.tokens) == len(pack.positions) <= budget
        pieces = made.pieces[pack.pieces.start : pack.pieces.stop]
        ends = [piece.start + piece.length for piece in pieces]
        assert [0, *ends] == [*(piece.start for piece in pieces), len(pack.tokens)]
        below: dict[int, list[int]] = {each.piece: [] for each in pack.inherited}
        below |= {index: [] for index in pack.pieces}
        for index, piece in zip(pack.pieces, pieces, strict=True):
            ancestor = piece.parent
            while ancestor >= 0:
                below[ancestor] += range(piece.start, ends[index - pack.pieces.start])
                ancestor = made.pieces[ancestor].parent
        for index, piece, end in zip(pack.pieces, pieces, ends, strict=True):
            assert below[index] == list(range(end, piece.end))
        for each in pack.inherited:
            assert below[each.piece] == list(range(each.end)) != []


@given(requests(), budgets)
def test_every_scored_position_is_read_once_after_the_tokens_of_its_request(asked, budget):
    check_reads(plan(*asked, budget=budget), *asked)


@given(requests(), budgets)
def test_pieces_fill_their_packs_and_know_their_descendants(asked, budget):
    check_structure(plan(*asked, budget=budget), budget)


@given(requests(), budgets)
def test_each_distinct_prefix_is_computed_once_and_nothing_else(asked, budget):
    made = plan(*asked, budget=budget)
    prefixes = {tuple(each[: end + 1]) for each in asked[0] for end in range(len(each))}
    assert sum(len(pack.tokens) for pack in made.packs) == made.n_unique == len(prefixes)
    assert made.n_unique <= sum(len(each) for each in set(map(tuple, asked[0])))


@given(requests(), budgets)
def test_what_later_packs_need_is_kept_and_freed_at_its_last_use(asked, budget):
    made = plan(*asked, budget=budget)
    check_what_is_kept(made)
    assert peak_kept(made) < max(map(len, asked[0]))


@given(requests(), budgets)
def test_a_request_is_done_with_the_pack_of_its_last_read(asked, budget):
    made = plan(*asked, budget=budget)
    last = {row[1]: index for index, pack in enumerate(made.packs) for row in pack.reads.tolist()}
    done = [(i, index) for index, pack in enumerate(made.packs) for i in pack.done]
    assert sorted(done) == sorted(last.items())


@given(requests(), budgets)
def test_only_a_subtree_that_fits_no_pack_is_cut(asked, budget):
    made = plan(*asked, budget=budget)
    sizes = subtrees(made)
    assert all(sizes[piece] > budget for pack in made.packs for piece in pack.kept)


@given(requests(), budgets)
def test_no_pack_ends_where_the_next_subtree_would_have_fitted(asked, budget):
    made = plan(*asked, budget=budget)
    sizes = subtrees(made)
    for pack, following in pairwise(made.packs):
        assert len(pack.tokens) + sizes[following.pieces.start] > budget


def test_packs_are_full_where_nothing_is_shared():
    """No root holds the sequences together: each is a subtree of its own."""
    made = plan([[i, 0, 0, 0, 0] for i in range(1000)], [1] * 1000, budget=20)
    assert [len(pack.tokens) for pack in made.packs] == [20] * 250
    assert made.n_unique == 5000
    assert peak_kept(made) == 0


def test_equal_requests_are_one_path_read_for_each():
    made = plan([[7, 8, 9]] * 4, [1, 2, 3, 1], budget=16)
    (pack,) = made.packs
    assert (pack.tokens.tolist(), pack.rows.tolist()) == ([7, 8, 9], [0, 1, 2])
    assert len(pack.reads) == 7
    assert made.n_unique == 3


def test_a_question_is_computed_once_for_its_answers():
    """Two answers after one question, of which one goes on where the other ends."""
    made = plan([[5, 6, 7], [5, 6, 7, 8], [5, 6, 9]], [1, 2, 1], budget=8)
    (pack,) = made.packs
    assert pack.tokens.tolist() == [5, 6, 7, 8, 9]
    assert pack.positions.tolist() == [0, 1, 2, 3, 2]
    assert [(piece.start, piece.length, piece.end, piece.parent) for piece in made.pieces] == [
        (0, 2, 5, -1),
        (2, 1, 4, 0),
        (3, 1, 4, 1),
        (4, 1, 5, 0),
    ]
    assert pack.rows.tolist() == [2, 3, 4]
    assert pack.reads.tolist() == [[0, 0, 0], [0, 1, 0], [1, 1, 1], [2, 2, 0]]


def test_one_sequence_longer_than_the_budget_goes_through_in_full_packs():
    made = plan([list(range(10))], [4], budget=4)
    assert [pack.tokens.tolist() for pack in made.packs] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [[each.piece for each in pack.inherited] for pack in made.packs] == [[], [0], [0, 1]]
    assert [pack.freed for pack in made.packs] == [(), (), (0, 1)]
    assert [pack.done for pack in made.packs] == [(), (), (0,)]
    assert peak_kept(made) == 8


@pytest.mark.parametrize("budget", [1, 100, 10_000])
def test_a_trie_of_a_thousand_branchings_in_depth_is_planned(budget):
    path = list(range(1100))
    sequences = [[*path[:end], 2000] for end in range(1, 1100)]
    made = plan(sequences, [2] * len(sequences), budget=budget)
    assert made.n_unique == 1099 + 1099
    check_reads(made, sequences, [2] * len(sequences))


def test_a_hundred_thousand_requests_are_planned():
    """Thousands of questions under one long prompt, four answers each."""
    prompt = list(range(60))
    sequences = [
        [*prompt, question, *range(35), answer, question, answer, 1]
        for question in range(25_000)
        for answer in range(4)
    ]
    made = plan(sequences, [4] * 100_000, budget=4096)
    assert made.n_unique == 60 + 25_000 * (36 + 4 * 4)
    assert sorted(request for pack in made.packs for request in pack.done) == [*range(100_000)]
    assert sum(len(pack.reads) for pack in made.packs) == 400_000
    assert all(len(pack.tokens) <= 4096 for pack in made.packs)
    assert peak_kept(made) == 60


def test_no_requests_need_no_packs():
    made = plan([], [], budget=1)
    assert (len(made.packs), len(made.pieces), made.n_unique, peak_kept(made)) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("sequences", "n_scored", "budget", "complaint"),
    [
        ([[1]], [1], 0, "budget of 0 tokens"),
        ([[1], []], [1, 1], 8, "request 1 scores 1 of 0"),
        ([[1]], [0], 8, "request 0 scores 0 of 1"),
        ([[1]], [2], 8, "request 0 scores 2 of 1"),
        ([[-1]], [1], 8, "not a number from 0"),
        ([[1], [2]], [1], 8, "shorter"),
    ],
)
def test_what_cannot_be_planned_is_refused(sequences, n_scored, budget, complaint):
    with pytest.raises(ValueError, match=complaint):
        plan(sequences, n_scored, budget=budget)
