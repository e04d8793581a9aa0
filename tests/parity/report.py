"""Writes docs/parity.md: what is proved about agreement with lm-evaluation-harness, and on what.

`python -m tests.parity.report` runs both engines on everything that the parity tests run (minutes)
and puts the figures into `report.md`, which has the words.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from tests.hub import ROOT, serve
from tests.parity.beside_hf import DTYPES, MODELS, QUESTIONS, measure
from tests.parity.both import (
    DRAWN_PART,
    FAMILIES,
    FAMILY_PART,
    NOT_RUN_BY_LM_EVAL,
    Pair,
    census_of,
    drawn_of,
    parts_of,
    run_both,
)
from tests.parity.census import SEED, Candidate, Census
from tests.parity.commands import CASES, Files, run_commands
from tests.parity.compare import MEASURED, TOLERANCE, compare, compare_likelihoods
from tests.parity.orders import BOOTSTRAP_ITERS, FEW_ITERS, RARE_SETTINGS, SETTINGS, Setting
from tests.tasks.exported import export_to

DOCUMENT = ROOT / "docs" / "parity.md"
TESTS = ROOT / "tests" / "parity"
TEMPLATE = TESTS / "report.md"


def main() -> None:
    data = Path(os.environ.get("PLUMBLINE_TEST_DATA", ROOT.parent / "shared" / "data"))
    census = census_of(data)
    drawn = drawn_of(census)
    with (
        tempfile.TemporaryDirectory() as made,
        serve([ROOT / "demo" / "content", data / "hub"]) as hub,
    ):
        work = Path(made)
        exported = export_to(work / "exported")
        home, index = work / "home", work / "index"
        pairs = run_both(hub, home, work / "both", parts_of(drawn, exported), index)
        commands = run_commands(hub, home, work / "commands", exported=exported, index=index)
    DOCUMENT.write_text(render(figures(census, drawn, pairs, commands)), encoding="utf-8")
    wrong = sum(len(pair.compared.differences) for pair in pairs if pair.compared)
    sys.stderr.write(f"{DOCUMENT}: {wrong} differences\n")


def render(values: Mapping[str, str]) -> str:
    """The document: the template's paragraphs with these figures."""
    paragraphs = TEMPLATE.read_text(encoding="utf-8").rstrip().split("\n\n")
    return "\n\n".join(_wrapped(paragraph.format(**values)) for paragraph in paragraphs) + "\n"


def _wrapped(paragraph: str) -> str:
    if paragraph.startswith(("#", "|", "-")):
        return paragraph
    lines = textwrap.wrap(paragraph, 100, break_on_hyphens=False, break_long_words=False)
    return "\n".join(lines)


def figures(
    census: Census,
    drawn: Sequence[Candidate],
    pairs: Sequence[Pair],
    commands: dict[str, tuple[Files, Files]],
) -> dict[str, str]:
    """What the template's names stand for."""
    return {
        **{package: version(package) for package in ("lm_eval", "transformers", "datasets")},
        "tolerance": f"{TOLERANCE:.0e}",
        "measured_tolerance": f"{MEASURED:.0e}",
        "recorded": recorded(pairs),
        "settings": "; ".join(map(described, (*SETTINGS, *RARE_SETTINGS))),
        "bootstrap_iters": f"{BOOTSTRAP_ITERS:,}",
        "few_iters": str(FEW_ITERS),
        "families": families(pairs),
        "all_tasks": f"{census.tasks:,}",
        "candidates": str(len(census.candidates)),
        "drawn_count": str(len(drawn)),
        "seed": str(SEED),
        "drawn": the_draw(census, drawn, pairs),
        "measured": measured(commands),
        "questions": str(QUESTIONS),
        "half": half_precision(),
        "failing": failing(pairs),
        **lists_of_tests(),
    }


def recorded(pairs: Sequence[Pair]) -> str:
    """Counts by part, under recorded responses."""
    rows = []
    for part in dict.fromkeys(pair.part for pair in pairs):
        own = [pair for pair in pairs if pair.part == part]
        done = [pair.compared for pair in own if pair.compared]
        counts = [
            len({pair.name for pair in own}),
            len(own),
            sum(compared.documents for compared in done),
            sum(compared.requests for compared in done),
            sum(compared.numbers for compared in done),
            sum(len(compared.differences) for compared in done),
        ]
        rows.append((part, *(f"{count:,}" for count in counts)))
    header = ("", "names", "runs", "documents", "requests", "numbers", "differences")
    return table(header, rows)


def described(setting: Setting) -> str:
    shots = (
        "the task's own examples" if setting.num_fewshot is None else f"{setting.num_fewshot}-shot"
    )
    parts = [
        shots,
        f"{setting.limit:g} documents" if setting.limit and setting.limit >= 1 else "",
        f"{setting.limit:.0%} of the documents" if setting.limit and setting.limit < 1 else "",
        f"rows {', '.join(map(str, setting.samples))}" if setting.samples else "",
        "system instruction" if setting.system_instruction else "",
        "chat template" if setting.apply_chat_template else "",
        "examples as turns" if setting.fewshot_as_multiturn else "",
        "generation arguments" if setting.gen_kwargs else "",
        "no bootstrap" if setting.bootstrap_iters == 0 else "",
        "predictions only" if setting.predict_only else "",
    ]
    return f"*{setting.name}* ({', '.join(filter(None, parts))})"


def families(pairs: Sequence[Pair]) -> str:
    rows = []
    for path in sorted(FAMILIES.glob("*.yaml")):
        own = [
            pair.compared
            for pair in pairs
            if pair.part == FAMILY_PART and pair.name == f"parity_{path.stem}" and pair.compared
        ]
        about = path.read_text(encoding="utf-8").splitlines()[0]
        if own and about.startswith("# "):
            wrong = sum(len(pair.differences) for pair in own)
            rows.append((f"`{path.name}`", about[2:].rstrip("."), str(len(own)), str(wrong)))
    return table(("file", "uses", "runs", "differences"), rows)


def the_draw(census: Census, drawn: Sequence[Candidate], pairs: Sequence[Pair]) -> str:
    wrong: Counter[str] = Counter()
    for pair in pairs:
        if pair.part == DRAWN_PART and pair.compared:
            wrong[pair.name] += len(pair.compared.differences)
    here = Counter((candidate.folder, candidate.output_type) for candidate in census.candidates)
    strata: dict[tuple[str, str], list[str]] = defaultdict(list)
    for candidate in drawn:
        strata[candidate.folder, candidate.output_type].append(candidate.name)
    rows = [
        (
            folder,
            kind,
            f"{len(names)} of {here[folder, kind]}",
            ", ".join(f"`{name}`" for name in sorted(names)),
            str(sum(wrong[name] for name in names)),
        )
        for (folder, kind), names in sorted(strata.items())
    ]
    return table(("folder", "kind", "drawn", "tasks", "differences"), rows)


def measured(commands: dict[str, tuple[Files, Files]]) -> str:
    rows = []
    for case in CASES:
        ours, theirs = commands[case.name]
        report = compare_likelihoods(ours.lines, theirs.lines)
        others = len(compare(ours.outcome, theirs.outcome, MEASURED).differences)
        changed = ", ".join(f"{place} ({margin:.1e})" for place, margin in report.changed) or "none"
        counts = (f"{report.compared:,}", f"{report.largest:.1e}", changed)
        rows.append((case.name, case.model, *counts, str(others + len(report.beyond))))
    return table(
        (
            *("", "model", "loglikelihoods", "largest difference"),
            *("changed predictions (margin)", "other differences"),
        ),
        rows,
    )


def half_precision() -> str:
    rows = []
    for model in MODELS:
        for dtype in DTYPES:
            found = measure(model, dtype)
            rows.append(
                (
                    model,
                    dtype,
                    f"{found.alone:.1e}",
                    f"{found.default:.2f} ({found.picks_by_default})",
                    f"{found.softmax:.2f} ({found.picks_by_softmax})",
                    str(found.ties),
                )
            )
    return table(
        (
            *("model", "dtype", "one by one", "by default, nats (picks)"),
            *("softmax in float32 instead, nats (picks)", "questions that tie"),
        ),
        rows,
    )


def failing(pairs: Sequence[Pair]) -> str:
    lines = [
        f"- `{name}` was left out of the draw: {why}." for name, why in NOT_RUN_BY_LM_EVAL.items()
    ]
    reasons: dict[tuple[str, str], list[str]] = defaultdict(list)
    for pair in pairs:
        if "failed" in pair.theirs:
            reasons[pair.name, str(pair.theirs["failed"])].append(pair.setting)
    for (name, why), settings in reasons.items():
        lines.append(f"- `{name}` ({'; '.join(settings)}): {why}. This engine refuses it, too.")
    return "\n".join(lines)


def lists_of_tests() -> dict[str, str]:
    """The names of tests as sentences: of errors that are planted, and of quirks."""
    return {
        "planted": sentences(r"\w+_found", "test_same_numbers.py"),
        "quirks": sentences(r"\w+", "test_quirks.py"),
    }


def sentences(name: str, *files: str) -> str:
    texts = [(TESTS / file).read_text(encoding="utf-8") for file in files]
    names = [
        match
        for text in texts
        for match in re.findall(rf"^def test_({name})\(", text, re.MULTILINE)
    ]
    return "\n".join(f"- {name.replace('_', ' ')}" for name in names)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(header)} |", f"|{' --- |' * len(header)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


if __name__ == "__main__":
    main()
