"""What a failure takes with it, and how large a checkpoint finds the state of a task."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from flowcontrol.arrays import Ints, pa
from flowcontrol.layout.graph import JobVertex, Member
from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import first_rows_of_keys, read_columns
from flowcontrol.layout.shares import keys_of_channels
from flowcontrol.protocol.checkpoints.snapshots import StateSize
from flowcontrol.protocol.network.partitioners import channel_of_key, default_max_parallelism
from flowcontrol.protocol.restarts import (
    failover_tasks,
    pipelined_regions,
    refused_death_seen_us,
    silent_death_seen_us,
)
from flowcontrol.scenario import Edge
from flowcontrol.scenario.fault_tolerance import Failure, Heartbeat

# --- What a failure takes with it, when it is noticed, and which tasks restart, in a job


EdgeKey = tuple[int, int, str]


class Failover:
    """The tasks of a job by number, in the order of the job: regions, machines, connections.

    - ``count``: tasks.
    - ``managers``: task manager of each.
    - ``sources``: tasks of sources, and whether each is replayable.
    - ``regions``: the pipelined region of each task: the first task in it.
    """

    def __init__(self, job: Job) -> None:
        self._tasks, self.count = job.tasks, len(job.subtasks)
        self.managers = [plan.stage.placement[index] for plan, index in job.subtasks]
        self.sources = {
            task: plan.stage.replayable
            for task, (plan, _) in enumerate(job.subtasks)
            if plan.is_source
        }
        self._edges: list[EdgeKey] = [
            (senders[channel.sender], receivers[channel.receiver], "pipelined")
            for link in job.links
            for senders, receivers in [(job.tasks[link.edge.sender], job.tasks[link.edge.receiver])]
            for channel in link.channels
        ]
        regions = pipelined_regions(self._edges, range(self.count))
        first_of = {region: min(map(int, map(str, region))) for region in set(regions.values())}
        self.regions = [first_of[regions[task]] for task in range(self.count)]

    def number(self, stage: str, subtask: int) -> int:
        """Return the number of a stage's subtask; of a chain's it is that of its head."""
        return self._tasks[stage][subtask]

    def victims(self, failure: Failure) -> list[int]:
        """Return the tasks that a failure takes with it, running or not; of a JobManager all."""
        if failure.stage is not None and failure.subtask is not None:
            return [self.number(failure.stage, failure.subtask)]
        return [
            task
            for task, manager in enumerate(self.managers)
            if failure.job_manager or manager == failure.task_manager
        ]

    def restarted(self, victims: Iterable[int]) -> list[int]:
        """Return the tasks that restart if some of them fail."""
        found: set[int] = set()
        for task in victims:
            if task not in found:
                found |= {int(str(one)) for one in failover_tasks(self._edges, task)}
        return sorted(found)

    def breaks_connection(self, manager: int, is_running: Callable[[int], bool]) -> bool:
        """Tell whether a task elsewhere reads from one on a task manager, and both run."""
        return any(
            self.managers[sender] == manager
            and self.managers[receiver] != manager
            and is_running(sender)
            and is_running(receiver)
            for sender, receiver, _ in self._edges
        )

    def by_manager(
        self, nbytes: Mapping[int, tuple[int, int]]
    ) -> list[dict[Hashable, tuple[int, int]]]:
        """Return what tasks restore, those of one task manager together."""
        found: dict[int, dict[Hashable, tuple[int, int]]] = {}
        for task, sizes in nbytes.items():
            found.setdefault(self.managers[task], {})[task] = sizes
        return list(found.values())


def death_seen_us(failed_us: int, heartbeat: Heartbeat) -> int:
    """Return when a process that died is given up, microseconds.

    Its host answers and refuses the connection, so failed heartbeats count if they may.
    """
    interval_us = heartbeat.interval_us
    silent_us = silent_death_seen_us(failed_us, interval_us, heartbeat.timeout_us)
    if heartbeat.rpc_failures is None:
        return silent_us
    refused = max(1, heartbeat.rpc_failures)
    return min(silent_us, refused_death_seen_us(failed_us, interval_us, refused))


# --- What a job can do beside what comes: the rates of the closed form of a restart


class RestartRates(NamedTuple):
    """Records/s of the source of a job."""

    arrival: Fraction  # Records that come; of a source without a log: that it emits
    capacity: Fraction  # Records that the job can process
    has_log: bool  # Whether what comes while the job is down waits in a log


def restart_rates(job: Job) -> RestartRates | None:
    """Return the rates of a job's closed form; None if it has none.

    It has one if there is a single source, records are spread evenly, and rates do not change.
    """
    sources = [plan for plan in job.stages if plan.is_source]
    uneven = any(
        link.edge.partitioner in {"broadcast", "global", "custom", "hash"} for link in job.links
    )
    if len(sources) != 1 or uneven:
        return None
    source = sources[0].stage
    schedules = source.arrival_rate or [source.rates(i) for i in range(source.parallelism)]
    if any(one is None or len(one.phases) > 1 for one in schedules):
        return None
    comes = sum((one.phases[0].rate for one in schedules if one is not None), Fraction(0))
    capacity = _capacity(job)
    return None if capacity is None else RestartRates(comes, capacity, source.reads_log)


def surviving_sources(job: Job) -> dict[str, float]:
    """Return by what is to fail which share of the sources emits until it is cancelled."""
    failover = Failover(job)
    found = {}
    for failure in job.scenario.failures:
        failed = [] if failure.job_manager else failover.victims(failure)
        found[failure.victim] = 1 - sum(task in failover.sources for task in failed) / len(
            failover.sources
        )
    return found


def _capacity(job: Job) -> Fraction | None:
    """Return how many records of the source the slowest stage can take; None: it changes."""
    reach: dict[str, Fraction] = {}
    found = []
    for plan in job.stages:
        own = Fraction(1)
        if plan.inputs:
            own = sum((reach[link.name] for link in plan.inputs), Fraction(0))
        for link in plan.outputs:
            reach[link.name] = own * plan.member(link).ratio_out
        rates = _rates(plan)
        if len(rates) != plan.stage.parallelism:
            return None
        if None not in rates and own > 0:
            found.append(sum((rate for rate in rates if rate is not None), Fraction(0)) / own)
    return min(found, default=None)


def _rates(plan: JobVertex) -> list[Fraction | None]:
    """Return the rate of each subtask of a stage that does not change; None: no limit."""
    schedules = [plan.rates(index) for index in range(plan.stage.parallelism)]
    return [
        None if one is None else one.phases[0].rate
        for one in schedules
        if one is None or len(one.phases) == 1
    ]


# --- State of a task: how large a checkpoint finds it, and how long it blocks the task.


Sizes = tuple[int, ...]
"""Bytes of each stage of a task that has a state."""


@dataclass(frozen=True)
class MemberState:
    """State of one stage of a task."""

    size: StateSize  # As the scenario states it
    keys: int  # Keys that its subtask has in the long run
    ratio: Fraction  # Records that it takes for each that the task takes up, in the long run
    # Of the rows of a replay that it is sent, those that are the first with their key.
    firsts: Ints | None = None

    def full(self, records: int) -> int:
        """Size when the task has taken so many records up, bytes.

        Which key a record has is not followed: each is of a new key until all have come. Of a
        replay the keys of the first rows count, as many as have come, in the order of the input;
        that is exact if its source has one subtask, or its subtasks keep step.
        """
        taken = int(self.ratio * records)
        keys = min(self.keys, taken)
        if self.firsts is not None:
            keys = int(np.searchsorted(self.firsts, taken))
        return self.size.full(keys, taken)


@dataclass(frozen=True)
class TaskState:
    """State of a task: of its stage, and of those chained to it.

    Attributes
    ----------
    members : tuple of MemberState
        Stages that have one.
    sync_us : int
        Time for which a snapshot blocks the task, microseconds: stage after stage.
    contents : StateSize or None
        How its windows, or the records that its sink has buffered, are written; None: it has
        neither, or windows without a size.
    """

    members: tuple[MemberState, ...] = ()
    sync_us: int = 0
    contents: StateSize | None = None

    @property
    def has_state(self) -> bool:
        """Whether a checkpoint may write anything of it."""
        return bool(self.members) or self.contents is not None

    def full(self, records: int, contents: int = 0) -> Sizes:
        """Sizes when the task has taken so many records up.

        Parameters
        ----------
        records : int
            Records.
        contents : int, optional
            Bytes of its windows or of what its sink has buffered, which come last.
        """
        sizes = tuple(member.full(records) for member in self.members)
        return sizes if self.contents is None else (*sizes, contents)

    def written(self, full: Sizes, last: Sequence[int] | None) -> int:
        """Bytes that a checkpoint writes.

        Parameters
        ----------
        full : tuple of int
            Sizes of the state.
        last : sequence of int or None
            Those at the last completed checkpoint that the task knows of; None: all is written.
        """
        before: Sequence[int | None] = [None] * len(full) if last is None else last
        sizes = [member.size for member in self.members]
        if self.contents is not None:
            sizes.append(self.contents)
        return sum(
            size.written(now, then) for size, now, then in zip(sizes, full, before, strict=True)
        )


def task_states(job: Job) -> list[TaskState]:
    """Return the states of all tasks, in the order of the job's subtasks.

    Raises RunError if there is a state for each key of a column, and its rows cannot be read.
    """
    found = []
    for plan in job.stages:
        firsts = _firsts(job, plan)
        for index in range(plan.stage.parallelism):
            members = tuple(
                _member_state(plan, member, index, firsts) for member in _with_state(plan)
            )
            found.append(TaskState(members, task_sync_us(job, plan), _contents(job, plan)))
    return found


def _contents(job: Job, plan: JobVertex) -> StateSize | None:
    """Return how a task's windows are written: incrementally, if the state of its stage is.

    What a sink has buffered is written whole.
    """
    if plan.stage.requests is not None:
        return StateSize()
    window = job.scenario.window_of(plan.name)
    if window is None or window.bytes_per_key == 0:
        return None
    state = plan.stage.state
    return StateSize() if state is None else StateSize(incremental_share=state.incremental_share)


def task_sync_us(job: Job, plan: JobVertex) -> int:
    """Return for how long a snapshot blocks a task, microseconds."""
    states = [member.stage.state for member in _with_state(plan)]
    sync_us = sum(state.sync_us for state in states if state is not None)
    return min(sync_us, job.scenario.duration_us)  # work beyond the run might not fit into 64 bits


def _with_state(plan: JobVertex) -> list[Member]:
    return [member for member in plan.members if member.stage.state is not None]


def _firsts(job: Job, plan: JobVertex) -> list[Ints] | None:
    """Return the first rows of the keys that each subtask is sent; None: no column, or no use."""
    states = [member.stage.state for member in _with_state(plan)]
    if not any(state is not None and state.bytes_per_key for state in states):
        return None
    for link in plan.inputs:
        source = job.scenario.stage(link.edge.sender).input
        if link.edge.key is not None and source is not None:
            batches = read_columns(link.edge.sender, source, [link.edge.key])
            keys = pa.chunked_array([batch.column(link.edge.key) for batch in batches])
            return first_rows_of_keys(keys, plan.stage.parallelism)
    return None


def _member_state(
    plan: JobVertex, member: Member, index: int, firsts: list[Ints] | None
) -> MemberState:
    state = member.stage.state
    assert state is not None
    size = StateSize(
        state.bytes,
        Fraction(state.bytes_per_key),
        Fraction(state.bytes_per_record),
        state.incremental_share,
    )
    width, keys = plan.stage.parallelism, 0
    if size.per_key > 0:
        keys = max((_keys(link.edge, width)[index] for link in plan.inputs), default=0)
    own = None if firsts is None or size.per_key == 0 else firsts[index]
    return MemberState(size, keys, member.ratio_in, own)


@lru_cache(maxsize=64)
def _counted(keys: tuple[str, ...], width: int) -> tuple[int, ...]:
    groups = default_max_parallelism(width)
    channels = [channel_of_key(key, width, groups) for key in keys]
    return tuple(np.bincount(channels, minlength=width).tolist())


def _keys(edge: Edge, width: int) -> tuple[int, ...]:
    """Keys that an edge brings to each subtask; 0 of an edge that does not name them."""
    if edge.key_distribution is not None:
        return keys_of_channels(edge.key_distribution.keys, width)
    if edge.key_weights:
        return _counted(tuple(edge.key_weights), width)
    return (0,) * width
