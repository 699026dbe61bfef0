"""A task's barriers, step by step, against tables worked out by hand."""

from __future__ import annotations

import re
from typing import Any

import pytest

from flowcontrol.spec import BarrierAligner

from .tables import REASONS, TABLES

TIMEOUT = 50


def call(aligner: BarrierAligner, now: int, words: list[str]) -> Any:
    """Do one step."""
    what, channel = words[0][0], words[0][1:]
    if words[0] == "tick":
        return aligner.tick(now)
    if what == "d":
        return aligner.data(now, int(channel), int(words[1]))
    if what == "e":
        return aligner.end_of_partition(now, int(channel))
    number = int(words[1].removeprefix("#"))
    if what == "c":
        return aligner.cancel(now, int(channel), number)
    if what == "a":
        return aligner.announce(now, int(channel), number, 100 * number)
    options: dict[str, Any] = {
        "s": {"kind": "savepoint"},
        "u": {"unaligned": True},
        "f": {"unaligned": False},
    }.get("".join(words[2:]), {})
    return aligner.barrier(now, int(channel), number, 100 * number, **options)


def expected(text: str) -> Any:
    """Read what a step is to cause."""
    found: list[Any] = []
    for action in filter(None, map(str.strip, text.split(","))):
        word, *rest = action.split()
        if word == "persist":
            return True
        args: list[Any] = [int(rest[0]), *rest[1:]]
        if word == "abort":
            args[1] = REASONS[args[1]]
        found.append((word, *args))
    return found


@pytest.mark.parametrize(
    ("mode", "finish", "channels", "steps"),
    [table[1:] for table in TABLES],
    ids=[f"{table[1]}: {table[0]}" for table in TABLES],
)
def test_step_by_step(mode: str, finish: bool, channels: int, steps: str) -> None:
    aligner = BarrierAligner(channels, mode, timeout_ms=TIMEOUT, tasks_finish=finish)
    now = 0
    for line in filter(None, map(str.strip, re.split(r"[;\n]", steps))):
        step, *looks = line.split("|")
        asked, _, caused = step.partition("->")
        words = asked.split()
        if words[0].startswith("@"):
            now = int(words.pop(0)[1:])
        found = call(aligner, now, words)
        assert (found or []) == expected(caused), line
        for look in looks:
            name, value = look.strip().split(" ", 1)
            assert repr(getattr(aligner, name)) == value, line


def test_there_are_enough_tables() -> None:
    assert len(TABLES) >= 25
    assert len({table[0] for table in TABLES}) == len(TABLES)
    assert all(re.search("->", table[4]) for table in TABLES)


def test_at_least_once_follows_fifty_checkpoints() -> None:
    aligner = BarrierAligner(2, "at_least_once")
    for number in range(1, 51):
        assert aligner.barrier(number, 0, number, 0) == []
    assert aligner.pending_ids == list(range(1, 51))
    assert aligner.barrier(51, 0, 51, 0) == []
    assert aligner.pending_ids == list(range(2, 52))
    assert aligner.barrier(52, 1, 1, 0) == []  # forgotten
    assert aligner.barrier(53, 1, 2, 0) == [("trigger", 2, "at_least_once")]
    assert aligner.cancel(54, 1, 51) == [
        ("abort", number, REASONS["cancelled"]) for number in range(3, 52)
    ]
    assert aligner.pending_ids == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"channels": 0}, "0 channels: a task that aligns has at least 1"),
        ({"channels": 1, "mode": "exactly"}, "mode 'exactly': choose one of aligned, timeoutable"),
        ({"channels": 1, "mode": "timeoutable"}, "needs timeout_ms, at least 0"),
        ({"channels": 1, "timeout_ms": -1}, "timeout_ms is -1"),
    ],
)
def test_an_aligner_that_cannot_be_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BarrierAligner(**arguments)


def test_what_cannot_arrive_is_refused_and_changes_nothing() -> None:
    aligner = BarrierAligner(2)
    with pytest.raises(ValueError, match="channel 2: the task has channels 0 to 1"):
        aligner.barrier(0, 2, 1, 0)
    with pytest.raises(ValueError, match="ids are at least 0"):
        aligner.cancel(0, 0, -1)
    with pytest.raises(ValueError, match="kind 'x': choose one of checkpoint, savepoint"):
        aligner.barrier(0, 0, 1, 0, kind="x")
    with pytest.raises(ValueError, match='mode "aligned", 1: it is always aligned'):
        aligner.barrier(0, 0, 1, 0, unaligned=True)
    with pytest.raises(ValueError, match="of a savepoint, 1: it is always aligned"):
        BarrierAligner(2, "unaligned").barrier(0, 0, 1, 0, kind="savepoint", unaligned=True)
    with pytest.raises(ValueError, match="-5 bytes on channel 1"):
        aligner.data(0, 1, -5)
    assert aligner.latest_id == -1 and not aligner.is_pending
    aligner.end_of_partition(0, 0)
    with pytest.raises(ValueError, match="channel 0 has ended"):
        aligner.end_of_partition(0, 0)
    assert aligner.open_channels == 1
