"""Who reads what of a link, how far, and which receiver a sender waits for."""

from __future__ import annotations

from collections.abc import Sequence

from flowcontrol.link.members import Receiver, Sender, receiver_id
from flowcontrol.link.settings import LinkSettings

NOBODY = Receiver("", [], {}, {}, {})
"""Reads the channels that no receiver has come for."""


class Cursors:
    """The newest cursors of all members.

    Parameters
    ----------
    settings : LinkSettings
        The link's.
    senders : sequence of Sender
        As the ledger says.
    receivers : sequence of Receiver
        As the ledger says.

    Attributes
    ----------
    groups : list of str
        Names of the receivers; one empty name as long as there is none.
    """

    def __init__(
        self, settings: LinkSettings, senders: Sequence[Sender], receivers: Sequence[Receiver]
    ) -> None:
        self.settings, self.senders, self.receivers = settings, senders, receivers
        self.groups = sorted({receiver.group for receiver in receivers}) or [""]
        self._readers = {
            (receiver.group, channel): receiver
            for receiver in receivers
            for channel in receiver.channels
        }
        self._consumed = {
            (sender.number, group): self._consumed_by(sender.number, group)
            for sender in senders
            for group in self.groups
        }
        self._paced = {sender.number: self._pace(sender) for sender in senders}

    def reader(self, group: str, channel: int) -> Receiver:
        """Return who reads a channel; :data:`NOBODY` if no receiver does."""
        return self._readers.get((group, channel), NOBODY)

    def _consumed_by(self, sender: int, group: str) -> list[int]:
        return [
            _cursor(reader.consumed, reader, sender, channel)
            for channel in range(self.settings.channels)
            for reader in [self.reader(group, channel)]
        ]

    def announced_and_sent(self, sender: int, group: str, channel: int) -> tuple[int, int]:
        """Return credits ever announced and messages ever sent on a channel."""
        reader = self.reader(group, channel)
        announced = _cursor(reader.announced, reader, sender, channel)
        return announced, _cursor(reader.sent, reader, sender, channel)

    def consumed(self, sender: int, group: str) -> list[int]:
        """Return the messages that a receiver has consumed, per channel."""
        return self._consumed[sender, group]

    def consumed_by_all(self, sender: int) -> list[int]:
        """Return the messages that every receiver has consumed, per channel."""
        every = [self._consumed[sender, group] for group in self.groups]
        return [min(counts) for counts in zip(*every, strict=True)]

    def _pace(self, sender: Sender) -> tuple[list[str], list[int]]:
        """Return the receivers whose buffers a sender waits for, and the least they consumed."""
        groups = [group for group in self.groups if group not in sender.detached]
        if self.settings.detach_after_bytes is not None and len(groups) > 1:
            groups = [max(groups, key=lambda group: sum(self._consumed[sender.number, group]))]
        every = [self._consumed[sender.number, group] for group in groups]
        least = [min(counts) for counts in zip(*every, strict=True)]
        return groups, least or [0] * self.settings.channels

    def pool_used(self, sender: Sender) -> int:
        """Return the buffers of a sender's output pool that are in use."""
        _, least = self._paced[sender.number]
        return sum(max(0, r - done) for r, done in zip(sender.released, least, strict=True))

    def is_holding(self, sender: int, group: str, channel: int) -> bool:
        """Whether a receiver is the one that a channel's sender waits for: the slowest."""
        groups, least = self._paced[sender]
        return group in groups and self._consumed[sender, group][channel] == least[channel]


def _cursor(cursors: dict[int, list[int]], reader: Receiver, sender: int, channel: int) -> int:
    return cursors[sender][reader.channels.index(channel)] if sender in cursors else 0


def member_of(one: Sender | Receiver) -> str:
    """Return a member's application id."""
    if isinstance(one, Sender):
        return f"sender/{one.name}"
    return receiver_id(one.group, one.channels)
