"""From tasks to the first forward pass and to the journal: texts to tokens, benchmarks asked
together, work ahead, questions asked in random waves, and answers that are kept."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import resource
import threading
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, normalizers
from transformers import AutoTokenizer

from evalcore import waves
from evalcore.energy import Meter, processor_counters
from evalcore.errors import EvalError, InfraError, ModelError, Stopped, TaskError
from evalcore.evaluation import evaluate
from evalcore.journal import Journal
from evalcore.model.base import EncodedRequest, Response
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.snapshot import Arguments
from evalcore.model.tokens.encoder import RequestKeys
from evalcore.model.tokens.texts import Texts
from evalcore.record import RunRecord
from evalcore.settings import Settings
from evalcore.task.library.load import TaskLibrary
from evalcore.watch import Silent
from tests import tiny
from tests.evalcore.toys import ToyLM, write_toy, write_toys
from tests.evalcore.worlds import World, capitals

SHOT = (
    "Question: Which of these, number {}, is made of wood?\nA. a table\nB. a river\nAnswer: {}\n\n"
)
ASKED = "Question: And which is made of {}?\nAnswer:"


def prompts(shots: int, documents: int) -> list[str]:
    """Examples before a question, alone and with each choice; half of the examples differ."""
    texts = []
    for number in range(documents):
        examples = [SHOT.format(n if n % 2 else n + number // 4, n % 2) for n in range(shots)]
        context = "".join(examples) + ASKED.format(f"iron {number}")
        texts += [context, *(f"{context} {choice}" for choice in ("a table", "a\nriver", "x"))]
    return texts


def in_full(tokenizer, texts, special):
    options = {} if special is None else {"add_special_tokens": special}
    return {text: tokenizer(text, **options)["input_ids"] for text in texts}


@pytest.fixture(scope="module", params=[(False, True), (True, False)])
def tokenizer(request, tmp_path_factory):
    words, bos = request.param
    folder = tiny.make(tmp_path_factory.mktemp("tokenizer"), words=words, adds_bos=bos)
    return AutoTokenizer.from_pretrained(folder)


LINES = st.lists(
    st.sampled_from(
        ["Question: wood?", "\nAnswer:", "\n\n", "\n", " a", "é.", "  B. a river\n", "x"]
    ),
    max_size=12,
).map("".join)


@given(beginning=LINES, ends=st.lists(LINES, min_size=1, max_size=6), often=st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_texts_that_begin_alike_have_the_tokens_of_the_whole(tokenizer, beginning, ends, often):
    texts = {beginning * often + end for end in ends}
    for special in (None, False):
        assert Texts(tokenizer).tokens(texts, special) == in_full(tokenizer, texts, special)


def looks_far_around_a_line(tokenizer):
    odd = normalizers.Replace(Regex("1\n\nQuestion"), "!")
    tokenizer.backend_tokenizer.normalizer = odd


def has_tokens_across_a_line(tokenizer):
    tokenizer.add_tokens(["\nAnswer", "\n\nQuest"])


@pytest.mark.parametrize("spoil", [looks_far_around_a_line, has_tokens_across_a_line])
def test_texts_are_cut_at_no_line_where_that_would_change_a_token(tmp_path, spoil):
    tokenizer = AutoTokenizer.from_pretrained(tiny.make(tmp_path))
    spoil(tokenizer)
    texts = prompts(shots=20, documents=3)
    assert Texts(tokenizer).tokens(texts, None) == in_full(tokenizer, texts, None)


TOKENS = st.lists(st.integers(0, 200_000), min_size=1, max_size=9)


@given(st.lists(st.tuples(TOKENS, TOKENS), max_size=5))
def test_keys_made_many_at_once_are_the_keys_of_the_requests(asked):
    keys = RequestKeys()
    for context, targets in asked:
        tokens = [*context, *targets[:-1]]
        for of in (targets, targets[::-1]):
            assert keys.key_of(tokens, of) == EncodedRequest.key_of(tokens, of)


class Audience:
    """Looks on, and may want to stop."""

    def __init__(self, stop_at=None, stop_after=None):
        """`stop_at` is a task, `stop_after` a number of looks at the score so far."""
        self.phases, self.told, self.seen = [], [], []
        self.stop_at, self.stop_after = stop_at, stop_after

    def phase(self, name):
        self.phases.append(name)

    def progress(self, task, done, total, tokens):
        self.told.append((task, done, total))

    def look(self, look):
        self.seen.append(look)

    def wants_stop(self):
        if self.stop_after is not None:
            return len(self.seen) >= self.stop_after
        return any(task == self.stop_at and done for task, done, _ in self.told)


class Examinee(ToyLM):
    """Remembers what it was asked, in which thread it was told the texts, and may refuse one."""

    def __init__(self, *, ahead=True, refuses="nothing"):
        super().__init__()
        self.reads_ahead = ahead
        self.refuses = refuses
        self.asked, self.threads = [], []

    def encode(self, requests, *, seed=1234):
        self.threads.append(threading.current_thread())
        return super().encode(requests, seed=seed)

    def answer(self, requests):
        self.asked.append([request.request for request in requests])
        if any(self.refuses in request.request.context for request in requests):
            raise ModelError("it does not like that")
        yield from super().answer(requests)


@pytest.fixture
def world(tmp_path):
    """Tasks `a_plain`, `a_short`, `b_drawn` and `c_plain`, of the benchmarks a, b and c."""
    toys = write_toys(tmp_path)
    (toys / "draws.py").write_text(DRAWS)
    for name, keys in {
        "a_plain": {},
        "a_short": {"doc_to_text": "{{question}}", "description": "Be short. "},
        "b_drawn": {"process_docs": "!function draws.shuffled"},
        "c_plain": {"process_results": "!function draws.lucky"},
    }.items():
        about = {"version": 1, "benchmark": name[0], "style": "cloze"}
        write_toy(toys, name, "toy_choice", tag="world", metadata=about, **keys)
    return TaskLibrary([toys])


DRAWS = """
import random

def shuffled(docs):
    return docs.select(random.sample(range(len(docs)), len(docs)))

def lucky(doc, results):
    return {"acc": random.random()}
"""
ALL = ["a_plain", "a_short", "b_drawn", "c_plain"]


def run(world, model, names=ALL, watch=None, **options):
    chosen = Settings(bootstrap_iters=100, **options)
    return evaluate(model, world.select(names), chosen, watch or Audience())


def until_error(evaluations):
    """The tasks that were finished, and what ended them."""
    finished = []
    try:
        for evaluation in evaluations:
            finished.append(evaluation.record.task)
    except EvalError as error:
        return finished, error
    return finished, None


def told(evaluation):
    """What a record says but for the time it took."""
    fields = dataclasses.asdict(evaluation.record)
    for passing in ("started", "seconds", "timing"):
        del fields[passing]
    return fields, evaluation.samples


def test_tasks_of_one_benchmark_are_asked_together_and_given_out_in_turn(world):
    model, watch = Examinee(), Audience()
    names = [evaluation.record.task for evaluation in run(world, model, watch=watch)]
    assert names == ALL
    assert [len(requests) for requests in model.asked] == [72, 36, 36]
    done = {task: (done, total) for task, done, total in watch.told}
    assert done == dict.fromkeys(ALL, (36, 36))
    assert [phase for phase in watch.phases if phase != "score"] == ["prepare", "evaluate"] * 3


def test_the_order_in_which_tasks_are_named_changes_nothing_that_the_model_is_asked(world):
    names = ["a_short", "b_drawn", "a_plain", "c_plain"]
    in_order, otherwise = Examinee(), Examinee()
    expected = {
        fields["task"]: (fields, samples) for fields, samples in map(told, run(world, in_order))
    }
    got = [told(evaluation) for evaluation in run(world, otherwise, names)]
    assert {fields["task"]: (fields, samples) for fields, samples in got} == expected
    assert sorted(otherwise.asked, key=str) == sorted(in_order.asked, key=str)


def test_neither_work_ahead_nor_company_changes_a_record(world):
    beside, alone = Examinee(ahead=True), Examinee(ahead=False)
    records = list(map(told, run(world, beside)))
    assert list(map(told, run(world, alone))) == records
    one_by_one = [run(world, Examinee(), [name]) for name in ALL]
    assert [told(evaluation) for (evaluation,) in one_by_one] == records
    own = threading.current_thread()
    assert [thread is own for thread in beside.threads] == [True, False, False]
    assert [thread is own for thread in alone.threads] == [True, True, True]


def test_a_model_and_its_tokenizer_work_at_once(world, tmp_path):
    class Alone(HuggingFaceLM):
        reads_ahead = False

    arguments = Arguments.of({"pretrained": str(tiny.make(tmp_path / "m")), "dtype": "float32"})
    names = ["a_plain", "toy_written", "b_drawn", "toy_rolling", "c_plain", "toy_shots"]
    records = [
        [told(evaluation) for evaluation in run(world, kind(arguments, device="cpu"), names)]
        for kind in (HuggingFaceLM, Alone)
    ]
    for beside, alone in zip(*records, strict=True):
        for fields in (beside[0], alone[0]):
            del fields["execution"]  # tells of the memory that was free
        assert beside == alone


def test_equal_requests_of_two_tasks_are_asked_once(world, tmp_path):
    (twin,) = world.select(["a_plain"])
    twin = dataclasses.replace(twin, task="a_twin")
    model, watch = Examinee(), Audience()
    chosen = Settings(bootstrap_iters=0)
    pair = list(evaluate(model, [*world.select(["a_plain"]), twin], chosen, watch))
    assert [len(requests) for requests in model.asked] == [36]
    assert [evaluation.record.requests["total"] for evaluation in pair] == [36, 36]
    assert pair[0].record.results[0].value == pair[1].record.results[0].value


@pytest.mark.parametrize("fails", ["a_plain", "a_short", "c_plain"])
def test_a_task_that_cannot_be_prepared_takes_nothing_from_the_others(world, fails):
    specs = [
        dataclasses.replace(spec, test_split="nowhere") if spec.name == fails else spec
        for spec in world.select(ALL)
    ]
    model = Examinee()
    finished, error = until_error(evaluate(model, specs, Settings(bootstrap_iters=0), Audience()))
    assert isinstance(error, TaskError)
    assert "nowhere" in error.reason
    assert error.task == fails
    assert finished == [name for name in ALL if name != fails]


def test_a_model_that_fails_in_one_style_has_the_results_of_the_other(world):
    finished, error = until_error(run(world, Examinee(refuses="Be short.")))
    assert isinstance(error, ModelError)
    assert finished == ["a_plain"]


def test_nothing_runs_ahead_once_it_was_stopped(world):
    model = Examinee()
    with pytest.raises(Stopped):
        list(run(world, model, watch=Audience(stop_at="b_drawn")))
    assert len(model.asked) == 2
    assert not [thread for thread in threading.enumerate() if "evalcore-prepare" in thread.name]


def test_a_record_says_what_took_how_long(world):
    for evaluation in run(world, Examinee()):
        timing = evaluation.record.timing
        assert list(timing) == ["prompts", "tokens", "answers", "scores"]
        assert sum(timing.values()) == pytest.approx(evaluation.record.seconds, abs=0.005)
        assert (
            RunRecord.of(json.loads(json.dumps(dataclasses.asdict(evaluation.record))))
            == evaluation.record
        )


# Waves


DOCUMENTS = 240
ANSWERED = [30, 60, 120]
"""Documents that are answered after each wave but the last."""


class OneByOne(ToyLM):
    """Answers one request after the other, and remembers which."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def answer(self, requests):
        for place, request in enumerate(requests):
            self.asked.append(request.request.arguments)
            for pack in super().answer([request]):
                yield [(place, response) for _, response in pack]


@pytest.fixture
def spec(tmp_path):
    world = World(tmp_path)
    return world.spec(**world.data(train=capitals(2), test=capitals(DOCUMENTS)))


def in_waves(spec, model, watch, journal=None):
    (done,) = evaluate(model, [spec], Settings(bootstrap_iters=0), watch, journal)
    return told(done)


def test_waves_change_no_answer_and_tell_the_score_so_far(spec, monkeypatch):
    model, watch = OneByOne(), Audience()
    found = in_waves(spec, model, watch)
    strata = [stratum for look in watch.seen for stratum in look.strata]
    assert [stratum.answered for stratum in strata] == ANSWERED
    assert {(stratum.documents, stratum.weight) for stratum in strata} == {(DOCUMENTS, 1.0)}
    assert all(0 < stratum.right < stratum.answered for stratum in strata)
    monkeypatch.setattr(waves, "FEWEST", 10**9)
    at_once = OneByOne()
    assert in_waves(spec, at_once, Audience()) == found
    assert Counter(model.asked) == Counter(at_once.asked)
    assert model.asked != at_once.asked


def test_a_run_that_was_stopped_goes_on_with_the_wave_it_was_in(spec, tmp_path):
    undisturbed, stopped, resumed = Audience(), Audience(stop_after=2), Audience()
    _, expected = in_waves(spec, OneByOne(), undisturbed)
    before, after = OneByOne(), OneByOne()
    with pytest.raises(Stopped):
        in_waves(spec, before, stopped, Journal(tmp_path / "journal", "key"))
    _, samples = in_waves(spec, after, resumed, Journal(tmp_path / "journal", "key"))
    assert stopped.seen == undisturbed.seen[:2]
    assert resumed.seen == undisturbed.seen
    assert len(before.asked) == 3 * ANSWERED[1]
    assert set(Counter(before.asked + after.asked).values()) == {1}
    assert samples == expected


# Energy by the machine's own counters


PACKAGE, MEMORY = ("RAPL", "package-0"), ("RAPL", "package-0 memory")
RANGE = 262_143_328_850


@pytest.fixture
def powercap(tmp_path):
    """The counters of a machine with one processor package."""
    folder = tmp_path / "powercap"
    for zone, name in (
        ("intel-rapl:0", "package-0"),
        ("intel-rapl:0:0", "core"),
        ("intel-rapl:0:1", "dram"),
        ("intel-rapl:1", "psys"),
    ):
        (folder / zone).mkdir(parents=True)
        (folder / zone / "name").write_text(f"{name}\n")
        (folder / zone / "max_energy_range_uj").write_text(f"{RANGE}\n")
        (folder / zone / "energy_uj").write_text("1000\n")
    return folder


def test_joules_of_packages_and_memory_are_what_their_counters_have_gone_up_by(powercap):
    package = powercap / "intel-rapl:0" / "energy_uj"
    meter = Meter([*processor_counters(powercap)])
    package.write_text("5001000\n")
    assert meter.read() == {PACKAGE: pytest.approx(5.0), MEMORY: 0.0}
    package.write_text("500000\n")  # begins again at its end
    assert meter.read()[PACKAGE] == pytest.approx((RANGE + 499_000) / 1e6)
    (powercap / "intel-rapl:0:1" / "energy_uj").unlink()
    assert meter.read().keys() == {PACKAGE}
    assert Meter.of(object(), powercap).read() == {}  # who knows where such a model computes


def test_a_record_has_what_its_answers_took_and_its_source(powercap, tmp_path):
    class WarmModel(ToyLM):
        def answer(self, requests):
            for number, pack in enumerate(super().answer(requests), 1):
                joules = 10_000_000 * number
                (powercap / "intel-rapl:0" / "energy_uj").write_text(f"{1000 + joules}\n")
                yield pack

    specs = [TaskLibrary([write_toys(tmp_path)]).one("toy_choice")]
    meter = Meter([*processor_counters(powercap)])
    settings = Settings(bootstrap_iters=0)
    (evaluation,) = evaluate(WarmModel(), specs, settings, Silent(), meter=meter)
    assert evaluation.record.energy == [
        {"source": "RAPL", "part": "package-0", "joules": 10.0},
        {"source": "RAPL", "part": "package-0 memory", "joules": 0.0},
    ]


# The journal keeps every final answer and nothing else


def response(key: str, loglikelihood: float = -1.5) -> Response:
    return Response(
        key=key,
        kind="loglikelihood",
        loglikelihood=loglikelihood,
        is_greedy=False,
        token_ids=(3, 4),
        token_logprobs=(loglikelihood, 0.0),
        n_context_tokens=2,
        n_truncated=0,
    )


def test_answers_come_back_to_the_last_bit_and_thoughts_take_no_place_where_there_are_none(
    tmp_path,
):
    thought = replace(
        response("a", -0.1 - 0.2), thoughts="so", n_thought_tokens=1, thinking="ended"
    )
    journal = Journal(tmp_path, "model")
    journal.append([thought, response("b")])
    again = Journal(tmp_path, "model")
    assert (again["a"], again["b"]) == (thought, response("b"))
    (segment,) = {path for path in (tmp_path / "model").glob("*.jsonl") if path.stat().st_size}
    first, second = segment.read_text().splitlines()
    assert "thoughts" in first
    assert "think" not in second


@pytest.fixture
def segment(tmp_path):
    """The file of a journal of two answers, `a` and `b`, that was closed."""
    journal = Journal(tmp_path, "model")
    journal.append([response("a"), response("b")])
    journal.close()
    (segment,) = (tmp_path / "model").glob("*.jsonl")
    return segment


def test_a_torn_last_line_is_ignored_and_the_rest_kept(tmp_path, segment):
    segment.write_bytes(segment.read_bytes()[:-20])
    again = Journal(tmp_path, "model")
    assert "a" in again
    assert "b" not in again


@pytest.mark.parametrize("garbage", [b"garbage\n", b"\xff\xfe\n", b"{}\n", b"3\n"])
def test_a_line_that_is_no_response_is_named_and_the_others_count(
    tmp_path, segment, garbage, caplog
):
    first, second = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(first + garbage + second)
    again = Journal(tmp_path, "model")
    assert "a" in again
    assert "b" in again
    assert f"{segment.name} has a line 2 that is no response" in caplog.text


def test_the_first_answer_of_a_model_is_the_answer(tmp_path):
    journal = Journal(tmp_path, "model")
    journal.append([response("a", -1.0)])
    journal.append([response("a", -2.0)])
    assert journal["a"].loglikelihood == -1.0
    assert Journal(tmp_path, "model")["a"].loglikelihood == -1.0
    Journal(tmp_path, "one").append([response("a")])
    assert "a" not in Journal(tmp_path, "another")


def test_a_full_disk_is_our_fault_and_loses_nothing_that_was_written(tmp_path):
    journal = Journal(tmp_path, "model")
    journal.append([response("a")])
    (segment,) = (tmp_path / "model").glob("*.jsonl")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (segment.stat().st_size + 20, limits[1]))
    try:
        with pytest.raises(InfraError, match=r"cannot be written.*make room"):
            journal.append([response("b")])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "b" not in journal
    journal.append([response("c")])
    again = Journal(tmp_path, "model")
    assert ["a" in again, "b" in again, "c" in again] == [True, False, True]

    (tmp_path / "file").write_text("")
    with pytest.raises(InfraError, match="file"):
        Journal(tmp_path / "file", "model")


def _write_many(folder, first):
    journal = Journal(folder, "model")
    for number in range(first, first + 50):
        journal.append([response(f"k{number}", -float(number))])


def test_processes_that_write_at_once_lose_nothing(tmp_path):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(tmp_path, first)) for first in (0, 25, 50)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(300)
    both = Journal(tmp_path, "model")
    assert [both[f"k{number}"].loglikelihood for number in range(100)] == [
        -float(number) for number in range(100)
    ]
