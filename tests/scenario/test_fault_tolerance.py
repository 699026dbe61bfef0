"""Checkpoints, restarts and failures as the clocks see them: defaults, views, canonical text."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.scenario.fault_tolerance import (
    Checkpointing,
    ExponentialDelay,
    Failure,
    FailureRate,
    FixedDelay,
    Heartbeat,
    NoRestart,
    RestartPolicy,
    Savepoint,
    State,
)

CHECKPOINT = "execution.checkpointing."
RESTART = "restart-strategy."
FIXED, RATE, BACKOFF = (f"{RESTART}{kind}." for kind in
                        ("fixed-delay", "failure-rate", "exponential-delay"))  # fmt: skip
EXPONENTIAL = ExponentialDelay(1_000_000, 60_000_000, 1.5, 3_600_000_000, 0.1, None)


def scenario_with(options: dict[str, Any] | None = None, **top: Any) -> Scenario:
    sink = {"name": "sink", "parallelism": 3, **top.pop("sink", {})}
    source = {"name": "source", "emit_rate": 100, **top.pop("source", {})}
    edge = {"from": "source", "to": "sink", **top.pop("edge", {})}
    return parse_scenario(
        {"schema": 1, "name": "faulty", "duration_s": 100, "options": options or {},
         "stages": [source, sink], "edges": [edge], **top}
    )  # fmt: skip


# ---------------------------------------------------------------- checkpoints


def test_without_an_interval_and_savepoints_nothing_checkpoints() -> None:
    scenario = scenario_with({f"{CHECKPOINT}timeout": "1s", f"{CHECKPOINT}unaligned": True})
    assert scenario.checkpointing is None
    assert not scenario.is_fault_tolerant


def test_an_interval_alone_has_flinks_defaults() -> None:
    found = scenario_with({f"{CHECKPOINT}interval": "10s"}).checkpointing
    assert found == Checkpointing(
        interval_us=10_000_000,
        mode="exactly_once",
        timeout_us=600_000_000,
        min_pause_us=0,
        max_concurrent=1,
        tolerable_failures=0,
        is_unaligned=False,
        aligned_timeout_us=0,
        interrupts_timers=False,
        after_tasks_finish=True,
    )


def test_every_option_reaches_the_view() -> None:
    options = {
        f"{CHECKPOINT}interval": 10,
        f"{CHECKPOINT}mode": "EXACTLY_ONCE",
        f"{CHECKPOINT}timeout": "30 s",
        f"{CHECKPOINT}min-pause": "500ms",
        f"{CHECKPOINT}max-concurrent-checkpoints": "1",
        f"{CHECKPOINT}tolerable-failed-checkpoints": 3,
        f"{CHECKPOINT}unaligned": True,
        f"{CHECKPOINT}unaligned.interruptible-timers.enabled": True,
        f"{CHECKPOINT}aligned-checkpoint-timeout": "2s",
        f"{CHECKPOINT}checkpoints-after-tasks-finish.enabled": False,
    }
    assert scenario_with(options).checkpointing == Checkpointing(
        10_000, "exactly_once", 30_000_000, 500_000, 1, 3, True, 2_000_000, False, True
    )


@pytest.mark.parametrize("key", ["unaligned", "unaligned.enabled"])
def test_both_names_of_unaligned_mean_the_same(key: str) -> None:
    found = scenario_with({f"{CHECKPOINT}interval": "1s", f"{CHECKPOINT}{key}": "TRUE"})
    assert found.checkpointing is not None
    assert found.checkpointing.is_unaligned


def test_at_least_once_switches_unaligned_off_and_may_overlap() -> None:
    """Flink switches it off before it looks at how many checkpoints there may be."""
    options = {
        f"{CHECKPOINT}interval": "1s",
        f"{CHECKPOINT}mode": "AT_LEAST_ONCE",
        f"{CHECKPOINT}unaligned": True,
        f"{CHECKPOINT}max-concurrent-checkpoints": 4,
    }
    found = scenario_with(options).checkpointing
    assert found is not None
    assert (found.mode, found.is_unaligned, found.max_concurrent) == ("at_least_once", False, 4)


@pytest.mark.parametrize(
    "more",
    [
        {f"{CHECKPOINT}unaligned": True, f"{CHECKPOINT}unaligned.forced": True},
        {f"{CHECKPOINT}unaligned": False},
    ],
)
def test_custom_partitioners_may_checkpoint(more: dict[str, Any]) -> None:
    edge = {"partitioner": "custom", "channel_weights": [1, 1, 1]}
    options = {f"{CHECKPOINT}interval": "1s", **more}
    found = scenario_with(options, edge=edge).checkpointing
    assert found is not None
    assert found.is_unaligned == more[f"{CHECKPOINT}unaligned"]


def test_savepoints_alone_checkpoint_without_an_interval() -> None:
    scenario = scenario_with(savepoints=[{"at_s": 20}, {"at_s": 40.5, "stop": True}])
    assert scenario.checkpointing is not None
    assert scenario.checkpointing.interval_us is None
    assert [(one.at_us, one.stop) for one in scenario.savepoints] == [
        (20_000_000, False),
        (40_500_000, True),
    ]
    assert scenario.restart_strategy == NoRestart()
    assert scenario.is_fault_tolerant


# ---------------------------------------------------------------- restarts and heartbeats


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, NoRestart()),
        ({f"{CHECKPOINT}interval": "1s"}, EXPONENTIAL),
        ({f"{CHECKPOINT}interval": "1s", f"{RESTART}type": "none"}, NoRestart()),
        *(({RESTART[:-1]: word}, NoRestart()) for word in ("none", "OFF", "disable")),
        *(
            ({f"{RESTART}type": word}, FixedDelay(1, 1_000_000))
            for word in ("fixed-delay", "fixeddelay", "Fixed-Delay")
        ),
        (
            {RESTART[:-1]: "fixed-delay", f"{FIXED}attempts": 0, f"{FIXED}delay": 0},
            FixedDelay(0, 0),
        ),
        *(
            ({f"{RESTART}type": word}, FailureRate(1, 60_000_000, 1_000_000))
            for word in ("failure-rate", "failurerate")
        ),
        (
            {
                f"{RESTART}type": "failure-rate",
                f"{RATE}max-failures-per-interval": 3,
                f"{RATE}failure-rate-interval": "5 min",
                f"{RATE}delay": "10 s",
            },
            FailureRate(3, 300_000_000, 10_000_000),
        ),
        *(
            ({f"{RESTART}type": word}, EXPONENTIAL)
            for word in ("exponential-delay", "exponentialdelay")
        ),
        (
            {
                f"{CHECKPOINT}interval": "1s",
                f"{BACKOFF}initial-backoff": "2s",
                f"{BACKOFF}max-backoff": "8s",
                f"{BACKOFF}backoff-multiplier": "2.5",
                f"{BACKOFF}reset-backoff-threshold": "10min",
                f"{BACKOFF}jitter-factor": 0,
                f"{BACKOFF}attempts-before-reset-backoff": 8,
            },
            ExponentialDelay(2_000_000, 8_000_000, 2.5, 600_000_000, 0.0, 8),
        ),
    ],
    ids=str,
)
def test_restart_strategies(options: dict[str, Any], expected: RestartPolicy) -> None:
    assert scenario_with(options).restart_strategy == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, Heartbeat(10_000_000, 50_000_000, 2)),
        (
            {"heartbeat.interval": 1000, "heartbeat.timeout": "1 s"},
            Heartbeat(1_000_000, 1_000_000, 2),
        ),
        ({"heartbeat.rpc-failure-threshold": -1}, Heartbeat(10_000_000, 50_000_000, None)),
    ],
)
def test_heartbeats(options: dict[str, Any], expected: Heartbeat) -> None:
    assert scenario_with(options).heartbeat == expected


# ---------------------------------------------------------------- state, failures, delivery


def test_the_keys_of_the_design() -> None:
    """Those of design section 10, as they stand there."""
    keyed = {"partitioner": "hash", "key_distribution": {"kind": "uniform", "keys": 9}}
    scenario = scenario_with(
        source={"replayable": False},
        sink={
            "guarantee": "exactly-once",
            "state": {"bytes": "200mb", "bytes_per_key": 8, "bytes_per_record": 0,
                      "incremental_share": 1.0, "sync_ms": 5},
        },
        edge=keyed,
        cluster={"upload_bytes_per_s": 100e6, "restore_bytes_per_s": 50e6, "upload_slowdown": 0.1},
        failures=[
            {"at_s": 30, "task_manager": 1},
            {"at_s": 50, "stage": "sink", "subtask": 0},
            {"at_s": 70, "job_manager": True},
        ],
    )  # fmt: skip
    state = scenario.stage("sink").state
    assert state == State(bytes=200 * 1024**2, bytes_per_key=8, sync_ms=5.0)
    assert state is not None
    assert (state.sync_us, state.incremental_share) == (5_000, 1)
    assert scenario.stage("sink").guarantee == "exactly-once"
    assert not scenario.stage("source").replayable
    cluster = scenario.cluster
    assert (cluster.upload_bytes_per_s, cluster.restore_bytes_per_s) == (100e6, 50e6)
    assert cluster.upload_slowdown == Fraction(1, 10)
    assert [(one.at_us, one.kind, one.victim) for one in scenario.failures] == [
        (30_000_000, "task_manager", "task manager 1"),
        (50_000_000, "subtask", "subtask 0 of sink"),
        (70_000_000, "job_manager", "the JobManager"),
    ]
    assert scenario.is_fault_tolerant


def test_what_is_left_out_has_defaults() -> None:
    scenario = scenario_with()
    source, sink = scenario.stages
    assert (source.replayable, sink.guarantee, sink.state) == (True, "at-least-once", None)
    assert (scenario.savepoints, scenario.failures) == ((), ())
    cluster = scenario.cluster
    assert (cluster.upload_bytes_per_s, cluster.restore_bytes_per_s) == (100e6, 100e6)
    assert cluster.upload_slowdown == 0
    assert State() == State(bytes=0, bytes_per_key=0, bytes_per_record=0, sync_ms=0)
    assert State().incremental_share == 1


def test_the_first_task_manager_may_fail() -> None:
    """Its number is 0, which is no other way to say that it does not."""
    [failure] = scenario_with(failures=[{"at_s": 1, "task_manager": 0}]).failures
    assert (failure.kind, failure.task_manager) == ("task_manager", 0)


def test_two_things_may_fail_at_once_and_after_the_job_has_stopped() -> None:
    scenario = scenario_with(
        savepoints=[{"at_s": 1, "stop": True}],
        failures=[{"at_s": 2, "task_manager": 0}, {"at_s": 2, "task_manager": 1}],
    )
    assert len(scenario.failures) == 2


def test_a_failure_in_the_last_microsecond_is_in_the_run() -> None:
    scenario = scenario_with(failures=[{"at_s": 99.999999, "job_manager": True}])
    assert scenario.failures[0].at_us == scenario.duration_us - 1


# ---------------------------------------------------------------- the canonical text


def test_defaults_are_not_written_down() -> None:
    """Runs and sweeps know a scenario by this text: it stays for those without checkpoints."""
    plain = scenario_with()
    stated = scenario_with(
        {
            f"{CHECKPOINT}mode": "EXACTLY_ONCE",
            f"{CHECKPOINT}timeout": "10 min",
            f"{BACKOFF}jitter-factor": 0.1,
            "heartbeat.interval": 10_000,
        },
        sink={"guarantee": "at-least-once", "state": None},
        source={"replayable": True},
        cluster={"upload_bytes_per_s": 100e6, "upload_slowdown": 0},
        savepoints=[],
        failures=[],
    )
    assert stated == plain
    text = json.dumps(plain.canonical())
    assert stated.canonical() == plain.canonical()
    for word in ("checkpoint", "savepoint", "failure", "state", "guarantee", "replay", "restart"):
        assert word not in text


def test_a_stated_strategy_is_not_flinks_choice() -> None:
    """Equal for the clocks here, but not once there is an interval."""
    stated = scenario_with({f"{RESTART}type": "none"})
    assert stated.canonical()["options"][f"{RESTART}type"] == "none"


SECONDS = st.integers(0, 99_999_999).map(lambda us: us / 1_000_000)
TIMES = st.lists(SECONDS, max_size=3, unique=True).map(sorted)
VICTIMS = st.sampled_from(
    [{"task_manager": 0}, {"task_manager": 1}, {"stage": "sink", "subtask": 2},
     {"stage": "source", "subtask": 0}, {"job_manager": True}]
)  # fmt: skip
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        f"{CHECKPOINT}interval": st.sampled_from([10, "1s", "1 min"]),
        f"{CHECKPOINT}mode": st.sampled_from(["AT_LEAST_ONCE", "exactly_once"]),
        f"{CHECKPOINT}timeout": st.sampled_from(["10ms", "10min"]),
        f"{CHECKPOINT}unaligned.enabled": st.booleans(),
        f"{CHECKPOINT}aligned-checkpoint-timeout": st.sampled_from([0, "1s"]),
        f"{CHECKPOINT}tolerable-failed-checkpoints": st.integers(0, 3),
        f"{CHECKPOINT}checkpoints-after-tasks-finish": st.booleans(),
        f"{RESTART}type": st.sampled_from(["off", "fixeddelay", "failure-rate"]),
        f"{BACKOFF}backoff-multiplier": st.floats(1, 100, exclude_min=True),
        f"{BACKOFF}jitter-factor": st.floats(0, 1),
        "heartbeat.timeout": st.sampled_from(["10s", "50s", 12_345]),
        "heartbeat.rpc-failure-threshold": st.sampled_from([-1, 1, 2]),
    },
)
STATES = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "bytes": st.integers(0, 2**53),
        "bytes_per_record": st.integers(0, 100),
        "incremental_share": st.floats(0, 1),
        "sync_ms": st.integers(0, 10**6).map(lambda us: us / 1000),
    },
)


@given(
    OPTIONS, TIMES, TIMES, st.data(), STATES,
    st.sampled_from(["at-most-once", "at-least-once", "exactly-once"]), st.booleans(),
    st.floats(0, 1),
)  # fmt: skip
def test_the_canonical_text_is_read_as_the_same_scenario(
    options: dict[str, Any], saved: list[float], failed: list[float], data: st.DataObject,
    state: dict[str, Any] | None, guarantee: str, replayable: bool, slowdown: float,
) -> None:  # fmt: skip
    savepoints: list[dict[str, Any]] = [{"at_s": at_s} for at_s in saved]
    if savepoints:
        savepoints[-1]["stop"] = data.draw(st.booleans())
    scenario = scenario_with(
        options,
        savepoints=savepoints,
        failures=[{"at_s": at_s, **data.draw(VICTIMS)} for at_s in failed],
        sink={"state": state, "guarantee": guarantee},
        source={"replayable": replayable},
        cluster={"upload_slowdown": slowdown},
    )
    again = parse_scenario(json.loads(json.dumps(scenario.canonical())))
    assert again == scenario
    assert again.canonical() == scenario.canonical()
    assert (again.checkpointing, again.restart_strategy) == (
        scenario.checkpointing,
        scenario.restart_strategy,
    )


@pytest.mark.parametrize(
    "more",
    [
        {"savepoints": [{"at_s": 1}]},
        {"failures": [{"at_s": 1, "task_manager": 0}]},
        {"failures": [{"at_s": 1, "job_manager": True}]},
        {"sink": {"state": {}}},
        {"sink": {"guarantee": "at-most-once"}},
        {"source": {"replayable": False}},
        {"cluster": {"upload_bytes_per_s": 1e6}},
        {"cluster": {"restore_bytes_per_s": 1e6}},
        {"cluster": {"upload_slowdown": 0.5}},
        {"options": {f"{CHECKPOINT}interval": "1s"}},
        {"options": {f"{CHECKPOINT}min-pause": "1ms"}},
        {"options": {"heartbeat.timeout": "20s"}},
        {"options": {f"{BACKOFF}backoff-multiplier": 2}},
    ],
    ids=str,
)
def test_whatever_decides_a_run_shows(more: dict[str, Any]) -> None:
    assert scenario_with(**more).canonical() != scenario_with().canonical()


def test_models_stand_for_themselves() -> None:
    failure = Failure(at_s=Fraction(1), task_manager=None, stage="sink", subtask=2)
    assert failure.model_dump() == {"at_s": 1, "stage": "sink", "subtask": 2}
    assert Savepoint(at_s=Fraction(1)).model_dump() == {"at_s": 1}
