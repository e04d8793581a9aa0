"""Folders as repositories: files, their digests, and a commit that depends on content alone.

A repository is the folder `<root>/models/<org>/<name>` or `<root>/datasets/<org>/<name>`; its
files are the revision `main`. `.revisions/<name>/` holds another tree, served as the tag `<name>`.
`.hub.yaml` says how the repository is kept: `gated: auto|manual`, `private: true`,
`disabled: true`, `renamed_to: org/name`. It may also make the Hub say what is not so: `sizes` of
files, and `info` that stands in the answer about the repository in place of what is true. Neither
is ever served, and links inside a repository are not followed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import yaml

from demo.hub.errors import repository_not_found, revision_not_found

Kind = Literal["models", "datasets"]
KINDS: tuple[Kind, ...] = ("models", "datasets")
MAIN = "main"
MARKER = ".hub.yaml"
REVISIONS = ".revisions"
NOT_SERVED = frozenset({MARKER, REVISIONS, ".git"})
# What the real Hub keeps in git-LFS by default, as far as models and data sets use it.
# fmt: off
LFS_SUFFIXES = frozenset({
    ".arrow", ".bin", ".ckpt", ".gguf", ".gz", ".h5", ".model", ".msgpack", ".npy", ".npz", ".onnx",
    ".parquet", ".pickle", ".pkl", ".pt", ".pth", ".safetensors", ".tar", ".zip", ".zst",
})
# fmt: on
LFS_SIZE = 10 * 1024 * 1024
_ID_PART = re.compile(r"\w[\w.-]*", re.ASCII)


@dataclass(frozen=True)
class Blob:
    """One file of a revision. `oid` is what git would store: for LFS the pointer's digest."""

    path: str
    file: Path
    size: int
    oid: str
    sha256: str
    pointer_size: int | None

    @property
    def etag(self) -> str:
        return self.oid if self.pointer_size is None else self.sha256


@dataclass(frozen=True)
class Revision:
    """A tree of files at a commit: `blobs` by path, in path order."""

    name: str
    commit: str
    blobs: Mapping[str, Blob]

    def folders(self) -> dict[str, str]:
        """Every folder's path with a digest of what lies below it."""
        below: dict[str, list[Blob]] = {}
        for blob in self.blobs.values():
            for parent in PurePosixPath(blob.path).parents[:-1]:
                below.setdefault(str(parent), []).append(blob)
        return {path: _digest_of_tree(blobs) for path, blobs in sorted(below.items())}


@dataclass(frozen=True)
class Marker:
    """How a repository is kept; the default is open to everybody."""

    gated: Literal["auto", "manual"] | None = None
    private: bool = False
    disabled: bool = False
    renamed_to: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Bytes that the Hub says a file has, whatever is served."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the info object that stand in place of the true ones."""


@dataclass(frozen=True)
class Repository:
    kind: Kind
    id: str
    folder: Path
    marker: Marker

    def main(self) -> Revision:
        return read_revision(MAIN, self.folder, self.marker.sizes)

    def tags(self) -> list[Revision]:
        folder = self.folder / REVISIONS
        names = sorted(entry.name for entry in os.scandir(folder)) if folder.is_dir() else []
        return [read_revision(name, folder / name) for name in names]

    def revision(self, wanted: str) -> Revision:
        """The revision with this name or commit. HubError RevisionNotFound if there is none."""
        main = self.main()
        if wanted in (MAIN, "refs/heads/main", main.commit):
            return main
        for tag in self.tags():
            if wanted in (tag.name, f"refs/tags/{tag.name}", tag.commit):
                return tag
        raise revision_not_found(wanted)


@dataclass(frozen=True)
class Library:
    """The repositories of several root folders; where two have the same one, the first wins."""

    roots: Sequence[Path]

    def find(self, kind: str, repository_id: str) -> Repository:
        """The repository as it is on disk now. HubError RepoNotFound if there is none."""
        parts = repository_id.split("/")
        # Nothing that is not a plain name ever becomes part of a path.
        if kind in KINDS and len(parts) == 2 and all(map(_ID_PART.fullmatch, parts)):
            for root in self.roots:
                folder = root.joinpath(kind, *parts)
                if folder.is_dir():
                    return Repository(kind, repository_id, folder, read_marker(folder))
        raise repository_not_found()

    def all(self, kind: Kind) -> list[Repository]:
        ids = {
            f"{folder.parent.name}/{folder.name}"
            for root in self.roots
            for folder in root.glob(f"{kind}/*/*")
            if folder.is_dir()
            and _ID_PART.fullmatch(folder.parent.name)
            and _ID_PART.fullmatch(folder.name)
        }
        return [self.find(kind, repository_id) for repository_id in sorted(ids)]


def read_marker(folder: Path) -> Marker:
    """The folder's marker file. ValueError names the file, the key and what it may be."""
    file = folder / MARKER
    if not file.is_file():
        return Marker()
    content = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    if not isinstance(content, dict):
        raise ValueError(f"{file}: expected keys and values, got {content!r}")
    accepted = {
        "gated": lambda value: value in ("auto", "manual"),
        "private": lambda value: isinstance(value, bool),
        "disabled": lambda value: isinstance(value, bool),
        "renamed_to": lambda value: isinstance(value, str) and value.count("/") == 1,
        "sizes": lambda value: (
            isinstance(value, dict) and all(isinstance(size, int) for size in value.values())
        ),
        "info": lambda value: isinstance(value, dict),
    }
    for key, value in content.items():
        if key not in accepted or not accepted[key](value):
            raise ValueError(
                f"{file}: {key}: {value!r} is not understood; use gated: auto|manual,"
                " private: true, disabled: true, renamed_to: org/name, sizes: {file: bytes}"
                " or info: {field: value}"
            )
    return Marker(**content)


def read_revision(name: str, folder: Path, sizes: Mapping[str, int] | None = None) -> Revision:
    """The tree below a folder. Digests are kept per file, size and time of change.

    `sizes` stand in place of the true ones.
    """
    blobs = {}
    for path, stat in sorted(_walk(folder, "")):
        file = folder / path
        oid, sha256, pointer_size = _digests(file, stat.st_size, stat.st_mtime_ns)
        size = (sizes or {}).get(path, stat.st_size)
        blobs[path] = Blob(path, file, size, oid, sha256, pointer_size)
    return Revision(name, _digest_of_tree(list(blobs.values())), blobs)


def _walk(folder: Path, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    for entry in os.scandir(folder):
        if entry.name in NOT_SERVED:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(folder / entry.name, f"{prefix}{entry.name}/")
        elif entry.is_file(follow_symlinks=False):
            yield prefix + entry.name, entry.stat(follow_symlinks=False)


# The time of change is part of the key, so an edited file is read again while the Hub runs.
@lru_cache(maxsize=100_000)
def _digests(file: Path, size: int, _mtime_ns: int) -> tuple[str, str, int | None]:
    """(git object id, sha256, size of the LFS pointer or None) of a file."""
    git = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    sha256 = hashlib.sha256()
    with file.open("rb") as content:
        while chunk := content.read(1 << 20):
            git.update(chunk)
            sha256.update(chunk)
    if size <= LFS_SIZE and file.suffix not in LFS_SUFFIXES:
        return git.hexdigest(), sha256.hexdigest(), None
    pointer = (
        "version https://git-lfs.github.com/spec/v1\n"
        f"oid sha256:{sha256.hexdigest()}\nsize {size}\n"
    ).encode()
    git = hashlib.sha1(b"blob %d\0" % len(pointer) + pointer, usedforsecurity=False)
    return git.hexdigest(), sha256.hexdigest(), len(pointer)


def _digest_of_tree(blobs: Sequence[Blob]) -> str:
    lines = "".join(f"{blob.oid} {blob.path}\n" for blob in blobs)
    return hashlib.sha1(lines.encode(), usedforsecurity=False).hexdigest()
