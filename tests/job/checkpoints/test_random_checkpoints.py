"""Random jobs with checkpoints: each completed one is a consistent cut, and nothing is stuck."""

from __future__ import annotations

import json
from collections import Counter
from types import ModuleType
from typing import Any

import pytest
from hypothesis import Phase, assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol.job.checkpoint_control import CheckpointControl
from flowcontrol.job.reference import new_subtasks, run_rounds
from flowcontrol.ledger.audit import audit
from flowcontrol.protocol.checkpoints.alignment import AT_LEAST_ONCE
from reference_runs import restored

EXAMPLES = settings.default.max_examples * 2
MOST_RUNS = 12

EVENTS = {
    "aligned_barrier",
    "timeoutable_barrier",
    "unaligned_barrier",
    "at_least_once_barrier",
    "cancel_marker",
    "blocked channel",
    "blocked subpartition",
    "waits for outputs",
    "waits for inputs",
    "trigger waits",
    "end in alignment",
    "switched",
    "persisted",
    "output overtaken",
    "finished",
    "completed",
    "expired",
    "declined",
    "aborted",
}
"""What must have happened in some of the runs."""


@pytest.mark.long
def test_each_checkpoint_is_a_consistent_cut(
    random_jobs: ModuleType, random_checkpoints: ModuleType, cuts: ModuleType, draw_until: Any
) -> None:
    happened: Counter[str] = Counter()
    shape = random_jobs.Shape(rounds=(40, 70), is_virtual=True)

    @settings(max_examples=EXAMPLES)
    @given(job=random_checkpoints.jobs(random_jobs, shape))
    def look(job: Any) -> None:
        note(f"{job.scenario.to_yaml()}\n{job.checkpoints}")
        assume(job.links)
        run = cuts.CheckpointRun(job)
        run.run()
        own = run.control.coordinator
        for checkpoint in own.ids:
            happened[own.statistics(checkpoint).status] += 1
        if job.checkpoints.mode != AT_LEAST_ONCE:
            for checkpoint in run.completed:
                run.check_cut(checkpoint)
        happened.update(+run.seen)

    draw_until(look, lambda: set(happened) >= EVENTS, MOST_RUNS)
    print(dict(happened))
    assert EVENTS - set(happened) == set()


@settings(max_examples=EXAMPLES // 4, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(data=st.data())
def test_a_job_goes_on_after_any_round_from_what_its_ledger_and_its_control_hold(
    random_jobs: ModuleType,
    random_checkpoints: ModuleType,
    cuts: ModuleType,
    jobs: ModuleType,
    data: Any,
) -> None:
    """And every link passes the audit, and each completed checkpoint is a consistent cut."""
    shape = random_jobs.Shape(rounds=(25, 40))
    job = data.draw(random_checkpoints.jobs(random_jobs, shape))
    note(f"{job.scenario.to_yaml()}\n{job.checkpoints}")
    assume(job.links)
    run, kept, rounds = cuts.CheckpointRun(job), [], []
    for batch in run.rounds():
        rounds.append(batch)
        kept.append(json.dumps(run.control.state()))
    if job.checkpoints.mode != AT_LEAST_ONCE:
        for checkpoint in run.completed:
            run.check_cut(checkpoint)
    for link in job.links:
        assert audit(jobs.table(jobs.ledger_rows(rounds, link.name))) is None
    after = data.draw(st.integers(0, len(rounds) - 2))
    control = CheckpointControl(job)
    control.restore(json.loads(kept[after]))
    subtasks = restored(job, rounds[after])
    again = run_rounds(job, subtasks, None, rounds[after].rows, after + 1, checkpoints=control)
    for one, other in zip(again, rounds[after + 1 :], strict=True):
        assert one.state == other.state


@settings(max_examples=EXAMPLES // 4, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(data=st.data())
def test_a_control_that_is_looked_at_only_when_it_asks_for_it_comes_to_the_same(
    random_jobs: ModuleType, random_checkpoints: ModuleType, cuts: ModuleType, data: Any
) -> None:
    shape = random_jobs.Shape(rounds=(25, 40), is_virtual=True)
    job = data.draw(random_checkpoints.jobs(random_jobs, shape))
    note(f"{job.scenario.to_yaml()}\n{job.checkpoints}")
    assume(job.links)
    run = cuts.CheckpointRun(job)
    expected = run.run()
    lazy, looks = CheckpointControl(job), []
    told = lazy.before_round

    def seldom(number: int) -> Any:
        due = lazy.next_round()
        if due is None or number < due:
            return []
        looks.append(number)
        return told(number)

    lazy.before_round = seldom
    found = run_rounds(job, new_subtasks(job), None, checkpoints=lazy)
    for one, other in zip(found, expected, strict=True):
        assert one.state == other.state
    told(job.rounds + lazy.latency)
    run.control.before_round(job.rounds + lazy.latency)
    assert lazy.coordinator.state() == run.control.coordinator.state()
