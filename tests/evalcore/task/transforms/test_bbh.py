"""What BIG-Bench Hard's filters find, by hand and beside lm-evaluation-harness's own."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import pytest

from evalcore.task.transforms.bbh import NOT_FOUND, Meaning, Number, Option, Sorted

QUESTION = "Which is it?\nOptions:\n(A) a red ball\n(B) a red ball, too\n(C) None of these"
LIST = "Sort the following words alphabetically: List: oak elm ash"
PLAUSIBLE = {r"\b(no|not plausible)\b": "no", r"\b(yes|plausible)\b": "yes"}


def one(found: Any) -> str:
    ((text,),) = found
    return str(text)


@pytest.mark.parametrize(
    ("said", "letter"),
    [
        ("It is (B), not (C).", "(B)"),
        ("None of THESE!", "(C)"),
        ("surely a red ball too", "(B)"),
        ("The answer: C", "(C)"),
        ("I cannot say", NOT_FOUND),
    ],
)
def test_an_option_is_found_by_its_letter_or_its_text(said: str, letter: str) -> None:
    option = Option(r"(\([A-Z]\))", ignore_case=True, ignore_punctuation=True)
    assert one(option.apply([[said]], [{"input": QUESTION}])) == letter


@pytest.mark.parametrize(
    ("said", "number"),
    [("It is 12, or 7.", "7"), ("one hundred and five", "105"), ("six", NOT_FOUND)],
)
def test_a_number_is_found_in_digits_and_in_words(said: str, number: str) -> None:
    assert one(Number("([-0-9]+)", group_select=-1).apply([[said]], [{}])) == number


@pytest.mark.parametrize(
    ("said", "meant"), [("Not plausible", "no"), ("It is plausible.", "yes"), ("Hm", NOT_FOUND)]
)
def test_several_words_mean_yes_or_no(said: str, meant: str) -> None:
    assert one(Meaning(PLAUSIBLE, ignore_case=True).apply([[said]], [{}])) == meant


def test_words_stand_in_the_order_in_which_they_are_last_named() -> None:
    said = "oak, elm, ash: sorted ash elm oak"
    assert one(Sorted().apply([[said]], [{"input": LIST}])) == "ash elm oak"


PARTS = (
    *("(A)", "(B)", "(C)", "a red ball", ", too", "None of these", ": B", ": ", "The answer is "),
    *(
        "twenty",
        " one",
        "hundred",
        " and ",
        "seven",
        "eight",
        "eighteen",
        "12",
        "-3",
        ",",
        "million",
    ),
    *("yes", "No", "plausible", "not plausible", "oak", "elm ", " ash", "\n", ".", "", "é"),
)


@pytest.mark.peer
@pytest.mark.parametrize("select", [0, -1])
def test_the_filters_find_what_lm_evals_own_find(select: int) -> None:
    package = importlib.util.find_spec("lm_eval")
    if package is None or package.origin is None:
        pytest.skip("lm_eval is not installed (extra `peer`)")
    file = Path(package.origin).parent / "tasks" / "bbh" / "cot_zeroshot" / "utils.py"
    spec = importlib.util.spec_from_file_location("bbh_of_lm_eval", file)
    assert spec is not None
    assert spec.loader is not None
    theirs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(theirs)
    letter = {"ignore_case": True, "ignore_punctuation": True, "group_select": select}
    meaning = {"ignore_case": True, "group_select": select}
    pairs: list[tuple[Any, Any, str]] = [
        (
            Option(r"(\([A-Z]\))", **letter),
            theirs.MultiChoiceRegexFilter(regex_pattern=r"(\([A-Z]\))", **letter),
            QUESTION,
        ),
        (
            Number("([-0-9]+)", select),
            theirs.NumberParseRegexFilter("([-0-9]+)", select),
            "",
        ),
        (Meaning(PLAUSIBLE, **meaning), theirs.MapRegexFilter(PLAUSIBLE, **meaning), ""),
        (Sorted(), theirs.WordSortFilter(), LIST),
    ]
    generator = random.Random(5)
    for _ in range(1500):
        said = "".join(generator.choices(PARTS, k=generator.randint(1, 6)))
        for ours, peer, question in pairs:
            found = one(ours.apply([[said]], [{"input": question}]))
            assert found == outcome(peer, said, question), (type(ours).__name__, said)


def outcome(filter: Any, said: str, question: str) -> str:
    try:
        return one(filter.apply([[said]], [{"input": question}]))
    except (ValueError, IndexError):  # its run ends at words that are no number, such as "million"
        return NOT_FOUND
