"""The limit of a job over time, against which every system is measured.

A job is a network of rates. A record of a source subtask causes a fixed number of records at
every other subtask: selectivities say how many, partitioners share them out. So what a subtask, a
chain of stages or a connection has to do is a linear function of the sources' rates, and none may
have more to do than it can.

The limit is the largest set of source rates that keeps to this, max-min fair: all source subtasks
rise together until each has what it offers, or feeds something that is full. What is full holds up
all that feeds it, since a task that cannot hand a record on does not take the next one. Buffers
are no part of it: they put a limit off, and do not lift it.

A source that reads a log offers what is written there, and as long as records wait all that it can
read. What waits at the limit grows by what is written and not emitted; when it is read, a phase
ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from flowcontrol.layout.graph import POINTWISE, JobEdge, JobVertex
from flowcontrol.layout.job import Job
from flowcontrol.layout.shares import weights_of
from flowcontrol.layout.work import processor_seconds

Floats = npt.NDArray[np.float64]

_US_PER_S: Final = 1_000_000
_EPSILON: Final = 1e-9


@dataclass(frozen=True)
class LimitPhase:
    """A time in which no rate of the job changes."""

    start_s: float  # start_s, end_s: from when to when (s)
    end_s: float
    produced: float  # What all sources together can emit (records/s)
    consumed: float  # What all sinks together then take up (records/s)
    # What each subtask of a stage takes up at the limit (of a source: emits) (shape (subtasks,),
    # records/s).
    into: Mapping[str, Floats]
    # What it would take up if only itself and the stages before it set limits (shape (subtasks,),
    # records/s).
    alone: Mapping[str, Floats]
    # Whether it takes up all that it can (shape (subtasks,)).
    full: Mapping[str, npt.NDArray[np.bool_]]


def job_limits(job: Job) -> list[LimitPhase] | None:
    """Return the limit of a job over time.

    ``job``: the physical graph; its system does not matter.

    Consecutive phases of the whole run. None if a source replays rows: the scenario does not say
    where they go or when they end.
    """
    if any(member.stage.input is not None for plan in job.stages for member in plan.members):
        return None
    network = _Network(job)
    times = [*_breaks(job), job.scenario.duration_us]
    found: dict[tuple[float, ...], dict[str, Any]] = {}
    phases, logs = list[LimitPhase](), Logs(job)
    for start, end in itertools.pairwise(times):
        at_s, end_s = start / _US_PER_S, end / _US_PER_S
        while at_s < end_s:
            rates = logs.offered(network.rates_at(start), start)
            key = tuple(rate for own in rates.values() for rate in own)
            if job.scenario.cluster.cores is not None:
                key = (*key, start)  # what a chain takes of a processor is not in its rate
            if key not in found:
                found[key] = network.solve(rates, start)
            until_s = logs.read_until(found[key]["into"], start, at_s, end_s)
            if until_s > at_s:
                phases.append(LimitPhase(at_s, until_s, **found[key]))
            at_s = until_s
    return phases


def most_of_source(job: Job, source: str, window_s: tuple[float, float]) -> float:
    """Return the rate of a source that the job cannot exceed for long, whatever its buffers.

    ``window_s`` (s): from when to when the rates of the job count, as their means: buffers may put
    a slow phase off.

    Of a subtask, as if other sources emitted nothing and processors were without limit. Infinite if
    no stage that its records reach has a rate, or if the scenario does not say how many they are:
    of windows, and of rows that are replayed (records/s).
    """
    members = [member.stage for plan in job.stages for member in plan.members]
    if any(stage.input is not None or stage.window is not None for stage in members):
        return float("inf")
    start, end = (round(moment * _US_PER_S) for moment in window_s)
    inside = [moment for moment in _breaks(job) if start < moment < end]
    phases = [(at, until - at) for at, until in itertools.pairwise([start, *inside, end])]
    network, own = _Network(job), job.stage(source)
    found = [*network.wires_of(own)]
    for plan in job.stages:
        if plan.is_source and not (plan is own and own.stage.reads_log):
            continue
        rates = np.array([list(_rates(plan, at)) for at, _ in phases])
        able = np.average(rates, axis=0, weights=[length for _, length in phases])
        taken = network.taken_of(own, plan)
        found += (able[taken > 0] / taken[taken > 0]).tolist()
    return min(found, default=float("inf"))


def _breaks(job: Job) -> list[int]:
    """Return the moments at which a rate changes, from 0 on, microseconds."""
    breaks = {0}
    for plan in job.stages:
        for subtask in range(plan.stage.parallelism):
            rates = plan.rates(subtask)
            breaks.update(rates.changes() if rates is not None else ())
            arrivals = plan.stage.arrival_rate
            breaks.update(arrivals[subtask].changes() if arrivals is not None else ())
            breaks.update(moment for span in plan.stalled(subtask) for moment in span)
    return sorted(moment for moment in breaks if moment < job.scenario.duration_us)


class _Network:
    """The records that one record of each source subtask causes everywhere."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._sources = [plan for plan in job.stages if plan.is_source]
        width = sum(plan.stage.parallelism for plan in self._sources)
        first = 0
        self._flow: dict[str, Floats] = {}
        self._columns: dict[str, slice] = {}
        self._before: dict[str, set[str]] = {}
        self._wires: dict[tuple[int, int], Floats] = {}
        for plan in job.stages:
            flow = np.zeros((plan.stage.parallelism, width))
            if plan.is_source:
                rows = np.arange(plan.stage.parallelism)
                flow[rows, first + rows] = 1.0
                self._columns[plan.name] = slice(first, first + len(rows))
                first += plan.stage.parallelism
            before: set[str] = set()
            for link in plan.inputs:
                flow += self._arriving(link)
                sender = job.stage(link.edge.sender).name
                before |= {sender} | self._before[sender]
            self._flow[plan.name], self._before[plan.name] = flow, before

    def _arriving(self, link: JobEdge) -> Floats:
        """Return what a link brings to each receiver, and note what it puts on the wire."""
        scenario = self._job.scenario
        sender = self._job.stage(link.edge.sender)
        flow = self._flow[sender.name] * float(sender.member(link).ratio_out)
        here = scenario.stage(link.edge.sender).placement
        there = scenario.stage(link.edge.receiver).placement
        shares = _shares(link, len(there), len(flow))
        if scenario.cluster.bandwidth_bytes_per_s is not None:
            for channel in link.channels:
                if not channel.is_local:
                    pair = here[channel.sender], there[channel.receiver]
                    share = shares[channel.receiver, channel.sender]
                    load = flow[channel.sender] * share * link.record_bytes
                    self._wires[pair] = self._wires.get(pair, np.zeros(flow.shape[1])) + load
        arriving: Floats = shares @ flow
        return arriving

    def taken_of(self, source: JobVertex, plan: JobVertex) -> Floats:
        """Return the records that each subtask takes up of one from each subtask of a source."""
        taken: Floats = self._flow[plan.name][:, self._columns[source.name]].sum(axis=1)
        return taken

    def wires_of(self, source: JobVertex) -> list[float]:
        """Return the records/s of each subtask of a source that each connection can carry."""
        bandwidth = self._job.scenario.cluster.bandwidth_bytes_per_s
        loads = [load[self._columns[source.name]].sum() for load in self._wires.values()]
        return [float(bandwidth) / load for load in loads if bandwidth is not None and load > 0]

    def rates_at(self, at_us: int) -> dict[str, tuple[float, ...]]:
        """Return what each task can emit or take at a moment, records/s; inf without a rate."""
        return {plan.name: tuple(_rates(plan, at_us)) for plan in self._job.stages}

    def solve(self, rates: Mapping[str, Sequence[float]], at_us: int) -> dict[str, Any]:
        """Return the fields of a phase but for its times; it begins at a moment."""
        offered = np.array([rate for plan in self._sources for rate in rates[plan.name]])
        loads, names = self._loads(rates, at_us)
        emitted = _fill(offered, loads)
        into = {name: flow @ emitted for name, flow in self._flow.items()}
        alone = {}
        for plan in self._job.stages:
            before = [name in self._before[plan.name] for name in names]
            upstream = self._flow[plan.name] @ _fill(offered, loads[np.array(before, bool)])
            alone[plan.name] = np.minimum(upstream, np.array(rates[plan.name]))
        sinks = [m.stage.name for p in self._job.stages for m in p.members if m.is_sink]
        return {
            "produced": float(emitted.sum()),
            "consumed": float(sum(self._taken(name, into) for name in sinks)),
            "into": into,
            "alone": alone,
            "full": {
                name: into[name] >= np.array(rates[name]) * (1 - _EPSILON) for name in self._flow
            },
        }

    def _taken(self, sink: str, into: Mapping[str, Floats]) -> float:
        """Return what a sink takes up, also one at the end of a chain."""
        plan = self._job.stage(sink)
        member = next(m for m in plan.members if m.stage.name == sink)
        return float(into[plan.name].sum()) * float(member.ratio_in)

    def _loads(self, rates: Mapping[str, Sequence[float]], at_us: int) -> tuple[Floats, list[str]]:
        """Return the share of each resource that a record/s of each source takes, and its stage."""
        rows: list[Floats] = []
        names: list[str] = []
        for plan in self._job.stages:
            if plan.is_source:
                continue
            flow = self._flow[plan.name]
            for subtask, rate in enumerate(rates[plan.name]):
                if rate < np.inf:
                    own = flow[subtask]
                    rows.append(own / rate if rate > 0 else np.where(own > 0, np.inf, 0.0))
                    names.append(plan.name)
        bandwidth = self._job.scenario.cluster.bandwidth_bytes_per_s
        if bandwidth is not None:
            rows += [load / bandwidth for load in self._wires.values()]
            names += [""] * len(self._wires)
        own_rows = self._processors(at_us)
        rows, names = rows + own_rows, names + [""] * len(own_rows)
        width = sum(plan.stage.parallelism for plan in self._sources)
        return np.array(rows).reshape(len(rows), width), names

    def _processors(self, at_us: int) -> list[Floats]:
        """Return the share of each task manager's processors that they take; none if unlimited."""
        scenario, found = self._job.scenario, dict[int, Floats]()
        cores = scenario.cluster.cores
        if cores is None:
            return []
        for plan in self._job.stages:
            for subtask, manager in enumerate(plan.stage.placement):
                seconds = processor_seconds(plan, subtask, at_us)
                if seconds > 0:
                    own = self._flow[plan.name][subtask] * float(seconds / cores)
                    found[manager] = found.get(manager, np.zeros_like(own)) + own
        return list(found.values())


def _shares(link: JobEdge, receivers: int, senders: int) -> Floats:
    """Return the share of each sender's records (columns) that each receiver (rows) gets."""
    if link.edge.partitioner in POINTWISE:
        shares = np.zeros((receivers, senders))
        for channel in link.channels:
            shares[channel.receiver, channel.sender] = 1 / len(link.outgoing(channel.sender))
        return shares
    weights = weights_of(link.edge, receivers)
    if weights is not None:
        one = np.array([weight / sum(weights) for weight in weights])
    elif link.edge.partitioner == "broadcast":
        one = np.ones(receivers)
    elif link.edge.partitioner == "global":
        one = np.array([1.0, *[0.0] * (receivers - 1)])
    else:
        one = np.full(receivers, 1 / receivers)
    return np.tile(one[:, np.newaxis], senders)


def _rates(plan: JobVertex, at_us: int) -> Iterator[float]:
    for subtask in range(plan.stage.parallelism):
        schedule = plan.rates(subtask)
        is_still = any(begin <= at_us < end for begin, end in plan.stalled(subtask))
        if is_still:
            yield 0.0
        else:
            yield float("inf") if schedule is None else float(schedule.rate_at(at_us))


def _fill(offered: Floats, loads: Floats) -> Floats:
    """Raise all rates together until each is stopped, by its own offer or by what it feeds.

    - ``offered`` (shape (sources,), records/s): the most that each emits.
    - ``loads`` (shape (resources, sources)): share of a resource that one record/s takes; inf where
      nothing gets through.

    No resource is used more than wholly (shape (sources,), records/s).
    """
    rates = np.zeros(len(offered))
    rising = (offered > 0) & ~np.isinf(loads).any(axis=0)
    loads = np.where(np.isinf(loads), 0.0, loads)
    while rising.any():
        slopes = loads[:, rising].sum(axis=1)
        left = 1 - loads @ rates
        steps = left[slopes > 0] / slopes[slopes > 0]
        step = min([*steps.tolist(), float((offered - rates)[rising].min())])
        rates[rising] += max(0.0, step)
        full = (loads @ rates >= 1 - _EPSILON) & (slopes > 0)
        held = (loads[full] > 0).any(axis=0)
        rising &= ~held & (rates < offered * (1 - _EPSILON))
    return rates


# --- The records in the logs of sources while a job runs at its limit.


_LEAST: Final = 1e-6
"""Records, and records/s, that count as none: what doubles leave over."""


class Logs:
    """The logs of a job, empty at first; without any, nothing here changes a rate."""

    def __init__(self, job: Job) -> None:
        self._sources = [plan for plan in job.stages if plan.stage.reads_log]
        self._waiting = {plan.name: np.zeros(plan.stage.parallelism) for plan in self._sources}

    def _written(self, at_us: int) -> dict[str, Floats]:
        """Return what is written to each log at a moment, records/s."""
        return {
            plan.name: np.array([float(rate.rate_at(at_us)) for rate in plan.stage.arrival_rate])
            for plan in self._sources
            if plan.stage.arrival_rate is not None
        }

    def offered(
        self, rates: Mapping[str, tuple[float, ...]], at_us: int
    ) -> dict[str, tuple[float, ...]]:
        """Return the rates of all tasks, those of sources with a log by what there is to read.

        - ``rates`` (records/s): what each subtask of a stage can emit or take.
        - ``at_us``: the moment, microseconds.
        """
        found = dict(rates)
        for name, written in self._written(at_us).items():
            able = np.array(rates[name])
            waits = self._waiting[name] > 0
            found[name] = tuple(np.where(waits, able, np.minimum(able, written)).tolist())
        return found

    def read_until(
        self, into: Mapping[str, Floats], at_us: int, start_s: float, end_s: float
    ) -> float:
        """Let time pass until a log has been read to its end, or to the end of a phase.

        - ``into`` (records/s): what each subtask emits meanwhile.
        - ``at_us``: a moment of the phase, microseconds: what is written does not change in it.
        - ``start_s``, ``end_s`` (s): from when, and the end of the phase.

        When one of the logs is empty, or ``end_s``.
        """
        slopes = {name: rate - into[name] for name, rate in self._written(at_us).items()}
        for slope in slopes.values():
            slope[np.abs(slope) < _LEAST] = 0.0
        times = [
            waiting / -slope
            for name in slopes
            for waiting, slope in zip(self._waiting[name], slopes[name], strict=True)
            if slope < 0 < waiting
        ]
        until_s = min([end_s, *(start_s + float(time) for time in times)])
        for name, slope in slopes.items():
            left = self._waiting[name] + slope * (until_s - start_s)
            self._waiting[name] = np.where(left < _LEAST, 0.0, left)
        return until_s
