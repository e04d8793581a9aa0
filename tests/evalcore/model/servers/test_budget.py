"""A run ends before it uses more requests, tokens or money than it may."""

from __future__ import annotations

import pytest

from evalcore.cli import main
from evalcore.errors import ModelError
from evalcore.library import evaluate
from evalcore.model.base import Request
from evalcore.model.servers.budget import Budget, Prices, Use, most_of, prices_of, use_of
from tests.evalcore.model.servers.conftest import stated
from tests.evalcore.model.servers.test_completions import SCORED, answers, model
from tests.evalcore.toys import write_toys

PRICES = "currency: USD\nmodels:\n  org/tiny: {input: 1000, output: 5000}\n"


@pytest.fixture
def prices(tmp_path):
    file = tmp_path / "prices.yaml"
    file.write_text(PRICES)
    return str(file)


def used(lm):
    return lm.execution["generate_until"]["used"]


def test_what_a_run_used_is_what_the_server_says(small, arguments, prices):
    lm = model({**arguments, "prices": prices})
    answers(lm, SCORED)
    read = sum(len(small._tokens_of(body["prompt"])) for body in small.asked)
    written = sum(body["max_tokens"] for body in small.asked)
    said = used(lm)
    assert (said["requests"], said["tokens_read"], said["tokens_written"]) == (
        len(small.asked),
        read,
        written,
    )
    assert said["cost"] == pytest.approx((read * 1000 + written * 5000) / 1e6)
    assert said["currency"] == "USD"


def keep(lm, kept):
    for pack in lm.answer(lm.encode(SCORED * 5)):
        kept += pack


@pytest.mark.parametrize("concurrent", ["1", "7"])
@pytest.mark.parametrize(
    ("limit", "what"),
    [("max_requests", "requests"), ("max_total_tokens", "tokens"), ("max_cost", "cost")],
)
def test_no_limit_is_ever_exceeded(small, arguments, prices, limit, what, concurrent):
    free = model({**arguments, "prices": prices, "num_concurrent": concurrent})
    before = used(free)
    answers(free, SCORED * 5)
    spent = {**used(free), "tokens": used(free)["tokens_read"] + used(free)["tokens_written"]}
    begun = {**before, "tokens": before["tokens_read"] + before["tokens_written"]}
    middle = (begun[what] + spent[what]) / 2
    allowed = middle if what == "cost" else int(middle)
    lm = model({**arguments, "prices": prices, "num_concurrent": concurrent, limit: str(allowed)})
    small.asked.clear()
    kept: list[object] = []
    with pytest.raises(ModelError, match=f"{limit} .* would be exceeded"):
        keep(lm, kept)
    after = {**used(lm), "tokens": used(lm)["tokens_read"] + used(lm)["tokens_written"]}
    assert begun[what] < after[what] <= allowed
    assert len(kept) == len(small.asked) > 0


def test_a_run_that_ended_goes_on_where_it_was(small, arguments, tmp_path):
    write_toys(tmp_path / "tasks")
    how = {"include_path": tmp_path / "tasks", "use_cache": tmp_path / "kept", "mode": "strict"}
    with pytest.raises(ModelError, match="raise the limit, and run the same command again"):
        evaluate(model({**arguments, "max_requests": "14"}), ["toy_likely"], **how)
    assert len(small.asked) == 14
    (evaluation,) = evaluate(model(arguments), ["toy_likely"], **how)
    assert evaluation.record.requests["journalled"] > 0


def test_answers_without_usage_count_as_the_most_that_they_can(small, arguments):
    small.habits.counts = False
    lm = model(arguments)
    before = used(lm)["tokens_written"]
    answers(lm, [Request("generate_until", "2 +", generation={"until": ["e"], "max_gen_toks": 9})])
    assert used(lm)["tokens_written"] == before + 9


def test_a_request_is_estimated_from_above():
    assert most_of({"prompt": [1, 2, 3], "max_tokens": 4}) == Use(1, 3, 4)
    assert most_of({"prompt": [[1], [2, 3]], "max_tokens": 4}) == Use(1, 3, 8)
    assert most_of({"prompt": "été", "max_tokens": 1}) == Use(1, 6, 1)
    talk = {"messages": [{"role": "user", "content": "été"}], "max_completion_tokens": 2}
    assert most_of(talk).read >= 6
    assert most_of(talk).written == 2
    assert use_of({"usage": {"prompt_tokens": 5}}, Use(1, 9, 3)) == Use(1, 5, 3)


def test_room_is_kept_for_what_is_under_way():
    budget = Budget(max_cost=1.0, prices=Prices(input=0, output=500_000, currency="USD"))
    assert budget.hold(Use(1, 0, 1))
    assert budget.hold(Use(1, 0, 1))
    assert not budget.hold(Use(1, 0, 1))
    budget.release(Use(1, 0, 1), Use(1, 0, 0))
    assert budget.hold(Use(1, 0, 1))
    budget.release(Use(1, 0, 1), Use(1, 0, 1))
    budget.release(Use(1, 0, 1), Use(1, 0, 1))
    with pytest.raises(ModelError, match="max_cost 1 would be exceeded"):
        budget.hold(Use(1, 0, 1))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("models: {}", "expected `currency: USD` and `models:`"),
        ("[1", "cannot be read"),
        ("currency: USD\nmodels: {org/tine: {input: 1, output: 1}}", r"did you mean org/tine\?"),
        ("currency: USD\nmodels: {org/tiny: {input: 1}}", r"org/tiny.output: .* got None"),
        ("currency: USD\nmodels: {org/tiny: {input: -1, output: 1}}", r"tiny.input: .* got -1"),
    ],
)
def test_prices_that_are_none_are_told_by_file_and_key(tmp_path, text, told):
    file = tmp_path / "prices.yaml"
    file.write_text(text)
    with pytest.raises(ModelError, match=told) as error:
        prices_of(str(file), "org/tiny")
    assert str(file) in str(error.value)
    assert "\n" not in str(error.value)


def test_the_command_takes_the_limit(address, folder, prices, tmp_path, capsys):
    write_toys(tmp_path / "tasks")
    given = stated(address, folder)
    told = ",".join(f"{name}={value}" for name, value in given.items())
    command = [
        *("run", "--model", "local-completions", "--model_args", told, "--tasks", "toy_likely"),
        *("--include_path", str(tmp_path / "tasks"), "--mode", "strict"),
    ]
    assert main([*command, "--max_cost", "1e-9", "--prices", prices]) == ModelError.exit_code
    assert "max_cost 1e-09 would be exceeded" in capsys.readouterr().err
    assert main([*command, "--max_cost", "5"]) == ModelError.exit_code
    assert "give a file of prices (--prices FILE)" in capsys.readouterr().err
    assert main([*command, "--max_cost", "5", "--prices", prices]) == 0
    assert main([*command, "--max_cost", "none", "--prices", prices]) == 2
    assert "--max_cost: expected a number above 0, got 'none'" in capsys.readouterr().err
    here = ["run", "--model_args", f"pretrained={folder}", "--tasks", "toy_likely"]
    assert main([*here, *command[7:], "--max_cost", "5"]) == ModelError.exit_code
    assert "a model that is run here has no price" in capsys.readouterr().err
