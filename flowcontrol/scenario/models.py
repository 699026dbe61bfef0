"""A scenario, field by field: allowed values, their meaning, and how they are written.

Each field is declared here once. Its type reads the value in the file, and refuses it
(:mod:`~flowcontrol.scenario.fields`); its description gives meaning, unit and default, with the
option of Flink or Spark that it corresponds to, and is part of the refusals ("is missing: ...").
What a file leaves out because it follows from other keys is filled in by
:mod:`flowcontrol.scenario.resolve`.

A run depends on a :class:`Scenario` and on nothing else of the file: two files with equal
scenarios are the same scenario, and :meth:`Scenario.canonical` is equal for both.
"""

from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, Literal

import yaml

from flowcontrol.scenario import fields as f
from flowcontrol.scenario.event_time import TimeModel
from flowcontrol.scenario.fault_tolerance import (
    Checkpointing,
    Failure,
    Heartbeat,
    RestartPolicy,
    Savepoint,
    checkpointing_of,
    heartbeat_of,
    restart_policy_of,
)
from flowcontrol.scenario.jobs import JobSpan
from flowcontrol.scenario.key_distribution import KeyDistribution, count_names
from flowcontrol.scenario.monitoring import Monitoring, Trace
from flowcontrol.scenario.options import NetworkOptions
from flowcontrol.scenario.scaling_models import Scaling
from flowcontrol.scenario.schedule import MICROSECONDS
from flowcontrol.scenario.stage_models import OperatorKeys, Stage
from flowcontrol.scenario.system import SystemSpec
from flowcontrol.scenario.windows import WindowPlan, window_plan

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

PIPELINED: Final = frozenset({"pipelined_bounded", "pipelined_approximate", "pipelined"})
"""Types of partition whose consumers run beside their producers, always."""
BLOCKING: Final = frozenset({"blocking", "sort_merge"})
"""Types whose consumers start when all producers have finished."""
SPILLING: Final = BLOCKING | {"hybrid_full", "hybrid_selective"}
"""Types that write to disk."""


def _us(number: float, unit_us: int) -> int:
    """Return a number of the file in microseconds, given the unit in microseconds."""
    return int(Decimal(repr(number)) * unit_us)


class Cluster(f.Mapping):
    """The machines; two subtasks on one task manager exchange locally, without credits."""

    quiet = frozenset(
        {
            *("disk_bytes_per_s", "serialization_bytes_per_s"),
            *("upload_bytes_per_s", "restore_bytes_per_s", "upload_slowdown"),
            *("control_latency_ms", "cores"),
        }
    )

    task_managers: f.Count = f.key("Cluster.task_managers", 2)
    slots: f.Count | None = f.key("Cluster.slots")
    network_latency_ms: f.Milliseconds = f.key("Cluster.network_latency_ms", 0.0)
    bandwidth_bytes_per_s: f.PositiveBytesPerSecond | None = f.key("Cluster.bandwidth_bytes_per_s")
    disk_bytes_per_s: f.PositiveBytesPerSecond | None = f.key("Cluster.disk_bytes_per_s")
    serialization_bytes_per_s: f.PositiveBytesPerSecond = f.key(
        "Cluster.serialization_bytes_per_s", 250e6
    )
    upload_bytes_per_s: f.PositiveBytesPerSecond = f.key("Cluster.upload_bytes_per_s", 100e6)
    restore_bytes_per_s: f.PositiveBytesPerSecond = f.key("Cluster.restore_bytes_per_s", 100e6)
    upload_slowdown: f.Share = f.key("Cluster.upload_slowdown", Fraction(0))

    control_latency_ms: f.ControlMilliseconds = f.key("Cluster.control_latency_ms", 0.0)

    cores: f.Cores | None = f.key("Cluster.cores")

    @property
    def control_latency_us(self) -> int:
        """Of a call of the control plane, microseconds."""
        return _us(self.control_latency_ms, 1000)

    @property
    def network_latency_us(self) -> int:
        """One way, microseconds."""
        return _us(self.network_latency_ms, 1000)


class Edge(f.Mapping):
    """All channels from one stage to another."""

    quiet = frozenset({"input", "key_weights", "key_distribution", "channel_weights", "key"})

    sender: str = f.key("Edge.from", ..., alias="from", strict=True)
    receiver: str = f.key("Edge.to", ..., alias="to", strict=True)
    input: f.Index = f.key("Edge.input", 0)
    partitioner: f.WorkedOut[Partitioner] = f.key("Edge.partitioner")
    key_weights: dict[str, f.Weight] | None = f.key("Edge.key_weights")
    key_distribution: KeyDistribution | None = f.key("Edge.key_distribution")
    channel_weights: tuple[f.Weight, ...] | None = f.key("Edge.channel_weights")
    key: f.Text | None = f.key("Edge.key")
    chain: bool = f.key("Edge.chain", False, strict=True)
    partition_type: PartitionType = f.key("Edge.partition_type", "pipelined_bounded")

    @property
    def name(self) -> str:
        """Name in the results: ``source->sink``."""
        return f"{self.sender}->{self.receiver}"

    @property
    def is_blocking(self) -> bool:
        """Whether its consumers start when all producers have finished."""
        return self.partition_type in BLOCKING

    @property
    def is_spilling(self) -> bool:
        """Whether it writes to disk."""
        return self.partition_type in SPILLING

    @property
    def folder(self) -> str:
        """Name of its folder: ``source-sink``, unique in the job."""
        return f"{self.sender}-{self.receiver}"


class ScenarioHead(f.Mapping):
    """The top of the file; system, options, jobs, stages and edges are read one by one."""

    quiet = frozenset(
        {"savepoints", "failures", "scaling", "trace", "monitoring", "time_model", "batch_s"}
    )

    schema_version: Literal[1] = f.key("top.schema", ..., alias="schema")
    name: f.Name = f.key("top.name", ...)
    duration_s: f.PositiveFloatSeconds = f.key("top.duration_s", ...)
    round_ms: f.PositiveMilliseconds | None = f.key("top.round_ms")
    sample_interval_s: f.PositiveFloatSeconds = f.key("top.sample_interval_s", 1.0)
    seed: f.Seed = f.key("top.seed", 1)
    system: Any = f.key("top.system", "flink")
    cluster: Cluster = f.key("top.cluster", Cluster())
    options: dict[Any, Any] = f.key("top.options", {})
    savepoints: tuple[Savepoint, ...] = f.key("top.savepoints", ())
    failures: tuple[Failure, ...] = f.key("top.failures", ())
    scaling: Scaling | None = f.key("top.scaling")
    trace: Trace | None = f.key("top.trace")
    monitoring: Monitoring | None = f.key("top.monitoring")
    time_model: f.WorkedOut[TimeModel] = f.key("top.time_model")
    batch_s: f.PositiveSeconds | None = f.key("top.batch_s")
    jobs: Any = f.key("top.jobs")
    operators: Any = f.key("top.operators")
    stages: tuple[Any, ...] = f.key("top.stages", ..., min_length=1)
    edges: tuple[Any, ...] = f.key("top.edges", ..., min_length=1)

    def is_written(self, key: str) -> bool:
        """Tell whether a key is written down: Flink's event time is what most jobs have."""
        return super().is_written(key) and not (key == "time_model" and self.time_model == "flink")


class Scenario(ScenarioHead):
    """A job, its machines and its workload; or several jobs on the same machines."""

    system: SystemSpec
    options: NetworkOptions  # type: ignore[assignment]
    operators: tuple[OperatorKeys, ...] = ()
    """What Flink's graphs depend on, one for each stage; empty: the file has stages."""
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

    @property
    def checkpointing(self) -> Checkpointing | None:
        """How the job checkpoints; None without an interval and without savepoints."""
        is_old = self.system.transport == "tcp"
        return checkpointing_of(self.options, has_savepoints=bool(self.savepoints), is_old=is_old)

    @property
    def restart_strategy(self) -> RestartPolicy:
        """Whether and when the job is started again after a failure."""
        return restart_policy_of(self.options)

    @property
    def heartbeat(self) -> Heartbeat:
        """How the death of a task manager is noticed."""
        return heartbeat_of(self.options)

    @property
    def is_fault_tolerant(self) -> bool:
        """Whether a run has the tables :data:`flowcontrol.records.FAULT_TOLERANCE`."""
        return self.checkpointing is not None or bool(self.failures)

    @property
    def has_event_time(self) -> bool:
        """Whether the records of any source have an event time."""
        return any(stage.event_time is not None for stage in self.stages)

    @property
    def has_stamps(self) -> bool:
        """Whether records carry a stamp, an event time and an id from which their key follows."""
        return self.has_event_time or any(stage.window is not None for stage in self.stages)

    @property
    def counts_processors(self) -> bool:
        """Whether a run follows what its tasks use of the processors."""
        return self.cluster.cores is not None or any(one.cpu is not None for one in self.stages)

    @property
    def has_processes(self) -> bool:
        """Whether a run has the table ``processes``."""
        return self.counts_processors or any(stage.stalls for stage in self.stages)

    @property
    def is_batch(self) -> bool:
        """Whether it is a batch job of Flink: results are blocking where an edge does not say."""
        return self.options.runtime_mode == "batch"

    @property
    def batch_us(self) -> int | None:
        """Length of a batch of Spark's event time, microseconds; None if it is not stated."""
        return None if self.batch_s is None else int(self.batch_s * MICROSECONDS)

    @property
    def alignment_groups(self) -> tuple[str, ...]:
        """Names of the groups of aligned sources, in the order in which the file names them."""
        marks = [stage.watermark for stage in self.stages if stage.watermark is not None]
        found = [mark.alignment.group for mark in marks if mark.alignment is not None]
        return tuple(dict.fromkeys(found))

    def window_of(self, name: str) -> WindowPlan | None:
        """Return the window of a stage, with everything in milliseconds.

        None: the stage has no window. Raises KeyError if there is no such stage.
        """
        window = self.stage(name).window
        if window is None:
            return None
        edges, sources = self.inputs(name), self.sources_of(name)
        inputs = [source.input for source in sources if source.input is not None]
        columns = [*(edge.key for edge in edges), *(one.key for one in inputs)]
        return window_plan(
            window,
            has_event_time=all(source.event_time is not None for source in sources),
            keys=None if inputs else window.keys or count_names(edges) or 1,
            key_column=next((key for key in columns if key is not None), None) if inputs else None,
        )

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
        done, left = list[Stage](), {stage.name: stage for stage in self.stages}
        senders = {name: {edge.sender for edge in self.inputs(name)} for name in left}
        while left:
            free = next(name for name in left if left.keys().isdisjoint(senders[name]))
            done.append(left.pop(free))
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

    def sources_of(self, name: str) -> tuple[Stage, ...]:
        """Return the sources whose records leave a stage: itself, if it is one."""
        above = {name, *self.upstream(name)}
        return tuple(stage for stage in self.sources if stage.name in above)

    def timed_by(self, name: str) -> tuple[str, ...]:
        """Return the sources before a stage, itself included, if rows of one bring event times.

        Such times have nothing to do with the clock of the run, so watermarks are compared with
        those of these sources. Empty: times are made, 0 being the start of the run.
        """
        found = self.sources_of(name)
        times = [source.event_time for source in found]
        is_own = any(one is not None and one.column is not None for one in times)
        return tuple(source.name for source in found) if is_own else ()

    def canonical(self) -> dict[str, Any]:
        """Return everything that determines a run, as plain JSON in the form of a scenario file.

        Equal for two scenarios if and only if they are equal; reading it again with
        :func:`~flowcontrol.scenario.parse_scenario` gives this scenario.
        """
        written = self.model_dump(mode="json", by_alias=True)
        jobs = written.pop("jobs")
        operators = written.pop("operators")
        if operators:
            stages = zip(operators, written.pop("stages"), strict=True)
            written["operators"] = [{**own, **stage} for own, stage in stages]
            for operator in written["operators"]:
                del operator["placement"]
            for edge, read in zip(written["edges"], self.edges, strict=True):
                del edge["chain"]
                if self.is_batch and "partition_type" not in read.model_fields_set:
                    del edge["partition_type"]
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
