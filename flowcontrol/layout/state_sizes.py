"""State of a task: how large a checkpoint finds it, and how long it blocks the task."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from flowcontrol.arrays import Ints, pa
from flowcontrol.layout.graph import JobVertex, Member
from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import first_rows_of_keys, read_columns
from flowcontrol.layout.shares import keys_of_channels
from flowcontrol.protocol.checkpoints.snapshots import StateSize
from flowcontrol.protocol.network.partitioners import channel_of_key, default_max_parallelism
from flowcontrol.scenario import Edge

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
    windows : StateSize or None
        How the windows of its first stage are written; None: it has none, or none with a size.
    """

    members: tuple[MemberState, ...] = ()
    sync_us: int = 0
    windows: StateSize | None = None

    @property
    def has_state(self) -> bool:
        """Whether a checkpoint may write anything of it."""
        return bool(self.members) or self.windows is not None

    def full(self, records: int, windows: int = 0) -> Sizes:
        """Sizes when the task has taken so many records up.

        Parameters
        ----------
        records : int
            Records.
        windows : int, optional
            Bytes of the windows that it has open, which come last.
        """
        sizes = tuple(member.full(records) for member in self.members)
        return sizes if self.windows is None else (*sizes, windows)

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
        if self.windows is not None:
            sizes.append(self.windows)
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
            found.append(TaskState(members, task_sync_us(job, plan), _windows(job, plan)))
    return found


def _windows(job: Job, plan: JobVertex) -> StateSize | None:
    """Return how a task's windows are written: incrementally, if the state of its stage is."""
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
