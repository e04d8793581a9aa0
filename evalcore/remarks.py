"""What the numbers of a run alone would hide, each thing once, however many tasks it is true of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evalcore.record import RunRecord

NAMED = 3
"""Tasks that a remark names; of more it says how many."""


def remarks_on(records: Sequence[RunRecord]) -> list[str]:
    """Metrics that failed, prompts that were cut, answers that could not be right, and what of the
    model is not as its repository says."""
    return [
        *_failures(records),
        *(line for record in records for line in _distributions(record)),
        *_unanswerable(records),
        *_truncated(records),
        *_slower_ways(records),
        *_other_bases(records),
    ]


def _failures(records: Sequence[RunRecord]) -> Iterator[str]:
    tasks: dict[tuple[str, str, str], list[str]] = {}
    for record in records:
        for failure in record.failures:
            tasks.setdefault((failure.metric, failure.filter, failure.reason), []).append(
                failure.task
            )
    for (metric, filter, reason), names in tasks.items():
        yield f"not computed: {_named(names)}: {metric} ({filter}): {reason}"


def _distributions(record: RunRecord) -> Iterator[str]:
    for spread in record.distribution:
        apart = "" if spread["sd"] is None else f", standard deviation {spread['sd']:.4f}"
        yield (
            f"{record.task}: {spread['metric']} ({spread['filter']}) over {spread['k']} prompts: "
            f"lowest {spread['lowest']:.4f}, median {spread['median']:.4f}, "
            f"highest {spread['highest']:.4f}{apart}"
        )


def _unanswerable(records: Sequence[RunRecord]) -> Iterator[str]:
    counts: dict[str, int] = {}
    for record in records:
        counts.update(record.unanswerable)
    if counts:
        yield (
            f"{_named([*counts])}: of {sum(counts.values())} documents the right answer is none of "
            "the choices; they score 0, as in lm-evaluation-harness: `evalcore validate` says more"
        )


def _truncated(records: Sequence[RunRecord]) -> Iterator[str]:
    cut: Mapping[str, tuple[int, int]] = {
        record.task: (record.requests["truncated"], record.requests["total"])
        for record in records
        if record.requests.get("truncated")
    }
    if cut:
        lost, total = (sum(counts) for counts in zip(*cut.values(), strict=True))
        yield f"{_named([*cut])}: {lost} of {total} prompts lost their beginning"


def _slower_ways(records: Sequence[RunRecord]) -> list[str]:
    """How requests were computed where a faster way was refused, and why it was."""
    remarks = [
        f"{kind} requests were computed {how['step']}, {refused}"
        for record in records
        for kind, how in record.execution.items()
        if (refused := how.get("refused"))
    ]
    return list(dict.fromkeys(remarks))


def _other_bases(records: Sequence[RunRecord]) -> list[str]:
    remarks = [
        f"the adapter {record.model_name} says that it was trained on {base}, and was evaluated "
        f"over {record.model['repository']}, which its weights fit"
        for record in records
        if (base := record.model.get("adapter_base"))
    ]
    return list(dict.fromkeys(remarks))


def _named(tasks: Sequence[str]) -> str:
    names = list(dict.fromkeys(tasks))
    if len(names) <= NAMED + 1:
        return ", ".join(names)
    return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"
