"""From a form to runs in the queue: what is asked of the Hub before, and written at once after.

How many more models somebody may submit is counted in the rows of what was submitted. Any 24 hours
count, not the day of a calendar: nobody gets two days' share around midnight.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from leaderboard.hub import HubSilent, Problem, Refused
from leaderboard.hub import state as hub_state
from leaderboard.models import (
    LIVE,
    HubModel,
    Quota,
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
from leaderboard.submissions import precheck
from leaderboard.submissions.precheck import PLAIN, Facts, Precheck, Way

HUB_SECONDS = 10.0
"""A submission needs the commit, so it waits longer for the Hub than a live check."""
PERIOD = timedelta(days=1)
MAX_NAMES = 3
"""Other names of a commit about which the Hub is asked."""


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
    copies: bool = True,
) -> Submission:
    """Check what was typed, pin it to a commit and queue one run per column of the suite.

    `visitor` is the digest of the address of who has no account. Without `copies`, a model whose
    weights are here already under another name is refused.

    Runs that another submission of the same variant already has are shared; only failed and
    cancelled ones are repeated. Raises NotSubmitted.
    """
    if not may_submit(user):
        raise NotSubmitted([may_not(user)])
    check = precheck.check(typed_id, revision, dtype, way, seconds=HUB_SECONDS, thorough=True)
    suite = precheck.current_suite()
    if suite is None:
        raise NotSubmitted([Problem("no_suite", "form", settings.PLUMBLINE_SUITE)], check)
    if check.problems:
        raise NotSubmitted(check.problems, check)
    if check.facts is None:
        nothing = " Nothing was submitted."
        unread = [replace(warning, consequence=nothing) for warning in check.warnings]
        raise NotSubmitted(unread, check)
    if check.twin and not copies:
        raise NotSubmitted([w for w in check.warnings if w.code == "same_weights"], check)
    _learn_new_names(check.facts)
    try:
        with changing():
            return _store(check.facts, check.revision, suite, user, visitor)
    except Refused as refused:
        # Somebody may have been faster since the check: what is there already is looked up anew.
        existing = precheck.existing_submission(check.facts)
        raise NotSubmitted(refused.problems, replace(check, existing=existing)) from None


def _learn_new_names(facts: Facts) -> None:
    """Ask the Hub what became of the models under whose names the same commit was submitted."""
    others = HubModel.objects.filter(variants__commit=facts.commit).exclude(repo_id=facts.repo_id)
    for model in others.exclude(renamed_to=facts.repo_id).distinct()[:MAX_NAMES]:
        try:
            hub_state.note(model, hub_state.ask(model.repo_id))
        except (HubSilent, Refused):
            return


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
    _refuse_beyond_quota(submitter, visitor, suite)
    variant = _locked(_variant(facts))
    if repeated := precheck.submitted_before(facts):
        raise Refused(repeated)
    turn = fairness.due(_others(submitter, visitor))
    submission = Submission.objects.create(
        submitter=submitter,
        visitor="" if submitter else visitor,
        requested_revision=revision,
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
    if not precheck.rows_of(facts.repo_id).exists():
        HubModel.objects.get_or_create(repo_id=facts.repo_id)
    # Locked: its author may be taking it out of the ranking at this moment.
    rows = list(precheck.rows_of(facts.repo_id).select_for_update(no_key=True))
    if departed := precheck.departed(rows):
        raise Refused(departed)
    hub_model = _row_of(rows, facts.commit)
    now_on_hub = hub_state.under_name(hub_model, facts.repo_id, facts.released)
    hub_state.note(hub_model, now_on_hub)
    if variants := precheck.variants_of(facts):
        return variants[0]
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


def _row_of(rows: Sequence[HubModel], commit: str) -> HubModel:
    """Under which of the rows of a model a commit of it stands, or is to stand."""
    with_commit = set(
        Variant.objects.filter(hub_model__in=rows, commit=commit).values_list(
            "hub_model", flat=True
        )
    )
    return next((row for row in rows if row.pk in with_commit), rows[0])


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
    existing = variant.runs.filter(state__in=LIVE, run_key__in=keys)
    fairness.advance(existing, turn)
    # Of two of a key the one that stands: the other is to replace it, and will here as well.
    live = {run.run_key: run for run in sorted(existing, key=lambda run: run.state in REPLACEABLE)}
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
        wanted_runs = Run.objects.filter(submissions__state=Submission.State.ACTIVE)
        unwanted_runs = submission.runs.filter(rerun=None).exclude(pk__in=wanted_runs.values("pk"))
        why = "the submission was withdrawn"
        return [run for run in unwanted_runs if claims.cancel(run, by=str(user), why=why)]


def may_not(user: Visitor) -> Problem:
    if user.is_authenticated:
        return Problem("role", "form", str(user))
    return Problem("sign_in", "form")


# How many more models somebody may submit


@dataclass(frozen=True)
class Share:
    """What one account, one visitor or all visitors together have of the day."""

    whose: str
    limit: int
    used: int
    frees_up: datetime | None
    """When the oldest that counts is a day old; None where nothing was submitted."""

    @property
    def left(self) -> int:
        return max(0, self.limit - self.used)


def shares(submitter: User | None, visitor: str) -> list[Share]:
    """All that bound what they submit next; of who has no account, that of everybody, too."""
    recent = Submission.objects.filter(
        submitter=submitter, created__gt=timezone.now() - PERIOD
    ).order_by("-created")
    if submitter:
        return [_share(f"the account {submitter}", _limit_of(submitter), recent)]
    own_submissions = recent.filter(visitor=visitor)
    own_share = _share(
        "one visitor without an account", settings.PLUMBLINE_VISITOR_QUOTA, own_submissions
    )
    together = "all visitors without an account together"
    common_share = _share(together, settings.PLUMBLINE_OPEN_QUOTA, recent)
    return [own_share, common_share] if visitor else [common_share]


def tightest(submitter: User | None, visitor: str) -> Share:
    """The share of which least is left: it is shown before somebody submits."""
    return min(shares(submitter, visitor), key=lambda share: share.left)


def _refuse_beyond_quota(submitter: User | None, visitor: str, suite: Suite) -> None:
    """Raises Refused where one of the shares is used up; within a transaction."""
    # The row lock makes two submissions at the same moment count each other.
    if submitter:
        User.objects.select_for_update(no_key=True).get(pk=submitter.pk)
    else:
        Suite.objects.select_for_update(no_key=True).get(pk=suite.pk)
    for share in shares(submitter, visitor):
        if not share.left:
            raise Refused(_quota_problem(share))


def _quota_problem(share: Share) -> Problem:
    ending = "" if share.limit == 1 else "s"
    details = {"whose": share.whose, "submissions": f"{share.limit} submission{ending}"}
    if share.frees_up is None:
        wait = int(PERIOD.total_seconds())
        return Problem("quota.none", "form", details=details, wait_seconds=wait)
    details["frees_up"] = f"{share.frees_up:%H:%M UTC on %-d %B}"
    wait = max(1, int((share.frees_up - timezone.now()).total_seconds()))
    return Problem("quota", "form", details=details, wait_seconds=wait)


def _limit_of(user: User) -> int:
    quota = Quota.objects.filter(user=user).values_list("most", flat=True).first()
    return settings.PLUMBLINE_USER_QUOTA if quota is None else quota


def _share(whose: str, limit: int, recent: QuerySet[Submission]) -> Share:
    counted = list(recent.values_list("created", flat=True)[:limit])
    return Share(whose, limit, len(counted), counted[-1] + PERIOD if counted else None)
