"""Writes docs/parity.md: what is proved about agreement with lm-evaluation-harness, and on what.

`python -m tests.parity.report` runs both engines on everything that the parity tests run (minutes).
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

from tests.hub import ROOT, serve
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
from tests.parity.commands import CASES, Files, chat_model, run_commands
from tests.parity.compare import MEASURED, TOLERANCE, compare
from tests.parity.half import DTYPES, MODELS, QUESTIONS, measure
from tests.parity.likelihoods import compare_likelihoods
from tests.parity.orders import BOOTSTRAP_ITERS, FEW_ITERS, RARE_SETTINGS, SETTINGS, Setting
from tests.tasks.exported import export_to

DOCUMENT = ROOT / "docs" / "parity.md"
TESTS = ROOT / "tests" / "parity"
SHOWN_USES = 40
"""Features that at least so many of lm-eval's tasks make use of are listed."""


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
        commands = run_commands(hub, home, chat_model(work), work / "commands", exported, index)
    DOCUMENT.write_text("\n".join(document(census, drawn, pairs, commands)), encoding="utf-8")
    wrong = [
        str(difference)
        for pair in pairs
        if pair.compared
        for difference in pair.compared.differences
    ]
    sys.stderr.write(f"{DOCUMENT}: {len(wrong)} differences\n")


def document(
    census: Census,
    drawn: Sequence[Candidate],
    pairs: Sequence[Pair],
    commands: dict[str, tuple[Files, Files]],
) -> Iterator[str]:
    """The lines of the document."""
    yield from introduction()
    yield from recorded(pairs)
    yield from families(pairs)
    yield from the_draw(census, drawn, pairs)
    yield from shared_names()
    yield from measured(commands)
    yield from half_precision()
    yield from put_on_models()
    yield from seeing()
    yield from hearing()
    yield from quantised()
    yield from by_vllm()
    yield from behind_servers()
    yield from failing(pairs)
    yield from by_name(
        "Planted errors",
        "Agreement could be for want of eyes. Each of these tests plants one error in this engine "
        "and asserts that the comparison finds it:",
        "test_planted_errors.py",
    )
    yield from by_name(
        "Quirks",
        "What is odd in lm-evaluation-harness is so in `compat`, and `strict` is free of it where "
        "the quirk would change a number. By the names of their tests:",
        "test_quirks_of_prompts.py",
        "test_quirks_of_scores.py",
    )
    yield from unproved(census, drawn)


def introduction() -> Iterator[str]:
    yield "# Parity with lm-evaluation-harness"
    yield ""
    yield from prose(
        "Written by `python -m tests.parity.report`; do not edit. The tests in `tests/parity/` "
        "assert all of it again in every test run."
    )
    yield from prose(
        f"Compared with lm-evaluation-harness {version('lm_eval')} (transformers "
        f"{version('transformers')}, datasets {version('datasets')}), in the mode `compat`, as a "
        "single process. Both engines read the same task files (of a family of ours, that one "
        "reads what `evalcore export` writes), the same real data from one local Hub and, where a "
        "model is asked, the same weights."
    )
    within = f"within {TOLERANCE:.0e}·max(1, x)"
    yield from table(
        ("", "what must agree", "how far"),
        [
            ("text", "every argument of every request, in order", "to the letter"),
            ("hash", "document, target and all four hashes of lm-eval", "equal"),
            ("response", "what each filter makes of each response", "equal"),
            ("score", "every metric of every document", within),
            ("aggregate", "every aggregate and standard error, of tasks and groups", within),
            ("loglikelihood", "each engine's own, fp32, theirs one by one", "1e-4 + 1e-6·abs(x)"),
            ("greedy text", "each engine's own", "equal"),
        ],
    )


def recorded(pairs: Sequence[Pair]) -> Iterator[str]:
    """Counts by part, under recorded responses."""
    yield "## On recorded responses"
    yield ""
    yield from prose(
        "lm-evaluation-harness is asked first, with an LM whose responses are made from a digest "
        "of the request (some tie, some texts hold the right answer) and written into a table. "
        "This engine, in a process of its own, is served from that table, in which a request that "
        "differs by one letter has no response."
    )
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
    yield from table(header, rows)
    yield from prose(
        f"Settings: {'; '.join(map(described, (*SETTINGS, *RARE_SETTINGS)))}. Both engines "
        f"resample equally often: {BOOTSTRAP_ITERS:,} times in the first setting, {FEW_ITERS} "
        "elsewhere."
    )


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


def families(pairs: Sequence[Pair]) -> Iterator[str]:
    yield "## Families of features"
    yield ""
    yield from prose("For each a task file of this project, in `tests/parity/tasks/`:")
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
    yield from table(("file", "what it makes use of", "runs", "differences"), rows)


def the_draw(census: Census, drawn: Sequence[Candidate], pairs: Sequence[Pair]) -> Iterator[str]:
    wrong: Counter[str] = Counter()
    for pair in pairs:
        if pair.part == DRAWN_PART and pair.compared:
            wrong[pair.name] += len(pair.compared.differences)
    yield "## Task files that nobody chose"
    yield ""
    yield from prose(
        f"Of the {census.tasks:,} leaf tasks of lm-evaluation-harness {len(census.candidates)} "
        "have their data set, configuration and splits among the test data; "
        f"{len(drawn)} of these were drawn by seed {SEED}: in turns one at random from each folder "
        "and kind of request, so that small folders come in whole. All of them:"
    )
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
    yield from table(("folder", "kind", "drawn", "tasks", "differences"), rows)


def shared_names() -> Iterator[str]:
    yield "## Shared names"
    yield ""
    yield from prose(
        "A task, group or tag of ours that has the name of one of lm-evaluation-harness's is the "
        "same task: `tests/tasks/test_shared_names.py` compares all of them, by what both files "
        "ask of rows of our own, what their filters make of made-up answers, and every number. "
        "What it cannot compare it lists by name."
    )


def measured(commands: dict[str, tuple[Files, Files]]) -> Iterator[str]:
    yield "## On models"
    yield ""
    yield from prose(
        "Both engines' commands with the same arguments. A prediction is changed where the "
        "likeliest choice is another one; its margin is what the two choices are apart in "
        "lm-evaluation-harness. Scores made of measured loglikelihoods agree within "
        f"{MEASURED:.0e}·max(1, x)."
    )
    rows = []
    for case in CASES:
        ours, theirs = commands[case.name]
        report = compare_likelihoods(ours.lines, theirs.lines)
        others = len(compare(ours.outcome, theirs.outcome, MEASURED).differences)
        changed = ", ".join(f"{place} ({margin:.1e})" for place, margin in report.changed) or "none"
        counts = (f"{report.compared:,}", f"{report.largest:.1e}", changed)
        rows.append((case.name, case.model, *counts, str(others + len(report.beyond))))
    yield from table(
        (
            *("", "model", "loglikelihoods", "largest difference"),
            *("changed predictions (margin)", "other differences"),
        ),
        rows,
    )
    yield from prose(
        "`tests/parity/test_model.py` compares tiny models of eight architectures, with tokenizers "
        "that add BOS or not and that keep spaces or mark words, request by request; "
        "`tests/parity/test_seq2seq.py` two with an encoder, T5-like and BART-like."
    )


def half_precision() -> Iterator[str]:
    yield "## In half precision"
    yield ""
    yield from prose(
        "lm-evaluation-harness takes the log-softmax and its sum in the precision of the logits "
        "unless `softmax_dtype` says otherwise, and so does `compat`; `strict` takes both in "
        "float32. In bfloat16 a loglikelihood near 12 is a multiple of 1/16 and one near 150 a "
        "whole number: choices tie that are not equally likely, and of those the first is picked. "
        "The precision of the softmax is part of the model's key, so no journal mixes the two."
    )
    yield from prose(
        "One request at a time both engines give the same numbers to the bit. In packs each token "
        "is computed once, in other sums than in a row of its own, and what rounding does with "
        "that is no error of either; in half precision lm-evaluation-harness's own answers differ "
        f"as much between two batch sizes. {QUESTIONS} questions with eight letters and with eight "
        "texts to choose from, demo models; a pick is the likeliest choice:"
    )
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
    yield from table(
        (
            *("model", "dtype", "one by one", "by default, nats (picks)"),
            *("softmax in float32 instead, nats (picks)", "questions that tie"),
        ),
        rows,
    )


def put_on_models() -> Iterator[str]:
    yield "## Adapters, delta weights and GGUF files"
    yield ""
    yield from prose(
        "`tests/parity/test_model.py` asks both engines for loglikelihoods and texts of tiny "
        "models: under an adapter, under one that has tokens added, and under one over a model "
        "with rows that are no token's (both resize the tables); with delta weights, which must be "
        "equal weight by weight; and from GGUF files in F32, F16 and Q8_0. lm-evaluation-harness "
        "takes adapter and delta at the model's revision, draws added rows that an adapter does "
        "not bring at random, adds a delta to tied tables twice, and reads what lies beside a GGUF "
        "file: this engine does not."
    )


def seeing() -> Iterator[str]:
    yield "## Models that see"
    yield ""
    yield from prose(
        "`tests/parity/test_seeing.py` asks `hf-multimodal` of both engines, lm-evaluation-harness "
        "one request at a time, about models like Llava, Idefics3 and Qwen2-VL with their real "
        "processors: prompts and texts are equal, with one image and with several, in plain text "
        "and in conversations, with `interleave`, `image_string`, `convert_img_format`, "
        "`image_width`, `image_height`, `image_max_side` and `max_pixels`, greedy, with beams and "
        "with penalties. Where transformers loads no processor of a model that reads videos, too, "
        "as torchvision is missing, lm-evaluation-harness is given the one that this engine loads. "
        "Beyond `max_images` it leaves images out; this engine refuses."
    )


def hearing() -> Iterator[str]:
    yield "## Models that hear"
    yield ""
    yield from prose(
        "`tests/parity/test_hearing.py` asks `hf-audiolm-qwen` of both engines about a model like "
        "Qwen2-Audio: prompts and texts are equal, with one sound and two, at another rate than "
        "the model's, in plain text and in conversations, greedy, with beams and with penalties. "
        "As it is, lm-evaluation-harness 0.4.13 cannot run it: its register names a class that is "
        "not there, it puts tokens on `cuda` by name, and it gives sounds as `audios`, which "
        "transformers passes over, so that the model would hear nothing. The test mends these "
        "three. It also leaves the stop in a text, where this engine ends before it."
    )


def quantised() -> Iterator[str]:
    yield "## Quantised models"
    yield ""
    yield from prose(
        "`tests/parity/test_quantised.py` quantises a tiny Llama with bitsandbytes (8 bits with "
        "and without a threshold, 4 bits as fp4 and as nf4 with double quantisation) and torchao "
        "(weights in 8 and 4 bits and float8, and 8 bits with activations, by row and by tensor), "
        "saves it and asks both "
        "engines, lm-evaluation-harness one request at a time: loglikelihoods are within 1e-4 + "
        "1e-6·|LL|, greedy flags and generated texts equal; on the CPU, whose kernels are not a "
        "GPU's. LLM.int8() with a threshold, and torchao by tensor, compute a row otherwise in "
        "other company: "
        "lm-evaluation-harness's numbers then depend on its batch size, ours are those of each row "
        "alone."
    )
    yield from prose(
        "lm-evaluation-harness's own `load_in_8bit` and `load_in_4bit` end in a TypeError under "
        "transformers 5, so for weights that are quantised at loading it is given the model that "
        "transformers makes of the same configuration. GPTQ, AWQ, FP8 and compressed-tensors were "
        "never run here, by either engine."
    )


def by_vllm() -> Iterator[str]:
    yield "## vLLM"
    yield ""
    yield from prose(
        "`make test-backends` runs these tests in an environment of their own (vLLM 0.32.0 for "
        "processors), as no other can hold it. `tests/backends/vllm/test_beside_lm_eval.py` asks "
        "`vllm` of both engines for the same requests of a trained llama in float32, three "
        "documents each of ARC and PIQA without shots and of GSM8K with stop strings: "
        "loglikelihoods are within 1e-4 nats, greedy flags and texts equal. Prompts as long as the "
        "model are left out: of those lm-evaluation-harness reads a token less. "
        "`tests/backends/vllm/test_seeing.py` asks `vllm-vlm` of both engines about a model like "
        "Idefics3: prompts and texts are equal, with one image and two, and in conversations."
    )
    yield from prose(
        "The rest is held to transformers instead. `tests/backends/vllm/test_scoring.py` and "
        "`test_writing.py` compare `vllm` with `hf` on a tiny model: loglikelihoods, also token by "
        "token, within 1e-4 + 1e-6·|LL|, greedy flags and texts equal, with contexts that are kept "
        "and without; `test_runs.py` does so for whole runs of three tasks, whose scores must be "
        "equal; `test_adapter.py` under a LoRA adapter; `test_copies.py` holds two copies to one, "
        "within 1e-4. In bfloat16 `test_half_precision.py` allows 1.1 times the distance from the "
        "model in float32 that transformers' own bfloat16 has. vLLM was never run on a GPU here."
    )


def behind_servers() -> Iterator[str]:
    yield "## Servers"
    yield ""
    yield from prose(
        "`tests/backends/servers/test_beside_lm_eval.py` (`make test-backends`) puts a server of "
        "vLLM behind a proxy that counts what is sent, and asks it through `local-completions` and "
        "`local-chat-completions` of both engines: prompts are the same to the token, cut ones and "
        "windows of whole texts too; loglikelihoods within 1e-5 nats; greedy flags and texts "
        "equal, but for half a sign at a text's end, which vLLM's server leaves out of its text; "
        "scores of whole toy tasks within 1e-6 of their size. Equal prompts are sent once here."
    )
    yield from prose(
        "`tests/evalcore/model/servers/test_beside_lm_eval.py` does so in every test run with "
        "small servers of the tests' own: `sglang-generate` (loglikelihoods within 1e-6 of their "
        "size, texts equal; lm-evaluation-harness has the greedy flag the other way round, and it "
        "is not compared) and `anthropic-chat` (texts equal). "
        "`tests/backends/servers/test_vllm_server.py`, `test_chat_of_vllm.py`, "
        "`test_messages_of_vllm.py` and `test_transformers_serve.py` hold what servers say to the "
        "same model run directly by `hf` (loglikelihoods within 1e-4). No service on the internet "
        "was ever asked."
    )


def failing(pairs: Sequence[Pair]) -> Iterator[str]:
    yield "## Where lm-evaluation-harness itself fails"
    yield ""
    for name, why in NOT_RUN_BY_LM_EVAL.items():
        yield f"- `{name}` was left out of the draw: {why}."
    reasons: dict[tuple[str, str], list[str]] = defaultdict(list)
    for pair in pairs:
        if "failed" in pair.theirs:
            reasons[pair.name, str(pair.theirs["failed"])].append(pair.setting)
    for (name, why), settings in reasons.items():
        yield f"- `{name}` ({'; '.join(settings)}): {why}. This engine refuses it, too."
    yield ""


def by_name(title: str, about: str, *files: str) -> Iterator[str]:
    """A list of the tests of some files, as sentences."""
    yield f"## {title}"
    yield ""
    yield from prose(about)
    for file in files:
        text = (TESTS / file).read_text(encoding="utf-8")
        for name in re.findall(r"^def test_(\w+)\(", text, re.MULTILINE):
            yield f"- {name.replace('_', ' ')}"
    yield ""


def unproved(census: Census, drawn: Sequence[Candidate]) -> Iterator[str]:
    """By feature: how many of lm-eval's tasks use it, have data here, and were run."""
    yield "## What is unproved for want of data"
    yield ""
    yield from prose(
        "A feature counts as proved on lm-evaluation-harness's own files only if a drawn file "
        f"makes use of it. By feature, those that at least {SHOWN_USES} of its tasks make use of "
        "and the rarer ones that are kinds of task:"
    )
    here, run = _count(census.candidates), _count(drawn)
    rows = [
        (
            feature,
            *(f"{count:,}" for count in (uses, here[feature], run[feature])),
            "" if run[feature] else INSTEAD.get(feature, "only by a file of ours, if above"),
        )
        for feature, uses in sorted(census.uses.items(), key=lambda use: (-use[1], use[0]))
        if uses >= SHOWN_USES or feature in KINDS_OF_TASK
    ]
    yield from table(("feature", "its tasks", "with data here", "drawn", ""), rows)
    yield from prose(
        "`--samples` out of order is not compared: lm-evaluation-harness then gives documents "
        "wrong numbers. Sampled text is not compared: it depends on the order of the random "
        "numbers of a batch. Graphics processors, several processes and other backends are not "
        "compared here."
    )


def prose(text: str) -> Iterator[str]:
    yield from textwrap.wrap(text, 100, break_on_hyphens=False, break_long_words=False)
    yield ""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{' --- |' * len(header)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


KINDS_OF_TASK = ("class", "custom_dataset", "unsafe_code", "output_type: loglikelihood", "repeats")
INSTEAD = {
    "a metric of the package `evaluate`": "unproved: its scripts need the network in lm-eval",
    "doc_to_image": "prompts and images, by tests/evalcore/task/asking/test_images.py",
    "doc_to_audio": "prompts and sounds, by tests/evalcore/task/asking/test_sounds.py",
    "unsafe_code": "unproved: its metric is a script that needs the network in lm-eval",
}


def _count(candidates: Iterable[Candidate]) -> Counter[str]:
    return Counter(feature for candidate in candidates for feature in candidate.features)


if __name__ == "__main__":
    main()
