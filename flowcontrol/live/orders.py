"""What executors are to do with the rows of a stage's batch: worked out from its rules.

The reader sends each task its order along with the rows to read. The orders of a batch's rounds are
one: executors write a file an edge, whatever it holds.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from flowcontrol.job import Job, JobEdge, JobVertex
from flowcontrol.job.window_table import late_name
from flowcontrol.live.folder import RunPaths
from flowcontrol.live.pack import GROUP_BYTES, EdgeOrder, SubtaskOrder
from flowcontrol.live.sink import staged_orders, staged_prefix
from flowcontrol.live.window_rows import window_folder, window_order
from flowcontrol.live.work import SubtaskRound

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

    def order(self, number: int, done: SubtaskRound) -> SubtaskOrder:
        """Return the order of a subtask, which has run a round, in a batch that ends with one."""
        plan = self._plan
        if plan.stage.window is not None:
            late = self._paths.output(late_name(window_folder(plan)))
            return window_order(late, number, done)
        if not plan.is_sink:
            edges = tuple(
                self.edge(number, done, place, link) for place, link in enumerate(plan.outputs)
            )
            return SubtaskOrder(done.records, edges, False)
        if self._table is None:
            return SubtaskOrder(done.records, (), True)
        if plan.stage.guarantee == "exactly-once":
            staged = staged_orders(self._table, self._prefix, number, done)
            return SubtaskOrder(done.records, staged, True)
        every = np.arange(done.records, dtype=np.int64)
        whole = EdgeOrder(
            str(self._table), "", (done.index,), (done.first,), every * 0, every, ROWS_OF_A_FILE
        )
        is_most_once = plan.stage.guarantee == "at-most-once"
        return SubtaskOrder(done.records, (whole,), True, is_most_once)

    def edge(self, number: int, done: SubtaskRound, place: int, link: JobEdge) -> EdgeOrder:
        """Return how the rows of a subtask go out over an edge."""
        own = done.edges[place]
        return EdgeOrder(
            root=str(self._paths.exchange(link)),
            folder=f"batch_id={number}/sender={done.index}",
            receivers=tuple(channel.receiver for channel in link.outgoing(done.index)),
            first=own.first,
            routes=own.routes,
            parents=own.parents,
            group_rows=max(1, GROUP_BYTES // link.record_bytes),
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
    return replace(first, rows=sum(rows), edges=edges)


def _joined(rows: Sequence[int], edges: Sequence[EdgeOrder]) -> EdgeOrder:
    """Return the order of an edge; ``rows`` are taken up in each round."""
    before = accumulate(rows[:-1], initial=0)
    parents = [edge.parents + count for edge, count in zip(edges, before, strict=True)]
    return replace(
        edges[0],
        routes=np.concatenate([edge.routes for edge in edges]),
        parents=np.concatenate(parents),
    )
