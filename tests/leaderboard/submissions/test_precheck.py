"""The check of a model by a real Hub process: a sentence per fault, at its field and its step."""

from __future__ import annotations

import re
import shutil
import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.core.cache import caches
from django.test import Client
from django.utils import timezone
from huggingface_hub import HfApi, ModelInfo
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.hub import Refused, faults, model_id
from leaderboard.hub.problem import Step
from leaderboard.models import HubModel, User
from leaderboard.submissions import precheck
from leaderboard.submissions.form import CheckedStep, Outcome, steps
from leaderboard.submissions.submit import NotSubmitted, submit
from tests.leaderboard.conftest import TINY, Fail, OwnHub, worker

GB = 10**9

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("suite")]

# What is typed, the field of its problem, the problem's code, words of its sentence, its step.
WRONG = [
    ("", "model", "malformed_id", "No model ID", "Model"),
    ("awkward/tiny llama", "model", "malformed_id", "space", "Model"),
    ("awkward/tiny/llama", "model", "malformed_id", "more than one slash", "Model"),
    ("awkward/-llama", "model", "malformed_id", "“awkward/-llama” is not a model ID", "Model"),
    ("awkward/tiny\u200bllama", "model", "malformed_id", "tiny[U+200B]llama” contains", "Model"),
    ("\ufeffawkward/\u202ellama", "model", "malformed_id", "“[U+FEFF]awkward/[U+202E]", "Model"),
    ("a" * 201, "model", "malformed_id", "longer than 200 characters", "Model"),
    ("https://example.org/awkward/tiny-llama", "model", "malformed_id", "not an address", "Model"),
    ("https://huggingface.co@example.org/x/y", "model", "malformed_id", "not an address", "Model"),
    ("[::1/x", "model", "malformed_id", "not a model ID", "Model"),
    ("https://huggingface.co/awkward", "model", "malformed_id", "address of a model", "Model"),
    ("https://huggingface.co/spaces/org/app", "model", "not_a_model", "app is a space", "Model"),
    ("datasets/org/data", "model", "not_a_model", "org/data is a data set", "Model"),
    ("awkward/looks-like-a-model", "model", "not_a_model", "is a data set, not a model", "Model"),
    ("awkward/nothing-here", "model", "unknown_model", "awkward/nothing-here", "Model"),
    ("awkward/private", "model", "unknown_model", "or it is private", "Model"),
    ("awkward/gated", "model", "gated", "awkward/gated is gated", "Model"),
    ("awkward/disabled", "model", "disabled", "awkward/disabled", "Model"),
    *(
        (f"{TINY}@{name}", "revision", "malformed_revision", "is not the name of", "Revision")
        for name in (
            "a..b",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a[1]",
            "a\\b",
            "a@{1}",
            ".a",
            "a.lock",
        )
    ),
    (f"{TINY}@a\u200bb", "model", "malformed_id", "@a[U+200B]b” contains", "Model"),
    (f"{TINY}@no such", "revision", "malformed_revision", "“no such”", "Revision"),
    (f"{TINY}@v9", "revision", "unknown_revision", "“v9”", "Revision"),
    ("awkward/no-safetensors", "model", "pickle_only", "pytorch_model.bin", "Weights"),
    ("awkward/gguf-only", "model", "gguf_only", "tiny-q4_0.gguf", "Weights"),
    ("awkward/custom-code", "model", "custom_code", "AwkwardForCausalLM", "Architecture"),
    (
        "awkward/unknown-architecture",
        "model",
        "unknown_architecture",
        "HexaflowForCausalLM",
        "Architecture",
    ),
    ("awkward/encoder-decoder", "model", "encoder_decoder", "T5ForCondition", "Architecture"),
    ("awkward/broken-config", "model", "broken_config", "line 1 column", "Architecture"),
    ("awkward/no-tokenizer", "model", "no_tokenizer", "awkward/no-tokenizer", "Tokenizer"),
]


def steps_of(*typed: Any) -> dict[str, CheckedStep]:
    return {step.title: step for step in steps(precheck.check(*typed))}


@pytest.mark.parametrize(
    ("typed", "field", "code", "words", "step"), WRONG, ids=[row[0][:40] for row in WRONG]
)
def test_each_wrong_model_has_its_own_sentence_at_its_field_and_fails_its_own_step(
    hub: Fail, typed: str, field: str, code: str, words: str, step: str
) -> None:
    outcome = precheck.check(typed)
    problem = next(p for p in outcome.problems if p.code == code)
    assert problem.field == field
    assert words in problem.message
    assert problem.remedy
    assert outcome.facts is None
    found = {found.title: found.outcome for found in steps(outcome)}
    assert [title for title, seen in found.items() if seen == Outcome.FAILED] == [step]
    titles = list(found)
    unread = titles[titles.index(step) + 1 :]
    assert all(found[title] == Outcome.UNSEEN for title in unread), "not called passed"


@pytest.mark.parametrize(
    ("typed", "repo_id", "revision"),
    [
        ("  org/a ", "org/a", "main"),
        ("/org/a/", "org/a", "main"),
        ("huggingface.co/org/a/", "org/a", "main"),
        ("HTTPS://HuggingFace.co:443/org/a", "org/a", "main"),
        ("https://hf.co/org/a/blob/main/config.json?x=1#L3", "org/a", "main"),
        ("https://huggingface.co/api/models/org/a", "org/a", "main"),
        ("org/a/tree/v1", "org/a", "v1"),
        ("/org/a/blob/v1/config.json?x=1", "org/a", "v1"),
        ("https://huggingface.co/org/a/tree/refs/pr/1", "org/a", "refs/pr/1"),
        ("https://huggingface.co/org/a/blob/refs%2Fpr%2F1/config.json", "org/a", "refs/pr/1"),
        ("org/a@refs/pr/1", "org/a", "refs/pr/1"),
        ("org/a@feature/tree/x", "org/a", "feature/tree/x"),
    ],
)
def test_pasted_addresses_name_a_model_and_a_revision(
    typed: str, repo_id: str, revision: str
) -> None:
    assert model_id.read(typed) == model_id.ModelReference(repo_id, revision)


def test_an_address_of_this_sites_own_hub_names_the_commit_that_is_checked(
    hub: Fail, hub_process: str
) -> None:
    main = precheck.check(TINY).facts
    pasted = precheck.check(f"{hub_process}/{TINY}/tree/v1").facts
    assert pasted == precheck.check(TINY, "v1").facts
    assert pasted.commit != main.commit


@pytest.mark.parametrize(
    "name",
    ["global_step=1000", "v1,2", "step#5", "exp(2)", "été", "a@b", "50%", "a&b", "a'b", "日本"],
)
def test_every_name_that_git_takes_is_asked_of_the_hub(
    own_hub: OwnHub, name: str, ada: User
) -> None:
    fine = own_hub.write("lab/branches")
    shutil.copytree(fine, fine / ".revisions" / name, ignore=shutil.ignore_patterns(".revisions"))
    (fine / "README.md").write_text("The main branch.\n")
    checked = precheck.check("lab/branches", name)
    assert not checked.problems
    assert checked.facts.commit != precheck.check("lab/branches").facts.commit
    caches["local"].clear()
    assert precheck.check(f"lab/branches@{name}").facts == checked.facts
    address = f"{own_hub.address}/lab/branches/tree/{quote(name, safe='')}"
    assert precheck.check(address).facts == checked.facts
    assert submit("lab/branches", name, user=ada).requested_revision == name


def test_two_revisions_that_disagree_are_refused() -> None:
    [problem] = precheck.check(f"{TINY}@v1", "v2").problems
    assert (problem.field, problem.code) == ("revision", "revision_twice")
    assert "v1" in problem.message
    assert "v2" in problem.message


ADDRESSES = st.builds(
    "{}://{}/{}".format,
    st.sampled_from(["http", "https"]),
    st.text("[]:@.1ah℀", max_size=12),
    st.text(),
)


@given(st.text(max_size=60) | ADDRESSES, st.text(max_size=20))
def test_no_text_breaks_the_reading_of_an_id(typed: str, revision: str) -> None:
    try:
        asked = model_id.read(typed, revision)
    except Refused as refused:
        problems = refused.problems
    else:
        problems = ()
        assert re.fullmatch(r"[\w.-]+(/[\w.-]+)?", asked.repo_id)
        assert asked.revision
    assert all(p.field in ("model", "revision") and p.remedy for p in problems)


def test_the_known_architectures_are_those_of_transformers() -> None:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    native: set[str] = set()
    for names in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        native |= {names} if isinstance(names, str) else set(names)
    assert set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES) == faults.MODEL_TYPES
    assert native == faults.NATIVE, (
        f"in leaderboard/hub/faults.py, add {sorted(native - faults.NATIVE)} "
        f"and take out {sorted(faults.NATIVE - native)}"
    )


def test_the_models_that_see_are_those_that_transformers_has_for_images_and_text() -> None:
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    found = {
        name: MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.get(model_type)
        for name, model_type in faults.SEEING.items()
    }
    assert found == {name: name for name in faults.SEEING}
    assert not faults.SEEING.keys() & faults.NATIVE


@pytest.mark.parametrize("name", faults.SEEING)
def test_a_decoder_that_sees_is_no_encoder_decoder(name: str) -> None:
    seeing = {
        "architectures": [name],
        "model_type": faults.SEEING[name],
        "text_config": {},
        "vision_config": {},
    }
    assert faults.architecture_fault(seeing, "org/seeing") is None


@pytest.mark.parametrize(
    ("config", "code", "words"),
    [
        (
            {"architectures": ["BlipForConditionalGeneration"], "vision_config": {}},
            "not_generative",
            "sees or hears",
        ),
        ({"architectures": ["T5ForConditionalGeneration"]}, "encoder_decoder", "T5"),
        (
            {"architectures": ["Florence2ForConditionalGeneration"], "is_encoder_decoder": True},
            "encoder_decoder",
            "Florence2",
        ),
    ],
)
def test_other_models_that_condition_on_something_are_named_for_what_they_are(
    config: dict[str, Any], code: str, words: str
) -> None:
    problem = faults.architecture_fault(config, "org/other")
    assert problem.code == code
    assert words in problem.message


# A model that can be evaluated


def test_a_fine_model_is_described_at_its_commit_and_passes_every_step(hub: Fail) -> None:
    worker(16 * GB)
    outcome = precheck.check(TINY)
    assert outcome.ok
    facts = outcome.facts
    assert re.fullmatch("[0-9a-f]{40}", facts.commit)
    assert (facts.architecture, facts.model_type) == ("LlamaForCausalLM", "llama")
    assert facts.licence == "apache-2.0"
    assert facts.dtype == facts.stored_dtype == "float32"
    found = {step.title: step for step in steps(outcome)}
    assert {step.outcome for step in found.values()} == {Outcome.PASSED}
    assert found.keys() == set(Step) - {Step.BASE, Step.SUBMITTING}
    assert "LlamaForCausalLM" in found["Architecture"].message
    assert "the worker that runs now has" in found["Room on a worker"].message


@pytest.mark.parametrize("name", ["tiny-llama", "sharded"])
def test_parameters_are_those_that_the_hub_counts_or_else_those_of_the_files(
    hub: Fail, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = precheck.check(f"awkward/{name}").facts
    assert counted.parameters == 37_792
    caches["local"].clear()
    ask = HfApi.model_info

    def ask_a_hub_that_does_not_count(*args: Any, **kwargs: Any) -> ModelInfo:
        info = ask(*args, **kwargs)
        info.safetensors = None
        return info

    monkeypatch.setattr(HfApi, "model_info", ask_a_hub_that_does_not_count)
    read = precheck.check(f"awkward/{name}").facts
    assert read.parameters == counted.parameters


def test_a_renamed_model_is_taken_by_its_new_name_and_says_so(hub: Fail) -> None:
    outcome = precheck.check("awkward/renamed")
    assert outcome.ok
    assert outcome.facts.repo_id == TINY
    assert [w.code for w in outcome.warnings if w.field == "model"] == ["renamed"]


def test_a_model_submitted_before_leads_to_the_earlier_submission(hub: Fail, ada: User) -> None:
    worker(16 * GB)
    earlier = submit(TINY, user=ada)
    outcome = precheck.check(TINY)
    assert [p.code for p in outcome.problems] == ["submitted_before"]
    assert outcome.existing == earlier
    step = steps_of(TINY)["Not measured before"]
    assert (step.outcome, step.address) == (Outcome.WARNED, earlier.get_absolute_url())
    assert precheck.check(TINY, dtype="bfloat16").ok
    assert precheck.check(TINY, "v1").ok


def test_a_model_that_was_renamed_since_is_the_one_that_was_submitted(
    own_hub: OwnHub, client: Client, ada: User
) -> None:
    """Whether the site has learnt of it by itself or by somebody who typed the old name."""
    worker(16 * GB)
    own_hub.write("lab/before")
    earlier = submit("lab/before", user=ada)
    commit = earlier.variant.commit
    own_hub.write("lab/after")
    own_hub.write(
        "lab/before", lambda folder: (folder / ".hub.yaml").write_text("renamed_to: lab/after\n")
    )
    caches["local"].clear()
    assert precheck.check("lab/before").existing == earlier
    with pytest.raises(NotSubmitted) as refused:
        submit("lab/after", user=ada)
    assert [problem.code for problem in refused.value.problems] == ["submitted_before"]
    assert HubModel.objects.get().renamed_to == "lab/after"
    found = precheck.check("lab/after")
    assert (found.facts.repo_id, found.facts.commit) == ("lab/after", commit)
    assert (found.existing, [p.code for p in found.problems]) == (earlier, ["submitted_before"])
    other = submit("lab/after", dtype="bfloat16", user=ada)
    assert other.variant.hub_model == earlier.variant.hub_model
    assert client.get("/models/lab/after").headers["Location"] == "/models/lab/before"


def test_who_left_the_ranking_does_not_come_back_by_a_new_name(own_hub: OwnHub, ada: User) -> None:
    own_hub.write("lab/after")
    HubModel.objects.create(
        repo_id="lab/before", renamed_to="lab/after", hub_state="renamed", departed=True
    )
    assert "departed" in {problem.code for problem in precheck.check("lab/after").problems}
    with pytest.raises(NotSubmitted):
        submit("lab/after", user=ada)


def test_the_same_commit_in_another_repository_is_another_model(own_hub: OwnHub, ada: User) -> None:
    for name in ("lab/one", "lab/two"):
        own_hub.write(name)
    first, second = submit("lab/one", user=ada), submit("lab/two", user=ada)
    assert first.variant.commit == second.variant.commit
    assert first.variant != second.variant


# The workers


def test_without_a_live_worker_a_model_may_wait(hub: Fail) -> None:
    gone = worker(8 * GB)
    gone.seen = timezone.now() - timedelta(hours=1)
    gone.save()
    outcome = precheck.check("awkward/huge")
    assert outcome.ok
    assert [w.code for w in outcome.warnings] == ["no_worker"]
    step = steps_of(TINY)["Room on a worker"]
    assert step.outcome == Outcome.WARNED
    assert "wait for one" in step.remedy


def test_a_model_larger_than_every_worker_is_refused_and_a_precision_that_fits_is_proposed(
    hub: Fail,
) -> None:
    worker(8 * GB)
    large = worker(80 * GB)
    [problem] = precheck.check("awkward/huge").problems
    assert (problem.field, problem.code) == ("model", "too_large")
    # 70.6 billion parameters of two bytes, a fifth on top, and half a GiB for the cache.
    assert "169.9 GB" in problem.message
    assert "80.0 GB" in problem.message
    found = steps_of("awkward/huge")
    failed = [title for title, step in found.items() if step.outcome == Outcome.FAILED]
    assert failed == ["Room on a worker"]
    assert "when a larger worker runs" in found["Room on a worker"].remedy
    large.memory_bytes = 200 * GB
    large.save()
    assert precheck.check("awkward/huge", dtype="bfloat16").ok
    [problem] = precheck.check("awkward/huge", dtype="float32").problems
    assert problem.field == "dtype"
    assert problem.remedy == "Choose bfloat16 or float16."


def test_a_precision_that_no_live_worker_has_is_refused(hub: Fail) -> None:
    worker(8 * GB, dtypes=("float32",))
    [problem] = precheck.check(TINY, dtype="float16").problems
    assert (problem.field, problem.code) == ("dtype", "no_worker_for_dtype")
    assert problem.remedy == "Choose float32."


# A Hub in trouble


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        ({"status": 500}, "hub_error", "500"),
        ({"status": 429, "retry_after": 55}, "hub_busy", "55 s"),
        ({"garbage": True}, "hub_error", "could not be read"),
        ({"truncate": 20}, "hub_down", "cannot be reached"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_failing_hub_stops_nobody_and_is_named(
    hub: Fail, fault: dict[str, object], code: str, words: str
) -> None:
    hub([{"match": "/api/models/*", **fault}])
    outcome = precheck.check(TINY)
    assert not outcome.checked
    assert not outcome.problems
    [warning] = outcome.warnings
    assert warning.code == code
    assert words in str(warning)
    found = {step.title: step.outcome for step in steps(outcome)}
    assert found.pop("Model") == Outcome.WARNED
    assert set(found.values()) == {Outcome.UNSEEN}
    hub([])
    assert precheck.check(TINY).ok, "a failure of the Hub is not remembered"
    caches["local"].clear()
    hub([{"match": "*/config.json", "truncate": 10}])
    outcome = precheck.check(TINY)
    assert (outcome.checked, outcome.problems) == (False, ()), "not called a broken config"


def test_a_hub_that_is_not_there_is_named(hub: Fail, settings: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    settings.HF_ENDPOINT = f"http://127.0.0.1:{port}"
    [warning] = precheck.check(TINY).warnings
    assert warning.code == "hub_down"
    assert f"127.0.0.1:{port}" in warning.message


@pytest.mark.parametrize(
    ("match", "delay", "seconds"),
    [("/api/models/*", 30, 0.5), ("*", 0.4, 0.5)],
    ids=["one request", "all requests together"],
)
def test_a_hub_that_is_slower_than_the_deadline_is_given_up(
    hub: Fail, match: str, delay: float, seconds: float
) -> None:
    hub([{"match": match, "delay": delay}])
    outcome = precheck.check(TINY, seconds=seconds)
    assert [w.code for w in outcome.warnings] == ["hub_slow"]
    assert not outcome.checked
    assert not outcome.problems


def test_an_answer_that_trickles_does_not_outlast_the_deadline(
    hub: Fail, trickling_hub: str, settings: Any
) -> None:
    settings.HF_ENDPOINT = trickling_hub
    outcome = precheck.check(TINY, seconds=0.5)
    assert [w.code for w in outcome.warnings] == ["hub_slow"]


@pytest.fixture
def trickling_hub() -> Iterator[str]:
    """A server that sends its headers byte by byte: no wait is long, and no answer ever whole."""
    stop = threading.Event()

    def trickle() -> None:
        visitor, _ = server.accept()
        with visitor:
            for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"z" * 200:
                if stop.wait(0.2):
                    return
                try:
                    visitor.sendall(bytes([byte]))
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=trickle)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        stop.set()
        thread.join()
