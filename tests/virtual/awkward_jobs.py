"""Jobs of numbers with many digits, at the ends of their ranges."""

from __future__ import annotations

from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from flowcontrol.errors import ScenarioError
from flowcontrol.scenario import Scenario, check_clock, parse_scenario
from flowcontrol.scenario.system import THROTTLE_PARTS, TRANSPORT_PARTS

NETMEM = "taskmanager.network.memory."
MOST_RATE, MOST_BYTES, MOST_SPEED = 1e12, 2**31 - 1, 1e15

ROUNDS_US = (1, 7, 130, 1000, 100_000, 3_600_000_000, 10**12)
"""From the shortest round that there is to the longest."""

PACES = (0.03, 0.7, 9.0, 60.0, 300.0, 900.0, 1e9)
"""Records a round, about; the last is a source that is never waited for."""

DIGITS = st.integers(10**15, 10**16 - 1).map(lambda number: number / 10**15)
"""From 1 to 10, with 16 digits."""

SELECTIVITIES = st.one_of(
    st.just(1 / 3),
    st.just(1),
    DIGITS,
    DIGITS.map(lambda value: value / 10),
    DIGITS.map(lambda value: value / 10**4),
    st.sampled_from([5e-324, 0, 2 / 3, 0.9999999999999999]),
)
WEIGHTS = st.tuples(DIGITS, st.integers(-30, 11)).map(lambda pair: pair[0] * 10.0 ** pair[1])
SPEEDS = st.tuples(DIGITS, st.integers(-12, 14)).map(lambda pair: pair[0] * 10.0 ** pair[1])


def in_range(rate: float) -> float:
    """The rate, or the nearest that a scenario takes."""
    return min(max(rate, 5e-324), MOST_RATE)


@st.composite
def rates(draw: Any, round_us: int, paces: tuple[float, ...] = PACES[:-1]) -> Any:
    """A rate, or one that changes; perhaps once more when the run is long over."""
    second = 1e6 / round_us
    each = st.tuples(st.sampled_from(paces), DIGITS).map(
        lambda pair: in_range(pair[0] * pair[1] * second)
    )
    if draw(st.booleans()):
        return draw(each)
    steps = [0, 3 * round_us, 11 * round_us + 1]
    steps += draw(st.sampled_from([[], [10**15]])) if round_us < 10**12 else []
    return [{"at_s": us / 1e6, "rate": draw(each | st.just(0))} for us in steps]


@st.composite
def edges(draw: Any, names: list[str], widths: list[int]) -> list[dict[str, Any]]:
    """One stage after the other: chained, by shares, or as Flink would."""
    found = []
    for i in range(1, len(names)):
        edge: dict[str, Any] = {"from": names[i - 1], "to": names[i]}
        kind = draw(st.sampled_from(["plain", "custom", "keys", "chain"]))
        if kind == "chain" and widths[i - 1] == widths[i]:
            edge.update(partitioner="forward", chain=True)
        elif kind == "custom":
            shares = draw(st.lists(WEIGHTS, min_size=widths[i], max_size=widths[i]))
            edge.update(partitioner="custom", channel_weights=shares)
        elif kind == "keys":
            keys = draw(st.lists(WEIGHTS, min_size=3, max_size=9))
            weights = {f"key{number}": weight for number, weight in enumerate(keys)}
            edge.update(partitioner="hash", key_weights=weights)
        found.append(edge)
    if all(edge.get("chain") for edge in found):  # somewhere a record has to travel
        found[-1].pop("chain")
    return found


@st.composite
def scenarios(draw: Any, *, is_network: bool = False, system: Any = None) -> Scenario:
    """A job that the virtual clock runs; with ``is_network`` one that it alone does."""
    round_us = draw(st.sampled_from(ROUNDS_US))
    count = draw(st.integers(2, 4))
    names, widths = [f"s{i}" for i in range(count)], [draw(st.integers(1, 3)) for _ in range(count)]
    linked = draw(edges(names, widths))
    chained = {name for edge in linked if edge.get("chain") for name in (edge["from"], edge["to"])}
    segment = draw(st.sampled_from([4096, 4096, 2**30]))
    stages = []
    for i, name in enumerate(names):
        stage: dict[str, Any] = {"name": name, "parallelism": widths[i]}
        if i == 0:
            sizes = [segment // 97, segment // 13, segment // 3 + 1, 3 * segment // 2, MOST_BYTES]
            stage["record_bytes"] = draw(st.sampled_from(sizes))
            is_small = stage["record_bytes"] <= 3 * 4096 // 2  # all of it must fit into 64 bits
            paces = PACES if system is None and is_small else PACES[:-1]
            stage["emit_rate"] = draw(rates(round_us, paces))
        elif draw(st.booleans()):
            stage["service_rate"] = draw(rates(round_us))
        if 0 < i < count - 1:
            stage["selectivity"] = draw(SELECTIVITIES)
        if "service_rate" in stage and name not in chained and draw(st.booleans()):
            times = {"service_time": "lognormal"}
            times["service_time_cv"] = draw(st.sampled_from([1000, 5e-324, 0.1234567890123456]))
            stage.update(times)
        stages.append(stage)
    cluster = {"task_managers": 3, "serialization_bytes_per_s": draw(SPEEDS)}
    options: dict[str, Any] = {
        "taskmanager.memory.segment-size": f"{segment}b",
        "taskmanager.network.numberOfBuffers": 2048,
        NETMEM + "floating-buffers-per-gate": draw(st.integers(1, 8)),
    }
    if is_network:
        cluster["bandwidth_bytes_per_s"] = draw(SPEEDS)
        cluster["network_latency_ms"] = draw(st.sampled_from([0, 0.001, 2.5, 10**9]))
        options[NETMEM + "buffer-debloat.enabled"] = draw(st.booleans())
        options[NETMEM + "buffer-debloat.target"] = draw(st.sampled_from(["1ms", "999999999s"]))
    rounds = draw(st.integers(25, 40))
    return read(
        {
            "schema": 1,
            "name": "awkward",
            "duration_s": rounds * round_us / 1e6,
            "round_ms": round_us / 1000,
            "sample_interval_s": rounds * round_us / 1e6,
            "seed": draw(st.sampled_from([1, 2**63 - 1])),
            "system": system or "flink",
            "cluster": cluster,
            "options": options,
            "stages": stages,
            "edges": linked,
        }
    )


def read(mapping: dict[str, Any]) -> Scenario:
    """Read a scenario; another is drawn if the numbers of its system exclude each other."""
    try:
        scenario = parse_scenario(mapping)
    except ScenarioError:
        assume(mapping["system"] == "flink")
        raise
    problems = check_clock(scenario, "virtual")
    assume(mapping["system"] == "flink" or not problems)
    assert problems == []
    return scenario


LARGE = {"kernel_bytes", "high_water_segments", "low_water_segments"}
"""Parameters that say how much memory a run takes."""


@st.composite
def systems(draw: Any, kind: str) -> dict[str, Any]:
    """A transport or a throttle whose parameters are at an end of their ranges, or as usual."""
    parts = TRANSPORT_PARTS if kind == "transport" else THROTTLE_PARTS
    name = draw(st.sampled_from(sorted(set(parts) - {"none"})))
    found: dict[str, Any] = {"name": name}
    for key, parameter in parts[name].parameters.items():
        if key not in LARGE:
            values = [parameter.default, parameter.least, parameter.most]
            found[key] = draw(st.sampled_from(values))
    return {kind: found}
