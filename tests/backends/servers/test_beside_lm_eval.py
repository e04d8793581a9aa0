"""lm-evaluation-harness's own clients of servers, on the same server with the same requests."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import yaml
from lm_eval import simple_evaluate
from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalChatCompletion, LocalCompletionsAPI
from lm_eval.tasks import TaskManager

from evalcore.library import evaluate
from evalcore.model.base import Request
from evalcore.model.registry import backend_of
from tests.evalcore.model.servers.asking import ROLLING, SCORED, TURNS, WRITTEN, answers, asked
from tests.evalcore.model.servers.small_server import FaultProxy, running
from tests.evalcore.toys import write_toys

LONG = "Which of these is made of wood? " * 20
GREEDY = {"do_sample": False, "temperature": 0.0}
ASKED = [
    *(request for request in SCORED if request.repeats == 1),
    Request("loglikelihood", LONG, " a table"),
    Request("loglikelihood", "Question: ", "Which"),
    *ROLLING,
    Request("loglikelihood_rolling", "", LONG),
    *WRITTEN,
    Request("generate_until", LONG, generation={"until": ["\n"], "max_gen_toks": 7, **GREEDY}),
]
"""Also some that are cut, and some of several windows."""

TASKS = ("toy_choice", "toy_shots", "toy_likely", "toy_rolling", "toy_greedy")
NATS = 1e-5
"""Both are told the same sums by the same server, in float32."""


@pytest.fixture
def proxy(served):
    """Says what a client sent."""
    one = FaultProxy(served)
    with running(one.application()) as address:
        yield one, address


def given(address, folder, **others):
    """The names that both take."""
    return {
        "model": "org/tiny",
        "base_url": f"{address}/v1/completions",
        "tokenizer": str(folder),
        "num_concurrent": 4,
        "max_length": 128,
        **others,
    }


def sent(proxy):
    """The prompts since the last call, and how often each was; a list of one is that one."""
    found = Counter()
    for body in proxy.asked:
        prompt = body.get("prompt", body.get("messages"))
        several = isinstance(prompt, list) and isinstance(prompt[0], list)
        found.update(map(json.dumps, prompt if several else [prompt]))
    proxy.asked.clear()
    return found


def of_lm_eval(lm, requests):
    """Its answers in the order of the requests: it takes one kind at a time."""
    found = {}
    for kind in ("loglikelihood", "loglikelihood_rolling", "generate_until"):
        places = [place for place, request in enumerate(requests) if request.kind == kind]
        if places:
            instances = [Instance(kind, {}, requests[place].arguments, 0) for place in places]
            found |= dict(zip(places, getattr(lm, kind)(instances), strict=True))
    return [found[place] for place in range(len(requests))]


@pytest.mark.parametrize("add_bos_token", [False, True])
def test_prompts_numbers_and_texts_are_theirs(proxy, folder, add_bos_token):
    one, address = proxy
    stated = given(address, folder, add_bos_token=add_bos_token)
    lm = backend_of("local-completions").from_arguments(stated, mode="compat")
    sent(one)
    ours = answers(lm, ASKED)
    our_prompts = sent(one)
    theirs = of_lm_eval(LocalCompletionsAPI(**stated), ASKED)
    assert our_prompts == sent(one)
    assert sum(our_prompts.values()) > len(ASKED)
    for request, found, expected in zip(ASKED, ours, theirs, strict=True):
        if request.kind == "loglikelihood":
            assert found.loglikelihood == pytest.approx(expected[0], abs=NATS)
            assert found.is_greedy == expected[1]
        elif request.kind == "loglikelihood_rolling":
            assert found.loglikelihood == pytest.approx(expected, abs=NATS)
        else:
            # vLLM's server leaves out half a sign at the end, which a tokenizer writes as one.
            assert found.text.rstrip("\ufffd") == expected


def test_flags_are_theirs_where_some_are_greedy(proxy, folder):
    stated = given(proxy[1], folder)
    lm = backend_of("local-completions").from_arguments(stated, mode="compat")
    generation = {"until": [], "max_gen_toks": 1, **GREEDY}
    contexts = ["Question:", "The following are", "A. a table\nB.", "2 + 2"]
    said = answers(
        lm, [Request("generate_until", text, generation=generation) for text in contexts]
    )
    likeliest = [
        Request("loglikelihood", text, next_.text)
        for text, next_ in zip(contexts, said, strict=True)
        if next_.text.strip() and next_.text.isascii()
    ]
    requests = [*likeliest, *SCORED[:2]]
    ours = [found.is_greedy for found in answers(lm, requests)]
    theirs = [found[1] for found in of_lm_eval(LocalCompletionsAPI(**stated), requests)]
    assert ours == theirs
    assert {True, False} == set(ours)


def test_conversations_are_theirs(proxy, folder):
    one, address = proxy
    stated = {
        "model": "org/tiny",
        "base_url": f"{address}/v1/chat/completions",
        "num_concurrent": 4,
    }
    lm = backend_of("local-chat-completions").from_arguments(stated, mode="compat")
    sent(one)
    talks = [TURNS, TURNS[:1], TURNS[2:]]
    ours = answers(lm, [asked(lm, turns, until=["e"]) for turns in talks])
    our_messages = sent(one)
    peer = LocalChatCompletion(**stated)
    requests = [
        Instance(
            "generate_until",
            {},
            (
                peer.apply_chat_template(
                    [{"role": turn.role, "content": turn.content} for turn in turns]
                ),
                {"until": ["e"], "max_gen_toks": 9},
            ),
            0,
        )
        for turns in talks
    ]
    assert [found.text for found in ours] == peer.generate_until(requests)
    assert our_messages == sent(one)


@pytest.fixture
def tasks(tmp_path):
    """The toys, of which the one that writes takes the likeliest tokens."""
    folder = write_toys(tmp_path)
    task = yaml.safe_load((folder / "toy_written.yaml").read_text())
    own = {"until": ["\n"], "max_gen_toks": 8, **GREEDY}
    greedy = {**task, "task": "toy_greedy", "generation_kwargs": own, "repeats": 1}
    (folder / "toy_greedy.yaml").write_text(yaml.safe_dump(greedy))
    return folder


def test_whole_tasks_have_their_scores(proxy, folder, tasks: Path):
    one, address = proxy
    stated = given(address, folder)
    lm = backend_of("local-completions").from_arguments(stated, mode="compat")
    sent(one)
    how = {"include_path": tasks, "mode": "compat", "bootstrap_iters": 0}
    records = {found.record.task: found.record for found in evaluate(lm, TASKS, **how)}
    our_prompts = sent(one)
    results = simple_evaluate(
        model=LocalCompletionsAPI(**stated),
        tasks=list(TASKS),
        task_manager=TaskManager(include_path=str(tasks), include_defaults=False),
        bootstrap_iters=0,
    )
    # Equal prompts are asked once here.
    assert set(our_prompts) == set(sent(one))
    compared = 0
    for task, record in records.items():
        for result in record.results:
            name = f"{result.metric},{result.filter}"
            assert result.value == pytest.approx(results["results"][task][name], rel=1e-6), name
            compared += 1
    assert compared > 10
