"""What a checkpoint of a state costs, by hand: sizes, durations, and the task that stands still.

A round is 100 ms. The coordinator triggers at 1 s; the source hears in round 11, each next task
takes the checkpoint a round later, and what it sends in a round arrives at the start of the next.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from flowcontrol.control.task_orders import ABORTED, COMPLETED
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.protocol.checkpoints.barriers import TAKEN
from flowcontrol.scenario import parse_scenario
from modules import load

cuts = load("tests/job/checkpoints/cuts.py")

small = load("tests/job/checkpoints/small.py")

MB = 1_000_000
RATES = {"source": 100, "map": 500, "sink": 500}


def with_states(made: Job, states: dict[str, dict[str, Any]], **cluster: Any) -> Job:
    """The same job, whose stages have states."""
    mapping = made.scenario.canonical()
    for stage in mapping["stages"]:
        if stage["name"] in states:
            stage["state"] = states[stage["name"]]
    mapping["cluster"] |= {"upload_bytes_per_s": MB, **cluster}
    return build_physical_graph(parse_scenario(mapping))


def run_of(cuts: ModuleType, made: Job) -> Any:
    """A run that is over."""
    run = cuts.CheckpointRun(made)
    run.run()
    run.control.before_round(made.rounds)
    return run


def task_of(run: Any, checkpoint: int, task: int) -> Any:
    """What the coordinator knows of a task's part, times in ms."""
    return run.control.coordinator.task_statistics(checkpoint)[task]


def figures(run: Any, checkpoint: int) -> dict[int, tuple[int, int, int, int]]:
    """By task: when its acknowledgement arrives, sync and async in ms, bytes written."""
    own = run.control.coordinator.task_statistics(checkpoint)
    return {
        task: (
            one.acknowledged // 1000,
            one.sync // 1000,
            one.async_ // 1000,
            one.checkpointed_size,
        )
        for task, one in own.items()
    }


def taken_of(run: Any, checkpoint: int) -> list[Any]:
    """Reports of the tasks that took a checkpoint."""
    return [one for one in run.reports if (one.kind, one.checkpoint) == (TAKEN, checkpoint)]


# ---- durations


def test_without_a_state_a_checkpoint_takes_no_time_to_write() -> None:
    run = run_of(cuts, small.chain(RATES))
    assert figures(run, 1) == {0: (1200, 0, 0, 0), 1: (1300, 0, 0, 0), 2: (1400, 0, 0, 0)}


def test_a_task_acknowledges_when_it_has_stood_still_and_written() -> None:
    """Map takes it at 1200, stands still until 1500, writes for 250 ms; the sink is not held up."""
    state = {"bytes": 250_000, "sync_ms": 300}
    run = run_of(cuts, with_states(small.chain(RATES), {"map": state}))
    assert figures(run, 1) == {
        0: (1200, 0, 0, 0),
        1: (1900, 300, 250, 250_000),  # sent in the round that begins at 1800
        2: (1400, 0, 0, 0),
    }
    assert run.control.coordinator.statistics(1).end_to_end == 900_000


def test_tasks_of_one_manager_share_its_bandwidth() -> None:
    """Map writes alone from 1200 to 1300, then each has half: its other half lasts until 1500.

    The sink has written 100 kB by then, and writes the rest alone by 1700.
    """
    states = {"map": {"bytes": 200_000}, "sink": {"bytes": 300_000}}
    made = with_states(small.chain(RATES), states)
    mapping = made.scenario.canonical()
    for stage in mapping["stages"][1:]:
        stage["placement"] = [1]
    run = run_of(cuts, build_physical_graph(parse_scenario(mapping)))
    taken = {
        one.task: one.round for one in run.reports if one.kind == TAKEN and one.checkpoint == 1
    }
    first, second = taken[1] * 100, taken[2] * 100
    assert second - first == 100
    assert figures(run, 1)[1][2] == 300
    assert figures(run, 1)[2][2] == 400
    apart = run_of(cuts, made)
    assert (figures(apart, 1)[1][2], figures(apart, 1)[2][2]) == (200, 300)


def test_channel_state_is_written_beside_the_state() -> None:
    """acknowledgement = max(trigger + state, last barrier + in flight), sharing the bandwidth."""
    made = small.chain({"source": 400, "sink": 100}, small.UNALIGNED)
    slow = with_states(made, {"sink": {"bytes": 100_000}}, upload_bytes_per_s=200_000)
    run = run_of(cuts, slow)
    one = task_of(run, 1, 1)
    assert one.persisted > 10_000
    # Both begin in round 12; all of it over the bandwidth is when the last of them ends.
    assert one.async_ == -(-(one.persisted + 100_000) * 5 // 1)
    assert (
        run.control.coordinator.statistics(1).persisted
        == one.persisted + task_of(run, 1, 0).persisted
    )


def test_async_counts_the_wait_for_the_last_barrier() -> None:
    """Unaligned: the sink takes it at the first barrier, and the other comes by way of map."""
    stages = [
        {"name": "left", "emit_rate": 100, "placement": [0]},
        {"name": "right", "emit_rate": 100, "placement": [1]},
        {"name": "map", "service_rate": 500, "placement": [2]},
        {"name": "sink", "service_rate": 500, "placement": [3]},
    ]
    edges = [(a, b, "rebalance") for a, b in (("left", "sink"), ("right", "map"), ("map", "sink"))]
    made = small.job(stages, edges, small.UNALIGNED)
    run = run_of(cuts, with_states(made, {"sink": {"bytes": 50_000}}))
    one = task_of(run, 1, 3)
    assert (one.alignment, one.sync) == (100_000, 0)
    assert one.persisted > 0
    assert one.async_ == 100_000 + one.persisted  # at 1 MB/s; its state was written by then


# ---- sizes


def test_a_checkpoint_refers_to_the_last_one_that_the_task_knows_of() -> None:
    """The first writes all; the next ones a tenth of what was there, and all that is new."""
    state = {"bytes": 100_000, "bytes_per_record": 100, "incremental_share": 0.1}
    run = run_of(cuts, with_states(small.chain(RATES), {"map": state}))
    fulls = [task_of(run, id, 1).full_size for id in run.completed]
    written = [task_of(run, id, 1).checkpointed_size for id in run.completed]
    taken = [one.records for one in run.reports if one.kind == TAKEN and one.task == 1]
    assert fulls == [100_000 + 100 * records for records in taken[: len(fulls)]]
    assert len(fulls) >= 3
    assert written[0] == fulls[0]
    for now, before, wrote in zip(fulls[1:], fulls, written[1:], strict=False):
        assert wrote == now - before + before // 10


def test_a_checkpoint_that_failed_is_nothing_to_refer_to() -> None:
    """Every one expires, so each writes all of it; the job endures none of them."""
    state = {"bytes": 2 * MB, "incremental_share": 0}
    options = {f"{small.PREFIX}timeout": "1s"}
    run = run_of(cuts, with_states(small.chain(RATES, options), {"map": state}))
    own = run.control.coordinator
    assert [own.statistics(id).status for id in own.ids][:3] == ["expired"] * 3
    assert own.statistics(1).acknowledged == 2
    assert [task_of(run, id, 0).checkpointed_size for id in own.ids[:3]] == [0] * 3
    assert not run.completed


@pytest.mark.parametrize("tolerable", [1, 2])
def test_a_job_fails_after_more_timeouts_than_it_tolerates(tolerable: int) -> None:
    options = {
        f"{small.PREFIX}timeout": "1s",
        f"{small.PREFIX}tolerable-failed-checkpoints": tolerable,
    }
    run = cuts.CheckpointRun(with_states(small.chain(RATES, options), {"map": {"bytes": 2 * MB}}))
    failed = [run.control.failed_at for _ in run.rounds()]
    assert failed.index(next(at for at in failed if at >= 0)) == 10 + 10 * (tolerable + 1)


def test_uploads_of_an_aborted_checkpoint_are_given_up() -> None:
    """Of 600 kB, 2 has written 400 when map takes 3 in 1.7 s; it hears of the end of 2 in 1.9 s.

    Until then they share, and 3 has 500 kB left to write alone.
    """
    options = {f"{small.PREFIX}timeout": "1100ms", f"{small.PREFIX}interval": "10min"}
    state = {"map": {"bytes": 600_000}}
    asked = [{"at_s": 0.5}, {"at_s": 0.7}, {"at_s": 1.4}]
    run = run_of(cuts, with_states(small.chain(RATES, options, savepoints=asked), state))
    own = run.control.coordinator
    assert [own.statistics(id).status for id in own.ids] == ["expired", "expired", "completed"]
    assert task_of(run, 3, 1).async_ == 700_000


def test_keys_count_until_all_have_come() -> None:
    """Of 120 keys each subtask has some: 30 bytes each; at 50 records a second all have come."""
    stages = [
        {"name": "source", "emit_rate": 100, "placement": [0]},
        {"name": "sink", "service_rate": 500, "parallelism": 2, "placement": [1, 2]},
    ]
    made = small.job(stages, [("source", "sink", "rebalance")])
    mapping = made.scenario.canonical()
    mapping["edges"][0]["partitioner"] = "hash"
    mapping["edges"][0]["key_distribution"] = {"kind": "uniform", "keys": 120}
    mapping["stages"][1]["state"] = {"bytes_per_key": 30}
    run = run_of(cuts, build_physical_graph(parse_scenario(mapping)))
    own = run.control.coordinator
    last = [task_of(run, run.completed[-1], task).full_size for task in (1, 2)]
    assert sum(last) == 30 * 120
    assert min(last) > 0
    taken = {
        one.task: one.records for one in run.reports if one.kind == TAKEN and one.checkpoint == 1
    }
    assert own.statistics(1).full_size == sum(30 * min(taken[t], last[t - 1] // 30) for t in (1, 2))


# ---- the task stands still


@pytest.mark.parametrize("sync_ms", [0, 50, 200, 450])
def test_a_server_loses_the_synchronous_part_of_each_period(sync_ms: float) -> None:
    """Lost capacity = sync / period, to the record; at least once, so that it never starves."""
    made = small.chain({"source": 300, "sink": 100}, small.AT_LEAST_ONCE, duration_s=20)
    run = run_of(cuts, with_states(made, {"sink": {"sync_ms": sync_ms}}))
    rounds = [one.round for one in run.reports if (one.kind, one.task) == (TAKEN, 1)]
    assert len(rounds) >= 5
    first, last = rounds[0], rounds[-1]
    assert min(state.task("sink").state.queued for state in run.states[first : last + 1]) > 0
    begun, ended = (run.states[number - 1].task("sink").state.taken for number in (first, last))
    expected = ((last - first) * 100 - (len(rounds) - 1) * sync_ms) / 10
    assert abs(ended - begun - expected) <= 1


def test_a_task_in_its_synchronous_part_is_busy() -> None:
    """Map has next to nothing to do: 100 of 10,000 records/s, and 250 ms of each second."""
    rates = {"source": 100, "map": 10_000, "sink": 10_000}
    run = run_of(cuts, with_states(small.chain(rates), {"map": {"sync_ms": 250}}))
    tasks = [state.task("map") for state in run.states[20:30]]
    assert sum(task.busy_us for task in tasks) == pytest.approx(250_000 + 10_000, abs=2_000)
    assert sum(task.backpressured_us for task in tasks) == 0


def test_a_relay_stands_still_while_its_records_wait() -> None:
    """It takes the checkpoint in round 12, and nothing up in rounds 12 to 14."""
    stages = [
        {"name": "source", "emit_rate": 100, "placement": [0]},
        {"name": "map", "placement": [1]},
        {"name": "sink", "service_rate": 500, "placement": [2]},
    ]
    edges = [("source", "map", "rebalance"), ("map", "sink", "rebalance")]
    run = run_of(cuts, with_states(small.job(stages, edges), {"map": {"sync_ms": 300}}))
    took = [state.task("map").taken for state in run.states[11:18]]
    assert took[0] > 0
    assert took[2:4] == [0, 0]
    assert took[4] > 2 * took[0]  # what has waited
    assert [state.task("map").busy_us for state in run.states[13:15]] == [100_000] * 2


def test_a_source_emits_nothing_in_its_synchronous_part() -> None:
    """As in a stall: what falls due meanwhile is not made up for. It is busy."""
    run = run_of(cuts, with_states(small.chain(RATES), {"source": {"sync_ms": 400}}))
    emitted = [state.task("source").taken for state in run.states]
    assert emitted[11:15] == [0, 0, 0, 0]
    assert sum(emitted[11:21]) == 60
    assert [state.task("source").busy_us for state in run.states[11:15]] == [100_000] * 4


def test_a_source_with_a_log_makes_up_for_its_synchronous_part() -> None:
    made = small.chain({"source": 200, "sink": 500})
    mapping = made.scenario.canonical()
    mapping["stages"][0]["arrival_rate"] = 100
    mapping["stages"][0]["state"] = {"sync_ms": 400}
    run = run_of(cuts, build_physical_graph(parse_scenario(mapping)))
    emitted = [state.task("source").taken for state in run.states]
    assert sum(emitted[11:15]) <= 1
    assert sum(emitted[15:20]) == pytest.approx(90, abs=3)  # 200/s until nothing waits
    assert run.states[20].task("source").state.taken == pytest.approx(210, abs=2)


def test_a_manager_that_uploads_slows_its_tasks_down() -> None:
    """Half of each second map uploads, and the sink beside it then has 60 % of its rate."""
    rates = {"source": 900, "map": 600, "sink": 100}
    made = small.chain(rates, small.AT_LEAST_ONCE, duration_s=20)
    states = {"map": {"bytes": 500_000}}
    mapping = with_states(made, states, upload_slowdown=0.4).scenario.canonical()
    for stage in mapping["stages"][1:]:
        stage["placement"] = [1]
    run = run_of(cuts, build_physical_graph(parse_scenario(mapping)))
    took = [state.task("sink").taken for state in run.states]
    slowed = [state.task("sink").checkpoints.state.is_slowed for state in run.states]
    for number in range(15, 200):
        assert took[number] in ({6} if slowed[number] else {10})
    assert slowed[10:].count(1) >= 10
    assert not any(state.task("source").checkpoints.state.is_slowed for state in run.states)


# ---- notifications and savepoints


def test_tasks_are_notified_a_latency_after_the_end() -> None:
    run = cuts.CheckpointRun(small.chain(RATES))
    heard: list[Any] = []
    run.control.on_notification = heard.append
    run.run()
    first = [one for one in heard if one.message.checkpoint == 1]
    assert [(one.kind, one.task) for one in first] == [(COMPLETED, task) for task in range(3)]
    assert {one.message.arrives for one in first} == {15}  # complete at 1400
    expiring = cuts.CheckpointRun(
        with_states(small.chain(RATES, {f"{small.PREFIX}timeout": "500ms"}), {"map": {"bytes": MB}})
    )
    heard.clear()
    expiring.control.on_notification = heard.append
    expiring.run()
    first = [one for one in heard if one.message.checkpoint == 1]
    assert [(one.kind, one.message.arrives) for one in first] == [(ABORTED, 16)] * 3


@pytest.mark.parametrize("options", [{}, small.UNALIGNED, small.TIMEOUT])
def test_a_savepoint_aligns_and_writes_all(options: dict[str, Any]) -> None:
    """It neither refers to the checkpoint before nor is it notified, and nothing refers to it."""
    made = small.chain({"source": 400, "sink": 100}, options, savepoints=[{"at_s": 2.55}])
    state = {"bytes": 10_000, "incremental_share": 0}
    run = cuts.CheckpointRun(with_states(made, {"source": state}))
    heard: list[Any] = []
    run.control.on_notification = heard.append
    run.run()
    own = run.control.coordinator
    [saved] = [own.statistics(id) for id in own.ids if own.statistics(id).kind == "savepoint"]
    assert saved.persisted == 0
    assert own.task_statistics(saved.id)[0].checkpointed_size == 10_000
    assert saved.id not in {one.message.checkpoint for one in heard if one.kind == COMPLETED}
    others = [id for id in run.completed if id > 1 and id != saved.id]
    assert {own.task_statistics(id)[0].checkpointed_size for id in others} <= {0}


@pytest.mark.parametrize(("options", "triggered"), [({}, 2.0), (small.UNALIGNED, 3.0)])
def test_a_savepoint_is_forced_only_while_unaligned_is_off(
    options: dict[str, Any], triggered: float
) -> None:
    """Checkpoint 1 lasts from 1.0 to 3.0 s; the savepoint of 2.0 s waits for it if it has to.

    Map takes it at 1.2 s, and has 1.6 MB to write and some data in flight, at 1 MB/s.
    """
    made = small.chain(RATES, options, savepoints=[{"at_s": 2.0}])
    made = with_states(made, {"map": {"bytes": 1_600_000, "incremental_share": 0}})
    own = run_of(cuts, made).control.coordinator
    [saved] = [own.statistics(id) for id in own.ids if own.statistics(id).kind == "savepoint"]
    assert saved.triggered / 1e6 == triggered


def test_savepoints_need_no_interval() -> None:
    options = {f"{small.PREFIX}interval": "10min"}
    made = small.chain(RATES, options, savepoints=[{"at_s": 1.0}, {"at_s": 3.0}])
    mapping = made.scenario.canonical()
    del mapping["options"][f"{small.PREFIX}interval"]
    own = run_of(cuts, build_physical_graph(parse_scenario(mapping))).control.coordinator
    assert [(own.statistics(id).kind, own.statistics(id).status) for id in own.ids] == [
        ("savepoint", "completed")
    ] * 2


@pytest.mark.parametrize("has_interval", [True, False])
@pytest.mark.parametrize("has_log", [True, False])
def test_a_job_stops_with_its_savepoint(has_interval: bool, has_log: bool) -> None:
    """The sources emit nothing behind the barrier; what is before it is processed, and all end."""
    made = small.chain({"source": 150, "sink": 100}, savepoints=[{"at_s": 2.0, "stop": True}])
    mapping = made.scenario.canonical()
    mapping["stages"][1]["state"] = {"bytes": 300_000, "sync_ms": 200}
    mapping["cluster"]["upload_bytes_per_s"] = MB
    if has_log:
        mapping["stages"][0]["arrival_rate"] = 140
    if not has_interval:
        del mapping["options"][f"{small.PREFIX}interval"]
    run = run_of(cuts, build_physical_graph(parse_scenario(mapping)))
    own = run.control.coordinator
    saved = own.statistics(own.ids[-1])
    assert (saved.kind, saved.status) == ("stop_savepoint", "completed")
    last = run.states[-1]
    emitted = run.states[20].task("source").state.taken
    assert last.task("source").state.taken == emitted
    assert last.task("sink").state.taken == emitted
    assert all(task.state.is_finished for task in last.tasks)
    ended = next(state.number for state in run.states if state.task("sink").state.is_finished)
    for state in run.states[ended + 1 :]:
        assert [task.idle_us for task in state.tasks] == [100_000] * 2
    ids = [own.statistics(id).triggered for id in own.ids]
    assert max(ids) == 2_000_000  # none begins after it
