"""Which receiver reads which channel, how far, and which one a sender waits for."""

from collections.abc import Sequence

from flowcontrol.link.members import Receiver, Sender, consumed_of, least, pacing, receiver_id
from flowcontrol.link.settings import LinkSettings

NOBODY = Receiver("", [], {}, {}, {})
"""Stands for the reader of a channel that no receiver reads."""


class Cursors:
    """The newest cursors of all members.

    ``groups``: names of the receivers; one empty name as long as there is none.
    """

    def __init__(
        self, settings: LinkSettings, senders: Sequence[Sender], receivers: Sequence[Receiver]
    ) -> None:
        self.settings, self.senders, self.receivers = settings, senders, receivers
        self.groups = sorted({receiver.group for receiver in receivers}) or [NOBODY.group]
        self._readers = {
            (receiver.group, channel): receiver
            for receiver in receivers
            for channel in receiver.channels
        }
        self._consumed = {
            sender.number: consumed_of(receivers or [NOBODY], sender.number, settings.channels)
            for sender in senders
        }
        self._pacing = {
            sender.number: pacing(
                {
                    group: own
                    for group, own in self._consumed[sender.number].items()
                    if group not in sender.detached
                },
                detaches=settings.detach_after_bytes is not None,
            )
            for sender in senders
        }

    def reader(self, group: str, channel: int) -> Receiver:
        """Return the receiver of a channel; :data:`NOBODY` if there is none."""
        return self._readers.get((group, channel), NOBODY)

    def consumed(self, sender: int, group: str) -> list[int]:
        """Return the messages that a receiver has consumed, per channel."""
        return self._consumed[sender][group]

    def consumed_by_all(self, sender: int) -> list[int]:
        """Return the messages that every receiver has consumed, per channel."""
        return least(self._consumed[sender], self.settings.channels)

    def pool_used(self, sender: Sender) -> int:
        """Return the buffers of a sender's output pool that are in use."""
        done = least(self._pacing[sender.number], self.settings.channels)
        return sum(max(0, r - own) for r, own in zip(sender.released, done, strict=True))

    def is_holding(self, sender: int, group: str, channel: int) -> bool:
        """Whether a receiver is the one that a channel's sender waits for: the slowest."""
        own = self._pacing[sender]
        slowest = least(own, self.settings.channels)[channel]
        return group in own and own[group][channel] == slowest


def member_of(one: Sender | Receiver) -> str:
    """Return a member's application id."""
    if isinstance(one, Sender):
        return f"sender/{one.name}"
    return one.member or receiver_id(one.group, one.channels)
