"""Which tasks restart with one that fails, and how long detection and restore take.

All times are whole microseconds since the start of the run, all sizes bytes. Heartbeats are
Flink's (``reference/checkpoints-and-time.md`` section 4); the length of a restore is a model.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from fractions import Fraction

# --- Which tasks a failure restarts: regions of tasks that are joined by pipelined edges.
#
# Source: `RestartPipelinedRegionFailoverStrategy` of Flink 1.20
# (`jobmanager.execution.failover-strategy: region`, the default).


Edge = tuple[Hashable, Hashable, str]
"""From task, to task, "pipelined" or "blocking"."""

PIPELINED, BLOCKING = "pipelined", "blocking"


def pipelined_regions(
    edges: Iterable[Edge], tasks: Iterable[Hashable] = ()
) -> dict[Hashable, frozenset[Hashable]]:
    """Return the region of each task: all that pipelined edges reach from it, in any direction.

    Regions that need each other's stored results in a cycle are one.

    ``SchedulingPipelinedRegionComputeUtil``, with its merge of regions in a cycle.

    ``tasks``: more tasks; one without a pipelined edge is a region of its own.
    """
    edges = list(edges)
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

    ``getRegionsToRestart``. A lost result that no restarting region reads restarts nobody: its
    readers have it already, or their failure will ask for it.

    ``edges``: between tasks; kind "pipelined" or "blocking".

    Returns the failed region; for each region that restarts also every region that it reads a lost
    result from, and every region downstream of it.

    Examples
    --------
    >>> edges = [("map", "sort", "blocking"), ("sort", "sink", "pipelined")]
    >>> sorted(failover_tasks(edges, "sink"))
    ['sink', 'sort']
    >>> sorted(failover_tasks(edges, "sink", lost=["map"]))
    ['map', 'sink', 'sort']
    """
    edges, gone = list(edges), set(lost)
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


# --- Moments of a recovery: when the death of a process is seen, and when tasks have their state.


MICROSECONDS = 1_000_000


def silent_death_seen_us(
    failed_us: int, interval_us: int, timeout_us: int, first_us: int = 0
) -> int:
    """When a process that died without a trace is given up: a timeout after its last heartbeat.

    - ``failed_us``: when it died; a heartbeat at that very moment is still answered.
    - ``interval_us``, ``timeout_us``: ``heartbeat.interval`` and ``heartbeat.timeout``.
    """
    since_last = (failed_us - first_us) % interval_us
    return failed_us - since_last + timeout_us


def refused_death_seen_us(
    failed_us: int, interval_us: int, threshold: int = 2, first_us: int = 0
) -> int:
    """When a process is given up whose host refuses connections: after some failed heartbeats.

    - ``failed_us``, ``interval_us``, ``first_us``: as for :func:`silent_death_seen_us`.
    - ``threshold``: failed heartbeats in a row, at least 1 (``heartbeat.rpc-failure-threshold``;
      Flink's -1 switches this off: then only the timeout holds).

    In (threshold - 1, threshold] intervals after the failure.
    """
    since_last = (failed_us - first_us) % interval_us
    return failed_us - since_last + threshold * interval_us


def restored_us(
    start_us: int, nbytes: Mapping[Hashable, tuple[int, int]], bytes_per_s: int | Fraction
) -> dict[Hashable, tuple[int, int]]:
    """When the tasks of one task manager have read their in-flight data, and all their state.

    They begin together and share the bandwidth evenly: while a task reads its b-th byte each
    other one has read min(b, its size), so it is there when the sum of these is read.

    ``nbytes``: in-flight data of an unaligned checkpoint, which is read first, and state; bytes.

    Rounded up to microseconds.
    """
    totals = [sum(sizes) for sizes in nbytes.values()]

    def read_by(size: int) -> int:
        served = sum(min(size, total) for total in totals)
        return start_us + -(-served * MICROSECONDS // Fraction(bytes_per_s))

    return {task: (read_by(sizes[0]), read_by(sum(sizes))) for task, sizes in nbytes.items()}
