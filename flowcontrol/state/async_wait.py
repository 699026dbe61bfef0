"""The state of an operator that calls a service: its queue of records and watermarks.

Places of elements count from 1, so 0 says that there is none. Times are rounds of a clock, or
whatever unit its caller has; delays of retries are in a finer one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from flowcontrol.state.requests import NEVER, NONE, Request, Requests


@dataclass(slots=True)
class WaitSettings:
    """What an operator may do (``AsyncWaitOperator``, ``AsyncRetryStrategies``); constant."""

    capacity: int = 100
    """Elements of its queue, above 0."""
    is_ordered: int = 1
    """1: records leave in the order in which they came (``OutputMode.ORDERED``)."""
    is_blocking: int = 0
    """1: its thread waits for each answer, as a synchronous lookup does."""
    timeout: int = NEVER
    """Time that a record may take in all its calls together."""
    retries: int = 0
    """Calls of a record after the first one (``maxAttempts``)."""
    retries_errors: int = 1
    """1: a call that failed is repeated."""
    retries_empty: int = 0
    """1: a call that had no result is repeated."""
    delay: int = 0
    """Between the first call's answer and the second call, in the finer unit."""
    multiplier: int = 1000
    """Of the delay before each further call, thousandths."""
    longest_delay: int = 0
    """The longest delay of these, in the finer unit."""
    delay_units: int = 1
    """Finer units of one of time."""
    fails: int = 0
    """1: a timeout, or an error that is not repeated, fails the job, as Flink's default does; 0:
    the record is passed on as it is."""


@dataclass(slots=True)
class Element:
    """A record or a watermark in the queue (``StreamElementQueueEntry``)."""

    next: int = NONE
    """Place of the one behind it; of a free one: of the next free one."""
    is_mark: int = 0
    """1: a watermark, which is complete at once."""
    mark: int = 0
    """That watermark, ms."""
    call: Request = field(default_factory=Request)
    """Its record and its last call. The number is 0 before the first one; ``due`` is NEVER unless
    the call is in flight; ``expires`` is of all calls together."""
    began: int = 0
    """When it entered the queue."""
    calls: int = 0
    """Calls so far."""
    retry_at: int = NEVER
    """When it is called again."""
    is_called: int = 0
    """1: its call is in flight."""
    completed: int = 0
    """How many were completed up to this one; 0: it is not."""
    outcome: int = 0
    """ANSWERED, FAILED, EMPTY or TIMED_OUT (:mod:`flowcontrol.protocol.requests.async_wait`)."""


@dataclass(slots=True)
class WaitQueue:
    """How far an operator is (``OrderedStreamElementQueue``, ``UnorderedStreamElementQueue``)."""

    head: int = NONE
    """Place of the first element."""
    tail: int = NONE
    """Place of the last one."""
    size: int = 0
    """Elements in it, complete ones included."""
    complete: int = 0
    """Complete ones in it."""
    completions: int = 0
    """Elements completed so far."""
    hand: int = NONE
    """Place of the element that waits until the queue has room."""
    has_mail: int = 0
    """1: a mail is on its way that emits a complete element."""
    last_delay: int = 0
    """The delay of the retry before, of whatever record, in the finer unit."""
    is_ending: int = 0
    """1: the input is over, and nothing is repeated any more."""
    has_failed: int = 0
    """1: it has failed the job."""
    hits: int = 0
    """Records that the cache has answered."""
    used: int = 0
    """Elements that ever held something."""
    free: int = NONE
    """Place of an element that is free again."""


class Wait(NamedTuple):
    """An operator that calls a service as the rules see it."""

    settings: WaitSettings  # What it may do
    queue: WaitQueue  # How far it is
    elements: Sequence[Element]  # One more than its capacity: that in hand
    requests: Requests  # Its records, and the figures of its calls
