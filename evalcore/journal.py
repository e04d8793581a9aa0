"""Responses as they come, so that no answered request is ever scored twice.

One folder per journal, one segment file per process, one JSON line per final response. A pack of
responses is one append and one fsync. On reading, all segments are merged: a torn last line (the
process died while writing) is ignored, any other line that is no response is named and passed over
(its request is asked again), and of two answers to one request the first wins.
"""

from __future__ import annotations

import json
import logging
import os
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from evalcore.errors import InfraError
from evalcore.model.base import Response

log = logging.getLogger(__name__)


class Journal:
    """The answers of one model; a folder may hold the journals of many, each under its own key."""

    def __init__(self, folder: Path, model_key: str) -> None:
        """Raises InfraError when the folder cannot be written."""
        self._folder = folder / model_key
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._answers = self._read()
            segment = self._folder / f"{os.getpid()}-{uuid.uuid4().hex[:8]}.jsonl"
            self._segment = segment.open("ab", buffering=0)
        except OSError as problem:
            raise InfraError(f"the journal in {folder} cannot be used: {problem}") from problem

    def __contains__(self, key: str) -> bool:
        return key in self._answers

    def __getitem__(self, key: str) -> Response:
        return self._answers[key]

    def append(self, responses: Iterable[Response]) -> None:
        """Make responses durable: when this returns, a power cut cannot lose them.

        Raises InfraError when they cannot be written; none of them is then kept.
        """
        new = {response.key: response for response in responses if response.key not in self}
        if not new:
            return
        lines = (json.dumps(response.as_json()) + "\n" for response in new.values())
        self._write("".join(lines).encode())
        self._answers.update(new)

    def _write(self, lines: bytes) -> None:
        before = os.fstat(self._segment.fileno()).st_size
        try:
            while lines:  # the disk may take a part of them
                lines = lines[self._segment.write(lines) :]
            os.fsync(self._segment.fileno())
        except OSError as problem:
            with suppress(OSError):  # half a line would spoil what follows it
                self._segment.truncate(before)
            raise InfraError(
                f"the journal in {self._folder} cannot be written: {problem}. What it has is kept: "
                "make room, and run the same command again"
            ) from problem

    def close(self) -> None:
        self._segment.close()

    def _read(self) -> dict[str, Response]:
        answers: dict[str, Response] = {}
        for segment in sorted(self._folder.glob("*.jsonl")):
            for number, line in enumerate(segment.read_bytes().split(b"\n")[:-1], start=1):
                try:
                    response = _response(line)
                except (ValueError, KeyError, TypeError) as problem:
                    log.warning(
                        "the journal segment %s has a line %d that is no response (%s): what it "
                        "answered is computed again, all other lines count",
                        segment,
                        number,
                        problem,
                    )
                    continue
                answers.setdefault(response.key, response)
        return answers


def _response(line: bytes) -> Response:
    """Raises ValueError, KeyError or TypeError where the line is no response."""
    fields: dict[str, Any] = {"images": (), "sounds": (), **json.loads(line)}
    for name in ("token_ids", "token_logprobs", "images", "sounds"):
        fields[name] = tuple(fields[name])
    response = Response(**fields)
    if not isinstance(response.key, str):
        raise TypeError(f"its key is {response.key!r}")
    return response
