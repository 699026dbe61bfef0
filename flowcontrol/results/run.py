"""A run's result: its tables and its figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy import typing as npt

from flowcontrol.arrays import Ints, pa
from flowcontrol.layout.job import Job
from flowcontrol.protocol.event_time import is_pending_mark
from flowcontrol.scenario import Scenario
from flowcontrol.trace.message_table import Window
from flowcontrol.trace.messages import Message

LARGEST_SUM = 2.0**62
"""Above it a sum of whole numbers may not fit into 64 bits."""


def input_usages(
    exclusive: Ints, exclusive_used: Ints, floating: Ints, floating_used: Ints
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the usages of subtasks' input pools (Flink's ``inPoolUsage`` and its two parts).

    - ``exclusive``, ``floating`` (shape (subtasks,)): exclusive buffers of the remote channels, and
      sizes of the floating pools.
    - ``exclusive_used``, ``floating_used`` (shape (subtasks,)): those in use; a floating buffer
      that a channel holds for a credit is in use.
    """
    return {
        "in_pool_usage": usage(exclusive_used + floating_used, exclusive + floating),
        "floating_buffers_usage": usage(floating_used, floating),
        "exclusive_buffers_usage": usage(exclusive_used, exclusive),
    }


def usage(used: Ints, size: Ints) -> npt.NDArray[np.float64]:
    """Return the share of each pool that is in use; 0 of an empty pool."""
    return np.divide(used, size, out=np.zeros(np.shape(used)), where=size > 0)


def latency_figures(
    ages: Ints, counts: Ints, starts: Ints, round_ms: float
) -> dict[str, list[Any]]:
    """Return the counts, means and nearest-rank percentiles of several groups of latencies, ms.

    - ``ages``: latencies in rounds, one group behind the other, ascending in each.
    - ``counts``: records of each; at least one.
    - ``starts`` (shape (groups,)): where each group begins; none is empty.
    - ``round_ms`` (ms): emulated time of a round.
    """
    upto = np.cumsum(counts)
    totals = np.add.reduceat(counts, starts)
    sums = zip(_sums(ages, counts, starts), totals.tolist(), strict=True)
    figures: dict[str, list[Any]] = {
        "count": totals.tolist(),
        "mean_ms": [ages_sum / total * round_ms for ages_sum, total in sums],
    }
    before = upto[starts] - counts[starts]
    for name, percent in (("p50_ms", 50), ("p90_ms", 90), ("p99_ms", 99), ("max_ms", 100)):
        whole, rest = np.divmod(totals, 100)  # a product of all of it may not fit into 64 bits
        ranks = whole * percent - (-rest * percent // 100)
        found = ages[np.searchsorted(upto, before + ranks)]
        figures[name] = (found.astype(np.float64) * round_ms).tolist()
    return figures


def heap_exhausted_s(channels: pa.Table, scenario: Scenario) -> float | None:
    """Return when a task manager's heap was full.

    Records count as they are serialised; as objects on a heap they would take a multiple.

    Returns the time of the first sample at which the records that wait for the receivers on one
    task manager are more than ``heap_bytes`` of the transport, s; None if there is none, or the
    transport states no heap. The run itself goes on.
    """
    heap_bytes = scenario.system.transport_values.get("heap_bytes")
    if heap_bytes is None or channels.num_rows == 0:
        return None
    placement = {edge.name: scenario.stage(edge.receiver).placement for edge in scenario.edges}
    ends = zip(channels["edge"].to_pylist(), channels["receiver"].to_pylist(), strict=True)
    managers = [placement[edge][receiver] for edge, receiver in ends]
    held = channels.select(["t_s", "in_flight_bytes"]).append_column("manager", [managers])
    sums = held.group_by(["t_s", "manager"]).aggregate([("in_flight_bytes", "sum")])
    moments = sums["t_s"].to_numpy()[sums["in_flight_bytes_sum"].to_numpy() > heap_bytes]
    return float(moments.min()) if len(moments) else None


def _sums(ages: Ints, counts: Ints, starts: Ints) -> list[float]:
    """Return the sums of the products in groups, exactly where 64 bits hold them."""
    about = np.add.reduceat(ages.astype(np.float64) * counts, starts)
    exact = np.add.reduceat(ages * counts, starts)
    pairs = zip(about.tolist(), exact.tolist(), strict=True)
    return [near if near > LARGEST_SUM else whole for near, whole in pairs]


def put_out_and_pending(first: Sequence[int], own: Sequence[int]) -> list[int]:
    """Return the channels of the records that were put out and are yet to be written to an edge.

    A stage counts a record as put out when it has written it to its first edge. For a later edge it
    may then wait for a buffer; the record is in flight on that edge meanwhile.
    """
    records = [channel for channel in own if is_pending_mark(channel) == 0]
    uncounted = sum(is_pending_mark(channel) == 0 for channel in first)
    return records[: max(0, len(records) - uncounted)]


@dataclass(frozen=True)
class Run:
    """What a run yields."""

    job: Job  # What was run
    # ``stages``, ``channels`` and ``latency``, up to the last round that all stages have done.
    tables: dict[str, pa.Table]
    rounds: int  # How many that are
    wall_s: float  # Real time it took (s)
    is_finished: bool = True  # Whether these are all rounds of the job
    # Messages sent over all channels; 0 on the live clock, which does not count them here.
    transfers: int = 0
    # Messages that carried no data: announced credit, grants, and what a throttle says. None on the
    # live clock.
    control_messages: int | None = None
    # By edge, what a result partition that is not pipelined and bounded did: memory, bytes spilled
    # and read, when its consumers started, who waited for whom.
    partitions: dict[str, dict[str, Any]] = field(default_factory=dict)
    # By stage that aligns barriers as Flink did up to 1.10, of all its subtasks: ``bytes_written``
    # to files behind barriers and ``bytes_read`` back, ``max_bytes`` in the files of a subtask at a
    # time, and ``read_memory_bytes``, the memory of all of them into which they are read.
    put_aside: dict[str, dict[str, int]] = field(default_factory=dict)
    # What became of each job, if the scenario has ``jobs`` or its only one failed: name,
    # start_at_s, stop_at_s, state (finished, stopped or failed), message (why it failed, else
    # None).
    jobs: tuple[dict[str, Any], ...] = ()
    # By sink: records in transactions that were open or not committed at the end; empty without the
    # table ``delivery``.
    staged: dict[str, int] = field(default_factory=dict)
    # Runs it again up to the end of a window, and returns the messages of that.
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
