"""Rules of the receiver's channel (``RemoteInputChannel`` and ``BufferManager``, section 1).

Like all rules these are functions of integers and of declared state
(:mod:`flowcontrol.protocol.states`), without exceptions, closures or dictionaries; booleans are 0
and 1. They do not check their arguments. ``channel`` is an
:class:`~flowcontrol.protocol.states.InputChannel`, ``index`` its place in the ``gate``. Of the
gate's pool, segments requested from the global pool = in use + free; a floating buffer that a
channel holds free is in use.
"""

from flowcontrol.protocol.pool_rules import request_segment
from flowcontrol.protocol.rows import (
    TAKEN_EXCLUSIVE,
    TAKEN_FLOATING,
    TAKEN_NONE,
    fifo_pop,
    fifo_push,
)
from flowcontrol.protocol.sides import Gate
from flowcontrol.protocol.states import InputChannel


def available_buffers(channel: InputChannel) -> int:
    """Free buffers of a channel, exclusive and floating."""
    return channel.exclusive + channel.floating


def request_floating(gate: Gate, index: int) -> int:
    """Ask the gate's pool until the channel has what it requires, or wait at the tail.

    Returns
    -------
    int
        Buffers obtained. They are not yet in the unannounced credit.

    Notes
    -----
    ``BufferManager.tryRequestBuffers``, section 1.3 step 2. A destroyed pool gives nothing
    and lets nobody wait.
    """
    channel = gate.channels[index]
    gained = 0
    while available_buffers(channel) < channel.required and channel.is_waiting == 0:
        if request_segment(gate.pool, gate.segments) == 1:
            channel.floating += 1
            gained += 1
        elif gate.pool.is_destroyed == 1:
            break
        else:
            fifo_push(gate.waiting, index)
            channel.is_waiting = 1
    return gained


def on_backlog(gate: Gate, index: int, backlog: int) -> int:
    """Take note of the sender's backlog; return the credit gained, now also unannounced.

    Notes
    -----
    ``RemoteInputChannel.onSenderBacklog``, section 1.3. A smaller backlog gives nothing back;
    a channel that waits only raises what it requires; a released one ignores it.
    """
    channel = gate.channels[index]
    if channel.is_released == 1:
        return 0
    channel.required = backlog + channel.initial
    gained = request_floating(gate, index)
    channel.unannounced += gained
    return gained


def request_buffer(channel: InputChannel) -> int:
    """Take a buffer for an arriving data message: which kind, ``TAKEN_NONE`` if there is none.

    Notes
    -----
    ``BufferManager.requestBuffer``, section 1.4 (since 1.14): what the channel requires falls
    by one first, below zero if need be; then floating before exclusive.
    """
    if channel.is_released == 1:
        return TAKEN_NONE
    channel.required -= 1
    if channel.floating > 0:
        channel.floating -= 1
        return TAKEN_FLOATING
    if channel.exclusive > 0:
        channel.exclusive -= 1
        return TAKEN_EXCLUSIVE
    return TAKEN_NONE


def offer_floating(gate: Gate, index: int) -> int:
    """Offer a recycled floating buffer to a channel that was waiting.

    Returns
    -------
    int
        Credit: 0 if refused, else 1 for this buffer and 1 for each more that it fetched.

    Notes
    -----
    ``BufferManager.notifyBufferAvailable``, section 1.5 (since 1.14): the accepting channel
    asks for more at once and, if still short, waits again at the tail.
    """
    channel = gate.channels[index]
    channel.is_waiting = 0
    if channel.is_released == 1 or available_buffers(channel) >= channel.required:
        return 0
    channel.floating += 1
    return 1 + request_floating(gate, index)


def recycle_floating(gate: Gate) -> int:
    """Give a floating buffer back to the gate's pool, which offers it to the waiting channels.

    Returns
    -------
    int
        Index of the channel that accepted it (its unannounced credit has grown), or -1.

    Notes
    -----
    ``LocalBufferPool.recycle``, sections 1.5 and 4.3: to the global pool when destroyed or
    over the quota (then :func:`serve_pools` is due), else to the first that accepts, first
    come first served, else it stays free in the pool.
    """
    pool = gate.pool
    while True:
        requested = pool.in_use + pool.free
        if pool.is_destroyed == 1 or requested > pool.size:
            pool.in_use -= 1
            gate.segments.free += 1
            return -1
        index = fifo_pop(gate.waiting)
        if index < 0:
            pool.in_use -= 1
            pool.free += 1
            return -1
        credit = offer_floating(gate, index)
        if credit > 0:
            gate.channels[index].unannounced += credit
            return index


def recycle_exclusive(gate: Gate, index: int) -> int:
    """Give an exclusive buffer back to its channel; return the credit the channel gained.

    Notes
    -----
    ``BufferManager.recycle``, section 1.5: if the channel then has more than it requires and
    a floating buffer free, that one goes back to the pool (and on to whoever waits) and there
    is no credit; else credit 1, also above what is required. Of a released channel it goes to
    the global pool: a redistribution is due.
    """
    channel = gate.channels[index]
    if channel.is_released == 1:
        gate.segments.free += 1
        gate.segments.unpooled -= 1
        return 0
    channel.exclusive += 1
    if available_buffers(channel) > channel.required and channel.floating > 0:
        channel.floating -= 1
        recycle_floating(gate)
        return 0
    channel.unannounced += 1
    return 1


def announce(channel: InputChannel) -> int:
    """Take all unannounced credit of a channel; 0 of a released one (section 1.6)."""
    credit = channel.unannounced
    channel.unannounced = 0
    if channel.is_released == 1:
        return 0
    return credit
