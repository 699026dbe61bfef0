"""Random small jobs: what the tests of several folders draw."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import ceil
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from flowcontrol.errors import ScenarioError
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import Scenario, check_clock, parse_scenario

NETMEM = "taskmanager.network.memory."
PARTITIONERS = ("rebalance", "rescale", "shuffle", "hash", "custom", "global", "forward")
ROUND_US = 100_000
"""Emulated time of a round of a job that the live clock runs."""
SHORT_ROUNDS_US = (7_000, 1_000, 130, 13)
REFUSALS = ("Insufficient number of network buffers",)
TIMES = ("service_time", "service_time_cv")
SHARES = ("key_weights", "channel_weights")


@dataclass(frozen=True)
class Shape:
    """What kind of jobs are drawn."""

    rounds: tuple[int, int] = (30, 45)
    is_drained: bool = False
    """Sources stop, and no stage has a rate of its own (a virtual one: none that is 0 for long):
    everything has to arrive."""
    is_virtual: bool = False
    """With what only the virtual clock runs: broadcast, chains, times that vary, short rounds."""
    is_tight: bool = False
    """Few subtasks with few buffers and large records between them, so that output waits; and
    sources that end, some of them chained: what is seldom met otherwise. A virtual one."""
    latencies: tuple[float, ...] = (0,)
    """Of the network, in rounds."""

    @property
    def partitioners(self) -> tuple[str, ...]:
        """How a record may choose its channel between stages of any parallelism."""
        more = ("broadcast", "hash") if self.is_virtual else ()
        return (*more, *PARTITIONERS[:-1])


LIVE = Shape()


@dataclass(frozen=True)
class Pace:
    """How long a round is, and how much happens in one beside a job of rounds of 100 ms."""

    round_us: int = ROUND_US
    share: float = 1.0

    def at(self, rounds: float) -> float:
        """A moment, s, in whole microseconds."""
        return round(rounds * self.round_us) / 1e6

    def rate(self, rate: float) -> float:
        """A rate that does in a round a share of what this one does in 100 ms."""
        return round(rate * self.share * ROUND_US / self.round_us, 3)


def rates(most: int, pace: Pace | None = None) -> st.SearchStrategy[Any]:
    """A rate, or one that changes twice, perhaps to nothing for a while."""
    rate = st.integers(0, most) | st.sampled_from([0.5, 3.3, 17.25])
    if pace is not None:  # seldom nothing, and often many times another stage's
        rate = st.sampled_from([most, most // 3, most // 10, most // 40, 3.3, 0]).map(pace.rate)
    pace = pace or Pace()
    schedule = st.tuples(rate, rate, rate).map(
        lambda x: [{"at_s": pace.at(7 * i), "rate": rate} for i, rate in enumerate(x)]
    )
    return rate | schedule


@st.composite
def stages(draw: Any, shape: Shape) -> list[dict[str, Any]]:
    """A source, up to two stages in between that may be sources as well, a sink."""
    managers = draw(st.sampled_from([3, 3, 2, 1] if shape.is_virtual else [3, 2, 1]))
    manager = st.integers(0, managers - 1)
    if shape.is_virtual:  # as likely one as another, so that many channels are remote
        manager = st.sampled_from(range(managers))
    sizes = [4096, 4095, 8192, *([200, 1000, 6000, 12_000] if shape.is_virtual else [])]
    size = st.integers(1, 12_000) | st.sampled_from(sizes)
    count, parallelism = st.integers(2, 4), st.integers(1, 3)
    if shape.is_virtual:  # often several stages, all as wide, so that some can be chained
        count = st.sampled_from([4, 3, 4, 2])
        parallelism = st.sampled_from(draw(st.sampled_from([[3, 2, 1], [2], [3, 2], [1]])))
    if shape.is_tight:
        count, parallelism = st.sampled_from([3, 4]), st.sampled_from([2, 1])
        size = st.sampled_from([6000, 12_000, 4095])
    found = []
    for i in range(draw(count)):
        subtasks = draw(parallelism)
        place = st.lists(manager, min_size=subtasks, max_size=subtasks)
        found.append(
            {
                "name": f"s{i}",
                "parallelism": subtasks,
                "record_bytes": draw(size),
                "placement": draw(place),
            }
        )
    return found


@st.composite
def edges(draw: Any, drawn: list[dict[str, Any]], shape: Shape = LIVE) -> list[dict[str, Any]]:
    """Every stage but the first takes from some before it, or is a source for the last."""
    pairs = []
    for i in range(1, len(drawn)):
        some = st.lists(st.integers(0, i - 1), min_size=1, max_size=2, unique=True)
        is_last = i == len(drawn) - 1
        pairs += [(j, i) for j in sorted(draw(some if is_last else some | st.just([])))]
    if shape.is_virtual and draw(st.sampled_from([False, True])):  # one after the other
        pairs = [(i - 1, i) for i in range(1, len(drawn))]
    unused = set(range(len(drawn) - 1)) - {j for j, _ in pairs}
    pairs += [(j, len(drawn) - 1) for j in sorted(unused)]
    return [draw(edge(drawn[j], drawn[i], shape)) for j, i in pairs]


@st.composite
def edge(
    draw: Any, sender: dict[str, Any], receiver: dict[str, Any], shape: Shape = LIVE
) -> dict[str, Any]:
    """An edge with shares, of receivers or of keys, where its partitioner takes any."""
    equal = sender["parallelism"] == receiver["parallelism"]
    kinds = ("forward", *shape.partitioners, "forward") if equal else shape.partitioners
    kind = draw(st.sampled_from(kinds))
    found = {"from": sender["name"], "to": receiver["name"], "partitioner": kind}
    shares = st.lists(
        st.sampled_from([0, 1, 1, 5, 0.3]),
        min_size=receiver["parallelism"],
        max_size=receiver["parallelism"],
    ).filter(any)
    if kind == "custom" or (kind == "hash" and draw(st.booleans())):
        found["channel_weights"] = draw(shares)
    elif kind == "hash":
        weight, fewest = st.integers(1, 5), 0
        if shape.is_virtual:  # many a period of shares is too long for a table
            weight, fewest = st.sampled_from([3, 40_009, 65_537]), 2
        keys = st.dictionaries(st.text("abcd", min_size=1, max_size=2), weight, min_size=fewest)
        found["key_weights"] = draw(keys.filter(bool))
    return found


@st.composite
def service_times(
    draw: Any, stage: dict[str, Any], pace: Pace, shape: Shape = LIVE
) -> dict[str, Any]:
    """Times that vary, and times of standing still."""
    found: dict[str, Any] = {}
    if "emit_rate" in stage or "service_rate" in stage:
        kinds = ["constant", "exponential", "lognormal"]
        found["service_time"] = draw(st.sampled_from(kinds))
        if found["service_time"] == "lognormal":
            found["service_time_cv"] = draw(st.sampled_from([0.3, 1, 2.5, 0.1234567]))
    # Nothing changes any more after a job's end: one that still stands still then never drains.
    latest = min(40, shape.rounds[0] - 13) if shape.is_drained else 40
    spans = st.tuples(st.floats(0, latest), st.floats(0.5, 12), st.none() | st.just([0]))
    found["stalls"] = [
        {"at_s": pace.at(at), "for_s": pace.at(max(length, 1)), "subtasks": subtasks}
        for at, length, subtasks in draw(st.lists(spans, max_size=2))
    ]
    return found


@st.composite
def chains(
    draw: Any, drawn: list[dict[str, Any]], linked: list[dict[str, Any]], shape: Shape
) -> None:
    """Chain some stages to the one before, in place; their service times do not vary then."""
    by_name = {stage["name"]: stage for stage in drawn}
    inputs = [e["to"] for e in linked]
    for e in linked:
        sender, receiver = by_name[e["from"]], by_name[e["to"]]
        equal = sender["parallelism"] == receiver["parallelism"]
        often = [True, True, False] if e["from"] in inputs else [False, False, False, True]
        often = [False, True] if shape.is_tight else often
        if equal and inputs.count(e["to"]) == 1 and draw(st.sampled_from(often)):
            e.update(partitioner="forward", chain=True)
            receiver["placement"] = sender["placement"]
            for stage, key in itertools.product((sender, receiver), TIMES):
                stage.pop(key, None)
            for key in SHARES:
                e.pop(key, None)


@st.composite
def scenarios(draw: Any, shape: Shape) -> Scenario:
    """A scenario that its clock accepts."""
    pace, varied = Pace(), None
    if shape.is_virtual:
        rounds_us = st.sampled_from((*SHORT_ROUNDS_US, ROUND_US))
        pace = varied = Pace(draw(rounds_us), draw(st.sampled_from([1.0, 0.5, 0.1, 0.02])))
    drawn = draw(stages(shape))
    linked = draw(edges(drawn, shape))
    receivers, senders = {e["to"] for e in linked}, {e["from"] for e in linked}
    most = 600 if not shape.is_drained else 240 if shape.is_virtual else 60
    served = st.sampled_from([True, True, False]) if shape.is_virtual else st.booleans()
    for stage in drawn:
        if stage["name"] not in receivers:
            rate = draw(rates(most, varied))
            stop = [{"at_s": 0, "rate": rate}, {"at_s": pace.at(10), "rate": 0}]
            ends = shape.is_drained or shape.is_tight or draw(st.sampled_from([False, True]))
            stage["emit_rate"] = stop if ends and not isinstance(rate, list) else rate
            if shape.is_drained and isinstance(rate, list):
                stage["emit_rate"][-1]["rate"] = 0
            if draw(st.sampled_from([False, False, True])):  # that is written to its log
                stage["arrival_rate"] = stage["emit_rate"]
                fast = st.sampled_from([most, most // 3]).map(pace.rate)
                stage["emit_rate"] = draw(fast if shape.is_drained else rates(most, varied))
        elif shape.is_drained and shape.is_virtual:
            stage["service_rate"] = pace.rate(draw(st.sampled_from([400, 40, 10])))
        elif not shape.is_drained and draw(served):
            stage["service_rate"] = draw(rates(400, varied))
        if stage["name"] in receivers & senders:
            stage["selectivity"] = draw(st.sampled_from([1, 1, 0, 0.5, 0.3, 2, 1.5]))
        if shape.is_virtual:
            stage.update(draw(service_times(stage, pace, shape)))
    if shape.is_virtual:
        draw(chains(drawn, linked, shape))
    rounds = draw(st.integers(*shape.rounds)) * (2 if pace.share < 0.1 else 1)
    latency = draw(st.sampled_from(shape.latencies)) if len(shape.latencies) > 1 else 0
    return _scenario(
        shape,
        cluster={"task_managers": 3, "network_latency_ms": ceil(latency * pace.round_us) / 1000},
        duration_s=pace.at(rounds),
        round_ms=pace.round_us / 1000,
        seed=draw(st.integers(0, 3)),
        options=draw(options(shape, pace)),
        stages=drawn,
        edges=linked,
    )


@st.composite
def options(draw: Any, shape: Shape, pace: Pace) -> dict[str, Any]:
    """Few buffers of 4 KiB; a flusher that runs every round, now and then, or never."""
    tick, later = (f"{max(1, round(n * pace.round_us / 1000))}ms" for n in (1, 2.5))
    interval = draw(st.sampled_from([-1, 0, tick, later]))
    quota = st.integers(2 if shape.is_drained else 1, 10)
    overdraft, segments = st.integers(0, 5), st.sampled_from([25, 40, 60, 2048])
    if shape.is_virtual:
        overdraft, segments = st.sampled_from([0, 5, 0, 2]), st.sampled_from([2048, 80, 40])
        quota = st.sampled_from([10, 5, 3, 2] if shape.is_drained else [10, 5, 3, 2, 10, 5, 1])
    if shape.is_tight:
        overdraft, quota = st.sampled_from([5, 2]), st.sampled_from([2, 3, 1])
    return {
        "taskmanager.memory.segment-size": "4kb",
        "execution.buffer-timeout.interval": interval,
        NETMEM + "buffers-per-channel": draw(st.sampled_from([1, 2, 0, 3, 0])),
        NETMEM + "floating-buffers-per-gate": draw(st.integers(1, 8)),
        NETMEM + "max-buffers-per-channel": draw(quota),
        NETMEM + "max-overdraft-buffers-per-gate": draw(overdraft),
        "taskmanager.network.numberOfBuffers": draw(segments),
    }


def _scenario(shape: Shape, **keys: Any) -> Scenario:
    scenario = parse_scenario(
        {"schema": 1, "name": "random", "cluster": {"task_managers": 3}, **keys}
    )
    assert check_clock(scenario, "virtual" if shape.is_virtual else "live") == []
    return scenario


def laid_out(scenario: Scenario) -> Job:
    """Lay a scenario out; another is drawn if there are too few buffers."""
    try:
        job = build_physical_graph(scenario)
    except ScenarioError as error:
        assert any(text in str(error) for text in REFUSALS)
        assume(False)
        raise
    return job
