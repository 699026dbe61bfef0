"""The members of a link: their names, the state that each commits, and who waits for whom."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from flowcontrol.errors import DetachedError, LinkError, RemovedError
from flowcontrol.ledger.link_ledger import Latest, LinkLedger, LinkLedgerView
from flowcontrol.link.pool_size import Pace
from flowcontrol.link.settings import SETTINGS

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Sender(NamedTuple):
    """A sender, as its newest commit to the ledger describes it."""

    name: str  # As its query calls it
    number: int  # In the ledger's rows
    released: list[int]  # Messages that may be read (shape (channels,))
    written: list[int]  # Messages that are in the log (shape (channels,))
    records: list[int]  # Records in them (shape (channels,))
    detached: list[str]  # Receivers that it no longer waits for
    trimmed: list[int]  # Messages that it may trim from the log without checking for new receivers
    is_removed: bool = False  # Whether it was retired: all of its rows were read, and none follow
    # Into how many it writes; the lists are as long as the link has channels, which may be more by
    # now: then the sender writes into the others from its next source batch on.
    channels: int = 0
    # Floating buffers of its output pool; None before it has stated any.
    floating: int | None = None
    # Of what it has written into each channel, ms; empty without event time.
    watermarks: tuple[int | None, ...] = ()


class ChannelCursors(NamedTuple):
    """How far a receiver is with one channel, messages."""

    announced: int = 0
    sent: int = 0
    consumed: int = 0


class Receiver(NamedTuple):
    """A receiver, as its newest commit to the ledger describes it."""

    group: str  # Its name; receivers of one name share the rows between them
    channels: list[int]  # The channels that it reads
    # Per sender, credits and messages of each of its channels.
    announced: dict[int, list[int]]
    sent: dict[int, list[int]]
    consumed: dict[int, list[int]]
    # Its application id. It stays when a receiver of all channels takes more channels over.
    member: str = ""
    pace: Pace = Pace()  # What it needs to keep busy

    def cursors(self, sender: int, channel: int) -> ChannelCursors:
        """Return how far it is with a channel that it reads; 0 if it does not know the sender."""
        if sender not in self.sent:
            return ChannelCursors()
        place = self.channels.index(channel)
        own = (cursor[sender][place] for cursor in (self.announced, self.sent, self.consumed))
        return ChannelCursors(*own)


def check_name(kind: str, name: str) -> str:
    """Return a sender's or receiver's name.

    Raises LinkError if it cannot be part of a file's name.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise LinkError(
            f"the {kind} is called {name!r}: needs 1 to 64 letters, digits, '_', '-' or '.', the "
            "first a letter or digit"
        )
    return name


def check_unshared(view: LinkLedgerView, group: str, member: str, channels: list[int]) -> None:
    """Refuse channels that another receiver of the same name reads.

    Raises LinkError: naming both.
    """
    for other in receivers_of(view):
        shared = set(other.channels) & set(channels)
        if other.group == group and other.member != member and shared:
            raise LinkError(
                f"{view.storage}: receiver {group!r} of the channels {ranges(channels)} shares "
                f"{ranges(shared)} with one that reads {ranges(other.channels)}: give it another "
                "name to read all rows again, or other channels"
            )


def check_attached(
    view: LinkLedgerView, group: str, senders: Iterable[Sender], limit: int | None
) -> None:
    """Refuse a receiver that a sender has cut off.

    Raises DetachedError: naming both.
    """
    for sender in senders:
        if group in sender.detached:
            raise DetachedError(
                f"{view.storage}: receiver {group!r} was cut off by sender {sender.name!r}: it "
                f"lagged more than detach_after_bytes, {limit} bytes, behind. What it has not read "
                "is gone; start it under another name"
            )


def remove_member(ledger: LinkLedger) -> None:
    """Commit, as the receiver, that it was removed; its cursors are kept.

    Raises FencedError if another process has taken its place since the ledger was claimed.
    """
    latest = ledger.latest
    if latest is None:
        return
    rows = ledger.last_rows(ledger.member)
    for row in rows:
        row |= {"rows": 0, "bytes": 0}
        if row["task_state"]:
            row["task_state"] = json.dumps({**json.loads(row["task_state"]), "removed": True})
    ledger.commit(rows, {**latest.state, "removed": True})


def receiver_id(group: str, channels: Iterable[int]) -> str:
    """Return a receiver's application id."""
    return f"receiver/{group}/{ranges(channels)}"


def ranges(channels: Iterable[int]) -> str:
    """Return channels as text, ``0-3,6``."""
    parts: list[list[int]] = []
    for channel in sorted(channels):
        if parts and parts[-1][1] == channel - 1:
            parts[-1][1] = channel
        else:
            parts.append([channel, channel])
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in parts)


def senders_of(view: LinkLedgerView) -> list[Sender]:
    """Return the link's senders, by index; also those that were removed, whose cursors stay."""
    own = {
        member.partition("/")[2]: latest.state
        for member, latest in list(view.members.items())
        if member.startswith("sender/")
    }
    altered = view.members.get(SETTINGS)
    width = max((len(state["released"]) for state in own.values()), default=0)
    if altered is not None:
        width = max(width, altered.state.get("channels", 0))
    found = [_sender(name, state, width) for name, state in own.items()]
    return sorted(found, key=lambda sender: sender.number)


def _sender(name: str, state: Mapping[str, Any], width: int) -> Sender:
    channels = len(state["released"])
    released, written, records, trimmed = (
        [*state.get(cursor, [0] * channels), *[0] * (width - channels)]
        for cursor in ("released", "written", "records", "trimmed")
    )
    is_removed = state.get("removed", False)
    return Sender(
        name,
        state["index"],
        released,
        written,
        records,
        state["detached"],
        trimmed,
        is_removed,
        channels,
        state.get("floating"),
        tuple(state["time"]["watermark"]) if "time" in state else (),
    )


def receivers_of(view: LinkLedgerView) -> list[Receiver]:
    """Return the link's receivers, by name and first channel; not those that were removed."""
    found = [
        _receiver(member, latest)
        for member, latest in list(view.members.items())
        if member.startswith("receiver/") and not latest.state.get("removed", False)
    ]
    return sorted(found, key=lambda receiver: (receiver.group, receiver.channels))


def check_kept(view: LinkLedgerView, group: str, member: str) -> None:
    """Refuse a receiver that was removed from the link.

    Raises RemovedError: saying how it comes back.
    """
    own = view.members.get(member)
    removed = [
        name
        for name, latest in list(view.members.items())
        if name.startswith(f"receiver/{group}/") and latest.state.get("removed", False)
    ]
    if (own is None and removed) or member in removed:
        raise RemovedError(
            f"{view.storage}: receiver {group!r} was removed from the link: no sender waits for "
            "it, and rows that it has not read may be gone. Start it under another name, or let it "
            "come back with a new checkpoint and .option('reset', True): it goes on where it was, "
            "or at the oldest rows that are there; give a sink that goes by batch numbers another "
            "txnAppId"
        )


def _receiver(member: str, latest: Latest) -> Receiver:
    state: Mapping[str, Any] = latest.state
    return Receiver(
        member.split("/")[1],
        state["channels"],
        {int(sender): own for sender, own in state["announced"].items()},
        {int(sender): own for sender, own in state["sent"].items()},
        {int(sender): own for sender, own in state["consumed"].items()},
        member,
        Pace(*state.get("pace", ())),
    )


Consumed = dict[str, list[int]]
"""Messages that each receiver has consumed, per channel, by the receiver's name."""


def consumed_of(receivers: Iterable[Receiver], sender: int, channels: int) -> Consumed:
    """Return how far each receiver is with a sender's channels; 0 where no query of it reads."""
    found: Consumed = {}
    for receiver in receivers:
        own = found.setdefault(receiver.group, [0] * channels)
        for channel in receiver.channels:
            if channel < channels:
                own[channel] = receiver.cursors(sender, channel).consumed
    return found


def pacing(consumed: Consumed, *, detaches: bool) -> Consumed:
    """Return the receivers whose buffers hold the sender up.

    ``detaches``: whether a slow one is cut off: then the fastest sets the pace, else all do.
    """
    if not detaches or len(consumed) < 2:
        return consumed
    fastest = max(consumed, key=lambda group: sum(consumed[group]))
    return {fastest: consumed[fastest]}


def least(consumed: Mapping[str, list[int]], channels: int) -> list[int]:
    """Return the messages of each channel that all of some receivers have consumed."""
    if not consumed:
        return [0] * channels
    return [min(counts) for counts in zip(*consumed.values(), strict=True)]
