"""Logs of the kernel grow when a run fills them, up to a limit that the error names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flowcontrol.errors import RunError
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.memory import fields as f
from flowcontrol.memory import log_sizes
from flowcontrol.memory.log_sizes import GROWTH, MOST_BYTES, LogSizes
from flowcontrol.memory.part_fields import KeptWindow, KernelResult, SpilledBuffer
from flowcontrol.memory.places import (
    FLAG_AGES,
    FLAG_KEPT_WINDOWS,
    FLAG_RESULTS,
    FLAG_RUNS,
    FLAG_SPILLS,
    FLAG_WINDOWS,
)
from flowcontrol.scenario import parse_scenario
from flowcontrol.state.declared import width
from flowcontrol.state.windows import ColumnValues, WindowEntry
from flowcontrol.virtual import simulate

UNBOUNDED: dict[str, Any] = {
    "schema": 1,
    "name": "unbounded",
    "duration_s": 20,
    "round_ms": 10,
    "system": "unbounded",
    "stages": [{"name": "source", "emit_rate": 1000}, {"name": "sink", "service_rate": 10}],
    "edges": [{"from": "source", "to": "sink"}],
}

LOGS = {
    "runs": (FLAG_RUNS, width(f.Run), "records in flight"),
    "ages": (FLAG_AGES, width(f.Age), "ages of the records"),
    "spills": (FLAG_SPILLS, width(SpilledBuffer), "buffers of spilling partitions"),
}
FURTHER_LOGS: dict[str, tuple[int, type[Any]]] = {
    "windows": (FLAG_WINDOWS, WindowEntry),
    "results": (FLAG_RESULTS, KernelResult),
    "kept_windows": (FLAG_KEPT_WINDOWS, KeptWindow),
}


@pytest.mark.parametrize("log", LOGS)
def test_a_log_that_is_full_grows_up_to_its_limit(log: str) -> None:
    flag, width, content = LOGS[log]
    before = LogSizes(1000, 2000, 3000)
    sizes = before
    for _ in range(100):
        larger = before.grown(flag, 1.5, 60)
        changed = {name for name in LOGS if getattr(larger, name) != getattr(before, name)}
        assert changed == {log}
        assert getattr(larger, log) <= GROWTH * getattr(before, log)
        assert getattr(larger, log) * width * 8 <= MOST_BYTES
        if 8 * width * (getattr(larger, log) + 1) > MOST_BYTES:
            sizes = larger
            break
        before = larger
    with pytest.raises(RunError) as caught:
        sizes.grown(flag, 1.5, 60)
    for text in (content, f"{getattr(sizes, log):,}", "1.5 s of 60 s", "1 GiB", "state"):
        assert text in str(caught.value)


@pytest.mark.parametrize("log", FURTHER_LOGS)
@pytest.mark.parametrize("further", [0, 3])
def test_further_columns_make_entries_larger(log: str, further: int) -> None:
    """A limit is one of bytes."""
    flag, entry = FURTHER_LOGS[log]
    sizes = replace(LogSizes(1, 1, 1, further=further), **{log: 3_000_000})
    found = sizes.grown(flag, 1.5, 60)
    each = 8 * (width(entry) + further * width(ColumnValues))
    assert getattr(found, log) == MOST_BYTES // each
    assert replace(found, **{log: 3_000_000}) == sizes


def test_all_that_are_full_grow_at_once() -> None:
    found = LogSizes(10, 20, 30).grown(FLAG_RUNS | FLAG_SPILLS, 0, 1)
    assert found == LogSizes(10 * GROWTH, 20, 30 * GROWTH)


def test_a_run_begins_small() -> None:
    sizes = LogSizes.first(build_physical_graph(parse_scenario(UNBOUNDED), round_us=10_000))
    assert sizes.runs <= log_sizes.MOST_RUNS
    assert sizes.spills == 0


def test_a_run_that_holds_ever_more_ends_with_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not when the machine's memory does."""
    scenario = parse_scenario(UNBOUNDED)
    assert simulate(scenario).rounds == 2000
    monkeypatch.setattr(log_sizes, "MOST_BYTES", 8 * width(f.Run) * 1500)
    with pytest.raises(RunError, match=r"more than 1,500 records in flight.* s of 20 s.*emit_rate"):
        simulate(scenario)
