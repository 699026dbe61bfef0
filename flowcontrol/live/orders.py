"""What executors are to do with the rows of a stage's batch: worked out from its rules.

The reader sends each task its order along with the rows to read. The orders of a batch's rounds are
one: executors write a file an edge, whatever it holds.
"""

from collections.abc import Iterator, Sequence
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
from flowcontrol.live.work import SubtaskRound, writers_of
from flowcontrol.scenario.stage_models import Stage

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
        self._run_id = run_id

    def order(self, number: int, done: SubtaskRound) -> SubtaskOrder:
        """Return the order of a subtask, which has run a round, in a batch that ends with one."""
        plan = self._plan
        if plan.stage.window is not None:
            late = self._paths.output(late_name(window_folder(plan)))
            return window_order(late, number, done)
        return SubtaskOrder(done.records, tuple(self.ways(number, done)))

    def ways(self, number: int, done: SubtaskRound) -> Iterator[EdgeOrder]:
        """Yield where the rows of a subtask go: over each edge, and into the table of each sink."""
        for place, link in enumerate(self._plan.outputs):
            yield self._edge(number, done, place, link)
        for member, parents in zip(writers_of(self._plan), done.sinks, strict=True):
            yield from self._table(number, done, member.stage, parents)

    def _table(
        self, number: int, done: SubtaskRound, sink: Stage, parents: Ints
    ) -> Iterator[EdgeOrder]:
        assert sink.output is not None
        table = self._paths.output(sink.output.path)
        if sink.guarantee == "exactly-once":
            prefix = staged_prefix(self._run_id, sink.name)
            yield from staged_orders(table, prefix, number, done, parents)
            return
        yield EdgeOrder(
            root=str(table),
            folder="",
            receivers=(done.index,),
            first=(done.first,),
            routes=parents * 0,
            parents=parents,
            group_rows=ROWS_OF_A_FILE,
            is_table=True,
            is_most_once=sink.guarantee == "at-most-once",
        )

    def _edge(self, number: int, done: SubtaskRound, place: int, link: JobEdge) -> EdgeOrder:
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
