"""The end of a log as everybody may read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runners.logtail import harmless, tail
from runners.sandbox import child_environment


def log(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "log"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return tail(path)


def test_progress_bars_are_left_out_however_often_they_were_drawn(tmp_path: Path) -> None:
    bars = [f"Loading weights: {n:3}%|██ | {n}/100 [00:01<00:02, 9.1it/s]" for n in range(0, 101)]
    shown = log(tmp_path, "first", "\r".join(bars), "3it [00:00, 12.5it/s]", "ValueError: no")
    assert shown == "first\nValueError: no"


def test_a_line_drawn_over_itself_counts_as_it_was_drawn_last(tmp_path: Path) -> None:
    assert log(tmp_path, "10 %\r20 %\rready", "ended as on Windows\r") == (
        "ready\nended as on Windows"
    )


def test_a_line_with_a_share_in_it_is_not_a_bar(tmp_path: Path) -> None:
    assert log(tmp_path, "loss fell by 20% | step 3") == "loss fell by 20% | step 3"


def test_the_hubs_token_is_in_no_log_whatever_it_looks_like(settings: Any) -> None:
    settings.HF_TOKEN = "a token of another form"
    assert harmless("asked with a token of another form") == "asked with (hidden)"


@pytest.mark.parametrize(("online", "expected"), [(True, "given by a file"), (False, None)])
def test_only_the_child_that_downloads_is_given_the_token(
    tmp_path: Path, settings: Any, online: bool, expected: str | None
) -> None:
    settings.HF_TOKEN = "given by a file"
    assert child_environment(tmp_path, online=online).get("HF_TOKEN") == expected
