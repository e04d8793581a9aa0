"""What pages are made of: addresses, scales, figures, readable questions, prose, the stylesheet."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.core.management import call_command
from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.samples.question import read_question, split_prompt
from leaderboard.templatetags import figures
from leaderboard.texts import page
from leaderboard.web.address import Address
from leaderboard.web.prose import read_prose
from leaderboard.web.scale import Scale
from leaderboard.web.stylesheet import LAYERS, STYLESHEETS

DEFAULTS = {"style": "own", "q": "", "page": "1"}


def address(query: dict[str, str]) -> Address:
    return Address(RequestFactory().get("/", query), DEFAULTS)


@given(st.text(max_size=12), st.integers(0, 50))
def test_a_page_number_is_always_one_that_exists(typed: str, last: int) -> None:
    assert 1 <= address({"page": typed}).number("page", last=last) <= max(last, 1)


def test_a_link_changes_what_it_names_and_keeps_the_rest() -> None:
    shown = address({"style": "mmlu", "q": "a b&c", "page": "3"})
    assert shown.url(page=1) == "/?style=mmlu&q=a+b%26c"
    assert shown.url("table", style="own") == "/?q=a+b%26c&page=3#table"


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_scale_holds_its_bounds_and_keeps_the_order(a: float, b: float, c: float) -> None:
    low, middle, high = sorted((a, b, c))
    scale = Scale.around(low, high)
    assert 0 <= scale.low < scale.high <= 1
    assert scale.low <= low + 1e-9
    assert scale.high >= high - 1e-9
    assert scale.start <= scale.x(low) <= scale.x(middle) <= scale.x(high) <= scale.end


@pytest.mark.parametrize(
    ("value", "low", "high", "shown"),
    [
        (0.5, 0.45, 0.55, "±5.0"),
        (0.5, 0.46, 0.55, "±5.0"),
        (1.0, 0.984, 1.0, "98.4–100.0"),
        (0.0, 0.0, 0.016, "0.0–1.6"),
        (0.05, -0.01, 0.07, "−1.0 to 7.0"),
        (0.5, 0.4999, 0.5001, "±<0.1"),
        (1, 0.9997, 1, "±<0.1"),
        (1, 1, 1, "±0.0"),
    ],
)
def test_an_interval_never_looks_other_than_it_is(
    value: float, low: float, high: float, shown: str
) -> None:
    number = SimpleNamespace(value=value, low=low, high=high)
    assert figures.margin(number) == figures.margin_in(number, "acc") == shown


def test_a_lopsided_interval_of_another_metric_is_printed_by_its_ends() -> None:
    number = SimpleNamespace(value=2.5, low=2.4, high=3.0)
    assert figures.margin_in(number, "word_perplexity") == "2.400–3.000"


@pytest.mark.parametrize(
    ("figure", "number", "shown"),
    [
        (figures.parameters, 7_241_732_096, "7.24B"),
        (figures.parameters, 410_000, "0.41M"),
        (figures.parameters, 68_000_000, "68M"),
        (figures.points, 0.125, "+12.5"),
        (figures.points, -0.125, "−12.5"),
        (figures.duration, 0.31, "0.3 s"),
        (figures.duration, 59.9, "1 min"),
        (figures.duration, 232, "3 min 52 s"),
        (figures.duration, 7260, "2 h 1 min"),
        (figures.filesize, 999, "999 B"),
        (figures.filesize, 76_100, "76.1 kB"),
        (figures.filesize, 999_600, "1 MB"),
        (figures.filesize, 4_700_000_000, "4.7 GB"),
    ],
)
def test_figures_are_short_and_have_their_unit_or_sign(
    figure: Callable[[float], str], number: float, shown: str
) -> None:
    assert figure(number) == shown


def test_only_the_worked_examples_are_folded() -> None:
    question = "What hangs here?\n\nLook up."
    prompt = f"Question: One?\nAnswer: a\n\nQuestion: {question}\nAnswer:"
    examples, asked = split_prompt(prompt, question, 1)
    assert examples == "Question: One?\nAnswer: a\n\n"
    assert asked == f"Question: {question}\nAnswer:"


def sample(**changes: Any) -> dict[str, Any]:
    choices = ["red", "green", "blue"]
    return {
        "doc": json.dumps({"question": "Which?"}),
        "shots": [],
        "prompt": "Which?",
        "choices": choices,
        "gold": [1],
        "pick": 0,
        "correct": 0.0,
        "why_null": None,
        "arguments": [{"context": "Which?", "continuation": f" {word}"} for word in choices],
        "responses": [
            {"loglikelihood": value, "n_context_tokens": 3, "n_truncated": 0}
            for value in (-1.0, -2.0, -5.0)
        ],
        **changes,
    }


def test_a_question_says_what_was_picked_and_right_how_likely_or_why_it_was_not_scored() -> None:
    asked = read_question(sample())
    assert asked.verdict == "Wrong: picked A, the answer is B."
    assert asked.closeness == "A was 2.7 times as likely as B."
    assert asked.continuations == (" red",)
    red, green, blue = read_question(sample()).choices
    assert sum(choice.share for choice in (red, green, blue)) == pytest.approx(1)
    assert red.share > green.share > blue.share
    assert red.percent == f"{100 * red.share:.1f} %"
    asked = read_question(sample(correct=None, pick=None, why_null="the journal was cut"))
    assert asked.right is None
    assert asked.verdict == "Not scored: the journal was cut."
    arguments = [{"context": f"{word} is", "continuation": " seen"} for word in ("He", "She", "It")]
    asked = read_question(sample(arguments=arguments))
    assert asked.requests == (("He is", " seen"), ("She is", " seen"), ("It is", " seen"))


# Prose: the project’s Markdown files as pages


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "text.md"


def test_a_file_becomes_a_title_sections_and_words_and_its_markup_is_text(file: Path) -> None:
    file.write_text(
        "# How\n\nBegin.\n\n## What is counted\n\n`pass@k`, `avg@k`: shares.\n\n"
        "**Average of a suite.** The mean.\n\n`pass@k` again.\n"
    )
    prose = read_prose(file)
    assert prose.title == "How"
    assert prose.contents == (("what-is-counted", "What is counted"),)
    assert prose.words == {"pass-k", "avg-k", "average-of-a-suite"}
    assert '<h2 id="what-is-counted">What is counted</h2>' in prose.html
    assert '<code id="pass-k">pass@k</code>, <code id="avg-k">' in prose.html
    assert "<h1" not in prose.html
    file.write_text("# Changes\n\n## 1.0\n\n### More\n")
    html = read_prose(file, below=1).html
    assert re.findall(r"<(h\d)", html) == ["h3", "h4"]
    file.write_text("# One\n\n<script>alert(1)</script> [x](javascript:alert(1))\n")
    html = read_prose(file).html
    assert "<script" not in html
    assert "href" not in html


@pytest.mark.parametrize("path", [page.METHOD, page.CHANGELOG])
def test_our_own_texts_have_no_address_twice_and_no_link_into_the_repository(path: Path) -> None:
    html = read_prose(path).html
    ids = re.findall(r'\sid="([^"]*)"', html)
    assert len(set(ids)) == len(ids) > 5
    assert not [link for link in re.findall(r'href="([^"]+)"', html) if "://" not in link]
    assert "<img" not in html


# The stylesheet

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "static" / LAYERS


def joined_stylesheet(name: str) -> str:
    return Path(finders.find(name)).read_text(encoding="utf-8")


def test_every_file_of_a_layer_is_in_a_stylesheet_once_and_in_order() -> None:
    files = {str(file.relative_to(SOURCES).with_suffix("")) for file in SOURCES.rglob("*.css")}
    assert files == {layer for layers in STYLESHEETS.values() for layer in layers}
    for name, layers in STYLESHEETS.items():
        texts = [(SOURCES / f"{layer}.css").read_text(encoding="utf-8") for layer in layers]
        places = [joined_stylesheet(name).index(text) for text in texts]
        assert places == sorted(places)
        assert len(set(layers)) == len(layers)


def test_the_joined_files_are_collected_and_no_layer(settings: Any, tmp_path: Path) -> None:
    settings.STATIC_ROOT = tmp_path
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    call_command("collectstatic", interactive=False, verbosity=0)
    for name in STYLESHEETS:
        assert (tmp_path / name).read_text(encoding="utf-8") == joined_stylesheet(name)
    assert not (tmp_path / LAYERS).exists()
