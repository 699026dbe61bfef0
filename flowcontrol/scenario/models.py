"""A scenario, field by field: what a file may say, what it means, and how it is written down.

Each field is declared here once. Its type reads the value in the file, and refuses it
(:mod:`~flowcontrol.scenario.fields`); its description gives meaning, unit and default, with the
option of Flink or Spark that it corresponds to, and is part of the refusals ("is missing: ...").
What a file leaves out because it follows from other keys is filled in by
:mod:`flowcontrol.scenario.resolve`.

A run depends on a :class:`Scenario` and on nothing else of the file: two files with equal
scenarios are the same scenario, and :meth:`Scenario.canonical` is equal for both.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final, Literal

import yaml
from pydantic import Field, ValidationInfo, field_validator

from flowcontrol.scenario import fields as f
from flowcontrol.scenario.job_models import JobSpan
from flowcontrol.scenario.key_distribution import KeyDistribution
from flowcontrol.scenario.mapping import Mapping as _Model
from flowcontrol.scenario.option_table import NetworkOptions
from flowcontrol.scenario.schedule import MICROSECONDS, Rate, Rates, Schedule, Span, merged
from flowcontrol.scenario.system import SystemSpec

LIVE_ROUND_MS: Final = 500.0
"""Emulated milliseconds of a micro-batch on the live clock when a scenario does not say."""

Partitioner = Literal[
    "forward", "rebalance", "rescale", "shuffle", "hash", "broadcast", "global", "custom"
]
PartitionType = Literal[
    "pipelined_bounded",
    "pipelined",
    "pipelined_approximate",
    "blocking",
    "sort_merge",
    "hybrid_full",
    "hybrid_selective",
]


def _us(number: float, unit_us: int) -> int:
    """Return a number of the file in microseconds, given the unit in microseconds."""
    return int(Fraction(repr(number)) * unit_us)


class Cluster(_Model):
    """The machines; two subtasks on one task manager exchange locally, without credits."""

    quiet = frozenset({"disk_bytes_per_s", "serialization_bytes_per_s"})

    task_managers: f.Count = Field(default=2, description="number of processes; default 2")
    slots: f.Count | None = f.or_none(
        "slots of a task manager (taskmanager.numberOfTaskSlots), each holding at "
        "most one subtask of every stage; default: as many as the placement needs"
    )
    network_latency_ms: f.Milliseconds = Field(
        default=0.0, description="one way, ms; rounded up to whole rounds"
    )
    bandwidth_bytes_per_s: f.PositiveBytesPerSecond | None = f.or_none(
        "per connection, bytes/s; default: unlimited"
    )
    disk_bytes_per_s: f.PositiveBytesPerSecond | None = f.or_none(
        "of the disk of each task manager, reads and writes together, bytes/s; "
        "needed by edges whose partition_type spills"
    )
    serialization_bytes_per_s: f.PositiveBytesPerSecond = Field(
        default=250e6,
        description="what the thread of a task serialises and copies into buffers, bytes/s; "
        "counts as busy time of a source, limits nothing; default 250000000",
    )

    @property
    def network_latency_us(self) -> int:
        """One way, microseconds."""
        return _us(self.network_latency_ms, 1000)


class Input(_Model):
    """Real rows that a source replays, in their order, each once; then the source is idle."""

    format: Literal["parquet", "csv", "delta"] = Field(description="parquet, csv or delta")
    path: f.Text = Field(
        description="where the rows are, relative to the scenario file, or "
        "package:NAME/FILE for a data file of an installed Python package"
    )
    """Absolute in a scenario that was read."""
    key: f.Text | None = f.or_none("column whose value a hash edge partitions by; default: none")


class Output(_Model):
    """Where a sink writes the rows it took; without one it counts and drops them."""

    format: Literal["delta"] = Field(description="delta")
    path: f.WorkedOut[f.Text] = f.or_none(
        "folder of the table inside the run's folder; default: output/<stage>"
    )


class Stall(_Model):
    """A time during which subtasks are stalled: a garbage collection, a hung sink."""

    at_s: f.Moment = Field(description="start, s")
    for_s: f.PositiveSeconds = Field(description="length, s")
    subtasks: f.WorkedOut[tuple[f.Index, ...]] = f.or_none(
        "which subtasks; default: all of the stage"
    )

    @property
    def span(self) -> Span:
        """First microsecond, and the one after the last."""
        return int(self.at_s * MICROSECONDS), int((self.at_s + self.for_s) * MICROSECONDS)


class Stage(_Model):
    """One operator of the job."""

    quiet = frozenset(
        {"emit_rate", "arrival_rate", "latency_from", "service_rate", "input", "output", "stalls"}
    )

    name: f.StageName = Field(description="its name, unlike every other stage's")
    parallelism: f.Parallelism = Field(default=1, description="number of subtasks; default 1")
    emit_rate: Rates | None = f.or_none(
        "records/s per subtask that a source may emit: a number, a schedule "
        "[{at_s, rate}], or a list with one of either per subtask"
    )
    arrival_rate: Rates | None = f.or_none(
        "records/s per subtask that are written to the log that a source reads (a topic, of which "
        "each subtask reads one partition): a number, a schedule [{at_s, rate}], or a list with "
        "one of either per subtask; emit_rate is then how fast it can read, and what it has not "
        "read waits in the log; default: no log, and what a blocked source does not emit is lost"
    )
    latency_from: Literal["emission", "arrival"] = Field(
        default="emission",
        description="of a source with an arrival_rate: whether the latency of its records counts "
        "from when it reads them (emission) or from when they were written to its log (arrival); "
        "default emission",
    )
    service_rate: Rates | None = f.or_none(
        "records/s per subtask that the stage can process: a number, a schedule "
        "[{at_s, rate}], or a list with one of either per subtask; default: never the bottleneck"
    )
    total_rate: Rate | None = f.or_none(
        "records/s of all subtasks together, divided evenly: in the place of emit_rate of a "
        "source, of service_rate of another stage; a number or a schedule [{at_s, rate}]"
    )
    total_arrival_rate: Rate | None = f.or_none(
        "records/s that are written to the logs of all subtasks together (a topic, its partitions "
        "evenly), in the place of arrival_rate; a number or a schedule [{at_s, rate}]"
    )
    record_bytes: f.WorkedOut[f.Bytes] = f.or_none(
        "serialised size of a record with its 4-byte length, bytes; holds "
        "downstream until a stage states its own; default of a source: 1024"
    )
    selectivity_exact: f.Selectivity = Field(
        default=Fraction(1), alias="selectivity", description="records out per record in; default 1"
    )
    placement: f.WorkedOut[tuple[f.Index, ...]] = f.or_none(
        "task manager of each subtask; default: one after the other over all "
        "subtasks of the job, or of a chained stage: where its sender's are"
    )
    input: Input | None = f.or_none("real rows for a source to replay")
    output: Output | None = f.or_none("table that a sink writes")
    stalls: tuple[Stall, ...] = Field(default=(), description="stalls of subtasks")
    service_time: Literal["constant", "exponential", "lognormal"] = Field(
        default="constant",
        description="distribution of the time that a record takes, its mean being 1/service_rate; "
        "of a source, of the time between two emissions (exponential: a Poisson stream); drawn "
        "from the seed, without effect on a stage without a rate; default constant",
    )
    service_time_cv: f.WorkedOut[f.Variation] = f.or_none(
        "lognormal: standard deviation of the time over its mean; default 1"
    )

    @field_validator("stalls")
    @classmethod
    def _whose_stalls(cls, stalls: tuple[Stall, ...], info: ValidationInfo) -> tuple[Stall, ...]:
        every = {"subtasks": tuple(range(info.data.get("parallelism", 1)))}
        return tuple(
            stall if f.is_stated(stall, "subtasks") else stall.model_copy(update=every)
            for stall in stalls
        )

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield contradictions between two keys of the stage: a key and the refusal."""
        count = self.parallelism
        for key in ("emit_rate", "arrival_rate", "service_rate"):
            rates = getattr(self, key)
            if rates == ():
                yield key, "[] is empty: write a rate, or one for each subtask"
            elif rates is not None and len(rates) != count:
                text = f"{len(rates)} for {count} subtasks: write a rate for each, or one for all"
                yield key, text
        for key in ("emit_rate", "service_rate"):
            if getattr(self, key) is not None and self.total_rate is not None:
                yield "total_rate", f"total_rate and {key} are given: keep one of them"
        if self.arrival_rate is not None and self.total_arrival_rate is not None:
            text = "total_arrival_rate and arrival_rate are given: keep one of them"
            yield "total_arrival_rate", text
        for k, stall in enumerate(self.stalls):
            for subtask in stall.subtasks:
                if subtask >= count:
                    text = f"{subtask} is no subtask: there are {count}, from 0"
                    yield f"stalls[{k}].subtasks", text
        is_log = self.arrival_rate is not None or self.total_arrival_rate is not None
        if self.latency_from == "arrival" and not is_log:
            text = (
                "'arrival': nothing arrives without a log: state an arrival_rate, or use emission"
            )
            yield "latency_from", text
        if f.is_stated(self, "service_time_cv") and self.service_time != "lognormal":
            text = (
                f"{self.service_time_cv:g}: {self.service_time} times take no coefficient of "
                "variation: take it out, or write service_time: lognormal"
            )
            yield "service_time_cv", text

    def is_written(self, key: str) -> bool:
        """Tell whether a key is written down: a variation only where times vary so."""
        if key == "service_time_cv":
            return self.service_time == "lognormal"
        if key in {"emit_rate", "service_rate", "total_rate"} and self.is_total_divided:
            return key == "total_rate"
        if key in {"arrival_rate", "total_arrival_rate"} and self.is_arrival_divided:
            return key == "total_arrival_rate"
        is_total = key in {"total_rate", "total_arrival_rate"}
        return not is_total and super().is_written(key)

    @property
    def is_total_divided(self) -> bool:
        """Whether the rates of the subtasks are even parts of ``total_rate``."""
        rates = self.service_rate if self.emit_rate is None else self.emit_rate
        return _is_divided(self.total_rate, rates, self.parallelism)

    @property
    def is_arrival_divided(self) -> bool:
        """Whether the logs of the subtasks get even parts of ``total_arrival_rate``."""
        return _is_divided(self.total_arrival_rate, self.arrival_rate, self.parallelism)

    @property
    def selectivity(self) -> float:
        """Records out, on each output edge, per record in, as the nearest double."""
        return float(self.selectivity_exact)

    @property
    def is_source(self) -> bool:
        """True for a stage that emits by itself."""
        return self.emit_rate is not None

    @property
    def reads_log(self) -> bool:
        """True for a source that reads a log, which keeps what the source has not read."""
        return self.arrival_rate is not None

    def stalled(self, subtask: int) -> tuple[Span, ...]:
        """Return the stalls of a subtask.

        Parameters
        ----------
        subtask : int
            Its index.

        Returns
        -------
        tuple of (int, int)
            First microsecond and the one after the last, in the order of time; stalls that
            overlap or touch are one.

        Raises
        ------
        IndexError
            If there is no such subtask.
        """
        if not 0 <= subtask < self.parallelism:
            text = f"{subtask} is no subtask of {self.name!r}: there are {self.parallelism}, from 0"
            raise IndexError(text)
        return merged(stall.span for stall in self.stalls if subtask in stall.subtasks)

    def rates(self, subtask: int) -> Schedule | None:
        """Return the rate at which a subtask emits or serves, its stalls cut out.

        Parameters
        ----------
        subtask : int
            Its index.

        Returns
        -------
        Schedule or None
            The rate is 0 while the subtask is stalled, and lost work is not made up. None: the
            stage states no rate, but :meth:`stalled` still applies.

        Raises
        ------
        IndexError
            If there is no such subtask.
        """
        spans = self.stalled(subtask)
        schedules = self.service_rate if self.emit_rate is None else self.emit_rate
        return None if schedules is None else schedules[subtask].without(spans)


def _is_divided(
    total: Schedule | None, rates: tuple[Schedule, ...] | None, parallelism: int
) -> bool:
    return total is not None and rates == total.divided(parallelism)


class Edge(_Model):
    """All channels from one stage to another."""

    quiet = frozenset({"key_weights", "key_distribution", "channel_weights", "key"})

    sender: str = Field(alias="from", strict=True, description="name of the sending stage")
    receiver: str = Field(alias="to", strict=True, description="name of the receiving stage")
    partitioner: f.WorkedOut[Partitioner] = f.or_none(
        "how records choose a channel; default as Flink: forward between equal "
        "parallelisms, else rebalance"
    )
    key_weights: dict[str, f.Weight] | None = f.or_none(
        "hash: share of each key; key groups route the keys"
    )
    key_distribution: KeyDistribution | None = f.or_none(
        "hash: weights of many keys in the place of key_weights: zipf, uniform or hot"
    )
    channel_weights: tuple[f.Weight, ...] | None = f.or_none(
        "hash and custom: share of each receiving subtask"
    )
    key: f.Text | None = f.or_none(
        "hash of replayed rows: the column; default: the key of the input"
    )
    chain: bool = Field(
        default=False,
        strict=True,
        description="true: both stages are one task, no buffers between (Flink: "
        "pipeline.operator-chaining); needs forward, equal parallelism, no other input of the "
        "receiver and equal placement: without its own a chained stage takes its sender's, and "
        "its subtasks do not count where those of the others are placed one after the other; "
        "default false",
    )
    partition_type: PartitionType = Field(
        default="pipelined_bounded",
        description="kind of result partition (Flink's ResultPartitionType): pipelined_bounded, "
        "pipelined, blocking (by hash), sort_merge, hybrid_full, hybrid_selective; all but the "
        "first two need cluster.disk_bytes_per_s; default pipelined_bounded",
    )

    @property
    def name(self) -> str:
        """Name in the results: ``source->sink``."""
        return f"{self.sender}->{self.receiver}"

    @property
    def folder(self) -> str:
        """Name of its folder: ``source-sink``, unique in the job."""
        return f"{self.sender}-{self.receiver}"


class ScenarioHead(_Model):
    """The top of the file; system, options, jobs, stages and edges are read one by one."""

    schema_version: Literal[1] = Field(alias="schema", description="version of this format: 1")
    name: f.Name = Field(description="name of the scenario, and of its folder of results")
    duration_s: f.PositiveFloatSeconds = Field(description="emulated length of the run, s")
    round_ms: f.PositiveMilliseconds | None = f.or_none(
        "emulated time of a round, ms (live clock: of a micro-batch); default: "
        "500 on the live clock, chosen by the virtual one"
    )
    sample_interval_s: f.PositiveFloatSeconds = Field(
        default=1.0, description="one row of results each, s; default 1"
    )
    seed: f.Seed = Field(default=1, description="of everything that is drawn; default 1")
    system: Any = Field(default="flink", description="flow control; default flink")
    cluster: Cluster = Field(default=Cluster(), description="the machines")
    options: dict[Any, Any] = Field(default={}, description="Flink's own options")
    jobs: Any = f.or_none("several jobs on the same machines, in place of stages and edges")
    stages: tuple[Any, ...] = Field(min_length=1, description="the operators of the job")
    edges: tuple[Any, ...] = Field(min_length=1, description="who sends to whom")


class Scenario(ScenarioHead):
    """A job, its machines and its workload; or several jobs on the same machines."""

    system: SystemSpec
    options: NetworkOptions  # type: ignore[assignment]
    stages: tuple[Stage, ...]
    edges: tuple[Edge, ...]
    jobs: tuple[JobSpan, ...] = ()
    """The jobs, each with its stages; empty: all stages are one job."""

    @property
    def shares_memory(self) -> bool:
        """Whether local pools come and go during the run, and share the network memory."""
        if len(self.jobs) == 1:
            return self.jobs[0].start_us > 0 or self.jobs[0].stop_us is not None
        return len(self.jobs) > 1

    @property
    def duration_us(self) -> int:
        """Emulated length of the run, microseconds."""
        return _us(self.duration_s, MICROSECONDS)

    @property
    def sample_interval_us(self) -> int:
        """Time between two samples, microseconds."""
        return _us(self.sample_interval_s, MICROSECONDS)

    @property
    def live_round_us(self) -> int:
        """Emulated time of a round on the live clock, microseconds."""
        return _us(LIVE_ROUND_MS if self.round_ms is None else self.round_ms, 1000)

    def stage(self, name: str) -> Stage:
        """Return the stage of that name; KeyError if there is none."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise KeyError(name)

    @property
    def sources(self) -> tuple[Stage, ...]:
        """Stages without an input edge, in the order of the file."""
        return tuple(stage for stage in self.stages if not self.inputs(stage.name))

    @property
    def sinks(self) -> tuple[Stage, ...]:
        """Stages without an output edge, in the order of the file."""
        return tuple(stage for stage in self.stages if not self.outputs(stage.name))

    def inputs(self, name: str) -> tuple[Edge, ...]:
        """Return the edges into a stage, in the order of the file."""
        return tuple(edge for edge in self.edges if edge.receiver == name)

    def outputs(self, name: str) -> tuple[Edge, ...]:
        """Return the edges out of a stage, in the order of the file."""
        return tuple(edge for edge in self.edges if edge.sender == name)

    def topological(self) -> tuple[Stage, ...]:
        """Return the stages, senders before receivers, else in the order of the file."""
        done: list[Stage] = []
        left = list(self.stages)
        while left:
            names = {stage.name for stage in left}
            free = [s for s in left if not any(e.sender in names for e in self.inputs(s.name))]
            done.append(free[0])
            left.remove(free[0])
        return tuple(done)

    def downstream(self, name: str) -> tuple[str, ...]:
        """Return the stages that records of a stage reach, senders before receivers."""
        found = dict.fromkeys([name])
        for stage in self.topological():
            if any(edge.sender in found for edge in self.inputs(stage.name)):
                found[stage.name] = None
        return tuple(found)[1:]

    def upstream(self, name: str) -> tuple[str, ...]:
        """Return the stages whose records reach a stage, senders before receivers."""
        found = dict.fromkeys([name])
        for stage in reversed(self.topological()):
            if any(edge.receiver in found for edge in self.outputs(stage.name)):
                found[stage.name] = None
        return tuple(found)[:0:-1]

    def canonical(self) -> dict[str, Any]:
        """Return everything that determines a run, as plain JSON in the form of a scenario file.

        Returns
        -------
        dict
            Equal for two scenarios if and only if they are equal; reading it again with
            :func:`~flowcontrol.scenario.parse_scenario` gives this scenario.
        """
        written = self.model_dump(mode="json", by_alias=True)
        jobs = written.pop("jobs")
        if jobs:
            stages, edges = written.pop("stages"), written.pop("edges")
            for job in jobs:
                names = set(job["stages"])
                job["stages"] = [stage for stage in stages if stage["name"] in names]
                job["edges"] = [edge for edge in edges if edge["from"] in names]
            written["jobs"] = jobs
        return written

    def to_yaml(self) -> str:
        """Return :meth:`canonical` as the text of a scenario file."""
        return yaml.safe_dump(self.canonical(), sort_keys=False, allow_unicode=True)
