"""Progress: a bar on a terminal, a line every tenth elsewhere."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from flowcontrol.report.progress import RunProgress


def plain(width: int = 120) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=width), file


def clock(*times: float) -> Callable[[], float]:
    """Return a clock that shows each time once, then the last one for ever."""
    left = list(times)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def test_a_plain_line_every_tenth() -> None:
    console, file = plain()
    with RunProgress(500, 0.2, console=console, now=clock(0.0)) as progress:
        for done in range(1, 501):
            progress.update(done, done * 120)
    lines = file.getvalue().splitlines()
    assert [line.split(" %")[0].strip() for line in lines] == [str(n) for n in range(10, 101, 10)]
    assert lines[0].startswith(" 10 %  round 50 of 500, 10 s emulated, 6,000 rows, ")


def test_rows_per_second_are_of_real_time() -> None:
    console, file = plain()
    with RunProgress(10, 1.0, console=console, now=clock(5.0, 5.0, 5.0, 7.0)) as progress:
        progress.update(10, 5000)
    assert file.getvalue() == "100 %  round 10 of 10, 10 s emulated, 5,000 rows, 2,500 rows/s\n"


def test_a_resumed_run_counts_what_it_did_itself() -> None:
    console, file = plain()
    progress = RunProgress(
        10, 1.0, rounds_done=6, rows=4000, console=console, now=clock(0.0, 0.0, 0.0, 2.0)
    )
    with progress:
        progress.update(6, 4000)
        progress.update(8, 5000)
    assert file.getvalue() == " 80 %  round 8 of 10, 8 s emulated, 5,000 rows, 500 rows/s\n"


@given(total=st.integers(1, 300), data=st.data())
def test_at_most_ten_lines_in_any_steps_and_the_end_is_always_shown(
    total: int, data: st.DataObject
) -> None:
    steps = sorted(data.draw(st.sets(st.integers(1, total))) | {total})
    console, file = plain()
    with RunProgress(total, 0.5, console=console, now=clock(0.0)) as progress:
        for done in steps:
            progress.update(done, done)
    lines = file.getvalue().splitlines()
    assert 1 <= len(lines) <= 10
    assert lines[-1].startswith(f"100 %  round {total} of {total},")
    assert all(line.count("emulated") == 1 for line in lines)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_one_bar_on_a_terminal(width: int) -> None:
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=True, color_system=None)
    with RunProgress(4, 0.2, console=console, now=clock(0.0)) as progress:
        for done in range(1, 5):
            progress.update(done, done * 100)
    shown = file.getvalue()
    assert "100%" in shown
    assert "round 4 of 4" in shown
    for line in shown.replace("\r", "\n").splitlines():
        assert len(strip_control(line)) <= width
    assert shown.count("\n") == 1


def test_nothing_is_shown_before_it_is_entered_nor_after_an_error() -> None:
    console, file = plain()
    progress = RunProgress(3, 0.2, console=console)
    assert file.getvalue() == ""
    with pytest.raises(KeyboardInterrupt), progress:
        raise KeyboardInterrupt
    assert file.getvalue() == ""


@pytest.mark.parametrize("rounds", [0, -1])
def test_a_run_without_rounds_is_refused(rounds: int) -> None:
    with pytest.raises(ValueError, match=f"at least 1 round, not {rounds}"):
        RunProgress(rounds, 0.2)


def strip_control(line: str) -> str:
    """Return what a line shows, without the terminal's control sequences."""
    import re

    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line)
