"""Checkpoints where records are counted: a job goes on from what it has published."""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

import pytest
from hypothesis import Phase, assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol.layout.job import Job
from flowcontrol.protocol.checkpoints.alignment import ALIGNED, AT_LEAST_ONCE
from flowcontrol.systems.transports.rules import names
from modules import load
from staged_runs import resumed

cuts = load("tests/job/checkpoints/cuts.py")
random_checkpoints = load("tests/job/checkpoints/random_checkpoints.py")
random_jobs = load("tests/job/random_jobs.py")
random_systems = load("tests/job/random_systems.py")

small = load("tests/job/checkpoints/small.py")
EXAMPLES = settings.default.max_examples // 8
QUICK = ("blocking_queue", "batched_credit")
TRANSPORTS = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.long)
    for name in names()
    if name != "hop_hysteresis"
]


def check_whole_and_resumed(cuts: ModuleType, job: Job, data: Any) -> None:
    """Assert that its completed checkpoints are cuts, and that it goes on after any round."""
    run = cuts.CheckpointRun(job)
    whole = run.run()
    if run.job.checkpoints.mode != AT_LEAST_ONCE:
        for checkpoint in run.completed:
            run.check_cut(checkpoint)
    after = data.draw(st.integers(1, len(whole) - 1))
    assert [batch.state for batch in resumed(run.job, after)] == whole[after:]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_job_goes_on_after_any_round_from_what_it_has_published(transport: str) -> None:
    shape = random_jobs.Shape(rounds=(25, 40))
    drawn = random_checkpoints.jobs(
        random_jobs,
        shape,
        systems=partial(random_systems.systems, transport),
        modes=(ALIGNED, ALIGNED, AT_LEAST_ONCE),
    )

    @settings(max_examples=EXAMPLES, phases=(Phase.explicit, Phase.reuse, Phase.generate))
    @given(data=st.data())
    def look(data: Any) -> None:
        job = data.draw(drawn)
        note(f"{job.scenario.to_yaml()}\n{job.checkpoints}")
        assume(job.links)
        check_whole_and_resumed(cuts, job, data)

    look()


@pytest.mark.parametrize("system", ["blocking_queue", "batched_credit"])
@pytest.mark.parametrize("slots", [20, 60, 100])
def test_a_barrier_takes_as_long_as_what_is_ahead_of_it(system: str, slots: int) -> None:
    """The source is held up, so all slots are taken: the sink works them off at 100 a second.

    The source hears of the checkpoint a round after its trigger; within a round a hop.
    """
    values = {"slots": slots} | ({"lot": 1} if system == "batched_credit" else {})
    made = small.chain(
        {"source": 300, "sink": 100}, system={"transport": {"name": system} | values}
    )
    run = cuts.CheckpointRun(made)
    run.run()
    assert len(run.completed) >= 2
    for checkpoint in run.completed:
        at_source, at_sink = small.rounds_of(run, checkpoint).values()
        assert at_source[1] == 100
        assert abs(at_sink[1] - (100 + slots * 10)) <= 100


def test_without_a_bound_it_takes_ever_longer() -> None:
    """Triggered at 1 s, when 1.1 s have left 220 records: 2.2 s of the sink's time behind it."""
    made = small.chain({"source": 300, "sink": 100}, system={"transport": "unbounded"})
    run = cuts.CheckpointRun(small.with_settings(made, max_concurrent=3))
    run.run()
    delays = [small.rounds_of(run, number)[1][1] for number in run.completed]
    assert delays[0] == pytest.approx(100 + 2200, abs=100)
    assert len(delays) == 1  # the next one, of 2 s, is behind 4.2 s of work
