"""Responses as they come, so that no answered request is ever scored twice.

One folder per journal, one segment file per process, one JSON line per final response. A pack of
responses is one append and one fsync. On reading, all segments are merged: a torn last line (the
process died while writing) is ignored, and of two answers to one request the first wins.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evalcore.errors import InfraError
from evalcore.model.base import Response


class Journal:
    """The answers of one model; a folder may hold the journals of many, each under its own key."""

    def __init__(self, folder: Path, model_key: str) -> None:
        """Raises InfraError when the folder cannot be written."""
        self._folder = folder / model_key
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._answers = self._read()
            segment = self._folder / f"{os.getpid()}-{uuid.uuid4().hex[:8]}.jsonl"
            self._segment = segment.open("a", encoding="utf-8")
        except OSError as problem:
            raise InfraError(f"the journal in {folder} cannot be used: {problem}") from problem

    def __contains__(self, key: str) -> bool:
        return key in self._answers

    def __getitem__(self, key: str) -> Response:
        return self._answers[key]

    def append(self, responses: Iterable[Response]) -> None:
        """Make responses durable: when this returns, a power cut cannot lose them."""
        new = {response.key: response for response in responses if response.key not in self}
        if not new:
            return
        lines = (json.dumps(asdict(response)) + "\n" for response in new.values())
        self._segment.write("".join(lines))
        self._segment.flush()
        os.fsync(self._segment.fileno())
        self._answers.update(new)

    def close(self) -> None:
        self._segment.close()

    def _read(self) -> dict[str, Response]:
        answers: dict[str, Response] = {}
        for segment in sorted(self._folder.glob("*.jsonl")):
            for line in segment.read_text(encoding="utf-8").splitlines(keepends=True):
                if line.endswith("\n"):
                    response = _response(line, segment)
                    answers.setdefault(response.key, response)
        return answers


def _response(line: str, segment: Path) -> Response:
    try:
        fields: dict[str, Any] = json.loads(line)
        for name in ("token_ids", "token_logprobs"):
            fields[name] = tuple(fields[name])
        return Response(**fields)
    except (ValueError, KeyError, TypeError) as problem:
        raise InfraError(
            f"the journal segment {segment} has a line that is no response ({problem}): "
            "move the file away; only its answers are computed again"
        ) from problem
