"""Texts that the `hf` backend writes, and long texts that it scores: what their arguments mean,
that no text depends on its company, what of a text is the answer, and how its tokens are spelt."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, LlamaForCausalLM

from evalcore.cli import main
from evalcore.compare import compare
from evalcore.errors import ModelError, TaskError
from evalcore.formats.run_files import Run
from evalcore.journal import Journal
from evalcore.keys import run_key_of
from evalcore.library import evaluate
from evalcore.model.base import Request
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.tokens.spelling import Spelling
from evalcore.model.tokens.windows import rolling_windows
from evalcore.model.writing.generation import answer_within, plan_of
from evalcore.record import read_samples
from evalcore.remarks import remarks_on
from tests import tiny
from tests.evalcore.model.asking import answers_of, load
from tests.evalcore.model.drawn_models import changed
from tests.evalcore.toys import write_run, write_toy, write_toys

CONTEXTS = [f"Question {number}: " + "wood " * number for number in range(9)]
GREEDY = {"until": ["\n"], "max_gen_toks": 12}
SAMPLED = {"until": [], "max_gen_toks": 12, "do_sample": True, "temperature": 1.0, "top_p": 0.95}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.make(tmp_path_factory.mktemp("tiny"), positions=96)


@pytest.fixture(scope="module")
def model(folder):
    return load(folder)


def texts_of(model, contexts, how, *, seed=1234, repeats=1):
    requests = [
        Request("generate_until", context, generation=how, repeats=repeats) for context in contexts
    ]
    return [answer.text for answer in answers_of(model, requests, seed=seed)]


def test_a_pad_token_that_the_model_has_no_row_for_pads_nothing(folder, model):
    """`[PAD]` was given to the tokenizer alone, as many were; texts that end early are padded."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    network = model._model
    assert tokenizer.pad_token_id == len(network.get_input_embeddings().weight)
    for how in ({"no_repeat_ngram_size": 2}, {"num_beams": 2}, {"repetition_penalty": 1.3}):
        other = HuggingFaceLM(model=network, tokenizer=tokenizer)
        given = {**GREEDY, "until": ["e"], **how}
        assert texts_of(other, CONTEXTS, given) == texts_of(model, CONTEXTS, given)


def test_beams_write_in_strict_and_end_at_their_stops(folder, model):
    """Each step proposes more beams than go on: the model was said to have no positions."""
    strict = load(folder, mode="strict")
    beams = {"num_beams": 3, "max_gen_toks": 12, "until": []}
    whole = texts_of(model, CONTEXTS, beams)
    assert texts_of(strict, CONTEXTS, beams) == whole
    for text in texts_of(strict, CONTEXTS, {**beams, "until": ["e", "o"]}):
        assert not set(text) & set("eo")


def likeliest(model, context, count):
    """Token after token, the likeliest one, by the plainest computation there is."""
    (one,) = model.encode([Request("generate_until", context, generation={"max_gen_toks": count})])
    tokens = list(one.tokens)
    for _ in range(count):
        with torch.inference_mode():
            tokens.append(int(model._model(torch.tensor([tokens])).logits[0, -1].argmax()))
    return tuple(tokens[len(one.tokens) :])


def test_a_greedy_text_takes_the_likeliest_token_each_time(model):
    for context in CONTEXTS:
        request = Request("generate_until", context, generation={"max_gen_toks": 6})
        (answer,) = answers_of(model, [request])
        expected = likeliest(model, context, 6)
        assert answer.token_ids == expected[: len(answer.token_ids)]
        assert (answer.finish_reason == "length") == (len(answer.token_ids) == 6)


@pytest.mark.parametrize(("how", "path"), [(GREEDY, "plain"), (SAMPLED, "packed")], ids=str)
def test_a_text_does_not_depend_on_the_batch_or_the_order(folder, how, path):
    model = load(folder, path=path)
    together = texts_of(model, CONTEXTS, how)
    assert texts_of(model, CONTEXTS[::-1], how)[::-1] == together
    assert texts_of(load(folder, batch_size=1, path="plain"), CONTEXTS, how) == together


def test_a_penalty_that_sees_the_prompt_does_not_see_the_padding(folder):
    model = load(folder)
    how = {**GREEDY, "repetition_penalty": 9.0}
    requests = [Request("generate_until", context, generation=how) for context in CONTEXTS]
    alone = [answers_of(model, [request])[0] for request in requests]
    # Padding with the very token that the shortest prompt, which is padded most, goes on with.
    model.tokenizer.pad_token_id = alone[0].token_ids[0]
    assert [answer.token_ids for answer in answers_of(model, requests)] == [
        one.token_ids for one in alone
    ]


def test_the_seed_decides_a_sampled_text_and_each_repeat_is_another(model):
    first = texts_of(model, CONTEXTS[:2], SAMPLED, seed=1, repeats=4)
    assert texts_of(model, CONTEXTS[:2], SAMPLED, seed=1, repeats=4) == first
    assert texts_of(model, CONTEXTS[:2], SAMPLED, seed=2, repeats=4) != first
    assert len(set(first[:4])) > 1
    of_one = {**GREEDY, "do_sample": True, "temperature": 0.9, "top_k": 1}
    assert texts_of(model, CONTEXTS, of_one) == texts_of(model, CONTEXTS, GREEDY)


def test_draws_are_shares_of_the_distribution(model):
    """Of 400 draws of one token its share is what the model says, within four deviations."""
    how = {"max_gen_toks": 1, "do_sample": True, "temperature": 1.0, "top_k": 0}
    (encoded, *_) = model.encode([Request("generate_until", "Question", generation=how)])
    with torch.inference_mode():
        shares = model._model(torch.tensor([encoded.tokens])).logits[0, -1].double().softmax(-1)
    token = int(shares.argmax())
    answers = answers_of(
        model, [Request("generate_until", "Question", generation=how, repeats=400)]
    )
    found = sum(answer.token_ids == (token,) for answer in answers) / 400
    share = float(shares[token])
    assert abs(found - share) <= 4 * (share * (1 - share) / 400) ** 0.5


def test_what_may_change_a_text_is_in_its_key(tmp_path):
    """A text that is drawn has one for each seed and repeat."""
    folder = tiny.make(tmp_path)
    model = load(folder)

    def keys(how, repeats=1):
        request = Request("generate_until", "a", generation=how, repeats=repeats)
        return {encoded.key for seed in (1, 2) for encoded in model.encode([request], seed=seed)}

    assert len(keys(SAMPLED, repeats=2)) == 4
    assert len(keys(GREEDY, repeats=2)) == 1
    others = ({"until": ["a"]}, {"max_gen_toks": 13}, {"repetition_penalty": 1.2}, {"num_beams": 2})
    found = [keys({**GREEDY, **other}) for other in ({}, *others)]
    tiny.change_config(folder, "generation_config.json", repetition_penalty=1.2)
    model = load(folder)
    assert len(set.union(*found, keys(GREEDY))) == 6


OWN = {
    **{"repetition_penalty": 1.3, "suppress_tokens": [70], "max_new_tokens": 6, "top_p": 0.9},
    **{"do_sample": True, "temperature": 0.6, "length_penalty": 1.0, "eos_token_id": [1, 71]},
}


@pytest.fixture(scope="module")
def own_arguments(tmp_path_factory):
    """A model that says how it writes, and how three tasks ask it: without a word, by a draw, and
    with a penalty of their own."""
    folder = tiny.make(tmp_path_factory.mktemp("own") / "model", positions=96)
    toys = write_toys(tmp_path_factory.mktemp("tasks"))
    greedy = {"until": ["\n"], "max_gen_toks": 8, "do_sample": False}
    write_toy(toys, "greedy", like="toy_written", repeats=1, generation_kwargs=greedy)
    penalty = {**greedy, "repetition_penalty": 1.1}
    write_toy(toys, "penalty", like="toy_written", repeats=1, generation_kwargs=penalty)
    names = ["greedy", "toy_written", "penalty", "toy_choice"]

    def records(mode):
        found = evaluate(load(folder, mode=mode), names, include_path=toys, mode=mode, limit=2)
        return {record.task: record for record in (done.record for done in found)}

    before = {mode: records(mode) for mode in ("compat", "strict")}
    tiny.change_config(folder, "generation_config.json", **OWN)
    return before, {mode: records(mode) for mode in ("compat", "strict")}


@pytest.mark.parametrize("mode", ["compat", "strict"])
def test_what_a_model_says_of_how_it_writes_is_in_its_record_and_remarked(own_arguments, mode):
    """A strict key is known before a model is: there it is a pin of the model alone."""
    before, after = (records[mode] for records in own_arguments)
    for name, record in after.items():
        without = ("length_penalty", "eos_token_id")
        assert record.model["generation"] == {n: v for n, v in OWN.items() if n not in without}
        assert "generation" not in before[name].model
        assert run_key_of(record) == record.run_key
        in_key = mode == "compat" and name != "toy_choice"
        assert (record.run_key != before[name].run_key) == in_key
    told = [line for line in remarks_on([*after.values()]) if "generation_config.json" in line]
    most = "max_new_tokens 6, " if mode == "compat" else ""
    assert [line.partition(":")[0] for line in told] == ["greedy", "toy_written", "penalty"]
    assert told[0].endswith(f": {most}repetition_penalty 1.3, suppress_tokens [70]")
    assert "top_p 0.9" in told[1]
    assert "repetition_penalty" not in told[2]
    assert not any("generation_config.json" in line for line in remarks_on([*before.values()]))


def test_models_that_write_in_other_ways_of_their_own_are_not_compared_in_compat(own_arguments):
    a, b = ([Run(records["compat"]["greedy"], [], Path("r"))] for records in own_arguments)
    _, refusals = compare(a, b)
    assert "the model's own generation arguments ([] and [{'max_new" in refusals[0].reason


def test_journalled_answers_of_every_kind_come_back_to_the_bit(model, tmp_path):
    requests = [
        Request("generate_until", "Question", generation=SAMPLED, repeats=2),
        Request("loglikelihood_rolling", "", "wood " * 100),
        Request("loglikelihood", "Question", " wood"),
    ]
    answers = answers_of(model, requests)
    Journal(tmp_path, "model").append(answers)
    again = Journal(tmp_path, "model")
    assert [again[answer.key] for answer in answers] == answers


def test_a_prompt_that_is_too_long_loses_its_beginning_and_says_so(folder, model):
    how = {"until": [], "max_gen_toks": 30}
    request = Request("generate_until", "Question: " + "wood " * 200, generation=how)
    (whole,) = load(folder, max_length="2000").encode([request])
    (kept,) = model.encode([request])
    assert kept.tokens == whole.tokens[-66:]
    (answer,) = answers_of(model, [request])
    assert (answer.n_context_tokens, answer.n_truncated) == (66, len(whole.tokens) - 66)
    with pytest.raises(ModelError, match=r"length of 96 tokens leaves no room .* 256 new tokens"):
        model.encode([Request("generate_until", "a", generation={})])


def test_a_models_own_limit_and_an_empty_stop_count_in_compat_only(tmp_path):
    folder = tiny.make(tmp_path)
    tiny.change_config(folder, "generation_config.json", max_new_tokens=3)
    requests = [
        Request("generate_until", "Question", generation=how)
        for how in ({"max_gen_toks": 8}, {"until": [""], "max_gen_toks": 5})
    ]
    lengths = {
        mode: [len(answer.token_ids) for answer in answers_of(load(folder, mode=mode), requests)]
        for mode in ("compat", "strict")
    }
    assert lengths == {"compat": [3, 1], "strict": [8, 5]}


def test_a_stop_within_the_thinking_ends_a_text_in_compat_only(folder, model):
    tokens = likeliest(model, "Question", 12)
    decode = model.tokenizer.decode
    stop, end = decode([tokens[1]]), tokens[6]
    assert end not in tokens[:6]
    how = {"until": [stop], "max_gen_toks": 12}
    request = Request("generate_until", "Question", generation=how)
    compat, strict = (
        answers_of(load(folder, mode=mode, think_end_token=end), [request])[0]
        for mode in ("compat", "strict")
    )
    assert len(compat.token_ids) <= 2
    assert strict.token_ids[:7] == tokens[:7]
    assert strict.text == decode(strict.token_ids[7:]).lstrip().split(stop)[0]


def test_bos_is_scored_as_a_target_in_compat_only(tmp_path):
    """lm-evaluation-harness issue #3333: how likely BOS is after BOS is no part of the text."""
    with_bos = tiny.make(tmp_path / "a", adds_bos=True, positions=64)
    without = tiny.make(tmp_path / "b", positions=64)
    text = Request("loglikelihood_rolling", "", "Question: Which is made of wood?")
    compat, strict, plain = (
        model.encode([text])[0]
        for model in (load(with_bos), load(with_bos, mode="strict"), load(without))
    )
    assert compat.windows[0].targets[0] == 0
    assert strict.windows == plain.windows
    lower, higher = (
        answers_of(load(with_bos, mode=mode), [text])[0] for mode in ("compat", "strict")
    )
    assert lower.loglikelihood != higher.loglikelihood


@pytest.mark.parametrize("stride", [None, 16])
def test_a_whole_text_is_the_sum_of_its_windows(folder, stride):
    model = load(folder, **({} if stride is None else {"rolling_stride": stride}))
    text = Request("loglikelihood_rolling", "", "Question: Which is made of wood? " * 60)
    (encoded,) = model.encode([text])
    (answer,) = answers_of(model, [text])
    total = 0.0
    for window in encoded.windows:
        with torch.inference_mode():
            logits = model._model(torch.tensor([window.tokens])).logits[0].double()
        scores = torch.log_softmax(logits[-len(window.targets) :], -1)
        total += scores.gather(1, torch.tensor(window.targets)[:, None]).sum().item()
    assert answer.loglikelihood == pytest.approx(total, rel=1e-6)
    assert len(answer.token_logprobs) == len(encoded.windows) > 3
    assert sum(answer.token_logprobs) == answer.loglikelihood
    (empty,) = answers_of(model, [replace(text, continuation="")])
    assert (empty.loglikelihood, empty.token_logprobs) == (0.0, ())
    with pytest.raises(ModelError, match="rolling_stride: a stride of 97"):
        load(folder, rolling_stride="97").encode([text])


@pytest.mark.parametrize(
    ("how", "after"),
    [
        (GREEDY, 0),
        (SAMPLED, 12),
        ({**GREEDY, "repetition_penalty": 1.3}, 0),
        ({**GREEDY, "num_beams": 2}, 0),
    ],
)
def test_a_model_whose_output_is_no_number_writes_no_text(folder, how, after):
    """As where float16 overflows, be it late: the likeliest token would be the first of all."""
    model, calls = load(folder, dtype="float16"), iter(range(10**6))
    layer = model._model.get_decoder().layers[0]
    changed(layer, lambda _, output: output * (float("nan") if next(calls) >= after else 1))
    with pytest.raises(ModelError, match="not a number"):
        texts_of(model, CONTEXTS, {**how, "until": []})


def test_rows_that_influence_each_other_are_written_one_by_one(folder):
    """As where a norm is taken over all of a batch."""

    def mixing():
        model = load(folder, path="plain")
        model._model.get_decoder().layers[0].register_forward_hook(
            lambda _, __, output: 0.5 * (output + output.mean(dim=0, keepdim=True))
        )
        return model

    asked = [*CONTEXTS, *(f"Question {number}: wood" for number in range(6))]
    alone = [texts_of(mixing(), [context], GREEDY)[0] for context in asked]
    assert texts_of(mixing(), asked, GREEDY) == alone


# Code of a model's own, which may decide its texts.


class BeginsOtherwiseLM(LlamaForCausalLM):
    """Writes as others do, and then puts another token first."""

    def generate(self, **options):
        written = super().generate(**options)
        written[:, options["input_ids"].shape[1]] = 70
        return written


class LeastLM(LlamaForCausalLM):
    """Takes the unlikeliest token, by a method that `generate` calls."""

    def _get_logits_processor(self, *arguments, **options):
        found = super()._get_logits_processor(*arguments, **options)
        found.append(lambda _, scores: -scores)
        return found


class WithAVoice(LlamaForCausalLM):
    """Prefers another token than its pass says, after the first."""

    def forward(self, *given, past_key_values=None, **named):
        said = super().forward(*given, past_key_values=past_key_values, **named)
        if past_key_values is not None and past_key_values.get_seq_length() > 12:
            said.logits = said.logits.roll(1, -1)
        return said


def begins_otherwise(network):
    generate = network.generate

    def own(**options):
        written = generate(**options)
        written[:, options["input_ids"].shape[1]] = 70
        return written

    network.generate = own


def steers_the_prompt(states):
    """What acts on a prompt and not on the tokens that follow it one by one."""
    return states + 3 * states.roll(1, -1) if states.shape[1] > 1 else states


def hooked(network):
    network.model.layers[0].register_forward_hook(lambda _, __, out: steers_the_prompt(out))


def hooked_before(network):
    network.model.norm.register_forward_pre_hook(lambda _, given: steers_the_prompt(given[0]))


def replaced(network):
    layer = network.model.layers[0].mlp
    own = layer.forward
    layer.forward = lambda states: steers_the_prompt(own(states))


def of_another_class(network):
    changed(network.model.layers[0].mlp, lambda _, out: steers_the_prompt(out))


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (BeginsOtherwiseLM, None),
        (LeastLM, None),
        (WithAVoice, None),
        (LlamaForCausalLM, begins_otherwise),
        (LlamaForCausalLM, hooked),
        (LlamaForCausalLM, hooked_before),
        (LlamaForCausalLM, replaced),
        (LlamaForCausalLM, of_another_class),
    ],
)
def test_a_text_is_what_the_models_own_generate_gives(folder, kind, change):
    network, tokenizer = kind.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    plain = HuggingFaceLM(model=LlamaForCausalLM.from_pretrained(folder), tokenizer=tokenizer)
    if change is not None:
        change(network)
    lm = HuggingFaceLM(model=network, tokenizer=tokenizer)
    texts = texts_of(lm, CONTEXTS, {"until": [], "max_gen_toks": 12})
    for context, text in zip(CONTEXTS, texts, strict=True):
        ids = torch.tensor([tokenizer(context)["input_ids"]])
        options = {"attention_mask": torch.ones_like(ids), "max_new_tokens": 12}
        written = network.generate(input_ids=ids, pad_token_id=1, do_sample=False, **options)
        said = tokenizer.decode(written[0, ids.shape[1] :], skip_special_tokens=True)
        assert text == said.partition("</s>")[0]
    assert texts != texts_of(plain, CONTEXTS, {"until": [], "max_gen_toks": 12})
    assert lm.execution["generate_until"]["refused"].startswith("not continuously: ")


def test_a_generate_that_takes_other_arguments_is_the_models_matter(folder):
    network = LlamaForCausalLM.from_pretrained(folder)
    network.generate = lambda prompt: prompt
    lm = HuggingFaceLM(model=network, tokenizer=AutoTokenizer.from_pretrained(folder))
    with pytest.raises(ModelError, match=r"a `generate` of its own, .* TypeError"):
        texts_of(lm, CONTEXTS, GREEDY)


def test_a_little_sight_of_the_padding_is_found_in_half_precision(tmp_path):
    """Less than rounding moves, so it is looked for in float32."""
    model = load(tiny.make(tmp_path, positions=96), path="plain", dtype="bfloat16")
    padded, generate = [], model._model.generate

    @wraps(generate)
    def noted(**options):
        padded.append(not options["attention_mask"].all())
        return generate(**options)

    model._model.generate = noted
    norm = model._model.get_decoder().norm
    norm.register_forward_hook(lambda _, __, output: output * (1.002 if padded[-1] else 1))
    texts_of(model, CONTEXTS, GREEDY)
    assert padded.count(True) == 1  # to find out


def test_a_model_that_counts_the_padding_is_given_none(tmp_path):
    """Such as one whose states run over it: here, positions that do not heed the mask."""
    model = load(tiny.make(tmp_path, architecture="gpt2", positions=96), path="plain")
    alone = [texts_of(model, [context], GREEDY)[0] for context in CONTEXTS]
    prepare = model._model.prepare_inputs_for_generation

    @wraps(prepare)
    def counts_padding(*arguments, **options):
        inputs = prepare(*arguments, **options)
        if inputs.get("attention_mask") is None:
            return inputs  # nothing is padded
        width, fed = inputs["attention_mask"].shape[1], inputs["input_ids"].shape[1]
        inputs["position_ids"] = torch.arange(width - fed, width)[None]
        return inputs

    model._model.prepare_inputs_for_generation = counts_padding
    assert texts_of(model, CONTEXTS, GREEDY) == alone


KNOWN = {"top_p", "top_k", "num_beams", "repetition_penalty", "max_length", "temperature"}


def plan(given_arguments=None, *, mode="compat", eos="</s>", think_end=None):
    return plan_of(given_arguments or {}, eos=eos, think_end=think_end, known=KNOWN, mode=mode)


def test_what_a_plan_says_where_little_is_stated():
    """The first in order of several names for the limit counts, and EOS is the last stop."""
    found = plan()
    assert (found.sampled, found.max_new_tokens, found.until) == (False, 256, ("</s>",))
    limits = {"max_completion_tokens": 4, "max_tokens": 3, "max_new_tokens": 2, "max_gen_toks": 1}
    while limits:
        assert plan(limits).max_new_tokens == min(limits.values())
        del limits[min(limits, key=limits.get)]
    assert plan({"until": "\n"}).until == ("\n", "</s>")
    assert plan({"until": ["</s>", "b", "a"]}).until == ("</s>", "b", "a")
    assert plan({"until": ["a"]}, eos=None).until == ("a",)
    # What only shapes a draw makes no other plan of a text that is not drawn.
    assert plan({"top_p": 0.5, "temperature": 0.7, "do_sample": False}) == plan()


@pytest.mark.parametrize(
    ("stated", "sampled"),
    [
        ({}, False),
        ({"temperature": 0.0}, False),
        ({"temperature": 0.5}, True),
        ({"temperature": 0.5, "do_sample": False}, False),
        ({"temperature": 0.5, "do_sample": True}, True),
        ({"temperature": "0.5"}, True),
    ],
)
def test_do_sample_decides_and_follows_from_the_temperature_where_unstated(stated, sampled):
    assert plan(stated).sampled is sampled


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"top_pp": 0.5}, "'top_pp' is unknown (did you mean top_p"),
        ({"stop": ["a"]}, "'stop' is not taken: write the stops as `until`"),
        ({"num_return_sequences": 4}, "repeats"),
        ({"do_sample": True}, "state a temperature above 0"),
        ({"do_sample": "perhaps"}, "do_sample: expected true or false, got 'perhaps'"),
        ({"temperature": "hot"}, "temperature: expected a number, got 'hot'"),
        ({"temperature": -1}, "temperature: expected 0 or more, got -1"),
        ({"until": [3]}, "until: expected texts, got 3"),
        ({"max_gen_toks": 0}, "max_gen_toks: expected a count above 0, got 0"),
        ({"max_length": "long"}, "max_length: expected a count above 0, got 'long'"),
    ],
)
def test_an_argument_without_meaning_is_named(stated, said):
    with pytest.raises(TaskError) as refused:
        plan(stated)
    assert said in str(refused.value)


TEXT = st.text(alphabet="ab \n", max_size=20)


@given(TEXT, st.lists(st.text(alphabet="ab\n", min_size=1, max_size=3), max_size=3))
def test_an_answer_is_the_beginning_of_the_text_up_to_its_first_stop(text, stops):
    answer = answer_within(text, plan({"until": stops}, eos=None))
    assert text.startswith(answer)
    assert not any(stop in answer for stop in stops)
    rest = text[len(answer) :]
    assert rest == "" or any(rest.startswith(stop) for stop in stops)
    thinks = plan({"until": ["\n"]}, think_end="</think>")
    assert answer_within("why?\nso </think> or </think> \n42\nnext", thinks) == "42"
    assert answer_within(" 42\n", thinks) == "42"


# The text of each scored token, which readers of a sample see in place of a number; and long texts
# in windows, of which each token is scored once, after what really comes before it.

NAMES = ["toy_choice", "toy_likely", "toy_rolling"]


@pytest.fixture(scope="module", params=["bytes", "words"])
def tokenizer(request, tmp_path_factory):
    folder = tiny.make(tmp_path_factory.mktemp("tokenizer"), words=request.param == "words")
    return AutoTokenizer.from_pretrained(folder)


LETTERS = sorted(set("".join(tiny.TEXTS)))


@given(st.text(st.sampled_from(LETTERS), min_size=1))
@settings(max_examples=200, deadline=None)
def test_the_texts_of_an_answers_tokens_are_the_answer(tokenizer, text):
    spelling = Spelling(tokenizer)
    read = "".join(spelling.of(token) for token in tokenizer(text)["input_ids"])
    assert read in (text, f" {text}")  # the one that marks words puts a space before them


def test_a_part_of_a_character_is_written_by_its_bytes(tokenizer):
    spelling = Spelling(tokenizer)
    if "<0xE2>" in tokenizer.get_vocab():  # bytes for what it has no words for
        tokens = tokenizer.convert_tokens_to_ids(["<0xE2>", "<0x82>", "<0xAC>"])
    else:
        tokens = tokenizer("€")["input_ids"]
    assert "".join(map(spelling.of, tokens)).replace(" ", "") == "<0xE2><0x82><0xAC>"
    assert spelling.of(tokenizer.eos_token_id) == "</s>"
    assert spelling.of(10**6) is None


def responses_in(folder):
    return {
        (sample["task"], response["kind"]): (sample, response)
        for path in folder.glob("samples_*.parquet")
        for sample in read_samples(path)
        for response in sample["responses"]
    }


def test_samples_have_the_text_of_each_token_of_a_continuation_and_no_others(model, toys, tmp_path):
    write_run(tmp_path / "run", evaluate(model, NAMES, include_path=toys, bootstrap_iters=0))
    found = responses_in(tmp_path / "run")
    for task in ("toy_choice", "toy_likely"):
        sample, response = found[task, "loglikelihood"]
        assert len(response["token_texts"]) == len(response["token_ids"])
        assert "".join(response["token_texts"]) == sample["arguments"][-1]["continuation"]
    assert found["toy_rolling", "loglikelihood_rolling"][1]["token_texts"] is None
    assert main(["verify", str(tmp_path / "run"), "--level", "rescore"]) == 0


def test_tokens_of_a_withheld_text_have_no_text(model, tmp_path):
    tasks = write_toys(tmp_path)
    for name in NAMES:
        about = {"version": 1, "benchmark": name, "publish_samples": "ids"}
        write_toy(tasks, name, metadata=about)
    write_run(tmp_path / "run", evaluate(model, NAMES, include_path=tasks, bootstrap_iters=0))
    found = responses_in(tmp_path / "run")
    assert len(found) == len(NAMES)
    assert all(response["token_texts"] is None for _, response in found.values())


PREFIX = -1


@st.composite
def cases(draw):
    """A text of numbered tokens, a length, and a stride within it or none."""
    length = draw(st.integers(1, 12))
    stride = draw(st.none() | st.integers(1, length))
    return list(range(draw(st.integers(0, 60)))), length, stride


@given(cases())
def test_each_token_is_scored_once_and_after_those_before_it(case):
    tokens, length, stride = case
    windows = rolling_windows(tokens, prefix=PREFIX, length=length, stride=stride)
    assert [token for _, scored in windows for token in scored] == tokens
    for fed, scored in windows:
        assert 1 <= len(scored) <= len(fed) <= length
        # Tokens are numbered and the prefix is -1: each is predicted at the place before its own.
        assert fed == list(range(scored[-1] - len(fed), scored[-1]))


def test_windows_do_not_overlap_by_default():
    """Gao et al. 2024, A.3; the last, shorter window sees as much as there is room for."""
    assert rolling_windows([10, 11, 12, 13, 14, 15, 16], prefix=PREFIX, length=3) == [
        ([PREFIX, 10, 11], [10, 11, 12]),
        ([12, 13, 14], [13, 14, 15]),
        ([13, 14, 15], [16]),
    ]


def test_a_stride_leaves_each_window_something_to_go_by():
    windows = rolling_windows([10, 11, 12, 13, 14, 15], prefix=PREFIX, length=4, stride=1)
    assert windows[1:] == [([10, 11, 12, 13], [14]), ([11, 12, 13, 14], [15])]


@pytest.mark.parametrize("stride", [0, 5])
def test_a_stride_outside_the_window_is_refused(stride):
    with pytest.raises(ValueError, match=f"stride of {stride}"):
        rolling_windows([1], prefix=PREFIX, length=4, stride=stride)
