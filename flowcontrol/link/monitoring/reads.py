"""Which links a query reads, derived from the offsets that it reports, and their backlog.

Spark does not report what a Python source reads. A receiver's ledger holds the same offsets that
Spark reports, so a match identifies the receiver. While several match, the next progress decides.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from flowcontrol.errors import FlowControlError
from flowcontrol.link.monitoring.figures import ChannelSnapshot, LinkSnapshot
from flowcontrol.link.monitoring.monitor import LinkMonitor
from flowcontrol.link.monitoring.watch import labels

FRESH_S = 1.0
"""Age at which a snapshot is replaced, s: it bounds the cost of queries with many small batches."""


class _Link:
    """One link, and the newest snapshot of it."""

    def __init__(self, path: str, label: str) -> None:
        self.path, self.label = path, label
        self._monitor: LinkMonitor | None = None
        self._snapshot: LinkSnapshot | None = None

    def refresh(self, age_s: float) -> None:
        """Take a snapshot unless the last one is at most so old."""
        if self._snapshot is not None and time.time() - self._snapshot.at <= age_s:
            return
        try:
            self._monitor = self._monitor or LinkMonitor(self.path, self.label)
            self._snapshot = self._monitor.snapshot()
        except FlowControlError:  # not created yet, or deleted
            self._snapshot = None

    def members_at(self, cursors: Mapping[str, list[int]]) -> list[str]:
        """Return the receivers of which a recent micro-batch ended at these cursors."""
        if self._monitor is None or self._snapshot is None:
            return []
        return [member for member, ends in self._monitor.ends().items() if cursors in ends]

    def channels(self, member: str) -> list[ChannelSnapshot]:
        """Return the channels that a receiver reads."""
        if self._snapshot is None:
            return []
        return [
            channel
            for one in self._snapshot.receivers
            for channel in self._snapshot.channels
            if (one.member, one.name) == (member, channel.receiver)
            and channel.channel in one.channels
        ]


_Reader = tuple[_Link, str]
"""A link, and the application id of one of its receivers."""


class LinkReads:
    """Finds the receiver behind each query.

    ``links``: their paths. One that does not exist yet is tried again with each progress.
    """

    def __init__(self, links: Sequence[str]) -> None:
        paths = list(links)
        self._links = [_Link(*pair) for pair in zip(paths, labels(paths), strict=True)]
        self._known: dict[tuple[str, int], set[_Reader]] = {}

    def backlog(self, run: str, offsets: Sequence[Any]) -> dict[str, Any]:
        """Return the columns ``links`` and ``backlog_...`` of a progress."""
        cursors = [
            (number, offset["cursors"])
            for number, offset in enumerate(offsets)
            if isinstance(offset, dict) and isinstance(offset.get("cursors"), dict)
        ]
        if not cursors or not self._links:
            return {}
        is_known = all(len(self._known.get((run, n), ())) == 1 for n, _ in cursors)
        for link in self._links:
            link.refresh(FRESH_S if is_known else 0.0)
        readers = [self._reader((run, number), own) for number, own in cursors]
        found = [reader for reader in readers if reader is not None]
        if not found:
            return {}
        own = [channel for link, member in found for channel in link.channels(member)]
        return {
            "links": ",".join(dict.fromkeys(link.label for link, _ in found)),
            "backlog_rows": sum(channel.backlog_rows for channel in own),
            "backlog_bytes": sum(channel.backlog_bytes for channel in own),
            "backlog_age_s": max((channel.age_s for channel in own), default=0.0),
        }

    def _reader(self, key: tuple[str, int], cursors: Mapping[str, list[int]]) -> _Reader | None:
        """Return the receiver that reported cursors, once only one candidate is left."""
        known = self._known.get(key, set())
        if len(known) == 1:
            return next(iter(known))
        if not any(any(own) for own in cursors.values()):
            return None  # at the start all receivers have the same cursors
        found = {(link, member) for link in self._links for member in link.members_at(cursors)}
        if found:
            self._known[key] = found = (found & known) or found
        return next(iter(found)) if len(found) == 1 else None
