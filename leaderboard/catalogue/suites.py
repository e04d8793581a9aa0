"""Which suite is meant: the newest version of a name, or `name@version`."""

from __future__ import annotations

from collections.abc import Sequence

from django.conf import settings
from django.db.models import QuerySet
from django.http import Http404

from leaderboard.models import Suite


def newest_suite(name: str) -> Suite | None:
    """The newest version of a suite, or the version that `name@version` asks for."""
    return suites_called(name).first()


def suites_called(name: str) -> QuerySet[Suite]:
    """The versions that a name, or `name@version`, may mean; the newest first."""
    name, _, version = name.partition("@")
    suites = Suite.objects.filter(name=name).order_by("-created", "-pk")
    return suites.filter(version=version) if version else suites


def every_suite() -> list[Suite]:
    """Every version of every suite, the newest last, without what only a page of its own tells."""
    return list(Suite.objects.order_by("created", "pk").defer("reported"))


def among(suites: Sequence[Suite], name: str) -> Suite | None:
    """`newest_suite` for who has all of them."""
    name, _, version = name.partition("@")
    named = [
        suite
        for suite in suites
        if suite.name == name and (not version or suite.version == version)
    ]
    return named[-1] if named else None


def suite_asked_for(name: str) -> Suite | None:
    """As `newest_suite`; None only where it is the site's own, which is not there yet.

    Raises Http404 for any other.
    """
    return newest_suite(name) if name == settings.PLUMBLINE_SUITE else find_suite(name)


def find_suite(reference: str) -> Suite:
    """Raises Http404 where no suite of this site is meant."""
    found = newest_suite(reference)
    if found is None:
        raise Http404(f"no suite {reference}")
    return found
