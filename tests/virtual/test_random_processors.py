"""Random jobs on few processors: the kernel's state is that of stages apart after every round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol.job import Job, build_physical_graph
from flowcontrol.job.round_state import RoundState
from flowcontrol.operators.states import READER, SERVER, SOURCE
from flowcontrol.scenario import Scenario, parse_scenario
from modules import load

pytestmark = pytest.mark.usefixtures("whole_kernel")

EXAMPLES = settings.default.max_examples
MOST_RUNS = 12

EVENTS = {
    "waits",
    "waits for most of a round",
    "waits for nothing",
    "source waits",
    "reader waits",
    "chain waits",
    "blocked while others wait",
    "stands still while it waits",
    "needs none",
    "part of a unit",
}
"""What must have happened in some of the runs."""


@st.composite
def on_processors(draw: Any, scenario: Scenario) -> Scenario:
    """The same job on few processors, of which stages need a part of their time."""
    mapping = scenario.canonical()
    mapping["cluster"]["cores"] = draw(st.sampled_from([1, 0.5, 1.5, 2, 1 / 3, 0.07, 9]))
    for stage in mapping["stages"]:
        is_rated = "service_rate" in stage or "emit_rate" in stage or "total_rate" in stage
        if is_rated and draw(st.sampled_from([True, True, False])):
            stage["cpu"] = draw(st.sampled_from([1, 0.5, 0.1, 1 / 3, 0, 1]))
    return parse_scenario(mapping)


def happened(job: Any, kinds: dict[str, int], state: RoundState) -> Iterator[str]:
    """Tell what a state shows."""
    whole = state.end_us - state.start_us
    waits = [one for one in state.tasks if one.processor is not None and one.processor.behind > 0]
    for task in waits:
        yield "waits"
        plan = job.stage(task.stage)
        kind = kinds[task.stage]
        yield from ["source waits"] if kind == SOURCE else []
        yield from ["reader waits"] if kind == READER else []
        yield from ["chain waits"] if len(plan.members) > 1 else []
        if task.processor is not None and task.processor.behind > 6 * 10**11:
            yield "waits for most of a round"
        rates = plan.rates(task.subtask)
        if rates is not None and rates.integral(state.end_us) == rates.integral(state.start_us):
            yield "stands still while it waits"
    for task in state.tasks:
        if task.processor is None:
            yield "needs none"
            continue
        if task.processor.done > 0:
            yield "part of a unit"
        if waits and task.backpressured_us == whole:
            yield "blocked while others wait"
        if task.processor.behind == 0 and task.busy_us > 0:
            yield "waits for nothing"


def kinds_of(job: Any) -> dict[str, int]:
    found = {}
    for plan in job.stages:
        found[plan.name] = SERVER
        if plan.is_source:
            found[plan.name] = READER if plan.stage.reads_log else SOURCE
    return found


def test_the_kernel_does_what_stages_apart_do(
    clocks: ModuleType, random_jobs: ModuleType, draw_until: Any
) -> None:
    seen: Counter[str] = Counter()
    shape = random_jobs.Shape(is_virtual=True)

    @settings(max_examples=EXAMPLES)
    @given(
        scenario=random_jobs.scenarios(shape).flatmap(on_processors),
        every=st.sampled_from([2, 3, 10, 1000]),
    )
    def look(scenario: Scenario, every: int) -> None:
        note(scenario.to_yaml())
        job = random_jobs.laid_out(scenario)
        assume(job.links)
        kinds = kinds_of(job)
        watch = lambda state: seen.update(set(happened(job, kinds, state)))  # noqa: E731
        clocks.compare(job, every=(1, every), look=watch)

    draw_until(look, lambda: set(seen) >= EVENTS, MOST_RUNS)
    print(dict(seen))
    assert EVENTS - set(seen) == set()


TRANSPORTS = ("unbounded", "blocking_queue", "half_return_credit", "bdp_window", "hop_hysteresis")
THROTTLES = ("global_hysteresis", "stepwise_sleep", "pid_rate", "static_admission", "aimd_rate")
BESIDE = ("checkpoints", "failures", "event time", "alignment", "windows", "batches", "markers",
          *TRANSPORTS, *THROTTLES)  # fmt: skip
"""What else a job has."""


@pytest.fixture
def beside(
    random_jobs: ModuleType,
    random_checkpoints: ModuleType,
    random_failures: ModuleType,
    random_event_time: ModuleType,
    random_windows: ModuleType,
    random_systems: ModuleType,
) -> Any:
    """Return a function that draws a job with one of these."""
    shape, random_batches = random_jobs.Shape(is_virtual=True), load("tests/job/random_batches.py")

    def draw_job(draw: Any, what: str) -> Job:
        if what in {*TRANSPORTS, *THROTTLES}:
            scenario = draw(
                random_jobs.scenarios(shape if what in TRANSPORTS else random_jobs.LIVE)
            )
            system = random_systems.throttled(what)
            if what in TRANSPORTS:
                system = random_systems.systems(what, scenario.round_ms)
            return random_jobs.laid_out(scenario.model_copy(update={"system": draw(system)}))
        return draw(
            {
                "checkpoints": lambda: random_checkpoints.jobs(random_jobs, shape),
                "failures": lambda: random_failures.jobs(random_jobs, random_checkpoints, shape),
                "event time": lambda: random_event_time.jobs(random_jobs, shape),
                "alignment": lambda: random_event_time.aligned_jobs(random_jobs, shape),
                "windows": lambda: random_windows.jobs(random_jobs, shape),
                "batches": lambda: random_batches.jobs(random_jobs, shape),
                "markers": lambda: random_event_time.marked_jobs(random_jobs, shape),
            }[what]()
        )

    return draw_job


@pytest.mark.long
@pytest.mark.parametrize("what", BESIDE)
def test_so_it_does_beside(clocks: ModuleType, beside: Any, draw_until: Any, what: str) -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES // 3)
    @given(data=st.data())
    def look(data: Any) -> None:
        found = beside(data.draw, what)
        scenario = data.draw(on_processors(found.scenario))
        job = build_physical_graph(scenario, round_us=found.round_us)
        job = replace(job, checkpoints=found.checkpoints, faults=found.faults)
        note(f"{scenario.to_yaml()}\n{job.checkpoints}\n{job.faults}")
        assume(job.links)
        kinds = kinds_of(job)
        watch = lambda state: seen.update(set(happened(job, kinds, state)))  # noqa: E731
        clocks.compare(job, look=watch)

    draw_until(look, lambda: seen["waits for most of a round"] > 50, MOST_RUNS)
    assert seen["waits for most of a round"] > 50
