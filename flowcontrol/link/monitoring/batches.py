"""The recent micro-batches of a member, and its rates and shares of time.

The window is the last seconds. A micro-batch may be longer than that, so what counts is every
batch that ended within the window, or else the newest one that ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flowcontrol.link.monitoring.history import Amounts, Key, LedgerHistory, Step


class Batches:
    """The recent micro-batches of one member.

    - ``now``: Unix time, seconds.
    - ``window_s``: length of the window before it, seconds.
    - ``newest``: the member's newest commit.
    - ``running``: a receiver's batch that has not ended.
    """

    def __init__(self, ledger: LedgerHistory, member: str, now: float, window_s: float) -> None:
        steps = ledger.steps[member]
        self.now, self.newest = now, steps[-1]
        # Of a start that was not seen, at least the commits are known.
        self._started = ledger.starts.get(member, (0, 0.0))[1]
        self._since = max(now - window_s, steps[0].at)
        self.running: Step | None = None
        last = ledger.last_batches.get(member)
        ended = [] if last is None else [last]
        is_sender = member.startswith("sender/")
        for step in steps:
            if is_sender and step.begin is None:
                continue
            ledger.read(member, step)
            if step.is_busy and (is_sender or (step.end is not None and not step.is_cut)):
                ended.append(step)
            elif step.is_busy and step.end is None:
                self.running = step
        times = [_time(step) for step in ended]
        old = len(ended) - recent(times, now - window_s)
        self._times = times[old:]
        self._totals = _sum(ended[old:])
        self._spread_s = spread_time(self._times, now, window_s)
        self._busy_s = sum(end - start for start, end in self._times)

    def rows_per_s(self, key: Key) -> float:
        """Return rows of a channel per second."""
        return self._totals.get(key, (0, 0))[0] / self._spread_s if self._spread_s else 0.0

    def bytes_per_s(self, key: Key) -> float:
        """Return bytes of a channel per second."""
        return self._totals.get(key, (0, 0))[1] / self._spread_s if self._spread_s else 0.0

    def busy_rate(self, key: Key) -> float | None:
        """Return the bytes of a channel per second while a batch runs; None if not known."""
        running = None
        if self.running is not None:
            running = self.running.amounts.get(key, (0, 0))[1], self.now - self._began
        return busy_rate(self._totals.get(key, (0, 0))[1], self._busy_s, running)

    @property
    def batch_s(self) -> float | None:
        """How long the last batches took on average; None as long as none has ended."""
        return mean_length(self._times)

    @property
    def running_s(self) -> float | None:
        """How long the batch that runs has taken; None if none runs."""
        return None if self.running is None else max(0.0, self.now - self._began)

    @property
    def busy_ratio(self) -> float:
        """Share of the window for which a batch ran."""
        running = [] if self.running is None else [(self._began, self.now)]
        return share([*self._times, *running], self._since, self.now)

    @property
    def silent_s(self) -> float:
        """Time since the last commit, or since a start after it."""
        return max(0.0, self.now - self._began)

    @property
    def _began(self) -> float:
        """When the newest commit was made; a start after it begins its batch again."""
        return max(self.newest.at, self._started)


def _time(step: Step) -> Time:
    """Return from when to when a batch ran: a sender's ends with its commit."""
    if step.begin is not None:
        return step.begin, step.at
    return step.at, step.at if step.end is None else step.end


def _sum(steps: Sequence[Step]) -> Amounts:
    found: Amounts = {}
    for step in steps:
        for key, (rows, nbytes) in step.amounts.items():
            before = found.get(key, (0, 0))
            found[key] = before[0] + rows, before[1] + nbytes
    return found


def waiting_share(
    steps: Sequence[Step], since: float, now: float, channel: int | None = None
) -> float:
    """Return the share of the time for which messages of a sender waited for a buffer.

    - ``since``, ``now``: the window, Unix time, seconds.
    - ``channel``: of this channel; by default of any.
    """
    intervals = [
        (step.at, now if step.end is None else step.end)
        for step in steps
        if _is_waiting(step, channel)
    ]
    return share(intervals, max(since, steps[0].at), now)


def _is_waiting(step: Step, channel: int | None) -> bool:
    released, written = step.state["released"], step.state["written"]
    if channel is not None:
        # The link may have got more channels since.
        return channel < len(written) and bool(released[channel] < written[channel])
    return bool(released != written)


Time = tuple[float, float]
"""From when to when, Unix time, seconds."""

PATIENCE = 3.0
"""Usual times of a batch after which a side that is silent counts as having stopped."""


def recent(times: Sequence[Time], since: float) -> int:
    """Return how many of the last batches count: those that ended after ``since``, or one.

    ``times``: of batches that have ended, in order.
    """
    count = sum(end > since for _, end in times)
    return count or min(1, len(times))


def mean_length(times: Sequence[Time]) -> float | None:
    """Return how long a batch takes on average, s; None without any."""
    if not times:
        return None
    return sum(end - start for start, end in times) / len(times)


def spread_time(times: Sequence[Time], now: float, window_s: float) -> float:
    """Return the time over which recent batches moved their rows, idle time counted.

    ``times``: of the recent batches, in order.

    Returns seconds from the start of the first to the end of the last. The time since then counts
    as far as it is longer than a batch usually takes: only then the next one is late. 0 if there
    are none, or none for longer than the window and three batches: nothing moves.
    """
    usual = mean_length(times)
    if usual is None:
        return 0.0
    silent = now - times[-1][1]
    if silent > max(window_s, PATIENCE * usual):
        return 0.0
    return times[-1][1] - times[0][0] + max(0.0, silent - usual)


def busy_rate(
    amount: float, length_s: float, running: tuple[float, float] | None = None
) -> float | None:
    """Return what is moved per second while a batch runs.

    ``running``: the same of the batch that runs, so far. If it takes longer than the others let
    expect it lowers the rate, as if it ended now.

    Returns None as long as no batch has ended.
    """
    if length_s <= 0:
        return None
    found = amount / length_s
    if running is not None:
        found = min(found, (amount + running[0]) / (length_s + max(0.0, running[1])))
    return found


def share(intervals: Iterable[Time], since: float, now: float) -> float:
    """Return the share of the time from ``since`` to ``now`` that intervals cover, 0 to 1."""
    if now <= since:
        return 0.0
    covered = sum(max(0.0, min(end, now) - max(start, since)) for start, end in intervals)
    return min(1.0, covered / (now - since))
