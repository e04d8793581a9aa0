"""One model and one small server for all; a server with other habits where a test wants one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import fields
from typing import Any

import pytest

from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.snapshot import Arguments
from evalcore.model.servers import client
from tests.evalcore.model.servers import small_server
from tests.evalcore.model.servers.small_server import (
    ANTHROPIC_KEY,
    NAME,
    FaultProxy,
    Habits,
    Small,
    SmallAnthropic,
    running,
)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's key, and no waiting that a server does not ask for."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(client, "FIRST_WAIT", 0.01)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return small_server.made(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def direct(folder: Any) -> HuggingFaceLM:
    """The same model, run directly."""
    return direct_of(folder)


def direct_of(folder: Any, **stated: str) -> HuggingFaceLM:
    given = {"pretrained": str(folder), "dtype": "float32", "max_length": "126", **stated}
    return HuggingFaceLM(Arguments.of(given), device="cpu", mode="strict")


@pytest.fixture(scope="session")
def _small(folder: Any) -> Iterator[tuple[Small, str]]:
    small = Small(folder)
    with running(small.application()) as address:
        yield small, address


@pytest.fixture
def small(_small: tuple[Small, str]) -> Iterator[Small]:
    """The server, whose habits a test may change."""
    yield as_at_first(_small[0])
    as_at_first(_small[0])


def as_at_first(server: Any) -> Any:
    """The server, asked nothing yet and without any habit of its own."""
    server.asked, server.headers = [], []
    for habit in fields(Habits):
        setattr(server.habits, habit.name, habit.default)
    return server


@pytest.fixture
def address(_small: tuple[Small, str]) -> str:
    return _small[1]


@pytest.fixture
def arguments(address: str, folder: Any) -> dict[str, str]:
    return stated(address, folder)


def stated(address: str, folder: Any, **others: str) -> dict[str, str]:
    """Arguments of a model that is asked as the `hf` backend asks it."""
    return {
        "model": NAME,
        "base_url": f"{address}/v1/completions",
        "tokenizer": str(folder),
        "add_bos_token": "True",
        "num_concurrent": "4",
        "max_retries": "2",
        **others,
    }


@pytest.fixture
def proxied(address: str, small: Small) -> Iterator[Callable[..., tuple[FaultProxy, str]]]:
    """A proxy with faults before the server, and its address."""
    with ExitStack() as ending:

        def before(**faults: Any) -> tuple[FaultProxy, str]:
            proxy = FaultProxy(address, **faults)
            return proxy, ending.enter_context(running(proxy.application()))

        yield before


@pytest.fixture(scope="session")
def _anthropic(folder: Any) -> Iterator[tuple[SmallAnthropic, str]]:
    server = SmallAnthropic(folder)
    with running(server.application()) as address:
        yield server, address


@pytest.fixture
def anthropic(
    _anthropic: tuple[SmallAnthropic, str], monkeypatch: pytest.MonkeyPatch
) -> SmallAnthropic:
    """The server of Anthropic's interface."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", ANTHROPIC_KEY)
    _anthropic[0].asked.clear()
    return _anthropic[0]


@pytest.fixture
def of_anthropic(
    _anthropic: tuple[SmallAnthropic, str], anthropic: SmallAnthropic
) -> dict[str, str]:
    """Arguments of the model behind it."""
    return {
        "model": "org/tiny",
        "base_url": f"{_anthropic[1]}/v1/messages",
        "num_concurrent": "4",
        "max_retries": "1",
    }
