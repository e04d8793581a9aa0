"""A page of the site as a visitor reads it: its hidden fields, problems, links, rows and text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Row:
    """A row of a table."""

    links: list[str] = field(default_factory=list)
    text: str = ""


class Page(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.hidden: dict[str, str] = {}
        self.links: list[str] = []
        self.rows: list[Row] = []
        self.problems: list[str] = []
        self.text = ""
        self._row: Row | None = None
        self._in_problem = False
        self.feed(html)
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "input" and given.get("type") == "hidden":
            self.hidden[given["name"]] = given.get("value", "")
        elif tag == "a" and "href" in given:
            self.links.append(given["href"])
            if self._row:
                self._row.links.append(given["href"])
        elif tag == "tr":
            self._row = Row()
            self.rows.append(self._row)
        elif tag == "div":
            self._in_problem = "data-problem-of" in given

    def handle_endtag(self, tag: str) -> None:
        if tag == "tr":
            self._row = None
        elif tag == "div":
            self._in_problem = False

    def handle_data(self, data: str) -> None:
        self.text += f" {data}"
        if self._row:
            self._row.text += f" {data}"
        if self._in_problem and data.strip():
            self.problems.append(data.strip())

    def link(self, pattern: str) -> str | None:
        """The first link whose whole address matches."""
        return next((link for link in self.links if re.fullmatch(pattern, link)), None)

    def ranked_models(self) -> set[str]:
        """On the board: the models that have a rank, which only those have that were measured."""
        models = set()
        for row in self.rows:
            model = next((link for link in row.links if link.startswith("/models/")), None)
            if model and re.match(r"\s*\d", row.text):
                models.add(model.removeprefix("/models/"))
        return models
