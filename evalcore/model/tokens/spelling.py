"""Single tokens as text, for those who read how likely each token of an answer was.

One after the other the texts of an answer's tokens are the answer, white space included. A token
that is no whole character is written by its bytes, such as `<0xE2>`.
"""

from __future__ import annotations

from typing import Any

_SPACE = "\u2581"
"""How tokenizers of the SentencePiece family write a space."""
_UNREADABLE = "\ufffd"


class Spelling:
    """The texts of one tokenizer's tokens; each is looked up once."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._known: dict[int, str | None] = {}

    def of(self, token: int) -> str | None:
        """None for a number that the tokenizer has no token for."""
        if token not in self._known:
            self._known[token] = self._read(token)
        return self._known[token]

    def _read(self, token: int) -> str | None:
        piece = self._tokenizer.convert_ids_to_tokens(token)
        if isinstance(piece, bytes):
            return _readable(piece)
        if piece is None or token in self._tokenizer.all_special_ids:
            return None if piece is None else str(piece)
        if _SPACE in piece:
            return str(piece).replace(_SPACE, " ")
        text = str(self._tokenizer.decode([token], clean_up_tokenization_spaces=False))
        if text and _UNREADABLE not in text:
            return text
        # A byte that a vocabulary names as such, or some of a character in a vocabulary of bytes.
        if any(letter not in _BYTES for letter in piece):
            return str(piece)
        return _readable(bytes(_BYTES[letter] for letter in piece))


def _readable(piece: bytes) -> str:
    """Text where these bytes are whole characters, else each byte by its number."""
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in piece)


def _letters_of_bytes() -> dict[str, int]:
    """The letters by which byte-level vocabularies name bytes.

    Those that show stand for themselves; the others, in their order, are the letters from U+0100.
    """
    shown = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {
        chr(0x100 + place): byte for place, byte in enumerate(hidden)
    }


_BYTES = _letters_of_bytes()
