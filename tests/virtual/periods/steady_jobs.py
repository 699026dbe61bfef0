"""Random jobs that may become periodic: no random draws, rates that stand still for long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from flowcontrol.scenario import Scenario, check_clock, parse_scenario

NETMEM = "taskmanager.network.memory."
SEGMENT = 4096
SIZES = (4096, 1024, 2048, 512, 8192, 6144, 200)
"""Bytes of a record: most of them fill buffers evenly after a few."""
PACES = (1, 2, 4, 0.5, 0.25, 1.5, 3)
"""Records a round."""
PARTITIONERS = ("rebalance", "rescale", "broadcast", "custom", "global")
INTERVALS = (-1, 0, 0.5, 1, 4, 20)
"""Of the flushers, rounds; the first two are never and always."""


@dataclass(frozen=True)
class Kind:
    """What kind of jobs are drawn."""

    paces: tuple[float, ...] = (*PACES, *PACES, 3.3, 0.777)
    """Records a round."""
    last: tuple[float, ...] = ()
    """The same of the last stage, if it limits the job."""
    counts: tuple[int, ...] = (2, 3, 2, 4)
    """Stages."""
    sizes: tuple[int, ...] = SIZES
    """Bytes of a record."""
    intervals: tuple[float, ...] = INTERVALS
    """Of the flushers, rounds."""
    rounds: tuple[int, ...] = (400, 701, 1100)
    """Rounds of the run."""
    is_plain: bool = False
    """Nothing stalls, no rate changes."""


KINDS = (
    Kind(),
    Kind(last=(1, 0.5, 0.25)),
    # A flusher's period is 199 rounds.
    Kind((1, 2, 3), (), (2,), (4096, 2048), (20,), (1100,), is_plain=True),
    # Whatever is sent waits for the last stage, flushed or not.
    Kind((4, 2), (1, 0.5), (2, 3), (4096, 2048, 1024), (20, 4), (701,), is_plain=True),
)


@st.composite
def scenarios(draw: Any) -> Scenario:
    """A scenario that the virtual clock accepts."""
    kind = draw(st.sampled_from((KINDS[0], *KINDS)))
    round_us, rounds = draw(st.sampled_from([1000, 400, 10_000])), draw(_of(kind.rounds))
    managers, count = draw(st.sampled_from([2, 1, 0])), draw(_of(kind.counts))
    stages = [
        draw(_stage(kind, number, number == count - 1, managers, rounds, round_us))
        for number in range(count)
    ]
    edges = [draw(_edge(stages[i - 1], stages[i])) for i in range(1, count)]
    if count > 2 and draw(st.booleans()):  # a second way to the last one
        edges.append(draw(_edge(stages[0], stages[-1])))
    cluster: dict[str, Any] = {"task_managers": 3}
    cluster["network_latency_ms"] = draw(st.sampled_from([0, 0, 1, 2.5])) * round_us / 1000
    if draw(st.sampled_from([False, False, True])):
        cluster["bandwidth_bytes_per_s"] = draw(st.sampled_from([10**6, 10**7, 3 * 10**9]))
    scenario = parse_scenario(
        {
            "schema": 1,
            "name": "steady",
            "duration_s": rounds * round_us / 1e6,
            "round_ms": round_us / 1000,
            "sample_interval_s": draw(st.sampled_from([16, 50, 97, 260])) * round_us / 1e6,
            "cluster": cluster,
            "options": draw(_options(kind, round_us)),
            "stages": stages,
            "edges": edges,
        }
    )
    assert check_clock(scenario, "virtual") == []
    return scenario


def _of(values: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


@st.composite
def _stage(
    draw: Any, kind: Kind, number: int, is_last: bool, managers: int, rounds: int, round_us: int
) -> dict[str, Any]:
    subtasks = draw(st.sampled_from([1, 1, 2, 3]))
    place = st.lists(st.integers(0, managers), min_size=subtasks, max_size=subtasks)
    found: dict[str, Any] = {
        "name": f"s{number}",
        "parallelism": subtasks,
        "record_bytes": draw(_of(kind.sizes)),
        "placement": draw(place),
    }
    rates = _rates(kind, rounds, round_us)
    if number == 0:
        found["emit_rate"] = draw(rates)
        if draw(st.booleans()):
            found["arrival_rate"] = draw(rates)
    elif is_last and kind.last:
        found["service_rate"] = round(draw(_of(kind.last)) * 1e6 / round_us, 3)
    elif draw(st.sampled_from([True, True, False])):
        found["service_rate"] = draw(rates)
    if number > 0 and not is_last:
        found["selectivity"] = draw(st.sampled_from([1, 1, 0.5, 0.3, 2]))
    if not kind.is_plain and draw(st.sampled_from([False, False, False, True])):
        at = draw(st.integers(0, rounds))
        length = draw(st.sampled_from([1, 5, 40]))
        stall = {"at_s": at * round_us / 1e6, "for_s": length * round_us / 1e6}
        found["stalls"] = [{**stall, "subtasks": draw(st.sampled_from([None, [0]]))}]
    return found


@st.composite
def _rates(draw: Any, kind: Kind, rounds: int, round_us: int) -> Any:
    """A rate; perhaps it changes once, at any microsecond, or it ends."""
    rate = _of(kind.paces).map(lambda pace: round(pace * 1e6 / round_us, 3))
    if kind.is_plain or draw(st.sampled_from([True, True, True, False])):
        return draw(rate)
    whole = st.integers(1, rounds).map(lambda number: number * round_us)
    at_us = draw(st.one_of(st.integers(1, rounds * round_us), whole))
    last = draw(st.one_of(rate, rate, st.just(0)))  # 0 ends a source
    return [{"at_s": 0, "rate": draw(rate)}, {"at_s": at_us / 1e6, "rate": last}]


@st.composite
def _edge(draw: Any, sender: dict[str, Any], receiver: dict[str, Any]) -> dict[str, Any]:
    equal = sender["parallelism"] == receiver["parallelism"]
    kind = draw(st.sampled_from(("forward", *PARTITIONERS) if equal else PARTITIONERS))
    found = {"from": sender["name"], "to": receiver["name"], "partitioner": kind}
    if kind == "custom":
        width = receiver["parallelism"]
        weight = st.sampled_from([1, 2, 5, 40_009])
        found["channel_weights"] = draw(st.lists(weight, min_size=width, max_size=width))
    return found


@st.composite
def _options(draw: Any, kind: Kind, round_us: int) -> dict[str, Any]:
    interval = draw(_of(kind.intervals))
    return {
        "taskmanager.memory.segment-size": f"{SEGMENT}b",
        "execution.buffer-timeout.interval": (
            interval if interval <= 0 else f"{max(1, round(interval * round_us / 1000))}ms"
        ),
        NETMEM + "buffers-per-channel": draw(st.sampled_from([2, 1, 3, 0])),
        NETMEM + "floating-buffers-per-gate": draw(st.integers(1, 8)),
        NETMEM + "max-buffers-per-channel": draw(st.sampled_from([10, 5, 2, 1])),
        NETMEM + "max-overdraft-buffers-per-gate": draw(st.sampled_from([5, 0, 2])),
    }
