"""Replayed rows in windows of a job that fails: both clocks restore times, keys and values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flowcontrol.trace.round_state import RoundState
from flowcontrol.virtual import run_job
from modules import load

clocks = load("tests/virtual/clocks.py")
rows_in_windows = load("tests/job/rows_in_windows.py")

COUNT = 400
OPTIONS: dict[str, Any] = {
    "execution.checkpointing.interval": "200ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 9,
    "restart-strategy.fixed-delay.delay": "50ms",
}
UNALIGNED = {"execution.checkpointing.unaligned.enabled": True}
AGGREGATES = {"s": "sum(size)", "n": "count", "paid": "sum(price)", "least": "min(price)"}
FAILURES = [{"at_s": 0.93, "stage": "count", "subtask": 0}, {"at_s": 1.71, "task_manager": 0}]


@pytest.mark.parametrize(
    ("has_times", "unaligned"),
    [
        (True, UNALIGNED),
        (False, {}),
        pytest.param(True, {}, marks=pytest.mark.long),
        pytest.param(False, UNALIGNED, marks=pytest.mark.long),
    ],
)
def test_a_restart_finds_the_rows_where_they_were(
    tmp_path: Path, unaligned: dict[str, Any], has_times: bool
) -> None:
    draw = np.random.default_rng(5)
    at = 10 * np.arange(COUNT) - draw.integers(0, 200, COUNT)
    size = draw.integers(-7, 7, COUNT)
    city = draw.choice(np.array(["Rome", "Bonn", "Oslo"], object), COUNT)
    price = draw.choice([0.25, -1.5, 3, np.nan], COUNT)
    path = rows_in_windows.write(tmp_path, at=at, city=city, size=size, price=price)
    own = {} if has_times else {"event_time": {"out_of_orderness_s": 0.2}}
    stages = {
        "source": rows_in_windows.source(path, emit_rate=250, watermark={"delay_s": 0.2}, **own),
        "count": {**rows_in_windows.window(aggregate=AGGREGATES), "parallelism": 2},
        "sink": {"service_rate": 12},
    }
    edges = {"source->count": {"partitioner": "hash"}, "count->sink": {"partitioner": "rebalance"}}
    more = {"options": OPTIONS | unaligned, "duration_s": 5}
    job = rows_in_windows.job(stages, edges, failures=FAILURES, **more)
    restored, further = [], []

    def look(state: RoundState) -> None:
        restored.append(sum(t.is_running and bool(t.window.entries) for t in state.tasks[1:3]))

        further.append(any(bool(t.window.further) for t in state.tasks[1:3]))

    clocks.compare(job, every=(1, 7), look=look)
    assert further[restored.index(2, restored.index(0, 60))]
    assert 2 in restored[restored.index(0, 60) :]
    frames = [
        run_job(one).tables["output/count"].to_pandas().sort_values("emitted_s", kind="stable")
        for one in (job, rows_in_windows.job(stages, edges, **more))
    ]
    if has_times:
        keys = ["window_start", "key"]
        failed, whole = (frame.groupby(keys)[[*AGGREGATES]].last() for frame in frames)
        pd.testing.assert_frame_equal(failed, whole)
        assert whole.n.sum() == COUNT
