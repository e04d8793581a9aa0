"""Adapters, packed weights and chat templates: checked, submitted, each a variant of its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from leaderboard.hub import Refused, faults
from leaderboard.hub.repository import Weights
from leaderboard.models import HubModel, Run, Submission, Suite, User, Variant
from leaderboard.models.packing import (
    Packing,
    arguments_of,
    packed_bytes,
    packing_of,
    quantisation_by,
)
from leaderboard.models.variant import Dtype
from leaderboard.queue import claims, reproduce
from leaderboard.submissions import precheck
from leaderboard.submissions.precheck import Way
from leaderboard.submissions.submit import submit
from tests import awkward, tiny
from tests.leaderboard.conftest import OwnHub, get, worker
from tests.leaderboard.submissions.test_form import problem_at

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("site")]

TEMPLATE = "{% for turn in messages %}{{ turn.role }}: {{ turn.content }}\n{% endfor %}"
BASE, LORA, CHATTY = "ways/base", "ways/lora", "ways/chatty"
STRICT = "ways/strict"
GPTQ = {"quant_method": "gptq", "bits": 4}


@pytest.fixture(scope="module")
def models(hub_of_own_models: OwnHub) -> None:
    """A whole model, adapters on it, packed ones and one with a chat template."""
    hub = hub_of_own_models
    base = hub.write(BASE)
    lora = hub.models / LORA
    tiny.adapt(base, lora)

    def adapter(name: str, base: str | None) -> Path:
        folder = hub.models / "ways" / name
        if folder != lora:
            shutil.copytree(lora, folder)
        file = folder / "adapter_config.json"
        config = {**json.loads(file.read_text()), "base_model_name_or_path": base}
        file.write_text(json.dumps(config))
        return folder

    adapter("lora", BASE)
    adapter("lost", "/home/me/base")
    adapter("silent", None)
    adapter("stacked", LORA)
    pickled = adapter("pickled", BASE)
    (pickled / "adapter_model.safetensors").rename(pickled / "adapter_model.bin")
    (adapter("broken", BASE) / "adapter_config.json").write_text("{")
    for name, kind in (("prompts", "PREFIX_TUNING"), ("unknown", "LORAX"), ("nameless", ["LORA"])):
        tiny.change_config(adapter(name, BASE), "adapter_config.json", peft_type=kind)
    hub.write(CHATTY, lambda folder: (folder / "chat_template.jinja").write_text(TEMPLATE))
    refusing = (
        "{% if messages[0].role == 'system' %}{{ raise_exception('No <b>system') }}{% endif %}"
    )
    hub.write(STRICT, lambda folder: (folder / "chat_template.jinja").write_text(refusing))
    for name, packed in (("gptq", GPTQ), ("odd", {"quant_method": "odd"})):
        awkward.change_config(hub.write(f"ways/{name}"), quantization_config=packed)


@pytest.fixture
def site(own_hub: OwnHub, models: None, settings: Any, suite: Suite) -> None:
    settings.PLUMBLINE_OPEN_SUBMIT = True
    alive = worker(16 * 10**9)
    alive.quantisations = ["bitsandbytes", "gptq"]
    alive.save()


def refused(model: str, way: Way = Way()) -> tuple[str, str]:
    """Field and code of the one problem."""
    [problem] = precheck.check(model, way=way).problems
    assert problem.remedy, problem
    return problem.field, problem.code


def test_an_adapter_is_put_on_the_model_that_it_names() -> None:
    outcome = precheck.check(LORA)
    assert outcome.ok
    facts, base = outcome.facts, precheck.check(BASE).facts
    assert (facts.repo_id, facts.adapter_base) == (LORA, BASE)
    assert facts.adapter_base_commit == base.commit != facts.commit
    assert facts.parameters == base.parameters + facts.adapter_parameters > base.parameters
    assert facts.architecture == "LlamaForCausalLM"


def test_an_adapter_that_names_no_model_of_the_hub_is_put_on_the_one_that_is_typed() -> None:
    for name in ("ways/lost", "ways/silent"):
        assert refused(name) == ("base", "no_base")
        outcome = precheck.check(name, way=Way(base=BASE))
        assert outcome.ok
        assert outcome.facts.adapter_base == BASE


def test_another_base_than_the_adapter_names_is_told() -> None:
    assert not precheck.check(LORA, way=Way(base=f"{BASE}@main")).warnings
    [warning] = precheck.check(LORA, way=Way(base=CHATTY)).warnings
    assert (warning.field, warning.code) == ("base", "another_base")
    assert BASE in warning.message
    assert CHATTY in warning.message


@pytest.mark.parametrize(
    ("model", "way", "problem"),
    [
        (BASE, Way(base=CHATTY), ("base", "no_adapter")),
        (LORA, Way(base="ways/nobody"), ("base", "unknown_model")),
        (LORA, Way(base="no model"), ("base", "malformed_id")),
        (LORA, Way(base=f"{BASE}@v9"), ("base", "unknown_revision")),
        (LORA, Way(base="ways/odd"), ("base", "quantised")),
        ("ways/stacked", Way(), ("base", "adapter")),
        ("ways/pickled", Way(), ("model", "no_safetensors")),
        ("ways/broken", Way(), ("model", "broken_config")),
        ("ways/prompts", Way(), ("model", "adapter_of_prompts")),
        ("ways/unknown", Way(), ("model", "unknown_adapter")),
        ("ways/nameless", Way(), ("model", "unknown_adapter")),
        ("ways/odd", Way(), ("model", "quantised")),
        ("ways/gptq", Way(packing="8bit"), ("packing", "packed_already")),
        (BASE, Way(chat=True), ("asked", "no_template")),
    ],
)
def test_what_does_not_go_together_is_refused_at_its_field(
    model: str, way: Way, problem: tuple[str, str]
) -> None:
    assert refused(model, way) == problem


def test_the_kinds_of_adapters_are_those_of_peft() -> None:
    from peft.config import PromptLearningConfig
    from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING

    prompts = {
        kind.value
        for kind, config in PEFT_TYPE_TO_CONFIG_MAPPING.items()
        if issubclass(config, PromptLearningConfig)
    }
    assert prompts == faults.PROMPT_ADAPTERS
    assert {kind.value for kind in PEFT_TYPE_TO_CONFIG_MAPPING} - prompts == faults.LAYER_ADAPTERS


def test_packed_weights_need_a_worker_that_computes_them() -> None:
    assert precheck.check("ways/gptq").ok
    assert precheck.check(BASE, way=Way(packing="4bit")).ok
    [alive] = precheck.estimate.live_workers()
    alive.quantisations = []
    alive.save()
    assert refused("ways/gptq") == ("model", "no_worker_for_packing")
    assert refused(BASE, Way(packing="4bit")) == ("packing", "no_worker_for_packing")
    assert precheck.check(BASE).ok


def test_each_way_of_one_commit_is_a_variant_with_runs_of_its_own(ada: User) -> None:
    ways = [Way(), Way(packing="8bit"), Way(packing="4bit"), Way(chat=True)]
    submitted = [submit(CHATTY, way=way, user=ada) for way in ways]
    assert len({submission.variant_id for submission in submitted}) == len(ways)
    assert Run.objects.count() == 2 * len(ways)
    for way in ways:
        with pytest.raises(Refused, match="submitted before"):
            submit(CHATTY, way=way, user=ada)
    plain, *_, chat = ({run.run_key for run in s.runs.all()} for s in submitted)
    assert not plain & chat


def test_the_command_of_a_run_loads_and_asks_as_was_wanted(ada: User) -> None:
    def command_of(model: str, way: Way) -> str:
        return " ".join(reproduce.command(submit(model, way=way, user=ada).runs.all()[0]))

    adapter = command_of(LORA, Way())
    variant = Variant.objects.get()
    base = (BASE, variant.adapter_base_commit)
    assert variant.repositories == ((LORA, variant.commit), base), "both are downloaded"
    assert (variant.whole, variant.base_model) == (base, BASE)
    assert f"pretrained={BASE},revision={base[1]},dtype=float32,peft={LORA}@" in adapter
    assert f"@{variant.commit} " in adapter
    assert "load_in_8bit=True " in command_of(CHATTY, Way(packing="8bit"))
    of_4_bits = "load_in_4bit=True,bnb_4bit_quant_type=nf4,bnb_4bit_compute_dtype=float32 "
    assert of_4_bits in command_of(CHATTY, Way(packing="4bit"))
    assert "--apply_chat_template" in command_of(CHATTY, Way(chat=True)).split()
    plain = command_of(CHATTY, Way())
    assert "load_in" not in plain
    assert "--apply_chat_template" not in plain


def test_a_worker_takes_only_weights_that_it_can_compute(ada: User) -> None:
    submit(CHATTY, way=Way(packing="8bit"), user=ada)
    submit("ways/gptq", user=ada)
    plain = worker(10**12)
    assert claims.claim_next(plain) is None
    plain.quantisations = ["gptq"]
    claim = claims.claim_next(plain)
    assert {run.variant.hub_model.repo_id for run in claim.runs} == {"ways/gptq"}
    plain.quantisations = ["bitsandbytes"]
    claim = claims.claim_next(plain)
    assert {run.variant.quantisation for run in claim.runs} == {"bitsandbytes 8-bit at loading"}


def test_the_form_shows_the_plan_keeps_what_was_chosen_and_says_what_is_wrong_with_it(
    client: Client,
) -> None:
    html = get(client, f"/submit?model={LORA}")
    assert "Ready to submit." in html
    assert f"Put on {BASE} at commit" in html
    assert "that the worker that runs now has" in html
    assert '<details class="fold" id="unusual">' in html
    html = get(client, f"/submit?model={BASE}&asked=chat&packing=8bit")
    assert problem_at(html, "asked").startswith(f"{BASE} has no chat template.")
    assert 'id="unusual" open' in html
    assert '<option value="8bit" selected' in html
    assert '<option value="chat" selected' in html
    assert "“9bit” is not a choice for the field “Weights”" in get(
        client, f"/submit?model={BASE}&packing=9bit"
    )
    assert "“song” is not a choice for the field “Asked in”" in get(
        client, f"/submit?model={BASE}&asked=song"
    )


def test_a_template_that_refuses_an_instruction_is_told_before_its_runs_fail(
    client: Client,
) -> None:
    outcome = precheck.check(STRICT, way=Way(chat=True))
    assert outcome.ok
    [warning] = outcome.warnings
    assert (warning.field, warning.code) == ("asked", "refuses_system")
    html = get(client, f"/submit?model={STRICT}&asked=chat")
    assert f"The chat template of {STRICT} refuses a system turn (“No &lt;b&gt;system”)" in html
    for model, way in ((STRICT, Way()), (CHATTY, Way(chat=True))):
        assert not precheck.check(model, way=way).warnings


def test_the_form_submits_a_way_and_offers_to_repeat_it(client: Client, ada: User) -> None:
    client.force_login(ada)
    typed = {"model": "ways/lost", "base": BASE, "packing": "8bit"}
    response = client.post("/submit", typed)
    assert response.status_code == 302, response.content
    submission = Submission.objects.get()
    told = f"bitsandbytes 8-bit at loading, adapter on {BASE}"
    assert submission.variant.told == told
    assert told in get(client, response.headers["Location"])
    for run in submission.runs.all():
        claims.cancel(run, by="test")
    again = client.post(f"{response.headers['Location']}/again")
    assert again.status_code == 302, again.content
    assert Submission.objects.latest("created").variant == submission.variant
    assert Variant.objects.count() == HubModel.objects.count() == 1


@pytest.mark.parametrize(("packing", "each"), [("8bit", 1.0), ("4bit", 0.5625)])
def test_tables_of_tokens_are_not_packed(packing: str, each: float) -> None:
    assert packed_bytes(packing, "bfloat16", 1000, 0) == int(1000 * each)
    assert packed_bytes(packing, "bfloat16", 1000, 400) == int(600 * each) + 800
    assert packed_bytes(packing, "float32", 1000, 1000) == 4000


@pytest.mark.parametrize(
    ("stored", "quantisation", "parameters"),
    [
        ({"I32": 100, "F16": 10}, "gptq 4-bit", 810),
        ({"U8": 100, "BF16": 10}, "bitsandbytes 4-bit", 210),
        ({"I8": 100, "F16": 10}, "bitsandbytes 8-bit", 110),
        ({"F16": 110}, "", 110),
    ],
)
def test_numbers_that_hold_several_parameters_count_as_several(
    stored: dict[str, int], quantisation: str, parameters: int
) -> None:
    weights = Weights(sum(stored.values()), stored)
    assert weights.unpacked(quantisation) == parameters


@pytest.mark.parametrize("packing", ["", *Packing.values])
def test_how_weights_are_packed_is_told_from_what_the_engine_calls_it(packing: str) -> None:
    for dtype in Dtype.values:
        assert packing_of(quantisation_by(packing, dtype), dtype) == packing
        assert bool(arguments_of(packing, dtype)) == bool(packing)
