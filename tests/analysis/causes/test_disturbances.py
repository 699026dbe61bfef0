"""What checkpoints take from a stage, and what they do not: by hand, and of a window's sink."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from flowcontrol.analysis.causes import find_causes
from flowcontrol.analysis.causes.disturbances import Disturbances, disturbances_of
from flowcontrol.analysis.causes.parts import parts_of
from flowcontrol.analysis.causes.run import Run
from flowcontrol.analysis.limits import find_limits
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import simulate
from modules import load

pytestmark = pytest.mark.usefixtures("whole_kernel")

BUILD: ModuleType = load("tests/analysis/builder.py")
TAKEN: ModuleType = load("tests/analysis/checkpoint_tables.py")

TIMES = [float(n) for n in range(1, 41)]
TOUCHED = [float(n) for n in range(14, 25, 2)]
"""Ends of samples of 1 s, and those in which a checkpoint is at work."""


def found(
    rates: list[float], parts: tuple[float, ...], blocked: float = 500, **sizes: Any
) -> tuple[Run, Disturbances]:
    """Judge a sink with some rates; its parts of checkpoints fill the touched samples, ms."""
    scenario = TAKEN.scenario("2s")
    is_idle = [parts is ALIGNS and t_s in TOUCHED for t_s in TIMES]
    made = BUILD.Results(TIMES).stage("source", backpressured_ms_per_s=blocked)
    for subtask in (0, 1):
        made.stage("map", subtask, rate_in=50, rate_out=50, backpressured_ms_per_s=blocked)
    busy = [0 if idle else 1000 for idle in is_idle]
    made.stage(
        "sink", rate_in=rates, busy_ms_per_s=busy, idle_ms_per_s=[1000 - one for one in busy],
        input_queue_buffers=5,
    )  # fmt: skip
    taken = TAKEN.Taken()
    for t_s in TOUCHED:
        taken.checkpoint(t_s - 1, "completed", 1000)
        taken.task("sink", 0, *parts, e2e_ms=1000, **sizes)
    tables = made.tables() | taken.tables()
    run = Run(tables, scenario, find_limits(tables, scenario))
    return run, disturbances_of(run, "sink")


WRITES = (50.0, 0.0, 0.0, 900.0)
ALIGNS = (50.0, 900.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("parts", "sizes", "is_slowed"),
    [
        (WRITES, {"state_bytes": 1000}, True),
        (WRITES, {"persisted_bytes": 1000}, True),
        (WRITES, {}, False),  # it has nothing to write
        ((50.0, 0.0, 900.0, 0.0), {}, True),  # that blocks the task whatever it writes
        # Barriers overtake: the snapshot waits for the last one, and takes in what comes before.
        ((50.0, 900.0, 0.0, 930.0), {"persisted_bytes": 1000}, False),
    ],
)
def test_who_writes_for_a_checkpoint_is_slowed(
    parts: tuple[float, ...], sizes: dict[str, int], is_slowed: bool
) -> None:
    _, own = found([20 if t_s in TOUCHED else 100 for t_s in TIMES], parts, **sizes)
    slowed = {t_s: lost for (t_s, _), lost in own.slowed.items()}
    assert sorted(slowed) == (TOUCHED if is_slowed else [])
    assert all(lost == pytest.approx(0.8) for lost in slowed.values())


def test_a_stage_that_is_slow_between_checkpoints_too_is_not_slowed_by_them() -> None:
    """Not even where it is quick for most of the run."""
    rates = [20 if 13 <= t_s <= 25 else 100 for t_s in TIMES]
    _, own = found(rates, WRITES, state_bytes=1000)
    assert not own.slowed
    assert not own.still


@pytest.mark.parametrize(("blocked", "is_held"), [(100, False), (201, True), (900, True)])
def test_an_aligning_stage_holds_nobody_up_where_no_sender_is_blocked(
    blocked: float, is_held: bool
) -> None:
    _, own = found([50] * len(TIMES), ALIGNS, blocked=blocked)
    assert sorted(t_s for t_s, _ in own.held) == (TOUCHED if is_held else [])
    assert not own.slowed


def test_what_was_behind_before_a_disturbance_is_not_caught_up_with_for_it() -> None:
    """A sink too slow until 10 s; its source reads a log, and stands still at 20 s once more."""
    log = {"arrival_rate": 40, "emit_rate": 100}
    scenario = BUILD.scenario("log", {"source": log, "sink": {}}, ["source->sink"])
    lags = [100 * min(t_s, 10) - 30 * max(0, t_s - 10) + 40 * (t_s >= 20) for t_s in TIMES]
    behind = [lag > 0 for lag in lags]
    made = BUILD.Results(TIMES)
    made.stage(
        "source", lag_records=[max(0, lag) for lag in lags],
        backpressured_ms_per_s=[900 * now for now in behind],
    ).stage("sink", busy_ms_per_s=[1000 * now for now in behind])  # fmt: skip
    tables = made.tables()
    run = Run(tables, scenario, find_limits(tables, scenario))
    own = Disturbances(frozenset({(20.0, 0)}), {}, {})
    parts = parts_of(run, "sink", run.limited["sink"], {"sink": own})
    assert parts.stalled == {19.0, 20.0}  # what begins within an interval shows in the next
    assert parts.steady == run.limited["sink"] - parts.stalled
    assert max(parts.steady) == 40


OVERTAKING = {"execution.checkpointing.unaligned.enabled": True}


@pytest.mark.parametrize("options", [{}, OVERTAKING])
def test_a_sink_without_state_is_not_told_to_make_it_smaller(options: dict[str, Any]) -> None:
    """Slow from 200 to 500 s, behind a window; what fires after that waits for barriers."""
    given = {
        "schema": 1,
        "name": "fares",
        "duration_s": 650,
        "round_ms": 5,
        "sample_interval_s": 5,
        "cluster": {"task_managers": 4, "network_latency_ms": 0.5},
        "options": {"execution.checkpointing.interval": "20s", **options},
        "stages": [
            {
                "name": "trips", "parallelism": 24, "total_arrival_rate": 12000,
                "total_rate": 30000, "record_bytes": 300,
                "event_time": {"out_of_orderness_s": 3}, "watermark": {"delay_s": 4},
            },
            {
                "name": "fares", "parallelism": 8, "total_rate": 20000,
                "window": {"kind": "tumbling", "size_s": 30}, "state": {"bytes": "10mb"},
            },
            {
                "name": "warehouse", "parallelism": 4,
                "total_rate": [
                    {"at_s": 0, "rate": 1600}, {"at_s": 200, "rate": 200},
                    {"at_s": 500, "rate": 1600},
                ],
            },
        ],
        "edges": [
            {
                "from": "trips", "to": "fares", "partitioner": "hash",
                "key_distribution": {"kind": "zipf", "keys": 20000, "exponent": 0.7},
            },
            {"from": "fares", "to": "warehouse", "partitioner": "rebalance"},
        ],
    }  # fmt: skip
    scenario = parse_scenario(given)
    causes = find_causes(simulate(scenario).tables, scenario)
    assert (causes[0].stage, causes[0].cause) == ("warehouse", "operator")
    for cause in causes:
        assert cause.stage != "warehouse" or "state" not in cause.advice
        assert cause.cause != "checkpoint" or cause.confidence <= 0.6
