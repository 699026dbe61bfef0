"""Which channel a record goes to, in the kernel: what :class:`Router` decides, from tables."""

from __future__ import annotations

from typing import Any

from flowcontrol.protocol.partitioners import count_share, next_by_share
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.compiled import kernel
from flowcontrol.virtual.pointers import row
from flowcontrol.virtual.randoms import mix_modulo

__all__ = ["next_channel"]


@kernel
def next_channel(m: Any, p: Any) -> int:
    """Route the next record of a partition; return its channel.

    Notes
    -----
    Rebalance and rescale are cycles; shares are tables of a whole period where that is short,
    else they are worked out record by record.
    """
    kind = p[f.P_ROUTE]
    channel = 0
    if kind == f.ROUTE_CYCLE:
        channel = p[f.P_CURSOR]
        p[f.P_CURSOR] = channel + 1 if channel + 1 < p[f.P_CHANNELS] else 0
    elif kind == f.ROUTE_TABLE:
        place = p[f.P_CURSOR]
        channel = m[p[f.P_TABLE] + place]
        p[f.P_CURSOR] = place + 1 if place + 1 < p[f.P_TABLE_LENGTH] else 0
    elif kind == f.ROUTE_SHUFFLE:
        channel = mix_modulo(m[f.H_SEED], p[f.P_STREAM], p[f.P_EMITTED], p[f.P_CHANNELS])
    elif kind == f.ROUTE_SHARES:
        width = p[f.P_CHANNELS]
        shares, behind = row(m, p[f.P_TABLE], width), row(m, p[f.P_TABLE] + width, width)
        channel = next_by_share(behind, shares)
        count_share(behind, shares, p[f.P_TABLE_LENGTH], channel)
    p[f.P_EMITTED] += 1
    m[p[f.P_ROUTED] + channel] += 1
    return channel
