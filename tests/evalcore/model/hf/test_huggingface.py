"""The `hf` backend: how it reads requests, what its keys tell apart, models of
`transformers` that are already there, such as one in training, and models with an encoder."""

from __future__ import annotations

import functools
import gc
import json
import subprocess
import sys
import weakref
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from evalcore.errors import ModelError
from evalcore.library import evaluate
from evalcore.model.base import EncodedRequest, Request
from evalcore.model.conformance import examine
from evalcore.model.hf.huggingface import GENERATION_ARGUMENTS, HuggingFaceLM
from evalcore.model.hf.reading import reader_of
from evalcore.model.hf.snapshot import Arguments
from evalcore.model.registry import backend_of
from tests import tiny
from tests.evalcore.model.asking import answers_of, ends_texts, load, load_by, run_toys
from tests.evalcore.model.known_keys import KNOWN, REQUESTS, TURNS, keys

TEXT = st.text(alphabet="abn \nAns:é.🙂", max_size=12)
SCORED = Request("loglikelihood", "Question", " a table")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.make(tmp_path_factory.mktemp("tiny"), positions=64)


@pytest.fixture(scope="module")
def model(folder):
    return load(folder)


@pytest.fixture(scope="module", params=[False, True], ids=["no BOS", "adds BOS"])
def either(request, tmp_path_factory):
    made = tmp_path_factory.mktemp("either")
    return load(tiny.make(made, adds_bos=request.param, positions=64))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(TEXT, TEXT.filter(bool))
def test_any_text_has_a_defined_split(either, context, continuation):
    (one,) = either.encode([Request("loglikelihood", context, continuation)])
    assert 1 <= len(one.targets) <= len(one.tokens)
    assert len(one.tokens) <= either.info.max_length
    assert one.tokens[len(one.tokens) - len(one.targets) + 1 :] == one.targets[:-1]


def test_a_context_that_is_too_long_loses_its_beginning_and_says_so(model):
    (one,) = model.encode([Request("loglikelihood", "wood " * 100, " a")])
    assert len(one.tokens) == model.info.max_length
    assert one.n_truncated > 0
    with pytest.raises(ModelError, match="does not fit the model's length of 64"):
        model.encode([Request("loglikelihood", "a", " wood" * 100)])


def test_where_a_continuation_begins_and_where_bos_is_put(folder, model):
    """Trailing space of the context belongs to the continuation."""
    moved, plain = model.encode(
        [Request("loglikelihood", "Answer: ", "A"), Request("loglikelihood", "Answer:", " A")]
    )
    assert moved.key == plain.key
    (bos,) = load(folder, add_bos_token="True").encode([Request("loglikelihood", "Answer:", " A")])
    assert bos.tokens == (0, *plain.tokens)
    assert bos.targets == plain.targets


ENDED = [
    Request("loglikelihood", "Question: Which?", " a table"),
    Request("loglikelihood", "Question: Which?", " a river"),
    Request("loglikelihood", "", " a table"),
    Request("loglikelihood_rolling", "", "a table"),
    Request("generate_until", "Question: Which?", generation={"max_gen_toks": 5}),
    Request("generate_until", "wood " * 80, generation={"max_gen_toks": 5}),
]


@pytest.mark.parametrize("adds_bos", [True, False])
@pytest.mark.parametrize("stated", [{}, {"truncation": "True"}])
def test_what_a_tokenizer_puts_behind_a_text_is_left_off_in_strict(tmp_path, adds_bos, stated):
    """Such a tokenizer was saved after training: every answer came behind the end of the text, and
    choices of one token had one loglikelihood."""
    made = tiny.make(tmp_path / "a", adds_bos=adds_bos, positions=64)
    plain = load(made, mode="strict", **stated)
    folder = tiny.make(tmp_path / "b", positions=64)
    ended = ends_texts(folder, "<s> $A </s>" if adds_bos else "$A </s>")
    strict, compat = (load(ended, mode=mode, **stated) for mode in ("strict", "compat"))
    assert strict.encode(ENDED) == plain.encode(ENDED)
    assert {one.targets[-1:] for one in compat.encode(ENDED)[:2]} == {(1,)}
    assert strict.info.specials_behind == compat.info.specials_behind == ("</s>",)
    assert plain.info.specials_behind == ()
    never = load(ended, mode="compat", add_bos_token="False")
    assert never.info.specials_behind == ()


@pytest.mark.parametrize(
    ("mode", "said"),
    [("compat", "answers are scored and written behind it"), ("strict", "strict leaves it off")],
)
def test_a_run_says_that_its_tokenizer_ends_every_text(toys, tmp_path, capsys, mode, said):
    folder = ends_texts(tiny.make(tmp_path / "model"))
    stated = f"pretrained={folder},dtype=float32"
    assert run_toys(toys, "--model_args", stated, "--mode", mode, "--limit", 2) == 0
    told = capsys.readouterr()
    assert f"puts </s> behind every text: {said}" in told.out + told.err


def test_no_key_of_a_request_a_prompt_or_an_answer_changes():
    """What was answered once is found again."""
    known, found = json.loads(KNOWN.read_text()), keys()
    assert {name for name in known if found.get(name) != known[name]} == set()
    assert len(known) > 150


def test_the_model_key_tells_models_apart_and_nothing_else(folder, tmp_path):
    key = load(folder).info.model_key
    assert load(folder).info.model_key == key
    assert load(folder, max_length="32").info.model_key != key
    assert load(folder, dtype="bfloat16").info.model_key != key
    first = load(tiny.make(tmp_path / "a" / "inner", seed=0)).info
    inner = load(tmp_path / "a", subfolder="inner").info
    assert inner.files_digest == first.files_digest
    assert inner.model_key != first.model_key
    assert load(tiny.make(tmp_path / "a" / "inner", seed=1)).info.model_key != first.model_key
    other = tiny.make(tmp_path / "other", adds_bos=True)
    borrowed = load(folder, tokenizer=str(other)).info
    assert borrowed.tokenizer_digest == load(other).info.tokenizer_digest
    assert borrowed.model_key != key


def test_the_tokenizers_digest_does_not_depend_on_what_it_did(folder):
    unused, used = load(folder).encoder, load(folder).encoder
    used.tokenizer(["a", "a longer text"], padding=True, truncation=True, max_length=4)
    assert used.digest == unused.digest


def test_the_softmax_is_in_the_models_precision_in_compat_alone_or_as_stated(folder, model):
    assert load(folder, dtype="bfloat16").info.softmax_dtype == "bfloat16"
    assert load(folder, dtype="bfloat16", mode="strict").info.softmax_dtype == "float32"
    assert model.info.softmax_dtype == "float32"
    lower = load(folder, softmax_dtype="bfloat16")
    (rounded,) = answers_of(lower, [SCORED])
    said = torch.tensor(rounded.token_logprobs)
    assert said.bfloat16().float().tolist() == said.tolist()
    assert rounded.loglikelihood == float(said.bfloat16().sum())
    assert lower.info.model_key != model.info.model_key


def test_a_model_in_half_precision_whose_logits_are_not_is_taken_at_its_word(folder):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    forward = model.forward

    def wide(*fed, **said):
        output = forward(*fed, **said)
        output.logits = output.logits.float()
        return output

    model.forward = functools.wraps(forward)(wide)
    lm = HuggingFaceLM(model=model, tokenizer=AutoTokenizer.from_pretrained(folder))
    assert lm.info.softmax_dtype == "float32"


# The half that reads, for backends that compute elsewhere.

WITHOUT_TORCH = """
import json, sys
sys.modules["torch"] = None  # as where it is not installed
from evalcore.model.base import Request
from evalcore.model.hf.reading import reader_of
from evalcore.model.hf.snapshot import Arguments

reader = reader_of(Arguments.of({"pretrained": sys.argv[1]}))
(scored,) = reader.encode([Request("loglikelihood", "Question:", " a table")])
text = reader.chat_template().render([{"role": "user", "content": "Which?"}], True)
print(json.dumps([scored.tokens, text]))
"""


@pytest.mark.parametrize(
    ("mode", "stated"),
    [("compat", {}), ("strict", {"max_length": "40", "add_bos_token": "True"})],
    ids=["compat", "strict"],
)
def test_another_backend_reads_what_hf_reads(tmp_path, mode, stated):
    folder = tiny.make(tmp_path, adds_bos=True, positions=64, chat_template=tiny.CHAT)
    lm = load(folder, mode=mode, **stated)
    pins = vars(lm.info)
    (folder / "model.safetensors").unlink()
    reader = reader_of(
        Arguments.of({"pretrained": str(folder), "dtype": "float32", **stated}),
        mode=mode,
        generation_arguments=GENERATION_ARGUMENTS,
        generation_defaults=lambda: lm._writer.defaults,
    )
    assert reader.encode(REQUESTS, seed=7) == lm.encode(REQUESTS, seed=7)
    assert reader.pins == {name: pins[name] for name in reader.pins}
    assert reader.token_texts(range(300)) == lm.token_texts(range(300))
    ours, theirs = reader.chat_template(), lm.chat_template()
    assert (ours.text, ours.render(TURNS, False)) == (theirs.text, theirs.render(TURNS, False))


def test_a_reader_needs_no_torch(tmp_path):
    folder = tiny.make(tmp_path, adds_bos=True, positions=64, chat_template=tiny.CHAT)
    outcome = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(folder)], capture_output=True, text=True
    )
    assert outcome.returncode == 0, outcome.stderr
    tokens, text = json.loads(outcome.stdout.splitlines()[-1])
    assert tokens[0] == 0
    assert text == "<|user|>Which?\n<|assistant|>"


def test_a_token_that_the_configuration_does_not_know_is_named(tmp_path):
    folder = tiny.make(tmp_path)
    tiny.change_config(folder, vocab_size=50)
    with pytest.raises(ModelError, match=r"makes the token \d+, and the model has 50 tokens"):
        reader_of(Arguments.of({"pretrained": str(folder)})).encode([SCORED])


def test_a_model_that_nobody_holds_is_freed_at_once(folder):
    """A GPU has no room for the next one beside it."""
    lm = load(folder)
    gc.disable()
    try:
        held = weakref.ref(lm)
        del lm
        assert held() is None
    finally:
        gc.enable()


# A model of `transformers` that is already there.

WRITTEN = Request("generate_until", "Question", generation={"max_gen_toks": 5})


def reused(folder, wrap=lambda model: model):
    model = wrap(AutoModelForCausalLM.from_pretrained(folder))
    return HuggingFaceLM(model=model, tokenizer=AutoTokenizer.from_pretrained(folder))


def test_an_initialised_model_answers_as_its_files_would(folder, model):
    lm = HuggingFaceLM(model=AutoModelForCausalLM.from_pretrained(folder))
    assert answers_of(lm, [SCORED, WRITTEN]) == answers_of(model, [SCORED, WRITTEN])
    assert (lm.info.repository, lm.info.commit) == (str(folder), None)
    nameless = AutoModelForCausalLM.from_pretrained(folder)
    nameless.config.name_or_path = ""
    lm = HuggingFaceLM(model=nameless, tokenizer=AutoTokenizer.from_pretrained(folder))
    assert lm.info.repository == "LlamaForCausalLM"
    assert answers_of(lm, [SCORED]) == answers_of(model, [SCORED])


def test_it_is_in_evaluation_mode_while_it_answers_and_then_as_it_was(folder):
    lm = reused(folder)
    model = lm._model.train()
    model.model.layers[0].eval()
    for _ in lm.answer(lm.encode([SCORED, WRITTEN])):
        assert not any(module.training for module in model.modules())
    assert model.training
    assert not model.model.layers[0].training


def through_numpy(weight):
    weight.data.numpy()[3] *= -1


def two_signs(weight):
    """Which a sum over the weights would not show."""
    weight.data[0, 1] *= -1
    weight.data[0, 3] *= -1


@pytest.mark.parametrize("change", [through_numpy, two_signs])
def test_a_changed_weight_is_another_model(folder, change):
    lm = reused(folder)
    before = lm.info.model_key
    assert lm.info.model_key == before == reused(folder).info.model_key
    change(lm._model.model.layers[1].mlp.down_proj.weight)
    assert lm.info.model_key != before


def test_a_journal_never_answers_for_the_weights_of_an_earlier_step(toys, tmp_path):
    lm = reused(tiny.make(tmp_path / "model"))

    def ask(model):
        (done,) = evaluate(
            model, "toy_choice", include_path=toys, limit=6, use_cache=tmp_path / "journal"
        )
        answers = [
            response["loglikelihood"] for row in done.samples for response in row["responses"]
        ]
        return done.record.requests["journalled"], answers

    _, first = ask(lm)
    assert ask(lm) == (len(first), first)
    for weight in lm._model.parameters():
        weight.data.mul_(1.1)
    journalled, second = ask(lm)
    assert journalled == 0
    assert second != first


def test_an_adapter_that_is_switched_off_is_another_model(folder):
    """As for the reference model of a training with rewards."""
    options = LoraConfig(target_modules=["q_proj"], init_lora_weights=False)
    lm = reused(folder, lambda model: get_peft_model(model, options))
    before = lm.info.model_key
    with lm._model.disable_adapter():
        assert lm.info.model_key != before
    assert lm.info.model_key == before


# Models with an encoder: what is read, that no answer depends on its company, what is refused.

POSITIONS = 96
NOT_ASKED = {"chat template", "additivity", "whole texts"}
"""What a model with an encoder is not asked."""

PAIRS = [
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


def loaded(folder, mode="strict", **stated):
    return load_by("hf", folder, mode=mode, **stated)


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_a_model_with_an_encoder_conforms(folders, name):
    report = examine(loaded(folders[name]))
    assert report.passed, str(report)
    assert {f.check for f in report.findings if f.verdict == "not asked"} == NOT_ASKED


def test_in_compat_only_the_length_of_texts_is_another(folders):
    """lm-evaluation-harness counts the source among the tokens that may be written."""
    model = loaded(folders["t5"], mode="compat")
    report = examine(model, only=["alignment", "sums", "greedy flag", "empty context"])
    assert report.passed, str(report)
    (prompt,) = model.encode([Request("generate_until", "Answer:", generation={"max_gen_toks": 3})])
    (answer,) = answers_of(
        model, [Request("generate_until", "Answer:", generation={"until": [], "max_gen_toks": 3})]
    )
    n_source = len(prompt.tokens) - 1
    assert len(answer.token_ids) == n_source + 2 or answer.finish_reason == "eos"


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


def test_a_pass_that_does_not_fit_is_halved_and_nothing_is_lost(folders, monkeypatch):
    model = loaded(folders["bart"])
    expected = answers_of(model, PAIRS)
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
    found = answers_of(model, PAIRS)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.loglikelihood == pytest.approx(theirs.loglikelihood, rel=1e-6, abs=1e-4)
        assert (mine.key, mine.is_greedy) == (theirs.key, theirs.is_greedy)
    assert model.execution["loglikelihood"]["halvings"] > 0
    monkeypatch.setattr(scorer, "_decoded", small(decode, 0))
    with pytest.raises(ModelError, match="out of memory on cpu: no room"):
        answers_of(model, PAIRS)


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
    together = [answer.text for answer in answers_of(model, requests)]
    alone = [answer.text for request in requests for answer in answers_of(model, [request])]
    assert together == alone
    assert len(set(together)) > 3
    assert [answer.text for answer in answers_of(model, requests, seed=2)] != together


def test_it_is_pinned_like_any_model_and_its_keys_are_its_own(folders):
    model, unloaded = loaded(folders["t5"]), loaded(folders["t5"], weights=False)
    info = model.info
    assert info.architecture == "T5ForConditionalGeneration"
    assert (info.max_length, info.prefix_token, info.dtype) == (POSITIONS, 1, "float32")
    assert info.parameters > 0
    requests = [*PAIRS, Request("generate_until", "Answer:", generation={})]
    keys = [encoded.key for encoded in model.encode(requests)]
    assert [encoded.key for encoded in unloaded.encode(requests)] == keys
    for encoded in model.encode(PAIRS):
        assert encoded.key != EncodedRequest.key_of(encoded.tokens, encoded.targets)
    stated = loaded(folders["t5"], backend="seq2seq")
    assert stated.info == info
    assert model.first_forward is None
    answers_of(model, requests)
    assert model.first_forward is not None


def test_an_initialised_model_is_evaluated(folders, toys):
    model = AutoModelForSeq2SeqLM.from_pretrained(folders["t5"])
    tokenizer = AutoTokenizer.from_pretrained(folders["t5"])
    (finished,) = evaluate(model, ["toy_choice"], tokenizer=tokenizer, include_path=toys, limit=2)
    assert finished.record.model["architecture"] == "T5ForConditionalGeneration"


def test_the_command_refuses_them_before_the_weights_are_there(toys, tmp_path, capsys):
    folder = tiny.make_seq2seq(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    stated = ["--model", "hf", "--model_args", f"pretrained={folder}"]
    assert run_toys(toys, *stated, task="toy_rolling") == ModelError.exit_code
    assert "answers no loglikelihood_rolling request" in capsys.readouterr().err
    assert run_toys(toys, *stated) == ModelError.exit_code
    assert "no weights in safetensors format" in capsys.readouterr().err


def test_a_decoder_that_begins_with_a_token_of_the_answer_is_not_asked_how_likely_it_is(
    folders, toys
):
    model = loaded(folders["mbart"])
    with pytest.raises(ModelError, match="answers no loglikelihood request"):
        evaluate(model, ["toy_choice"], include_path=toys)
    with pytest.raises(ModelError, match="with which token its decoder begins"):
        model.encode(PAIRS[:1])
    (answer,) = answers_of(model, [Request("generate_until", "a", generation={"max_gen_toks": 3})])
    assert answer.text is not None


@pytest.mark.parametrize(
    ("architecture", "stated", "said"),
    [
        ("t5", {"backend": "causal"}, r"backend=causal: .* is an encoder-decoder model \(T5For"),
        ("llama", {"backend": "seq2seq"}, r"backend=seq2seq: .* is no encoder-decoder .*\(Llama"),
        ("t5", {"peft": "any/adapter"}, "peft: .* over which no adapter is put: merge it"),
        ("t5", {"delta": "any/delta"}, r"delta: .* is an encoder-decoder model"),
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


def test_it_is_known_by_its_type_and_read_as_nothing_else(tmp_path):
    folder = tiny.make_seq2seq(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    del config["is_encoder_decoder"]
    (folder / "config.json").write_text(json.dumps(config))
    assert loaded(folder).capabilities.encoder
    with pytest.raises(ModelError, match="encoder-decoder model"):
        reader_of(Arguments.of({"pretrained": str(folder)}))
    with pytest.raises(ModelError, match="--model hf-seq2seq: the name is hf now"):
        backend_of("hf-seq2seq")


def test_the_length_of_an_answer_leaves_room_for_one(folders):
    request = Request("generate_until", "a", generation={"max_length": 1})
    with pytest.raises(ModelError, match="max_length 1 leaves no room for an answer"):
        loaded(folders["t5"]).encode([request])
    (answer,) = answers_of(
        loaded(folders["bart"]), [replace(request, generation={"max_length": 4})]
    )
    assert len(answer.token_ids) <= 3
    endless = Request("generate_until", "a", generation={"until": [], "max_gen_toks": 500})
    (answer,) = answers_of(loaded(folders["bart"]), [endless])
    assert len(answer.token_ids) <= POSITIONS
