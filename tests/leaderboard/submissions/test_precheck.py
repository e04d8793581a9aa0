"""The live check against a real Hub process: one sentence per fault, at its field, in time."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import caches
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from huggingface_hub import HfApi, ModelInfo
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.hub import architectures, model_id
from leaderboard.models import User
from leaderboard.submissions import precheck
from leaderboard.submissions.form_page import SubmissionForm
from leaderboard.submissions.submit import submit
from leaderboard.web import Refused
from tests.hub import Orders
from tests.leaderboard.conftest import worker

Fail = Callable[[Orders], None]
GB = 10**9

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("suite")]

# What is typed, the field of its problem, the problem's code, words that its sentence has.
WRONG = [
    ("", "model", "malformed_id", "No model ID"),
    ("awkward/tiny llama", "model", "malformed_id", "space"),
    ("awkward/tiny/llama", "model", "malformed_id", "more than one slash"),
    ("awkward/../llama", "model", "malformed_id", "slash"),
    ("awkward/-llama", "model", "malformed_id", "“awkward/-llama” is not a model ID"),
    ("a" * 300, "model", "malformed_id", "longer than"),
    ("https://example.org/awkward/tiny-llama", "model", "malformed_id", "not an address of"),
    ("https://huggingface.co/awkward", "model", "malformed_id", "not the address of a model"),
    ("https://huggingface.co/datasets/org/data", "model", "not_a_model", "org/data is a data set"),
    ("https://huggingface.co/spaces/org/app", "model", "not_a_model", "org/app is a space"),
    ("datasets/org/data", "model", "not_a_model", "org/data is a data set"),
    ("http://[::1/x", "model", "malformed_id", "“http://[::1/x” is not an address of"),
    ("http://[oops]/x/y", "model", "malformed_id", "not an address of"),
    ("https://huggingface.co:port/x/y", "model", "malformed_id", "not an address of"),
    ("https://huggingface.co:99999/x/y", "model", "malformed_id", "not an address of"),
    ("https://huggingface.co\N{ACCOUNT OF}/x/y", "model", "malformed_id", "not an address of"),
    ("[::1/x", "model", "malformed_id", "not a model ID"),
    ("https://huggingface.co@example.org/x/y", "model", "malformed_id", "not an address of"),
    ("awkward/tiny-llama@no such", "revision", "malformed_revision", "“no such”"),
    ("awkward/tiny-llama@v9", "revision", "unknown_revision", "“v9”"),
    ("awkward/nothing-here", "model", "unknown_model", "awkward/nothing-here"),
    ("awkward/private", "model", "unknown_model", "or it is private"),
    ("awkward/gated", "model", "gated", "awkward/gated is gated"),
    ("awkward/disabled", "model", "disabled", "awkward/disabled"),
    ("awkward/looks-like-a-model", "model", "not_a_model", "is a data set, not a model"),
    ("awkward/no-safetensors", "model", "pickle_only", "pytorch_model.bin"),
    ("awkward/gguf-only", "model", "gguf_only", "tiny-q4_0.gguf"),
    ("awkward/custom-code", "model", "custom_code", "AwkwardForCausalLM"),
    ("awkward/unknown-architecture", "model", "unknown_architecture", "HexaflowForCausalLM"),
    ("awkward/encoder-decoder", "model", "encoder_decoder", "T5ForConditionalGeneration"),
    ("awkward/broken-config", "model", "broken_config", "line 1 column"),
    ("awkward/no-tokenizer", "model", "no_tokenizer", "awkward/no-tokenizer"),
]


@pytest.mark.parametrize(("typed", "field", "code", "words"), WRONG, ids=[w[0][:40] for w in WRONG])
def test_each_wrong_model_has_its_own_sentence_at_its_field(
    hub: Fail, typed: str, field: str, code: str, words: str
) -> None:
    outcome = precheck.check(typed)
    problem = next(p for p in outcome.problems if p.code == code)
    assert problem.field == field
    assert words in problem.message
    assert problem.remedy
    assert outcome.problems
    assert outcome.facts is None


def test_what_was_typed_stays_in_the_form_beside_the_sentence(hub: Fail) -> None:
    form = SubmissionForm({"model": "awkward/tiny-llama", "revision": "v9", "dtype": "float16"})
    assert form.is_valid()
    form.show(precheck.check("awkward/tiny-llama", "v9", "float16").problems)
    assert "has no branch, tag or commit “v9”" in form.errors["revision"][0]
    assert form["model"].value() == "awkward/tiny-llama"
    assert form["revision"].value() == "v9"
    assert form["dtype"].value() == "float16"


def test_a_fine_model_is_described_at_its_commit(hub: Fail) -> None:
    outcome = precheck.check("awkward/tiny-llama")
    assert outcome.ok
    facts = outcome.facts
    assert facts is not None
    assert re.fullmatch("[0-9a-f]{40}", facts.commit)
    assert facts.architecture == "LlamaForCausalLM"
    assert facts.model_type == "llama"
    assert facts.licence == "apache-2.0"
    assert 10_000 < facts.parameters < 100_000
    assert facts.dtype == facts.stored_dtype == "float32"


def test_a_sharded_model_counts_all_its_shards(hub: Fail) -> None:
    whole, sharded = (precheck.check(f"awkward/{n}").facts for n in ("tiny-llama", "sharded"))
    assert whole is not None
    assert sharded is not None
    assert whole.parameters == sharded.parameters


@pytest.mark.parametrize("name", ["tiny-llama", "sharded"])
def test_parameters_are_read_from_the_files_where_the_hub_does_not_count(
    hub: Fail, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = precheck.check(f"awkward/{name}").facts
    caches["local"].clear()
    ask = HfApi.model_info

    def ask_a_hub_that_does_not_count(*args: Any, **kwargs: Any) -> ModelInfo:
        info = ask(*args, **kwargs)
        info.safetensors = None
        return info

    monkeypatch.setattr(HfApi, "model_info", ask_a_hub_that_does_not_count)
    read = precheck.check(f"awkward/{name}").facts
    assert counted is not None
    assert read is not None
    assert read.parameters == counted.parameters


@pytest.mark.parametrize(
    "typed",
    [
        "  awkward/tiny-llama ",
        "https://huggingface.co/awkward/tiny-llama",
        "huggingface.co/awkward/tiny-llama/",
        "https://huggingface.co/awkward/tiny-llama/tree/main",
        "https://hf.co/awkward/tiny-llama/blob/main/config.json?x=1#L3",
        "awkward/tiny-llama@main",
        "awkward/tiny-llama/tree/main",
        "/awkward/tiny-llama/blob/main/config.json?x=1",
        "HTTPS://HuggingFace.co/awkward/tiny-llama",
        "Hf.co/awkward/tiny-llama",
        "https://huggingface.co:443/awkward/tiny-llama",
    ],
)
def test_pasted_addresses_mean_the_model(hub: Fail, typed: str) -> None:
    facts = precheck.check(typed).facts
    assert facts is not None
    assert facts.repo_id == "awkward/tiny-llama"


def test_the_address_of_this_sites_own_hub_is_understood(hub: Fail, hub_process: str) -> None:
    assert precheck.check(f"{hub_process}/awkward/tiny-llama/tree/v1").ok


def test_a_revision_in_the_address_is_used(hub: Fail) -> None:
    main = precheck.check("awkward/tiny-llama").facts
    pasted = precheck.check("https://huggingface.co/awkward/tiny-llama/tree/v1").facts
    typed = precheck.check("awkward/tiny-llama", "v1").facts
    assert main is not None
    assert pasted == typed
    assert pasted is not None
    assert pasted.commit != main.commit


@pytest.mark.parametrize(
    ("typed", "revision"),
    [
        ("https://huggingface.co/org/a/tree/refs/pr/1", "refs/pr/1"),
        ("https://huggingface.co/org/a/blob/refs/pr/1/config.json", "refs/pr/1"),
        ("https://huggingface.co/org/a/tree/refs%2Fpr%2F1", "refs/pr/1"),
        ("org/a/tree/v1", "v1"),
        ("org/a@refs/pr/1", "refs/pr/1"),
        ("org/a@feature/tree/x", "feature/tree/x"),
    ],
)
def test_a_revision_with_slashes_is_read_whole(typed: str, revision: str) -> None:
    assert model_id.read(typed) == model_id.Asked("org/a", revision)


def test_two_revisions_that_disagree_are_refused() -> None:
    [problem] = precheck.check("awkward/tiny-llama@v1", "v2").problems
    assert (problem.field, problem.code) == ("revision", "revision_twice")
    assert "v1" in problem.message
    assert "v2" in problem.message


def test_a_renamed_model_is_taken_by_its_new_name_and_says_so(hub: Fail) -> None:
    outcome = precheck.check("awkward/renamed")
    assert outcome.ok
    assert outcome.facts is not None
    assert outcome.facts.repo_id == "awkward/tiny-llama"
    assert [w.code for w in outcome.warnings if w.field == "model"] == ["renamed"]


def test_an_unknown_precision_is_refused_at_its_field(hub: Fail) -> None:
    [problem] = precheck.check("awkward/tiny-llama", dtype="int3").problems
    assert (problem.field, problem.code) == ("dtype", "unknown_dtype")
    assert "float32" in problem.remedy


def test_without_a_worker_a_model_may_wait(hub: Fail) -> None:
    outcome = precheck.check("awkward/huge")
    assert outcome.ok
    assert [w.code for w in outcome.warnings] == ["no_worker"]


def test_a_model_larger_than_every_live_worker_is_refused_with_both_sizes(hub: Fail) -> None:
    worker(8 * GB)
    worker(80 * GB)
    [problem] = precheck.check("awkward/huge").problems
    assert (problem.field, problem.code) == ("model", "too_large")
    # 70.6 billion parameters of two bytes, a fifth on top, and half a GiB for the cache.
    assert "169.9 GB" in problem.message
    assert "80.0 GB" in problem.message


def test_a_worker_that_is_gone_does_not_count(hub: Fail) -> None:
    gone = worker(8 * GB)
    gone.seen = timezone.now() - timedelta(hours=1)
    gone.save()
    assert precheck.check("awkward/huge").ok


def test_a_smaller_precision_that_fits_is_proposed(hub: Fail) -> None:
    worker(200 * GB)
    assert precheck.check("awkward/huge", dtype="bfloat16").ok
    [problem] = precheck.check("awkward/huge", dtype="float32").problems
    assert problem.field == "dtype"
    assert problem.remedy == "Choose bfloat16 or float16."


def test_a_precision_that_no_live_worker_has_is_refused(hub: Fail) -> None:
    worker(8 * GB, dtypes=("float32",))
    [problem] = precheck.check("awkward/tiny-llama", dtype="float16").problems
    assert (problem.field, problem.code) == ("dtype", "no_worker_for_dtype")
    assert problem.remedy == "Choose float32."


def test_a_model_submitted_before_shows_the_earlier_submission(hub: Fail, ada: User) -> None:
    earlier = submit("awkward/tiny-llama", user=ada)
    outcome = precheck.check("awkward/tiny-llama")
    assert [p.code for p in outcome.problems] == ["submitted_before"]
    assert outcome.existing == earlier
    assert precheck.check("awkward/tiny-llama", dtype="bfloat16").ok
    assert precheck.check("awkward/tiny-llama", "v1").ok


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        ({"status": 500}, "hub_error", "500"),
        ({"status": 503}, "hub_error", "503"),
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
    outcome = precheck.check("awkward/tiny-llama")
    assert not outcome.checked
    assert not outcome.problems
    [warning] = outcome.warnings
    assert warning.code == code
    assert words in str(warning)
    hub([])
    assert precheck.check("awkward/tiny-llama").ok, "a failure of the Hub is not remembered"


def test_a_file_cut_short_on_the_way_is_not_called_a_broken_config(hub: Fail) -> None:
    hub([{"match": "*/config.json", "truncate": 10}])
    outcome = precheck.check("awkward/tiny-llama")
    assert not outcome.checked
    assert outcome.problems == ()


def test_a_hub_that_is_not_there_is_named(hub: Fail, settings: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    settings.HF_ENDPOINT = f"http://127.0.0.1:{port}"
    [warning] = precheck.check("awkward/tiny-llama").warnings
    assert warning.code == "hub_down"
    assert f"127.0.0.1:{port}" in warning.message


SOON = precheck.SECONDS + 1.4
"""Seconds after which a check has been given up, on a busy machine as well."""


def test_a_slow_hub_is_given_up_after_two_seconds(hub: Fail) -> None:
    hub([{"match": "/api/models/*", "delay": 30}])
    outcome, seconds = timed(lambda: precheck.check("awkward/tiny-llama"))
    assert [w.code for w in outcome.warnings] == ["hub_slow"]
    assert not outcome.checked
    assert not outcome.problems
    assert seconds < SOON


def test_the_deadline_covers_all_requests_together(hub: Fail) -> None:
    hub([{"match": "*", "delay": 1.8}])
    outcome, seconds = timed(lambda: precheck.check("awkward/tiny-llama"))
    assert not outcome.checked
    assert seconds < SOON


def test_an_answer_that_trickles_does_not_outlast_the_deadline(
    hub: Fail, trickling_hub: str, settings: Any
) -> None:
    settings.HF_ENDPOINT = trickling_hub
    outcome, seconds = timed(lambda: precheck.check("awkward/tiny-llama"))
    assert [w.code for w in outcome.warnings] == ["hub_slow"]
    assert seconds < SOON


def test_the_hubs_answer_is_remembered_for_a_minute(hub: Fail) -> None:
    first = precheck.check("awkward/tiny-llama")
    missing = precheck.check("awkward/nothing-here")
    hub([{"match": "*", "status": 500}])
    assert precheck.check("awkward/tiny-llama", remembered=True) == first
    assert precheck.check("awkward/nothing-here", remembered=True) == missing
    assert precheck.check("awkward/tiny-llama", dtype="float16", remembered=True).ok
    assert not precheck.check("awkward/tiny-llama").checked, "unless it is asked anew"


def test_a_check_writes_nothing(hub: Fail) -> None:
    with CaptureQueriesContext(connection) as queries:
        precheck.check("awkward/tiny-llama")
        precheck.check("awkward/nothing-here")
    assert all(query["sql"].startswith("SELECT") for query in queries)


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
    assert native == architectures.NATIVE, (
        f"in leaderboard/hub/architectures.py, add {sorted(native - architectures.NATIVE)} "
        f"and take out {sorted(architectures.NATIVE - native)}"
    )


def timed(action: Callable[[], precheck.Precheck]) -> tuple[precheck.Precheck, float]:
    started = time.monotonic()
    return action(), time.monotonic() - started


@pytest.fixture
def trickling_hub() -> Iterator[str]:
    """A server that sends one byte of its headers at a time, for ever: no request times out."""
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
