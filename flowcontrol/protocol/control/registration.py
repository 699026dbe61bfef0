"""Registration at a leader: tried again until it is answered, with growing patience."""

from dataclasses import dataclass, field

FIRST_TIMEOUT, LONGEST_TIMEOUT = 100_000, 30_000_000
"""Time that an answer may take, at first and at the most, microseconds
(``cluster.registration.initial-timeout``, ``.max-timeout``)."""

AFTER_ERROR, AFTER_REFUSAL = 10_000_000, 30_000_000
"""Pause behind an error and behind a refusal, microseconds
(``cluster.registration.error-delay``, ``.refused-registration-delay``)."""


@dataclass(slots=True)
class Registration:
    """An attempt to register, and those that follow (``RetryingRegistration``).

    Each method returns when the next call is due; an answer to an earlier try than the last one
    comes too late and is passed over, so the target must not mind being asked again.

    Attributes
    ----------
    tries : int
        Calls so far.
    timeout : int
        How long the answer to the last call may take, microseconds.
    is_done : bool
        Whether it is registered.

    Examples
    --------
    >>> own = Registration()
    >>> own.call(0), own.timed_out(100_000), own.call(100_000)
    (100000, 100000, 300000)
    """

    tries: int = 0
    timeout: int = FIRST_TIMEOUT
    is_done: bool = False
    _next_timeout: int = field(default=FIRST_TIMEOUT, init=False)

    def call(self, now: int) -> int:
        """Note a call; return when it times out, microseconds."""
        self.tries += 1
        self.timeout = self._next_timeout
        return now + self.timeout

    def timed_out(self, now: int) -> int:
        """Note that no answer came in time; the next call, at once, gets twice as long."""
        self._next_timeout = min(2 * self.timeout, LONGEST_TIMEOUT)
        return now

    def failed(self, now: int) -> int:
        """Note an error: the next call is 10 s later, and patience is what it was at first."""
        self._next_timeout = FIRST_TIMEOUT
        return now + AFTER_ERROR

    def refused(self, now: int) -> int:
        """Note a refusal: the next call is 30 s later, and patience is what it was at first."""
        self._next_timeout = FIRST_TIMEOUT
        return now + AFTER_REFUSAL

    def answered(self, number: int) -> bool:
        """Note an answer to call ``number``, from 1; return whether that registers it."""
        if self.is_done or number != self.tries:
            return False
        self.is_done = True
        return True
