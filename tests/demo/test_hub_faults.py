"""The local Hub told to fail: each fault reaches the real client as the error it stands for."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.hub.faults import Fault, parse_faults
from tests.hub import run_client, serve, set_faults

CONFIG = '{"model_type": "llama"}'
DOWNLOAD = "hf_hub_download('org/name', 'weights.bin')"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("content")
    for name in ("name", "new-name"):
        folder = root / "models" / "org" / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(CONFIG)
        (folder / "weights.bin").write_bytes(bytes(range(256)) * 1000)
    with serve([root]) as url:
        yield url


@pytest.fixture(autouse=True)
def no_faults_left(hub: str) -> Iterator[None]:
    yield
    set_faults(hub, [])


def outcome(hub: str, home: Path, call: str) -> str:
    """What the call returns, or its exception's name, status and cause."""
    code = f"""
from huggingface_hub import HfApi
try:
    print(HfApi().{call})
except Exception as error:
    response = getattr(error, "response", None)
    print(type(error).__name__, response.status_code if response is not None else "-", error)
"""
    return run_client(code, hub, home)


def remaining(hub: str) -> Any:
    with urllib.request.urlopen(f"{hub}/_faults", timeout=60) as response:
        return json.load(response)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"status": 404, "code": "RepoNotFound"}, "RepositoryNotFoundError 404"),
        ({"status": 401, "code": "RepoNotFound"}, "RepositoryNotFoundError 401"),
        ({"status": 404, "code": "RevisionNotFound"}, "RevisionNotFoundError 404"),
        ({"status": 403, "code": "GatedRepo"}, "GatedRepoError 403"),
        (
            {"status": 403, "message": "Access to this resource is disabled."},
            "DisabledRepoError 403",
        ),
        ({"status": 400, "message": "No."}, "BadRequestError 400"),
        ({"status": 429, "retry_after": 7}, "HfHubHTTPError 429"),
        ({"status": 500, "message": "We broke it."}, "HfHubHTTPError 500"),
        ({"status": 503}, "HfHubHTTPError 503"),
    ],
)
def test_an_ordered_status_is_the_clients_exception(
    hub: str, tmp_path: Path, fault: dict[str, object], error: str
) -> None:
    set_faults(hub, [{"match": "GET /api/models/org/name", **fault}])
    seen = outcome(hub, tmp_path, "model_info('org/name')")
    assert seen.startswith(error)
    assert str(fault.get("message", "")) in seen


def test_a_rate_limit_says_when_to_come_back(hub: str) -> None:
    set_faults(hub, [{"match": "*", "status": 429, "retry_after": 7}])
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(f"{hub}/api/models/org/name", timeout=60)
    assert refusal.value.headers["Retry-After"] == "7"
    assert refusal.value.headers["ratelimit"] == '"api";r=0;t=7'
    refusal.value.close()


def test_a_redirect_is_followed(hub: str, tmp_path: Path) -> None:
    location = "/api/models/org/new-name"
    set_faults(hub, [{"match": "/api/models/org/name", "status": 307, "location": location}])
    assert outcome(hub, tmp_path, "model_info('org/name').id") == "org/new-name"


def test_a_fault_happens_as_often_as_ordered_and_other_paths_are_left_alone(
    hub: str, tmp_path: Path
) -> None:
    order = {"match": "/api/models/org/na*", "times": 2, "status": 500}
    set_faults(hub, [order])
    assert outcome(hub, tmp_path, "model_info('org/new-name').id") == "org/new-name"
    assert outcome(hub, tmp_path, "model_info('org/name').id").startswith("HfHubHTTPError 500")
    assert remaining(hub) == [{**order, "times": 1}]
    assert outcome(hub, tmp_path, "model_info('org/name').id").startswith("HfHubHTTPError 500")
    assert outcome(hub, tmp_path, "model_info('org/name').id") == "org/name"


def test_a_slow_answer_meets_the_clients_own_time_limit(hub: str, tmp_path: Path) -> None:
    set_faults(hub, [{"match": "/api/models/org/name", "delay": 1.5}])
    begin = time.monotonic()
    assert outcome(hub, tmp_path, "model_info('org/name', timeout=0.3)").startswith("ReadTimeout -")
    assert outcome(hub, tmp_path, "model_info('org/name', timeout=60).id") == "org/name"
    assert time.monotonic() - begin > 1.5


def test_a_body_cut_once_is_resumed(hub: str, tmp_path: Path) -> None:
    set_faults(hub, [{"match": "GET *weights.bin", "times": 1, "truncate": 1000}])
    path = Path(outcome(hub, tmp_path, DOWNLOAD))
    assert path.read_bytes() == bytes(range(256)) * 1000
    assert remaining(hub)[0]["times"] == 0


def test_a_body_always_cut_is_an_error(hub: str, tmp_path: Path) -> None:
    set_faults(hub, [{"match": "GET *weights.bin", "truncate": 0}])
    assert outcome(hub, tmp_path, DOWNLOAD).startswith(("RemoteProtocolError", "OSError"))


def test_garbage_has_the_right_length_and_the_wrong_bytes(hub: str, tmp_path: Path) -> None:
    set_faults(hub, [{"match": "GET *weights.bin", "garbage": True}])
    content = Path(outcome(hub, tmp_path, DOWNLOAD)).read_bytes()
    assert len(content) == 256_000
    assert content != bytes(range(256)) * 1000


def test_a_wrong_order_is_refused_by_name_and_changes_nothing(hub: str) -> None:
    set_faults(hub, [{"match": "/kept", "status": 500}])
    with pytest.raises(urllib.error.HTTPError) as refusal:
        set_faults(hub, [{"match": "/x", "stauts": 500}, {"match": "/y", "delay": -1}])
    problems = json.load(refusal.value)["error"]
    refusal.value.close()
    assert refusal.value.code == 400
    assert "fault 1: unknown key 'stauts'" in problems
    assert "fault 2: delay: -1 is not a number of seconds" in problems
    assert remaining(hub) == [{"match": "/kept", "status": 500}]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
KEYS = st.sampled_from([*Fault.__dataclass_fields__, "other"])
VALUES = JSON | st.sampled_from([0, 1, 404, 500, 0.5, True, "text"])


EFFECTS = st.one_of(
    st.fixed_dictionaries(
        {"status": st.sampled_from([307, 401, 404, 429, 500, 503])},
        optional={
            "code": st.text("Aa-/", max_size=3),
            "message": st.text(),
            "retry_after": st.integers(0, 99),
        },
    ),
    st.fixed_dictionaries({"delay": st.floats(0, 99) | st.integers(0, 99)}),
    st.fixed_dictionaries({"truncate": st.integers(0, 10**6)}),
    st.fixed_dictionaries({"garbage": st.just(True)}),
)


@given(st.text(), st.none() | st.integers(0, 9), EFFECTS)
def test_any_right_order_is_understood_as_given(
    match: str, times: int | None, effect: dict[str, object]
) -> None:
    order = {"match": match, "times": times, **effect}
    [fault] = parse_faults([order])
    assert {key: value for key, value in asdict(fault).items() if value is not None} == {
        key: value for key, value in order.items() if value is not None
    }
    if fault.status is not None:
        assert fault.error(fault.status).response().status_code == fault.status


@given(st.lists(st.dictionaries(KEYS, VALUES, max_size=5), max_size=3) | JSON)
def test_any_order_at_all_is_understood_or_refused(orders: object) -> None:
    try:
        faults = parse_faults(orders)
    except ValueError:
        return
    for fault in faults:
        effects = (fault.status, fault.delay, fault.truncate, fault.garbage)
        assert sum(effect is not None for effect in effects) == 1
