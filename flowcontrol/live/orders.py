"""What executors are to do with the rows of a stage's batch: worked out from its rules.

The reader sends each task its order along with the rows to read. The orders of a batch's rounds are
one: executors write a file an edge, whatever it holds.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from flowcontrol.job import Job, JobEdge, JobVertex, Subtask
from flowcontrol.job.window_table import late_name
from flowcontrol.live.elements import sent_stamps
from flowcontrol.live.folder import RunPaths
from flowcontrol.live.pack import GROUP_BYTES, EdgeOrder, SubtaskOrder
from flowcontrol.live.sink import staged_orders, staged_prefix
from flowcontrol.live.window_rows import window_folder, window_order
from flowcontrol.protocol.rows import fifo_values

Ints = npt.NDArray[np.int64]

ROWS_OF_A_FILE = 1 << 20
"""Most rows of a row group of a sink's file."""


class StageOrders:
    """The orders of one stage.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    plan : JobVertex
        The stage.
    paths : RunPaths
        The run's folder.
    run_id : str
        Identity of the run.
    """

    def __init__(self, job: Job, plan: JobVertex, paths: RunPaths, run_id: str) -> None:
        self._job, self._plan, self._paths = job, plan, paths
        self._prefix = staged_prefix(run_id, plan.name)
        output = plan.stage.output
        self._table = None if output is None else paths.output(output.path)

    def order(self, number: int, subtask: Subtask) -> SubtaskOrder:
        """Return the order of a subtask, which has run a round, in a batch that ends with one."""
        plan, work = self._plan, subtask.work
        if plan.stage.window is not None:
            late = self._paths.output(late_name(window_folder(plan)))
            return window_order(late, number, subtask)
        if not plan.is_sink:
            edges = tuple(
                self.edge(number, subtask, place, link) for place, link in enumerate(plan.outputs)
            )
            return SubtaskOrder(work.records, edges, False)
        if self._table is None:
            return SubtaskOrder(work.records, (), True)
        if plan.stage.guarantee == "exactly-once":
            staged = staged_orders(self._table, self._prefix, number, subtask)
            return SubtaskOrder(work.records, staged, True)
        every = np.arange(work.records, dtype=np.int64)
        whole = EdgeOrder(
            str(self._table), "", (subtask.index,), (work.first,), every * 0, every, ROWS_OF_A_FILE
        )
        is_most_once = plan.stage.guarantee == "at-most-once"
        return SubtaskOrder(work.records, (whole,), True, is_most_once)

    def edge(self, number: int, subtask: Subtask, place: int, link: JobEdge) -> EdgeOrder:
        """Return how the rows of a subtask go out over an edge."""
        pending = fifo_values(subtask.outputs[place].pending)
        # Not what was routed: a source that cannot rewind goes on there, and its channels at a cut.
        numbers = [
            own.written + pending.count(channel)
            for channel, own in enumerate(subtask.partitions[place].channels)
        ]
        return EdgeOrder(
            root=str(self._paths.exchange(link)),
            folder=f"batch_id={number}/sender={subtask.index}",
            receivers=tuple(channel.receiver for channel in link.outgoing(subtask.index)),
            first=tuple(end - new for end, new in zip(numbers, subtask.routed[place], strict=True)),
            routes=subtask.work.routes[place],
            parents=subtask.work.parents[place],
            group_rows=max(1, GROUP_BYTES // link.record_bytes),
            stamps=sent_stamps(subtask, place),
        )


def joined(orders: Sequence[SubtaskOrder]) -> SubtaskOrder:
    """Return the order of all rows of a subtask in a batch.

    Parameters
    ----------
    orders : sequence of SubtaskOrder
        Those of its rounds, in order, at least one.

    Returns
    -------
    SubtaskOrder
        Their rows one behind the other; on each channel, their records likewise.
    """
    first, *others = orders
    if not others:
        return first
    rows = [order.rows for order in orders]
    edges = tuple(
        _joined(rows, [order.edges[place] for order in orders]) for place in range(len(first.edges))
    )
    return replace(first, rows=sum(rows), edges=edges, parts=tuple(rows))


def _joined(rows: Sequence[int], edges: Sequence[EdgeOrder]) -> EdgeOrder:
    """Return the order of an edge; ``rows`` are taken up in each round."""
    before = accumulate(rows[:-1], initial=0)
    parents = [edge.parents + count for edge, count in zip(edges, before, strict=True)]
    return replace(
        edges[0],
        routes=np.concatenate([edge.routes for edge in edges]),
        parents=np.concatenate(parents),
        stamps=_stamps(edges),
    )


def _stamps(edges: Sequence[EdgeOrder]) -> Ints | None:
    """Return the stamps of all output records, channel by channel, and on each round by round."""
    found = [edge.stamps for edge in edges]
    if found[0] is None:
        return None
    channels = len(edges[0].receivers)
    parts: list[list[Ints]] = [[] for _ in range(channels)]
    for edge, stamps in zip(edges, found, strict=True):
        assert stamps is not None
        ends = np.cumsum(np.bincount(edge.routes, minlength=channels))
        for part, own in zip(parts, np.split(stamps, ends[:-1]), strict=True):
            part.append(own)
    return np.concatenate([own for part in parts for own in part])
