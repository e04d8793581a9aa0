"""Texts that the `hf` backend writes, and long texts that it scores: alone, in batches, again."""

from __future__ import annotations

import json
from functools import wraps

import pytest
import torch

from evalcore.errors import ModelError, TaskError
from evalcore.journal import Journal
from evalcore.model.base import Request
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.snapshot import Arguments
from tests import tiny

CONTEXTS = [f"Question {number}: " + "wood " * number for number in range(9)]
GREEDY = {"until": ["\n"], "max_gen_toks": 12}
SAMPLED = {"until": [], "max_gen_toks": 12, "do_sample": True, "temperature": 1.0, "top_p": 0.95}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.make(tmp_path_factory.mktemp("tiny"), positions=96)


@pytest.fixture(scope="module")
def model(folder):
    return load(folder)


def load(folder, *, mode="compat", batch_size=None, path="auto", **arguments):
    stated = Arguments.of({"pretrained": str(folder), "dtype": "float32", **arguments})
    return HuggingFaceLM(stated, batch_size=batch_size, device="cpu", mode=mode, path=path)


def answers_of(model, requests, *, seed=1234):
    encoded = model.encode(requests, seed=seed)
    found = dict(pair for pack in model.answer(encoded) for pair in pack)
    return [found[index] for index in range(len(encoded))]


def texts_of(model, contexts, how, *, seed=1234, repeats=1):
    requests = [
        Request("generate_until", context, generation=how, repeats=repeats) for context in contexts
    ]
    return [answer.text for answer in answers_of(model, requests, seed=seed)]


def own_arguments(folder, **arguments):
    """States generation arguments in the model's own repository."""
    file = folder / "generation_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **arguments}))


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


@pytest.mark.parametrize("path", ["packed", "plain"])
@pytest.mark.parametrize("how", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
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


def test_top_k_of_one_draws_what_greedy_takes(model):
    how = {**GREEDY, "do_sample": True, "temperature": 0.9, "top_k": 1}
    assert texts_of(model, CONTEXTS, how) == texts_of(model, CONTEXTS, GREEDY)


def test_a_sampled_text_has_a_key_for_each_seed_and_repeat_a_greedy_one_has_one(model):
    def keys(how):
        request = Request("generate_until", "a", generation=how, repeats=2)
        return {encoded.key for seed in (1, 2) for encoded in model.encode([request], seed=seed)}

    assert len(keys(SAMPLED)) == 4
    assert len(keys(GREEDY)) == 1


@pytest.mark.parametrize(
    "other",
    [{"until": ["a"]}, {"max_gen_toks": 13}, {"repetition_penalty": 1.2}, {"num_beams": 2}],
    ids=str,
)
def test_two_generation_settings_never_share_an_answer(model, other):
    one, another = (
        model.encode([Request("generate_until", "a", generation=how)])[0].key
        for how in (GREEDY, {**GREEDY, **other})
    )
    assert one != another


def test_the_models_own_generation_arguments_are_in_the_key(tmp_path):
    folder = tiny.make(tmp_path)
    request = Request("generate_until", "a", generation=GREEDY)
    plain = load(folder).encode([request])[0].key
    own_arguments(folder, repetition_penalty=1.2)
    assert load(folder).encode([request])[0].key != plain


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


def test_a_model_without_room_for_the_answer_is_named(model):
    with pytest.raises(ModelError, match=r"length of 96 tokens leaves no room .* 256 new tokens"):
        model.encode([Request("generate_until", "a", generation={})])


def test_an_empty_prompt_is_answered(model):
    assert texts_of(model, [""], GREEDY)[0] is not None


def test_arguments_that_contradict_one_another_are_the_tasks_matter(model):
    with pytest.raises(TaskError, match="top_k"):
        texts_of(model, ["a"], {**SAMPLED, "top_k": -3})


def test_the_number_of_tokens_that_a_model_states_holds_in_compat_only(tmp_path):
    folder = tiny.make(tmp_path)
    own_arguments(folder, max_new_tokens=3)
    request = Request("generate_until", "Question", generation={"max_gen_toks": 8})
    lengths = {
        mode: len(answers_of(load(folder, mode=mode), [request])[0].token_ids)
        for mode in ("compat", "strict")
    }
    assert lengths == {"compat": 3, "strict": 8}


def test_an_empty_stop_ends_a_text_at_once_in_compat_only(folder):
    request = Request("generate_until", "Question", generation={"until": [""], "max_gen_toks": 5})
    lengths = {
        mode: len(answers_of(load(folder, mode=mode), [request])[0].token_ids)
        for mode in ("compat", "strict")
    }
    assert lengths == {"compat": 1, "strict": 5}


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


def test_a_special_token_that_ends_the_thinking_is_found_in_strict_only(tmp_path):
    """It is not in the text that compat looks for it in."""
    folder = tiny.make(tmp_path, positions=96)
    plain = load(folder)
    tokens = likeliest(plain, "Question", 8)
    tokenizer = plain.tokenizer
    names = tokenizer.convert_ids_to_tokens(tokens)
    end = next(name for name in names[:-1] if name.isascii() and name.isalpha())
    tokenizer.add_special_tokens({"additional_special_tokens": [end]})
    tokenizer.save_pretrained(folder)
    request = Request("generate_until", "Question", generation={"max_gen_toks": 8})
    compat, strict = (
        answers_of(load(folder, mode=mode, think_end_token=end), [request])[0].text
        for mode in ("compat", "strict")
    )
    assert len(strict) < len(compat)
    assert compat.endswith(strict)


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


def test_a_text_without_tokens_is_certain(model):
    (answer,) = answers_of(model, [Request("loglikelihood_rolling", "", "")])
    assert (answer.loglikelihood, answer.token_logprobs) == (0.0, ())


def test_a_stride_longer_than_the_model_is_named(folder):
    with pytest.raises(ModelError, match="rolling_stride: a stride of 97"):
        load(folder, rolling_stride="97").encode([Request("loglikelihood_rolling", "", "a")])


def test_a_model_that_thinks_cannot_be_asked_how_likely_an_answer_is(folder):
    model = load(folder, enable_thinking="True", think_end_token="</think>")
    with pytest.raises(ModelError, match="enable_thinking"):
        model.encode([Request("loglikelihood", "a", " b")])


@pytest.mark.parametrize(
    ("how", "after"),
    [
        (GREEDY, 0),
        (GREEDY, 12),
        (SAMPLED, 12),
        ({**GREEDY, "repetition_penalty": 1.3}, 0),
        ({**GREEDY, "num_beams": 2}, 0),
    ],
)
def test_a_model_whose_output_is_no_number_writes_no_text(folder, how, after):
    """As where float16 overflows, be it late: the likeliest token would be the first of all."""
    model, calls = load(folder, dtype="float16"), iter(range(10**6))
    layer = model._model.get_decoder().layers[0]
    layer.register_forward_hook(
        lambda _, __, output: output * (float("nan") if next(calls) >= after else 1)
    )
    with pytest.raises(ModelError, match="not a number"):
        texts_of(model, CONTEXTS, {**how, "until": []})


@pytest.mark.parametrize("how", [GREEDY, {**GREEDY, "repetition_penalty": 1.3}])
def test_rows_that_influence_each_other_are_written_one_by_one(folder, how):
    """As where a norm is taken over all of a batch."""

    def mixing():
        model = load(folder, path="plain")
        model._model.get_decoder().layers[0].register_forward_hook(
            lambda _, __, output: 0.5 * (output + output.mean(dim=0, keepdim=True))
        )
        return model

    asked = [*CONTEXTS, *(f"Question {number}: wood" for number in range(6))]
    alone = [texts_of(mixing(), [context], how)[0] for context in asked]
    assert texts_of(mixing(), asked, how) == alone


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_little_sight_of_the_padding_is_found_in_half_precision(tmp_path, dtype):
    """Less than rounding moves, so it is looked for in float32."""
    model = load(tiny.make(tmp_path, positions=96), path="plain", dtype=dtype)
    padded, generate = [], model._model.generate

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
