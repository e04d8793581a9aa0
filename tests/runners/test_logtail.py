"""The end of a log as everybody may read it."""

from __future__ import annotations

from pathlib import Path

from runners.logtail import tail


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
