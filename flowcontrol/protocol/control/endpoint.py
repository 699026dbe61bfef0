"""An endpoint of the control plane: fencing, registration and heartbeats.

Fencing: a call for a leader that is no more is not executed. Registration at a leader is tried
again until it is answered, with growing patience. Heartbeats say who counts as dead.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, ClassVar

from flowcontrol.errors import FencingTokenError
from flowcontrol.protocol.control.calls import After, Call, Effect, Name, Reply, size_of

FIRST_TIMEOUT, LONGEST_TIMEOUT = 100_000, 30_000_000
"""Time that an answer may take, at first and at the most, microseconds
(``cluster.registration.initial-timeout``, ``.max-timeout``)."""

AFTER_ERROR, AFTER_REFUSAL = 10_000_000, 30_000_000
"""Pause behind an error and behind a refusal, microseconds
(``cluster.registration.error-delay``, ``.refused-registration-delay``)."""

HEARTBEAT = "heartbeat"
"""What an endpoint is due to do that asks for heartbeats."""


def new_token(endpoint: str, term: int) -> str:
    """Return the token of a leader: 16 bytes, in hexadecimal digits.

    Flink draws a UUID at each gain of leadership; ours is a function of both, so that two runs of
    a scenario are equal.
    """
    return blake2b(f"{endpoint}/{term}".encode(), digest_size=16).hexdigest()


def check_token(endpoint: str, name: str, carried: str | None, own: str | None) -> None:
    """Refuse a call whose token is not that of the endpoint.

    ``FencedPekkoRpcActor.handleRpcMessage``.

    ``own``: token of the endpoint; None: it leads nothing.

    Raises FencingTokenError if none is set, or they differ.
    """
    if own is None:
        raise FencingTokenError(
            f"fencing token not set: {endpoint} ignores {name}, since it has no token "
            f"(the call carries {carried})"
        )
    if carried != own:
        raise FencingTokenError(
            f"fencing token mismatch: {endpoint} ignores {name}, since the call's token, "
            f"{carried}, is not the expected one, {own}"
        )


@dataclass
class Registration:
    """An attempt to register, and those that follow (``RetryingRegistration``).

    Each method returns when the next call is due; an answer to an earlier try than the last one
    comes too late and is passed over, so the target must not mind being asked again.

    Examples
    --------
    >>> own = Registration()
    >>> own.call(0), own.timed_out(100_000), own.call(100_000)
    (100000, 100000, 300000)
    """

    target: str = ""  # target, name: whom with, and by which call
    name: Name = Name.REGISTER_TASK_EXECUTOR
    leader: str | None = None  # The target's leader id
    tries: int = 0  # Calls so far
    timeout: int = FIRST_TIMEOUT  # How long the answer to the last call may take, microseconds
    is_done: bool = False  # Whether it is registered
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


@dataclass(slots=True)
class HeartbeatMonitor:
    """What somebody who asks another knows of it (``HeartbeatMonitorImpl``).

    A call fails at once when the other's host refuses the connection; a call that is only not
    answered is not a failure, and runs into the timeout. An answer sets both back.

    - ``start``: when it began, microseconds: that counts as an answer.
    - ``threshold``: failed calls in a row after which the other is dead
      (``heartbeat.rpc-failure-threshold``); None: they do not count.

    Raises ValueError if a number is out of range.
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
    """How often somebody is asked for heartbeats, and when it counts as dead."""

    interval: int = 10_000_000  # interval, timeout: microseconds
    timeout: int = 50_000_000
    threshold: int | None = 2  # Failed calls in a row; None: they do not count

    def monitor(self, now: int) -> HeartbeatMonitor:
        """Return a monitor that begins now."""
        return HeartbeatMonitor(now, self.interval, self.timeout, self.threshold)


class Endpoint:
    """Somebody who is called: by the method that has the call's name, which yields what it causes.

    - ``name``: of the endpoint.
    - ``leaders``: whom it registers with, by the call that does so.
    - ``monitors``: by endpoint that it asks for heartbeats.
    """

    beat: ClassVar[Name]
    """The call by which it asks for heartbeats."""

    def __init__(self, name: str, heartbeats: Heartbeats | None = None) -> None:
        self.name = name
        self.leaders: dict[str, Registration] = {}
        self.monitors: dict[str, HeartbeatMonitor] = {}
        self._heartbeat = heartbeats or Heartbeats()

    @property
    def identity(self) -> Any:
        """What tells it from the endpoint of this name before it, and behind it."""
        raise NotImplementedError

    def hear(self, now: int, call: Call) -> Iterator[Effect]:
        """Execute a call.

        Raises ProtocolError if it is not executed, with the reason; nothing has changed then.
        """
        self._check(call)
        method = getattr(self, call.name.name.lower(), None)
        if method is not None:
            yield from method(now, call, *call.args)

    def reply(self, now: int, reply: Reply) -> Iterator[Effect]:
        """Take an answer, or notice of a call that was not executed."""
        own = self.leaders.get(reply.name)
        if own is not None and not own.is_done and reply.value[:1] == (own.leader,):
            if reply.error:
                yield self._again(own.failed(now), own, is_late=False)
            elif own.answered(reply.value[1]):
                yield from self._registered(now, own)
        elif reply.error and reply.source in self.monitors and reply.name == self.beat:
            if self.monitors[reply.source].fail(now):
                yield from self._give_up(now, reply.source)
        elif reply.name == "disconnect":
            yield from self._given_up(now, reply)

    def act(self, now: int, due: After) -> Iterator[Effect]:
        """Do what is due: ask for heartbeats, register again, or something of its own."""
        own = self.leaders.get(due.what)
        if due.value[0] != self.identity:
            return
        if due.what == HEARTBEAT:
            yield from self._ask(now)
        elif own is None:
            yield from self._due(now, due)
        elif due.value[1:3] == (own.leader, own.tries) and not own.is_done:
            if due.value[3]:
                own.timed_out(now)
            yield from self._register(now, own)

    # ------------------------------------------------------------------ what it sends

    def _call(
        self, target: str, name: Name, token: str | None, *args: Any, part: int = 0, whole: int = 0
    ) -> Call:
        size = size_of(name, target, part, whole)
        return Call(self.name, target, name, token, size, args)

    def _register(self, now: int, own: Registration) -> Iterator[Effect]:
        late = own.call(now)
        yield self._call(own.target, own.name, own.leader, self.identity, own.tries)
        yield self._again(late, own, is_late=True)

    def _again(self, at: int, own: Registration, *, is_late: bool) -> After:
        return After(at, self.name, own.name, (self.identity, own.leader, own.tries, is_late))

    def _next_beat(self, now: int) -> After:
        return After(now + self._heartbeat.interval, self.name, HEARTBEAT, (self.identity,))

    def _ask(self, now: int) -> Iterator[Effect]:
        """Ask for heartbeats, and give up who is dead."""
        for who, monitor in list(self.monitors.items()):
            if monitor.is_dead(now):
                yield from self._give_up(now, who)
            else:
                yield self._asked(who)
        yield self._next_beat(now)

    # ------------------------------------------------------------------ what differs

    def _check(self, call: Call) -> None:
        """Refuse a call that is for somebody else."""

    def _asked(self, who: str) -> Call:
        """Return the call that asks somebody for a heartbeat."""
        raise NotImplementedError

    def _give_up(self, now: int, who: str) -> Iterator[Effect]:
        """Give somebody up that is dead."""
        raise NotImplementedError

    def _other(self, now: int, what: Any) -> Iterator[Effect]:
        """Go on once registered, given up by a leader, or with something due of its own."""
        return iter(())

    _registered = _given_up = _due = _other
