"""Which channel a record goes to, in the kernel: what :class:`Router` decides, from tables."""

from __future__ import annotations

from flowcontrol.protocol.partitioners import count_share, next_by_share
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.pointers import row
from flowcontrol.virtual.randoms import mix_modulo
from flowcontrol.virtual.registry import kernel


@kernel
def next_channel(m: KernelMemory, p: f.KernelPartition) -> int:
    """Return the channel of the next record of a partition.

    Notes
    -----
    Rebalance and rescale are cycles; shares are tables of a whole period where that is short,
    else they are worked out record by record.
    """
    kind = p.route
    channel = 0
    if kind == f.ROUTE_CYCLE:
        channel = p.cursor
        p.cursor = channel + 1 if channel + 1 < p.channels else 0
    elif kind == f.ROUTE_TABLE:
        place = p.cursor
        channel = m[p.table + place]
        p.cursor = place + 1 if place + 1 < p.table_length else 0
    elif kind == f.ROUTE_SHUFFLE:
        channel = mix_modulo(m.seed, p.stream, p.emitted, p.channels)
    elif kind == f.ROUTE_SHARES:
        width = p.channels
        shares, behind = row(m, p.table, width), row(m, p.table + width, width)
        channel = next_by_share(behind, shares)
        count_share(behind, shares, p.table_length, channel)
    return channel
