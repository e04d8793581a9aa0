"""Where transformers does not build a tokenizer as its files alone say.

It has rules by repository ID and by class: a class may bring its own way of splitting words and
ignore the one of `tokenizer.json`, and for some IDs such a class is not taken. Scores depend on it,
so a record says it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from fnmatch import fnmatch
from typing import Any

from evalcore.digest import digest_of
from evalcore.model.hf.description import errors_named, load_tokenizer
from evalcore.model.hf.snapshot import Arguments, Snapshot

SAMPLE = """The following are multiple choice questions (with answers) about everything.

Question: Don't we've 12,345.67 and 3/4 cups?  Isn't it WHERE it's at — "ALL  CAPS" or camelCase?
A. x_1 = (a+b)**2 != 0; // done...
\tdef f(self, *args):\n        return {"key": [1, 22, 333, 4444]}\r\n
Übergröße naïve Ελλάδα Привет мир العربية हिन्दी 你好，世界。日本語 한국어 e\u0301 ﬁ ½ 😀👍🏽
"""
"""Text of many kinds, on which two ways of splitting words differ."""

OF_THE_VOCABULARY = ("vocab", "merges")
OF_A_CALL = ("truncation", "padding", "added_tokens", "version")


def load_with_notes(arguments: Arguments, snapshot: Snapshot) -> tuple[Any, tuple[str, ...]]:
    """The tokenizer, and what is to be said of it; raises as `load_tokenizer`."""
    tokenizer = load_tokenizer(arguments, snapshot)
    return tokenizer, _notes_on(arguments, snapshot, tokenizer)


def _notes_on(arguments: Arguments, snapshot: Snapshot, tokenizer: Any) -> tuple[str, ...]:
    """A sentence on each rule that changes the tokens of a sample text."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or snapshot.file:
        return ()
    with errors_named(snapshot):
        tokens = _tokens(tokenizer)
        under_another_name = _of_folder(arguments, snapshot)
        of_file = _of_file(snapshot, backend)
    kind = type(tokenizer).__name__
    read = f"a text of {len(SAMPLE)} characters is read as {len(tokens)} tokens"
    notes = []
    if under_another_name not in (None, tokens):
        notes.append(
            f"transformers has a rule for the ID {snapshot.name} (its tokenizer is a {kind}): "
            f"{read}, and as {len(under_another_name)} from the same files under another name"
        )
    if of_file not in (None, tokens):
        notes.append(
            f"transformers builds the tokenizer of {snapshot.name} as a {kind} and not as its "
            f"tokenizer.json says: {read}, and as {len(of_file)} by that file alone"
        )
    return tuple(notes)


def _tokens(tokenizer: Any) -> list[int]:
    return list(tokenizer(SAMPLE, add_special_tokens=False, verbose=False)["input_ids"])


def _of_folder(arguments: Arguments, snapshot: Snapshot) -> list[int] | None:
    """What the sample is read as from a folder; None where transformers has no rule for the ID."""
    from transformers.models.auto import tokenization_auto

    rules = getattr(tokenization_auto, "MODEL_IDS_TO_TOKENIZERS_BACKEND", ())
    if snapshot.commit is None or not any(fnmatch(snapshot.name.lower(), rule) for rule in rules):
        return None
    return _tokens(load_tokenizer(arguments, replace(snapshot, commit=None)))


def _of_file(snapshot: Snapshot, backend: Any) -> list[int] | None:
    """What the sample is read as by tokenizer.json alone; None where there is none, or where it
    says the same as the tokenizer."""
    from tokenizers import Tokenizer

    file = snapshot.folder / "tokenizer.json"
    if not file.is_file():
        return None
    stated = file.read_text(encoding="utf-8")
    if _rules(stated) == _rules(backend.to_str()):
        return None
    alone = Tokenizer.from_str(stated)
    alone.no_truncation()
    alone.no_padding()
    return list(alone.encode(SAMPLE, add_special_tokens=False).ids)


def _rules(definition: str) -> str:
    """All of a tokenizer's definition but its vocabulary, and what a call may change."""
    whole = json.loads(definition)
    model = whole.pop("model", None) or {}
    own = {key: value for key, value in model.items() if key not in OF_THE_VOCABULARY}
    kept = {key: value for key, value in whole.items() if key not in OF_A_CALL}
    return digest_of({**kept, "model": own})
