"""The members of a link: their names, the state that each commits, and who waits for whom."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from flowcontrol.errors import DetachedError, LinkError, RemovedError
from flowcontrol.ledger.link_ledger import Latest, LinkLedger, LinkLedgerView
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.batch_size import fit_costs
from flowcontrol.link.settings import DRAINING, SETTINGS, LinkSettings

# --- How many bytes the pool of a link should hold so that both ends keep busy, and no more.
#
# As in buffer debloating the measure is throughput times time (Little's law), the other way round:
# not what may wait for a target time, but what must be there so that nobody waits. That is a batch
# of the receiver so large that its fixed cost is a small part of it, and beside it what the
# receiver reads while the sender writes its next source batch. Behind a slow sink both are small.


BATCHES = 24
"""Batches that are remembered."""

FIXED_SHARE = 0.1
"""Part of a batch's time that its fixed cost may be: beyond that a larger pool gains little."""

LONGEST_S = 10.0
"""Time of a batch beyond which no pool grows, whatever its fixed cost may be: what waits in a
larger one waits long, is read again after a failure, and gains next to nothing."""

LIKELY = 0.35, 0.75
"""Quantiles of the sizes that likely costs give: a size between them stays. It grows to the lower
one, below the median, as buffers cost memory; a few odd batches do not shrink it."""

HYSTERESIS = 0.2
"""Relative change of the size that is not worth a change of the pool."""

MOST_GROWTH = 8.0
"""Times its size that a pool grows at once: a larger batch than ever seen shows what it costs."""


class Pace(NamedTuple):
    """What a receiver needs to keep busy."""

    # A batch of which the fixed cost is a small part, bytes; 0 as long as nothing is known.
    batch_bytes: float = 0.0
    byte_s: float = 0.0  # What a byte takes, s

    def to_json(self) -> list[float]:
        """Return what the ledger keeps."""
        return [round(self.batch_bytes), float(f"{self.byte_s:.4g}")]


class PaceMeter:
    """Learns a receiver's pace from its batches.

    - ``target_s``: how long a batch should take: then it holds no more than that. Without one it is
      meant to take :data:`LONGEST_S` at most.
    - ``target_s``: the target, which may change.
    - ``pace``: what is known so far.
    """

    def __init__(self, target_s: float | None) -> None:
        self.target_s = target_s
        self._sizes: list[float] = []
        self._seconds: list[float] = []
        self.pace = Pace()

    def restore(self, pace: Iterable[float]) -> None:
        """Restore what an earlier start learnt."""
        self.pace = Pace(*pace)

    def observe(self, nbytes: int, seconds: float) -> None:
        """Learn from a batch: bytes, and seconds from its planning to the planning of the next."""
        if nbytes <= 0 or seconds <= 0:
            return
        self._sizes = [*self._sizes, float(nbytes)][-BATCHES:]
        self._seconds = [*self._seconds, seconds][-BATCHES:]
        belief = fit_costs(np.array(self._sizes), np.array(self._seconds))
        longest_s = np.maximum(LONGEST_S, 2 * belief.fixed_s)
        if self.target_s is not None:
            longest_s = np.maximum(self.target_s, belief.fixed_s)
        meant_s = np.minimum(belief.fixed_s / FIXED_SHARE, longest_s)
        sizes = np.maximum(meant_s - belief.fixed_s, 0) / np.maximum(belief.byte_s, 1e-15)
        low, high = (belief.quantile(sizes, share) for share in LIKELY)
        self.pace = Pace(min(max(self.pace.batch_bytes, low), high), belief.byte)


def wanted_bytes(paces: Mapping[str, Iterable[Pace]], away_s: float) -> float:
    """Return what the pool of a sender should hold, bytes.

    ``paces``: of each receiver, that of each of its queries: they read at the same time.
    """
    return max((sum(_needs(pace, away_s) for pace in own) for own in paces.values()), default=0.0)


def _needs(pace: Pace, away_s: float) -> float:
    return pace.batch_bytes + (away_s / pace.byte_s if pace.byte_s > 0 else 0.0)


def resized(settings: LinkSettings, now: int, wanted: float, *, is_short: bool) -> int:
    """Return the floating buffers that a link's pool, or gate, has next.

    - ``wanted``: what it should hold, bytes.
    - ``is_short``: as :func:`next_floating` has it.
    """
    least, most = settings.floating_buffers, settings.most_floating
    return next_floating(now, least, most, settings.floating_for(wanted), is_short=is_short)


def next_floating(now: int, least: int, most: int, wanted: int, *, is_short: bool) -> int:
    """Return the floating buffers that a pool has next.

    ``is_short``: whether messages wait for a buffer: a pool that suffices does not grow.
    """
    wanted = max(least, min(most, wanted))
    if abs(wanted - now) <= HYSTERESIS * now and least <= now <= most:
        return now
    if wanted > now:
        return min(wanted, int(max(now, 1) * MOST_GROWTH) + 1) if is_short else max(now, least)
    return wanted


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


def drain_of(view: LinkLedgerView) -> str | None:
    """Return how far the drain of a link is: running or done; None if senders may write."""
    latest = view.members.get(DRAINING)
    if latest is None or not latest.state["is_draining"]:
        return None
    return "done" if latest.state["is_drained"] else "running"


def check_not_draining(view: LinkLedgerView, name: str) -> None:
    """Keep a sender out of a link that is being drained.

    Raises LinkError: saying how its query goes on.
    """
    if drain_of(view) is not None:
        raise LinkError(
            f"{view.storage}: the link is being drained, sender {name!r} writes no more. When "
            f"flowcontrol link drain has ended, start its query with the same checkpoint and "
            f"link.bypass({name!r}, function) in place of link.sender({name!r}), or let it send "
            "again with flowcontrol link drain --undo"
        )


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


def view_of(storage: Storage) -> LinkLedgerView:
    """Return what stands in a link's ledger now; nothing if there is none yet."""
    view = LinkLedgerView(storage.child("ledger"))
    if view.is_there():
        view.refresh()
    return view


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
