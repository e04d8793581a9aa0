"""From tasks to the first forward pass: texts to tokens, benchmarks asked together, work ahead."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, normalizers
from transformers import AutoTokenizer

from evalcore.errors import EvalError, ModelError, Stopped, TaskError
from evalcore.evaluation import evaluate
from evalcore.model.base import EncodedRequest, Request
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.snapshot import Arguments
from evalcore.model.tokens.encoder import Encoder, RequestKeys
from evalcore.model.tokens.texts import Texts
from evalcore.preparation import benchmarks_of
from evalcore.record import RunRecord
from evalcore.settings import Settings
from evalcore.task.data import seeds
from evalcore.task.data.seeds import FixedRandomness
from evalcore.task.library.load import TaskLibrary
from tests import tiny
from tests.evalcore.toys import ToyLM, write_toys

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


class Counting:
    """A tokenizer that counts what it is given."""

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer
        self.given = []

    def __getattr__(self, name):
        return getattr(self._tokenizer, name)

    def __call__(self, texts, **options):
        self.given += [texts] if isinstance(texts, str) else texts
        return self._tokenizer(texts, **options)


def in_full(tokenizer, texts, special):
    options = {} if special is None else {"add_special_tokens": special}
    return {text: tokenizer(text, **options)["input_ids"] for text in texts}


@pytest.fixture(
    scope="module", params=[(words, bos) for words in (False, True) for bos in (False, True)]
)
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


def test_a_common_beginning_is_tokenised_once(tokenizer):
    texts = prompts(shots=20, documents=12)
    counting = Counting(tokenizer)
    assert Texts(counting).tokens(texts, None) == in_full(tokenizer, texts, None)
    assert sum(map(len, counting.given)) < sum(map(len, texts)) / 5
    assert len(counting.given) == len(set(counting.given))


def test_a_tokenizer_that_looks_far_around_a_line_is_given_whole_texts(tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(tiny.make(tmp_path))
    odd = normalizers.Replace(Regex("1\n\nQuestion"), "!")
    tokenizer.backend_tokenizer.normalizer = odd
    texts = prompts(shots=20, documents=3)
    assert Texts(tokenizer).tokens(texts, None) == in_full(tokenizer, texts, None)


def test_a_token_across_a_line_is_never_cut(tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(tiny.make(tmp_path))
    tokenizer.add_tokens(["\nAnswer", "\n\nQuest"])
    texts = prompts(shots=20, documents=3)
    assert Texts(tokenizer).tokens(texts, None) == in_full(tokenizer, texts, None)


def test_each_distinct_text_is_tokenised_once_and_then_forgotten(tokenizer):
    counting = Counting(tokenizer)
    encoder = Encoder(counting, max_length=64)
    requests = [
        *(Request("loglikelihood", "one ", choice) for choice in ("two", "two", "three")),
        Request("loglikelihood", "", "bare"),
        Request("loglikelihood_rolling", "", "one"),
        *(Request("generate_until", "one two") for _ in range(3)),
    ]
    for _ in range(2):
        counting.given.clear()
        with encoder.learnt(requests):
            alone = [encoder.pair(requests[0]), encoder.text("one"), encoder.prompt("one two", 60)]
            assert sorted(counting.given) == ["bare", "one", "one three", "one two"]
    assert [encoder.pair(requests[0]), encoder.text("one"), encoder.prompt("one two", 60)] == alone


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

    def __init__(self, stop_at=None):
        self.phases, self.told, self.seen, self.stop_at = [], [], [], stop_at

    def phase(self, name):
        self.phases.append(name)

    def progress(self, task, done, total, tokens):
        self.told.append((task, done, total))

    def look(self, look):
        self.seen.append(look)

    def wants_stop(self):
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
    base = yaml.safe_load((toys / "toy_choice.yaml").read_text())
    (toys / "draws.py").write_text(DRAWS)
    for name, keys in {
        "a_plain": {},
        "a_short": {"doc_to_text": "{{question}}", "description": "Be short. "},
        "b_drawn": {"process_docs": "!function draws.shuffled"},
        "c_plain": {"process_results": "!function draws.lucky"},
    }.items():
        about = {"version": 1, "benchmark": name[0], "style": "cloze"}
        text = yaml.safe_dump({**base, "task": name, "tag": "world", "metadata": about, **keys})
        text = re.sub("'(!function [^']+)'", r"\1", text)
        (toys / f"{name}.yaml").write_text(text)
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


@pytest.mark.parametrize(
    "names", [ALL[::-1], ["a_short", "b_drawn", "a_plain", "c_plain"]], ids=["turned", "mixed"]
)
def test_the_order_in_which_tasks_are_named_changes_nothing_that_the_model_is_asked(world, names):
    in_order, otherwise = Examinee(), Examinee()
    expected = {
        fields["task"]: (fields, samples) for fields, samples in map(told, run(world, in_order))
    }
    got = [told(evaluation) for evaluation in run(world, otherwise, names)]
    assert {fields["task"]: (fields, samples) for fields, samples in got} == expected
    assert sorted(otherwise.asked, key=str) == sorted(in_order.asked, key=str)


def test_a_group_counts_by_its_tasks(world):
    groups = world.select(["a_plain", "toy_group", "a_short"])
    assert [[spec.name for spec in alike] for alike in benchmarks_of(groups)] == [
        ["a_plain", "a_short"], ["toy_group"],
    ]  # fmt: skip


def test_work_ahead_changes_no_record(world):
    beside, alone = Examinee(ahead=True), Examinee(ahead=False)
    assert list(map(told, run(world, beside))) == list(map(told, run(world, alone)))
    own = threading.current_thread()
    assert [thread is own for thread in beside.threads] == [True, False, False]
    assert [thread is own for thread in alone.threads] == [True, True, True]


def test_asked_together_or_by_itself_a_task_has_the_same_record(world):
    together = [told(evaluation) for evaluation in run(world, Examinee())]
    assert together == [
        told(evaluation) for name in ALL for evaluation in run(world, Examinee(), [name])
    ]


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


@pytest.mark.parametrize("fails", ALL)
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


def test_who_waits_to_draw_goes_first_and_draws_what_it_drew_before():
    """One thread works through steps, another wants to score in between."""

    def drawn(between=lambda: None):
        with FixedRandomness() as randomness:
            numbers = []
            for _ in range(6):
                numbers.append((random.random(), np.random.random()))
                between()
                randomness.let_others()
        return numbers

    alone, others = drawn(), []
    other = threading.Thread(target=lambda: others.append(drawn()))

    def start_another():
        if not other.ident:
            other.start()
            while not seeds._turns.are_awaited:
                time.sleep(0.001)

    before = random.getstate()
    assert drawn(start_another) == alone
    other.join()
    assert others == [alone]
    assert random.getstate() == before


def test_a_record_says_what_took_how_long(world):
    for evaluation in run(world, Examinee()):
        timing = evaluation.record.timing
        assert list(timing) == ["prompts", "tokens", "answers", "scores"]
        assert sum(timing.values()) == pytest.approx(evaluation.record.seconds, abs=0.005)
        assert (
            RunRecord.of(json.loads(json.dumps(dataclasses.asdict(evaluation.record))))
            == evaluation.record
        )


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["ls", "tags"]])
def test_nothing_heavy_is_imported_before_a_model_is_loaded(arguments):
    program = (
        "import sys\n"
        "from evalcore.cli import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "except SystemExit:\n    pass\n"
        "heavy = {'torch', 'transformers', 'datasets', 'pyarrow', 'numpy', 'pandas'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))))\n"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True
    )
    assert outcome.stderr.strip() == ""
    assert outcome.stdout


def test_the_time_to_the_first_forward_pass_is_told_and_recorded(tmp_path):
    model, toys = tiny.make(tmp_path / "model"), write_toys(tmp_path / "toys")
    outcome = subprocess.run(
        [sys.executable, "-m", "evalcore", "--model_args", f"pretrained={model},dtype=float32",
         "--tasks", "toy_choice,toy_written", "--include_path", toys, "--output_path", tmp_path,
         "--bootstrap_iters", "100", "--progress", "json"],
        env={**os.environ, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stderr
    said = re.search(r"pass (\S+) s after the start; loading .* (\S+) s", outcome.stderr)
    first, load = (float(seconds) for seconds in said.groups())
    records = [RunRecord.read(path) for path in tmp_path.rglob("record_*.json")]
    assert len(records) == 2
    for record in records:
        assert record.timing["first_forward"] == pytest.approx(first, abs=0.06)
        assert record.timing["load"] == pytest.approx(load, abs=0.06)
        assert 0 < load < first
