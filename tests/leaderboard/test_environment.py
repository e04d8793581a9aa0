"""Variables of the environment: a wrong value is refused by name, before anything starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from hypothesis import given
from hypothesis import strategies as st

from leaderboard import environment

ROOT = Path(__file__).resolve().parents[2]
KNOWN = ("tensor_parallel_size", "enforce_eager")


@pytest.mark.parametrize(
    "stated", ["", "enforce_eager=True", "tensor_parallel_size=2,enforce_eager=1"]
)
def test_arguments_of_known_names_are_taken_as_they_are(
    monkeypatch: pytest.MonkeyPatch, stated: str
) -> None:
    monkeypatch.setenv("PLUMBLINE_VLLM_ARGS", stated)
    assert environment.arguments("PLUMBLINE_VLLM_ARGS", KNOWN) == stated


@pytest.mark.parametrize("wrong", ["kv_cache_dtype=fp8", "enforce_eager", "enforce_eager=", "=1"])
def test_what_changes_numbers_or_says_nothing_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    monkeypatch.setenv("PLUMBLINE_VLLM_ARGS", f"tensor_parallel_size=2,{wrong}")
    with pytest.raises(
        ImproperlyConfigured, match=r"PLUMBLINE_VLLM_ARGS: .*expected name=value"
    ) as e:
        environment.arguments("PLUMBLINE_VLLM_ARGS", KNOWN)
    assert repr(wrong) in str(e.value)


def test_a_word_that_is_not_among_the_choices_is_refused_with_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert environment.one_of("PLUMBLINE_LOG", ("plain", "json")) == "plain"
    monkeypatch.setenv("PLUMBLINE_LOG", "yaml")
    with pytest.raises(ImproperlyConfigured, match=r"PLUMBLINE_LOG='yaml': .* plain, json"):
        environment.one_of("PLUMBLINE_LOG", ("plain", "json"))


@pytest.mark.parametrize("given", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_an_address_to_listen_on_is_taken(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("PLUMBLINE_BIND", given)
    assert environment.address("PLUMBLINE_BIND", "127.0.0.1") == given


@pytest.mark.parametrize("given", ["0.0.0.0:8000", "example.org", "256.1.1.1", "[::1]"])
def test_what_is_no_address_is_refused_at_the_start_in_one_sentence(given: str) -> None:
    for part in ((), ("site",)):
        done = subprocess.run(
            [sys.executable, "-m", "runners", *part],
            cwd=ROOT, env={**os.environ, "PLUMBLINE_BIND": given},
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 1
        assert done.stderr.startswith(f"plumbline: PLUMBLINE_BIND={given!r}: expected an address")
        assert done.stderr.count("\n") == 1


NAME = "PLUMBLINE_TRUSTED_CODE"
REPOSITORIES = st.from_regex(r"[a-zA-Z0-9_.-]{1,9}/[a-zA-Z0-9_.-]{1,9}", fullmatch=True)
COMMITS = st.text("0123456789abcdef", min_size=40, max_size=40)


def read(value: str) -> dict[str, frozenset[str]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(NAME, value)
        return environment.commits(NAME)


@given(pins=st.lists(st.tuples(REPOSITORIES, COMMITS), max_size=5))
def test_every_repository_has_the_commits_that_stand_beside_it(
    pins: list[tuple[str, str]],
) -> None:
    listed = read(" ,\n".join(f"{name}@{commit}" for name, commit in pins))
    assert {(name, commit) for name, known in listed.items() for commit in known} == {*pins}


@pytest.mark.parametrize("empty", ["", " ", ",", " , "])
def test_nothing_is_trusted_by_default(empty: str) -> None:
    assert read(empty) == {}


@pytest.mark.parametrize(
    "wrong",
    [
        "owner/name", "owner/name@main", f"owner@{'a' * 40}", f"owner/name@{'a' * 39}",
        f"owner/name@{'A' * 40}", f"*/*@{'a' * 40}", f"owner/name@{'a' * 40} other/name@{'b' * 40}",
    ],
)  # fmt: skip
def test_what_is_no_pin_is_refused_by_name(wrong: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=f"{NAME}: .*expected owner/name@commit"):
        read(wrong)


SECRETS = ("PLUMBLINE_SECRET_KEY", "PLUMBLINE_DATABASE_URL", "PLUMBLINE_BROKER_URL", "HF_TOKEN")
SHOWN = """
from leaderboard import settings as s
database = s.DATABASES["default"]
print([s.SECRET_KEY, database.get("PASSWORD"), s.PLUMBLINE_BROKER_URL, s.HF_TOKEN])
"""


def settings_read(**variables: str) -> subprocess.CompletedProcess[str]:
    """What a process that starts with these variables has read."""
    return subprocess.run(
        [sys.executable, "-c", SHOWN],
        cwd=ROOT, env={"PATH": os.environ["PATH"], "PLUMBLINE_DEBUG": "1", **variables},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_a_database_server_that_vanished_is_waited_for_a_minute_at_most_unless_the_url_says_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PLUMBLINE_DATABASE_URL", "postgresql://u@h/n?connect_timeout=3")
    options = environment.database("PLUMBLINE_DATABASE_URL", tmp_path)["OPTIONS"]
    assert options["connect_timeout"] == "3"
    seconds = {name: int(options[f"keepalives_{name}"]) for name in ("idle", "interval", "count")}
    assert seconds["idle"] + seconds["interval"] * seconds["count"] <= 60
    assert int(options["tcp_user_timeout"]) <= 60_000


def test_every_secret_may_stand_in_a_file_which_goes_before_the_variable(tmp_path: Path) -> None:
    contents = ("of-a-file", "postgresql://u:in-a-file@h/n", "redis://:in-a-file@h/0", "hf_filed")
    variables = {}
    for name, content in zip(SECRETS, contents, strict=True):
        (tmp_path / name).write_text(f"{content}\n")
        variables |= {f"{name}_FILE": str(tmp_path / name), name: "postgresql://u:other@h/n"}
    done = settings_read(**variables)
    assert done.stdout.strip() == str(["of-a-file", "in-a-file", contents[2], "hf_filed"])


@pytest.mark.parametrize("name", SECRETS)
def test_a_file_without_a_secret_is_refused_by_name_path_and_remedy(
    name: str, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    for content, fault in ((None, "No such file"), (b" \n", "is empty"), (b"\xff", "no text")):
        if content is not None:
            file.write_bytes(content)
        done = settings_read(**{f"{name}_FILE": str(file)})
        assert done.returncode == 1
        (said,) = [line for line in done.stderr.splitlines() if "ImproperlyConfigured: " in line]
        assert f"{name}_FILE={file}: " in said
        assert fault in said
        assert "write the secret into it" in said
