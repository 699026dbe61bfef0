"""Which links a query reads, derived from the offsets that it reports, and their backlog.

Spark does not report what a Python source reads. A receiver's ledger holds the same offsets that
Spark reports, so a match identifies the receiver. While several match, the next progress decides.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from flowcontrol.errors import FlowControlError
from flowcontrol.link.monitoring.monitor import LinkMonitor
from flowcontrol.link.monitoring.snapshot import ChannelSnapshot, LinkSnapshot
from flowcontrol.link.monitoring.watch import labels

FRESH_S = 1.0
"""Age at which a snapshot is replaced, s: it bounds the cost of queries with many small batches."""


class _Reader(NamedTuple):
    """A receiver of one of the links."""

    link: int
    member: str


class LinkReads:
    """Finds the receiver behind each query.

    Parameters
    ----------
    links : sequence of str
        Their paths. One that does not exist yet is tried again with each progress.
    """

    def __init__(self, links: Sequence[str]) -> None:
        self._paths, self._labels = list(links), labels(list(links))
        self._monitors: list[LinkMonitor | None] = [None] * len(links)
        self._snapshots: list[LinkSnapshot | None] = [None] * len(links)
        self._known: dict[tuple[str, int], set[_Reader]] = {}

    def backlog(self, run: str, offsets: Sequence[Any]) -> dict[str, Any]:
        """Return the columns ``links`` and ``backlog_...`` of a progress.

        Parameters
        ----------
        run : str
            Which start of which query.
        offsets : sequence of object
            Where each of its sources ended, as read from JSON.
        """
        cursors = [
            (number, offset["cursors"])
            for number, offset in enumerate(offsets)
            if isinstance(offset, dict) and isinstance(offset.get("cursors"), dict)
        ]
        if not cursors or not self._paths:
            return {}
        is_known = all(len(self._known.get((run, n), ())) == 1 for n, _ in cursors)
        old_s = FRESH_S if is_known else 0.0
        snapshots = [self._snapshot(number, old_s) for number in range(len(self._paths))]
        readers = [self._reader((run, number), own, snapshots) for number, own in cursors]
        found = [reader for reader in readers if reader is not None]
        return self._columns(found, snapshots) if found else {}

    def _snapshot(self, number: int, old_s: float) -> LinkSnapshot | None:
        """Return a snapshot of at most the given age; None if the link is not there."""
        last = self._snapshots[number]
        if last is not None and time.time() - last.at <= old_s:
            return last
        self._snapshots[number] = self._fresh_snapshot(number)
        return self._snapshots[number]

    def _fresh_snapshot(self, number: int) -> LinkSnapshot | None:
        try:
            monitor = self._monitors[number]
            if monitor is None:
                monitor = LinkMonitor(self._paths[number], self._labels[number])
                self._monitors[number] = monitor
            return monitor.snapshot()
        except FlowControlError:  # not created yet, or deleted
            return None

    def _reader(
        self,
        key: tuple[str, int],
        cursors: dict[str, list[int]],
        snapshots: Sequence[LinkSnapshot | None],
    ) -> _Reader | None:
        """Return the receiver that reported cursors, once only one candidate is left."""
        known = self._known.get(key)
        if known is not None and len(known) == 1:
            return next(iter(known))
        if not any(any(own) for own in cursors.values()):
            return None  # at the start all receivers have the same cursors
        can_be = {
            _Reader(number, member)
            for number, snapshot in enumerate(snapshots)
            if snapshot is not None
            for member, ends in self._ends(number).items()
            if cursors in ends
        }
        if can_be:
            self._known[key] = can_be = (can_be & known if known else can_be) or can_be
        return next(iter(can_be)) if len(can_be) == 1 else None

    def _ends(self, number: int) -> dict[str, list[dict[str, list[int]]]]:
        monitor = self._monitors[number]
        return {} if monitor is None else monitor.ends()

    def _columns(
        self, readers: Sequence[_Reader], snapshots: Sequence[LinkSnapshot | None]
    ) -> dict[str, Any]:
        own: list[ChannelSnapshot] = []
        for reader in readers:
            own += _channels(snapshots[reader.link], reader.member)
        return {
            "links": ",".join(dict.fromkeys(self._labels[reader.link] for reader in readers)),
            "backlog_rows": sum(channel.backlog_rows for channel in own),
            "backlog_bytes": sum(channel.backlog_bytes for channel in own),
            "backlog_age_s": max((channel.age_s for channel in own), default=0.0),
        }


def _channels(snapshot: LinkSnapshot | None, member: str) -> list[ChannelSnapshot]:
    """Return the channels that a receiver reads."""
    if snapshot is None:
        return []
    for receiver in snapshot.receivers:
        if receiver.member == member:
            mine = set(receiver.channels)
            return [
                c for c in snapshot.channels if c.receiver == receiver.name and c.channel in mine
            ]
    return []
