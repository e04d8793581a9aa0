"""`evalcore compare`: paired differences of two runs on the same questions."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from evalcore.command.files import read
from evalcore.compare import Difference, Refusal, as_json
from evalcore.compare import compare as compare_runs
from evalcore.progress import empty_table, say
from evalcore.remarks import on_lengths, on_own_generation

NOTHING_COMPARED = 1
"""Exit status when no number of the two runs can be compared."""


def compare(options: argparse.Namespace) -> int:
    """Prints a table or JSON; what cannot be compared is named with the reason."""
    a, b = read([options.a]), read([options.b])
    differences, refusals = compare_runs(a, b)
    if options.json:
        sys.stdout.write(json.dumps(as_json(differences, refusals), indent=1) + "\n")
    else:
        _print(f"a: {_models(a)}\nb: {_models(b)}", differences, refusals)
        for name, runs in (("a", a), ("b", b)):
            records = [run.record for run in runs]
            for line in (*on_lengths(records), *on_own_generation(records)):
                say(f"{name}: {line}")
    return 0 if differences else NOTHING_COMPARED


def _models(runs: Sequence[Any]) -> str:
    return ", ".join(dict.fromkeys(run.record.model_name for run in runs))


def _print(title: str, differences: Sequence[Difference], refusals: Sequence[Refusal]) -> None:
    say(title)
    columns = ("task", "metric", "filter", "n", "a", "b", "a − b", "95 % interval", "p (Holm)")
    table = empty_table(*columns, "only a : only b", "McNemar p")
    for difference in differences:
        table.add_row(
            difference.name,
            f"{difference.metric} {'↑' if difference.higher_is_better else '↓'}",
            difference.filter,
            str(difference.n),
            f"{difference.a:.4f}",
            f"{difference.b:.4f}",
            f"{difference.paired.difference:+.4f}",
            f"{difference.paired.low:+.4f} to {difference.paired.high:+.4f}",
            f"{difference.p_holm:.3g}",
            "" if difference.only_a is None else f"{difference.only_a} : {difference.only_b}",
            "" if difference.p_mcnemar is None else f"{difference.p_mcnemar:.3g}",
        )
    if differences:
        say(table)
    for refusal in refusals:
        say(f"not compared: {refusal.name}, {refusal.metric} ({refusal.filter}): {refusal.reason}")
