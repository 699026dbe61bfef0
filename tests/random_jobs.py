"""Random jobs with whatever the kernel can do: the one generator that tests draw from.

What a job may have is a part of the kernel (:mod:`flowcontrol.memory.parts`). ``jobs(k.WINDOWS)``
draws jobs that have windows and, often, some other parts beside them; ``jobs(without=k.FAILURES)``
draws jobs that never fail. A test that goes through ``STRATA`` meets every part. The strategies of
a single feature stand in ``tests/job/random_*.py``: they change a scenario. This file alone puts
them together. A failure prints the job, and the seed where a test draws until it has met all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from hypothesis import assume, note
from hypothesis import strategies as st

from flowcontrol.errors import ScenarioError
from flowcontrol.layout.job import Job
from flowcontrol.memory import parts as k
from flowcontrol.protocol.checkpoints.alignment import (
    ALIGNED,
    AT_LEAST_ONCE,
    TIMEOUTABLE,
    UNALIGNED,
)
from flowcontrol.scenario import Scenario, check_clock, parse_scenario
from flowcontrol.scenario.system import THROTTLE_PARTS
from flowcontrol.systems.transports.rules import names
from modules import load

base = load("tests/job/random_jobs.py")
_systems = load("tests/job/random_systems.py")
_times = load("tests/job/random_event_time.py")
_windows = load("tests/job/random_windows.py")
_batches = load("tests/job/random_batches.py")
_rows = load("tests/job/random_rows.py")
_checkpoints = load("tests/job/checkpoints/random_checkpoints.py")
_failures = load("tests/job/failures/random_failures.py")

Clock = Literal["live", "virtual"]
THROTTLE_NAMES = [name for name in THROTTLE_PARTS if name != "none"]
FAULTY = k.CHECKPOINTS | k.FAILURES
OTHER_SYSTEMS = k.RECORDS | k.THROTTLES | k.TCP

TRANSPORTS = {name: k.RECORDS | k.transport_part(kind) for kind, name in enumerate(names())}

STRATA: dict[str, int] = {
    "credits": k.BUFFERS,
    "connections without credits": k.TCP | k.WIRES,
    "kinds of partition": k.SPILLS,
    "a bandwidth": k.WIRES,
    **TRANSPORTS,
    "throttles": k.THROTTLES,
    "debloating": k.DEBLOATING,
    "several jobs": k.JOBS,
    "logs": k.LOGS,
    "checkpoints": k.CHECKPOINTS,
    "failures": k.FAILURES,
    "event time": k.EVENT_TIME,
    "windows": k.WINDOWS,
    "aligned sources": k.ALIGNMENT,
    "latency markers": k.MARKERS,
    "batches": k.BATCHES,
    "processors": k.CORES,
    "broadcasts": k.BROADCASTS,
}
"""What jobs of each stratum need: together all parts of the kernel."""

_BESIDE = (
    k.CHECKPOINTS,
    k.FAILURES,
    k.EVENT_TIME,
    k.WINDOWS,
    k.ALIGNMENT,
    k.MARKERS,
    k.CORES,
    k.DEBLOATING,
    k.WIRES,
    k.RECORDS,
    k.THROTTLES,
    k.SPILLS,
)
"""What a job may have besides what it needs."""

_CONFLICTS = (
    (k.RECORDS, k.TCP | k.WIRES | k.DEBLOATING | k.SPILLS | k.JOBS | k.BROADCASTS),
    (k.TCP, k.DEBLOATING | k.SPILLS | k.JOBS | FAULTY | k.THROTTLES),
    (k.SPILLS, k.WIRES | k.DEBLOATING | k.JOBS | FAULTY | k.THROTTLES),
    (k.JOBS, FAULTY | k.THROTTLES | k.BATCHES | k.WINDOWS),
    (k.THROTTLES, k.FAILURES | k.BATCHES),
    (k.BATCHES, FAULTY | OTHER_SYSTEMS | k.ALIGNMENT),
)
"""What no clock runs together; whatever else one refuses is left out where it is not needed."""


@st.composite
def jobs(
    draw: Any,
    need: int = 0,
    without: int = 0,
    *,
    clock: Clock = "virtual",
    shape: Any = None,
    rows: Path | None = None,
    beside: int = 3,
    hardens: Callable[[Scenario], st.SearchStrategy[Scenario]] | None = None,
) -> Job:
    """Draw a job that has some parts of the kernel, and not others.

    Parameters
    ----------
    draw : callable
        Of Hypothesis.
    need, without : int
        Sums of parts.
    clock : {"live", "virtual"}
        The clock that must run it.
    shape : Shape, optional
        Of the job beneath; by default one of some 30 rounds, of whatever length.
    rows : Path, optional
        A folder for the rows that its sources replay; by default they make up their records.
    beside : int
        Parts that it may have besides, at most.
    hardens : callable, optional
        Draws what a scenario is changed to at last.
    """
    have = draw(_chosen(need, without, beside))
    if shape is None:
        rounds = (40, 60) if have & FAULTY else (25, 40)
        shape = base.Shape(rounds=rounds, is_virtual=True, latencies=(0, 0, 0, 1.5, 3))
        shape = draw(st.sampled_from([shape, replace(shape, is_tight=True)]))
    scenario = draw(base.scenarios(shape))
    if clock == "live":
        scenario = _unchained(scenario)
    drawn = replace_system(draw, have) if have & (k.RECORDS | k.THROTTLES) else None
    for part, change in _changes(draw, rows, drawn):
        if have & part:
            scenario = _changed(scenario, change, clock, is_needed=need & part != 0)
    if hardens is not None:
        scenario = draw(hardens(scenario))
    assume(check_clock(scenario, clock) == [])
    job = base.laid_out(scenario)
    if have & FAULTY:
        job = draw(_faulty(job, have, need))
    found = k.parts_of(job)
    assume(job.links and found & need == need and found & without == 0)
    note(f"{job.scenario.to_yaml()}\n{job.checkpoints}\n{job.faults}")
    return job


@st.composite
def _chosen(draw: Any, need: int, without: int, beside: int) -> int:
    """Which parts a job is to have: those that it needs, and some that go with them."""
    have = _with_what_it_takes(need)
    for part in draw(st.lists(st.sampled_from(_BESIDE), max_size=beside, unique=True)):
        more = _with_what_it_takes(have | part)
        if not more & without and not any(
            more & one and more & others for one, others in _CONFLICTS
        ):
            have = more
    return have


def _with_what_it_takes(parts: int) -> int:
    """Return parts with those without which a job cannot have them."""
    if parts & k.ALIGNMENT:
        parts |= k.EVENT_TIME
    if parts & k.BATCHES:
        parts |= k.WINDOWS
    return parts


def _unchained(scenario: Scenario) -> Scenario:
    """Return a scenario that the live clock runs: without chains if it does not run them."""
    if check_clock(scenario, "live"):
        mapping = scenario.canonical()
        for edge in mapping["edges"]:
            edge.pop("chain", None)
        scenario = parse_scenario(mapping)
    return scenario


def _changed(
    scenario: Scenario, change: Callable[[Scenario], Scenario], clock: Clock, *, is_needed: bool
) -> Scenario:
    """Return a scenario with a feature; without it if it is not needed and the clock refuses it."""
    try:
        found = change(scenario)
        refused = check_clock(found, clock)
    except ScenarioError:
        refused = [None]
    if refused:
        assume(not is_needed)
        return scenario
    return found


def _changes(
    draw: Any, rows: Path | None, system: Any
) -> Iterator[tuple[int, Callable[[Scenario], Scenario]]]:
    """Yield what gives a scenario a part, in the order in which they go together."""

    def drawn(strategy: Callable[..., st.SearchStrategy[Scenario]], **keys: Any) -> Any:
        return lambda scenario: draw(strategy(scenario, **keys))

    def windows(scenario: Scenario) -> Scenario:
        is_seldom = draw(st.sampled_from([False, False, True]))
        found = draw(_windows.windowed(scenario, is_seldom=is_seldom))
        return draw(_rows.replayed(found, rows)) if rows is not None else found

    yield k.EVENT_TIME, drawn(_times.timed)
    yield k.WINDOWS, windows
    yield k.BATCHES, drawn(_batches.batched)
    yield k.ALIGNMENT, drawn(_times.aligned)
    yield k.MARKERS, drawn(marked)
    yield k.LOGS, logged
    yield k.CORES, drawn(on_processors)
    yield k.BROADCASTS, broadcasting
    yield k.SPILLS, drawn(spilling)
    yield k.JOBS, drawn(several)
    yield k.CHECKPOINTS, drawn(_checkpoints.with_states)
    if system is not None:
        yield k.RECORDS | k.THROTTLES, lambda scenario: under(scenario, draw(system(scenario)))
    yield k.DEBLOATING, drawn(debloated)
    yield k.TCP, drawn(without_credits)
    yield k.WIRES, drawn(on_wires)


def replace_system(draw: Any, have: int) -> Callable[[Scenario], st.SearchStrategy[Any]]:
    """Return what draws a system with some parts for a scenario."""
    if have & k.THROTTLES and not k.transport_kinds(have):
        throttle = draw(st.sampled_from(THROTTLE_NAMES))
        return lambda scenario: _systems.throttled(throttle, scenario.round_ms)
    kinds = k.transport_kinds(have) or range(len(names()))
    transport = names()[draw(st.sampled_from(list(kinds)))]
    return lambda scenario: _systems.systems(transport, scenario.round_ms)


def under(scenario: Scenario, system: Any) -> Scenario:
    """Return a scenario with another system; one that counts no buffers has some nevertheless."""
    options = scenario.options
    if options.exclusive_buffers == 0:
        options = options.model_copy(update={"exclusive_buffers": 1})
    return scenario.model_copy(update={"system": system, "options": options})


# ---------------------------------------------------------------- features that need no file


@st.composite
def marked(draw: Any, scenario: Scenario) -> Scenario:
    """A scenario with latency markers."""
    mapping, round_ms = scenario.canonical(), scenario.live_round_us / 1000
    every = max(1, round(draw(st.sampled_from([0.4, 1, 2.5, 6])) * round_ms))
    mapping.setdefault("options", {})["metrics.latency.interval"] = f"{every}ms"
    return parse_scenario(mapping)


def logged(scenario: Scenario) -> Scenario:
    """A scenario whose first source reads a log, twice as fast as that is written."""
    mapping = scenario.canonical()
    receivers = {edge["to"] for edge in mapping["edges"]}
    source = next(stage for stage in mapping["stages"] if stage["name"] not in receivers)
    if not source.get("arrival_rate") and not source.get("input"):
        source["arrival_rate"] = source["emit_rate"]
    return parse_scenario(mapping)


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


def broadcasting(scenario: Scenario) -> Scenario:
    """The same with a broadcast, if any edge may be one."""
    mapping = scenario.canonical()
    stages = {stage["name"]: stage for stage in mapping["stages"]}
    for edge in mapping["edges"]:
        is_plain = not edge.get("chain") and stages[edge["to"]].get("window") is None
        if is_plain and stages[edge["to"]].get("parallelism", 1) > 1:
            for key in ("key_weights", "channel_weights", "key_distribution"):
                edge.pop(key, None)
            edge["partitioner"] = "broadcast"
            break
    return parse_scenario(mapping)


@st.composite
def spilling(draw: Any, scenario: Scenario) -> Scenario:
    """The same with other kinds of result partition, whose disk takes some rounds for a buffer."""
    mapping, round_s = scenario.canonical(), scenario.live_round_us / 1e6
    kinds = ["pipelined", "hybrid_full", "hybrid_selective", "blocking", "sort_merge"]
    kind = draw(st.sampled_from(kinds))
    is_blocking = kind in {"blocking", "sort_merge"}
    for edge in mapping["edges"]:
        if edge.get("chain"):
            edge.pop("chain")
        if edge["partitioner"] == "broadcast":
            edge["partitioner"] = "rebalance"
        if is_blocking or draw(st.sampled_from([True, True, False])):
            edge["partition_type"] = kind
    receivers = {edge["to"] for edge in mapping["edges"]}
    for stage in mapping["stages"] if is_blocking else ():
        if stage["name"] not in receivers:  # it ends
            rate = round(draw(st.sampled_from([30, 5, 1.5])) / round_s, 3)
            key = "arrival_rate" if stage.get("arrival_rate") else "emit_rate"
            stage[key] = [{"at_s": 0, "rate": rate}, {"at_s": round(8 * round_s, 6), "rate": 0}]
    rounds = draw(st.sampled_from([0.05, 0.3, 2]))
    mapping["cluster"]["disk_bytes_per_s"] = max(1, round(4096 / (rounds * round_s)))
    return parse_scenario(mapping)


@st.composite
def several(draw: Any, scenario: Scenario) -> Scenario:
    """The same job twice, of which the second starts later or stops earlier."""
    mapping, round_s = scenario.canonical(), scenario.live_round_us / 1e6

    def renamed(name: str) -> str:
        return f"t{name}"

    stages, edges = mapping.pop("stages"), mapping.pop("edges")
    second: dict[str, Any] = {
        "name": "second",
        "stages": [{**stage, "name": renamed(stage["name"])} for stage in stages],
        "edges": [{**e, "from": renamed(e["from"]), "to": renamed(e["to"])} for e in edges],
        "start_at_s": round(draw(st.sampled_from([0, 5, 11])) * round_s, 6),
    }
    if draw(st.booleans()):
        second["stop_at_s"] = round(second["start_at_s"] + 9 * round_s, 6)
    first: dict[str, Any] = {"name": "first", "stages": stages, "edges": edges}
    if draw(st.sampled_from([False, False, True])):
        first["stop_at_s"] = round(14 * round_s, 6)
    mapping["jobs"] = [first, second]
    return parse_scenario(mapping)


@st.composite
def debloated(draw: Any, scenario: Scenario) -> Scenario:
    """The same with buffers whose size follows what is processed."""
    round_us = scenario.live_round_us
    sizes = {"debloat_enabled": True, "debloat_period_us": draw(st.integers(1, 6)) * round_us}
    sizes |= {"debloat_target_us": 8 * round_us, "debloat_samples": 2}
    return scenario.model_copy(update={"options": scenario.options.model_copy(update=sizes)})


@st.composite
def on_wires(draw: Any, scenario: Scenario) -> Scenario:
    """The same over connections on which a buffer takes some of a round, or some rounds."""
    rounds = draw(st.sampled_from([0.2, 1, 7]))
    seconds = rounds * scenario.live_round_us / 1e6
    bandwidth = round(scenario.options.segment_bytes / seconds, 3)
    cluster = scenario.cluster.model_copy(update={"bandwidth_bytes_per_s": bandwidth})
    return scenario.model_copy(update={"cluster": cluster})


@st.composite
def without_credits(draw: Any, scenario: Scenario) -> Scenario:
    """The same over the connections of Flink up to 1.4, with little room."""
    if draw(st.sampled_from([True, True, False])):
        scenario = wide(scenario)
    segment = scenario.options.segment_bytes
    values = {
        "high_water_segments": float(draw(st.integers(1, 3))),
        "low_water_segments": float(draw(st.integers(0, 3))),
        "kernel_bytes": float(draw(st.sampled_from([0, 1, segment, 3 * segment, 40 * segment]))),
    }
    system = scenario.system.model_copy(update={"transport": "tcp", "transport_values": values})
    return under(scenario, system)


def wide(scenario: Scenario) -> Scenario:
    """The same without chains, each stage on a machine of its own: all channels are remote."""
    edges = tuple(edge.model_copy(update={"chain": False}) for edge in scenario.edges)
    stages = tuple(
        stage.model_copy(update={"placement": (i % 3,) * stage.parallelism})
        for i, stage in enumerate(scenario.stages)
    )
    return scenario.model_copy(update={"edges": edges, "stages": stages})


# ---------------------------------------------------------------- checkpoints and failures


def modes_of(job: Job) -> Sequence[int]:
    """Return the modes in which a job may checkpoint: no barrier overtakes records."""
    if job.record_transport is not None:
        return (ALIGNED, ALIGNED, AT_LEAST_ONCE)
    return (TIMEOUTABLE, ALIGNED, UNALIGNED, AT_LEAST_ONCE)


@st.composite
def _faulty(draw: Any, job: Job, have: int, need: int) -> Job:
    """A job that checkpoints, fails, or both."""
    if have & k.CHECKPOINTS or draw(st.sampled_from([True, True, True, False])):
        # Under a switch, records that wait behind a barrier may stop the senders it waits for.
        transport = job.scenario.system.transport
        if transport == "hop_hysteresis":
            assume(not need & FAULTY)
            return job
        settings = _checkpoints.settings_of(job.round_us, job.rounds, modes_of(job))
        job = _checkpoints.with_checkpoints(job, draw(settings))
    if have & k.FAILURES:
        job = replace(job, faults=draw(_failures.faults_of(job)))
    return job
