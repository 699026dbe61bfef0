"""State of a task: how large a checkpoint finds it, and how long it blocks the task."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from flowcontrol.job.graph import JobVertex, Member
from flowcontrol.job.job import Job
from flowcontrol.job.keys import keys_of_channels
from flowcontrol.protocol.checkpoints.state_size import StateSize
from flowcontrol.protocol.partitioners import channel_of_key, default_max_parallelism
from flowcontrol.scenario import Edge

Sizes = tuple[int, ...]
"""Bytes of each stage of a task that has a state."""


@dataclass(frozen=True)
class MemberState:
    """State of one stage of a task.

    Attributes
    ----------
    size : StateSize
        As the scenario states it.
    keys : int
        Keys that its subtask has in the long run.
    ratio : Fraction
        Records that it takes for each that the task takes up, in the long run.
    """

    size: StateSize
    keys: int
    ratio: Fraction

    def full(self, records: int) -> int:
        """Size when the task has taken so many records up, bytes.

        Notes
        -----
        Which key a record has is not followed, so each is of a new key until all have come.
        """
        taken = int(self.ratio * records)
        return self.size.full(min(self.keys, taken), taken)


@dataclass(frozen=True)
class TaskState:
    """State of a task: of its stage, and of those chained to it.

    Attributes
    ----------
    members : tuple of MemberState
        Stages that have one.
    sync_us : int
        Time for which a snapshot blocks the task, microseconds: stage after stage.
    """

    members: tuple[MemberState, ...] = ()
    sync_us: int = 0

    def full(self, records: int) -> Sizes:
        """Sizes when the task has taken so many records up."""
        return tuple(member.full(records) for member in self.members)

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
        return sum(
            member.size.written(now, then)
            for member, now, then in zip(self.members, full, before, strict=True)
        )


def task_state(job: Job, plan: JobVertex, index: int) -> TaskState:
    """Return the state of a subtask's task."""
    members = [member for member in plan.members if member.stage.state is not None]
    sync_us = sum(one.stage.state.sync_us for one in members if one.stage.state is not None)
    return TaskState(
        tuple(_member_state(plan, member, index) for member in members),
        min(sync_us, job.scenario.duration_us),  # work beyond the run might not fit into 64 bits
    )


def _member_state(plan: JobVertex, member: Member, index: int) -> MemberState:
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
    return MemberState(size, keys, member.ratio_in)


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
