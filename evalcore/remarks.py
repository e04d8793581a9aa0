"""What the numbers of a run alone would hide, each thing once, however many tasks it is true of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from evalcore.lengths import NAMES, Lengths

if TYPE_CHECKING:
    from evalcore.record import ResultRow, RunRecord

NAMED = 3
"""Tasks that a remark names; of more it says how many."""

MOST_TOLD = 200
"""Characters of what a file of the model says."""


def remarks_on(records: Sequence[RunRecord]) -> list[str]:
    """Metrics that failed, answers and prompts that were cut, answers that could not be right, and
    what of the model is not as its repository says."""
    return [
        *_failures(records),
        *(line for record in records for line in _distributions(record)),
        *_unanswerable(records),
        *on_lengths(records),
        *_slower_ways(records),
        *_other_bases(records),
        *_specials_behind(records),
        *_unsaid(records),
        *on_own_generation(records),
        *_tokenizers(records),
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
            "the choices; they score 0, as in lm-evaluation-harness where that does not end at "
            "them: `evalcore validate` says more"
        )


STOPPED, CUT = "†", "‡"
"""Marks of a number: answers were stopped by their length; prompts were cut."""


def marks_of(row: ResultRow) -> str:
    """What stands at a number in a table; `remarks_on` says how many answers and prompts."""
    counts = row.lengths
    if counts is None:
        return ""
    return f"{STOPPED if counts.by_length else ''}{CUT if counts.prompts_cut else ''}"


def on_lengths(records: Sequence[RunRecord]) -> list[str]:
    """What of answers and prompts was cut short."""
    return [*_stopped(records), *_truncated(records)]


def _stopped(records: Sequence[RunRecord]) -> Iterator[str]:
    """Each task with its share, the largest first; not in records from before it was counted."""
    counted = {
        record.task: Lengths(
            **{name: record.requests.get(name, 0) for name in NAMES if name in record.requests}
        )
        for record in records
        if record.requests.get("by_length")
    }
    if not counted:
        return
    tasks = sorted(counted, key=lambda task: -counted[task].by_length / counted[task].answers)
    shown = tasks if len(tasks) <= NAMED + 1 else tasks[:NAMED]
    told = "; ".join(f"{task}: {counted[task].stopped}" for task in shown)
    more = f"; and {len(tasks) - NAMED} more tasks" if len(shown) < len(tasks) else ""
    yield f"{STOPPED} stopped by their length, before the model ended them: {told}{more}"


def _truncated(records: Sequence[RunRecord]) -> Iterator[str]:
    cut: Mapping[str, tuple[int, int]] = {
        record.task: (record.requests["truncated"], record.requests["total"])
        for record in records
        if record.requests.get("truncated")
    }
    if cut:
        lost, total = (sum(counts) for counts in zip(*cut.values(), strict=True))
        yield f"{CUT} {_named([*cut])}: {lost} of {total} prompts lost their beginning"


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


def _specials_behind(records: Sequence[RunRecord]) -> list[str]:
    """The token that a model takes for the end of a text stands before its answers, or would."""
    told = {
        "compat": "answers are scored and written behind it, as in lm-evaluation-harness; strict "
        "leaves it off",
        "strict": "strict leaves it off",
    }
    remarks = [
        f"the tokenizer of {record.model_name} puts {' '.join(added)} behind every text: "
        f"{told[record.mode]}"
        for record in records
        if (added := record.model.get("specials_behind"))
    ]
    return list(dict.fromkeys(remarks))


def _tokenizers(records: Sequence[RunRecord]) -> list[str]:
    """Where the library that reads a tokenizer has a rule of its own for it."""
    notes = (note for record in records for note in record.model.get("tokenizer_notes", ()))
    return list(dict.fromkeys(notes))


def on_own_generation(records: Sequence[RunRecord]) -> Iterator[str]:
    """Arguments that decide texts and that no task states."""
    # Most runs begin without a record, and reading one takes a library that they need not import.
    from evalcore.keys import in_force

    tasks: dict[str, list[str]] = {}
    for record in records:
        own = record.model.get("generation") or {}
        for task, stated in record.generation.items():
            decisive = in_force(own, stated)
            if record.mode == "strict":
                decisive.pop("max_new_tokens", None)  # the task says how long a text may be
            if decisive:
                told = ", ".join(f"{name} {value}" for name, value in sorted(decisive.items()))
                tasks.setdefault(told[:MOST_TOLD], []).append(task)
    for told, names in tasks.items():
        yield f"{_named(names)}: the model's generation_config.json decides texts: {told}"


def _unsaid(records: Sequence[RunRecord]) -> Iterator[str]:
    """What a chat template did with conversations besides writing them."""
    chats = [record.chat for record in records if record.chat]
    counts: dict[str, int] = {}
    for chat in chats:
        for role, count in {
            "system": chat.get("without_system", 0),
            **chat.get("left_out", {}),
        }.items():
            counts[role] = max(counts.get(role, 0), count)
    for role, count in counts.items():
        what = " (the system instruction and the task's description)" if role == "system" else ""
        if count:
            yield (
                f"the chat template does not write what the {role} says{what}: {count} prompts are "
                "without it, as in lm-evaluation-harness; strict refuses that"
            )
    if any(chat.get("reads_parts") for chat in chats):
        yield (
            "the chat template reads lists of parts, and was given them; lm-evaluation-harness "
            "gives it texts, which it does not write"
        )


def _named(tasks: Sequence[str]) -> str:
    names = list(dict.fromkeys(tasks))
    if len(names) <= NAMED + 1:
        return ", ".join(names)
    return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"
