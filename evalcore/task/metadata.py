"""What our task files add under `metadata`, which lm-eval carries along and ignores."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from evalcore.errors import did_you_mean
from evalcore.task.fields import (
    COUNT,
    FLAG,
    MAPPING,
    NUMBER,
    SHARE,
    TEXT,
    TEXTS,
    Problems,
    choice_of,
    one_of,
    optional,
)

STYLES = (
    "cloze",
    "mmlu",
    "hybrid",
    "generate",
    "cot",  # generated after a chain of thought
    "likelihood",  # of the text itself: nothing is asked
    # the implementations of MMLU that the Open LLM Leaderboard's article of June 2023 compares
    "original",
    "helm",
    "helm-generate",
    "harness-2023",
    # one thing changed, to see how much hangs on it
    "cloze-bare",
    "mmlu-bare",
    "mmlu-rotated",
    "mmlu-digits",
)

UNVERSIONED = "Yaml"
"""What lm-eval prints as the version of a task that states none."""


class WrittenVersion(float):
    """A version such as 1.10, which YAML reads as the number 1.1: the number, and its text.

    Task code and lm-evaluation-harness's files see the number, as they do in that package.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def __reduce__(self) -> tuple[type[WrittenVersion], tuple[str]]:
        return WrittenVersion, (self.text,)


def version_text(version: object) -> str:
    """The version as its file writes it."""
    return version.text if isinstance(version, WrittenVersion) else str(version)


@dataclass(frozen=True, kw_only=True)
class TaskMetadata:
    """The part of a task's or group's metadata that the engine and the board understand."""

    version: str = UNVERSIONED
    benchmark: str
    """What is asked; all styles of a benchmark share the documents. Default: the task's name."""
    style: str | None = None
    """How it is asked, one of STYLES."""
    chance: float | None = None
    """Score of a random guesser."""
    choices: int | str | None = None
    """Number of choices, or the column with it, where chance differs by document."""
    primary_metric: str | None = None
    cluster: str | None = None
    """Column that groups questions which depend on one another."""
    subset: str | None = None
    """Column, or constant, for tables by part."""
    same_questions: bool = False
    """Of a group: its tasks ask the same questions row by row, as in several languages."""
    extra_metrics: tuple[str, ...] = ()
    answer_extraction: str | None = None
    publish_samples: str = "full"
    known_gaps: str | None = None
    changelog: dict[str, str] = field(default_factory=dict)


_KINDS = {
    "version": one_of(TEXT, NUMBER),
    "benchmark": TEXT,
    "style": choice_of(*STYLES),
    "chance": SHARE,
    "choices": one_of(COUNT, TEXT),
    "primary_metric": TEXT,
    "cluster": optional(TEXT),
    "subset": optional(TEXT),
    "same_questions": FLAG,
    "extra_metrics": TEXTS,
    "answer_extraction": optional(TEXT),
    "publish_samples": choice_of("full", "ids"),
    "known_gaps": optional(TEXT),
    "changelog": MAPPING,
}


def read_metadata(name: str, stated: object, problems: Problems) -> TaskMetadata:
    """The typed part of the stated metadata; problems are noted, not raised.

    Only metadata that names a benchmark is ours: in other people's files the same words may mean
    something else, so of those only the version is read.
    """
    metadata: dict[str, Any] = stated if isinstance(stated, dict) else {}
    version = version_text(metadata.get("version", UNVERSIONED))
    if "benchmark" not in metadata:
        return TaskMetadata(version=version, benchmark=name)
    problems.check(metadata, _KINDS, inside="metadata", others=True)
    for key in metadata.keys() - _KINDS.keys():
        if hint := did_you_mean(str(key), _KINDS):
            problems.add(f"metadata.{key}", f"unknown key{hint}")
    typed = {key: metadata[key] for key in _KINDS if key in metadata}
    typed = {key: value for key, value in typed.items() if _KINDS[key].accepts(value)}
    typed["version"] = version
    typed["extra_metrics"] = tuple(typed.get("extra_metrics", ()))
    typed["changelog"] = {str(key): str(text) for key, text in typed.get("changelog", {}).items()}
    return TaskMetadata(**typed)
