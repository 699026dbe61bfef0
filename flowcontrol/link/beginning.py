"""Where a new receiver begins to read, and how the rows before that are reported.

A receiver registers in the ledger first, and decides from what it reads after that. A sender
trims only what it has announced in a commit before, and what all receivers have consumed that it
knows of after that commit. Either the registration came first, and the sender knows of it; or the
announcement did, and the receiver begins behind it.
"""

import logging
from collections.abc import Mapping, Sequence

from flowcontrol.errors import LinkError
from flowcontrol.ledger.link_log import LinkLog
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.members import Sender

_log = logging.getLogger("flowcontrol.link")


def oldest(log: LinkLog, sender: Sender, channel: int) -> tuple[int, int]:
    """Return the oldest message that stays, and the number of its first record."""
    own = log.channel(sender.number, channel)
    first = max(own.first, sender.trimmed[channel])
    return first, own.start if first == own.first else own.message(first - 1).end


def oldest_of(
    log: LinkLog, senders: Sequence[Sender], channels: Sequence[int]
) -> dict[str, list[int]]:
    """Return the oldest record that stays of each of some channels, by the sender's index."""
    return {
        str(sender.number): [oldest(log, sender, channel)[1] for channel in channels]
        for sender in senders
    }


def written_of(
    log: LinkLog, senders: Sequence[Sender], channels: Sequence[int]
) -> dict[str, list[int]]:
    """Return the records written to each of some channels, by the sender's index."""
    return {
        str(sender.number): [log.channel(sender.number, channel).records for channel in channels]
        for sender in senders
    }


def skipped_rows(begin: Mapping[str, Sequence[int]], had: Mapping[str, Sequence[int]]) -> int:
    """Return how many rows lie between where a receiver was, by default the start, and begins."""
    return sum(
        max(0, record - before)
        for sender, own in begin.items()
        for record, before in zip(own, had.get(sender, [0] * len(own)), strict=True)
    )


def skipped_text(
    senders: Sequence[Sender],
    channels: Sequence[int],
    begin: Mapping[str, Sequence[int]],
    had: Mapping[str, Sequence[int]],
) -> str:
    """Return how many rows a receiver never reads, by sender; empty if it reads all."""
    found = []
    for sender in senders:
        index = str(sender.number)
        skipped = skipped_rows({index: begin[index]}, had) if index in begin else 0
        written = sum(sender.records[channel] for channel in channels)
        if skipped:
            found.append(f"{skipped} of {written} of sender {sender.name!r}")
    return ", ".join(found)


def check_from_start(storage: Storage, group: str, skipped: str) -> None:
    """Refuse to begin in the middle.

    Raises LinkError: saying how many rows are gone.
    """
    if skipped:
        raise LinkError(
            f"{storage}: receiver {group!r} is to read from the start, but the first rows were "
            f"consumed by all others and are gone: {skipped}. Leave from_start out to begin at "
            "the oldest rows that are there, and take the others from the sink of a receiver "
            "that has them"
        )


def note_beginning(storage: Storage, group: str, skipped: str) -> None:
    """Log where a receiver begins, if that is not the first row."""
    if skipped:
        _log.warning(
            "%s: receiver %r begins in the middle: rows before it were consumed by all others and "
            "are not read: %s",
            storage,
            group,
            skipped,
        )
