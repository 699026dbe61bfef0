"""Heartbeats: when somebody is asked, and when it counts as dead."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class HeartbeatMonitor:
    """What somebody who asks another knows of it (``HeartbeatMonitorImpl``).

    Parameters
    ----------
    start : int
        When it began, microseconds: that counts as an answer.
    interval : int, default 10000000
        ``heartbeat.interval``, microseconds.
    timeout : int, default 50000000
        ``heartbeat.timeout``, microseconds.
    threshold : int or None, default 2
        Failed calls in a row after which the other is dead
        (``heartbeat.rpc-failure-threshold``); None: they do not count.

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    A call fails at once when the other's host refuses the connection; a call that is only not
    answered is no failure, and runs into the timeout. An answer sets both back.
    """

    start: int
    interval: int = 10_000_000
    timeout: int = 50_000_000
    threshold: int | None = 2
    _answered: int = field(init=False)
    _failures: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if not 1 <= self.interval <= self.timeout:
            raise ValueError(
                f"heartbeat interval is {self.interval} us, timeout {self.timeout} us: needs "
                "1 <= interval <= timeout"
            )
        if self.threshold is not None and self.threshold < 1:
            raise ValueError(f"threshold is {self.threshold} failed heartbeats: needs at least 1")
        self._answered = self.start

    def next_call(self, now: int) -> int:
        """Return when the next heartbeat after a moment is due."""
        return now + self.interval - (now - self.start) % self.interval

    def answer(self, now: int) -> None:
        """Note an answer."""
        self._answered, self._failures = now, 0

    def fail(self, now: int) -> bool:
        """Note a call that failed; return whether the other is dead now."""
        self._failures += 1
        return self.is_dead(now)

    def is_dead(self, now: int) -> bool:
        """Tell whether the other counts as dead."""
        refused = self.threshold is not None and self._failures >= self.threshold
        return refused or now - self._answered >= self.timeout


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """How often somebody is asked for heartbeats, and when it counts as dead.

    Attributes
    ----------
    interval, timeout : int
        Microseconds.
    threshold : int or None
        Failed calls in a row; None: they do not count.
    """

    interval: int = 10_000_000
    timeout: int = 50_000_000
    threshold: int | None = 2

    def monitor(self, now: int) -> HeartbeatMonitor:
        """Return a monitor that begins now."""
        return HeartbeatMonitor(now, self.interval, self.timeout, self.threshold)
