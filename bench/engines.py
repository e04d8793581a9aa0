"""The two engines and the reference, each answering the same text requests with a loaded model."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from bench.profiling import shares_of
from bench.timing import silence
from evalcore.model.base import RequestKind


@dataclass(frozen=True)
class Ask:
    """A request in text, as both engines' models take it."""

    kind: RequestKind
    context: str
    continuation: str
    generation: Mapping[str, Any] | None
    document: int
    """Requests of one document are the choices of one question."""


@dataclass(frozen=True)
class Answer:
    """A loglikelihood in nats with its greedy flag where there is one, or a text."""

    loglikelihood: float | None = None
    greedy: bool | None = None
    text: str | None = None


class Engine(Protocol):
    def answer(self, asks: Sequence[Ask], window: int | None) -> list[Answer]: ...

    def evaluate(self, folder: Path, tasks: Sequence[str]) -> list[Answer]:
        """Whole tasks through the engine's public function, from their files."""
        ...


@dataclass(frozen=True)
class Phases:
    """Seconds, as `bench.measure.Cost` counts them, of one call of evalcore."""

    loading: float
    """What is done with a loaded model before any request."""
    encoding: float
    """From texts to tokens."""
    first: float
    """Answering all requests, as one that has never seen this model."""
    again: float
    """Answering them all once more: the model is known by then, the answers are not kept."""


class Ours:
    """evalcore; nothing is kept from one call to the next but the loaded model."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model, self._tokenizer = model, tokenizer
        self.path: Any = "auto"
        self.phases = Phases(0.0, 0.0, 0.0, 0.0)
        """Of the last call of `answer`."""
        self.paths: list[str] = []
        """How the requests of the last call were computed."""

    def _loaded(self, window: int | None) -> Any:
        from evalcore.model.hf.huggingface import HuggingFaceLM
        from evalcore.model.hf.snapshot import Arguments

        return HuggingFaceLM(
            Arguments(pretrained="bench", max_length=window),
            model=self._model,
            tokenizer=self._tokenizer,
            path=self.path,
        )

    def answer(self, asks: Sequence[Ask], window: int | None) -> list[Answer]:
        clock = time.perf_counter if self._model.device.type == "cuda" else time.process_time
        times = [clock()]
        lm = self._loaded(window)
        times.append(clock())
        encoded = lm.encode(_requests(asks))
        times.append(clock())
        for _ in range(2):
            responses = dict(found for pack in lm.answer(encoded) for found in pack)
            times.append(clock())
        self.phases = Phases(*(end - begin for begin, end in pairwise(times)))
        self.paths = sorted({response.path for response in responses.values()})
        return [_answer(ask, responses[index]) for index, ask in enumerate(asks)]

    def profile(self, asks: Sequence[Ask], window: int | None) -> dict[str, float]:
        """The shares of each kind of operation, when the model is known already."""
        lm = self._loaded(window)

        def work() -> None:
            list(lm.answer(lm.encode(_requests(asks))))

        work()
        return shares_of(work, str(self._model.device))

    def evaluate(self, folder: Path, tasks: Sequence[str]) -> list[Answer]:
        import evalcore

        finished = evalcore.evaluate(
            self._model, tasks, tokenizer=self._tokenizer, include_path=folder, bootstrap_iters=0
        )
        responses = [
            one
            for evaluation in finished
            for sample in evaluation.samples
            for one in sample["responses"]
        ]
        self.paths = sorted({response["path"] for response in responses})
        return [
            Answer(response["loglikelihood"], response["is_greedy"], response["text"])
            for response in responses
        ]


def _requests(asks: Sequence[Ask]) -> list[Any]:
    from evalcore.model.base import Request

    return [Request(ask.kind, ask.context, ask.continuation, ask.generation) for ask in asks]


def _answer(ask: Ask, response: Any) -> Answer:
    if ask.kind == "loglikelihood":
        return Answer(response.loglikelihood, response.is_greedy)
    if ask.kind == "loglikelihood_rolling":
        return Answer(response.loglikelihood)
    return Answer(text=response.text)


class Theirs:
    """lm-evaluation-harness's own model class, at a stated number of rows in a batch."""

    def __init__(self, model: Any, tokenizer: Any, *, rows: int = 1) -> None:
        self._model, self._tokenizer = model, tokenizer
        self.rows = rows
        self._loaded: dict[tuple[int, int | None], Any] = {}

    def loaded(self, window: int | None) -> Any:
        """Made once for each number of rows: the median is of calls with a model that is ready."""
        from lm_eval.models.huggingface import HFLM

        name = self.rows, window
        if name not in self._loaded:
            self._loaded[name] = HFLM(
                pretrained=self._model,
                tokenizer=self._tokenizer,
                batch_size=self.rows,
                max_length=window,
                device=str(self._model.device),
            )
        return self._loaded[name]

    def answer(self, asks: Sequence[Ask], window: int | None) -> list[Answer]:
        from lm_eval.api.instance import Instance

        lm = self.loaded(window)
        instances = [
            Instance(ask.kind, {}, _arguments(ask), index) for index, ask in enumerate(asks)
        ]
        if asks[0].kind == "loglikelihood":
            return [Answer(*found) for found in lm.loglikelihood(instances, disable_tqdm=True)]
        if asks[0].kind == "loglikelihood_rolling":
            found = lm.loglikelihood_rolling(instances, disable_tqdm=True)
            return [Answer(loglikelihood) for loglikelihood in found]
        return [Answer(text=text) for text in lm.generate_until(instances, disable_tqdm=True)]

    def evaluate(self, folder: Path, tasks: Sequence[str]) -> list[Answer]:
        from lm_eval import simple_evaluate
        from lm_eval.tasks import TaskManager

        with silence():
            results = simple_evaluate(
                model=self.loaded(None),
                tasks=list(tasks),
                task_manager=TaskManager(include_path=str(folder), include_defaults=False),
                bootstrap_iters=0,
            )
        assert results is not None
        answers = []
        for task in tasks:
            for sample in sorted(results["samples"][task], key=lambda one: int(one["doc_id"])):
                for [found] in sample["resps"]:
                    if isinstance(found, str):
                        answers.append(Answer(text=found))
                    else:
                        answers.append(Answer(float(found[0]), str(found[1]) == "True"))
        return answers


def _arguments(ask: Ask) -> tuple[Any, ...]:
    if ask.kind == "loglikelihood":
        return (ask.context, ask.continuation)
    if ask.kind == "loglikelihood_rolling":
        return (ask.continuation,)
    return (ask.context, dict(ask.generation or {}))


class Reference:
    """The model itself in float32, fed one request at a time; no engine but the tokenising."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model, self._tokenizer = model, tokenizer
        self.fed: list[tuple[list[int], int]] = []
        """In the last call: each sequence, and how many of its last positions were scored."""
        self._row: tuple[tuple[int, ...], Any] = ((), None)
        """What was fed last, and its logits: letters after one question read the same row."""

    def answer(self, asks: Sequence[Ask], window: int | None) -> list[Answer]:
        import torch

        lm = Theirs(self._model, self._tokenizer).loaded(window)
        self.fed = []
        answers = []
        with torch.inference_mode():
            for ask in asks:
                if ask.kind == "generate_until":
                    answers.append(self._written(ask, lm.tok_encode(ask.context)))
                    continue
                greedy, total = True, 0.0
                for before, targets in _pairs(ask, lm):
                    sequence = (before + targets)[-(lm.max_length + 1) : -1]
                    self.fed.append((sequence, len(targets)))
                    found, likeliest = self._scored(tuple(sequence), tuple(targets))
                    total, greedy = total + found, greedy and likeliest
                answers.append(Answer(total, greedy if ask.kind == "loglikelihood" else None))
        self._row = ((), None)
        return answers

    def _scored(self, sequence: tuple[int, ...], targets: tuple[int, ...]) -> tuple[float, bool]:
        import torch

        count = len(targets)
        before, logits = self._row
        if sequence != before or len(logits) < count:
            tokens = torch.tensor([sequence], device=self._model.device)
            logits = self._model(tokens, use_cache=False, logits_to_keep=count).logits[0]
            self._row = (sequence, logits)
        logits = logits[-count:]
        expected = torch.tensor(targets, device=logits.device)[:, None]
        logprobs = torch.log_softmax(logits.double(), -1).gather(1, expected)
        return float(logprobs.sum()), bool((logits.argmax(-1) == expected[:, 0]).all())

    def _written(self, ask: Ask, tokens: list[int]) -> Answer:
        import torch

        generation = dict(ask.generation or {})
        end = self._tokenizer.eos_token_id
        found = self._model.generate(
            torch.tensor([tokens], device=self._model.device),
            do_sample=False,
            max_new_tokens=generation["max_gen_toks"],
            pad_token_id=end,
        )[0, len(tokens) :].tolist()
        until = [*generation["until"], self._tokenizer.decode([end])]
        count = next(
            (
                place
                for place in range(1, len(found) + 1)
                if any(stop in self._tokenizer.decode(found[:place]) for stop in until)
            ),
            len(found),
        )
        self.fed.append(([*tokens, *found[: count - 1]], count))
        text = self._tokenizer.decode(found, skip_special_tokens=True)
        for stop in until:
            text = text.split(stop)[0]
        return Answer(text=text)


def _pairs(ask: Ask, lm: Any) -> list[tuple[list[int], list[int]]]:
    """What is before and what is scored, of each part of the request."""
    if ask.kind == "loglikelihood":
        return [lm._encode_pair(ask.context, ask.continuation)]
    from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

    windows = get_rolling_token_windows(
        token_list=lm.tok_encode(ask.continuation),
        prefix_token=lm.prefix_token_id,
        max_seq_len=lm.max_length,
        context_len=1,
    )
    return [make_disjoint_window(window) for window in windows]
