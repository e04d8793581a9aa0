"""Questions are asked in random waves, and after each there is something to see of the score."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter

import pytest
import yaml

from evalcore import waves
from evalcore.errors import Stopped
from evalcore.evaluation import evaluate
from evalcore.journal import Journal
from evalcore.model.base import Request
from evalcore.model.fake import FakeLM
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.snapshot import Arguments
from evalcore.settings import Settings
from evalcore.task.library.load import TaskLibrary
from evalcore.watch import LOOKS, Look
from tests import tiny

DOCUMENTS = 240
UP_TO = [30, 60, 120]
"""Documents that are answered after each wave but the last."""


class Onlooker:
    """Keeps what it is told, and may stop after so many looks."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.seen: list[Look] = []
        self.stop_after = stop_after

    def phase(self, name: str) -> None: ...
    def progress(self, task: str, done: int, total: int, tokens: int) -> None: ...

    def look(self, look: Look) -> None:
        self.seen.append(look)

    def wants_stop(self) -> bool:
        return self.stop_after is not None and len(self.seen) >= self.stop_after


class Examinee(FakeLM):
    """Answers one request after the other, and remembers which."""

    def __init__(self) -> None:
        super().__init__(likely, identity="examinee")
        self.asked: list[Request] = []

    def answer(self, requests):
        for place, request in enumerate(requests):
            self.asked.append(request.request)
            for pack in super().answer([request]):
                yield [(place, response) for _, response in pack]


def likely(request: Request, _repeat: int):
    text = f"{request.context}{request.continuation}"
    return (-float(sum(map(ord, text)) % 97), False) if request.kind == "loglikelihood" else "7"


def rows(count: int):
    return [
        {"question": f"What is {n} and {7 * n % 31}?", "choices": ["one", "two"], "answer": n % 2}
        for n in range(count)
    ]


@pytest.fixture
def world(tmp_path):
    """A task of 240 documents in two styles, one of 50, a group of both, and one scored by code."""

    def task(name: str, count: int = DOCUMENTS, **keys) -> None:
        file = tmp_path / f"{count}.jsonl"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows(count)))
        stated = {
            "task": name,
            "dataset_path": "json",
            "dataset_kwargs": {
                "data_files": {"test": str(file)},
                "cache_dir": str(tmp_path / "cache"),
            },
            "test_split": "test",
            "output_type": "multiple_choice",
            "doc_to_text": "{{question}}",
            "doc_to_choice": "choices",
            "doc_to_target": "answer",
            "metric_list": [{"metric": "acc"}],
            "metadata": {"version": 1, "benchmark": "sums", "style": "cloze"},
            **keys,
        }
        text = yaml.safe_dump(stated).replace("'!function code.own'", "!function code.own")
        (tmp_path / f"{name}.yaml").write_text(text)

    task("cloze")
    task("lettered", doc_to_choice=["A", "B"])
    task("short", 50)
    task("coded", process_results="!function code.own")
    task("weighted", doc_to_text="{{question}} So:")
    (tmp_path / "code.py").write_text("def own(doc, results):\n    return {'acc': 1.0}\n")
    for name, members, by_size in (
        ("both", ["cloze", "short"], True),
        ("plain", ["cloze", "short"], False),
        ("ways", ["cloze", "lettered"], True),
    ):
        average = {"metric": "acc", "aggregation": "mean", "weight_by_size": by_size}
        group = {
            "group": name,
            "task": members,
            "aggregate_metric_list": [average],
            "metadata": {"version": 1, "benchmark": "sums", "primary_metric": "acc"},
        }
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(group))
    return TaskLibrary([tmp_path])


def run(world, names, model=None, watch=None, journal=None):
    specs = world.select(names)
    chosen = Settings(bootstrap_iters=0)
    return list(evaluate(model or Examinee(), specs, chosen, watch or Onlooker(), journal))


def scores(evaluation, rows_of=None):
    """Of the documents of a record's samples, by task and row."""
    return {(sample["task"], sample["doc_id"]): sample["correct"] for sample in evaluation.samples}


def what_was_said(evaluation):
    record = dataclasses.asdict(evaluation.record)
    for passing in ("started", "seconds", "timing"):
        del record[passing]
    return record, evaluation.samples


def value_of(look: Look) -> float:
    return sum(one.weight * one.right / one.answered for one in look.strata)


@pytest.mark.parametrize("name", ["cloze", "both", "plain", "ways"])
def test_waves_change_no_answer_and_every_request_is_made_once(world, name, monkeypatch):
    in_waves, at_once = Examinee(), Examinee()
    with_waves = run(world, [name], in_waves)
    monkeypatch.setattr(waves, "FEWEST", 10**9)
    without = run(world, [name], at_once)
    assert [what_was_said(one) for one in with_waves] == [what_was_said(one) for one in without]
    asked = Counter(request.arguments for request in in_waves.asked)
    assert asked == Counter(request.arguments for request in at_once.asked)
    assert set(asked.values()) == {1}
    assert in_waves.asked != at_once.asked


def test_after_each_wave_the_share_of_right_answers_so_far_is_told(world):
    watch = Onlooker()
    (evaluation,) = run(world, ["cloze"], watch=watch)
    assert len(watch.seen) == LOOKS == len(waves.SHARES)
    own = scores(evaluation)
    (task,) = [*world.select(["cloze"])]
    from evalcore.building import tasks_of

    (asked,) = tasks_of(task, Settings(), None)
    wave = waves.waves_of_documents(asked, DOCUMENTS)
    for number, look in enumerate(watch.seen):
        (stratum,) = look.strata
        within = [own["cloze", row] for row in range(DOCUMENTS) if wave[row] <= number]
        assert (look.task, look.metric) == ("cloze", "acc")
        assert (stratum.documents, stratum.answered) == (DOCUMENTS, UP_TO[number])
        assert stratum.right == sum(within)
        assert stratum.zero_or_one
        assert 0 < stratum.right < stratum.answered


def test_which_documents_come_first_is_no_matter_of_their_place(world):
    (spec,) = world.select(["cloze"])
    from evalcore.building import tasks_of

    (task,) = tasks_of(spec, Settings(), None)
    wave = waves.waves_of_documents(task, DOCUMENTS)
    assert Counter(wave) == {0: 30, 1: 30, 2: 60, 3: 120}
    first = [row for row in range(DOCUMENTS) if wave[row] == 0]
    assert 90 < sum(first) / len(first) < 150
    assert waves.waves_of_documents(task, waves.FEWEST - 1) == [0] * (waves.FEWEST - 1)


def test_styles_of_a_benchmark_have_the_same_questions_in_a_wave(world):
    watch = Onlooker()
    model = Examinee()
    run(world, ["cloze", "lettered"], model, watch)
    places = {}
    for place, request in enumerate(model.asked):
        places.setdefault(request.context, []).append(place)
    assert len(places) == DOCUMENTS
    first = [context for context, at in places.items() if min(at) < 4 * 30]
    assert len(first) == 30
    assert all(max(places[context]) < 4 * 30 for context in first)
    assert Counter(look.task for look in watch.seen) == {"cloze": 3, "lettered": 3}


@pytest.mark.parametrize("name", ["both", "plain", "ways"])
def test_a_group_is_weighted_as_its_score_is(world, name):
    watch = Onlooker()
    (evaluation,) = run(world, [name], watch=watch)
    own = scores(evaluation)
    assert [sum(one.answered for one in look.strata) for look in watch.seen] == (
        UP_TO if name == "ways" else [50 + count for count in UP_TO]
    )
    for look in watch.seen:
        assert sum(one.weight for one in look.strata) == pytest.approx(1)
        assert [one.zero_or_one for one in look.strata] == (
            [False] if name == "ways" else [True, True]
        )
    # With all answered they would give the score of the record.
    last = watch.seen[-1].strata
    tasks = [["cloze", "lettered"]] if name == "ways" else [["cloze"], ["short"]]
    whole = sum(
        one.weight
        * sum(score for (task, _), score in own.items() if task in names)
        / (one.documents * len(names))
        for one, names in zip(last, tasks, strict=True)
    )
    assert whole == pytest.approx(evaluation.record.results[0].value)


@pytest.mark.parametrize("name", ["short", "coded"])
def test_few_questions_and_those_scored_by_code_are_asked_at_once(world, name):
    watch, model = Onlooker(), Examinee()
    run(world, [name], model, watch)
    assert watch.seen == []
    asked = list(dict.fromkeys(request.context for request in model.asked))
    assert asked == [row["question"] for row in rows(len(asked))]


def test_a_run_that_was_stopped_goes_on_with_the_wave_it_was_in(world, tmp_path):
    whole, first, second = Onlooker(), Onlooker(stop_after=2), Onlooker()
    (undisturbed,) = run(world, ["cloze"], watch=whole)
    before, after = Examinee(), Examinee()
    folder = tmp_path / "journal"
    with pytest.raises(Stopped):
        run(world, ["cloze"], before, first, Journal(folder, "key"))
    (resumed,) = run(world, ["cloze"], after, second, Journal(folder, "key"))
    assert first.seen == whole.seen[:2]
    assert second.seen == whole.seen
    assert len(before.asked) == 2 * 60
    together = Counter(request.arguments for request in [*before.asked, *after.asked])
    assert set(together.values()) == {1}
    assert len(together) == 2 * DOCUMENTS
    assert scores(resumed) == scores(undisturbed)


HOW = {"until": ["\n"], "max_gen_toks": 6}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny.make(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("path", ["packed", "plain", "auto"])
@pytest.mark.parametrize("writes", [False, True])
def test_a_model_ends_one_wave_before_another_and_says_the_same(model, path, writes):
    def asked_of(number: int) -> Request:
        context = f"Question: Which of these, number {number}, is made of wood?\nAnswer:"
        if writes:
            return Request("generate_until", context, generation=HOW)
        return Request("loglikelihood", context, f" choice {number}")

    lm = HuggingFaceLM(Arguments(pretrained=str(model)), device="cpu", path=path)
    plain = lm.encode([asked_of(number) for number in range(200)])
    in_waves = [
        dataclasses.replace(request, wave=number * 7 % 4) for number, request in enumerate(plain)
    ]
    expected = {place: one for pack in lm.answer(plain) for place, one in pack}
    found, order = {}, []
    for pack in lm.answer(in_waves):
        found.update(pack)
        order += [in_waves[place].wave for place, _ in pack]
    assert found.keys() == expected.keys()
    for place, response in found.items():
        assert response.text == expected[place].text
        assert response.loglikelihood == pytest.approx(expected[place].loglikelihood, abs=1e-3)
    ends = [max(at for at, wave in enumerate(order) if wave == number) for number in range(4)]
    assert ends == sorted(ends)
    assert ends[0] < len(order) / 2
