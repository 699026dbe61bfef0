"""One message of the control plane, as a trace has it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flowcontrol.protocol.control import Call

MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True)
class ControlMessage:
    """A call from one endpoint to another: a row of the table ``control_messages``.

    Attributes
    ----------
    t_s : float
        When it is made, seconds.
    source, target : str
        Endpoints: ``client``, ``Dispatcher``, ``ResourceManager``, ``JobMaster``,
        ``TaskExecutor 0`` and so on.
    name : str
        What is called, as Flink calls it.
    bytes : int
        Size of the serialised call.
    fencing_token : str or None
        Token of the target's leader, which has to be its own; of a call to a task executor, which
        is not fenced, the leader id of the caller.
    """

    t_s: float
    source: str
    target: str
    name: str
    bytes: int
    fencing_token: str | None = None


def control_messages_of(log: Iterable[tuple[int, Call]]) -> list[ControlMessage]:
    """Return calls as messages, in their order.

    Parameters
    ----------
    log : iterable of (int, Call)
        When each was made, microseconds, and what it is.
    """
    return [
        ControlMessage(
            us / MICROSECONDS, call.source, call.target, str(call.name), call.nbytes, call.token
        )
        for us, call in log
    ]
