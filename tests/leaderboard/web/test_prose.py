"""The project's Markdown files as pages: safe HTML, headings in order, an address for each word."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.texts import page
from leaderboard.web.prose import address_of, read_prose


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.ids: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "text.md"


def test_a_file_becomes_a_title_sections_and_words_that_can_be_linked(file: Path) -> None:
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


def test_headings_go_down_where_the_page_has_headings_above_them(file: Path) -> None:
    file.write_text("# Changes\n\n## 1.0\n\n### More\n")
    html = read_prose(file, below=1).html
    assert re.findall(r"<(h\d)", html) == ["h3", "h4"]


def test_a_changed_file_is_read_again(file: Path) -> None:
    file.write_text("# One\n\nfirst\n")
    assert "first" in read_prose(file).html
    file.write_text("# One\n\nsecond\n")
    assert "second" in read_prose(file).html


def test_markup_in_the_file_is_text(file: Path) -> None:
    file.write_text("# One\n\n<script>alert(1)</script> [x](javascript:alert(1))\n")
    html = read_prose(file).html
    assert "<script" not in html
    assert "href" not in html


@given(st.text(max_size=30))
def test_an_address_needs_no_quoting(text: str) -> None:
    assert re.fullmatch(r"[\w-]*", address_of(text))
    assert address_of(address_of(text)) == address_of(text)


@pytest.mark.parametrize("path", [page.METHOD, page.CHANGELOG])
def test_our_own_texts_have_no_address_twice_and_no_link_into_the_repository(path: Path) -> None:
    html = read_prose(path).html
    tags = Tags(html)
    assert len(set(tags.ids)) == len(tags.ids)
    assert not [link for link in re.findall(r'href="([^"]+)"', html) if "://" not in link]
    assert "img" not in tags.names
