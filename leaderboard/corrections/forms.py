"""What is typed into the forms of this room, and what is wrong with it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django import forms

from leaderboard.corrections.reports import RULED_ON, cleaned
from leaderboard.corrections.rulings import DOES
from leaderboard.models import Report

NULL_CHARACTER = "There is a null character in it. Type it anew."
EVERYBODY_READS_IT = "Say why in one sentence; everybody reads it."
_CHOOSE_VERDICT = "Choose what you say of the key."
_CHOOSE_KIND = "Choose what it is about."
_CHOOSE_RULING = "Choose what you rule."


class Words(forms.CharField):
    """Text that everybody reads: cleaned, and refused where it is empty or too long."""

    def __init__(
        self, *, longest: int, missing: str = "", one_line: bool = True, **options: Any
    ) -> None:
        self.longest, self.missing, self.one_line = longest, missing, one_line
        super().__init__(error_messages={"required": missing}, **options)
        self.error_messages["null_characters_not_allowed"] = NULL_CHARACTER

    def clean(self, value: Any) -> str:
        text = cleaned(super().clean(value))
        if self.one_line:
            text = " ".join(text.split())
        if not text and self.required:
            raise forms.ValidationError(self.missing)
        if len(text) > self.longest:
            raise forms.ValidationError(
                f"{len(text):,} characters; say it in {self.longest:,}, and link to the rest."
            )
        return text


class ReportForm(forms.Form):
    kind = forms.ChoiceField(
        choices=[(kind, kind.label) for kind in RULED_ON],
        error_messages={"required": _CHOOSE_KIND, "invalid_choice": _CHOOSE_KIND},
    )
    reason = Words(
        label="What is wrong",
        longest=250,
        missing="Say in one sentence what is wrong.",
    )
    evidence = Words(
        label="What shows it",
        longest=2000,
        one_line=False,
        missing="Say what shows it: a link, or what anybody can look up.",
    )


class AnswerForm(forms.Form):
    text = Words(
        label="Answer", longest=2000, one_line=False, missing="There is nothing in it yet."
    )


class RulingForm(forms.Form):
    ruling = forms.ChoiceField(
        choices=list(DOES.items()),
        error_messages={"required": _CHOOSE_RULING, "invalid_choice": _CHOOSE_RULING},
    )
    words = Words(
        label="In your words",
        longest=250,
        missing="Say why in one sentence; of an upheld report it is the mark that everybody reads.",
    )


class ReasonForm(forms.Form):
    """To take a model out of the ranking, and to strike a report on a key."""

    words = Words(label="Why, in one sentence", longest=250, missing=EVERYBODY_READS_IT)


class KeyReportForm(forms.Form):
    verdict = forms.ChoiceField(
        choices=Report.Verdict.choices,
        error_messages={"required": _CHOOSE_VERDICT, "invalid_choice": _CHOOSE_VERDICT},
    )
    answer = Words(label="Right answer, if the key is wrong", longest=200, required=False)
    reason = Words(
        label="Why",
        longest=500,
        missing="Say why, so that others can check it: everybody reads it.",
    )
    evidence = Words(label="Source", longest=500, required=False)

    def clean_evidence(self) -> str:
        """An address that a reader can follow; anything else belongs into the reason."""
        address: str = self.cleaned_data["evidence"]
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
        if data.get("answer") and data.get("verdict") not in (None, Report.Verdict.WRONG):
            self.add_error(
                "answer",
                "Another answer is named with a wrong key only. Empty this field, or choose that.",
            )
        return data
