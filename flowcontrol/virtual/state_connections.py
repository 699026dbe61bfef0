"""Connections that are a bottleneck, read from the kernel's memory."""

from __future__ import annotations

from flowcontrol.job import Job
from flowcontrol.job.round_state import ChannelId, ConnectionState, MessageUnderWay
from flowcontrol.protocol import rows as w
from flowcontrol.protocol.queues import plain
from flowcontrol.protocol.state import width
from flowcontrol.systems.tcp_connection import TcpConnection, TcpMessage
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.wires import connections_of


def connection_states(job: Job, memory: Memory) -> tuple[ConnectionState, ...]:
    """Return the connections, in their order behind the tasks."""
    pairs = connections_of(job)
    if not pairs:
        return ()
    names = {
        int(out): ChannelId(link.name, channel.sender, channel.receiver)
        for link in job.links
        for out, channel in zip(memory.places.outs[link.name], link.channels, strict=True)
    }
    rows, found = _connections(memory), []
    for row, (here, there, edge) in zip(rows, pairs, strict=True):
        waiting = memory.values(row.union, w.FIFO_SLOTS + row.gates)
        tcp = memory.copy(row.phases, TcpConnection) if memory.head.is_tcp == 1 else None
        turns = tuple(names[out] for out in waiting)
        found.append(ConnectionState(here, there, edge, row.ready, turns, tcp))
    return tuple(found)


def messages_on_wires(memory: Memory) -> dict[int, list[MessageUnderWay]]:
    """Return what connections without credits carry, by number of the channel at its sender."""
    found: dict[int, list[MessageUnderWay]] = {}
    for row in _connections(memory):
        wire = memory.copy(row.phases, TcpConnection)
        ring = memory.table(row.phases + width(TcpConnection), row.phase_count, TcpMessage)
        for number in range(wire.delivered, wire.written):
            [sent] = memory.copies(ring[[number % row.phase_count]], TcpMessage)
            arrives = sent.round if number < wire.entered else -1
            found.setdefault(sent.channel, []).append(MessageUnderWay(plain(sent), arrives))
    return found


def _connections(memory: Memory) -> list[f.KernelTask]:
    rows = memory.tasks
    return memory.copies(rows[rows["kind"] == f.CONNECTION], f.KernelTask)
