"""How a version of a suite is cited: as BibTeX, and as schema.org's Dataset for search engines.

What is cited is the version as its newest snapshot shows it: the address never changes what it
means, and date and digest say which numbers were read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leaderboard.models import BoardSnapshot, Suite, SuiteEntry


@dataclass(frozen=True)
class Licence:
    name: str
    url: str


LICENCE = Licence("CC BY 4.0", "https://creativecommons.org/licenses/by/4.0/")
"""Of the numbers; questions and answers stay under the terms of their data sets and models."""

_TEX = {sign: f"\\{sign}" for sign in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


@dataclass(frozen=True)
class Citation:
    """A version of a suite, as others name it."""

    suite: Suite
    snapshot: BoardSnapshot | None
    """The newest, of the suite's own styles; None where nothing was measured yet."""
    url: str
    """The version's own address on this site."""
    author: str

    @property
    def key(self) -> str:
        """The same for ever: no date in it."""
        return f"plumbline-{self.suite.name}-{self.suite.version}"

    @property
    def title(self) -> str:
        return f"{self.suite.title} {self.suite.version}: language models measured with intervals"

    @property
    def note(self) -> str:
        if self.snapshot is None or not self.snapshot.models_n:
            return f"Suite {self.suite.name} {self.suite.version}, no model measured yet"
        models = self.snapshot.models_n
        return (
            f"Suite {self.suite.name} {self.suite.version}, {models} "
            f"{'model' if models == 1 else 'models'}, data of {self.snapshot.built:%Y-%m-%d}, "
            f"digest {self.snapshot.data_version[:12]}"
        )

    @property
    def year(self) -> int:
        return (self.snapshot.built if self.snapshot else self.suite.created).year

    @property
    def bibtex(self) -> str:
        return bibtex(
            self.key,
            {
                "title": self.title,
                "author": self.author,
                "year": str(self.year),
                "url": self.url,
                "note": self.note,
            },
        )

    def dataset(self, entries: list[SuiteEntry], downloads: dict[str, str]) -> dict[str, Any]:
        """schema.org's Dataset; `downloads` are addresses by media type."""
        suite = self.suite
        described = {
            "@context": "https://schema.org/",
            "@type": "Dataset",
            "name": self.title,
            "description": suite.description,
            "url": self.url,
            "identifier": self.key,
            "version": suite.version,
            "license": LICENCE.url,
            "isAccessibleForFree": True,
            "creator": {"@type": "Organization", "name": self.author},
            "keywords": ["language models", "evaluation", *dict.fromkeys(e.title for e in entries)],
            "measurementTechnique": "evalcore, strict mode",
            "variableMeasured": [
                {
                    "@type": "PropertyValue",
                    "name": f"{entry.title}, {entry.get_style_display()}",
                    "description": f"{entry.metric} of {entry.task}, {entry.shots} examples",
                }
                for entry in entries
            ],
            "distribution": [
                {"@type": "DataDownload", "encodingFormat": media, "contentUrl": url}
                for media, url in downloads.items()
            ],
        }
        if self.snapshot is not None:
            described["dateModified"] = f"{self.snapshot.built:%Y-%m-%dT%H:%M:%SZ}"
        return described


def bibtex(key: str, fields: Mapping[str, str]) -> str:
    """An entry of plain texts; title and author keep their capitals."""
    lines = [f"  {name} = {{{_field(name, text)}}}," for name, text in fields.items()]
    return "\n".join([f"@misc{{{key},", *lines, "}"]) + "\n"


def _field(name: str, text: str) -> str:
    if name == "url":
        return text
    return f"{{{_tex(text)}}}" if name in ("title", "author") else _tex(text)


def _tex(text: str) -> str:
    return re.sub(r"[&%$#_{}\\~^]", lambda sign: _TEX[sign[0]], text)
