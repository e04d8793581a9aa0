"""Reading what people type or paste as a model ID: `owner/name`, `owner/name@rev` or an address."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from django.conf import settings
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

from leaderboard.web import Problem, Refused

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
class Asked:
    """The repository and revision that somebody asked for; neither is known to exist."""

    repo_id: str
    revision: str


def read(typed_id: str, typed_revision: str = "") -> Asked:
    """What the two fields say together.

    Raises Refused with one problem: of field `model` for a malformed ID, of field `revision` for a
    malformed revision or one that contradicts the revision in the ID.
    """
    typed_id, typed_revision = typed_id.strip(), typed_revision.strip()
    if not typed_id:
        raise Refused(_malformed("No model ID was given."))
    if any(map(_is_unseen, typed_id)):
        message = f"“{shown(typed_id[:MAX_LENGTH])}” contains a character that cannot be seen."
        raise Refused(_malformed(message))
    parts = _address_parts(typed_id)
    if parts is None:
        repo_id, _, revision = typed_id.strip("/").partition("@")
    else:
        repo_id, revision = _from_address(parts, typed_id)
    _check_id(repo_id, typed_id)
    if revision and typed_revision not in ("", DEFAULT_REVISION, revision):
        raise Refused(
            Problem(
                "revision",
                "revision_twice",
                f"The model ID names revision “{revision}”, this field “{typed_revision}”.",
                "Take one of them out.",
            )
        )
    asked = Asked(repo_id, revision or typed_revision or DEFAULT_REVISION)
    _check_revision(asked.revision)
    return asked


def _malformed(message: str) -> Problem:
    return Problem(
        "model",
        "malformed_id",
        message,
        "Give it as in the address of its page on the Hub: owner/name.",
    )


def _address_parts(typed: str) -> list[str] | None:
    """The path of an address of the Hub, with or without its host; None where it is a plain ID.

    Raises Refused where the address is one of another site, or cannot be read.
    """
    address = _split(typed if "://" in typed else f"https://{typed}")
    hosts = (*HUB_HOSTS, _host(urlsplit(settings.HF_ENDPOINT)))
    if address is not None and _host(address) in hosts:
        return _parts(address.path)
    if "://" in typed:
        raise Refused(_malformed(f"“{typed}” is not an address of the Hugging Face Hub."))
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
        raise Refused(_malformed(f"“{typed}” is not the address of a model."))
    if len(parts) < 4 or parts[2] not in BEFORE_REVISION:
        return "/".join(parts[:2]), ""
    # The name of a pull request has slashes of its own: refs/pr/1.
    return "/".join(parts[:2]), "/".join(parts[3:6] if parts[3] == "refs" else parts[3:4])


def other_repository(repo_id: str, kind: str) -> Problem:
    """The repository exists and is no model; `kind` is `data set` or `space`."""
    return Problem(
        "model",
        "not_a_model",
        f"{repo_id} is a {kind}, not a model.",
        "Give the ID of a repository with model weights.",
    )


def shown(typed: str) -> str:
    """What was typed, with the code of each character that cannot be seen in its place."""
    return "".join(f"[U+{ord(sign):04X}]" if _is_unseen(sign) else sign for sign in typed)


def _is_unseen(sign: str) -> bool:
    return not sign.isprintable() and not sign.isspace()


def _check_id(repo_id: str, typed: str) -> None:
    if re.search(r"\s", repo_id):
        raise Refused(_malformed(f"“{typed}” contains a space, which no model ID does."))
    if repo_id.count("/") > 1:
        raise Refused(_malformed(f"“{typed}” has more than one slash."))
    if len(repo_id) > MAX_LENGTH:
        raise Refused(_malformed(f"The model ID is longer than {MAX_LENGTH} characters."))
    try:
        validate_repo_id(repo_id)
    except HFValidationError:
        raise Refused(
            _malformed(
                f"“{typed}” is not a model ID: each part has letters, digits, “-”, “_”, “.”, "
                "no “--” or “..”, begins and ends with a letter, digit or “_”, "
                "and is at most 96 characters long."
            )
        ) from None


def _check_revision(revision: str) -> None:
    unseen, named = any(map(_is_unseen, revision)), shown(revision[:MAX_LENGTH])
    if len(revision) > MAX_LENGTH or unseen or NO_REVISION.search(revision):
        raise Refused(
            Problem(
                "revision",
                "malformed_revision",
                f"“{named}” is not the name of a branch or tag, nor a commit.",
                "Leave the field empty for the main branch.",
            )
        )
