"""The files behind a run, addressed by the run and checked by digest.

Record and samples are sent as they are stored, whole or by a range; the forms of other tools are
made while they are sent, by evalcore's writers, the same that `evalcore convert` uses. One entry of
DIALECTS is one form: its link on the run's page, its address and its file follow. The bytes of a
recalled run stay what their digest says: its files bear the mark in their names and in a header,
those made here also within.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote
from uuid import UUID

from django.http import (
    FileResponse,
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    StreamingHttpResponse,
)
from django.shortcuts import get_object_or_404
from django.utils.cache import get_conditional_response
from django.views.decorators.http import require_safe

from evalcore.formats.every_eval_ever import aggregate, instances
from evalcore.formats.lmeval.results import results_json
from evalcore.formats.lmeval.samples import HASHED, sample_lines, task_hashes
from evalcore.record import RunRecord, read_samples
from leaderboard.models import Artifact, Run
from leaderboard.samples import store as artifacts
from leaderboard.web import kept, throttle

MOST_DIGITS = 18
"""More make a number beyond any file; thousands of them are no number to Python at all."""
# The content of a stored file never changes, but whether its run is recalled does.
CACHE = "public, no-cache"


@require_safe
def record(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    return _file(request, _artifact(pk, Artifact.Kind.RECORD), "record.json", "application/json")


@require_safe
def parquet(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    samples = _artifact(pk, Artifact.Kind.SAMPLES)
    return _file(request, samples, "samples.parquet", "application/vnd.apache.parquet")


@require_safe
def made(request: HttpRequest, pk: UUID, file: str) -> HttpResponseBase:
    """The run in the form of another tool, line by line where the form has lines."""
    dialect = next((dialect for dialect in DIALECTS if dialect.file == file), None)
    if dialect is None:
        raise Http404(f"a run has no file {file}")
    stored = _artifact(pk, Artifact.Kind.RECORD)
    # The record names its samples' digest, so its own stands for both. Our writers change with a
    # release, and the file names this site by the host that was asked.
    etag = kept.tag(request, [stored.sha256, file, *_mark(stored.run).values()])
    if unchanged := get_conditional_response(request, etag):
        return unchanged
    throttle.count_download(request)
    record = RunRecord.read(_existing(stored))
    source = Source(
        record=record,
        samples=_existing(_artifact(pk, Artifact.Kind.SAMPLES)),
        finished=stored.run.finished or stored.created,
        site=request.get_host(),
        recalled=_told(stored.run),
    )
    response = StreamingHttpResponse(
        dialect.pieces(source), content_type=CONTENT_TYPES[dialect.format]
    )
    name = dialect.name(record) if dialect.name else _name(stored.run, file)
    return _named(response, stored.run, name, etag)


def _artifact(pk: UUID, kind: Artifact.Kind) -> Artifact:
    related = Artifact.objects.select_related("run__variant__hub_model", "run__task", "run__recall")
    return get_object_or_404(related, run_id=pk, kind=kind)


def _existing(artifact: Artifact) -> Path:
    path = artifacts.path_of(artifact.sha256)
    if not path.is_file():
        raise Http404(f"artifact {artifact.sha256} is not in the store")
    return path


def _file(
    request: HttpRequest, artifact: Artifact, name: str, content_type: str
) -> HttpResponseBase:
    """The stored bytes, whole or the one range asked for."""
    etag = f'"{artifact.sha256}{"-recalled" if artifact.run.recall else ""}"'
    if unchanged := get_conditional_response(request, etag):
        return unchanged
    if not artifacts.holds(artifact.sha256):
        raise Http404(f"artifact {artifact.sha256} is not in the store")
    start, end, status = 0, artifact.bytes, 200
    if wanted := request.headers.get("Range"):
        span = _span(wanted, artifact.bytes)
        if span == (0, 0):
            headers = {"Content-Range": f"bytes */{artifact.bytes}"}
            return HttpResponse(status=416, headers=headers)
        if span is not None and request.headers.get("If-Range", etag) == etag:
            (start, end), status = span, 206
    response: StreamingHttpResponse
    if (pieces := artifacts.part(artifact.sha256, start, end)) is not None:
        response = StreamingHttpResponse(pieces, status=status, content_type=content_type)
        response["Content-Length"] = end - start
    else:
        # A file, and no generator: a server that knows files sends it without holding a thread.
        part = Part(artifact.sha256, start, end)
        response = FileResponse(part, status=status, content_type=content_type)
    response["Accept-Ranges"] = "bytes"
    if status == 206:
        response["Content-Range"] = f"bytes {start}-{end - 1}/{artifact.bytes}"
    return _named(response, artifact.run, _name(artifact.run, name), etag)


def _name(run: Run, file: str) -> str:
    """What the file is called where it is saved."""
    model = re.sub(r"[^A-Za-z0-9._-]+", "__", run.variant.hub_model.repo_id)
    task = re.sub(r"[^A-Za-z0-9._-]+", "_", run.task.name)
    return f"{model}_{task}_{file}"


def _told(run: Run) -> str:
    """That it is recalled, and why; empty for one that is not."""
    return f"recall {run.recall_id}: {run.recall.reason}" if run.recall else ""


def _mark(run: Run) -> dict[str, str]:
    """The header of a recalled run's files, percent-encoded where a header needs it."""
    told = _told(run)
    return {"X-Plumbline-Recalled": quote(told, safe=" :,;.()'/-")} if told else {}


def _named(
    response: StreamingHttpResponse, run: Run, name: str, etag: str
) -> StreamingHttpResponse:
    if run.recall:
        name = f"RECALLED_{name}"
    for header, value in _mark(run).items():
        response[header] = value
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["ETag"] = etag
    response["Cache-Control"] = CACHE
    response["X-Robots-Tag"] = "noindex"
    return response


def _span(header: str, size: int) -> tuple[int, int] | None:
    """First byte and end of the one range asked for.

    None for what is no single range of bytes (then the whole file is sent, as RFC 9110 allows);
    (0, 0) for a range that the file does not have.
    """
    match = re.fullmatch(r"bytes=([0-9]*)-([0-9]*)", header.strip())
    if match is None or match.group(0) == "bytes=-":
        return None
    first, last = match.groups()
    if not first:
        length = _at_most(size, last)
        return (size - length, size) if length else (0, 0)
    start, end = _at_most(size, first), min(_at_most(size, last) + 1, size) if last else size
    return (start, end) if start < end else (0, 0)


def _at_most(size: int, digits: str) -> int:
    return size if len(digits) > MOST_DIGITS else min(int(digits), size)


class Part(io.RawIOBase):
    """The bytes of an artifact from `start` to before `end`, as a file of their own.

    Opened when it is first read: an answer to HEAD never is, and so is not closed either.
    """

    def __init__(self, sha256: str, start: int, end: int) -> None:
        super().__init__()
        self._sha256, self._start, self._size = sha256, start, end - start
        self._at = 0
        self._file: BinaryIO | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        self._file = self._file or artifacts.open(self._sha256)
        wanted = min(len(buffer), max(0, self._size - self._at))
        self._file.seek(self._start + self._at)
        piece = self._file.read(wanted)
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()


CONTENT_TYPES = {"JSON": "application/json", "JSONL": "application/x-ndjson"}
RECALLED = "recalled"
"""The key under which a form says that its numbers are wrong, and why."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """What a form is made of."""

    record: RunRecord
    samples: Path
    finished: datetime
    site: str
    """The host name of this site, which ran it."""
    recalled: str = ""
    """Why its numbers are wrong, where they are; the forms say so."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """One form; `pieces` are its text, made as they are sent."""

    file: str
    """The last part of its address, and of the file's name where `name` gives no other."""
    title: str
    holds: str
    format: str
    """One of CONTENT_TYPES."""
    pieces: Callable[[Source], Iterator[str]]
    name: Callable[[RunRecord], str] | None = None


def lm_eval_samples(source: Source) -> Iterator[str]:
    """lm-evaluation-harness's samples, one line for each question and filter."""
    lines = sample_lines(read_samples(source.samples))
    if not source.recalled:
        return lines
    return (_as_line({**json.loads(line), RECALLED: source.recalled}) for line in lines)


def lm_eval_results(source: Source) -> Iterator[str]:
    """lm-evaluation-harness's results file, with the hash that it has of each task's samples."""
    hashes = task_hashes(read_samples(source.samples, HASHED))
    results = results_json([source.record], {}, hashes)
    yield _as_file({**results, **({RECALLED: source.recalled} if source.recalled else {})})


def every_eval_ever_aggregate(source: Source) -> Iterator[str]:
    _, lines = aggregate.places_of(source.record)
    pointer = {"format": "jsonl", "file_path": lines.as_posix()}
    yield _as_file({**_aggregate(source), "detailed_evaluation_results": pointer})


def every_eval_ever_samples(source: Source) -> Iterator[str]:
    """One line for each question and score."""
    lines = instances.instances_of(
        source.record, read_samples(source.samples), _aggregate(source)["evaluation_id"]
    )
    if source.recalled:
        told = {RECALLED: source.recalled}
        lines = ({**line, "metadata": {**line["metadata"], **told}} for line in lines)
    return (_as_line(line) for line in lines)


def _aggregate(source: Source) -> dict[str, Any]:
    found = aggregate.aggregate_of(source.record, organization=source.site, now=source.finished)
    if source.recalled:
        found["eval_library"]["additional_details"][RECALLED] = source.recalled
    return found


def _as_line(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False) + "\n"


def _as_file(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


DIALECTS = (
    Dialect(
        file="results.json",
        title="lm-evaluation-harness, results",
        holds="All numbers as its results file has them, with its configuration and hashes",
        format="JSON",
        pieces=lm_eval_results,
    ),
    Dialect(
        file="samples.jsonl",
        title="lm-evaluation-harness, samples",
        holds="One line a question and filter: document, requests, responses, scores",
        format="JSONL",
        pieces=lm_eval_samples,
    ),
    Dialect(
        file="every_eval_ever.json",
        title="Every Eval Ever, aggregate",
        holds="All numbers with their uncertainty, by version 0.3.0 of its schema",
        format="JSON",
        pieces=every_eval_ever_aggregate,
        name=lambda record: aggregate.places_of(record)[0].name,
    ),
    Dialect(
        file="every_eval_ever_samples.jsonl",
        title="Every Eval Ever, instances",
        holds="One line a question and score, with our whole sample in it",
        format="JSONL",
        pieces=every_eval_ever_samples,
        name=lambda record: aggregate.places_of(record)[1].name,
    ),
)
