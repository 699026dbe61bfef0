"""Which tasks a failure restarts: regions of tasks that are joined by pipelined edges.

Source: ``RestartPipelinedRegionFailoverStrategy`` of Flink 1.20
(``jobmanager.execution.failover-strategy: region``, the default).
"""

from collections import deque
from collections.abc import Hashable, Iterable, Sequence

Edge = tuple[Hashable, Hashable, str]
"""From task, to task, "pipelined" or "blocking"."""

PIPELINED, BLOCKING = "pipelined", "blocking"


def pipelined_regions(
    edges: Iterable[Edge], tasks: Iterable[Hashable] = ()
) -> dict[Hashable, frozenset[Hashable]]:
    """Return the region of each task: all that pipelined edges reach from it, in any direction.

    Regions that need each other's stored results in a cycle are one.

    Parameters
    ----------
    edges : iterable of (from, to, kind)
        Between tasks.
    tasks : iterable of hashable
        More tasks; one without a pipelined edge is a region of its own.

    Raises
    ------
    ValueError
        If a kind is neither "pipelined" nor "blocking".

    Notes
    -----
    ``SchedulingPipelinedRegionComputeUtil``, with its merge of regions in a cycle.
    """
    edges = _checked(edges)
    joined: dict[Hashable, set[Hashable]] = {task: set() for task in tasks}
    for sender, receiver, kind in edges:
        for one, other in ((sender, receiver), (receiver, sender)):
            joined.setdefault(one, set()).update({other} if kind == PIPELINED else ())
    found = _components(joined)
    after: dict[Hashable, set[Hashable]] = {task: set() for task in joined}
    for sender, receiver, _ in edges:
        if found[sender] is not found[receiver]:
            after[_first(found[sender])].add(_first(found[receiver]))
    merged = _in_cycles(after)
    if not merged:
        return found
    for one, others in merged.items():
        joined[one] |= others
    return _components(joined)


def _components(joined: dict[Hashable, set[Hashable]]) -> dict[Hashable, frozenset[Hashable]]:
    found: dict[Hashable, frozenset[Hashable]] = {}
    for task in joined:
        if task not in found:
            region = frozenset(_reachable(task, joined))
            found.update(dict.fromkeys(region, region))
    return found


def _first(region: frozenset[Hashable]) -> Hashable:
    """Return one task that stands for a region, always the same of the same region."""
    return next(iter(region))


def _in_cycles(after: dict[Hashable, set[Hashable]]) -> dict[Hashable, set[Hashable]]:
    """Return for each region in a cycle the others in it; empty without a cycle."""
    if not any(after.values()):
        return {}
    order = _finished(after)
    before: dict[Hashable, set[Hashable]] = {region: set() for region in after}
    for region, receivers in after.items():
        for receiver in receivers:
            before[receiver].add(region)
    found: dict[Hashable, set[Hashable]] = {}
    left = set(after)
    for region in reversed(order):  # Kosaraju: each search backwards finds one component
        if region not in left:
            continue
        left.remove(region)
        cycle, queue = {region}, deque([region])
        while queue:
            fresh = before[queue.popleft()] & left
            left -= fresh
            cycle |= fresh
            queue.extend(fresh)
        if len(cycle) > 1:
            found.update(dict.fromkeys(cycle, cycle))
    return found


def _finished(after: dict[Hashable, set[Hashable]]) -> list[Hashable]:
    """Return the regions in the order in which a search in depth leaves them."""
    order: list[Hashable] = []
    seen: set[Hashable] = set()
    for start in after:
        if start in seen:
            continue
        seen.add(start)
        path = [(start, iter(after[start]))]
        while path:
            region, receivers = path[-1]
            fresh = next((one for one in receivers if one not in seen), None)
            if fresh is None:
                order.append(region)
                path.pop()
            else:
                seen.add(fresh)
                path.append((fresh, iter(after[fresh])))
    return order


def failover_tasks(
    edges: Iterable[Edge], failed: Hashable, lost: Iterable[Hashable] = ()
) -> set[Hashable]:
    """Return the tasks that a failure restarts.

    Parameters
    ----------
    edges : iterable of (from, to, kind)
        Between tasks; kind "pipelined" or "blocking".
    failed : hashable
        The failed task.
    lost : iterable of hashable
        Producers whose stored results are gone, on a failed task manager for example.

    Returns
    -------
    set of hashable
        The failed region; for each region that restarts also every region that it reads a lost
        result from, and every region downstream of it.

    Raises
    ------
    ValueError
        If a kind is neither "pipelined" nor "blocking".

    Notes
    -----
    ``getRegionsToRestart``. A lost result that no restarting region reads restarts nobody: its
    readers have it already, or their failure will ask for it.

    Examples
    --------
    >>> edges = [("map", "sort", "blocking"), ("sort", "sink", "pipelined")]
    >>> sorted(failover_tasks(edges, "sink"))
    ['sink', 'sort']
    >>> sorted(failover_tasks(edges, "sink", lost=["map"]))
    ['map', 'sink', 'sort']
    """
    edges, gone = _checked(edges), set(lost)
    regions = pipelined_regions(edges, [failed])
    involves: dict[Hashable, set[Hashable]] = {}
    for sender, receiver, kind in edges:
        involves.setdefault(sender, set()).add(receiver)
        if kind == BLOCKING and sender in gone:
            involves.setdefault(receiver, set()).add(sender)
    whole = {task: involves.get(task, set()) | regions[task] for task in regions}
    return _reachable(failed, whole)


def _reachable(start: Hashable, after: dict[Hashable, set[Hashable]]) -> set[Hashable]:
    found, queue = {start}, deque([start])
    while queue:
        fresh = after[queue.popleft()] - found
        found |= fresh
        queue.extend(fresh)
    return found


def _checked(edges: Iterable[Edge]) -> Sequence[Edge]:
    edges = list(edges)
    for sender, receiver, kind in edges:
        if kind not in (PIPELINED, BLOCKING):
            raise ValueError(
                f"edge {sender!r} -> {receiver!r} is {kind!r}: needs {PIPELINED!r} or {BLOCKING!r}"
            )
    return edges
