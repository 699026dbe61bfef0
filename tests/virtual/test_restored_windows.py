"""What windows put out does not depend on failures: laws over results, and what tables say."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from flowcontrol.virtual import simulate
from modules import load

small = load("tests/job/small_windows.py")

PREFIX = "execution.checkpointing."
RESTART = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 9,
    "restart-strategy.fixed-delay.delay": "50ms",
}
MODES: dict[str, dict[str, Any]] = {
    "aligned": {},
    "unaligned": {f"{PREFIX}unaligned.enabled": True},
    "interruptible": {
        f"{PREFIX}unaligned.enabled": True,
        f"{PREFIX}unaligned.interruptible-timers.enabled": True,
    },
    "timeout": {f"{PREFIX}unaligned.enabled": True, f"{PREFIX}aligned-checkpoint-timeout": "100ms"},
    "at least once": {f"{PREFIX}mode": "AT_LEAST_ONCE"},
}
FAILURES = [
    {"at_s": 1.02, "stage": "count", "subtask": 1},
    {"at_s": 1.61, "task_manager": 0},
    {"at_s": 2.55, "stage": "source", "subtask": 0},
]
KINDS: dict[str, dict[str, Any]] = {
    "tumbling": small.TUMBLING,
    "sliding": {"kind": "sliding", "size_s": 0.4, "slide_s": 0.1},
    "session": {"kind": "session", "gap_s": 0.05},
    "late": {**small.TUMBLING, "allowed_lateness_s": 0.4},
}


def run(window: dict[str, Any], options: dict[str, Any], failures: Any, **keys: Any) -> Any:
    """A job with little room behind its windows, so that much is in flight."""
    way = keys.pop("way", {})
    given = small.keyed_mapping(
        window,
        source={"record_bytes": 4000, "emit_rate": 400},
        count={"record_bytes": 4000, "service_rate": 150},
        sink={"service_rate": keys.pop("drain", 300)},
        failures=failures,
        duration_s=15,
        **keys,
    )
    given["stages"][1] |= way
    given["options"] |= {f"{PREFIX}interval": "200ms", **RESTART, **options}
    return simulate(small.checked(given))


def latest(table: Any) -> dict[Any, int]:
    """The last result of each window and key."""
    rows = table.to_pandas().sort_values("emitted_s", kind="stable")
    names = ["window_start", "window_end", "key"]
    return {tuple(row[:3]): row[3] for row in rows[[*names, "n"]].itertuples(index=False)}


@pytest.mark.parametrize("mode", ["aligned", "unaligned", "interruptible", "timeout"])
@pytest.mark.parametrize("kind", KINDS)
def test_exactly_once_the_results_are_those_of_a_run_without_failures(kind: str, mode: str) -> None:
    """Nothing is late; the source reads a log, so records come again with their own times.

    Each restart found open windows in its checkpoint, or what was in flight would not add up.
    """
    expected, found = (run(KINDS[kind], MODES[mode], each) for each in ([], FAILURES))
    tables = [each.tables for each in (expected, found)]
    assert latest(tables[1]["output/count"]) == latest(tables[0]["output/count"])
    assert sum(latest(tables[0]["output/count"]).values()) >= 200
    restarts = tables[1]["restarts"].to_pylist()
    assert len(restarts) >= 2
    assert all(row["checkpoint_id"] for row in restarts)
    again = tables[1]["output/count"].num_rows - tables[0]["output/count"].num_rows
    assert again >= 0
    time = tables[1]["time"].to_pandas()
    assert time.late_records.max() == 0
    fired = time[time.stage == "count"].groupby("subtask").fired.max().sum()
    assert fired == tables[1]["output/count"].num_rows, "counted on over restarts"


def test_an_unaligned_checkpoint_brings_back_what_was_in_flight() -> None:
    """Without their stamps these records would be in other windows."""
    options = MODES["unaligned"]
    found = run(small.TUMBLING, options, [{"at_s": 1.5, "stage": "sink", "subtask": 0}], drain=20)
    done = [row for row in found.tables["checkpoints"].to_pylist() if row["status"] == "completed"]
    [restart] = found.tables["restarts"].to_pylist()
    restored = next(row for row in done if row["checkpoint_id"] == restart["checkpoint_id"])
    assert restored["persisted_bytes"] > 40_000, "ten records"
    expected = run(small.TUMBLING, options, [], drain=20)
    assert latest(found.tables["output/count"]) == latest(expected.tables["output/count"])


def test_at_least_once_counts_more() -> None:
    """What a task took behind the first barrier comes again, into windows that have it.

    The slower map's barriers come later than the other's.
    """
    options, way = MODES["at least once"], {"service_rate": [100, 40]}
    counts = []
    for failures in ([], [{"at_s": 1.1 + i / 4, "stage": "count", "subtask": 0} for i in range(5)]):
        table = run(small.TUMBLING, options, failures, way=way).tables["output/count"]
        counts.append(Counter(latest(table)))
    assert counts[1].total() > counts[0].total() == 200
    assert not counts[0] - counts[1], "nothing is lost"


def test_a_task_that_is_down_has_neither_windows_nor_a_watermark() -> None:
    found = run(small.TUMBLING, {}, FAILURES[:1], sample_interval_s=0.02)
    time = found.tables["time"].to_pandas().query("stage == 'count'")
    [restart] = found.tables["restarts"].to_pylist()
    down = time[(time.t_s > 1.04) & (time.t_s < restart["running_s"])]
    assert len(down) > 0
    assert down.watermark_s.isna().all()
    assert down.open_windows.max() == down.window_state_bytes.max() == 0
    back = time[time.t_s > restart["running_s"] + 0.02].groupby("t_s").open_windows.sum()
    assert back.iloc[0] > 0
