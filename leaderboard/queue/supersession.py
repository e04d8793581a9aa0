"""One result in a cell: what a finished run does to the one in whose place it was measured."""

from __future__ import annotations

from django.db.models import Q

from leaderboard.models import Agreement, Run
from leaderboard.models.run import REPLACEABLE, State
from leaderboard.queue.history import tell


def take_place(run: Run, *, by: str) -> None:
    """End the standing of the run that this one replaces; the caller's transaction ends `run` well.

    Of the same key there is one result at most, so the earlier one leaves boards and submissions.
    Of an older task version it stays, since the suites of then ask for nothing else, and says what
    is newer. Files and samples stay either way.
    """
    # Locked, since it may be recalled right now.
    replaced = Run.objects.filter(replacements=run.pk, state__in=REPLACEABLE)
    old = replaced.select_for_update(of=("self",), no_key=True).first()
    if old is None:
        return
    stands = Run.objects.filter(pk=old.pk, state=old.state)
    if old.run_key != run.run_key:
        stands.update(superseded_by=run)
        tell([old], State(old.state), by=by, why=f"measured by version {run.task.version} as well")
        return
    stands.update(state=State.SUPERSEDED, superseded_by=run)
    tell([old], State.SUPERSEDED, by=by, why=run.rerun.reason if run.rerun else "")
    for submission in old.submissions.all():
        submission.runs.add(run)
        submission.runs.remove(old)
    # What was shown of the earlier answers; of the new ones it is found anew.
    Agreement.objects.filter(Q(run=old) | Q(reference=old)).delete()
