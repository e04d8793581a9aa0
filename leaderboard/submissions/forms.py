"""The submission form: what is typed stays, and each problem stands at its field."""

from __future__ import annotations

from collections.abc import Iterable

from django import forms
from django.core.exceptions import ValidationError

from leaderboard.models.variant import Dtype
from leaderboard.web.problem import Problem

NULL_CHARACTER = "There is a null character in it, which no name has. Type it anew."


class SubmissionForm(forms.Form):
    """Bound to a GET for a live check, to a POST for a submission; same fields, same names."""

    model = forms.CharField(
        label="Model ID",
        max_length=500,
        help_text="As in the address: owner/name.",
        error_messages={
            "required": "Give a model ID: owner/name, as in its address on the Hub.",
            "max_length": "That is longer than any model ID or its address. "
            "Give it as in the address of its page: owner/name.",
            "null_characters_not_allowed": NULL_CHARACTER,
        },
    )
    revision = forms.CharField(
        label="Revision",
        max_length=200,
        required=False,
        initial="main",
        help_text="Branch, tag or commit; a branch is pinned to its commit.",
        error_messages={
            "max_length": "That is longer than any branch, tag or commit. "
            "Copy the name from the model's page, or leave the field empty for main.",
            "null_characters_not_allowed": NULL_CHARACTER,
        },
    )
    dtype = forms.ChoiceField(
        label="Precision",
        choices=[("", "As stored"), *Dtype.choices],
        required=False,
        error_messages={
            "invalid_choice": "“%(value)s” is no precision that models are evaluated in. "
            f"Choose {' or '.join(Dtype.values)}, or leave it as stored."
        },
    )

    def show(self, problems: Iterable[Problem]) -> None:
        """Put each problem at its field; those of the form as a whole go on top."""
        for problem in problems:
            field = problem.field if problem.field in self.fields else None
            self.add_error(field, ValidationError(str(problem), code=problem.code))
