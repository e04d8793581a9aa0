"""From a form to runs in the queue: what is asked of the Hub before, and written at once after."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from django.conf import settings
from django.db.models import QuerySet

from leaderboard.hub import state as hub_state
from leaderboard.models import (
    LIVE,
    HubModel,
    Run,
    Submission,
    Suite,
    User,
    Variant,
    may_submit,
    may_withdraw,
)
from leaderboard.models.edition import changing
from leaderboard.models.packing import packing_of
from leaderboard.models.role import Visitor
from leaderboard.models.run import REPLACEABLE
from leaderboard.queue import claims, fairness
from leaderboard.submissions import names, precheck, quota
from leaderboard.submissions.facts import PLAIN, Facts, Way
from leaderboard.submissions.precheck import Precheck
from leaderboard.web import Problem, Refused

HUB_SECONDS = 10.0
"""A submission needs the commit, so it waits longer for the Hub than a live check."""


class NotSubmitted(Refused):
    """Nothing was submitted, for these reasons; with what the check of the model found."""

    def __init__(self, problems: Iterable[Problem], check: Precheck | None = None) -> None:
        super().__init__(*problems)
        self.check = check


class NotYours(PermissionError):
    """Only who submitted a model, or a moderator, may withdraw it."""


def submit(
    typed_id: str,
    revision: str = "main",
    dtype: str = "",
    way: Way = PLAIN,
    *,
    user: Visitor,
    visitor: str = "",
) -> Submission:
    """Check what was typed, pin it to a commit and queue one run per column of the suite.

    `visitor` is the digest of the address of who has no account.

    Runs that another submission of the same variant already has are shared; only failed and
    cancelled ones are repeated. Raises NotSubmitted.
    """
    if not may_submit(user):
        raise NotSubmitted([may_not(user)])
    check = precheck.check(typed_id, revision, dtype, way, seconds=HUB_SECONDS, thorough=True)
    suite = precheck.current_suite()
    if suite is None:
        raise NotSubmitted([_no_suite()], check)
    if check.problems:
        raise NotSubmitted(check.problems, check)
    if check.facts is None:
        raise NotSubmitted([_nothing_submitted(warning) for warning in check.warnings], check)
    names.learn(check.facts)
    try:
        with changing():
            return _store(check.facts, revision, suite, user, visitor)
    except Refused as refused:
        # Somebody may have been faster since the check: what is there already is looked up anew.
        existing = precheck.existing_submission(check.facts)
        raise NotSubmitted(refused.problems, replace(check, existing=existing)) from None


def way_again(variant: Variant) -> Way:
    """How to ask for this very variant once more."""
    return Way(
        base="@".join(variant.whole) if variant.adapter_base else "",
        packing=packing_of(variant.quantisation, variant.dtype),
        chat=variant.chat,
        backend=variant.backend,
    )


def _store(facts: Facts, revision: str, suite: Suite, user: Visitor, visitor: str) -> Submission:
    submitter = user if isinstance(user, User) else None
    quota.refuse_beyond(submitter, visitor, suite)
    variant = _locked(_variant(facts))
    if repeated := precheck.submitted_before(facts, precheck.existing_submission(facts)):
        raise Refused(repeated)
    turn = fairness.due(_others(submitter, visitor))
    submission = Submission.objects.create(
        submitter=submitter,
        visitor="" if submitter else visitor,
        requested_revision=revision.strip() or "main",
        variant=variant,
        suite=suite,
    )
    submission.runs.set(_runs(variant, suite, turn, by=str(submitter or "a visitor")))
    return submission


def _others(submitter: User | None, visitor: str) -> QuerySet[Submission]:
    """What the same account, or the same visitor without one, asks for besides."""
    active = Submission.objects.filter(state=Submission.State.ACTIVE, submitter=submitter)
    return active if submitter else active.filter(visitor=visitor)


def _variant(facts: Facts) -> Variant:
    """The row of this commit and precision, with what the Hub says of it now."""
    if not names.rows_of(facts.repo_id).exists():
        HubModel.objects.get_or_create(repo_id=facts.repo_id)
    # Locked: its author may be taking it out of the ranking at this moment.
    rows = list(names.rows_of(facts.repo_id).select_for_update(no_key=True))
    if departed := precheck.departed(rows):
        raise Refused(departed)
    hub_model = names.row_of(rows, facts.commit)
    now_on_hub = hub_state.under_name(hub_model, facts.repo_id, facts.released)
    hub_state.note(hub_model, now_on_hub)
    if there := names.variants_of(facts):
        return there[0]
    # Not looked up by its chat template: that is in the commit already.
    variant, _ = Variant.objects.get_or_create(
        hub_model=hub_model,
        **facts.identity,
        defaults={
            "architecture": facts.architecture,
            "model_type": facts.model_type,
            "parameters": facts.parameters,
            "weight_bytes": facts.weight_bytes if facts.quantisation else None,
            "licence": facts.licence,
            **facts.origin.fields(),
        },
    )
    return variant


def _locked(variant: Variant) -> Variant:
    """One transaction at a time makes, shares or withdraws the runs of a variant.

    Without the lock two submissions could both miss the other's runs, or share a run that a third
    is about to cancel. Runners take no such lock: they only ever change the state of a run.
    """
    return Variant.objects.select_for_update(no_key=True).get(pk=variant.pk)


def _runs(variant: Variant, suite: Suite, turn: datetime, *, by: str) -> list[Run]:
    """A live run per column of the suite, queued where there was none."""
    entries = list(suite.entries.select_related("task"))
    key_of = {entry: entry.run_key_of(chat=variant.chat) for entry in entries}
    keys = set(key_of.values())
    there = variant.runs.filter(state__in=LIVE, run_key__in=keys)
    fairness.advance(there, turn)
    # Of two of a key the one that stands: the other is to replace it, and will here as well.
    live = {run.run_key: run for run in sorted(there, key=lambda run: run.state in REPLACEABLE)}
    missing = {
        key_of[entry]: Run(
            variant=variant,
            task=entry.task,
            shots=entry.shots,
            fewshot_draw=suite.fewshot_draw,
            fewshot_seed=entry.fewshot_seed,
            run_key=key_of[entry],
            needed_bytes=variant.needed_bytes,
            due=turn,
        )
        for entry in entries
        if key_of[entry] not in live
    }
    return [*live.values(), *claims.enqueue(missing.values(), by=by)]


def withdraw(submission: Submission, user: Visitor) -> list[Run]:
    """Take a submission back; the runs that were stopped because nobody else wants them.

    Done runs stay. Withdrawing twice changes nothing. Raises NotYours.
    """
    if not may_withdraw(submission, user):
        raise NotYours(f"{user} did not submit {submission}: ask who did, or a moderator")
    with changing():
        _locked(submission.variant)
        active = Submission.objects.filter(pk=submission.pk, state=Submission.State.ACTIVE)
        if not active.update(state=Submission.State.WITHDRAWN):
            return []
        submission.refresh_from_db(fields=["state"])
        wanted = Run.objects.filter(submissions__state=Submission.State.ACTIVE)
        unwanted = submission.runs.filter(rerun=None).exclude(pk__in=wanted.values("pk"))
        why = "the submission was withdrawn"
        return [run for run in unwanted if claims.cancel(run, by=str(user), why=why)]


def may_not(user: Visitor) -> Problem:
    if user.is_authenticated:
        message = f"The account {user} may not submit models."
        return Problem("form", "role", message, "Ask who runs this site why: see About.")
    message = "Models are submitted with an account."
    return Problem("form", "sign_in", message, "Sign in first.")


def _no_suite() -> Problem:
    return Problem(
        "form",
        "no_suite",
        f"The suite “{settings.PLUMBLINE_SUITE}” of this site is not in its database.",
        "Its operator has to run: python manage.py sync_tasks",
    )


def _nothing_submitted(warning: Problem) -> Problem:
    return replace(warning, message=f"{warning.message} Nothing was submitted.")
