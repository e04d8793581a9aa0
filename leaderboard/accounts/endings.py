"""Messages to those who asked for one when a submission of theirs has ended.

A job of its own sends them (`runners/jobs.py`), apart from every run: a mail server that is away
costs no evaluation anything. The row that says "sent" is written first, so that two jobs at once
send one message; it is taken back where the server did not take the message, for the next round.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import timedelta
from smtplib import SMTPException, SMTPRecipientsRefused, SMTPResponseException

from allauth.account.models import EmailAddress
from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.db import IntegrityError, transaction
from django.db.models import F
from django.urls import reverse
from django.utils import timezone

from leaderboard.accounts.progress import told, with_progress
from leaderboard.models import EndNotice, Notices, Submission

logger = logging.getLogger(__name__)

GIVEN_UP = timedelta(days=2)
"""So long after a submission's end a message is still tried."""
AT_ONCE = 50
FINAL = 500
"""From this answer of a mail server on, asking again gets the same one."""


def mail_goes_out() -> bool:
    return bool(settings.PLUMBLINE_MAIL_URL or settings.DEBUG)


def address_of(user_id: int | None) -> str:
    """Where an account is written to: a confirmed address, the first one before others."""
    confirmed = EmailAddress.objects.filter(user_id=user_id, verified=True)
    return confirmed.order_by("-primary", "pk").values_list("email", flat=True).first() or ""


def tell_due() -> int:
    """Send what is due; how many messages went out. Failures are logged, and raise nothing."""
    if not mail_goes_out():
        return 0
    sent = 0
    connection = get_connection()
    try:
        for submission in _due():
            if (address := address_of(submission.submitter_id)) and _claimed(submission):
                message = _message(submission, address)
                message.connection = connection
                sent += _sent(message, submission)
    except (SMTPException, OSError) as problem:
        logger.error(
            "mail about the end of submissions waits: PLUMBLINE_MAIL_URL, %s: %s",
            *(type(problem).__name__, problem),
        )
    finally:
        connection.close()
    return sent


def _due() -> Iterable[Submission]:
    """Those that ended since their submitters asked for messages."""
    asked = Submission.objects.filter(
        state=Submission.State.ACTIVE,
        submitter__is_active=True,
        submitter__notices__mail_since__isnull=False,
        end_notice=None,
    )
    ended = with_progress(asked).filter(
        n__gt=0,
        open=0,
        last__gte=F("submitter__notices__mail_since"),
        last__gt=timezone.now() - GIVEN_UP,
    )
    return ended.order_by("last", "pk")[:AT_ONCE]


def _claimed(submission: Submission) -> bool:
    try:
        with transaction.atomic():
            EndNotice.objects.create(submission=submission)
    except IntegrityError:
        return False
    return True


def _sent(message: EmailMessage, submission: Submission) -> bool:
    """Whether it went out. Raises what any other message would meet as well."""
    try:
        message.send()
    except (SMTPException, OSError) as problem:
        codes = _codes(problem)
        if not codes or min(codes) < FINAL:
            EndNotice.objects.filter(submission=submission).delete()
        if not codes:
            raise
        logger.warning("mail about submission %s was not taken: %s", submission.pk, problem)
        return False
    return True


def _codes(problem: Exception) -> list[int]:
    """What the server said against this one message; empty for troubles of the server itself."""
    if isinstance(problem, SMTPRecipientsRefused):
        return [code for code, _ in problem.recipients.values()]
    return [problem.smtp_code] if isinstance(problem, SMTPResponseException) else []


def _message(submission: Submission, address: str) -> EmailMessage:
    site = Notices.objects.get(user=submission.submitter).site.rstrip("/")
    model, how_far = submission.variant.hub_model.repo_id, told(submission)
    text = (
        f"{model}, which you submitted on {submission.created:%-d %B %Y}, has ended: {how_far}.\n\n"
        f"{site}{submission.get_absolute_url()}\n\n"
        "One such message comes for each submission, because you asked for it:\n"
        f"{site}{reverse('account-notices')}\n"
    )
    subject = f"{settings.ACCOUNT_EMAIL_SUBJECT_PREFIX}{model}: {how_far}"
    return EmailMessage(subject, text, to=[address])
