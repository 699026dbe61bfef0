"""The error tree. Every refusal says what is wrong, the value, the limit and what to do.

Three families, because three different people are meant: the author of a scenario
(:class:`ScenarioError`), the other end of a channel (:class:`ProtocolError`), and whoever
runs the job (:class:`RunError` and :class:`LedgerError`). What a *caller* of a Python
function did wrong is a plain ``ValueError``, as everywhere in Python.

This module imports the standard library only, so that everything may import it.
"""

from collections.abc import Sequence
from dataclasses import dataclass


class FlowControlError(Exception):
    """Base of every error that this package raises on purpose."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a scenario.

    Attributes
    ----------
    place : str
        Path of the key in the scenario, for example ``stages[1].service_rate[0].rate``.
    message : str
        The value, the limit it broke, and what to do about it.
    """

    place: str
    message: str

    def __str__(self) -> str:
        """Return ``place: message``."""
        return f"{self.place}: {self.message}"


class ScenarioError(FlowControlError):
    """A scenario is refused; nothing was written.

    Parameters
    ----------
    problems : sequence of Problem
        Everything that was found, in the order of the file. Never empty.
    source : str, default ""
        The file that was read, for the first line of the text.

    Attributes
    ----------
    problems : tuple of Problem
        As given.
    source : str
        As given.
    """

    def __init__(self, problems: Sequence[Problem], source: str = "") -> None:
        self.problems = tuple(problems)
        self.source = source
        if not self.problems:
            raise ValueError("a ScenarioError needs at least one problem")
        super().__init__(str(self))

    def __str__(self) -> str:
        """Return a line a problem, under one line that names the file."""
        count = len(self.problems)
        noun = "problem" if count == 1 else "problems"
        head = f"{self.source or 'scenario'} is refused ({count} {noun}):"
        return "\n".join([head, *(f"  {problem}" for problem in self.problems)])


class ProtocolError(FlowControlError):
    """The other end of a channel broke the protocol (Flink: an IllegalStateException)."""


class FencingTokenError(ProtocolError):
    """A call carries another token than its target's leader has (``FencingTokenException``)."""


class InsufficientBuffersError(FlowControlError):
    """More buffers are required than a network buffer pool can promise.

    Parameters
    ----------
    required : int
        Buffers asked for.
    available : int
        Buffers not yet promised to anybody: total less everything required so far.
    total : int
        Buffers of the pool.
    buffer_bytes : int
        Size of one buffer in bytes.

    Notes
    -----
    The text is that of Flink's ``NetworkBufferPool`` with its figures.
    """

    def __init__(self, required: int, available: int, total: int, buffer_bytes: int) -> None:
        self.required = required
        self.available = available
        self.total = total
        self.buffer_bytes = buffer_bytes
        super().__init__(
            f"Insufficient number of network buffers: required {required}, but only "
            f"{available} available. The total number of network buffers is currently set to "
            f"{total} of {buffer_bytes} bytes each. You can increase this number by setting the "
            "configuration keys 'taskmanager.memory.network.fraction', "
            "'taskmanager.memory.network.min', and 'taskmanager.memory.network.max'."
        )


class NotEnoughSlotsError(FlowControlError):
    """A job needs more slots than its task managers have (``NoResourceAvailableException``).

    Flink's tasks wait for ``slot.request.timeout`` in the state SCHEDULED before it says so.
    """

    def __init__(self, required: int, available: int, timeout_s: float = 300.0) -> None:
        self.required = required
        self.available = available
        super().__init__(
            f"Could not acquire the minimum required resources: required {required} slots, but "
            f"only {available} available. After slot.request.timeout ({timeout_s:g} s) Flink fails "
            "the job: raise 'taskmanager.numberOfTaskSlots' or the number of task managers, or "
            "lower the parallelism."
        )


class LedgerError(FlowControlError):
    """A ledger or exchange log cannot be read or written as it must be."""


class RunError(FlowControlError):
    """A run failed after it had started."""


class LinkError(FlowControlError):
    """A link between two streaming queries is used in a way that it cannot serve.

    The text names the link, what was found, what was expected and what to do.
    """


class DamagedError(LedgerError, LinkError):
    """A file of a link is missing, torn, or holds something else than was written."""


class FencedError(LinkError):
    """Another process has taken this side of a link over; this one may write no more."""


class DetachedError(LinkError):
    """A receiver lagged further behind than the link allows and was cut off."""


class RemovedError(LinkError):
    """A receiver was removed from its link; no sender waits for it."""


class StoppedError(LinkError):
    """A sender's query was stopped before its batch was written; the next start runs it again."""
