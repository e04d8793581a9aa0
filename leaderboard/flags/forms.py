"""What is typed into the forms of flags and departures, and what is wrong with it."""

from __future__ import annotations

from typing import Any

from django import forms

from leaderboard.flags.order import cleaned
from leaderboard.models import Flag

NULL_CHARACTER = "There is a null character in it. Type it anew."


class Words(forms.CharField):
    """Text that everybody reads: cleaned, and told apart where it is too short or too long."""

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


class FlagForm(forms.Form):
    reason = Words(
        label="What is wrong",
        longest=250,
        missing="Say in one sentence what is wrong with its numbers.",
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


class DepartureForm(forms.Form):
    words = Words(
        label="Why, in one sentence",
        longest=250,
        missing="Say why in one sentence; everybody reads it.",
    )


class DecisionForm(forms.Form):
    state = forms.ChoiceField(
        choices=Flag.State.choices,
        error_messages={
            "required": "Choose what is decided.",
            "invalid_choice": "Choose what is decided.",
        },
    )
    words = Words(
        label="In your words",
        longest=250,
        missing="Say why in one sentence; of an upheld flag it is the mark that everybody reads.",
    )
