"""The scenario file as it is written: one model a mapping, every key described.

The descriptions are part of the refusals ("is missing: ..."), so they say meaning, unit,
default and the option of Flink or Spark that a key stands for. What the keys mean together
is worked out in :mod:`flowcontrol.scenario.resolve`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from flowcontrol.scenario import fields as f

__all__ = [
    "PARTITIONERS",
    "PARTITION_TYPES",
    "ClusterSpec",
    "EdgeSpec",
    "HeadSpec",
    "InputSpec",
    "JobSpec",
    "OutputSpec",
    "PhaseSpec",
    "StageSpec",
    "StallSpec",
]

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
PARTITIONERS: tuple[str, ...] = Partitioner.__args__  # type: ignore[attr-defined]
PARTITION_TYPES: tuple[str, ...] = PartitionType.__args__  # type: ignore[attr-defined]


class _Spec(BaseModel):
    """What all mappings of the file share: frozen, no key that nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PhaseSpec(_Spec):
    """One phase of a schedule."""

    at_s: f.Moment = Field(description="start of the phase, s since the start of the run")
    rate: f.PerSecond = Field(description="records/s per subtask from then on")


TAG_MARK = "rate="
"""Begins the tags of :data:`Rates`, which pydantic puts into an error's place."""


def _kind_of_rate(value: Any) -> str:
    """Tell a number, a schedule (a list of mappings) and a list per subtask apart."""
    if isinstance(value, dict):
        return f"{TAG_MARK}schedule"
    if not isinstance(value, list | tuple):
        return f"{TAG_MARK}number"
    is_schedule = bool(value) and all(isinstance(item, dict | PhaseSpec) for item in value)
    return f"{TAG_MARK}schedule" if is_schedule else f"{TAG_MARK}subtasks"


_Number = Annotated[f.PerSecond, Tag(f"{TAG_MARK}number")]
_Schedule = Annotated[tuple[PhaseSpec, ...], Tag(f"{TAG_MARK}schedule")]
_OneRate = Annotated[_Number | _Schedule, Discriminator(_kind_of_rate)]
_PerSubtask = Annotated[tuple[_OneRate, ...], Tag(f"{TAG_MARK}subtasks")]
Rates = Annotated[_Number | _Schedule | _PerSubtask, Discriminator(_kind_of_rate)]


class InputSpec(_Spec):
    """Real rows that a source replays."""

    format: Literal["parquet", "csv", "delta"] = Field(description="parquet, csv or delta")
    path: str = Field(
        strict=True,
        min_length=1,
        description="where the rows are, relative to the scenario file, or "
        "package:NAME/FILE for a data file of an installed Python package",
    )
    key: str | None = Field(
        default=None,
        strict=True,
        min_length=1,
        description="column whose value a hash edge partitions by; default: none",
    )


class OutputSpec(_Spec):
    """Where a sink writes the rows it took; without one it counts and drops them."""

    format: Literal["delta"] = Field(description="delta")
    path: str | None = Field(
        default=None,
        strict=True,
        min_length=1,
        description="folder of the table inside the run's folder; default: output/<stage>",
    )


class StallSpec(_Spec):
    """A time during which subtasks stand still: a garbage collection, a hung sink."""

    at_s: f.Moment = Field(description="start, s")
    for_s: f.PositiveSeconds = Field(description="length, s")
    subtasks: tuple[f.Index, ...] | None = Field(
        default=None, description="which subtasks; default: all of the stage"
    )


class StageSpec(_Spec):
    """One operator of the job."""

    name: f.StageName = Field(description="its name, unlike every other stage's")
    parallelism: f.Parallelism = Field(default=1, description="number of subtasks; default 1")
    emit_rate: Rates | None = Field(
        default=None,
        description="records/s per subtask that a source may emit: a number, a schedule "
        "[{at_s, rate}], or a list with one of either per subtask",
    )
    service_rate: Rates | None = Field(
        default=None,
        description="records/s per subtask that the stage can process: a number, a schedule "
        "[{at_s, rate}], or a list with one of either per subtask; default: never the bottleneck",
    )
    record_bytes: f.Bytes | None = Field(
        default=None,
        description="serialised size of a record with its 4-byte length, bytes; holds "
        "downstream until a stage states its own; default of a source: 1024",
    )
    selectivity: f.Selectivity | None = Field(
        default=None, description="records out per record in; default 1"
    )
    placement: tuple[f.Index, ...] | None = Field(
        default=None,
        description="task manager of each subtask; default: one after the other over all "
        "subtasks of the job, or of a chained stage: where its sender's are",
    )
    input: InputSpec | None = Field(default=None, description="real rows for a source to replay")
    output: OutputSpec | None = Field(default=None, description="table that a sink writes")
    stalls: tuple[StallSpec, ...] = Field(default=(), description="times of standing still")
    service_time: Literal["constant", "exponential", "lognormal"] = Field(
        default="constant",
        description="distribution of the time that a record takes, its mean being 1/service_rate; "
        "of a source, of the time between two emissions (exponential: a Poisson stream); drawn "
        "from the seed, without effect on a stage without a rate; default constant",
    )
    service_time_cv: f.Variation | None = Field(
        default=None,
        description="lognormal: standard deviation of the time over its mean; default 1",
    )


class EdgeSpec(_Spec):
    """All channels from one stage to another."""

    sender: str = Field(alias="from", strict=True, description="name of the sending stage")
    receiver: str = Field(alias="to", strict=True, description="name of the receiving stage")
    partitioner: Partitioner | None = Field(
        default=None,
        description="how records choose a channel; default as Flink: forward between equal "
        "parallelisms, else rebalance",
    )
    key_weights: dict[str, f.Weight] | None = Field(
        default=None, description="hash: share of each key; key groups route the keys"
    )
    channel_weights: tuple[f.Weight, ...] | None = Field(
        default=None, description="hash and custom: share of each receiving subtask"
    )
    key: str | None = Field(
        default=None,
        strict=True,
        min_length=1,
        description="hash of replayed rows: the column; default: the key of the input",
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


class ClusterSpec(_Spec):
    """The machines."""

    task_managers: f.Count = Field(default=2, description="number of processes; default 2")
    slots: f.Count | None = Field(
        default=None,
        description="slots of a task manager (taskmanager.numberOfTaskSlots), each holding at "
        "most one subtask of every stage; default: as many as the placement needs",
    )
    network_latency_ms: f.Milliseconds = Field(
        default=0, validate_default=True, description="one way, ms; rounded up to whole rounds"
    )
    bandwidth_bytes_per_s: f.PositiveBytesPerSecond | None = Field(
        default=None, description="per connection, bytes/s; default: unlimited"
    )
    disk_bytes_per_s: f.PositiveBytesPerSecond | None = Field(
        default=None,
        description="of the disk of each task manager, reads and writes together, bytes/s; "
        "needed by edges whose partition_type spills",
    )
    serialization_bytes_per_s: f.PositiveBytesPerSecond = Field(
        default=250_000_000,
        validate_default=True,
        description="what the thread of a task serialises and copies into buffers, bytes/s; "
        "counts as busy time of a source, limits nothing; default 250000000",
    )


class HeadSpec(_Spec):
    """The top of the file; stages and edges are read one by one."""

    schema_version: Literal[1] = Field(alias="schema", description="version of this format: 1")
    name: f.Name = Field(description="name of the scenario, and of its folder of results")
    duration_s: f.PositiveSeconds = Field(description="emulated length of the run, s")
    round_ms: f.PositiveMilliseconds | None = Field(
        default=None,
        description="emulated time of a round, ms (live clock: of a micro-batch); default: "
        "500 on the live clock, chosen by the virtual one",
    )
    sample_interval_s: f.PositiveSeconds = Field(
        default=1, validate_default=True, description="one row of results each, s; default 1"
    )
    seed: f.Seed = Field(default=1, description="of everything that is drawn; default 1")
    system: Any = Field(default="flink", description="flow control; default flink")
    cluster: ClusterSpec = Field(default=ClusterSpec(), description="the machines")
    options: dict[Any, Any] = Field(default={}, description="Flink's own options")
    jobs: Any = Field(
        default=None,
        description="several jobs on the same machines, in place of stages and edges",
    )
    stages: tuple[Any, ...] = Field(min_length=1, description="the operators of the job")
    edges: tuple[Any, ...] = Field(min_length=1, description="who sends to whom")


class JobSpec(_Spec):
    """One of several jobs; its stages and edges are read one by one."""

    name: f.Name = Field(description="its name, unlike every other job's")
    start_at_s: f.Moment = Field(
        default=0, validate_default=True, description="when it is submitted, s; default 0"
    )
    stop_at_s: f.Moment | None = Field(
        default=None, description="when it is cancelled, s; default: it runs to the end"
    )
    stages: tuple[Any, ...] = Field(min_length=1, description="the operators of the job")
    edges: tuple[Any, ...] = Field(min_length=1, description="who sends to whom")
