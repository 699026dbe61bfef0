"""A Flink job's reports over several polls: vertices, subtasks, counters and gauges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Final

from flowcontrol.analysis.limits import NOTICEABLE, SATURATED
from flowcontrol.calibration.draft import Draft

COUNTERS: Final = ("records_in", "records_out", "bytes_in", "bytes_out")
TIMES: Final = ("busy_ms", "idle_ms", "blocked_ms")
GAUGES: Final = (
    "in_pool_usage",
    "out_pool_usage",
    "floating_buffers_usage",
    "exclusive_buffers_usage",
    "input_queue_buffers",
    "output_queue_buffers",
    "lag_records",
    "busy_ms_per_s",
    "idle_ms_per_s",
    "blocked_ms_per_s",
)


@dataclass(frozen=True)
class Reading:
    """A subtask at a poll."""

    at_ms: float  # When Flink answered, ms since 1970
    # Counters since the start of the task, accumulated times (ms) and gauges, by the names of
    # `COUNTERS`, `TIMES` and `GAUGES`; what Flink does not know is left out.
    values: Mapping[str, float]


@dataclass(frozen=True)
class Subtask:
    """A subtask over all polls."""

    readings: tuple[Reading, ...]  # In the order of time
    task_manager: str = ""  # Id of the task manager that it runs on; empty if that is unknown

    def growth(self, name: str) -> float | None:
        """Return how much a counter or an accumulated time grew; None if it is not known twice.

        Flink accumulates times from 1.16 on. Of a time that is not accumulated, the mean of its
        gauge (``busyTimeMsPerSecond``, from 1.13 on) says how much it grew.
        """
        grown = self._counted(name)
        share = self.mean(f"{name}_per_s") if grown is None and name in TIMES else None
        return grown if share is None else share * self.wall_ms / 1000

    def _counted(self, name: str) -> float | None:
        known = [one.values[name] for one in self.readings if name in one.values]
        return known[-1] - known[0] if len(known) > 1 else None

    def is_gauged(self, name: str) -> bool:
        """Whether how much a time grew is known by its gauge alone."""
        return self._counted(name) is None and self.mean(f"{name}_per_s") is not None

    def error(self, name: str) -> float:
        """Return the relative error of how much a time grew: a millisecond, or that of a mean."""
        grown = self.growth(name) or 1.0
        known = [one.values[f"{name}_per_s"] for one in self.readings
                 if self.is_gauged(name) and f"{name}_per_s" in one.values]  # fmt: skip
        if len(known) < 2 or not any(known):
            return 1 / grown
        return float(stdev(known) / len(known) ** 0.5 / fmean(known))

    @property
    def wall_ms(self) -> float:
        """Time from the first to the last poll, ms."""
        return self.readings[-1].at_ms - self.readings[0].at_ms

    @property
    def timed_ms(self) -> float | None:
        """Growth of the three times together, ms: the time between two *readings* of the task.

        The three add up to the time since the task runs (``TaskIOMetricGroup``). Flink fetches
        metrics every ``metrics.fetcher.update-interval``, 10 s by default, so that the counters of
        a poll are older than the poll; this time is that of the counters.
        """
        growths = [self._counted(name) for name in TIMES]
        known = [one for one in growths if one is not None]
        return sum(known) if len(known) == len(TIMES) else None

    @property
    def elapsed_ms(self) -> float:
        """Time over which the counters grew, ms."""
        timed = self.timed_ms
        if timed is None or not 0.5 * self.wall_ms <= timed <= self.wall_ms + STALE_MS:
            return self.wall_ms
        return timed

    def rate(self, name: str) -> float | None:
        """Return the growth of a counter a second, or the share of a time, ms per second."""
        grown = self.growth(name)
        return None if grown is None or self.elapsed_ms <= 0 else 1000 * grown / self.elapsed_ms

    def mean(self, name: str) -> float | None:
        """Return the mean of a gauge over the polls."""
        known = [one.values[name] for one in self.readings if name in one.values]
        return sum(known) / len(known) if known else None


STALE_MS: Final = 11_000.0
"""How old the metrics of a poll may be by default, ms: a fetch every 10 s, and what it takes."""


@dataclass(frozen=True)
class Vertex:
    """A vertex of the job: what becomes a stage."""

    id: str  # id, name: flink's
    name: str
    stage: str  # Name of the stage
    subtasks: tuple[Subtask, ...]  # In their order

    @property
    def parallelism(self) -> int:
        """Number of subtasks."""
        return len(self.subtasks)

    def total(self, read: Callable[[Subtask], float | None]) -> float | None:
        """Return the sum over the subtasks; None unless all of them know it."""
        found = [read(subtask) for subtask in self.subtasks]
        known = [one for one in found if one is not None]
        return sum(known) if len(known) == len(found) else None

    def mean(self, read: Callable[[Subtask], float | None]) -> float | None:
        """Return the mean over the subtasks; None unless all of them know it."""
        found = self.total(read)
        return None if found is None else found / self.parallelism

    def count(self, name: str, poll: int) -> float | None:
        """Return a counter's sum over the subtasks at a poll; None unless all of them know it."""
        return self.total(lambda subtask: subtask.readings[poll].values.get(name))


@dataclass(frozen=True)
class FlinkEdge:
    """An edge of the job."""

    sender: str  # sender, receiver: names of the stages
    receiver: str
    ship: str  # Flink's ship strategy: ``HASH``, ``REBALANCE`` ..
    exchange: str = ""  # Flink's kind of exchange: ``pipelined_bounded`` ..

    @property
    def name(self) -> str:
        """As in the results."""
        return f"{self.sender}->{self.receiver}"


@dataclass(frozen=True)
class FlinkJob:
    """A job over some polls."""

    id: str  # id, name: flink's
    name: str
    vertices: tuple[Vertex, ...]  # In Flink's order
    edges: tuple[FlinkEdge, ...]  # Who sends to whom
    source: str  # Name of the input
    # Options of the job manager, and of the job's checkpoints, by Flink's keys.
    config: Mapping[str, str] = field(default_factory=dict)
    version: str = ""  # Of Flink; empty if unknown
    segment_bytes: int | None = None  # Size of a network buffer as the task managers count it
    # End-to-end durations of the completed checkpoints of the window.
    durations_ms: tuple[float, ...] = ()
    # By stage, means of a subtask's part in checkpoints: ``bytes``, ``sync_ms``, ``async_ms``.
    states: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    # Mean of the latency markers at a stage, ms.
    latencies: Mapping[str, float] = field(default_factory=dict)

    def stage(self, name: str) -> Vertex:
        """Return the vertex of a stage."""
        return next(vertex for vertex in self.vertices if vertex.stage == name)

    def inputs(self, stage: str) -> list[FlinkEdge]:
        """Return the edges to a stage."""
        return [edge for edge in self.edges if edge.receiver == stage]

    def outputs(self, stage: str) -> list[FlinkEdge]:
        """Return the edges from a stage."""
        return [edge for edge in self.edges if edge.sender == stage]

    @property
    def polls(self) -> int:
        """Number of polls."""
        return len(self.vertices[0].subtasks[0].readings)

    @property
    def window_s(self) -> float:
        """Time from the first to the last poll, s."""
        return self.vertices[0].subtasks[0].wall_ms / 1000


def copies(job: FlinkJob, edge: FlinkEdge) -> int:
    """Return how many receivers' counters a record of an edge is in."""
    return job.stage(edge.receiver).parallelism if edge.ship == "BROADCAST" else 1


def outputs_counted(job: FlinkJob, stage: str) -> int | None:
    """Return how often a stage's numRecordsOut counts a record; None if its outputs differ.

    A task with several outputs may count a record once for each, depending on Flink's version and
    on what is chained. What the receivers took says it, if nothing else feeds them.
    """
    outputs = job.outputs(stage)
    if len(outputs) <= 1:
        return 1
    sent = job.stage(stage).total(lambda one: one.growth("records_out"))
    taken = []
    for edge in outputs:
        count = job.stage(edge.receiver).total(lambda one: one.growth("records_in"))
        if len(job.inputs(edge.receiver)) > 1 or not count:
            return None
        taken.append(count / copies(job, edge))
    if not sent or max(taken) - min(taken) > 0.05 * max(taken):
        return None
    times = sent / (sum(taken) / len(taken))
    return round(times) if abs(times - round(times)) <= 0.1 and times >= 0.9 else None


def in_flight(job: FlinkJob, stage: str) -> list[float]:
    """Return the records in flight before a stage at each poll; empty if they cannot be known.

    What all senders have sent less what the stage has taken. Of a sender whose outputs differ
    nothing is known, since it counts them together.
    """
    edges = job.inputs(stage)
    times = {edge.sender: outputs_counted(job, edge.sender) for edge in edges}
    if None in times.values():
        return []
    found = []
    for poll in range(job.polls if edges else 0):
        taken = job.stage(stage).count("records_in", poll)
        sent = [
            None if count is None else count * copies(job, edge) / (times[edge.sender] or 1)
            for edge in edges
            for count in [job.stage(edge.sender).count("records_out", poll)]
        ]
        known = [count for count in sent if count is not None]
        if taken is not None and len(known) == len(sent):
            found.append(sum(known) - taken)
    return found


# --- What a Flink job's polls say that a run has to predict.


SHARES: Final = {
    "busy_ms": "busy_ms_per_s",
    "idle_ms": "idle_ms_per_s",
    "blocked_ms": "backpressured_ms_per_s",
}
SPREAD_MS: Final = 10.0
"""How far apart the counters of two tasks in one poll may have been read, ms: what passes meanwhile
is in one of them only."""

USAGES: Final = (
    "in_pool_usage",
    "out_pool_usage",
    "floating_buffers_usage",
    "exclusive_buffers_usage",
)


def see(draft: Draft, job: FlinkJob) -> None:
    """Note the figures of all stages, edges and checkpoints of a job."""
    for vertex in job.vertices:
        has_input = bool(job.inputs(vertex.stage))
        _see(draft, job, vertex.stage, vertex.subtasks, has_input)
        if vertex.parallelism > 1:
            for number, subtask in enumerate(vertex.subtasks):
                _see(draft, job, f"{vertex.stage}/{number}", (subtask,), has_input)
        levels = in_flight(job, vertex.stage)
        if levels:
            edges = job.inputs(vertex.stage)
            place = edges[0].name if len(edges) == 1 else f"->{vertex.stage}"
            rate = vertex.total(lambda one: one.rate("records_in")) or 0.0
            error = rate * SPREAD_MS / 1000
            draft.see(place, "in_flight_records", fmean(levels), "records", error)
        if vertex.stage in job.latencies:
            draft.see(vertex.stage, "marker_latency_ms", job.latencies[vertex.stage], "ms")
    if job.durations_ms:
        draft.see("job", "checkpoint_e2e_ms", fmean(job.durations_ms), "ms")


def _see(
    draft: Draft, job: FlinkJob, place: str, subtasks: tuple[Subtask, ...], has_input: bool
) -> None:
    """Note the figures of a stage, or of one subtask."""
    whole = Vertex("", "", "", subtasks)
    name, column = ("records_in", "rate_in") if has_input else ("records_out", "rate_out")
    rate = whole.total(lambda one: one.rate(name))
    times = 1 if has_input else outputs_counted(job, place.partition("/")[0])
    # A record more or less in the window of the input, and one in that of the run.
    whole_record = len(subtasks) * (1 / job.window_s + 1 / draft.warm_up_s)
    if rate is not None and times is not None:
        draft.see(place, column, rate / times, "records/s", whole_record)
    known = {time: whole.mean(lambda one, t=time: one.rate(t)) for time in SHARES}  # type: ignore[misc]
    busy = known["busy_ms"]
    if busy is None:  # NaN: the idle time of a legacy source is not measured, and stays 0
        known["idle_ms"] = None
    a_record = min(1.0, whole_record / rate) * (busy or 0.0) if rate else 0.0
    for time, share in SHARES.items():
        error = a_record if time != "blocked_ms" else 0.0
        draft.see(place, share, known[time], "ms/s", error)
    has_output = bool(job.outputs(place.partition("/")[0]))
    for usage in USAGES:
        if has_output if usage.startswith("out") else has_input:
            draft.see(place, usage, whole.mean(lambda one, u=usage: one.mean(u)))  # type: ignore[misc]


def limiting_stage(job: FlinkJob) -> str | None:
    """Return the stage that limits by Flink's own reading of its times; None: none does.

    The first busy stage that is not itself blocked, behind one that is. A stage is as busy, and as
    blocked, as its worst subtask. In a graph with branches, the busiest behind a blocked one.
    """
    worst = {
        vertex.stage: {
            time: max((one.rate(time) or 0.0) / 1000 for one in vertex.subtasks)
            for time in ("busy_ms", "blocked_ms")
        }
        for vertex in job.vertices
    }
    found = [
        edge.receiver
        for edge in job.edges
        if worst[edge.sender]["blocked_ms"] > NOTICEABLE
        and worst[edge.receiver]["busy_ms"] > SATURATED
        and worst[edge.receiver]["blocked_ms"] <= 1 - SATURATED
    ]
    return max(found, key=lambda stage: worst[stage]["busy_ms"]) if found else None
