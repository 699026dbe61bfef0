"""What a task waits for in its writer, and when somebody has to look at that again."""

from typing import Final

from flowcontrol.state.requests import NEVER, Requests, SinkWriter

RESTING: Final = 0
"""The task waits for nothing of the writer."""
WRITING: Final = 1
"""It waits in ``write``: for room in the buffer, or until a request is answered."""
FLUSHING: Final = 2
"""A checkpoint waits until no request is in flight (``flush(false)``)."""
ENDING: Final = 3
"""The input is over: the task waits for the next answer (``flush(true)``)."""
ENDING_FLUSH: Final = 4
"""The input is over: a request waits until it may be sent."""


def note_next(writer: SinkWriter, at: int) -> None:
    """Have the writer looked at at a time, if it is one."""
    if at != NEVER and (writer.next_at == NEVER or at < writer.next_at):
        writer.next_at = at


def free_slot(requests: Requests) -> int:
    """Return a free place for a request, from 1 on; there is one, as one more may be in flight."""
    number = 0
    while requests.slots[number].number != 0:
        number += 1
    return number + 1
