"""Models, suites and runs for tests of pages, made through the project's own queue and record.

A finished run has a real record and a real samples file in the artifact store; its numbers are
those of its samples.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from math import log
from pathlib import Path
from typing import Any
from uuid import UUID

from django.utils import timezone

from evalcore.digest import digest_of
from evalcore.engine import VERSION
from evalcore.keys import comparability_key
from evalcore.lengths import Lengths
from evalcore.record import ResultRow, RunRecord, SampleFile, read_samples, write_samples
from evalcore.stats import interval, standard_error
from leaderboard.models import HubModel, Run, Submission, Suite, SuiteEntry, TaskVersion, Variant
from leaderboard.models.run import Artifact, Worker
from leaderboard.queue import claims
from leaderboard.samples import store as artifacts
from leaderboard.snapshot import OWN, Board, published

LETTERS = "ABCD"
THINGS = ("brass bob", "plumb line", "level", "square", "compass", "rule", "chisel", "mallet")
PARTS = ("tools", "materials", "measures")


def make_suite(
    name: str = "demo",
    *,
    benchmarks: Sequence[str] = ("facts", "sums"),
    styles: Sequence[str] = ("cloze", "mmlu", "hybrid"),
    notice: str = "",
    version: str = "1.0",
) -> Suite:
    """A suite whose benchmarks are asked in each of the styles; the first is their own."""
    suite = Suite.objects.create(
        name=name,
        version=version,
        title="Workshop" if name == "demo" else name.title(),
        description="Questions about tools.",
        notice=notice,
        digest=digest_of([name, version]),
    )
    position = 0
    for benchmark in benchmarks:
        for style in styles:
            task = task_version(benchmark, style)
            SuiteEntry.objects.create(
                suite=suite,
                position=position,
                benchmark=benchmark,
                title=benchmark.replace("_", " ").title(),
                style=style,
                own=style == styles[0],
                task=task,
                shots=0 if style == "cloze" else 2,
                metric="acc",
                run_key=digest_of([task.name, task.version, 0 if style == "cloze" else 2]),
            )
            position += 1
    return suite


def task_version(benchmark: str, style: str, version: str = "1.0") -> TaskVersion:
    name = benchmark if style == "cloze" else f"{benchmark}_{style}"
    task, _ = TaskVersion.objects.get_or_create(
        name=name,
        version=version,
        defaults={
            "benchmark": benchmark,
            "style": style,
            "config_digest": digest_of([name, version]),
            "primary_metric": "acc",
            "chance": 0.25,
            "dataset": "workshop/questions",
        },
    )
    return task


def make_variant(
    repo_id: str = "workshop/heron-7b",
    *,
    dtype: str = "float32",
    model_type: str = "llama",
    parameters: int = 410_000,
    commit: str = "",
    licence: str = "apache-2.0",
    backend: str = "hf",
) -> Variant:
    hub_model, _ = HubModel.objects.get_or_create(repo_id=repo_id)
    return Variant.objects.create(
        hub_model=hub_model,
        commit=commit or digest_of(repo_id)[:40],
        dtype=dtype,
        architecture=f"{model_type.title()}ForCausalLM",
        model_type=model_type,
        parameters=parameters,
        licence=licence,
        backend=backend,
    )


def make_worker(
    name: str = "bench-1",
    *,
    memory_bytes: int = 64 * 10**9,
    dtypes: Sequence[str] = ("float32", "bfloat16", "float16"),
    backend: str = "hf",
) -> Worker:
    now = timezone.now()
    worker, _ = Worker.objects.update_or_create(
        name=name,
        defaults={
            "device": "cpu",
            "memory_bytes": memory_bytes,
            "dtypes": list(dtypes),
            "backend": backend,
            "started": now,
            "seen": now,
        },
    )
    return worker


def make_submission(variant: Variant, suite: Suite, **fields: Any) -> Submission:
    """A submission with a queued run for each column of the suite."""
    submission = Submission.objects.create(
        variant=variant, suite=suite, requested_revision="main", **fields
    )
    runs = [queued_run(variant, entry) for entry in suite.entries.all()]
    submission.runs.set(runs)
    return submission


def queued_run(variant: Variant, entry: SuiteEntry, **fields: Any) -> Run:
    run = Run(
        variant=variant,
        task=entry.task,
        shots=entry.shots,
        run_key=entry.run_key,
        needed_bytes=variant.needed_bytes,
    )
    for name, value in fields.items():
        setattr(run, name, value)
    (run,) = claims.enqueue([run], by="a visitor")
    return run


@dataclass
class Claimed:
    """A run that a worker holds."""

    run: Run
    claim: claims.Claim

    def release_companions(self) -> Run:
        claims.give_back(self.claim.token, why="a test needs one run only")
        self.run.refresh_from_db()
        return self.run


def claimed(run: Run, worker: Worker | None = None) -> Claimed:
    """Claim this very run, whatever else waits."""
    Run.objects.filter(pk=run.pk).update(priority=1000)
    backend = run.variant.backend
    name = "bench-1" if backend == "hf" else f"bench-{backend}"
    claim = claims.claim_next(worker or make_worker(name, backend=backend))
    assert claim is not None
    run.refresh_from_db()
    assert run.lease_token == claim.token
    return Claimed(run, claim)


def start(run: Run, done: int, total: int, *, phase: str = "evaluate") -> Run:
    """The run is running and so far; its companions wait."""
    held = claimed(run)
    others = Run.objects.filter(lease_token=held.claim.token).exclude(pk=run.pk)
    others.update(state="queued", lease_token=None, lease_until=None, attempt=0, worker=None)
    claims.report(held.claim.token, run, phase=phase, done=done, total=total)
    run.refresh_from_db()
    return run


def fail(run: Run, error_class: str, message: str, log_tail: str = "") -> Run:
    held = claimed(run)
    claims.fail(held.claim.token, run, error_class=error_class, message=message, log_tail=log_tail)
    return held.release_companions()


@dataclass
class Answers:
    """How a model answers: `skill` is the share that it gets right, by a fixed draw."""

    skill: float = 0.6
    n: int = 40
    seed: int = 0
    questions: Sequence[str] = ()
    choices: Sequence[str] = ()
    cut: int = 0
    """Questions of which every prompt lost its beginning; without any, nothing is counted, as in
    runs of long ago."""
    extra: dict[str, Any] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)
    """Fields that this run's record has otherwise."""


@dataclass(frozen=True)
class Sheet:
    """What a model answered: samples, and the file of them."""

    samples: Sequence[dict[str, Any]]
    file: SampleFile
    content: bytes


SHEETS_KEPT = 64
_sheets: dict[str, Sheet] = {}


def sheet_of(run: Run, answers: Answers) -> Sheet:
    """Made once for all tests that want these: by task, shots and draw."""
    task = run.task
    key = repr((task.name, task.benchmark, task.style, run.shots, answers))
    if key not in _sheets:
        if len(_sheets) == SHEETS_KEPT:
            _sheets.clear()
        samples = [_sample(run, number, answers) for number in range(answers.n)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "samples.parquet")
            file = write_samples(path, samples)
            _sheets[key] = Sheet(samples, file, path.read_bytes())
    return _sheets[key]


def finish(run: Run, answers: Answers | None = None, **options: Any) -> Run:
    """Evaluate the run as a worker would, with made-up answers, and store record and samples."""
    held = claimed(run)
    complete(held, answers or Answers(**options))
    return held.release_companions()


def complete(held: Claimed, answers: Answers) -> None:
    """Finish one run of a claim; the others of it wait for theirs."""
    run, token = held.run, held.claim.token
    sheet = sheet_of(run, answers)
    record = replace(_record(run, sheet.samples), **answers.record)
    record.samples.__dict__.update(sheet.file.__dict__)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "record.json")
        record.write(path)
        stored = [
            artifacts.store(path, kind=Artifact.Kind.RECORD),
            artifacts.store_open(
                BytesIO(sheet.content), kind=Artifact.Kind.SAMPLES, rows=sheet.file.rows
            ),
        ]
    claims.report(token, run, phase="evaluate", done=0, total=4 * answers.n)
    claims.complete(token, run, record, stored)


def evaluated(
    repo_id: str,
    suite: Suite,
    skill: dict[str, float],
    *,
    n: int = 40,
    cut: int = 0,
    **fields: Any,
) -> Variant:
    """A variant with a finished run in each column; `skill` by style."""
    variant = make_variant(repo_id, **fields)
    submission = make_submission(variant, suite)
    taken: dict[UUID, Claimed] = {}
    for number, run in enumerate(submission.runs.order_by("task__name")):
        if run.pk not in taken:
            claim = claimed(run).claim
            taken |= {own.pk: Claimed(own, claim) for own in claim.runs}
        held, seed = taken.pop(run.pk), hash_of(repo_id) + number
        complete(held, Answers(skill=skill[held.run.task.style], n=n, seed=seed, cut=cut))
    for held in taken.values():  # of other suites
        held.release_companions()
    return variant


def publish(suite: Suite) -> None:
    """Build the suite's boards, as the background worker does within seconds."""
    for style in published.styles_of(suite):
        published.build(suite, style)


def board(suite: Suite, style: str = OWN) -> Board:
    """The suite's newest board."""
    newest = published.newest(suite, style)
    assert newest is not None
    return newest


def built(suite: Suite, style: str = OWN) -> Board:
    """One of the suite's boards, built anew."""
    published.build(suite, style)
    return board(suite, style)


def samples_path(run: Run) -> Path:
    """Where the run's samples are stored."""
    return artifacts.path_of(run.artifacts.get(kind=Artifact.Kind.SAMPLES).sha256)


def samples_of(run: Run) -> list[dict[str, Any]]:
    """What was asked and answered in the run, question by question."""
    return list(read_samples(samples_path(run)))


def hash_of(text: str) -> int:
    return int(digest_of(text)[:8], 16)


def _sample(run: Run, number: int, answers: Answers) -> dict[str, Any]:
    # Every model and style is asked the same questions; only the answers differ.
    asked = random.Random(f"{run.task.benchmark}/{number}")
    thing = asked.choice(THINGS)
    question = (
        answers.questions[number % len(answers.questions)]
        if answers.questions
        else f"Which tool number {number} hangs beside the {thing}?"
    )
    choices = list(answers.choices) or [f"{word} {number}" for word in asked.sample(THINGS, 4)]
    gold = asked.randrange(4)
    drawn = random.Random(f"{answers.seed}/{run.task.name}/{number}")
    right = drawn.random() < answers.skill
    pick = gold if right else drawn.choice([place for place in range(4) if place != gold])
    values = [log(0.02 + 0.3 * drawn.random()) for _ in choices]
    values[pick] = log(0.4 + 0.5 * drawn.random())
    listed = "\n".join(f"{letter}. {text}" for letter, text in zip(LETTERS, choices, strict=True))
    body = f"Question: {question}\nAnswer:"
    if run.task.style != "cloze":
        body = f"{question}\n{listed}\nAnswer:"
    shots = "".join(
        f"Question: Worked example {shot}\nAnswer: {THINGS[shot]}\n\n" for shot in range(run.shots)
    )
    letters = run.task.style == "mmlu"
    continuations = [f" {text}" for text in (LETTERS if letters else choices)]
    doc = {"id": f"q{number}", "question": question, "choices": choices, "answer": gold}
    return {
        "schema_version": 1,
        "task": run.task.name,
        "split": "test",
        "doc_id": number,
        "doc_digest": digest_of(doc),
        "doc": json.dumps(doc, ensure_ascii=False),
        "cluster": None,
        "subset": PARTS[number % len(PARTS)],
        "shots": [{"split": "train", "row": shot} for shot in range(run.shots)],
        "prompt": shots + body,
        "choices": choices,
        "gold": [gold],
        "target": continuations[gold],
        "pick": pick,
        "correct": float(right),
        "arguments": [
            {"context": shots + body, "continuation": continuation}
            for continuation in continuations
        ],
        "responses": [
            {
                "key": digest_of([number, place]),
                "kind": "loglikelihood",
                "loglikelihood": value,
                "is_greedy": place == pick,
                "token_ids": [place],
                "token_logprobs": [value],
                "n_context_tokens": len(shots + body) // 4,
                "n_truncated": 3 if number < answers.cut else 0,
                "text": None,
                "finish_reason": None,
                "path": "plain",
            }
            for place, value in enumerate(values)
        ],
        "scores": [
            {"metric": "acc", "filter": "none", "value": float(right)},
            {"metric": "acc_norm", "filter": "none", "value": float(right)},
        ],
        "why_null": None,
        **answers.extra,
    }


def _record(run: Run, samples: Sequence[dict[str, Any]]) -> RunRecord:
    docs_digest = digest_of([sample["doc_digest"] for sample in samples])
    parts = {part: [s for s in samples if s["subset"] == part] for part in PARTS}
    rows = [_result(run, "", samples, docs_digest, metric) for metric in ("acc", "acc_norm")]
    rows += [
        _result(run, part, asked, docs_digest, "acc")
        for part, asked in parts.items()
        if len(asked) > 1
    ]
    return RunRecord.of(
        {
            "schema_version": 1,
            "task": run.task.name,
            "version": run.task.version,
            "benchmark": run.task.benchmark,
            "style": run.task.style,
            "primary_metric": "acc",
            "chance": run.task.chance,
            "shots": run.shots,
            "shot_rule": "per-document" if run.shots else "none",
            "shot_seed": 1234 if run.shots else None,
            "mode": run.mode,
            "limit": None,
            "config_digest": run.task.config_digest,
            "docs_digest": docs_digest,
            "run_key": run.run_key,
            "results": [row.as_json() for row in rows],
            "samples": {"file": "", "sha256": "", "rows": len(samples)},
            "engine": {"name": "evalcore", "version": VERSION, "scoring_version": 1},
            "model": {
                "repository": run.variant.hub_model.repo_id,
                "commit": run.variant.commit,
                "dtype": run.variant.dtype,
                "tokenizer_digest": digest_of("tokenizer"),
                "bos_policy": "tokenizer",
                "max_length": 512,
                **_computed_by(run),
            },
            "datasets": {run.task.name: {"path": "workshop/questions", "commit": "c" * 40}},
            "settings": {"mode": run.mode, "num_fewshot": run.shots, "fewshot_seed": 1234},
            "environment": {
                "python": "3.11",
                "platform": "Linux-6.1-x86_64",
                "device": "cpu",
                "torch": "2.9.1",
                "transformers": "5.23.0",
            },
            "requests": {"total": 4 * len(samples), "journalled": 0, "truncated": 0},
            "paths": {"plain": 4 * len(samples)},
            "started": timezone.now().isoformat(timespec="seconds"),
            "seconds": 1.5,
            "configs": {},
        }
    )


def _computed_by(run: Run) -> dict[str, Any]:
    backend = run.variant.backend
    return {} if backend == "hf" else {"computed_by": {"name": backend, "version": "0.32.0"}}


def _result(
    run: Run, subset: str, samples: Sequence[dict[str, Any]], docs_digest: str, metric: str
) -> ResultRow:
    scores = [sample["correct"] for sample in samples]
    bounds = interval(scores)
    counted = Lengths.of(response for sample in samples for response in sample["responses"])
    return ResultRow(
        task=run.task.name,
        subset=subset,
        metric=metric,
        filter="none",
        value=bounds.value,
        stderr=standard_error(scores),
        low=max(bounds.low, 0.0),
        high=min(bounds.high, 1.0),
        interval="normal",
        n=len(scores),
        lengths=counted if counted.told else None,
        higher_is_better=True,
        comparability_key=comparability_key(
            run.run_key, docs_digest=docs_digest, metric=metric, arguments={}, filter="none"
        ),
    )
