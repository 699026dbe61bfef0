"""The orders of the rounds of a batch as one: executors write a file an edge, whatever it holds."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from flowcontrol.live.pack import EdgeOrder, SubtaskOrder

Ints = npt.NDArray[np.int64]


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
