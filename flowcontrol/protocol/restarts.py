"""After a failure: whether and when a job restarts, which tasks do, and how long it takes.

Pure rules; ``now`` is an argument everywhere. Source: Flink 1.20's
``runtime.executiongraph.failover`` (``reference/checkpoints-and-time.md`` section 4); the
length of a restore is a model of ours beside it.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import blake2b

from flowcontrol.state.declared import Kept

# --- Which tasks restart with one that fails, and how long detection and restore take.
#
# All times are whole microseconds since the start of the run, all sizes bytes. Heartbeats are
# Flink's (``reference/checkpoints-and-time.md`` section 4); the length of a restore is a model.


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


# --- The three rules by which Flink decides on a restart, each a function of what it remembers.
#
# Source: `FixedDelayRestartBackoffTimeStrategy`, `FailureRateRestartBackoffTimeStrategy` and
# `ExponentialDelayRestartBackoffTimeStrategy` of Flink 1.20.


LONGEST = (1 << 63) - 1
"""Java's largest long: what a delay is cut to that has grown beyond it."""


def fixed_allows(failures: int, attempts: int) -> bool:
    """Tell whether a fixed-delay strategy restarts after so many failures."""
    return failures <= attempts


def rate_allows(failed_at: Sequence[int], failures: int, interval: int, now: int) -> bool:
    """Tell whether a failure-rate strategy restarts.

    One failure more than allowed is kept: if it is there, the oldest must be *more* than an
    interval ago.

    - ``failed_at``: when the latest failures were, oldest first, at most ``failures`` + 1 of them,
      ms.
    - ``interval``: its length, ms.
    """
    return len(failed_at) <= failures or now - failed_at[0] > interval


def exponential_delay(
    initial: int, maximum: int, multiplier: float, jitter: float, attempt: int, seed: int, draw: int
) -> int:
    """Delay before a restart of an exponential-delay strategy, ms.

    ``calculateActualBackoffTime``: the deviation belongs to the delay before it is cut to the
    maximum, so a delay far above the maximum has none.

    - ``initial``, ``maximum``: bounds of the delay, ms.
    - ``jitter``: largest deviation, as a share of the delay.
    - ``attempt``: restarts since the delay was reset, from 0.
    - ``seed``, ``draw``: of the deviation, and its number: one that is not drawn again after a
      reset.
    """
    try:
        delay = int(min(initial * multiplier**attempt, float(LONGEST)))
    except OverflowError:  # Java's power is infinite then
        delay = LONGEST
    return max(initial, min(delay + deviation(int(delay * jitter), seed, draw), maximum))


def deviation(most: int, seed: int, number: int) -> int:
    """Return an integer uniform in [-most, most], drawn from a seed and the number of the draw."""
    digest = blake2b(f"{seed}/{number}".encode(), digest_size=16).digest()
    return int.from_bytes(digest, "big") % (2 * most + 1) - most


# --- The restart strategy of a job: counts failures, and says whether and when to restart


NONE, FIXED, RATE, EXPONENTIAL = "none", "fixed", "rate", "exponential"

Kind = str | tuple[str, int, int] | tuple[str, int, int, int]
"""What a strategy is made from: a name alone, or with its numbers."""


@dataclass
class RestartStrategy(Kept):
    """A job's restart strategy (``RestartBackoffTimeStrategy``).

    Source: Flink 1.20, ``reference/checkpoints-and-time.md`` section 4. The caller asks in Flink's
    order: :meth:`fail`, :meth:`can_restart`, :meth:`delay`.

    - ``kind``: ``"exponential"``; ``"none"``; ``("fixed", attempts, delay)``; ``("rate", failures,
      interval, delay)``. Delays and the interval in ms.
    - ``initial``, ``maximum``: bounds of an exponential delay, ms
      (``restart-strategy.exponential-delay.initial-backoff``, ``.max-backoff``).
    - ``multiplier``: more than 1 (``.backoff-multiplier``).
    - ``reset``: time without a failure after a restart that resets the delay, ms
      (``.reset-backoff-threshold``).
    - ``jitter``: 0 to 1 (``.jitter-factor``).
    - ``attempts``: most restarts until a reset, at least 1; by default no limit
      (``.attempts-before-reset-backoff``).

    Examples
    --------
    >>> strategy = RestartStrategy("exponential", jitter=0)
    >>> strategy.fail(5_000), strategy.can_restart(5_000), strategy.delay(5_000)
    (True, True, 1000)
    >>> strategy.fail(5_400), strategy.delay(5_400)  # merged with the first
    (False, 600)
    """

    _kept = ("_failures", "_failed_at", "_draws", "_next_restart")

    kind: Kind = EXPONENTIAL
    initial: int = 1_000
    maximum: int = 60_000
    multiplier: float = 1.5
    reset: int = 3_600_000
    jitter: float = 0.1
    attempts: int | None = None
    seed: int = 0
    _name: str = field(init=False)
    _numbers: tuple[int, ...] = field(init=False)
    _failures: int = field(default=0, init=False)
    _failed_at: list[int] = field(default_factory=list, init=False)
    _draws: int = field(default=0, init=False)
    _next_restart: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Take the kind apart."""
        if isinstance(self.kind, str):
            self._name, self._numbers = self.kind, ()
        else:
            self._name, *numbers = self.kind
            self._numbers = tuple(numbers)

    def fail(self, now: int) -> bool:
        """Count a failure.

        False: merged with the failure before, whose restart is still to come (exponential).
        """
        if self._name == EXPONENTIAL:
            return self._fail_exponential(now)
        self._failures += 1
        if self._name == RATE:
            self._failed_at = [*self._failed_at, now][-(self._numbers[0] + 1) :]
        return True

    def can_restart(self, now: int) -> bool:
        """Tell whether the job restarts; if not it fails for good."""
        if self._name == FIXED:
            return fixed_allows(self._failures, self._numbers[0])
        if self._name == RATE:
            return rate_allows(self._failed_at, self._numbers[0], self._numbers[1], now)
        return self._name == EXPONENTIAL and (
            self.attempts is None or self._failures <= self.attempts
        )

    def delay(self, now: int) -> int:
        """Time from now to the restart, ms.

        ``now``: milliseconds. Only an exponential delay looks at it: the others are Flink's
        constant, whenever they are asked for.

        Raises ValueError if an exponential strategy has seen no failure.
        """
        if self._name != EXPONENTIAL:
            return self._numbers[-1] if self._numbers else 0
        if self._next_restart is None:
            raise ValueError("no failure so far, so there is no delay: call fail(now) first")
        return max(0, self._next_restart - now)

    def _fail_exponential(self, now: int) -> bool:
        if self._next_restart is not None:
            if now <= self._next_restart:
                return False
            if now - self._next_restart >= self.reset:
                self._failures = 0
        numbers = self.initial, self.maximum, self.multiplier, self.jitter
        delay = exponential_delay(*numbers, self._failures, self.seed, self._draws)
        self._next_restart = now + delay
        self._failures += 1
        self._draws += 1
        return True
