"""Random jobs that fail and whose transport counts records: both clocks, and what counts again."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol.protocol.checkpoints.alignment import ALIGNED, AT_LEAST_ONCE
from flowcontrol.systems.transports.rules import names
from flowcontrol.trace.round_state import RoundState
from modules import load

clocks = load("tests/virtual/clocks.py")
random_checkpoints = load("tests/job/checkpoints/random_checkpoints.py")
random_failures = load("tests/job/failures/random_failures.py")
random_jobs = load("tests/job/random_jobs.py")
random_systems = load("tests/job/random_systems.py")
small_checkpoints = load("tests/job/checkpoints/small.py")

pytestmark = pytest.mark.usefixtures("whole_kernel")

EXAMPLES = settings.default.max_examples // 3
MOST_RUNS = 12
TRANSPORTS = [name for name in names() if name != "hop_hysteresis"]


class Watch:
    """What happens in a run, and what holds of its channels after every round."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.was_gone, self.sent = False, 0

    def __call__(self, state: RoundState) -> None:
        is_gone = not all(task.is_running for task in state.tasks)
        sent = sum(self._channels(state))
        if self.was_gone and not is_gone:
            self.seen["from a checkpoint"] += sent > 0
            self.seen["records come again"] += 0 < sent < self.sent
        self.was_gone = is_gone
        if not is_gone:
            self.sent = sent

    def _channels(self, state: RoundState) -> Any:
        """Yield what each channel has sent: what it has written less what waits."""
        for task in state.tasks:
            for part in task.partitions:
                for out in part.subpartitions:
                    own = out.state
                    if task.is_running:
                        assert own.written == own.sent + own.buffers
                    yield own.sent


@pytest.mark.long
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_kernel_does_what_stages_apart_do(draw_until: Any, transport: str) -> None:
    seen: Counter[str] = Counter()
    shape = random_jobs.Shape(rounds=(40, 60), is_virtual=True)
    jobs = random_failures.jobs(
        random_jobs,
        random_checkpoints,
        shape,
        systems=partial(random_systems.systems, transport),
        modes=(ALIGNED, ALIGNED, AT_LEAST_ONCE),
    )

    @settings(max_examples=EXAMPLES)
    @given(job=jobs, every=st.sampled_from([2, 3, 10, 1000]))
    def look(job: Any, every: int) -> None:
        note(f"{job.scenario.to_yaml()}\n{job.checkpoints}\n{job.faults}")
        assume(job.links)
        watch = Watch()
        clocks.compare(job, every=(1, every), look=watch)
        seen.update(+watch.seen)

    events = {"from a checkpoint", "records come again"}
    draw_until(look, lambda: set(seen) >= events, MOST_RUNS)
    print(dict(seen))
    assert events - set(seen) == set()


QUICK: dict[str, dict[str, float]] = {
    "blocking_queue": {"slots": 50},
    "batched_credit": {"slots": 50, "lot": 20},
    "rate_window": {"unit": 4560, "period_ms": 200},
    "bdp_window": {"initial": 4000},
    "unbounded": {"heap_bytes": 1e9},
}


@pytest.mark.parametrize("transport", QUICK)
def test_a_channel_goes_on_from_its_checkpoint(transport: str) -> None:
    """The sink fails at 3.45 s, in round 34; the checkpoint of 2 s or the one of 3 s is complete.

    Source and sink begin again from what was written before its barrier, with nothing under way.
    """
    job = small_checkpoints.chain(
        {"source": 100, "sink": 90},
        {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "200ms"},
        system={"transport": {"name": transport, **QUICK[transport]}},
        failures=[{"at_s": 3.45, "stage": "sink", "subtask": 0}],
    )
    states: list[RoundState] = []
    clocks.compare(job, every=(1, 6), look=states.append)
    running = [all(task.is_running for task in state.tasks) for state in states]
    again = running.index(True, running.index(False))
    before, _ = states[33].channel("source->sink")
    first, at_sink = states[again].channel("source->sink")
    sent = first.state.sent - sum(one.message.records for one in first.under_way)
    assert 100 < sent < before.state.sent
    assert (at_sink.state.arrived, at_sink.state.processed, at_sink.queue) == (sent, sent, ())
    last, _ = states[-1].channel("source->sink")
    assert last.state.sent > sent + 50  # it goes on, within its grants
    assert last.state.sent <= last.state.announced
