"""A model that thinks before it answers: how long it may, and where its answer begins."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evalcore.errors import ModelError, TaskError
from evalcore.model.base import Request
from evalcore.model.registry import backend_of
from evalcore.model.writing.drawing import StopAt
from evalcore.model.writing.ending import StopRule, Text
from evalcore.model.writing.generation import ThinkingBudget, plan_of
from tests import tiny
from tests.evalcore.model import asking

CONTEXTS = [f"Question {number}: " + "wood " * number for number in range(6)]
END = "</think>"

load = partial(asking.load, mode="strict")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.make(tmp_path_factory.mktemp("tiny"), positions=128, chat_template=tiny.CHAT)


@pytest.fixture(scope="module")
def plain(folder):
    return load(folder)


def thinking(folder, budget, end=END, **how):
    return load(folder, think_end_token=end, thinking_budget=str(budget), **how)


def answers_of(model, contexts, **how):
    requests = [Request("generate_until", context, generation=how) for context in contexts]
    return asking.answers_of(model, requests)


def tokens_of(model, text):
    return tuple(model.tokenizer.encode(text, add_special_tokens=False))


def written_by_hand(model, context, *, budget, end, most):
    """Token after token, the likeliest one, but for the end of the thinking where it is due."""
    (asked,) = model.encode(
        [Request("generate_until", context, generation={"max_gen_toks": most, "until": []})]
    )
    told, found, answered = list(asked.tokens), [], None
    while answered is None or len(found) - answered < most:
        thought = len(found)
        with torch.inference_mode():
            logits = model._model(torch.tensor([[*told, *found]])).logits[0, -1]
        likeliest = int(logits.argmax())
        due = end[thought - budget] if answered is None and thought >= budget else likeliest
        found.append(due)
        if answered is None and tuple(found[-len(end) :]) == end:
            answered = len(found)
        if due == 1:
            break
    return tuple(found)


@pytest.mark.parametrize(("path", "mode"), [("packed", "strict"), ("plain", "compat")])
def test_thinking_ends_after_its_budget_and_the_answer_has_all_its_tokens(
    folder, plain, path, mode
):
    end = tokens_of(plain, END)
    model = thinking(folder, 7, mode=mode, path=path)
    answers = answers_of(model, CONTEXTS, until=[], max_gen_toks=5)
    for context, answer in zip(CONTEXTS, answers, strict=True):
        expected = written_by_hand(model, context, budget=7, end=end, most=5)
        assert answer.token_ids == expected
        if answer.finish_reason == "length":
            assert answer.token_ids[7 : 7 + len(end)] == end
            assert len(answer.token_ids) == 7 + len(end) + 5
            assert answer.text == plain.tokenizer.decode(expected[7 + len(end) :]).lstrip()
    assert "length" in {answer.finish_reason for answer in answers}


@pytest.mark.parametrize("path", ["packed", "plain"])
def test_what_the_thinking_leaves_of_its_budget_is_not_the_answers(folder, plain, path):
    written = answers_of(plain, ["Question"], until=[], max_gen_toks=9)[0].token_ids
    end = written[3]
    assert end not in written[:3]
    model = thinking(folder, 50, end=end, path=path)
    (answer,) = answers_of(model, ["Question"], until=[], max_gen_toks=4)
    assert answer.token_ids == written[: 4 + 4]
    assert answer.finish_reason == "length"


@pytest.mark.parametrize(
    "how",
    [
        {"until": ["\n"], "max_gen_toks": 6},
        {"until": [], "max_gen_toks": 6, "temperature": 1.0, "top_p": 0.95},
    ],
    ids=["greedy", "sampled"],
)
def test_every_way_of_writing_ends_the_thinking_alike(folder, how):
    continuously, in_batches = (
        answers_of(thinking(folder, 9, path=path), CONTEXTS, **how) for path in ("packed", "plain")
    )
    assert [answer.token_ids for answer in continuously] == [
        answer.token_ids for answer in in_batches
    ]
    alone = [answers_of(thinking(folder, 9), [context], **how)[0] for context in CONTEXTS]
    assert [answer.text for answer in alone] == [answer.text for answer in continuously]


def test_a_special_token_ends_the_thinking_as_one_token(tmp_path):
    folder = tiny.make(tmp_path, positions=128)
    tokenizer = load(folder).tokenizer
    name = next(iter(set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens)))
    tokenizer.add_special_tokens({"additional_special_tokens": [name]})
    tokenizer.save_pretrained(folder)
    for mode in ("compat", "strict"):
        (answer,) = answers_of(
            thinking(folder, 5, end=name, mode=mode), ["Question"], until=[], max_gen_toks=3
        )
        assert tokenizer.convert_tokens_to_ids(name) in answer.token_ids[:6]
        assert len(answer.token_ids) <= 5 + 1 + 3


class Letters:
    """A tokenizer with a token for each letter."""

    def encode(self, text, add_special_tokens=False):
        assert not add_special_tokens
        return [ord(letter) for letter in text]

    def decode(self, tokens, skip_special_tokens=False):
        del skip_special_tokens
        return "".join(map(chr, tokens))


@given(
    said=st.tuples(
        st.text(alphabet="ab\n!", max_size=12),
        st.sampled_from(["", "!!", "!!\n", "!!\n\n"]),
        st.text(alphabet="ab\n!#", min_size=40, max_size=40),
    ).map("".join),
    budget=st.integers(1, 12),
    most=st.integers(1, 12),
    stop=st.sampled_from(["\n", "\n\n", "a\nb", "ab"]),
)
def test_a_text_is_what_its_rules_say_of_the_whole_of_it(said, budget, most, stop):
    """Thoughts up to their end, by themselves or put there; then the answer, which is cut at its
    first stop behind the white space, or after its tokens, or at the model's end (`#`)."""
    plan = plan_of(
        {"until": [stop], "max_gen_toks": most},
        eos=None,
        think_end="!!",
        known=(),
        mode="strict",
        thinking_budget=ThinkingBudget(budget, tuple(map(ord, "!!"))),
    )
    text = Text(StopRule(Letters(), plan), frozenset([ord("#")]), plan.most_tokens)
    for letter in said:
        if text.take(ord(letter)):
            break
    whole = "".join(map(chr, text.tokens))

    thought = said.find("!!") + 2
    ended = said.find("#")
    if 0 <= ended < budget and not 2 <= thought <= ended:
        assert whole == said[: ended + 1]
        return
    # What is put may complete what the model has begun.
    with_end = f"{said[:budget]}!!"
    expected = with_end[: with_end.index("!!") + 2]
    # The letters in whose place the end was put are lost.
    answer = said[len(expected) :][:most]
    if "#" in answer:
        answer = answer[: answer.index("#") + 1]
    spoken = answer.lstrip("\n")
    if stop in spoken:
        blank = len(answer) - len(spoken)
        answer = answer[: blank + spoken.index(stop) + len(stop)]
        assert text.stopped_after == len(whole)
    assert whole == expected + answer


class Pieces(Letters):
    """A tokenizer with some tokens of several letters."""

    pieces = ("so", "</think>", "\n\nIt", " is", "\n\n")

    def decode(self, tokens, skip_special_tokens=False):
        del skip_special_tokens
        return "".join(self.pieces[token] for token in tokens)


SO, ENDS, LINE_IT, IS, LINE = range(5)


@pytest.mark.parametrize(
    ("budget", "end"), [(ThinkingBudget(9, (ENDS,)), ENDS), (None, "</think>")], ids=str
)
def test_an_empty_line_before_the_answer_is_no_stop_even_within_its_first_token(budget, end):
    plan = plan_of(
        {"until": ["\n\n"]},
        eos=None,
        think_end=end,
        known=(),
        mode="strict",
        thinking_budget=budget,
    )
    written = (SO, LINE, ENDS, LINE, LINE_IT, IS, LINE)
    text = Text(StopRule(Pieces(), plan), frozenset(), plan.most_tokens)
    assert [text.take(token) for token in written] == [False] * 6 + [True]
    assert text.stopped_after == 7
    in_batches = StopAt(Pieces(), plan, width=0, beams=1, unsearched=[0])
    rows = [torch.tensor([written[:count]]) for count in range(1, 8)]
    assert [bool(in_batches(row, None)) for row in rows] == [False] * 6 + [True]
    assert in_batches.ended == {0: 7}
    endless = StopAt(Pieces(), plan, width=0, beams=1, unsearched=[0])
    assert not endless(torch.tensor([[SO, LINE, LINE_IT, LINE]]), None).any()


def test_a_prompt_makes_room_for_thoughts_and_answer(folder, plain):
    (asked,) = thinking(folder, 20).encode(
        [Request("generate_until", "wood " * 200, generation={"max_gen_toks": 10})]
    )
    assert len(asked.tokens) == 128 - 20 - len(tokens_of(plain, END)) - 10
    assert asked.n_truncated > 0
    with pytest.raises(ModelError, match=r"lower thinking_budget \(120\) or max_gen_toks"):
        thinking(folder, 120).encode(
            [Request("generate_until", "a", generation={"max_gen_toks": 10})]
        )


def test_a_budget_is_in_the_key_and_needs_an_end_that_can_be_written(folder, tmp_path):
    request = Request("generate_until", "Question", generation={"max_gen_toks": 4})
    models = load(folder, think_end_token=END), thinking(folder, 6), thinking(folder, 7)
    assert len({model.encode([request])[0].key for model in models}) == 3
    unable = thinking(tiny.make(tmp_path / "words", words=True, positions=128), 6, "思</think>")
    with pytest.raises(ModelError, match="think_end_token: its tokenizer cannot write"):
        unable.encode([request])
    encoder = tiny.make_seq2seq(tmp_path / "encoder")
    arguments = {"pretrained": str(encoder), "think_end_token": END, "thinking_budget": "9"}
    with pytest.raises(ModelError, match=r"thinking_budget: .* encoder-decoder"):
        backend_of("hf").from_arguments(arguments, device="cpu")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"max_length": 90}, "max_length: 90 leaves open"),
        ({"max_gen_toks": 4, "num_beams": 2}, "num_beams: 2 beams have no thinking_budget"),
    ],
    ids=str,
)
def test_what_a_budget_does_not_go_with_is_the_tasks_matter(folder, how, said):
    with pytest.raises(TaskError, match=said):
        answers_of(thinking(folder, 6), ["Question"], **how)


@pytest.mark.parametrize(
    "told",
    [{"enable_thinking": "True"}, {"chat_template_args": '{"enable_thinking": true}'}],
    ids=["by its own argument", "by the template's"],
)
def test_a_model_that_is_told_to_think_is_asked_for_no_likelihood(folder, told):
    model = load(folder, think_end_token=END, **told)
    with pytest.raises(ModelError, match="cannot be asked how likely"):
        model.encode([Request("loglikelihood", "a", " b")])
    not_now = load(folder, **{**told, "enable_thinking": "False"})
    assert not_now.encode([Request("loglikelihood", "a", " b")])


@pytest.mark.parametrize("mode", ["compat", "strict"])
def test_thoughts_are_what_stands_before_the_last_end_of_them(folder, plain, mode):
    """By the number of a token or by its text; the tokens are counted with that end."""
    (free,) = answers_of(plain, ["Question"], until=[], max_gen_toks=12)
    ends = [token for token in free.token_ids[2:8] if token > 2]
    for end in (ends[0], plain.tokenizer.decode([ends[-1]])):
        model = load(folder, mode=mode, think_end_token=str(end))
        (answer,) = answers_of(model, ["Question"], until=[], max_gen_toks=12)
        assert answer.token_ids == free.token_ids
        written = plain.tokenizer.decode([end]) if isinstance(end, int) else end
        count = answer.n_thought_tokens
        assert plain.tokenizer.decode(free.token_ids[:count]) == answer.thoughts + written
        assert plain.tokenizer.decode(free.token_ids[count:]).lstrip() == answer.text
        assert answer.thinking == "ended"


@pytest.mark.parametrize(
    ("arguments", "thinking"),
    [
        ({}, None),
        ({"think_end_token": END}, "unended"),
        ({"think_end_token": END, "enable_thinking": "False"}, None),
        ({"think_end_token": END, "thinking_budget": "3"}, "cut"),
    ],
    ids=str,
)
def test_a_text_says_how_its_thinking_ended(folder, arguments, thinking):
    (answer,) = answers_of(load(folder, **arguments), ["Question"], until=[], max_gen_toks=5)
    assert answer.finish_reason == "length"
    assert answer.thinking == thinking
    assert (answer.thoughts is None) == (thinking != "cut")
