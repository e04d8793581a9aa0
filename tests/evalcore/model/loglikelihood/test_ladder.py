"""Which way a model's loglikelihoods are computed: right on every architecture, told why, checked
once on a machine; and rows in batches, where a text's logits are never held together."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import wraps
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from evalcore.errors import ModelError
from evalcore.library import evaluate
from evalcore.model import kept_checks
from evalcore.model.forward import head, plain
from evalcore.model.forward.plain import PlainPath, batches_of, rows_of
from evalcore.model.forward.selfcheck import PLACES, coarseness
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.seq2seq import Seq2SeqLM
from evalcore.model.hf.snapshot import Arguments
from evalcore.model.loglikelihood import probes
from evalcore.model.loglikelihood.scoring import Scorer
from evalcore.model.packs import attention
from evalcore.record import RunRecord
from evalcore.remarks import remarks_on
from tests import tiny
from tests.evalcore.model.asking import run_toys
from tests.evalcore.model.drawn_models import (
    IN_PACKS,
    MAIN,
    VOCABULARY,
    WINDOW,
    WRONG_MEMORY,
    answers_of,
    check,
    model_of,
    off_by_one,
    request,
    requests,
    rounding_batches,
    scores_of,
    slightly_off,
    with_greedy_ones,
)


def check_architecture(architecture):
    """It is right by whichever way is taken, which is a fast one for the kinds that are usual."""
    model = model_of(architecture)
    asked = with_greedy_ones(model, requests())
    scorer = Scorer(model, batch_size=None)
    answers = answers_of(scorer, asked)
    check(model, asked, answers)
    assert any(answer.is_greedy for answer in answers)
    assert {answer.path for answer in answers} == {scorer.execution["path"]}
    if architecture in IN_PACKS:
        assert scorer.execution["path"] == "packed", scorer.execution
    if architecture in WRONG_MEMORY:
        assert scorer.execution["path"] == "plain"
        assert "not by shared contexts: a loglikelihood of" in scorer.execution["reason"]


@pytest.mark.parametrize("architecture", MAIN)
def test_every_architecture_is_right_or_computed_more_plainly(architecture):
    check_architecture(architecture)


# The attention of packs, changed in one respect.


def softer(module, query, key, value, mask, **said):
    scale = said.pop("scaling", None) or query.shape[-1] ** -0.5
    return attention.packed_attention(module, query, key, value, mask, scaling=0.97 * scale, **said)


def blind_to_the_window(module, query, key, value, mask, **said):
    said.pop("sliding_window", None)
    return attention.packed_attention(module, query, key, value, mask, **said)


def quiet_in_one_head(module, query, key, value, mask, **said):
    answer, _ = attention.packed_attention(module, query, key, value, mask, **said)
    answer[:, :, 0] *= 0.9
    return answer, None


@pytest.mark.parametrize(
    ("architecture", "damage"),
    [
        ("llama", softer),
        ("llama", quiet_in_one_head),
        ("mistral", blind_to_the_window),
    ],
)
def test_attention_that_is_broken_is_found_out(monkeypatch, architecture, damage):
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, attention.NAME, damage)
    model, asked = model_of(architecture), requests()
    scorer = Scorer(model, batch_size=None)
    check(model, asked, answers_of(scorer, asked))
    assert scorer.execution["path"] == "shared"
    assert "not in packs nor" in scorer.execution["reason"] or (
        "not in packs: a loglikelihood" in scorer.execution["reason"]
    )
    with pytest.raises(ModelError, match="cannot be computed as was asked"):
        answers_of(Scorer(model, batch_size=None, path="packed"), asked)


def test_a_window_that_no_earlier_request_left_is_found_when_one_does(monkeypatch):
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, attention.NAME, blind_to_the_window)
    model = model_of("mistral")
    scorer = Scorer(model, batch_size=None)
    short = [scored for scored in requests(longest=6) if len(scored.tokens) <= WINDOW]
    check(model, short, answers_of(scorer, short))
    assert scorer.execution["path"] == "packed"
    check(model, requests(), answers_of(scorer, requests()))
    assert scorer.execution["path"] == "shared"


def test_positions_that_change_with_the_length_of_a_row_leave_each_row_alone():
    """As in models with two sets of rotary factors: one for rows up to a length, one beyond it."""
    rope = {
        "rope_type": "longrope",
        "rope_theta": 1e4,
        "factor": 8.0,
        "short_factor": [1.0] * 8,
        "long_factor": [4.0] * 8,
        "original_max_position_embeddings": 75,
    }
    model = model_of("phi3", rope_parameters=rope, original_max_position_embeddings=75)
    start = tuple(range(2, 42))
    asked = [
        request(start + scored.tokens[: scored.n_context_tokens], scored.targets)
        for scored in requests()
    ]
    assert any(scored.n_context_tokens <= 75 < len(scored.tokens) for scored in asked)
    scorer = Scorer(model, batch_size=None)
    check(model, asked, answers_of(scorer, asked))
    assert scorer.execution["step"] == "one by one"
    assert "changes when" in scorer.execution["reason"]


def test_a_step_that_fails_in_use_gives_way_and_loses_no_answer(monkeypatch, caplog):
    model, asked = model_of("llama"), requests()
    calls = iter(range(10**6))

    def failing_late(module, query, key, value, mask, **said):
        if next(calls) >= 8:
            raise ValueError("not in this shape")
        return attention.packed_attention(module, query, key, value, mask, **said)

    scorer = Scorer(model, batch_size=None)
    scorer._budget = 128
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, attention.NAME, failing_late)
    answers = answers_of(scorer, asked)
    check(model, asked, answers)
    assert {answer.path for answer in answers} == {"packed", "shared"}
    assert "failed in use: ValueError: not in this shape" in scorer.execution["reason"]
    assert "to compute loglikelihoods in packs failed: ValueError" in caplog.text
    assert "in failing_late" in caplog.text


def test_a_handful_of_requests_is_not_worth_a_check():
    model, asked = model_of("llama"), requests(documents=1, choices=2)
    scorer = Scorer(model, batch_size=None)
    check(model, asked, answers_of(scorer, asked))
    assert scorer.execution["path"] == "plain"
    assert "tokens is too small" in scorer.execution["reason"]
    answers_of(scorer, requests())
    assert scorer.execution["path"] == "packed"


def mixing_rows(model):
    """Each row gets something of the others in its batch, as where a norm is taken over all."""
    layer = model.get_decoder().layers[0]

    def mix(_, __, output):
        return 0.5 * (output + output.mean(dim=0, keepdim=True))

    layer.register_forward_hook(mix)
    return model


@pytest.mark.parametrize(("documents", "path"), [(2, "auto"), (24, "auto"), (24, "plain")])
def test_rows_that_influence_each_other_are_fed_one_by_one(monkeypatch, documents, path):
    """Whatever the size of the run; packs, which are rows of their own, are not at hand here."""
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, attention.NAME, softer)
    model, asked = mixing_rows(model_of("llama")), requests(documents=documents)
    scorer = Scorer(model, batch_size=None, path=path)
    monkeypatch.setattr("evalcore.model.loglikelihood.ladder.WORTH_SHARING", 0.0)
    check(model, asked, answers_of(scorer, asked))
    assert scorer.execution["step"] == "one by one"
    assert "not in batches: a loglikelihood of" in scorer.execution["reason"]


def test_the_record_says_which_way_and_why(toys, tmp_path):
    folder = tiny.make(tmp_path / "model")
    model = AutoModelForCausalLM.from_pretrained(folder)
    (done,) = evaluate(model, ["toy_choice"], include_path=toys, bootstrap_iters=0)
    told = RunRecord.of(json.loads(json.dumps(asdict(done.record)))).execution["loglikelihood"]
    assert done.record.paths == {"packed": 36}
    assert (told["path"], told["step"], told["halvings"]) == ("packed", "in packs", 0)
    assert "from the model's own answers" in told["reason"]


def test_a_way_that_failed_by_an_error_of_ours_is_among_the_remarks(
    toys, monkeypatch, tmp_path, caplog
):
    """And a warning in the log, not a line that nobody reads."""

    def fails(*_, **__):
        raise TypeError("an error of ours")

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, attention.NAME, fails)
    model = AutoModelForCausalLM.from_pretrained(tiny.make(tmp_path / "model"))
    (done,) = evaluate(model, ["toy_choice"], include_path=toys, bootstrap_iters=0)
    (remark,) = remarks_on([done.record, done.record])
    assert remark.startswith("loglikelihood requests were computed ")
    assert "not in packs nor in packs to the model's end: TypeError: an error of ours" in remark
    assert any(record.levelname == "WARNING" for record in caplog.records)


def memory_for(tokens):
    """A model on a device that holds no more in one pass."""
    model = model_of("llama")

    def small_device(_, inputs):
        if inputs[0].numel() > tokens:
            raise torch.OutOfMemoryError("no room")

    model.get_input_embeddings().register_forward_pre_hook(small_device)
    return model


@pytest.mark.parametrize(
    ("wanted", "holds", "path", "halvings"),
    [("auto", 300, "packed", 3), ("auto", 70, "shared", 3), ("plain", 70, "plain", 5)],
    ids=["fewer tokens in a pack", "a plainer way", "smaller batches"],
)
def test_out_of_memory_halves_the_passes_and_is_recorded(wanted, holds, path, halvings):
    """From 2048 tokens on; packs of fewer than 256 are slower than a plainer way."""
    model, asked = memory_for(holds), requests(documents=60)
    scorer = Scorer(model, batch_size=None, path=wanted)
    check(model, asked, answers_of(scorer, asked))
    assert scorer.execution["path"] == path
    assert scorer.execution["halvings"] == halvings
    assert scorer.execution["tokens_per_pass"] == 2048 >> halvings


def test_one_row_that_does_not_fit_is_the_models_fault():
    with pytest.raises(ModelError, match="out of memory on cpu"):
        answers_of(Scorer(memory_for(20), batch_size=None), requests())


def test_half_precision_is_held_to_its_own_noise(monkeypatch):
    model, asked = model_of("llama").to(torch.bfloat16), requests()
    scorer = Scorer(model, batch_size=None)
    answers_of(scorer, asked)
    assert scorer.execution["path"] == "packed"
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, attention.NAME, quiet_in_one_head)
    scorer = Scorer(model, batch_size=None)
    answers_of(scorer, asked)
    assert scorer.execution["path"] != "packed"


@pytest.mark.parametrize(
    ("noise", "off", "path"),
    [
        (0.0, 2e-5, "packed"),
        (0.0, 1e-4, "shared"),
        (3e-4, 1e-4, "packed"),
        (1e-2, 3e-3, "shared"),
    ],
)
def test_float32_is_held_to_its_own_noise_and_to_little_of_it(monkeypatch, noise, off, path):
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, attention.NAME, slightly_off(off))
    scorer = Scorer(rounding_batches(model_of("llama"), noise), batch_size=None)
    answers_of(scorer, requests())
    assert scorer.execution["path"] == path, scorer.execution


def with_quiet_attention(model):
    """What attention adds is little beside a token itself, so that one key more moves little."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "o_proj" in name:
                weight.mul_(0.03)
    return model


def test_a_window_that_is_off_by_one_is_found_in_half_precision(monkeypatch):
    """What it moves is less than rounding does, so it is looked for in float32."""
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, attention.NAME, off_by_one)
    model, asked = with_quiet_attention(model_of("mistral")).to(torch.float16), requests()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    scorer = Scorer(model, batch_size=None)
    answers_of(scorer, asked)
    assert scorer.execution["path"] == "shared"
    assert "not in packs" in scorer.execution["reason"]
    for name, tensor in model.state_dict().items():
        assert tensor.dtype == torch.float16
        assert torch.equal(tensor, before[name])
    monkeypatch.undo()
    scorer = Scorer(model, batch_size=None)
    answers_of(scorer, asked)
    assert scorer.execution["step"] == "in packs"


def test_an_attention_of_the_callers_own_is_what_is_computed():
    """Of which the attention of packs knows nothing."""

    def linear(module, query, key, value, attention_mask, **_):
        weights = (query @ key.repeat_interleave(2, 1).transpose(2, 3)).tril()
        return (weights @ value.repeat_interleave(2, 1)).transpose(1, 2) / 50, None

    ALL_ATTENTION_FUNCTIONS.register("callers_own", linear)
    model, asked = model_of("llama"), requests()
    model.set_attn_implementation("callers_own")
    scorer = Scorer(model, batch_size=None)
    check(model, asked, answers_of(scorer, asked))
    assert scorer.execution["path"] != "packed"


@pytest.mark.parametrize("forbidden", [float("-inf"), torch.finfo(torch.bfloat16).min])
def test_what_half_precision_allows_is_told_from_tokens_that_are_possible(forbidden):
    logits = torch.tensor([[12.0, -8.0, 3.0, 0.5]], dtype=torch.bfloat16)
    with_it = torch.cat([logits, torch.full((1, 1), forbidden, dtype=torch.bfloat16)], dim=1)
    allowed = coarseness(logits, torch.bfloat16)
    assert allowed == 2 * 2**-7 * 12
    assert coarseness(with_it, torch.bfloat16) == allowed


# Rows in batches: everything once, nothing over budget; and a text that is scored at every
# position, its logits never held together.

LENGTH, AT_ONCE = 120, 10


def leave_little_memory(patch):
    """Room for so few logits that a text of this length does not fit."""
    patch.setattr(plain, "LOGITS_CPU", (LENGTH // 2) * VOCABULARY)
    patch.setattr(head, "LOGITS_AT_ONCE", AT_ONCE * VOCABULARY)


@pytest.fixture
def little_memory(monkeypatch):
    leave_little_memory(monkeypatch)


def texts(count=3):
    tokens = [scored.tokens[0] for scored in requests(documents=LENGTH + count, choices=1)]
    tokens = [2 + (token * place) % (VOCABULARY - 2) for place, token in enumerate(tokens)]
    return [request((0,), tuple(tokens[first : first + LENGTH])) for first in range(count)]


def scored(model, asked, **how):
    return scores_of(PlainPath(model, batch_size=1, **how), asked, budget=512)


class Seen:
    """How many rows of logits the model makes at a time."""

    def __init__(self, model):
        self.rows = []
        model.get_output_embeddings().register_forward_hook(
            lambda _, __, logits: self.rows.append(logits.numel() // VOCABULARY)
        )


def check_in_parts(architecture):
    """A text in parts is scored as at once."""
    model, asked = model_of(architecture), texts()
    seen = Seen(model)
    answers = scored(model, asked)
    if architecture == "llama":
        # Of the beginning of the first text some are looked at together.
        assert max(seen.rows) == PLACES
    for found, whole in zip(answers, scored(model, asked, in_parts=False), strict=True):
        assert found.logprobs == pytest.approx(whole.logprobs, abs=1e-4)
        assert found.is_greedy == whole.is_greedy


@pytest.mark.parametrize("architecture", MAIN)
def test_every_architecture_says_the_same_in_parts(architecture, little_memory):
    check_in_parts(architecture)


def test_a_text_is_scored_in_parts_from_end_to_end(monkeypatch, little_memory):
    monkeypatch.setattr(probes, "ANSWERED", AT_ONCE)
    model, asked = model_of("llama"), texts()
    seen, scorer = Seen(model), Scorer(model, batch_size=None)
    answers = answers_of(scorer, asked)
    assert max(seen.rows) == PLACES
    check(model, asked, answers)


def test_half_precision_rounds_in_parts_as_at_once(little_memory):
    model, asked = model_of("llama").to(torch.bfloat16), texts()
    seen = Seen(model)
    for softmax in (torch.float32, torch.bfloat16):
        answers = scored(model, asked, softmax=softmax)
        for found, whole in zip(
            answers, scored(model, asked, softmax=softmax, in_parts=False), strict=True
        ):
            assert found.logprobs == pytest.approx(whole.logprobs, abs=0.05)
    assert min(seen.rows) <= AT_ONCE


def test_a_model_whose_last_step_looks_at_all_rows_is_read_at_once(little_memory):
    model, asked = model_of("llama"), texts()
    own = model.lm_head.forward

    def centred(hidden):
        return own(hidden - hidden.mean(dim=1, keepdim=True))

    model.lm_head.forward = centred
    seen = Seen(model)
    expected = scored(model, asked, in_parts=False)
    seen.rows.clear()
    assert scored(model, asked) == expected
    assert seen.rows.count(LENGTH) == len(asked)
    model.base_model_prefix = "none_of_it"
    assert scored(model, asked) == expected


tokens = st.lists(st.integers(0, 3), min_size=1, max_size=12).map(tuple)


@given(st.lists(tokens, max_size=60), st.integers(1, 40), st.none() | st.integers(1, 5))
def test_every_request_is_in_one_batch_within_the_budget(sequences, budget, most_rows):
    rows = rows_of(sequences)
    lengths = [len(row.tokens) for row in rows]
    assert lengths == sorted(lengths, reverse=True)
    assert len(rows) == len(set(sequences))
    batches = batches_of(rows, budget=budget, most_rows=most_rows)
    found = [index for batch in batches for row in batch for index in row.requests]
    assert sorted(found) == list(range(len(sequences)))
    for batch in batches:
        padded = len(batch) * max(len(row.tokens) for row in batch)
        assert padded <= budget or len(batch) == 1
        assert most_rows is None or len(batch) <= most_rows
        for row in batch:
            assert all(sequences[index] == row.tokens for index in row.requests)


# A model is checked once on a machine: what that spares, and what makes it be checked again.


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Where checks are kept."""
    monkeypatch.setenv("EVALCORE_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept" / "checks"


@pytest.fixture
def folder(tmp_path, cache):
    return tiny.make(tmp_path / "model")


class Watched:
    """A model loaded as `evalcore run` does, and how many tokens it has been fed."""

    def __init__(self, folder, kind=HuggingFaceLM, *, again=False, batch_size=None, **stated):
        self.lm = kind(Arguments(pretrained=str(folder), **stated), batch_size=batch_size)
        self.lm.keep_checks(again=again)
        self.fed = 0

        @wraps(torch.nn.Embedding.forward)  # as a library's hook, which decides no text
        def count(_, inputs):
            self.fed += inputs[0].numel()

        self.lm._first_read.get_input_embeddings().register_forward_pre_hook(count)

    def asked(self, toys, task="toy_choice", **how):
        (done,) = evaluate(self.lm, [task], include_path=toys, bootstrap_iters=0, **how)
        return done

    def told(self, kind="loglikelihood"):
        return self.lm.execution[kind]["reason"]


def answers_in(done):
    return [
        answer.get("text") or (answer["loglikelihood"], answer["is_greedy"])
        for sample in done.samples
        for answer in sample["responses"]
    ]


def test_a_model_is_checked_once(folder, toys):
    first = Watched(folder)
    once = first.asked(toys)
    second = Watched(folder)
    twice = second.asked(toys)
    assert second.fed < 0.7 * first.fed
    assert "found on 20" in second.told()
    assert "found on" not in first.told()
    for (one, flag), (other, other_flag) in zip(answers_in(once), answers_in(twice), strict=True):
        assert one == pytest.approx(other, abs=1e-4)
        assert flag == other_flag
    written = first.asked(toys, "toy_written")
    third = Watched(folder)
    assert answers_in(third.asked(toys, "toy_written")) == answers_in(written)
    assert "found on" not in first.told("generate_until")
    assert "found on 20" in third.told("generate_until")


def test_nor_one_with_an_encoder(tmp_path, cache, toys):
    folder = tiny.make_seq2seq(tmp_path / "t5")
    first = Watched(folder, Seq2SeqLM)
    first.asked(toys)
    second = Watched(folder, Seq2SeqLM)
    second.asked(toys)
    assert second.fed < first.fed


@pytest.mark.parametrize("other", ["weights", "precision", "rows", "library", "code"])
def test_what_computes_another_way_is_checked_again(folder, toys, other, monkeypatch, tmp_path):
    Watched(folder).asked(toys)
    how = {}
    if other == "weights":
        model = AutoModelForCausalLM.from_pretrained(folder)
        with torch.no_grad():
            model.lm_head.weight[0] += 1e-3
        model.save_pretrained(folder)
    elif other == "precision":
        how = {"dtype": "bfloat16"}
    elif other == "rows":
        how = {"batch_size": 2}
    elif other == "library":
        versions = {"transformers": "0.0.1"}
        monkeypatch.setattr(kept_checks, "version", lambda name: versions.get(name, "1"))
    else:
        copied = tmp_path / "evalcore" / "model" / "kept_checks.py"
        copied.parent.mkdir(parents=True)
        copied.write_text("# another line\n")
        monkeypatch.setattr(kept_checks, "__file__", str(copied))
        kept_checks._code_digest.cache_clear()
    again = Watched(folder, **how)
    kept_checks._code_digest.cache_clear()
    again.asked(toys)
    assert "found on" not in again.told()


def test_longer_requests_than_were_checked_are_checked(folder, toys):
    Watched(folder).asked(toys)
    longer = Watched(folder)
    longer.asked(toys, system_instruction="Think of what you know. " * 4)
    assert "found on" not in longer.told()
    shorter = Watched(folder)
    shorter.asked(toys)
    assert "found on" in shorter.told()


def test_a_way_that_fails_in_use_is_forgotten(folder, toys, cache):
    Watched(folder).asked(toys)
    (file,) = cache.iterdir()
    assert "in packs" in json.loads(file.read_text())
    failing = Watched(folder)

    def failing_forward(*_, **__):
        raise RuntimeError("no such kernel")

    own = failing.lm._model.base_model.forward
    failing.lm._model.base_model.forward = lambda *given, **named: (
        failing_forward() if named.get("position_ids") is not None else own(*given, **named)
    )
    failing.asked(toys)
    assert failing.lm.execution["loglikelihood"]["step"] != "in packs"
    assert "in packs" not in json.loads(file.read_text())


@pytest.mark.parametrize("damage", ["{", "[]", '{"in packs": {}}'])
def test_a_damaged_file_is_as_none(folder, toys, cache, damage):
    Watched(folder).asked(toys)
    (file,) = cache.iterdir()
    file.write_text(damage)
    again = Watched(folder)
    again.asked(toys)
    assert "found on" not in again.told()
    assert "in packs" in json.loads(file.read_text())


def test_where_nothing_can_be_kept_the_model_is_checked(folder, toys, cache):
    cache.parent.write_text("a file, where a folder should be")
    for _ in range(2):
        model = Watched(folder)
        model.asked(toys)
        assert "found on" not in model.told()


def test_a_model_whose_code_is_run_is_always_checked(folder, toys, cache):
    model = Watched(folder)
    model.lm._files = model.lm._files.__class__(
        **{**vars(model.lm._files), "code": ("somebody/model@1234",)}
    )
    model.lm._checks.__init__()
    model.lm.keep_checks()
    model.asked(toys)
    assert not cache.exists()


def test_the_command_keeps_what_it_found_unless_told_otherwise(folder, toys, cache, capsys):
    command = ["--model_args", f"pretrained={folder}", "--device", "cpu", "--bootstrap_iters", 0]

    def reason(*more: str) -> str:
        into = Path(cache.parent.parent, "-".join(("out", *more)))
        assert run_toys(toys, *command, "--output_path", into, *more) == 0
        (record,) = into.rglob("record_*.json")
        return str(json.loads(record.read_text())["execution"]["loglikelihood"]["reason"])

    assert "found on" not in reason()
    assert "found on" in reason("--write_out")
    assert "found on" not in reason("--check_again")
