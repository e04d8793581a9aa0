"""HellaSwag's rows as they are asked."""

from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from evalcore.task.transforms.hellaswag import with_query, without_marks


def asked(label: str, first: str, second: str, *endings: str) -> dict[str, object]:
    row = {"activity_label": label, "ctx_a": first, "ctx_b": second, "endings": list(endings)}
    found: dict[str, object] = with_query(Dataset.from_list([row]))[0]
    return found


def test_the_label_stands_before_the_context_whose_second_part_begins_with_a_capital() -> None:
    row = asked("Rowing", "A man sits in a boat.", "the man", "rows.", "flies.")
    assert row["query"] == "Rowing: A man sits in a boat. The man"
    assert row["unlabelled"] == "A man sits in a boat. The man"
    assert row["choices"] == ["rows.", "flies."]


def test_a_title_ends_the_sentence_before_it_and_other_marks_go() -> None:
    row = asked(
        "Pets", "[header] How to feed a cat [title] Ask it. [step] It knows.", "", "[step] So"
    )
    assert row["query"] == "Pets: How to feed a cat. Ask it. It knows."
    assert row["unlabelled"] == "How to feed a cat. Ask it. It knows."
    assert row["choices"] == [" So"]


def test_a_mark_at_the_end_leaves_its_space_in_the_query_alone() -> None:
    row = asked("Pets", "Feed the cat. [step]", "", "[substeps]")
    assert row["query"] == "Pets: Feed the cat. "
    assert row["unlabelled"] == "Feed the cat."
    assert row["choices"] == [""]


def test_the_row_keeps_its_columns() -> None:
    assert asked("Pets", "A cat.", "it", "sleeps.")["ctx_b"] == "it"


def test_a_bracket_that_is_never_closed_stays() -> None:
    assert without_marks("a [b") == "a [b"


@given(st.text(alphabet="ab []", max_size=30))
def test_no_closed_mark_is_left(text: str) -> None:
    assert "]" not in without_marks(text).partition("[")[2]


@given(st.text(alphabet="ab .", max_size=30))
def test_text_without_marks_keeps_its_words(text: str) -> None:
    assert without_marks(text).split() == text.split()
