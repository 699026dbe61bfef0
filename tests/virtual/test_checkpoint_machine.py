"""An adversary that fails tasks, asks for savepoints and lets time pass, on random jobs.

Some of the jobs are made so that something seldom is likely. Its moves are a schedule; when it has
made them, both clocks run the job. Equal after every round, each completed checkpoint a consistent
cut, and no channel blocked for ever.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

import pytest
from hypothesis import assume, note, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from flowcontrol.control.failures import TOO_MANY_CHECKPOINTS
from flowcontrol.layout.job import FaultSettings, Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.protocol.checkpoints.alignment import AT_LEAST_ONCE
from flowcontrol.scenario import Savepoint, parse_scenario
from flowcontrol.scenario.fault_tolerance import Failure
from flowcontrol.state.queues import KINDS
from flowcontrol.trace.channel_state import ChannelId
from flowcontrol.trace.round_state import RoundState
from modules import load

clocks = load("tests/virtual/clocks.py")
cuts = load("tests/job/checkpoints/cuts.py")
random_jobs = load("tests/job/random_jobs.py")
random_checkpoints = load("tests/job/checkpoints/random_checkpoints.py")
random_failures = load("tests/job/failures/random_failures.py")
hard_cases = load("tests/job/checkpoints/hard_cases.py")

EXAMPLES = settings.default.max_examples
MOST_RUNS = 12
LATER = st.sampled_from([3, 0, 1, 8, 13])
"""Rounds before a move: part of each, since Hypothesis leaves some kinds of moves out of a run."""

LATEST = 3
"""Rounds after which a sender has heard that a channel was resumed: it hears in the next one."""

HARD = {
    "restart and completed",
    "restart and expired",
    "restart and pause",
    "restart and state",
    "restart and savepoint",
    "restart and slowed",
    "restart and subsumed",
    "savepoint cut off",
    "stopped after a restart",
    "too many failed",
    "completed after too many",
    "failed while it wrote",
    "failed while it aligned",
    "in flight restored",
}
"""What must have come together in some of the runs."""


class Adversary(RuleBasedStateMachine):
    """Makes the schedule of a run."""

    met: ClassVar[Counter[str]] = Counter()

    @initialize(
        case=st.sampled_from([None, None, *hard_cases.CASES]),
        policy=st.sampled_from(random_failures.POLICIES[:7]),
        data=st.data(),
    )
    def start(self, case: str | None, policy: Any, data: Any) -> None:
        """Draw a job at large, or one in which something seldom is likely."""
        if case is None:
            shape = random_jobs.Shape((40, 60), is_virtual=True)
            job = data.draw(random_checkpoints.jobs(random_jobs, shape))
            tolerable, first = data.draw(st.sampled_from([1000, 1000, 1, 0])), 1
            settings_ = replace(job.checkpoints, tolerable_failures=tolerable, savepoints=())
            job = replace(job, checkpoints=settings_)
        else:
            shape = random_jobs.Shape((60, 90), is_virtual=True)
            job = data.draw(hard_cases.jobs(random_jobs, shape, case))
            first = data.draw(st.sampled_from([job.rounds // 2, job.rounds // 2, 1]))
        assume(job.links)
        self.job = job
        drawn = data.draw(random_failures.faults_of(job))
        self.faults: FaultSettings = replace(drawn, policy=policy, failures=())
        self.case, self.round = case, first
        self.most = data.draw(st.sampled_from([1, 2, 5]))
        self.failures: list[Failure] = []
        self.savepoints: list[Savepoint] = []

    @property
    def stops(self) -> bool:
        """Whether it was asked to stop with a savepoint."""
        return any(one.stop for one in self.savepoints)

    @property
    def _at_s(self) -> Fraction:
        return Fraction(self.round * self.job.round_us, 10**6)

    def _wait(self, rounds: int) -> None:
        self.round = min(self.job.rounds - 2, self.round + rounds)

    @rule(after=LATER)
    def wait(self, after: int) -> None:
        self._wait(after)

    @precondition(lambda self: len(self.failures) < self.most)
    @rule(after=LATER, stage=st.integers(0, 3), subtask=st.integers(0, 2))
    def fail_task(self, after: int, stage: int, subtask: int) -> None:
        self._wait(after)
        stages = self.job.scenario.stages
        own = stages[stage % len(stages)]
        self._fail(stage=own.name, subtask=subtask % own.parallelism)

    @precondition(lambda self: len(self.failures) < self.most)
    @rule(after=LATER, manager=st.integers(0, 2))
    def fail_manager(self, after: int, manager: int) -> None:
        self._wait(after)
        self._fail(task_manager=manager % self.job.scenario.cluster.task_managers)

    @precondition(lambda self: len(self.failures) < self.most)
    @rule(after=LATER)
    def fail_leader(self, after: int) -> None:
        self._wait(after)
        self._fail(job_manager=True)

    @precondition(lambda self: len(self.savepoints) < 3 and not self.stops)
    @rule(after=LATER, stop=st.sampled_from([False, False, True]))
    def save(self, after: int, stop: bool) -> None:
        self._wait(after)
        self.savepoints.append(Savepoint(at_s=self._at_s, stop=stop))

    def _fail(self, **keys: Any) -> None:
        none = {"task_manager": None, "stage": None, "subtask": None, "job_manager": False}
        self.failures.append(Failure.model_construct(at_s=self._at_s, **{**none, **keys}))

    def teardown(self) -> None:
        """Run what was drawn on both clocks."""
        if not hasattr(self, "failures"):
            return
        assert self.job.checkpoints is not None
        own = replace(self.job.checkpoints, savepoints=tuple(self.savepoints))
        faults = replace(self.faults, failures=tuple(self.failures))
        job = replace(self.job, checkpoints=own, faults=faults)
        note(f"{job.scenario.to_yaml()}\n{job.checkpoints}\n{job.faults}")
        waits: Counter[ChannelId] = Counter()
        clocks.compare(job, every=(1, 7), look=lambda state: check_blocked(state, waits))
        run, busy = cuts.CheckpointRun(job, may_fail=True), [False]
        met = self.met
        for state in run.rounds():
            known = len(run.failures.restarts)
            met["failed while it wrote"] += known > run.seen["known"] and busy[0]
            met["failed while it aligned"] += known > run.seen["known"] and run.seen["aligned"]
            run.seen["known"] = known
            busy[0] = bool(run.control.uploads.busy_managers())
            run.seen["aligned"] = any(
                one.checkpoints.alignment.is_pending for one in state.tasks if one.checkpoints
            )
        if own.mode != AT_LEAST_ONCE:
            for checkpoint in run.completed:
                run.check_cut(checkpoint)
        self._note(job, run)

    def _note(self, job: Job, run: Any) -> None:
        """Count what came together."""
        own, met = run.control.coordinator, self.met
        found = [own.statistics(id) for id in own.ids]
        restarts = [one for one in run.failures.restarts if one.running >= 0]
        met["runs"] += 1
        if not restarts:
            return
        first_us = restarts[0].running * job.round_us
        statuses = Counter(one.status for one in found)
        reasons = Counter(str(one.reason) for one in found)
        assert job.checkpoints is not None
        met["restart and completed"] += statuses["completed"] > 1
        met["restart and expired"] += statuses["expired"] > 0
        met["restart and subsumed"] += reasons["CHECKPOINT_SUBSUMED"] > 0
        met["restart and pause"] += job.checkpoints.min_pause_us > 0
        met["restart and state"] += any(one.checkpointed_size > 0 for one in found)
        met["restart and savepoint"] += any(one.kind != "checkpoint" for one in found)
        met["restart and slowed"] += job.scenario.cluster.upload_slowdown > 0
        met["savepoint cut off"] += any(
            one.kind != "checkpoint" and one.status == "aborted" for one in found
        )
        met["stopped after a restart"] += any(
            one.kind == "stop_savepoint" and one.status == "completed" and one.triggered > first_us
            for one in found
        )
        too_many = [one for one in restarts if TOO_MANY_CHECKPOINTS in one.causes]
        met["too many failed"] += bool(too_many)
        met["completed after too many"] += bool(too_many) and any(
            one.status == "completed" and one.triggered > too_many[0].running * job.round_us
            for one in found
        )
        met["in flight restored"] += any(
            in_flight > 0
            for one in restarts
            for in_flight, _ in run.control.restored_bytes(one.checkpoint, one.tasks).values()
        )


def check_blocked(state: RoundState, waits: Counter[ChannelId]) -> None:
    """Assert that a blocked channel waits for a barrier that can come, and else is resumed soon."""
    receivers = {}
    for task in state.tasks:
        if task.checkpoints is None or not task.is_running:
            continue
        alignment, channels = task.checkpoints.alignment, iter(task.checkpoints.channels)
        own = [(gate.edge, into, next(channels)) for gate in task.gates for into in gate.channels]
        for edge, into, aligned in own:
            name = ChannelId(edge, into.sender, task.subtask)
            receivers[name] = aligned.is_blocked
        if any(aligned.is_blocked for _, _, aligned in own):
            assert alignment.is_pending == 1, task.stage
            assert any(one.is_open == 1 and one.has_delivered == 0 for _, _, one in own), task.stage
    running = {(task.stage, task.subtask) for task in state.tasks if task.is_running}
    for name, out, into in state.channels():
        sender = next(t for t in state.tasks if any(p.edge == name.edge for p in t.partitions))
        going = [sent.message.kind for sent in out.under_way]
        queued = [message.kind for message in into.queue]
        is_on_its_way = any(KINDS[kind].blocks == 1 for kind in (*going, *queued))
        is_stuck = (
            out.state.is_blocked == 1
            and receivers.get(name) == 0
            and not is_on_its_way
            and (sender.stage, name.sender) in running
        )
        waits[name] = waits[name] + 1 if is_stuck else 0
        assert waits[name] <= LATEST, name


@pytest.mark.long
def test_whatever_fails_and_is_asked_for() -> None:
    first = int(os.environ.get("FLOWCONTROL_SEED", "0"))
    Adversary.met.clear()
    own = settings(max_examples=EXAMPLES, stateful_step_count=14)
    for number in range(MOST_RUNS):
        run_state_machine_as_test(seed(first + number)(Adversary), settings=own)
        if {name for name, count in Adversary.met.items() if count} >= HARD:
            break
    print(dict(Adversary.met))
    assert HARD - {name for name, count in Adversary.met.items() if count} == set()


def test_tasks_of_every_attempt_are_looked_at() -> None:
    options = {
        "execution.checkpointing.interval": "20ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 9,
        "restart-strategy.fixed-delay.delay": "0s",
    }
    scenario = parse_scenario(
        {
            "schema": 1,
            "name": "attempts",
            "duration_s": 0.5,
            "round_ms": 10,
            "options": options,
            "failures": [{"at_s": at / 10, "stage": "source", "subtask": 0} for at in (1, 3)],
            "stages": [{"name": "source", "emit_rate": 300}, {"name": "sink"}],
            "edges": [{"from": "source", "to": "sink"}],
        }
    )
    job = build_physical_graph(scenario, round_us=10_000)
    run = cuts.CheckpointRun(job, may_fail=True)
    run.run()
    assert len(run.failures.restarts) == 2
    assert len(run.completed) > 10
    for checkpoint in run.completed:
        run.check_cut(checkpoint)


def test_a_few_schedules() -> None:
    own = settings(max_examples=max(3, EXAMPLES // 6), stateful_step_count=10)
    run_state_machine_as_test(Adversary, settings=own)
