"""Throttled sources: the kernel does what stages apart do, and keeps what it promises."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol.control.between import Between
from flowcontrol.kernel.loop import advance
from flowcontrol.kernel.views import source_log, throttled_source
from flowcontrol.layout.job import Job
from flowcontrol.memory.fields import KernelLog
from flowcontrol.memory.fill import fill
from flowcontrol.memory.log_sizes import LogSizes
from flowcontrol.results.state_reader import StateReader
from flowcontrol.scenario import parse_scenario
from flowcontrol.scenario.system import THROTTLE_PARTS
from flowcontrol.systems.throttles.throttled_source import ThrottledSource
from flowcontrol.virtual import simulate
from modules import load
from staged_runs import resumed, run_staged

random_jobs = load("tests/job/random_jobs.py")
random_systems = load("tests/job/random_systems.py")

EXAMPLES = settings.default.max_examples // 4
IN_ROWS = ("global_hysteresis", "stepwise_sleep", "pid_rate", "static_admission", "long_batches")
"""Throttles whose observations are in the rows of a ledger: those that the live clock runs."""


@st.composite
def jobs_with(draw: Any, random_jobs: ModuleType, random_systems: ModuleType, throttle: str) -> Job:
    shape = random_jobs.LIVE if throttle in IN_ROWS else random_jobs.Shape(is_virtual=True)
    scenario = draw(random_jobs.scenarios(shape))
    scenario = scenario.model_copy(update={"system": draw(random_systems.throttled(throttle))})
    note(scenario.to_yaml())
    job = random_jobs.laid_out(scenario)
    assume(job.links)
    return job


class Run:
    """A run of the kernel, a round at a time, with its controller."""

    def __init__(self, job: Job, *, track: bool) -> None:
        self.job = job
        self.memory = fill(job, LogSizes(1 << 14, 1 << 14), track=track)
        between = Between(job, self.memory)
        assert between.throttle is not None
        self.throttle = between.throttle
        self.reader = StateReader(job, self.memory, between)
        self.commands: set[tuple[int, int, int]] = set()

    def step(self, number: int) -> None:
        """Run a round; its controller looks at it only before the next one."""
        if number > 0:
            self.look(number)
        head = self.memory.head
        watched, head.is_watched = head.is_watched, 0
        assert advance(self.memory.cells, number + 1) == 0
        head.is_watched = watched

    def look(self, number: int) -> None:
        controller = self.throttle.controller
        due = number * self.job.round_us >= controller.next_look_us()
        if due or (controller.wants_empty and self.memory.head.is_empty):
            self.throttle.look()
        for state in self.sources():
            self.commands.add((state.is_stopped, state.gap_ns, state.admitted))

    def sources(self) -> list[ThrottledSource]:
        firsts = [int(at) for at in self.memory.tasks["throttle"] if at > 0]
        return [throttled_source(self.memory.cells, at) for at in firsts]

    def logs(self) -> list[KernelLog | None]:
        """The log of each source, or None."""
        is_source = self.memory.tasks["throttle"] > 0
        firsts = self.memory.tasks["log"][is_source].tolist()
        return [source_log(self.memory.cells, at) if at > 0 else None for at in firsts]


@pytest.mark.holds("global_hysteresis", "virtual", "stages apart: every state, random jobs")
@pytest.mark.holds("stepwise_sleep", "virtual", "stages apart: every state, random jobs")
@pytest.mark.holds("pid_rate", "virtual", "stages apart: every state, random jobs")
@pytest.mark.holds("static_admission", "virtual", "stages apart: every state, random jobs")
@pytest.mark.holds("long_batches", "virtual", "stages apart: every state, random jobs")
@pytest.mark.parametrize("throttle", IN_ROWS)
def test_the_kernel_does_what_stages_apart_do(throttle: str, draw_until: Any) -> None:
    commands: set[tuple[int, int, int]] = set()

    @settings(max_examples=EXAMPLES)
    @given(data=st.data())
    def look(data: Any) -> None:
        job = data.draw(jobs_with(random_jobs, random_systems, throttle))
        run = Run(job, track=False)
        for batch in run_staged(job):
            run.step(batch.number)
            assert run.reader.read() == batch.state, batch.number
        commands.update(run.commands)

    draw_until(look, lambda: len(commands) > 1, 25)
    assert len(commands) > 1  # it did something


@pytest.mark.parametrize("throttle", IN_ROWS)
def test_stages_go_on_from_any_round(throttle: str) -> None:
    @settings(max_examples=EXAMPLES)
    @given(data=st.data())
    def look(data: Any) -> None:
        job = data.draw(jobs_with(random_jobs, random_systems, throttle))
        whole = list(run_staged(job))
        at = data.draw(st.integers(1, len(whole) - 1))
        assert list(resumed(job, at)) == whole[at:]

    look()


@pytest.mark.holds("global_hysteresis", "virtual", "what was offered and commanded, random jobs")
@pytest.mark.holds("stepwise_sleep", "virtual", "what was offered and commanded, random jobs")
@pytest.mark.holds("pid_rate", "virtual", "what was offered and commanded, random jobs")
@pytest.mark.holds("static_admission", "virtual", "what was offered and commanded, random jobs")
@pytest.mark.holds("long_batches", "virtual", "what was offered and commanded, random jobs")
@pytest.mark.holds("aimd_rate", "virtual", "what was offered and commanded, random jobs")
@pytest.mark.holds("frontier_lag", "virtual", "what was offered and commanded, random jobs")
@pytest.mark.parametrize("throttle", [name for name in THROTTLE_PARTS if name != "none"])
def test_what_is_offered_is_emitted_or_kept_and_nothing_beyond_a_command(throttle: str) -> None:
    @settings(max_examples=EXAMPLES)
    @given(data=st.data())
    def look(data: Any) -> None:
        run = Run(data.draw(jobs_with(random_jobs, random_systems, throttle)), track=True)
        is_source = run.memory.tasks["throttle"] > 0
        before, admitted = 0, np.full(is_source.sum(), -1)
        for number in range(run.job.rounds):
            run.step(number)
            emitted = run.memory.tasks["taken"][is_source].copy()
            for state, log, count in zip(run.sources(), run.logs(), emitted, strict=True):
                assert state.admitted < 0 or count <= state.admitted
                if log is not None:
                    assert log.position == count <= log.end
                else:
                    assert count + state.waiting <= state.offered
            now = [state.admitted for state in run.sources()]
            assert (np.array(now) >= admitted).all()
            stopped = all(state.is_stopped for state in run.sources())
            # A source that is stopped begins nothing; what it is reading it reads to its end.
            begun = int(emitted.sum()) + sum(log.reading for log in run.logs() if log is not None)
            assert not stopped or begun == before
            before, admitted = begun, np.array(now)

    look()


def test_records_of_a_log_are_as_old_as_their_emission() -> None:
    """A batch a second: ten records of each of ten rounds wait, 100 to 1000 ms, and are sent."""
    scenario = {
        "schema": 1, "name": "batches", "duration_s": 3, "round_ms": 100, "sample_interval_s": 1,
        "system": {"throttle": {"name": "pid_rate", "interval_ms": 1000}},
        "stages": [
            {"name": "source", "record_bytes": 100,
             "emit_rate": [{"at_s": 0, "rate": 100}, {"at_s": 2, "rate": 0}]},
            {"name": "sink"},
        ],
        "edges": [{"from": "source", "to": "sink"}],
    }  # fmt: skip
    found = simulate(parse_scenario(scenario)).tables["latency"].to_pandas()
    assert found["count"].tolist() == [100, 100]
    # One round more on the way to the sink.
    assert found.mean_ms.tolist() == [650, 650]
    assert (found.p50_ms.tolist(), found.max_ms.tolist()) == ([600, 600], [1100, 1100])
