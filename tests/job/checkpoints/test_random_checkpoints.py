"""Random jobs with checkpoints: each completed one is a consistent cut, and nothing is stuck."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol.ledger.audit import audit
from flowcontrol.protocol.checkpoints.alignment import AT_LEAST_ONCE
from modules import load
from staged_runs import RoundRows, resumed, round_rows

cuts = load("tests/job/checkpoints/cuts.py")
jobs = load("tests/job/small_jobs.py")
random_checkpoints = load("tests/job/checkpoints/random_checkpoints.py")
random_jobs = load("tests/job/random_jobs.py")

watched_runs: Any = load("tests/job/watched_runs.py")

EXAMPLES = settings.default.max_examples * 2
MOST_RUNS = 12

EVENTS = {
    "aligned_barrier",
    "timeoutable_barrier",
    "unaligned_barrier",
    "at_least_once_barrier",
    "savepoint_barrier",
    "cancel_marker",
    "end_of_data",
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
def test_each_checkpoint_is_a_consistent_cut(draw_until: Any) -> None:
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
def test_a_job_goes_on_after_any_round_from_what_it_has_published(data: Any) -> None:
    """And every link passes the audit, and each completed checkpoint is a consistent cut."""
    shape = random_jobs.Shape(rounds=(25, 40))
    job = data.draw(random_checkpoints.jobs(random_jobs, shape))
    note(f"{job.scenario.to_yaml()}\n{job.checkpoints}")
    assume(job.links)
    run = cuts.CheckpointRun(job)
    whole = run.run()
    if job.checkpoints.mode != AT_LEAST_ONCE:
        for checkpoint in run.completed:
            run.check_cut(checkpoint)
    rounds = [RoundRows(one.number, round_rows(job, one.tasks, one.number), one) for one in whole]
    for link in job.links:
        assert audit(jobs.table(jobs.ledger_rows(rounds, link.name))) is None
    after = data.draw(st.integers(1, len(whole) - 1))
    assert [batch.state for batch in resumed(run.job, after)] == whole[after:]


@settings(max_examples=EXAMPLES // 4, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(data=st.data())
def test_a_control_that_is_looked_at_only_when_it_asks_for_it_comes_to_the_same(data: Any) -> None:
    """That of each stage is, that of the observer is looked at before every round."""
    shape = random_jobs.Shape(rounds=(25, 40), is_virtual=True)
    job = data.draw(random_checkpoints.jobs(random_jobs, shape))
    note(f"{job.scenario.to_yaml()}\n{job.checkpoints}")
    assume(job.links)
    run = watched_runs.WatchedRun(replace(job, faults=None), is_staged=True)
    lazy = [between.coordination for _, between in run.stages]
    looks, told = [list[Any](), list[Any]()], [list[Any](), list[Any]()]
    for place, control in enumerate((run.checkpoints, lazy[0].control)):
        ask = control.before_round

        def watched(number: int, place: int = place, ask: Any = ask) -> Any:
            orders = ask(number)
            looks[place].append(number)
            told[place] += [(number, order) for order in orders]
            return orders

        control.before_round = watched
    run.run()
    assert told[1] == told[0]
    assert len(looks[1]) < len(looks[0])
    late = job.rounds + job.latency
    run.checkpoints.before_round(late)
    for own in lazy:
        own.finish(job.rounds)
        own.control.before_round(late)
        assert own.control.coordinator.state() == run.checkpoints.coordinator.state()
