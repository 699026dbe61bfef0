"""A window operator, step by step, against tables worked out by hand."""

from __future__ import annotations

import re
from typing import Any

import pytest

from flowcontrol.spec import WindowOperator
from flowcontrol.state.tasks import MAX_TIME, MIN_TIME

from . import tables, trigger_tables

TABLES = [*tables.TABLES, *trigger_tables.TABLES]
ENDS = {"min": MIN_TIME, "max": MAX_TIME}
RESULT = re.compile(r"(\w)=(\S+) \[(\S+),(\S+)\)")


def time_of(text: str) -> int:
    return ENDS[text] if text in ENDS else int(text)


def call(operator: WindowOperator, now: int, words: list[str]) -> Any:
    """Do one step; a snapshot gives another operator."""
    name, at = words[0][0], time_of(words[0][1:])
    if name == "w":
        return operator.watermark(at)
    if name == "t":
        return operator.tick(at)
    return operator.element(now, name, int(words[1]) if words[1:] else 1, at)


def expected(text: str) -> list[tuple[str, int, int, int, int]]:
    """Read the results of a step; the timestamp is the last millisecond of the window."""
    found = []
    for key, value, start, end in RESULT.findall(text):
        first, behind = time_of(start), time_of(end)
        is_global = (first, behind) == (MIN_TIME, MAX_TIME)
        found.append((key, int(value), first, behind, behind if is_global else behind - 1))
    assert len(found) == text.count("="), text
    return found


def see(operator: WindowOperator, look: str) -> None:
    name, value = look.split(" ", 1)
    if name == "timers":
        window, _, times = value.partition(":")
        start, end = map(time_of, window.split())
        assert operator.timers((start, end)) == [time_of(time) for time in times.split()], look
    else:
        assert repr(getattr(operator, name)) == value, look


@pytest.mark.parametrize(
    ("arguments", "steps"), [t[1:] for t in TABLES], ids=[t[0] for t in TABLES]
)
def test_step_by_step(arguments: dict[str, Any], steps: str) -> None:
    operator, now = WindowOperator(**arguments), 0
    for line in filter(None, map(str.strip, re.split(r"[;\n]", steps))):
        step, *looks = line.split("|")
        asked, _, caused = step.partition("->")
        words = asked.split()
        if words[0].startswith("@"):
            now = int(words.pop(0)[1:])
        if words == ["restore"]:
            operator = WindowOperator.restore(operator.snapshot())
        else:
            assert call(operator, now, words) == expected(caused), line
        for look in map(str.strip, looks):
            see(operator, look)


@pytest.mark.parametrize(
    ("arguments", "steps"), [t[1:] for t in TABLES], ids=[t[0] for t in TABLES]
)
def test_a_snapshot_between_any_two_steps_changes_nothing(
    arguments: dict[str, Any], steps: str
) -> None:
    lines = [
        line for line in map(str.strip, re.split(r"[;\n]", steps)) if line and "restore" not in line
    ]
    test_step_by_step(arguments, "\nrestore\n".join(lines))


def test_there_are_enough_tables() -> None:
    assert len(TABLES) >= 55
    assert len({table[0] for table in TABLES}) == len(TABLES)
    assert all("->" in table[2] for table in TABLES)
