"""The messages of a window of a run: its rounds, its table, and what flow control costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flowcontrol.arrays import pa
from flowcontrol.job.control_start import start_us
from flowcontrol.job.job import Job
from flowcontrol.job.messages import FORWARD, Message
from flowcontrol.job.record_messages import recorders_of
from flowcontrol.job.round_state import RoundState
from flowcontrol.protocol.frames import Frame


@dataclass(frozen=True)
class Window:
    """A window of a run whose messages are written down.

    Attributes
    ----------
    start_us, end_us : int
        What it covers, microseconds of the run, both ends included.
    edges : frozenset of str
        Names of its edges; empty: all.
    """

    start_us: int
    end_us: int
    edges: frozenset[str] = frozenset()

    def shows(self, message: Message) -> bool:
        """Tell whether a message is within it; what a throttle says is of no edge in particular."""
        if not self.start_us / 1e6 <= message.t_s <= self.end_us / 1e6:
            return False
        is_throttles = message.sender is None or message.receiver is None
        return not self.edges or is_throttles or message.edge in self.edges


def window_of(job: Job) -> Window | None:
    """Return the window that a scenario asks for; None if it asks for none."""
    trace = job.scenario.trace
    if trace is None:
        return None
    return Window(*trace.window_us(job.scenario.duration_us), frozenset(trace.edges))


def first_round(job: Job, window: Window) -> int:
    """Return the first round of which a recorder has to see the state.

    Events have sequence numbers too, and no cursor counts them: so where there may be other events
    than the end of a partition, a recorder has to see the run from its beginning.
    """
    if job.checkpoints is not None or job.faults is not None or job.scenario.jobs:
        return 0
    if start_us(job.scenario) > 0:  # what is requested when the job is deployed
        return 0
    number = -(-window.start_us // job.round_us) - 1  # a message counts from the end of its round
    return max(0, min(number - 1, job.rounds - 1))


def messages_of(job: Job, window: Window, states: Iterable[RoundState]) -> Iterator[Message]:
    """Yield the messages of a window.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    window : Window
        The window.
    states : iterable of RoundState
        States after the rounds from :func:`first_round` on, of whichever clock. They are taken up
        to the end of the window.
    """
    recorders, first = recorders_of(job), first_round(job, window)
    for state in states:
        if state.start_us > window.end_us:
            return
        for own in recorders:
            if state.number == first > 0:
                own.begin(state)
            else:
                yield from filter(window.shows, own.look(state))


def read_messages(table: pa.Table) -> list[Message]:
    """Return the messages of a table ``messages``."""
    return [Message(**row) for row in table.to_pylist()]


def overhead(messages: Sequence[Message]) -> dict[str, Any]:
    """Return what flow control costs in messages, for ``summary.json``.

    Parameters
    ----------
    messages : sequence of Message
        Of a window.

    Returns
    -------
    dict
        ``messages``, and of them those by name under ``by_name``; ``data_buffers``, messages that
        carry data; ``data_bytes``, their data; ``header_bytes`` of these; ``control_messages``, all
        others, events among them; ``control_bytes``, with their headers; ``overhead_share``, bytes
        that are no data over all bytes; ``messages_per_buffer``. These two are null without data.
        ``has_bytes``: whether the frames of the system are known.
    """
    by_name: dict[str, int] = {}
    data = [one for one in messages if is_data(one)]
    for one in messages:
        by_name[one.name] = by_name.get(one.name, 0) + 1
    carried = sum(one.bytes or 0 for one in data)
    headers = sum(one.header_bytes or 0 for one in data)
    control = sum(wire_bytes(one) for one in messages if not is_data(one))
    every = carried + headers + control
    return {
        "has_bytes": all(one.header_bytes is not None for one in messages),
        "messages": len(messages),
        "by_name": dict(sorted(by_name.items())),
        "data_buffers": len(data),
        "data_bytes": carried,
        "header_bytes": headers,
        "control_messages": len(messages) - len(data),
        "control_bytes": control,
        "overhead_share": (headers + control) / every if every else None,
        "messages_per_buffer": len(messages) / len(data) if data else None,
    }


def is_data(message: Message) -> bool:
    """Tell whether a message carries data, and no event."""
    return message.bytes is not None and message.direction == FORWARD and message.credit != 0


def wire_bytes(message: Message) -> int:
    """Return what a message weighs on a wire, bytes; what is not known counts as nothing."""
    own = 0 if message.name == Frame.NEW_BUFFER_SIZE else message.bytes
    return (message.header_bytes or 0) + (own or 0)
