"""What is typed into the forms of the key court, and what is wrong with it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django import forms

from leaderboard.flags import Words
from leaderboard.models import Ruling

WRONG = Ruling.Verdict.WRONG
_CHOOSE = "Choose what you say of the key."


class RulingForm(forms.Form):
    verdict = forms.ChoiceField(
        choices=Ruling.Verdict.choices,
        error_messages={"required": _CHOOSE, "invalid_choice": _CHOOSE},
    )
    answer = Words(label="Right answer", longest=200, required=False)
    reason = Words(
        label="Why",
        longest=500,
        missing="Say why, so that others can check it: everybody reads it.",
    )
    source = Words(label="Source", longest=500, required=False)

    def clean_source(self) -> str:
        """An address that a reader can follow; anything else belongs into the reason."""
        address: str = self.cleaned_data["source"]
        if not address:
            return ""
        try:
            parts = urlsplit(address)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        except ValueError:
            usable = False
        if not usable or " " in address or parts.username is not None:
            raise forms.ValidationError(
                f"“{address[:60]}” is no address of a page. Write one that begins with https://, "
                "or leave it empty and name the book or paper in the reason."
            )
        return address

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if data.get("answer") and data.get("verdict") not in (None, WRONG):
            self.add_error(
                "answer",
                "Another answer is named with a wrong key only. Empty this field, or choose that.",
            )
        return data


class StrikeForm(forms.Form):
    words = Words(
        label="Why it is struck",
        longest=250,
        missing="Say why in one sentence; everybody reads it.",
    )
