"""What is an account's own: submissions, API tokens, feed and messages, all of it as a file."""

from __future__ import annotations

import email
import re
import socketserver
import threading
from collections.abc import Iterator
from datetime import timedelta
from email.message import Message
from typing import Any
from uuid import uuid4
from xml.etree import ElementTree

import pytest
from allauth.account.models import EmailAddress
from django.test import Client
from django.utils import timezone

from leaderboard.accounts.endings import tell_due
from leaderboard.models import (
    ApiToken,
    EndNotice,
    Notices,
    Quota,
    Role,
    Run,
    RunEvent,
    Submission,
    Suite,
    User,
    Vote,
    give,
)
from leaderboard.models.token import digest_of
from leaderboard.submissions.submit import submit
from tests.leaderboard import factories as make
from tests.leaderboard.conftest import TINY
from tests.leaderboard.pages import client_of
from tests.services import free_port

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("hub", "suite")]


@pytest.fixture
def page(client: Client, ada: User) -> Client:
    EmailAddress.objects.create(user=ada, email="ada@example.org", verified=True, primary=True)
    client.force_login(ada)
    return client


def test_own_submissions_are_listed_in_pages_and_nobody_elses(
    page: Client, ada: User, bo: User
) -> None:
    assert "You have submitted nothing yet." in page.get("/account/submissions").text
    submission = submit(TINY, user=ada)
    listed = page.get("/account/submissions").text
    assert "1 submission, the newest first." in listed
    assert TINY in listed
    assert "0 of 2 done" in listed
    assert TINY not in client_of(bo).get("/account/submissions").text
    variant = make.make_variant("lab/many")
    Submission.objects.bulk_create(
        Submission(variant=variant, suite=submission.suite, submitter=ada) for _ in range(100)
    )
    assert page.get("/account/submissions").text.count("lab/many") == 50
    assert page.get("/account/submissions?page=3").text.count(TINY) == 1


def submitted_and_voted(by: User, other: User) -> tuple[Submission, Submission]:
    """What somebody submitted, and what they voted for."""
    own = submit(TINY, user=by)
    liked = Submission.objects.create(variant=own.variant, suite=own.suite, submitter=other)
    Vote.objects.create(submission=liked, voter=by)
    return own, liked


def test_all_that_is_ones_own_comes_as_a_file(page: Client, ada: User, bo: User) -> None:
    submission, of_another = submitted_and_voted(ada, bo)
    Quota.objects.create(user=ada, most=7)
    token = made(page)
    answer = page.get("/account/export.json")
    told = answer.json()
    assert answer["Content-Disposition"].startswith("attachment")
    assert (told["account"]["name"], told["account"]["role"]) == ("ada", "submitter")
    assert told["addresses"] == [{"email": "ada@example.org", "verified": True, "primary": True}]
    assert [(one["id"], one["model"]) for one in told["submissions"]] == [
        (str(submission.pk), TINY)
    ]
    assert [vote["submission"] for vote in told["votes"]] == [str(of_another.pk)]
    assert told["quota"] == 7
    assert [one["name"] for one in told["tokens"]] == ["nightly job"]
    assert token not in answer.text
    assert digest_of(token) not in answer.text


def test_an_account_that_is_deleted_leaves_its_evaluations_without_the_name(
    page: Client, ada: User, bo: User
) -> None:
    submission, _ = submitted_and_voted(ada, bo)
    assert set(RunEvent.objects.values_list("by", flat=True)) == {"ada"}
    answer = page.post("/account/delete", {"name": "ada"}, follow=True)
    assert "The account is deleted" in answer.text
    assert not User.objects.filter(username="ada").exists()
    assert not Vote.objects.exists()
    submission.refresh_from_db()
    assert submission.submitter is None
    assert submission.runs.count() == 2
    assert set(RunEvent.objects.values_list("by", flat=True)) == {"a deleted account"}
    # As a word: an address of a run may have these letters in its middle.
    assert not re.search(r"\bada\b", Client().get(submission.get_absolute_url()).text)
    assert page.get("/account").status_code == 302


def test_nothing_is_deleted_by_looking_or_by_another_name(page: Client, ada: User) -> None:
    assert "Type ada to say that you mean it" in page.get("/account/delete").text
    answer = page.post("/account/delete", {"name": "bo"})
    assert answer.status_code == 422
    assert "That is not the name of this account: type ada." in answer.text
    give(ada, Role.OPERATOR)
    answer = page.post("/account/delete", {"name": "ada"})
    assert answer.status_code == 422, "nor an operator's account by accident"
    assert "deleted in the administration" in answer.text
    assert User.objects.filter(username="ada").exists()


# API tokens


def made(page: Client, name: str = "nightly job", days: str = "90") -> str:
    answer = page.post("/account/tokens", {"name": name, "days": days})
    assert answer.status_code == 200
    assert answer["Cache-Control"] == "no-store"
    found = re.search(r'id="token">(plumb_[\w-]{43})<', answer.text)
    return found[1]


def test_a_token_is_shown_once_kept_as_a_digest_and_ends_after_the_days_that_were_chosen(
    page: Client, ada: User
) -> None:
    before = timezone.now()
    token = made(page, "<script>alert(1)</script>", days="30")
    row = ApiToken.objects.get()
    assert (row.user, row.name, row.digest) == (ada, "<script>alert(1)</script>", digest_of(token))
    assert before <= row.expires - timedelta(days=30) <= timezone.now()
    assert token not in str(vars(row))
    later = page.get("/account/tokens").text
    assert token not in later
    assert row.prefix in later
    assert "&lt;script&gt;" in later
    assert "<script>alert(1)" not in later
    assert "never" in later


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": " \t", "days": "30"}, "Say what it is for"),
        ({"name": "x" * 61, "days": "30"}, "longer than 60 characters"),
        ({"name": "a\0b", "days": "30"}, ""),
        ({"name": "job", "days": "36500"}, "30, 90 or 365 days"),
        ({"name": "job"}, "Choose after how many days"),
    ],
)
def test_a_form_that_is_wrong_makes_no_token_and_says_why(
    page: Client, fields: dict[str, str], words: str
) -> None:
    answer = page.post("/account/tokens", fields)
    assert answer.status_code in (400, 422)
    assert words in answer.text
    assert not ApiToken.objects.exists()


def test_a_revoked_token_is_gone_and_nobody_revokes_anothers(page: Client, bo: User) -> None:
    made(page)
    row = ApiToken.objects.get()
    client_of(bo).post("/account/tokens", {"revoke": str(row.pk)})
    assert ApiToken.objects.exists()
    for wrong in ("", "x", "-1", "9" * 40, "²"):
        assert page.post("/account/tokens", {"revoke": wrong}).status_code == 302
    assert ApiToken.objects.exists()
    page.post("/account/tokens", {"revoke": str(row.pk)})
    assert not ApiToken.objects.exists()


def test_an_account_has_twenty_at_most(page: Client, ada: User) -> None:
    for number in range(20):
        ApiToken.make(ada, f"job {number}", timezone.now() + timedelta(days=1))
    answer = page.post("/account/tokens", {"name": "one more", "days": "30"})
    assert answer.status_code == 422
    assert "20 tokens at most" in answer.text
    assert ApiToken.objects.count() == 20


# Feed and messages


ATOM = "{http://www.w3.org/2005/Atom}"


class MailServer(socketserver.ThreadingTCPServer):
    """It speaks SMTP on a port of its own, and keeps what it takes."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Conversation)
        self.taken: list[tuple[str, Message]] = []
        """Recipient and message."""
        self.answers: dict[str, str] = {}
        """By recipient what is answered instead of “250 ok”."""


class _Conversation(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        recipient = ""
        self._say("220 mail.test")
        while line := self.rfile.readline().decode().strip():
            verb = line.split(":")[0].upper()
            if verb == "RCPT TO":
                recipient = line.partition("<")[2].partition(">")[0]
                self._say(self.server.answers.get(recipient, "250 ok"))
            elif verb == "DATA":
                self._say("354 go on")
                lines = iter(lambda: self.rfile.readline().decode().rstrip("\r\n"), ".")
                message = email.message_from_string("\n".join(lines))
                self.server.taken.append((recipient, message))
                self._say("250 taken")
            else:
                self._say("221 bye" if verb == "QUIT" else "250 ok")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


@pytest.fixture
def post_office(settings: Any) -> Iterator[MailServer]:
    with MailServer() as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        settings.EMAIL_HOST, settings.EMAIL_PORT = server.server_address
        settings.PLUMBLINE_MAIL_URL = f"smtp://127.0.0.1:{settings.EMAIL_PORT}"
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
        settings.EMAIL_HOST_USER = settings.EMAIL_HOST_PASSWORD = ""
        yield server
        server.shutdown()


def asked(page: Client, order: str) -> Any:
    return page.post("/account/notices", {"do": order})


def submitted(by: User, suite: Suite, name: str = "lab/one") -> Submission:
    return make.make_submission(make.make_variant(name), suite, submitter=by)


def end(submission: Submission) -> None:
    for run in submission.runs.filter(state=Run.State.QUEUED):
        make.fail(run, "ModelError", "four tokens have no vector")


def feed_address(page: Client) -> str:
    found = re.search(
        r'id="feed" href="http://testserver([^"]+)"', page.get("/account/notices").text
    )
    return found[1]


def entries(address: str) -> list[tuple[str, str]]:
    """Title and address of each; feed readers bring no cookie."""
    answer = Client().get(address)
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("application/atom+xml")
    assert answer["Cache-Control"] == "private, no-cache"
    tree = ElementTree.fromstring(answer.text)
    return [
        (entry.findtext(f"{ATOM}title", ""), entry.find(f"{ATOM}link").attrib["href"])  # type: ignore[union-attr]
        for entry in tree.iter(f"{ATOM}entry")
    ]


def test_a_feed_has_ones_own_submissions_and_how_far_they_are(
    page: Client, ada: User, bo: User, suite: Suite
) -> None:
    assert "Make a feed" in page.get("/account/notices").text
    assert not Notices.objects.exists(), "looking writes nothing"
    asked(page, "feed")
    own = submitted(ada, suite)
    submitted(bo, suite, "lab/other")
    where = f"http://testserver{own.get_absolute_url()}"
    assert entries(feed_address(page)) == [("lab/one: 0 of 2 runs done", where)]
    end(own)
    assert entries(feed_address(page)) == [("lab/one: 0 of 2 runs done, 2 failed", where)]


def test_a_feed_ends_with_a_newer_one_by_order_and_with_its_account(
    page: Client, ada: User
) -> None:
    def status_of(address: str) -> int:
        return Client().get(address).status_code

    assert status_of(f"/feeds/{uuid4()}.atom") == 404
    asked(page, "feed")
    first = feed_address(page)
    asked(page, "feed")
    second = feed_address(page)
    assert (status_of(first), status_of(second)) == (404, 200)
    User.objects.filter(pk=ada.pk).update(is_active=False)
    assert status_of(second) == 404
    User.objects.filter(pk=ada.pk).update(is_active=True)
    asked(page, "no-feed")
    assert status_of(second) == 404
    asked(page, "feed")
    third = feed_address(page)
    ada.delete()
    assert status_of(third) == 404


def test_a_message_comes_once_when_all_runs_have_ended(
    page: Client, ada: User, suite: Suite, post_office: MailServer
) -> None:
    asked(page, "mail")
    [told] = page.get("/account/export.json").json()["notices"]
    assert told["site"] == "http://testserver/"
    assert told["mail_since"]
    own = submitted(ada, suite)
    assert tell_due() == 0
    make.fail(own.runs.all()[0], "ModelError", "four tokens have no vector")
    assert tell_due() == 0, "one of two is still open"
    end(own)
    assert [tell_due(), tell_due()] == [1, 0]
    [(recipient, message)] = post_office.taken
    assert recipient == "ada@example.org"
    assert message["Subject"] == "[Plumbline] lab/one: 0 of 2 runs done, 2 failed"
    text = str(message.get_payload())
    assert f"http://testserver{own.get_absolute_url()}" in text
    assert "http://testserver/account/notices" in text


def test_nobody_is_written_to_who_did_not_ask_nor_of_what_is_no_news(
    page: Client, ada: User, bo: User, suite: Suite, post_office: MailServer
) -> None:
    EmailAddress.objects.create(user=bo, email="bo@example.org", verified=True, primary=True)
    end(submitted(bo, suite))
    end(submitted(ada, suite, "lab/earlier"))
    asked(page, "mail")
    withdrawn = submitted(ada, suite, "lab/withdrawn")
    page.post(f"/submissions/{withdrawn.pk}/withdraw")
    assert tell_due() == 0
    Notices.objects.update(mail_since=timezone.now() - timedelta(days=9))
    Submission.objects.exclude(state="withdrawn").delete()
    late = submitted(ada, suite, "lab/late")
    end(late)
    late.runs.update(finished=timezone.now() - timedelta(days=3))
    assert tell_due() == 0, "two days late"
    asked(page, "no-mail")
    end(submitted(ada, suite, "lab/later"))
    assert tell_due() == 0
    assert post_office.taken == []


def test_while_the_server_is_away_nothing_is_lost_and_nobody_is_hurt(
    page: Client,
    ada: User,
    suite: Suite,
    post_office: MailServer,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked(page, "mail")
    end(submitted(ada, suite))
    settings.EMAIL_PORT = free_port()
    assert tell_due() == 0
    assert "PLUMBLINE_MAIL_URL, ConnectionRefusedError" in caplog.text
    assert not EndNotice.objects.exists()
    settings.EMAIL_PORT = post_office.server_address[1]
    assert tell_due() == 1


@pytest.mark.parametrize(
    ("answer", "later"), [("550 no such person", 0), ("450 come back later", 1)], ids=str
)
def test_an_address_that_is_refused_holds_up_nobody_else(
    page: Client,
    ada: User,
    bo: User,
    suite: Suite,
    post_office: MailServer,
    answer: str,
    later: int,
) -> None:
    EmailAddress.objects.create(user=bo, email="bo@example.org", verified=True, primary=True)
    asked(page, "mail")
    asked(client_of(bo), "mail")
    end(submitted(ada, suite))
    end(submitted(bo, suite, "lab/other"))
    post_office.answers["ada@example.org"] = answer
    assert tell_due() == 1
    post_office.answers.clear()
    assert tell_due() == later


def test_without_a_confirmed_address_or_mail_the_page_says_why_and_takes_no_order(
    client: Client, ada: User, settings: Any
) -> None:
    client.force_login(ada)
    settings.PLUMBLINE_MAIL_URL = "smtp://mail.example.org"
    EmailAddress.objects.create(user=ada, email="ada@example.org", verified=False)
    refused = asked(client, "mail")
    assert refused.status_code == 422
    assert "no confirmed e-mail address" in refused.text
    settings.PLUMBLINE_MAIL_URL, settings.DEBUG = "", False
    assert "This site sends no mail" in client.get("/account/notices").text
    assert asked(client, "nonsense\x00").status_code == 422
    assert not Notices.objects.exists()
