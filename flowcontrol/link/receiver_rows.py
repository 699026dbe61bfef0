"""What a receiver commits: a row of the ledger per channel, and what senders wait for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from flowcontrol.protocol.free_running import LinkGate


def receiver_row(
    gate: LinkGate,
    number: int,
    channel: tuple[int, int],
    taken: tuple[int, int],
    record: int,
    task: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the ledger's row of a channel.

    Parameters
    ----------
    gate : LinkGate
        The receiver's.
    number : int
        Of the channel in the gate; the first one's row carries the state of the receiver.
    channel : tuple of int and int
        Index of the sender, channel.
    taken : tuple of int and int
        Rows and bytes of the batch.
    record : int
        Where the batch begins.
    task : mapping
        State of the receiver.
    """
    return {
        "sender": channel[0],
        "receiver": channel[1],
        "announced": gate.announced(number),
        "sent": gate.sent(number),
        "consumed": gate.consumed(number),
        "exclusive": gate.exclusive,
        "floating_held": gate.floating_held(number),
        "pool_used": gate.pool_used,
        "pool_size": gate.floating,
        "rows": taken[0],
        "bytes": taken[1],
        "channel_state": json.dumps({"gate": gate.channel_state(number), "record": record}),
        "task_state": json.dumps(task) if number == 0 else None,
    }


def cursors_of(gate: LinkGate, numbers: Mapping[tuple[int, int], int]) -> dict[str, Any]:
    """Return what senders wait for: by cursor and sender, a number per channel."""
    found: dict[str, Any] = {}
    for name in ("announced", "sent", "consumed"):
        cursors: dict[int, list[int]] = {}
        for (sender, _), number in numbers.items():
            cursors.setdefault(sender, []).append(getattr(gate, name)(number))
        found[name] = cursors
    return found


def label(channel: tuple[int, int]) -> str:
    """Return a channel's name: the sender's index and its own number."""
    return f"{channel[0]}/{channel[1]}"
