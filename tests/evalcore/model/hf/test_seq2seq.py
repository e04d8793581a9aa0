"""Models with an encoder: what is read, that no answer depends on its company, what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from evalcore.cli import main
from evalcore.errors import ModelError
from evalcore.library import evaluate
from evalcore.model.base import EncodedRequest, Request
from evalcore.model.conformance import examine
from evalcore.model.conformance.examination import CHECKS
from evalcore.model.hf.reading import reader_of
from evalcore.model.hf.snapshot import Arguments
from evalcore.model.registry import backend_of
from tests import tiny
from tests.evalcore.toys import write_toys

POSITIONS = 96
NOT_ASKED = {"chat template", "additivity", "whole texts"}
"""What a model with an encoder is not asked."""

SCORED = [
    Request("loglikelihood", context, continuation)
    for context in ("Which of these is made of wood?", "Answer:", "")
    for continuation in ("A", "B", " a table", " a river of some length")
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {
        name: tiny.make_seq2seq(
            tmp_path_factory.mktemp(name), architecture=name, positions=POSITIONS
        )
        for name in ("t5", "bart", "mbart")
    }


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    return write_toys(tmp_path_factory.mktemp("toys") / "toys")


def loaded(folder, mode="strict", batch_size=None, weights=True, **arguments):
    stated = {"pretrained": str(folder), "dtype": "float32", **arguments}
    return backend_of("hf").from_arguments(
        stated, device="cpu", mode=mode, batch_size=batch_size, weights=weights
    )


def answers(model, requests, seed=1234):
    encoded = model.encode(requests, seed=seed)
    found = dict(pair for pack in model.answer(encoded) for pair in pack)
    return [found[place] for place in range(len(encoded))]


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_a_model_with_an_encoder_conforms(folders, name):
    report = examine(loaded(folders[name]))
    assert report.passed, str(report)
    assert {f.check for f in report.findings if f.verdict == "not asked"} == NOT_ASKED


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_in_compat_only_the_length_of_texts_is_another(folders, name):
    """lm-evaluation-harness counts the source among the tokens that may be written."""
    model = loaded(folders[name], mode="compat")
    report = examine(model, only=[check for check in CHECKS if check != "length of texts"])
    assert not {f.check for f in report.failed} - {"stop strings"}, str(report)
    (prompt,) = model.encode([Request("generate_until", "Answer:", generation={"max_gen_toks": 3})])
    (answer,) = answers(
        model, [Request("generate_until", "Answer:", generation={"until": [], "max_gen_toks": 3})]
    )
    n_source = len(prompt.tokens) - 1
    assert len(answer.token_ids) == n_source + 2 or answer.finish_reason == "eos"


def test_half_precision_conforms(tmp_path):
    # Of weights as large as those of the others a processor without bfloat16 rounds too much.
    folder = tiny.make_seq2seq(tmp_path, architecture="bart", positions=POSITIONS, init_std=0.1)
    report = examine(loaded(folder, dtype="bfloat16"))
    assert report.passed, str(report)


@pytest.mark.parametrize(
    ("name", "source", "start"), [("t5", "{} </s>", 0), ("bart", "<s> {} </s>", 1)]
)
def test_the_context_is_the_source_and_the_continuation_the_target(folders, name, source, start):
    model = loaded(folders[name])
    tokenizer = AutoTokenizer.from_pretrained(folders[name])

    def plain(text):
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    context, targets = plain("Answer:"), plain("  a table")
    around = {"<s>": 0, "</s>": 1}
    read = [
        token for part in source.split() for token in (context if part == "{}" else [around[part]])
    ]
    (encoded,) = model.encode([Request("loglikelihood", "Answer: ", " a table")])
    assert list(encoded.targets) == targets
    assert list(encoded.tokens) == [*read, start, *targets[:-1]]
    (prompt,) = model.encode([Request("generate_until", "Answer:", generation={})])
    assert list(prompt.tokens) == [*read, start]
    assert (encoded.n_context_tokens, prompt.n_context_tokens) == (len(read) + 1,) * 2


def test_a_prompt_that_is_too_long_loses_its_beginning_and_an_answer_that_is_is_refused(folders):
    model = loaded(folders["t5"], max_length=20)
    scored, prompt = model.encode(
        [
            Request("loglikelihood", "table " * 40, " wood"),
            Request("generate_until", "table " * 40, generation={"max_gen_toks": 50}),
        ]
    )
    for encoded, n_written in ((scored, len(scored.targets)), (prompt, 1)):
        source = encoded.tokens[:-n_written]
        assert len(source) == 20
        assert source[-1] == 1  # EOS ends the source all the same
        assert encoded.n_truncated > 0
    with pytest.raises(ModelError, match=r"a continuation of \d+ tokens does not fit .* 20"):
        model.encode([Request("loglikelihood", "a", " table" * 30)])


def test_each_source_is_read_once_and_choices_of_one_token_are_one_row(folders, monkeypatch):
    model = loaded(folders["bart"])
    scorer, read, written = model._scorer, [], []
    encode, decode = scorer._encoded, scorer._decoded
    answers(model, SCORED[:3])  # what is tried at first is not counted
    monkeypatch.setattr(scorer, "_encoded", lambda rows: read.extend(rows) or encode(rows))
    monkeypatch.setattr(
        scorer, "_decoded", lambda e, places, rows: written.extend(rows) or decode(e, places, rows)
    )
    encoded = model.encode(SCORED)
    answers(model, SCORED)
    n_sources = len({request.tokens[: -len(request.targets)] for request in encoded})
    assert len(read) == len(set(read)) == n_sources == 3
    assert len(written) == len({request.tokens for request in encoded}) < len(SCORED)


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_a_pass_that_does_not_fit_is_halved_and_nothing_is_lost(folders, name, monkeypatch):
    model = loaded(folders[name])
    expected = answers(model, SCORED)
    scorer = model._scorer
    encode, decode = scorer._encoded, scorer._decoded

    def small(of, most):
        def tried(*arguments):
            if len(arguments[-1]) > most:
                raise torch.OutOfMemoryError("no room")
            return of(*arguments)

        return tried

    monkeypatch.setattr(scorer, "_encoded", small(encode, 2))
    monkeypatch.setattr(scorer, "_decoded", small(decode, 1))
    found = answers(model, SCORED)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.loglikelihood == pytest.approx(theirs.loglikelihood, rel=1e-6, abs=1e-4)
        assert (mine.key, mine.is_greedy) == (theirs.key, theirs.is_greedy)
    assert model.execution["loglikelihood"]["halvings"] > 0
    monkeypatch.setattr(scorer, "_decoded", small(decode, 0))
    with pytest.raises(ModelError, match="out of memory on cpu: no room"):
        answers(model, SCORED)


def test_where_rows_change_each_other_they_are_computed_one_by_one(folders, monkeypatch):
    model = loaded(folders["t5"])
    expected = answers(model, SCORED)
    again = loaded(folders["t5"])
    scorer = again._scorer
    decode = scorer._decoded
    # As experts with a capacity do: what stands beside a row moves it.
    monkeypatch.setattr(scorer, "_decoded", lambda *how: decode(*how).roll(1, -1) * len(how[-1]))
    found = answers(again, SCORED)
    assert again.execution["loglikelihood"]["step"] == "one by one"
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.loglikelihood == pytest.approx(theirs.loglikelihood, rel=1e-6, abs=1e-4)


def test_a_model_that_cannot_be_told_what_its_encoder_said_is_computed_whole(tmp_path):
    """Its experts have a capacity, too, for which the rows of a batch compete."""
    model = loaded(tiny.make_seq2seq(tmp_path, architecture="switch_transformers"))
    report = examine(model, only=["alignment", "batch invariance", "sums"])
    assert model.execution["loglikelihood"]["step"] == "one by one"
    assert report.of("alignment").verdict == report.of("sums").verdict == "passed", str(report)


def test_texts_that_are_drawn_depend_neither_on_the_batch_nor_on_the_order(folders):
    model = loaded(folders["t5"])
    requests = [
        Request(
            "generate_until",
            context,
            generation={"until": [], "max_gen_toks": 6, "temperature": 1.0, "do_sample": True},
            repeats=2,
        )
        for context in ("a", "Which of these is made of wood?", "Answer:")
    ]
    together = [answer.text for answer in answers(model, requests)]
    alone = [answer.text for request in requests for answer in answers(model, [request])]
    assert together == alone
    assert len(set(together)) > 3
    assert [answer.text for answer in answers(model, requests, seed=2)] != together


def test_it_is_pinned_like_any_model_and_its_keys_are_its_own(folders):
    model, unloaded = loaded(folders["t5"]), loaded(folders["t5"], weights=False)
    info = model.info
    assert info.architecture == "T5ForConditionalGeneration"
    assert (info.max_length, info.prefix_token, info.dtype) == (POSITIONS, 1, "float32")
    assert info.parameters > 0
    requests = [*SCORED, Request("generate_until", "Answer:", generation={})]
    keys = [encoded.key for encoded in model.encode(requests)]
    assert [encoded.key for encoded in unloaded.encode(requests)] == keys
    for encoded in model.encode(SCORED):
        assert encoded.key != EncodedRequest.key_of(encoded.tokens, encoded.targets)
    stated = loaded(folders["t5"], backend="seq2seq")
    assert stated.info == info
    assert model.first_forward is None
    answers(model, requests)
    assert model.first_forward is not None


def test_an_initialised_model_is_evaluated(folders, toys):
    model = AutoModelForSeq2SeqLM.from_pretrained(folders["t5"])
    tokenizer = AutoTokenizer.from_pretrained(folders["t5"])
    (finished,) = evaluate(model, ["toy_choice"], tokenizer=tokenizer, include_path=toys, limit=2)
    assert finished.record.model["architecture"] == "T5ForConditionalGeneration"


def test_whole_texts_are_refused_before_the_first_request(folders, toys):
    with pytest.raises(
        ModelError,
        match=r"an encoder-decoder model answers no loglikelihood_rolling request, which "
        r"toy_rolling needs.*a causal model",
    ):
        evaluate(loaded(folders["t5"]), ["toy_rolling"], include_path=toys)


def test_the_command_refuses_them_before_the_weights_are_there(toys, tmp_path, capsys):
    folder = tiny.make_seq2seq(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    command = ["run", "--model", "hf", "--model_args", f"pretrained={folder}"]
    command += ["--include_path", str(toys), "--tasks"]
    assert main([*command, "toy_rolling"]) == ModelError.exit_code
    assert "answers no loglikelihood_rolling request" in capsys.readouterr().err
    assert main([*command, "toy_choice"]) == ModelError.exit_code
    assert "no weights in safetensors format" in capsys.readouterr().err


def test_a_decoder_that_begins_with_a_token_of_the_answer_is_not_asked_how_likely_it_is(
    folders, toys
):
    model = loaded(folders["mbart"])
    with pytest.raises(ModelError, match="answers no loglikelihood request"):
        evaluate(model, ["toy_choice"], include_path=toys)
    with pytest.raises(ModelError, match="with which token its decoder begins"):
        model.encode(SCORED[:1])
    (answer,) = answers(model, [Request("generate_until", "a", generation={"max_gen_toks": 3})])
    assert answer.text is not None


@pytest.mark.parametrize(
    ("architecture", "stated", "said"),
    [
        ("t5", {"backend": "causal"}, r"backend=causal: .* is an encoder-decoder model \(T5For"),
        ("llama", {"backend": "seq2seq"}, r"backend=seq2seq: .* is no encoder-decoder .*\(Llama"),
        ("t5", {"backend": "encoder"}, "backend: expected one of default, causal, seq2seq, got"),
        ("t5", {"peft": "any/adapter"}, "peft: .* over which no adapter is put: merge it"),
        ("t5", {"load_in_8bit": "True"}, "is a quantised encoder-decoder model"),
    ],
)
def test_what_a_model_is_not_is_refused_before_its_weights_are_there(
    tmp_path, architecture, stated, said
):
    if architecture == "llama":
        tiny.make(tmp_path)
    else:
        tiny.make_seq2seq(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=said):
        loaded(tmp_path, **stated)


def test_a_quantised_repository_with_an_encoder_is_refused(tmp_path):
    folder = tiny.make_seq2seq(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="is a quantised encoder-decoder model"):
        loaded(folder)


def test_a_configuration_that_does_not_say_so_is_known_by_its_type(tmp_path):
    folder = tiny.make_seq2seq(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    del config["is_encoder_decoder"]
    (folder / "config.json").write_text(json.dumps(config))
    assert loaded(folder).capabilities.encoder


def test_the_name_of_old_says_what_it_is_called_now():
    with pytest.raises(ModelError, match="--model hf-seq2seq: the name is hf now"):
        backend_of("hf-seq2seq")


def test_the_reader_for_other_programs_does_not_read_it_as_a_causal_model(folders):
    with pytest.raises(ModelError, match="encoder-decoder model"):
        reader_of(Arguments.of({"pretrained": str(folders["t5"])}))


def test_the_length_of_an_answer_leaves_room_for_one(folders):
    request = Request("generate_until", "a", generation={"max_length": 1})
    with pytest.raises(ModelError, match="max_length 1 leaves no room for an answer"):
        loaded(folders["t5"]).encode([request])
    (answer,) = answers(loaded(folders["bart"]), [replace(request, generation={"max_length": 4})])
    assert len(answer.token_ids) <= 3


def test_no_answer_has_more_tokens_than_the_decoder_has_positions(folders):
    request = Request("generate_until", "a", generation={"until": [], "max_gen_toks": 500})
    (answer,) = answers(loaded(folders["bart"]), [request])
    assert len(answer.token_ids) <= POSITIONS
