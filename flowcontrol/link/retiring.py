"""Retire a member of a link: nobody waits for it any more, and its space is freed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flowcontrol.errors import FencedError, LinkError
from flowcontrol.ledger.commit import Writer
from flowcontrol.ledger.link_ledger import LinkLedger, LinkLedgerView
from flowcontrol.ledger.link_log import SENDER, LinkLog, folder_of
from flowcontrol.ledger.log import NewFile
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.fencing import figures_of, unread_of
from flowcontrol.link.finishing import finish_sender
from flowcontrol.link.members import consumed_of, receivers_of, remove_member, senders_of


@contextmanager
def claimed(storage: Storage, member: str, refused: str) -> Iterator[LinkLedger]:
    """Write the ledger as a member; refuse if another process takes its place meanwhile."""
    ledger = LinkLedger(storage.child("ledger"), member)
    try:
        ledger.claim()
        yield ledger
    except FencedError as error:
        raise LinkError(refused) from error
    finally:
        ledger.close()


def _viewed(storage: Storage) -> LinkLedgerView:
    view = LinkLedgerView(storage.child("ledger"))
    if view.storage.exists("_delta_log"):
        view.refresh()
    return view


def remove_receiver(storage: Storage, group: str, *, force: bool = False) -> list[str]:
    """Remove a receiver with all of its queries: no sender waits for it any more.

    ``force``: also if it has rows to read.

    Raises LinkError if there is no such receiver; the known ones are named. If it has rows to read,
    or starts at this moment.
    """
    known = receivers_of(_viewed(storage))
    members = [one.member for one in known if one.group == group]
    if not members:
        names = ", ".join(sorted({one.group for one in known})) or "none"
        raise LinkError(f"the link {storage} has no receiver {group!r}: its receivers are: {names}")
    unread = [] if force else unread_of(figures_of(storage), receiver=group)
    if unread:
        raise LinkError(
            f"the link {storage}: receiver {group!r} is not removed: {'; '.join(unread)}. Let it "
            "read them, or leave them to the other receivers with --force (force=True)"
        )
    refused = (
        f"the link {storage}: receiver {group!r} is starting: stop its queries and remove it again"
    )
    for member in members:
        with claimed(storage, member, refused) as ledger:
            remove_member(ledger)
    return members


def remove_sender(storage: Storage, name: str, *, finish: bool = False) -> int:
    """Remove a sender all of whose rows are read; return the bytes of the files that went.

    The files of its last batch stay: by them a reader knows that nothing of the log is missing.

    Raises LinkError if there is no such sender, a receiver has rows of it to read, or it starts at
    this moment.
    """
    view = _viewed(storage)
    senders = [one for one in senders_of(view) if not one.is_removed]
    own = next((one for one in senders if one.name == name), None)
    if own is None:
        names = ", ".join(one.name for one in senders) or "none"
        raise LinkError(f"the link {storage} has no sender {name!r}: its senders are: {names}")
    if finish:
        finish_sender(storage, name)
    _check_read(storage, name)
    refused = f"the link {storage}: sender {name!r} is starting: stop its query and remove it again"
    with claimed(storage, f"sender/{name}", refused) as ledger:
        exchange = storage.child("exchange")
        writer = Writer(exchange, f"sender/{name}")
        writer.claim()  # what it wrote before this is found below; after it, it writes nothing
        ledger.refresh()
        latest, log = ledger.latest, LinkLog(exchange)
        assert latest is not None
        log.refresh()
        _check_counted(storage, name, log, own.number, latest.state["written"])
        _check_read(storage, name)
        rows = [{**row, "rows": 0, "bytes": 0} for row in ledger.last_rows(ledger.member)]
        written = latest.state["written"]
        ledger.commit(rows, {**latest.state, "trimmed": written, "removed": True})
        ledger.refresh()  # a receiver that came meanwhile, and begins before the announcement
        consumed = consumed_of(receivers_of(ledger), own.number, len(written))
        if any(done != written for done in consumed.values()):
            ledger.commit(rows, latest.state)
            _check_read(storage, name)
            raise LinkError(f"the link {storage}: a receiver is starting: remove {name!r} again")
    return _free(exchange, log, own.number)


def _check_read(storage: Storage, name: str) -> None:
    unread = unread_of(figures_of(storage), sender=name)
    if unread:
        raise LinkError(
            f"the link {storage}: sender {name!r} is not removed: {'; '.join(unread)}. Stop the "
            "sender's query, let the receivers read them, and remove it then; if it does not come "
            "back to release them, add --finish (finish=True); a receiver that does not come back "
            "is removed with remove-receiver"
        )


def _check_counted(
    storage: Storage, name: str, log: LinkLog, sender: int, written: list[int]
) -> None:
    """Refuse a sender that was killed when its newest rows were in the log and not counted."""
    ends = [log.channel(sender, channel).end for channel in range(len(written))]
    if ends != written:
        raise LinkError(
            f"the link {storage}: sender {name!r} is not removed: it was stopped in mid-batch with "
            f"{sum(ends) - sum(written)} messages that no receiver has seen. Start its query once "
            "more so that they are released, and stop it between batches; or have them released "
            "in its place with --finish (finish=True)"
        )


def _free(exchange: Storage, log: LinkLog, sender: int) -> int:
    """Remove a sender's files but those of its last batch."""
    newest = {end.channel: end.end for end in log.newest(sender).ends}
    last = log.newest(sender).files
    old = [one for one in log.consumed_files(sender, newest) if one[0] not in last]
    partition = {SENDER: str(sender)}
    trimmer = Writer(exchange, f"retired/{folder_of(sender)}")
    gone = [NewFile(path, nbytes, 0, partition=partition) for path, nbytes in old]
    if gone and trimmer.commit(trimmer.last_batch() + 1, [], gone):
        for path, _ in old:
            exchange.delete(path)
    return sum(nbytes for _, nbytes in old)
