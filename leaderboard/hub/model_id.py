"""Reading what people type or paste as a model ID: `owner/name`, `owner/name@rev` or an address."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from django.conf import settings
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

from leaderboard.hub.problem import Problem, Refused

DEFAULT_REVISION = "main"
MAX_LENGTH = 200
WEB_PORTS = (None, 80, 443)
HUB_HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co")
# The parts of an address that a revision follows: /owner/name/tree/main.
BEFORE_REVISION = ("tree", "blob", "resolve", "raw", "commit", "commits")
OTHER_REPOSITORIES = {"datasets": "data set", "spaces": "space"}
NO_REVISION = re.compile(r"[\s~^:?*\[\\\x00-\x1f\x7f]|\.\.|@\{|//|/\.|\.lock(/|$)|^[./-]|[./]$|^@$")
"""What no name of a branch or tag holds (git check-ref-format); all else the Hub is asked for."""


@dataclass(frozen=True)
class ModelReference:
    """A repository and a revision that somebody named; neither is known to exist."""

    repo_id: str
    revision: str = DEFAULT_REVISION


def read(typed_id: str, typed_revision: str = "") -> ModelReference:
    """What the two fields say together.

    Raises Refused with one problem: of field `model` for a malformed ID, of field `revision` for a
    malformed revision or one that contradicts the revision in the ID.
    """
    typed_id, typed_revision = typed_id.strip(), typed_revision.strip()
    if not typed_id:
        raise _malformed("empty", typed_id)
    if any(map(_is_unseen, typed_id)):
        raise _malformed("unseen", shown(typed_id[:MAX_LENGTH]))
    parts = _address_parts(typed_id)
    if parts is None:
        repo_id, _, revision = typed_id.strip("/").partition("@")
    else:
        repo_id, revision = _from_address(parts, typed_id)
    _check_id(repo_id, typed_id)
    if revision and typed_revision not in ("", DEFAULT_REVISION, revision):
        raise Refused(Problem("revision_twice", "revision", typed_revision, {"other": revision}))
    reference = ModelReference(repo_id, revision or typed_revision or DEFAULT_REVISION)
    _check_revision(reference.revision)
    return reference


def _malformed(reason: str, typed: str) -> Refused:
    return Refused(Problem(f"malformed_id.{reason}", "model", typed, {"limit": MAX_LENGTH}))


def _address_parts(typed: str) -> list[str] | None:
    """The path of an address of the Hub, with or without its host; None where it is a plain ID.

    Raises Refused where the address is one of another site, or cannot be read.
    """
    address = _split(typed if "://" in typed else f"https://{typed}")
    hosts = (*HUB_HOSTS, _host(urlsplit(settings.HF_ENDPOINT)))
    if address is not None and _host(address) in hosts:
        return _parts(address.path)
    if "://" in typed:
        raise _malformed("site", typed)
    parts = _parts(re.split("[?#]", typed)[0])
    of_other_kind = len(parts) > 2 and parts[0] in OTHER_REPOSITORIES
    with_revision = len(parts) > 3 and parts[2] in BEFORE_REVISION and "@" not in typed
    return parts if of_other_kind or with_revision else None


def _parts(path: str) -> list[str]:
    return [unquote(part) for part in path.split("/") if part]


def _split(address: str) -> SplitResult | None:
    """None where the host or the port cannot be read, as in http://[::1/x or http://a:b/."""
    try:
        split = urlsplit(address)
        _host(split)
    except ValueError:
        return None
    return split


def _host(address: SplitResult) -> str:
    """In small letters, and with its port unless that is the usual one."""
    host, port = address.hostname or "", address.port
    return host if port in WEB_PORTS else f"{host}:{port}"


def _from_address(parts: list[str], typed: str) -> tuple[str, str]:
    """Repository and revision (may be empty) of an address of the Hub."""
    if parts[:1] == ["api"]:
        parts = parts[1:]
    if parts and (kind := OTHER_REPOSITORIES.get(parts[0])):
        raise Refused(other_repository("/".join(parts[1:3]), kind))
    if parts[:1] == ["models"]:
        parts = parts[1:]
    if len(parts) < 2:
        raise _malformed("page", typed)
    if len(parts) < 4 or parts[2] not in BEFORE_REVISION:
        return "/".join(parts[:2]), ""
    # The name of a pull request has slashes of its own: refs/pr/1.
    return "/".join(parts[:2]), "/".join(parts[3:6] if parts[3] == "refs" else parts[3:4])


def other_repository(repo_id: str, kind: str) -> Problem:
    """The repository exists and is no model; `kind` is `data set` or `space`."""
    return Problem("not_a_model", "model", repo_id, {"kind": kind})


def shown(typed: str) -> str:
    """What was typed, with the code of each character that cannot be seen in its place."""
    return "".join(f"[U+{ord(sign):04X}]" if _is_unseen(sign) else sign for sign in typed)


def _is_unseen(sign: str) -> bool:
    return not sign.isprintable() and not sign.isspace()


def _check_id(repo_id: str, typed: str) -> None:
    if re.search(r"\s", repo_id):
        raise _malformed("spaces", typed)
    if repo_id.count("/") > 1:
        raise _malformed("slashes", typed)
    if len(repo_id) > MAX_LENGTH:
        raise _malformed("length", typed)
    try:
        validate_repo_id(repo_id)
    except HFValidationError:
        raise _malformed("characters", typed) from None


def is_full_id(value: object) -> bool:
    """Whether it is the ID of a model with its owner."""
    if not isinstance(value, str) or "/" not in value or len(value) > MAX_LENGTH:
        return False
    try:
        validate_repo_id(value)
    except HFValidationError:
        return False
    return True


def _check_revision(revision: str) -> None:
    unseen = any(map(_is_unseen, revision))
    if len(revision) > MAX_LENGTH or unseen or NO_REVISION.search(revision):
        raise Refused(Problem("malformed_revision", "revision", shown(revision[:MAX_LENGTH])))
