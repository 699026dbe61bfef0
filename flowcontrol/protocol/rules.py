"""Every rule of the credit protocol, once, as a function of integers and of declared state.

What lives here: Flink's network stack 1.20 as arithmetic (``reference/flink-network.md``,
sections 1, 2, 4, 5). What must not: exceptions, closures, dictionaries. State is an object of a
class of :mod:`flowcontrol.protocol.states`, or what looks like one; a row is anything indexable
that holds integers; booleans are 0 and 1. The rules do not check their arguments: their callers do.

Parameters named alike everywhere:

``channel``
    :class:`~flowcontrol.protocol.states.InputChannel`.
``channels``
    All channels of a gate, by index.
``pool``
    :class:`~flowcontrol.protocol.states.LocalPool`. Segments requested from the global pool = in
    use + free. A floating buffer that a channel holds free is in use here.
``segments``
    :class:`~flowcontrol.protocol.states.GlobalPool`.
``waiting``
    First-in-first-out row of the indexes of the channels that wait for a floating buffer.
"""

from __future__ import annotations

from flowcontrol.protocol.channel_rules import (
    announce,
    available_buffers,
    block_channel,
    offer_floating,
    on_backlog,
    recycle_exclusive,
    recycle_floating,
    release_channel,
    request_floating,
    required_buffers,
    resume_channel,
    return_floating,
    take_buffer,
)
from flowcontrol.protocol.pool_rules import (
    can_request,
    destroy_pool,
    fetch_segment,
    note_quota,
    pool_is_available,
    recycle_segment,
    request_segment,
    reserve_segments,
    resize_pool,
    serve_pools,
)
from flowcontrol.protocol.rows import (
    FIFO_COUNT,
    FIFO_HEAD,
    FIFO_SLOTS,
    TAKEN_EXCLUSIVE,
    TAKEN_FLOATING,
    TAKEN_NONE,
    UNLIMITED,
    WORD,
    Row,
    Rows,
    add_all_members,
    add_member,
    fifo_pop,
    fifo_push,
    fifo_remove,
)
from flowcontrol.protocol.sender_rules import (
    credit_of,
    unsent,
)
from flowcontrol.protocol.sizing import (
    gate_sizes,
    partition_sizes,
    redistribute,
    spare_capacity,
)

__all__ = [
    "FIFO_COUNT",
    "FIFO_HEAD",
    "FIFO_SLOTS",
    "TAKEN_EXCLUSIVE",
    "TAKEN_FLOATING",
    "TAKEN_NONE",
    "UNLIMITED",
    "WORD",
    "Row",
    "Rows",
    "add_all_members",
    "add_member",
    "announce",
    "available_buffers",
    "block_channel",
    "can_request",
    "credit_of",
    "destroy_pool",
    "fetch_segment",
    "fifo_pop",
    "fifo_push",
    "fifo_remove",
    "gate_sizes",
    "note_quota",
    "offer_floating",
    "on_backlog",
    "partition_sizes",
    "pool_is_available",
    "recycle_exclusive",
    "recycle_floating",
    "recycle_segment",
    "redistribute",
    "release_channel",
    "request_floating",
    "request_segment",
    "required_buffers",
    "reserve_segments",
    "resize_pool",
    "resume_channel",
    "return_floating",
    "serve_pools",
    "spare_capacity",
    "take_buffer",
    "unsent",
]
