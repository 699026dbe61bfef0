"""What a run yields, on either clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flowcontrol.arrays import pa
from flowcontrol.job.figures import heap_exhausted_s
from flowcontrol.job.job import Job
from flowcontrol.job.message_table import Window
from flowcontrol.job.messages import Message


@dataclass(frozen=True)
class Run:
    """What a run yields.

    Attributes
    ----------
    job : Job
        What was run.
    tables : dict of str to pyarrow.Table
        ``stages``, ``channels`` and ``latency``, up to the last round that all stages have done.
    rounds : int
        How many that are.
    wall_s : float, s
        Real time it took.
    is_finished : bool
        Whether these are all rounds of the job.
    transfers : int
        Messages sent over all channels; 0 on the live clock, which does not count them here.
    control_messages : int or None
        Messages that carried no data: announced credit, grants, and what a throttle says. None on
        the live clock.
    partitions : dict of str to dict
        By edge, what a result partition that is not pipelined and bounded did: memory, bytes
        spilled and read, when its consumers started, who waited for whom.
    put_aside : dict of str to dict
        By stage that aligns barriers as Flink did up to 1.10, of all its subtasks:
        ``bytes_written`` to files behind barriers and ``bytes_read`` back, ``max_bytes`` in the
        files of a subtask at a time, and ``read_memory_bytes``, the memory of all of them into
        which they are read.
    jobs : tuple of dict
        What became of each job, if the scenario has ``jobs`` or its only one failed: name,
        start_at_s, stop_at_s, state (finished, stopped or failed), message (why it failed, else
        None).
    staged : dict of str to int
        By sink: records in transactions that were open or not committed at the end; empty without
        the table ``delivery``.
    again : callable or None
        Runs it again up to the end of a window, and returns the messages of that.
    """

    job: Job
    tables: dict[str, pa.Table]
    rounds: int
    wall_s: float
    is_finished: bool = True
    transfers: int = 0
    control_messages: int | None = None
    partitions: dict[str, dict[str, Any]] = field(default_factory=dict)
    put_aside: dict[str, dict[str, int]] = field(default_factory=dict)
    jobs: tuple[dict[str, Any], ...] = ()
    staged: dict[str, int] = field(default_factory=dict)
    again: Callable[[Window], list[Message]] | None = field(default=None, repr=False, compare=False)

    @property
    def round_us(self) -> int:
        """Emulated time of a round, microseconds."""
        return self.job.round_us

    @property
    def is_bounded(self) -> bool:
        """Whether the system bounds what is held between the stages."""
        return self.job.scenario.system.is_bounded

    @property
    def heap_exhausted_s(self) -> float | None:
        """When a task manager's heap was full, s; None: never, or no heap is stated."""
        return heap_exhausted_s(self.tables["channels"], self.job.scenario)
