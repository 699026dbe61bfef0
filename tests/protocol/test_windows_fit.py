"""Every product and sum of the rules of windows fits into 64 bits, as ``test_fits`` has it."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import Any

import pytest

from flowcontrol.protocol import event_time as watermarks
from flowcontrol.protocol.windows import contents, firing, spark_batches, triggers
from flowcontrol.protocol.windows import firing as window_entries
from flowcontrol.protocol.windows.contents import GLOBAL, PANES, SESSIONS
from flowcontrol.protocol.windows.spark_batches import APPEND, WatermarkOperator
from flowcontrol.spec import window_operator as keeping
from flowcontrol.state.declared import columns
from flowcontrol.state.tasks import MAX_TIME, MIN_TIME, TaskBatch
from flowcontrol.state.windows import NO_TIMEOUT, ColumnValues, Windows, WindowSettings

TIMES = (MIN_TIME, MIN_TIME + 1, -1, 0, 1, MAX_TIME - 1, MAX_TIME)
SIZES = (1, 7, MAX_TIME // 2, MAX_TIME)


@pytest.mark.parametrize("buckets", [1, 64, 1 << 32])
def test_buckets_of_windows_fit(narrow: type[int], buckets: int) -> None:
    for kind, size, key, start in product((PANES, SESSIONS), SIZES, TIMES, TIMES):
        settings = WindowSettings(kind=narrow(kind), slide=narrow(size))
        bucket = window_entries.bucket_of(settings, narrow(key), narrow(start), narrow(buckets))
        assert 0 <= bucket < buckets


def narrow_windows(narrow: type[int], settings: WindowSettings) -> Windows:
    """An operator of integers that must fit."""
    settings.further = 1
    found = keeping.new_windows(settings, 8, list(map(narrow, TIMES)))
    parts = (found.settings, found.store, *found.entries, *found.further)
    for state in parts:
        for name in columns(type(state)):
            setattr(state, name, narrow(getattr(state, name)))
    return found


@pytest.mark.parametrize("kind", [PANES, SESSIONS, GLOBAL])
@pytest.mark.parametrize("trigger", [triggers.EVENT, triggers.PROCESSING, triggers.CONTINUOUS_EVENT,
                                     triggers.CONTINUOUS_CLOCK])  # fmt: skip
@pytest.mark.parametrize("size", SIZES)
def test_times_of_windows_fit(narrow: type[int], kind: int, trigger: int, size: int) -> None:
    """Also those of windows at both ends of time, and sums of the largest values."""
    fired = 0
    for lateness, timeout, is_event_time in product((0, MAX_TIME), (NO_TIMEOUT, MAX_TIME), (0, 1)):
        settings = WindowSettings(kind, is_event_time if kind != GLOBAL else 0, size, size)
        settings.offset, settings.gap, settings.lateness = 1 - size, size, lateness
        settings.trigger, settings.every, settings.timeout = trigger, max(size, 1 << 61), timeout
        windows = narrow_windows(narrow, settings)
        for at in (*TIMES, *TIMES[::-1]):
            windows.store.element_id = narrow(TIMES.index(at))
            taken = firing.on_element(windows, narrow(1), narrow(at), narrow(at), narrow(at))
            assert taken != firing.FULL
            while firing.next_result(windows) == 1:
                fired += 1
        for at in TIMES:
            firing.on_watermark(windows, narrow(at))
            while firing.next_result(windows) == 1:
                fired += 1
            firing.on_clock(windows, narrow(at))
            while firing.next_result(windows) == 1:
                assert MIN_TIME <= windows.store.result_sum <= MAX_TIME
                assert MIN_TIME <= windows.further[0].sum <= MAX_TIME
                fired += 1
    assert fired > 0


@pytest.mark.parametrize("inputs", [1, 1000])
def test_the_number_of_a_group_that_comes_too_late_fits(narrow: type[int], inputs: int) -> None:
    settings = WindowSettings(kind=SESSIONS, gap=narrow(1))
    windows = keeping.new_windows(settings, 1)
    windows.store.watermark = narrow(MAX_TIME)
    batch = TaskBatch(has_watermark=narrow(1), mode=narrow(APPEND))
    operators = [WatermarkOperator(narrow(0)) for _ in range(inputs)]
    row = narrow(inputs - 1), narrow(watermarks.IDS - 1), narrow(5), narrow(1)
    assert spark_batches.take_row(windows, batch, operators, *row) == firing.TAKEN
    assert windows.entries[0].key == -watermarks.IDS * inputs
    assert batch.late == 1


@pytest.mark.parametrize("count", [1, 1000])
def test_places_of_further_columns_fit(narrow: type[int], count: int) -> None:
    """Of the last id there may be, and of the last of as many windows as a log may have."""
    rows: Any = defaultdict(lambda: narrow(-1))
    held: Any = defaultdict(ColumnValues)
    windows = keeping.new_windows(WindowSettings(), 1)._replace(further=held, table=rows)
    windows.settings.further, last = narrow(count), narrow(1 << 27)
    windows.store.element_id = narrow(watermarks.IDS - 1)
    contents.put_further_in(windows, last)
    contents.absorb_further(windows, narrow(0), last)
    contents.purge_further(windows, last)
    assert max(rows) == watermarks.IDS * count - 1
    assert max(held) == ((1 << 27) + 1) * count - 1
    assert held[count - 1].sum == -1
