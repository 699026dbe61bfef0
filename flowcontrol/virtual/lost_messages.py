"""What connections without credits carry to and from tasks that fail."""

import numpy as np

from flowcontrol.protocol.state import cell, width
from flowcontrol.systems.tcp_connection import NOBODY, TcpConnection, TcpMessage
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.connections import CONNECTION_CELLS, tcp_connection
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.wheel import wake


def lose_messages(memory: Memory, tasks: list[int]) -> None:
    """Have nobody take what is under way to tasks, or from tasks, that fail.

    Parameters
    ----------
    memory : Memory
        Between two rounds.
    tasks : list of int
        Numbers of the tasks.

    Notes
    -----
    A connection of which all channels are gone is closed, and made anew. Another one goes on, and
    its receiver drops what comes for a channel that is not there any more.
    """
    head, outs = memory.head, memory.outs
    gone = np.isin(outs["sender"], tasks) | np.isin(outs["receiver"], tasks)
    for number in np.flatnonzero(memory.tasks["kind"] == f.CONNECTION).tolist():
        row = memory.tasks[number]
        at, own = int(row["phases"]), gone[outs["connection"] == number]
        wire = tcp_connection(head, at)
        if own.all():
            first = at + cell(TcpConnection, "kernel_bytes") + 1
            memory.cells[first : at + width(TcpConnection)] = 0
            wire.is_writable = wire.auto_read = 1
        elif own.any():
            ring = memory.table(at + CONNECTION_CELLS, int(row["phase_count"]), TcpMessage)
            for place in range(wire.delivered, wire.written):
                message = ring[place % len(ring)]
                if message["channel"] != NOBODY and gone[message["channel"]]:
                    message["channel"] = NOBODY
            wake(head, number, head.round)
