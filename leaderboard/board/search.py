r"""Search on the board: what a query says, and which models it finds.

    llama 7b; @author:google @size:<3B; /mistral-\d+b/

`;` is or. Within a term everything must hold: a word is any part of the model's ID, `@field:value`
asks one field, `/…/` is a regular expression (as is `@field:/…/`). Case never matters. Regular
expressions are RE2's, whose time is linear in the text: no query can hold up the site.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from functools import cached_property
from itertools import islice, product
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import re2
from numpy.typing import NDArray

from leaderboard.snapshot import Flags, Model, Models

Texts: TypeAlias = Any
"""An Arrow array of strings."""

NOT_STATED = "not-stated"
"""How a query and a filter call an empty licence, type or architecture."""
LONGEST = 300
MOST_PARTS = 12
# A program of a thousand steps takes some 10 ms over 10,000 IDs, one of ten thousand seconds.
LARGEST_PROGRAM = 1000
_RE2 = re2.Options()
_RE2.case_sensitive = False
_RE2.never_capture = True
_RE2.log_errors = False
_RE2.max_mem = 2**20
_EXAMPLE = "@author:google"
MOST_NEAR = 3
"""Suggestions for a search that finds nothing."""


class SearchError(ValueError):
    """A query that cannot be read: which part of it, what is wrong, and the remedy."""

    def __init__(self, part: str, message: str, remedy: str) -> None:
        super().__init__(f"“{part}” {message} {remedy}")
        self.part = part
        self.message = message
        self.remedy = remedy


@dataclass(frozen=True)
class Field:
    """What `@name:value` looks at, and how."""

    name: str
    texts: Callable[[Models], Texts]
    """Of each model."""
    holds: Callable[[str, str], bool]
    """Of the model's text and the value, both in lower case."""


def precision_of(model: Model) -> str:
    """Under which name a model's weights are computed: how they are quantised, or their dtype."""
    return model.quantisation or model.dtype


def either(texts: Texts, instead: Texts | str) -> Texts:
    """Each text, or where it is empty what stands in for it."""
    return pc.if_else(pc.equal(texts, ""), instead, texts)


def precisions(models: Models) -> Texts:
    """`precision_of` each model."""
    return either(models.array("quantisation"), models.array("dtype"))


def _architectures(models: Models) -> Texts:
    both = zip(models.values("model_type"), models.values("architecture"), strict=True)
    return pa.array([f"{model_type} {name}".strip() for model_type, name in both], pa.string())


def stated(name: str) -> Callable[[Models], Texts]:
    """A field that may be empty."""
    return lambda models: either(models.array(name), NOT_STATED)


def _plain(name: str) -> Callable[[Models], Texts]:
    return lambda models: models.array(name)


def _part_of_id(place: int) -> Callable[[Models], Texts]:
    """0 for the owner's name, 2 for the model's."""
    return lambda models: pa.array(
        [repo_id.rpartition("/")[place] for repo_id in models.values("repo_id")], pa.string()
    )


_ID = Field("id", _plain("repo_id"), operator.contains)
_SIZE = "size"
_TEXT_FIELDS = (
    Field("author", _part_of_id(0), operator.contains),
    Field("model", _part_of_id(2), operator.contains),
    Field("architecture", _architectures, operator.contains),
    Field("type", stated("kind"), operator.eq),
    Field("licence", stated("licence"), operator.contains),
    Field("precision", precisions, operator.eq),
    Field("base", _plain("base_model"), operator.contains),
    Field("adapter", _plain("adapter_base"), operator.contains),
    Field("commit", _plain("commit"), str.startswith),
)
_ALIASES = {"org": "author", "arch": "architecture", "license": "licence", "dtype": "precision"}
_FIELDS: Mapping[str, Field] = {field.name: field for field in _TEXT_FIELDS}
FIELDS = (*_FIELDS, _SIZE)
"""What may stand behind an `@`, apart from other spellings."""


class Catalogue:
    """Models made ready for many searches."""

    def __init__(self, models: Models) -> None:
        self.models = models
        self._texts: dict[str, list[str]] = {}

    def texts(self, of: Field) -> list[str]:
        """The field's text of each model, in lower case."""
        if of.name not in self._texts:
            self._texts[of.name] = [text.lower() for text in of.texts(self.models).to_pylist()]
        return self._texts[of.name]

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Parameters of each model."""
        sizes: NDArray[np.int64] = self.models.array("parameters").to_numpy()
        return sizes

    @cached_property
    def _words(self) -> dict[str, str]:
        """IDs, makers, names and the words of names, by the same in lower case."""
        names = {
            part
            for repo_id in self.models.values("repo_id")
            for part in (repo_id, *repo_id.split("/"), *re.split(r"[\W_]+", repo_id))
        }
        return {name.lower(): name for name in sorted(names) if len(name) > 2}

    def near(self, text: str) -> list[str]:
        """Searches that find a model, near to one of plain words that finds none."""
        words = re.findall(r"[^\s_-]+", text.lower())
        if not words or any(word[0] in "@/" or ";" in word for word in words):
            return []
        ids, choices = self.texts(_ID), []
        for word in words:
            known = any(word in repo_id for repo_id in ids)
            choices.append(
                [word] if known else get_close_matches(word, self._words, MOST_NEAR, 0.7)
            )
        near = [
            " ".join(self._words.get(word, word) for word in chosen)
            for chosen in islice(product(*choices), MOST_NEAR**2)
            if any(all(word in repo_id for word in chosen) for repo_id in ids)
        ]
        return near[:MOST_NEAR]


Finder = Callable[[Catalogue], Flags]


@dataclass(frozen=True)
class Term:
    """What stands between two semicolons."""

    text: str
    parts: tuple[Finder, ...]

    def found(self, catalogue: Catalogue) -> Flags:
        """Which models hold all its parts, shape (models,)."""
        found: Flags = np.logical_and.reduce([part(catalogue) for part in self.parts])
        return found


@dataclass(frozen=True)
class Query:
    """A query that was understood; one without terms finds every model."""

    text: str
    terms: tuple[Term, ...]

    def found(self, catalogue: Catalogue) -> tuple[Flags, list[tuple[str, int]]]:
        """Which models any term finds, all where there is none; and how many each of them finds."""
        found = [term.found(catalogue) for term in self.terms]
        hits = [(term.text, int(f.sum())) for term, f in zip(self.terms, found, strict=True)]
        every = np.ones(len(catalogue.models), np.bool_)
        return np.logical_or.reduce(found) if found else every, hits


def parse(text: str) -> Query:
    """Read a query. Raises SearchError for what cannot be read, and nothing else."""
    text = text.strip()
    if len(text) > LONGEST:
        raise SearchError(
            f"{text[:20]}…", f"is one of {len(text):,} characters.", f"Use at most {LONGEST}."
        )
    terms = [Term(source, tuple(map(_finder, parts))) for source, parts in _split(text)]
    if sum(len(term.parts) for term in terms) > MOST_PARTS:
        raise SearchError(
            text, "asks for too much at once.", f"Use at most {MOST_PARTS} words and conditions."
        )
    return Query(text, tuple(terms))


_PART = re.compile(
    r"""
    (?P<end> ; )
    | (?P<source>
        (?: @ (?P<field> [^\s:;]* ) (?P<colon> :? ) )?
        # A regular expression ends at a slash that nothing but a space or a semicolon follows:
        # IDs have slashes, too.
        (?: / (?P<regex> (?: \\. | [^\\] )*? ) / (?= [\s;] | $ ) | (?P<value> [^\s;]* ) )
      )
    """,
    re.VERBOSE | re.DOTALL,
)


def _split(text: str) -> Iterator[tuple[str, list[re.Match[str]]]]:
    """The text of each term with its parts; empty terms are passed over."""
    parts: list[re.Match[str]] = []
    for part in _PART.finditer(f"{text};"):
        if part["end"]:
            if parts:
                yield text[parts[0].start() : parts[-1].end()], parts
            parts = []
        elif part["source"]:
            parts.append(part)


def _finder(part: re.Match[str]) -> Finder:
    """What one part of a term asks of a model."""
    source = part["source"]
    if part["field"] is None:
        asked = _ID
    else:
        name = part["field"].lower()
        name = _ALIASES.get(name, name)
        _check_field(source, name, part)
        if name == _SIZE:
            return _sized(source, part["value"])
        asked = _FIELDS[name]
    if part["regex"] is not None:
        return _regular(source, asked, part["regex"])
    wanted = part["value"].lower()
    if wanted.startswith("/"):
        raise SearchError(
            source, "begins a regular expression and does not end it.", "Put a / behind it."
        )
    return lambda catalogue: np.array(
        [asked.holds(text, wanted) for text in catalogue.texts(asked)], np.bool_
    )


def _check_field(source: str, name: str, part: re.Match[str]) -> None:
    if name not in FIELDS:
        close = get_close_matches(name, (*FIELDS, *_ALIASES), 1)
        remedy = f"Did you mean @{close[0]}? " if close else ""
        known = ", ".join(f"@{name}" for name in FIELDS)
        raise SearchError(source, "asks for an unknown field.", f"{remedy}There are {known}.")
    if not part["colon"] or not (part["value"] or part["regex"]):
        raise SearchError(source, "has no value.", f"Write it as in {_EXAMPLE}, without a space.")
    if name == _SIZE and part["regex"] is not None:
        raise SearchError(source, "asks a number for its letters.", "Write it as in @size:<7B.")


def _regular(source: str, asked: Field, pattern: str) -> Finder:
    try:
        compiled = re2.compile(pattern.encode(), _RE2)
    except UnicodeEncodeError:
        raise SearchError(source, "has half a character in it.", "Type it again.") from None
    except re2.error as error:
        raise SearchError(
            source, f"is no regular expression of RE2: {_said(error)}.", "See RE2’s syntax."
        ) from None
    if compiled.programsize > LARGEST_PROGRAM:
        raise SearchError(source, "is too large.", "Use smaller counts in its braces.")

    def found(catalogue: Catalogue) -> Flags:
        # Arrow searches with the same engine, all texts in one call.
        texts = asked.texts(catalogue.models)
        matches = pc.match_substring_regex(texts, pattern, ignore_case=True)
        return np.asarray(matches, np.bool_)

    return found


def _said(error: re2.error) -> str:
    said = error.args[0] if error.args else b""
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)


_UNITS = {"k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
_NUMBER = r"([0-9]{1,6}(?:\.[0-9]{1,6})?)"
_COMPARED = re.compile(rf"(<=|>=|<|>)?{_NUMBER}([kmbt])")
_RANGE = re.compile(rf"{_NUMBER}([kmbt]?)[-–]{_NUMBER}([kmbt])")


def _sized(source: str, value: str) -> Finder:
    """`<7B`, `>=70M`, `1B-7B` with both ends, or `7B`: whatever rounds to it."""
    text = value.lower()
    if match := _RANGE.fullmatch(text):
        first, unit, last, last_unit = match.groups()
        low, high = _parameters(first, unit or last_unit), _parameters(last, last_unit)
        if low > high:
            raise SearchError(source, "ends before it begins.", "Write the smaller size first.")
        return lambda catalogue: _between(catalogue, low, high)
    if match := _COMPARED.fullmatch(text):
        sign, number, unit = match.groups()
        size = _parameters(number, unit)
        if sign:
            compare = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
            return lambda catalogue: compare[sign](catalogue.sizes, size)
        half = _parameters("1", unit) / 10 ** len(number.partition(".")[2]) / 2
        return lambda catalogue: _between(catalogue, size - half, size + half - 1)
    raise SearchError(source, "is no size.", "Write it as in @size:<7B, @size:>70M or @size:1B-7B.")


def _parameters(number: str, unit: str) -> float:
    return float(Decimal(number) * _UNITS[unit])


def _between(catalogue: Catalogue, low: float, high: float) -> Flags:
    sizes = catalogue.sizes
    return (sizes >= low) & (sizes <= high)
