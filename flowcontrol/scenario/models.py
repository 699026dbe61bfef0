"""What a scenario means: frozen models with every default filled in and every name resolved.

A run depends on these and on nothing else of the file: two files with equal models are the
same scenario, and :meth:`Scenario.canonical` is equal for both.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from flowcontrol.scenario.options import NetworkOptions
from flowcontrol.scenario.schedule import MICROSECONDS, Schedule, Span, merged
from flowcontrol.scenario.spec import Partitioner, PartitionType

__all__ = [
    "BUFFER_TRANSPORTS",
    "LIVE_ROUND_MS",
    "Cluster",
    "Edge",
    "Input",
    "JobSpan",
    "Output",
    "Scenario",
    "Stage",
    "Stall",
    "SystemSpec",
]

LIVE_ROUND_MS: Final = 500.0
"""Emulated milliseconds of a micro-batch on the live clock when a scenario does not say."""


BUFFER_TRANSPORTS: Final = ("credit", "tcp", "local", "chained")
"""Transports that move Flink's network buffers."""


class _Model(BaseModel):
    """What all models share: frozen, and nothing in them that was not declared."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _us(number: float, unit_us: int) -> int:
    """Return a number of the file, in a unit of so many microseconds, as microseconds."""
    return int(Fraction(repr(number)) * unit_us)


class SystemSpec(_Model):
    """Whose flow control is emulated.

    Attributes
    ----------
    transport : str, default "credit"
        How data and grants move between two stages.
    transport_values : dict of str to float
        Its parameters, all of them (:mod:`flowcontrol.scenario.parts_table`).
    throttle : str, default "none"
        What slows a source besides.
    throttle_values : dict of str to float
        Its parameters, all of them.
    """

    transport: str = "credit"
    transport_values: dict[str, float] = {}
    throttle: str = "none"
    throttle_values: dict[str, float] = {}

    @property
    def counts_records(self) -> bool:
        """Whether channels count records and have queues of them, rather than buffers of bytes."""
        return self.transport not in BUFFER_TRANSPORTS

    @property
    def is_bounded(self) -> bool:
        """Whether what is held between the stages has a bound, by construction.

        A switch is none, for what is under way when it is thrown still comes, nor is the speed of a
        source; a batch of so many records is one.
        """
        if self.throttle == "static_admission" and self.throttle_values["max_records"] > 0:
            return True
        return self.transport not in {"unbounded", "hop_hysteresis"}


class Cluster(_Model):
    """The machines.

    Attributes
    ----------
    task_managers : int, default 2
        Processes; two subtasks on one of them exchange locally, without credits.
    slots : int or None, default None
        Slots of each (``taskmanager.numberOfTaskSlots``); None: as many as needed.
    network_latency_ms : float, default 0
        One way, ms; rounded up to whole rounds, at least one.
    bandwidth_bytes_per_s : float or None, default None
        Of one connection between two task managers, bytes/s; None: unlimited.
    disk_bytes_per_s : float or None, default None
        Of the disk of each task manager, reads and writes together, bytes/s; None: no edge
        spills.
    serialization_bytes_per_s : float, default 250,000,000
        What the thread of a task serialises and copies into buffers, bytes/s. Counts as busy
        time of a source; limits nothing.
    """

    task_managers: int = 2
    slots: int | None = None
    network_latency_ms: float = 0.0
    bandwidth_bytes_per_s: float | None = None
    disk_bytes_per_s: float | None = None
    serialization_bytes_per_s: float = 250e6

    @property
    def network_latency_us(self) -> int:
        """One way, microseconds."""
        return _us(self.network_latency_ms, 1000)


class Input(_Model):
    """Real rows that a source replays, in their order, each once; then the source is idle.

    Attributes
    ----------
    format : str
        ``parquet``, ``csv`` (also gzipped, or one in a zip archive) or ``delta``.
    path : Path
        Absolute.
    key : str or None
        Column by which a hash edge partitions.
    """

    format: str
    path: Path
    key: str | None = None


class Output(_Model):
    """Table that a sink writes.

    Attributes
    ----------
    format : str, default "delta"
        Only Delta.
    path : str
        Folder relative to the run's folder; by default ``output/<stage>``.
    """

    format: str = "delta"
    path: str


class Stall(_Model):
    """A time during which subtasks stand still.

    Attributes
    ----------
    at_us, for_us : int
        Start and length, microseconds.
    subtasks : tuple of int
        Which.
    """

    at_us: int
    for_us: int
    subtasks: tuple[int, ...]


class Stage(_Model):
    """One operator of the job.

    Attributes
    ----------
    name : str
        Unlike every other stage's.
    parallelism : int, default 1
        Subtasks.
    emit_rate : tuple of Schedule, or None
        Of a source: records/s that each subtask may emit. None: not a source.
    service_rate : tuple of Schedule, or None
        Records/s that each subtask can process. None: never the bottleneck.
    record_bytes : int
        Serialised size of a record with its 4-byte length header, bytes.
    selectivity_exact : Fraction, default 1
        Records out, on each output edge, per record in.
    placement : tuple of int
        Task manager of each subtask.
    input : Input or None
        Real rows that a source replays instead of made ones.
    output : Output or None
        Table that a sink writes; None: it counts its rows and drops them.
    stalls : tuple of Stall
        Times of standing still.
    service_time : str, default "constant"
        Distribution of the time that a record takes, or of the time between two emissions of
        a source: constant, exponential (a source's stream is Poisson) or lognormal. The rate
        is 1 / its mean.
    service_time_cv : float, default 1
        Coefficient of variation of lognormal times: standard deviation / mean.
    """

    name: str
    parallelism: int = 1
    emit_rate: tuple[Schedule, ...] | None = None
    service_rate: tuple[Schedule, ...] | None = None
    record_bytes: int
    selectivity_exact: Fraction = Fraction(1)
    placement: tuple[int, ...]
    input: Input | None = None
    output: Output | None = None
    stalls: tuple[Stall, ...] = ()
    service_time: str = "constant"
    service_time_cv: float = 1.0

    @property
    def selectivity(self) -> float:
        """Records out per record in, as the nearest double."""
        return float(self.selectivity_exact)

    @property
    def is_source(self) -> bool:
        """True for a stage that emits by itself."""
        return self.emit_rate is not None

    def stalled(self, subtask: int) -> tuple[Span, ...]:
        """Return when a subtask stands still.

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
        return merged(
            (stall.at_us, stall.at_us + stall.for_us)
            for stall in self.stalls
            if subtask in stall.subtasks
        )

    def rates(self, subtask: int) -> Schedule | None:
        """Return the rate at which a subtask emits or serves, its stalls cut out.

        Parameters
        ----------
        subtask : int
            Its index.

        Returns
        -------
        Schedule or None
            The rate is 0 while the subtask stands still, and what it could have done is not
            made up. None: the stage states no rate; :meth:`stalled` says when it stands still.

        Raises
        ------
        IndexError
            If there is no such subtask.
        """
        spans = self.stalled(subtask)
        schedules = self.service_rate if self.emit_rate is None else self.emit_rate
        return None if schedules is None else schedules[subtask].without(spans)


class Edge(_Model):
    """All channels from one stage to another.

    Attributes
    ----------
    sender, receiver : str
        Names of the stages (``from`` and ``to`` in the file).
    partitioner : str
        How a record chooses its channel: Flink's partitioner of that name.
    key_weights : dict of str to Fraction, or None
        Hash: share of each key; key groups route the keys.
    channel_weights : tuple of Fraction, or None
        Hash and custom: share of each receiving subtask.
    key : str or None
        Hash of replayed rows: the column.
    chain : bool, default False
        One task, no buffers between; forward, and both stages placed alike.
    partition_type : str, default "pipelined_bounded"
        Kind of result partition.
    """

    sender: str
    receiver: str
    partitioner: Partitioner
    key_weights: dict[str, Fraction] | None = None
    channel_weights: tuple[Fraction, ...] | None = None
    key: str | None = None
    chain: bool = False
    partition_type: PartitionType = "pipelined_bounded"

    @property
    def name(self) -> str:
        """How results call it: ``source->sink``."""
        return f"{self.sender}->{self.receiver}"

    @property
    def folder(self) -> str:
        """How folders call it: ``source-sink``, unlike every other edge's."""
        return f"{self.sender}-{self.receiver}"


class JobSpan(_Model):
    """One of several jobs: which stages are its own, and when it runs.

    Attributes
    ----------
    name : str
        Unlike every other job's.
    start_us : int, default 0
        When it is submitted, microseconds.
    stop_us : int or None, default None
        When it is cancelled, microseconds; None: it runs to the end.
    stages : tuple of str
        Names of its stages.
    """

    name: str
    start_us: int = 0
    stop_us: int | None = None
    stages: tuple[str, ...]


class Scenario(_Model):
    """A job, its machines and its workload; or several jobs on the same machines.

    Attributes
    ----------
    name : str
        Of the scenario and its folder of results.
    duration_s : float
        Emulated length of the run, s.
    round_ms : float or None, default None
        Emulated time of a round, ms; None: 500 on the live clock, the virtual one chooses.
    sample_interval_s : float, default 1
        A row of results each, s.
    seed : int, default 1
        Of everything that is drawn.
    system : SystemSpec
        Whose flow control.
    cluster : Cluster
        The machines.
    options : NetworkOptions
        Flink's options.
    stages : tuple of Stage
        In the order of the file.
    edges : tuple of Edge
        In the order of the file.
    jobs : tuple of JobSpan, default ()
        The jobs that share out the stages among them; empty: all stages are one job.
    """

    name: str
    duration_s: float
    round_ms: float | None = None
    sample_interval_s: float = 1.0
    seed: int = 1
    system: SystemSpec = SystemSpec()
    cluster: Cluster = Cluster()
    options: NetworkOptions = NetworkOptions()
    stages: tuple[Stage, ...]
    edges: tuple[Edge, ...]
    jobs: tuple[JobSpan, ...] = ()

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

    def canonical(self) -> dict[str, Any]:
        """Return everything that decides a run, as plain JSON and as a scenario file.

        Returns
        -------
        dict
            Equal for two scenarios if and only if they are equal; reading it again with
            :func:`~flowcontrol.scenario.parse_scenario` gives this scenario.
        """
        from flowcontrol.scenario.canonical import canonical

        return canonical(self)

    def to_yaml(self) -> str:
        """Return :meth:`canonical` as the text of a scenario file."""
        import yaml

        return yaml.safe_dump(self.canonical(), sort_keys=False, allow_unicode=True)
