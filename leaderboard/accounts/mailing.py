"""Forms after which a message is sent, and what they say where the server of mail takes none."""

from __future__ import annotations

from typing import Any

from allauth.account.views import PasswordResetView, SignupView
from django.http import HttpResponseBase

from leaderboard.accounts.rules import MailFailed

RETRY_SECONDS = 300
SAID = (
    "This site’s mail server takes no messages at the moment, so none was sent, and nothing was "
    "changed. It is our fault and in our log. What you typed is still here: try again in some "
    "minutes."
)


class SaysThatMailFailed:
    """For a view with a form: the form once more, filled as it was, with that sentence."""

    def form_valid(self, form: Any) -> HttpResponseBase:
        try:
            sent: HttpResponseBase = super().form_valid(form)  # type: ignore[misc]
            return sent
        except MailFailed:
            self.undo()
            form.add_error(None, SAID)
            again: HttpResponseBase = self.render_to_response(  # type: ignore[attr-defined]
                self.get_context_data(form=form),  # type: ignore[attr-defined]
                status=503,
            )
            again["Retry-After"] = str(RETRY_SECONDS)
            return again

    def undo(self) -> None:
        """Take back what was done before the message; allauth remembers who is signing in."""
        session = self.request.session  # type: ignore[attr-defined]
        session.pop("account_login", None)


class SignUp(SaysThatMailFailed, SignupView):  # type: ignore[misc]
    """Without the message nobody could confirm the account, and its name would be taken."""

    user: Any = None

    def undo(self) -> None:
        # By hand: a transaction would hold SQLite's one lock for as long as the server is silent.
        if self.user is not None and self.user.pk:
            self.user.delete()
        super().undo()


class ForgottenPassword(SaysThatMailFailed, PasswordResetView):  # type: ignore[misc]
    """Says the same of an address that has no account here."""
