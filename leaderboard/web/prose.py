"""The project's own Markdown files as pages, and lines of them.

Every section has an address, and so has every word that a paragraph begins by defining: a number's
page can lead to the very sentence that says how it is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

DEEPEST = 6
"""HTML has no headings below."""


@dataclass(frozen=True)
class Prose:
    """A file as HTML without its first heading, which is `title`."""

    title: str
    html: SafeString
    contents: tuple[tuple[str, str], ...]
    """Address and title of each of its sections."""
    words: frozenset[str]
    """Addresses of what its paragraphs define."""


def read_prose(path: Path, *, below: int = 0) -> Prose:
    """The file at `path`; `below` says how many levels its headings go down."""
    return _rendered(path, path.stat().st_mtime_ns, below)


def line(text: str) -> SafeString:
    """A line of Markdown as HTML; tags in it are shown, not followed."""
    html: str = MarkdownIt("commonmark", {"html": False}).renderInline(text)
    return mark_safe(html)  # noqa: S308


@lru_cache(maxsize=8)
def _rendered(path: Path, _changed: int, below: int) -> Prose:
    # Raw HTML is escaped: these files are ours, yet none of them needs any.
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(path.read_text(encoding="utf-8"))
    title, tokens = tokens[1].content, tokens[3:]
    contents = tuple(_sections(tokens))
    words = _name_words(tokens, {address for address, _ in contents})
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + below, DEEPEST)}"
    html = markdown.renderer.render(tokens, markdown.options, {})
    return Prose(title, mark_safe(html), contents, frozenset(words))  # noqa: S308


def address_of(text: str) -> str:
    """What stands behind the # for a heading or a word: `pass@k` is at `pass-k`."""
    return re.sub(r"[^\w]+", "-", text.lower()).strip("-")


def _sections(tokens: Sequence[Token]) -> Iterator[tuple[str, str]]:
    """Gives each section's heading its address."""
    for token, inside in pairwise(tokens):
        if token.type == "heading_open" and token.tag == "h2":
            address = address_of(inside.content)
            token.attrSet("id", address)
            yield address, inside.content


def _name_words(tokens: Sequence[Token], taken: Set[str]) -> set[str]:
    """Gives each defined word its address, the first time that it is defined."""
    words: set[str] = set()
    for token, inside in pairwise(tokens):
        if token.type == "paragraph_open":
            for word, begin in _defined(inside):
                if word not in words | taken:
                    words.add(word)
                    begin.attrSet("id", word)
    return words


def _defined(paragraph: Token) -> Iterator[tuple[str, Token]]:
    """The words that a paragraph begins with: `bleu`, `chrf`: … or **Average of a suite.** …"""
    children: Sequence[Token] = paragraph.children or []
    if children and not children[0].content and children[0].type == "text":
        children = children[1:]
    for place, child in enumerate(children):
        if child.type == "code_inline":
            yield address_of(child.content), child
        elif place == 0 and child.type == "strong_open":
            yield address_of(children[1].content), child
            return
        elif child.content.strip() != ",":
            return
