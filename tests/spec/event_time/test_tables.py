"""Watermarks and the alignment of sources, step by step, against tables worked out by hand."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from flowcontrol.protocol import event_time as alignment
from flowcontrol.spec import SourceAlignment, SplitWatermarks, WatermarkGenerator, WatermarkValve
from flowcontrol.state.tasks import MAX_TIME, MIN_TIME, AlignedSource

from .plays import play
from .source_tables import TABLES as OF_SOURCES
from .valve_tables import TABLES as OF_VALVES

TABLES = [*OF_VALVES, *OF_SOURCES]


@pytest.mark.parametrize(
    ("made", "steps"), [table[1:] for table in TABLES], ids=[table[0] for table in TABLES]
)
def test_step_by_step(made: str, steps: str) -> None:
    assert play(made, steps) >= 1


def test_there_are_enough_tables() -> None:
    assert len({table[0] for table in TABLES}) == len(TABLES) >= 50
    kinds = Counter(table[1].split()[0] for table in TABLES)
    assert min(kinds["valve"], kinds["splits"], kinds["group"]) >= 9, kinds


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WatermarkGenerator(-1), "out_of_orderness is -1 ms: needs at least 0"),
        (lambda: WatermarkGenerator(1 << 63), "out_of_orderness is 9223372036854775808: times"),
        (lambda: WatermarkGenerator(0, idle_ms=0), "idle_ms is 0: needs more than 0, or None"),
        (lambda: WatermarkGenerator(0, idle_ms=-5), "idle_ms is -5"),
        (lambda: WatermarkValve(0), "0 channels: a task with a valve has at least 1"),
        (lambda: SourceAlignment(-1), "drift is -1 ms: needs at least 0"),
        (lambda: SourceAlignment(1 << 63), "drift is 9223372036854775808: times are whole ms"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_what_cannot_come_is_refused_and_changes_nothing() -> None:
    valve = WatermarkValve(2)
    with pytest.raises(ValueError, match="channel 2: the task has channels 0 to 1"):
        valve.watermark(2, 5)
    with pytest.raises(ValueError, match="channel -1"):
        valve.status(-1)
    with pytest.raises(ValueError, match=f"watermark is {MAX_TIME + 1}"):
        valve.watermark(0, MAX_TIME + 1)
    generator = WatermarkGenerator(0, punctuated=True)
    with pytest.raises(ValueError, match=f"event time is {MIN_TIME - 1}"):
        generator.event(0, MIN_TIME - 1)
    group = SourceAlignment(0)
    with pytest.raises(ValueError, match="watermark is"):
        group.report("a", MAX_TIME + 1)
    assert valve.last == generator.watermark == MIN_TIME and valve.aligned == (0, 1)
    assert group.allowed == MAX_TIME


def test_unknown_splits_are_refused() -> None:
    splits = SplitWatermarks()
    splits.add("a")
    with pytest.raises(ValueError, match="split 'a' is there already: remove it first"):
        splits.add("a")
    with pytest.raises(ValueError, match="split 'b' is unknown: add it first"):
        splits.update("b", 5)
    with pytest.raises(ValueError, match="split 'b' is unknown"):
        splits.idle("b")
    with pytest.raises(ValueError, match="watermark is"):
        splits.update("a", MAX_TIME + 1)
    assert splits.update("a", 5) == [5]


def test_places_of_removed_splits_are_taken_again() -> None:
    splits = SplitWatermarks()
    for number in range(50):
        splits.add(number)
        splits.add((number, "b"))
        assert splits.remove(number)
    assert len(splits._splits) == 51


def test_a_subtask_counts_from_its_first_report_on() -> None:
    """On the clocks all subtasks of a group are there from the start."""
    sources = [AlignedSource(), AlignedSource()]
    assert alignment.allowed_watermark(sources, 10) == MAX_TIME
    alignment.note_report(sources[1], 100)
    assert alignment.allowed_watermark(sources, 10) == 110
    alignment.note_report(sources[0], MIN_TIME)
    assert alignment.allowed_watermark(sources, 10) == MIN_TIME + 10
