"""Failures: what a job shows after a round."""

from __future__ import annotations

from collections.abc import Iterator

from flowcontrol.trace.channel_state import BufferKind
from flowcontrol.trace.round_state import RoundState

EVENTS = {"gone", "part is gone", "restored", "runs again"}
"""What must have happened in some of the runs."""


def happened(state: RoundState) -> Iterator[str]:
    """Tell what a state shows."""
    running = [task.is_running for task in state.tasks]
    if not any(running):
        yield "gone"
    elif not all(running):
        yield "part is gone"
    for task in state.tasks:
        queued = (one for gate in task.gates for into in gate.channels for one in into.queue)
        if any(one.buffer == BufferKind.RESTORED for one in queued):
            yield "restored"
