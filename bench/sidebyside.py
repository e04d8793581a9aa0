"""One workload, one model, two engines in turn: seconds, differences, memory, share of ideal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from bench.engines import Answer, Ask
from bench.equality import Difference, difference
from bench.ideal import Work, work_of
from bench.models import Model, save_config, save_tokenizer
from bench.profiling import Profile
from bench.texts import running_text, texts
from bench.worker import Process, WorkFailed
from bench.workloads import Whole, Workload


@dataclass(frozen=True)
class Conditions:
    """Of a whole run."""

    device: str
    dtype: str
    rounds: int
    batch_sizes: tuple[int, ...]
    """Rows of a batch that lm-evaluation-harness is tried with; the quickest counts."""
    path: str = "auto"
    threads: int = 1
    """Of each engine: where a GPU computes, tokenising is all that they are for."""
    references: int = 1
    """Processes that share the reference's requests, which are fed one at a time."""
    reference_threads: int = 1
    """Of each of them."""


@dataclass(frozen=True)
class Side:
    """One engine at one workload."""

    seconds: tuple[float, ...]
    """Of each round."""
    memory: float | None
    """Bytes at the highest peak above the loaded model."""
    difference: Difference

    @property
    def typical(self) -> float:
        return median(self.seconds)


@dataclass(frozen=True)
class Row:
    """What a line of the page says."""

    workload: str
    title: str
    model: str
    documents: int
    requests: int
    fed: int
    """Tokens of all requests, each fed on its own."""
    characters: int | None
    """Of the requests' texts; None where the engines write text of their own."""
    unique: int
    """Tokens that have to be computed at least."""
    real: bool
    """Whether the texts are benchmark rows."""
    batch: int
    """Rows of a batch at which lm-evaluation-harness was quickest."""
    theirs: Side
    ours: Side
    paths: tuple[str, ...]
    """How evalcore computed it."""
    building: float | None
    """CPU seconds of making the requests from documents, not in the seconds of either side; None
    where both engines start from the task files and make them within their seconds."""
    encoding: float | None
    """CPU seconds of tokenising, of ours; None where that is not known."""
    check: float
    """Seconds that evalcore takes once for a loaded model, to wrap it and to learn how it can be
    computed; not in its time but where it starts from the task files."""
    operations: float
    """Floating-point operations of the least work."""
    peak: float
    """Of the matrix product in the same run, operations a second."""

    @property
    def ratio(self) -> float:
        return self.theirs.typical / self.ours.typical

    @property
    def ratio_with_check(self) -> float:
        return self.theirs.typical / (self.ours.typical + self.check)

    @property
    def of_ideal(self) -> float:
        """The seconds of the least work at the matrix product's speed, over ours."""
        return self.operations / self.peak / self.ours.typical

    @property
    def text_share(self) -> float | None:
        """Of making requests and tokenising, in all that evalcore takes."""
        if self.building is None or self.encoding is None:
            return None
        return (self.building + self.encoding) / (self.building + self.ours.typical)


class Pair:
    """Both engines and the reference, loaded with one model."""

    def __init__(self, model: Model, folder: Path, conditions: Conditions) -> None:
        """`folder` keeps the model and is made if it is not there."""
        if not folder.is_dir():
            folder.mkdir(parents=True)
            save_tokenizer(model, running_text(), folder)
            save_config(model, folder)
        self.model, self.conditions = model, conditions
        self.batches: dict[str, int] = {}
        """By workload, what `batch_of` found for it, here or with a model of this vocabulary."""
        device, dtype = conditions.device, conditions.dtype

        def process(engine: str, **options: Any) -> Process:
            return Process(engine, folder, device=device, dtype=dtype, **options)

        self.ours = process("ours", path=conditions.path, threads=conditions.threads)
        self.theirs = process("theirs", threads=conditions.threads)
        self._references = [
            process("reference", threads=conditions.reference_threads, number=number)
            for number in range(conditions.references)
        ]
        facts = self.ours.ask("facts")
        self.parameters, self.gpu = int(facts["parameters"]), facts["gpu"]

    def end(self) -> None:
        for process in (self.ours, self.theirs, *self._references):
            process.end()

    def asks(self, workload: Workload, folder: Path) -> tuple[list[Ask], float]:
        """The workload's requests, and the CPU seconds of making them.

        The reference makes them: what that loads is not in the memory of either engine.
        """
        workload.write(folder)
        built = self._references[0].ask("build", folder=str(folder), task=workload.name)
        return [Ask(**ask) for ask in built["asks"]], float(built["seconds"])

    def batch_of(self, asks: Sequence[Ask], window: int | None) -> int:
        """At how many rows lm-evaluation-harness is quickest, tried on a third of the documents."""
        last = asks[-1].document
        trial = [ask for ask in asks if ask.document <= last // 3]
        sizes = self.conditions.batch_sizes
        sizes = tuple(size for size in sizes if size <= max(len(trial), min(sizes)))
        if len(sizes) == 1:
            return sizes[0]
        taken = {}
        for size in sizes:
            try:
                done = self.run_theirs(trial, window, size)
            except WorkFailed:
                continue  # out of memory
            taken[size] = done["cost"]["seconds"]
        return min(taken, key=lambda size: taken[size])

    def referred(self, asks: Sequence[Ask], window: int | None) -> tuple[list[Answer], Work]:
        """The reference's answers, and the least work behind them."""
        n_documents, n = asks[-1].document + 1, len(self._references)
        parts = [[ask for ask in asks if ask.document * n // n_documents == i] for i in range(n)]

        def of(process: Process, part: Sequence[Ask]) -> Any:
            if not part:
                return {"answers": [], "fed": []}
            return process.ask("refer", asks=_plain(part), window=window)

        with ThreadPoolExecutor(n) as pool:
            told = list(pool.map(of, self._references, parts))
        fed = [entry for part in told for entry in part["fed"]]
        work = work_of([sequence for sequence, _ in fed], [count for _, count in fed])
        return [Answer(**answer) for part in told for answer in part["answers"]], work

    def run_theirs(self, asks: Sequence[Ask], window: int | None, rows: int) -> Any:
        return self.theirs.ask("answer", asks=_plain(asks), window=window, rows=rows)

    def run_ours(self, asks: Sequence[Ask], window: int | None) -> Any:
        return self.ours.ask("answer", asks=_plain(asks), window=window, rows=None)

    def profile(self, workload: Workload, folder: Path) -> Profile:
        """Where evalcore's time goes."""
        asks, _ = self.asks(workload, folder)
        taken = seconds_of(self.run_ours(asks, workload.window))
        shares = self.ours.ask("profile", asks=_plain(asks), window=workload.window)
        return Profile(workload.title, self.model.name, taken, shares)

    def compare(self, workload: Workload, folder: Path) -> Row:
        """From requests in text to answers. Raises WorkFailed where an engine cannot do it."""
        asks, building = self.asks(workload, folder)
        if workload.name not in self.batches:
            self.batches[workload.name] = self.batch_of(asks, workload.window)
        batch = self.batches[workload.name]
        return self._row(
            workload,
            asks,
            batch,
            lambda: self.run_theirs(asks, workload.window, batch),
            lambda: self.run_ours(asks, workload.window),
            building,
        )

    def compare_whole(self, whole: Whole, folder: Path) -> Row:
        """From task files to scores, through each engine's public function."""
        workloads = whole.workloads
        asks: list[Ask] = []
        for one in workloads:
            first = asks[-1].document + 1 if asks else 0
            found, _ = self.asks(one, folder / one.name)
            asks += [replace(ask, document=ask.document + first) for ask in found]
        batch = self.batch_of(asks, None)
        order = {"folder": str(folder), "tasks": [workload.name for workload in workloads]}
        return self._row(
            replace(workloads[0], name=whole.name, title=whole.title),
            asks,
            batch,
            lambda: self.theirs.ask("evaluate", **order, rows=batch),
            lambda: self.ours.ask("evaluate", **order, rows=None),
            None,
        )

    def _row(
        self,
        workload: Workload,
        asks: Sequence[Ask],
        batch: int,
        theirs: Callable[[], Any],
        ours: Callable[[], Any],
        building: float | None,
    ) -> Row:
        """Alternates the engines."""
        right, work = self.referred(asks, workload.window)
        peaks, of_theirs, of_ours = [], [], []
        for _ in range(self.conditions.rounds):
            peaks.append(self.ours.ask("peak"))
            of_theirs.append(theirs())
            of_ours.append(ours())
        phases = [one["phases"] for one in of_ours if "phases" in one]
        return Row(
            workload=workload.name,
            title=workload.title,
            model=self.model.name,
            documents=asks[-1].document + 1,
            requests=len(asks),
            fed=work.fed,
            characters=None
            if workload.kind == "generate_until"
            else sum(len(ask.context) + len(ask.continuation) for ask in asks),
            unique=work.unique,
            real=texts(workload.data).real,
            batch=batch,
            theirs=_side(of_theirs, asks, right),
            ours=_side(of_ours, asks, right),
            paths=tuple(of_ours[-1]["paths"]),
            building=building,
            encoding=median(phase["encoding"] for phase in phases) if phases else None,
            check=median(phase["loading"] + phase["first"] - phase["again"] for phase in phases)
            if phases
            else 0.0,
            operations=self.ours.ask("operations", work=asdict(work)),
            peak=max(peaks),
        )


@contextmanager
def loaded(model: Model, folder: Path, conditions: Conditions) -> Iterator[Pair]:
    pair = Pair(model, folder, conditions)
    try:
        yield pair
    finally:
        pair.end()


def _plain(asks: Sequence[Ask]) -> list[Mapping[str, Any]]:
    return [vars(ask) for ask in asks]


def seconds_of(run: Mapping[str, Any]) -> float:
    """Of an engine's answer: without the check of the model, where that is told apart."""
    if phases := run.get("phases"):
        return float(phases["encoding"] + phases["again"])
    return float(run["cost"]["seconds"])


def _side(runs: Sequence[Mapping[str, Any]], asks: Sequence[Ask], right: Sequence[Answer]) -> Side:
    memory = [run["cost"]["memory"] for run in runs]
    return Side(
        seconds=tuple(map(seconds_of, runs)),
        memory=None if None in memory else max(memory),
        difference=difference(asks, [Answer(**answer) for answer in runs[-1]["answers"]], right),
    )
