"""Feed and messages: asked for, renewed, ended; one message per submission, by a real server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4
from xml.etree import ElementTree

import pytest
from allauth.account.models import EmailAddress
from django.test import Client
from django.utils import timezone

from leaderboard.accounts.endings import tell_due
from leaderboard.models import EndNotice, Notices, Run, Submission, Suite, User
from tests.leaderboard import factories as make
from tests.leaderboard.accounts.mail_server import MailServer, mail_server
from tests.services import free_port

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("hub")]
ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture
def post_office(settings: Any) -> Iterator[MailServer]:
    with mail_server() as server:
        settings.PLUMBLINE_MAIL_URL = f"smtp://127.0.0.1:{server.port}"
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
        settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
        settings.EMAIL_HOST_USER = settings.EMAIL_HOST_PASSWORD = ""
        yield server


@pytest.fixture
def page(client: Client, ada: User) -> Client:
    EmailAddress.objects.create(user=ada, email="ada@example.org", verified=True, primary=True)
    client.force_login(ada)
    return client


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
    assert found is not None
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


def test_there_is_no_feed_until_somebody_makes_one(page: Client, ada: User) -> None:
    assert "Make a feed" in page.get("/account/notices").text
    assert not Notices.objects.exists(), "looking writes nothing"
    assert Client().get(f"/feeds/{uuid4()}.atom").status_code == 404


def test_a_feed_has_ones_own_submissions_and_how_far_they_are(
    page: Client, ada: User, bo: User, suite: Suite
) -> None:
    asked(page, "feed")
    own = submitted(ada, suite)
    submitted(bo, suite, "lab/other")
    where = f"http://testserver{own.get_absolute_url()}"
    assert entries(feed_address(page)) == [("lab/one: 0 of 2 runs done", where)]
    end(own)
    assert entries(feed_address(page)) == [("lab/one: 0 of 2 runs done, 2 failed", where)]


def test_a_renewed_address_ends_the_old_one_and_an_ended_feed_has_none(page: Client) -> None:
    asked(page, "feed")
    first = feed_address(page)
    asked(page, "feed")
    second = feed_address(page)
    assert first != second
    assert Client().get(first).status_code == 404
    asked(page, "no-feed")
    assert Client().get(second).status_code == 404


def test_the_feed_of_a_closed_or_deleted_account_is_gone(page: Client, ada: User) -> None:
    asked(page, "feed")
    address = feed_address(page)
    User.objects.filter(pk=ada.pk).update(is_active=False)
    assert Client().get(address).status_code == 404
    ada.delete()
    assert Client().get(address).status_code == 404


def test_a_message_comes_once_when_all_runs_have_ended(
    page: Client, ada: User, suite: Suite, post_office: MailServer
) -> None:
    asked(page, "mail")
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


def test_nobody_is_written_to_who_did_not_ask_nor_about_what_ended_before(
    page: Client, ada: User, bo: User, suite: Suite, post_office: MailServer
) -> None:
    EmailAddress.objects.create(user=bo, email="bo@example.org", verified=True, primary=True)
    end(submitted(bo, suite))
    end(submitted(ada, suite, "lab/earlier"))
    asked(page, "mail")
    assert tell_due() == 0
    asked(page, "no-mail")
    end(submitted(ada, suite, "lab/later"))
    assert tell_due() == 0
    assert post_office.taken == []


def test_a_withdrawn_submission_is_no_news(
    page: Client, ada: User, suite: Suite, post_office: MailServer
) -> None:
    asked(page, "mail")
    own = submitted(ada, suite)
    page.post(f"/submissions/{own.pk}/withdraw")
    assert tell_due() == 0


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
    settings.EMAIL_PORT = post_office.port
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
    other = Client()
    other.force_login(bo)
    asked(page, "mail")
    asked(other, "mail")
    end(submitted(ada, suite))
    end(submitted(bo, suite, "lab/other"))
    post_office.answers["ada@example.org"] = answer
    assert tell_due() == 1
    post_office.answers.clear()
    assert tell_due() == later


def test_a_message_that_is_two_days_late_is_not_sent(
    page: Client, ada: User, suite: Suite, post_office: MailServer
) -> None:
    asked(page, "mail")
    Notices.objects.update(mail_since=timezone.now() - timedelta(days=9))
    own = submitted(ada, suite)
    end(own)
    own.runs.update(finished=timezone.now() - timedelta(days=3))
    assert tell_due() == 0


def test_what_another_job_sends_is_not_sent_again(
    page: Client, ada: User, suite: Suite, post_office: MailServer
) -> None:
    asked(page, "mail")
    own = submitted(ada, suite)
    end(own)
    EndNotice.objects.create(submission=own)  # the other one was faster
    assert tell_due() == 0
    assert post_office.taken == []


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


def test_the_export_has_what_was_asked_for(page: Client, settings: Any) -> None:
    settings.PLUMBLINE_MAIL_URL = "smtp://mail.example.org"
    asked(page, "mail")
    [told] = page.get("/account/export.json").json()["notices"]
    assert told["site"] == "http://testserver/"
    assert told["mail_since"]
