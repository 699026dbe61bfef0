"""Transports that count records, over random jobs: their states, their bounds, their liveness."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol.kernel.loop import advance
from flowcontrol.kernel.views import wire_queue
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.memory.fill import fill
from flowcontrol.memory.log_sizes import LogSizes
from flowcontrol.memory.memory import Memory
from flowcontrol.scenario import parse_scenario
from flowcontrol.state.declared import width
from flowcontrol.state.queues import in_order
from flowcontrol.systems.transports.rate_window import ITEM_OVERHEAD
from flowcontrol.systems.transports.rules import names
from flowcontrol.systems.transports.transport import FREE, ChannelGrant

pytestmark = pytest.mark.usefixtures("whole_kernel")

EXAMPLES = settings.default.max_examples // 4

BOUNDED = {"blocking_queue": "slots", "half_return_credit": "slots", "batched_credit": "slots"}
BOUNDED |= {"cumulative_credit": "credit"}
"""Families A and B: the parameter that records sent and not taken up never exceed."""

NEVER_FALLS = {*BOUNDED, "bdp_window", "push_quota"}


@st.composite
def jobs_with(
    draw: Any,
    random_jobs: ModuleType,
    random_systems: ModuleType,
    transport: str,
    *,
    is_drained: bool,
) -> Job:
    """A random job under a transport."""
    shape = random_jobs.Shape(is_virtual=True, is_drained=is_drained)
    scenario = draw(random_jobs.scenarios(shape))
    system = draw(random_systems.systems(transport, scenario.round_ms))
    scenario = scenario.model_copy(update={"system": system})
    note(scenario.to_yaml())
    job = random_jobs.laid_out(scenario)
    assume(job.links)
    return job


class Rules:
    """What holds of every channel after every round (other-systems.md, section 13)."""

    def __init__(self, job: Job, memory: Memory) -> None:
        system = job.scenario.system
        self.transport, self.memory = system.transport, memory
        self.most = system.transport_values.get(BOUNDED.get(system.transport, ""), FREE)
        self.granted = self._columns()["announced"]
        self.parameters, self.windows = job.record_transport, self._windows()

    def _windows(self) -> Any:
        """Windows of all channels, in the order of senders, as their receivers remember them."""
        outs, gates = self.memory.outs, self.memory.gates
        firsts = gates["grants"][outs["gate"]] + outs["index"] * width(ChannelGrant)
        return self.memory.states(firsts, ChannelGrant)["window"]

    def _bounds(self) -> Any:
        """Records that a channel may hold beyond those taken up (families A, B and C)."""
        if self.transport == "push_quota":
            return self._pushed()
        if self.transport not in {"rate_window", "bdp_window"}:
            return self.most
        self.windows = np.maximum(self.windows, self._windows())  # sent under the largest one
        gates = self.memory.gates[self.memory.outs["gate"]]
        size = gates["record_bytes"]
        if self.transport == "bdp_window":
            return np.maximum(1, self.windows // size)
        # A sender goes on until it is past the limit; what was taken counts in whole units.
        unit, weight = self.parameters.unit, size + ITEM_OVERHEAD
        return -(-(self.windows + 2) * unit // weight) + 1

    def _pushed(self) -> Any:
        """What a quota and the sockets hold of messages of one record, the most that it may be."""
        own, outs = self.parameters, self.memory.outs
        size = self.memory.gates[outs["gate"]]["record_bytes"]
        nbytes = size + own.header_bytes
        largest = np.maximum(own.full_bytes + size, size) + own.header_bytes
        most = outs["quota"] + largest + np.maximum(own.kernel_bytes, largest)
        used, channels = self.memory.partitions["pool"]["in_use"], outs["partition"]
        waiting = np.bincount(channels, outs["buffers"] > outs["handed"])
        assert (used <= self.memory.partitions["pool"]["size"]).all(), "more buffers than places"
        assert (used >= waiting).all(), "a place too few"
        assert (outs["closed"] <= outs["buffers"]).all()
        assert (outs["handed"] == 0).all(), "what the sockets have taken is on its way"
        return most // nbytes + 1

    def _columns(self) -> dict[str, Any]:
        outs, ins = self.memory.outs, self.memory.ins[self.memory.outs["input"]]
        cursors = ins
        under_way = [sum(self._transit(number)) for number in outs["input"].tolist()]
        return {
            "written": outs["written"].copy(),
            "ready": outs["buffers"].copy(),
            "sent": outs["sent"].copy(),
            "heard": outs["announced"].copy(),
            "announced": cursors["announced"].copy(),
            "arrived": cursors["arrived"].copy(),
            "taken": cursors["processed"].copy(),
            "under_way": np.array(under_way, np.int64),
        }

    def _transit(self, channel: int) -> list[int]:
        return [one.records for one in in_order(wire_queue(self.memory.head, channel))]

    def check(self) -> None:
        c = self._columns()
        # Conservation: what was written is with the sender, under way, queued or taken up.
        assert (c["written"] == c["sent"] + c["ready"]).all()
        assert (c["sent"] == c["arrived"] + c["under_way"]).all()
        assert (c["taken"] <= c["arrived"]).all()
        if self.transport in NEVER_FALLS:
            assert (c["announced"] >= self.granted).all(), "a grant went back"
            # Reactive Streams 1.1: never more than was asked for; 3.8: what is asked for adds up.
            assert (c["sent"] <= c["heard"]).all()
            assert (c["heard"] <= c["announced"]).all()
        assert (c["sent"] - c["taken"] <= self._bounds()).all(), "above the bound"
        self.granted = c["announced"]


def run(job: Job, *, rounds: int) -> Memory:
    memory = fill(job, LogSizes(1 << 12, 1 << 10), track=False)
    rules = Rules(job, memory)
    for number in range(rounds):
        assert advance(memory.cells, number + 1) == 0
        rules.check()
    return memory


@pytest.mark.holds("unbounded", "virtual", "its rules after every round, random jobs")
@pytest.mark.holds("blocking_queue", "virtual", "its rules after every round, random jobs")
@pytest.mark.holds("half_return_credit", "virtual", "its rules after every round, random jobs")
@pytest.mark.holds("batched_credit", "virtual", "its rules after every round, random jobs")
@pytest.mark.holds("cumulative_credit", "virtual", "its rules after every round, random jobs")
@pytest.mark.holds("rate_window", "virtual", "its rules after every round, random jobs")
@pytest.mark.holds("bdp_window", "virtual", "its rules after every round, random jobs")
@pytest.mark.holds("hop_hysteresis", "virtual", "its rules after every round, random jobs")
@pytest.mark.holds("push_quota", "virtual", "its rules after every round, random jobs")
@pytest.mark.parametrize("transport", names())
def test_grants_bounds_and_conservation(
    random_jobs: ModuleType, random_systems: ModuleType, transport: str
) -> None:
    @settings(max_examples=EXAMPLES)
    @given(data=st.data())
    def look(data: Any) -> None:
        job = data.draw(jobs_with(random_jobs, random_systems, transport, is_drained=False))
        run(job, rounds=job.rounds)

    look()


@pytest.mark.parametrize("transport", names())
def test_everything_arrives_in_the_end(
    random_jobs: ModuleType, random_systems: ModuleType, transport: str
) -> None:
    """Liveness: sources stop, every stage goes on, so no record may stay behind for want of one."""

    @settings(max_examples=EXAMPLES)
    @given(data=st.data())
    def look(data: Any) -> None:
        job = data.draw(jobs_with(random_jobs, random_systems, transport, is_drained=True))
        most, before = 200_000, -1
        end = job.rounds
        # Times are kept in units that fit into 64 bits until the end of the run, no longer.
        long = job.scenario.model_copy(update={"duration_s": most * job.round_us / 1e6})
        job = random_jobs.laid_out(long)
        memory = fill(job, LogSizes(1 << 12, 1 << 10), track=False)
        while before != (now := int(memory.outs["written"].sum())) and end < most:
            before, end = now, end + 20_000
            assert advance(memory.cells, end) == 0
        outs = memory.outs
        taken = memory.ins[outs["input"]]["processed"]
        assert (outs["written"] == taken).all()
        assert (memory.tasks["is_pending"] == 0).all()

    look()


def test_a_limit_that_falls_reaches_the_sender() -> None:
    """Jet's window shrinks as the receiver slows down, faster than records are taken."""
    mapping = {
        "schema": 1,
        "name": "slower",
        "duration_s": 6,
        "round_ms": 10,
        "system": {"transport": {"name": "rate_window", "unit": 100, "initial_units": 800}},
        "stages": [
            {"name": "source", "emit_rate": 2000, "record_bytes": 44},
            {"name": "sink", "service_rate": [{"at_s": 0, "rate": 1500}, {"at_s": 2, "rate": 20}]},
        ],
        "edges": [{"from": "source", "to": "sink"}],
    }
    job = build_physical_graph(parse_scenario(mapping), round_us=10_000)
    memory = fill(job, LogSizes(1 << 12, 1 << 10), track=False)
    granted, heard = [], []
    for number in range(job.rounds):
        assert advance(memory.cells, number + 1) == 0
        granted.append(int(memory.ins["announced"][0]))
        heard.append(int(memory.outs["announced"][0]))
    assert min(np.diff(granted)) < 0
    latency = job.latency
    assert heard[latency + 1 :] == granted[1:-latency]
