"""Over which model an adapter was trained, as its configuration says: held against what it is
evaluated over.

Names cannot decide: models are renamed, and lie in folders of any name. What the adapter's weights
fit decides (`adapter.py`); a name that differs is a remark in the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from evalcore.model.hf.repository import ADAPTER_CONFIGURATION, read_object
from evalcore.model.hf.snapshot import Arguments, Files

LONGEST = 200


def stated_base(config: Mapping[str, Any]) -> str:
    """The model, and with @ its revision where there is one; empty where nothing is said."""
    name, revision = config.get("base_model_name_or_path"), config.get("revision")
    if not isinstance(name, str) or not name:
        return ""
    stated = f"{name}@{revision}" if isinstance(revision, str) and revision else name
    # The words of a stranger, which go into records.
    return "".join(letter for letter in stated if letter.isprintable())[:LONGEST]


def other_base(arguments: Arguments, files: Files) -> str | None:
    """What the adapter says that it was trained on, where that is another name or revision than
    what it is evaluated over; None where they agree, or nothing is said.

    Of a path the last part is the name: trainers keep models in folders that nobody else has.
    """
    if files.adapter is None:
        return None
    stated = stated_base(read_object(files.adapter.folder / ADAPTER_CONFIGURATION))
    name, _, revision = stated.partition("@")
    if not name:
        return None
    if _last_part(name) != _last_part(arguments.pretrained):
        return stated
    own = files.model.commit, arguments.revision
    return stated if revision and files.model.commit and revision not in own else None


def _last_part(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).name.casefold()
