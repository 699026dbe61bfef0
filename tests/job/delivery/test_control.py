"""What readers see of one job whose sink commits: named moments, and a control that is killed."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest

from flowcontrol.control.delivery import DeliveryControl
from flowcontrol.control.delivery_sinks import rows_of_inputs
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.layout.task_settings import has_delivery
from flowcontrol.scenario import parse_scenario
from modules import load

watched_runs: Any = load("tests/job/watched_runs.py")

INTERVAL = "execution.checkpointing.interval"
AFTER_END = "execution.checkpointing.checkpoints-after-tasks-finish"
OPTIONS = {
    INTERVAL: "1s",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 9,
    "restart-strategy.fixed-delay.delay": "100ms",
    "heartbeat.interval": "100ms",
    "heartbeat.timeout": "300ms",
}
LEADER = {"at_s": 2.1, "job_manager": True}
"""Dies in the round in which checkpoint 1 completes: it was triggered at 1 s, and waited for."""


def job_of(**changed: Any) -> Job:
    """A source of 6 s, two stages of other speeds subtask by subtask; the sink commits."""
    sink = {"name": "k", "parallelism": 2, "service_rate": [40, 200], "guarantee": "exactly-once"}
    until = [{"at_s": 0, "rate": 50}, {"at_s": changed.pop("until_s", 6), "rate": 0}]
    mapping = {
        "schema": 1,
        "name": "small",
        "duration_s": 12,
        "round_ms": 100,
        "sample_interval_s": 1,
        "options": {**OPTIONS, **changed.pop("options", {})},
        "stages": [
            {"name": "a", "emit_rate": until, "parallelism": 2, **changed.pop("source", {})},
            {"name": "m", "service_rate": [60, 30], "parallelism": 2},
            {**sink, **changed.pop("sink", {})},
        ],
        "edges": [
            {"from": "a", "to": "m", "partitioner": "rebalance"},
            {"from": "m", "to": "k", "partitioner": "rebalance"},
        ],
        **changed,
    }
    options: Any = mapping["options"]
    mapping["options"] = {name: value for name, value in options.items() if value is not None}
    return build_physical_graph(parse_scenario(mapping), round_us=100_000)


def run(job: Job) -> DeliveryControl:
    """Run a job in memory."""
    control = DeliveryControl(job)
    watched_runs.WatchedRun(job, delivery=control).run()
    return control


def sums(control: DeliveryControl) -> tuple[int, int, int, int]:
    """Committed, visible twice, lost, staged of the sink."""
    accounts = [sink.account for sink in control.sinks]
    found = [(one.committed, one.visible_twice, one.lost, one.staged) for one in accounts]
    committed, twice, lost, staged = map(sum, zip(*found, strict=True))
    return committed, twice, lost, staged


def test_the_last_transaction_is_committed_by_the_last_checkpoint() -> None:
    control = run(job_of())
    assert sums(control) == (600, 0, 0, 0)
    rows = control.rows
    assert [row["committed"] for row in rows[:4]] == [0, 0, 0, 0]  # 1 s and 2 s
    assert {row["stage"] for row in rows} == {"k"}
    assert len(rows) == 12 * 2


@pytest.mark.parametrize(
    ("changed", "staged"),
    [
        ({"options": {AFTER_END: False}}, True),
        ({"options": {INTERVAL: None, "restart-strategy.type": "none"}}, True),
        ({"options": {INTERVAL: None}, "savepoints": [{"at_s": 5}]}, True),
        ({"options": {INTERVAL: None}, "savepoints": [{"at_s": 5, "stop": True}]}, False),
    ],
)
def test_what_no_checkpoint_commits_stays_staged(changed: Any, staged: bool) -> None:
    """A plain savepoint notifies nobody, one that stops the job does."""
    control = run(job_of(**changed))
    committed, twice, lost, left = sums(control)
    assert (twice, lost) == (0, 0)
    assert (left > 0) == staged
    assert committed + left == sum(sink.account.written for sink in control.sinks)
    assert control.staged() == {"k": left}


def test_a_leader_that_dies_behind_a_completion_notifies_nobody() -> None:
    """The restore of the checkpoint commits: later than the notification would have."""
    told, lost = (run(job_of(failures=found)) for found in ([], [LEADER]))
    times = [min(row["t_s"] for row in one.rows if row["committed"] > 0) for one in (told, lost)]
    assert times == [3.0, 3.0]
    longest = [max(row["visibility_max_ms"] or 0 for row in one.rows[:6]) for one in (told, lost)]
    assert longest == [2000, 2300]  # three rounds: it is given up, all is cancelled, restored
    committed, *rest = sums(lost)
    assert rest == [0, 0, 0]
    assert 0 < committed < 600


@pytest.mark.parametrize(
    ("guarantee", "expected"),
    [
        ("exactly-once", (True, False, False)),
        ("at-least-once", (True, True, False)),
        ("at-most-once", (True, False, True)),
    ],
)
def test_a_failure_doubles_loses_or_neither(guarantee: str, expected: tuple[bool, ...]) -> None:
    failures = [{"at_s": 3.5, "stage": "m", "subtask": 1}]
    log = {"arrival_rate": [{"at_s": 0, "rate": 50}, {"at_s": 6, "rate": 0}], "emit_rate": 400}
    sink = {"guarantee": guarantee}
    control = run(job_of(sink=sink, failures=failures, source=log, duration_s=18))
    committed, twice, lost, staged = sums(control)
    assert (committed > 0, twice > 0, lost > 0) == expected
    assert (committed - twice + lost, staged) == (600, 0)


def test_a_failure_behind_a_stop_with_savepoint_doubles(follower: ModuleType) -> None:
    """The savepoint's completion commits, and the latest checkpoint is restored all the same."""
    stop, sink = {"at_s": 2.05, "stop": True}, {"service_rate": [40, 40]}
    failure = {"at_s": 4.1, "stage": "k", "subtask": 0}
    followed = follower.Follower(job_of(savepoints=[stop], failures=[failure], sink=sink))
    followed.run()
    rows = [row for own in followed.readers.values() for row in own.visible]
    doubled = len(rows) - len(set(rows))
    assert doubled > 50
    assert sums(followed.delivery) == (len(rows), doubled, 0, 0)


def test_a_transaction_that_is_too_old_is_lost() -> None:
    control = run(job_of(sink={"transaction_timeout_s": 0.5}))
    committed, twice, lost, staged = sums(control)
    assert (committed + lost, twice, staged) == (600, 0, 0)
    assert lost > 300


def test_default_jobs_have_no_such_table() -> None:
    plain = {INTERVAL: None, "restart-strategy.type": "none"}
    assert not has_delivery(job_of(options=plain, sink={"guarantee": "at-least-once"}))
    assert has_delivery(job_of(options=plain, sink={"guarantee": "at-most-once"}))
    assert has_delivery(job_of(sink={"guarantee": "at-least-once"}))


def test_records_on_their_way_follow_those_before_them() -> None:
    job = job_of()
    routed = {"a->m": [10, 30, 20, 20], "m->k": [5, 15, 0, 0]}
    # 8 and 4 at the sources: 2 + 2 to the first m and 6 + 2 to the second, with 4 that are there.
    found = rows_of_inputs(job, [8, 4, 0, 4, 1, 0], routed)
    assert found == {"k": [1 + 1 + 6, 3 + 6]}


def test_records_on_their_way_to_a_global_edge_all_go_to_its_first_receiver() -> None:
    """Also before it has carried any: no other subtask loses what it never gets."""
    pairs = [("a", "m", "rebalance"), ("m", "k", "global")]
    job = job_of(edges=[{"from": a, "to": b, "partitioner": kind} for a, b, kind in pairs])
    routed = {"a->m": [0, 0, 0, 0], "m->k": [0, 0, 0, 0]}
    assert rows_of_inputs(job, [8, 4, 0, 0, 0, 0], routed) == {"k": [12, 0]}


@pytest.mark.parametrize("seed", range(2))
def test_a_killed_control_goes_on_from_its_state(
    random_checkpoints: ModuleType, random_failures: ModuleType, seed: int
) -> None:
    """Killed before every round, with what it holds through JSON."""
    failures = [{"at_s": 2.1 + seed, "stage": "m", "subtask": 1}, {"at_s": 4.2, **_LEADER}]
    job = job_of(failures=failures, sink={"transaction_timeout_s": 3})
    whole, again = run(job), Killed(job)
    watched_runs.WatchedRun(job, delivery=again).run()
    assert again.kept == whole.rows
    assert again.state() == whole.state()


_LEADER = {"job_manager": True}


class Killed(DeliveryControl):
    """One that begins anew from its state before every round."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.kept: list[dict[str, Any]] = []

    def advance(self, number: int) -> None:
        """Do it in a fresh one."""
        fresh = DeliveryControl(self._job)
        fresh.restore(json.loads(json.dumps(self.state())))
        fresh.advance(number)
        self.kept += fresh.rows
        self.restore(json.loads(json.dumps(fresh.state())))


@pytest.mark.parametrize("every", [7, 1000])
def test_looking_late_gives_the_same_rows(every: int) -> None:
    """The kernel's control is looked at when enough has happened, not when it happens."""
    failures = [{"at_s": 2.1, "stage": "m", "subtask": 1}, {"at_s": 4.2, **_LEADER}]
    job = job_of(failures=failures, sink={"transaction_timeout_s": 3})
    whole, late = run(job), Late(job, every)
    watched_runs.WatchedRun(job, delivery=late).run()
    assert late.looked < job.rounds // 5
    assert late.rows == whole.rows
    assert late.state() == whole.state()


class Late(DeliveryControl):
    """One that is looked at every so many rounds, and at the end."""

    def __init__(self, job: Job, every: int) -> None:
        super().__init__(job)
        self.every, self.looked = every, 0

    def advance(self, number: int) -> None:
        """Leave most rounds out."""
        if number % self.every == 0 or number == self._job.rounds:
            self.looked += 1
            super().advance(number)
