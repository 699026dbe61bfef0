"""What a subtask did in a round, as far as rows have to move; read off the kernel's journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy import typing as npt

from flowcontrol.layout.graph import JobVertex, Member
from flowcontrol.layout.job import Job
from flowcontrol.state.network import CheckpointReport
from flowcontrol.trace.round_state import Result

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class EdgeWork:
    """Records that went out over an edge."""

    routes: Ints  # Subpartition of each, in order
    # Which of the records taken up each is made of; of a task with windows, which of its results.
    parents: Ints
    first: tuple[int, ...]  # Number of the first one on each channel
    emitted: tuple[int, ...]  # How many went to each channel


@dataclass(frozen=True)
class Take:
    """A run of records taken up from a channel."""

    gate: int  # gate, channel: which: a gate of the task, and a channel of that
    channel: int
    first: int  # Number of the first one on the channel
    records: int  # How many


@dataclass(frozen=True)
class WindowWork:
    """What windows did."""

    results: Sequence[Result]  # What they put out
    born: Sequence[int]  # Of each, from which round its latency counts
    # Records that came too late for every window: of each, how many the task had taken up then.
    late: Sequence[int]


@dataclass(frozen=True)
class SubtaskRound:
    """What a subtask did in a round."""

    job: Job  # The scenario, laid out
    plan: JobVertex  # Its stage
    index: int  # Which subtask of it
    taken: int  # Records that it has taken up so far (a source: emitted)
    # Number of the first record taken up (a source: emitted), and how many.
    first: int
    records: int
    takes: Sequence[Take]  # Where they came from, in order; nothing of a source
    edges: Sequence[EdgeWork]  # By output edge
    # By gate and channel: buffers consumed so far, and records read of the one in hand.
    consumed: Sequence[Sequence[int]]
    read: Sequence[Sequence[int]]
    reports: Sequence[CheckpointReport] = ()  # What it told the coordinator
    # By sink that writes a table (:func:`writers_of`): which of the records taken up each row is
    # made of; of a task with windows, which of its results.
    sinks: Sequence[Ints] = ()
    window: WindowWork | None = None  # None: its stage has no window


def writers_of(plan: JobVertex) -> list[Member]:
    """Return the sinks of a task that write a table; what its windows put out is one of its own."""
    return [
        member
        for member in plan.members
        if member.is_sink and member.stage.output is not None and member.stage.window is None
    ]
