"""Do what is left of a sender that does not come back: release its rows, so that they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowcontrol.errors import FencedError, LinkError
from flowcontrol.ledger.link_ledger import LinkLedgerView
from flowcontrol.link.members import receivers_of
from flowcontrol.link.sender import LinkSender
from flowcontrol.link.settings import read_settings

if TYPE_CHECKING:
    from flowcontrol.ledger.storage import Storage


def finish_sender(storage: Storage, name: str) -> None:
    """Take a sender's place and release what it has left; return when all receivers have read it.

    Rows that are in the log were promised to every receiver, whatever becomes of their sender. What
    releases them is the sender's own start, here without rows to write. A kill leaves what a kill
    of the sender would: the next call, or a start of its query, goes on.

    Raises LinkError if no receiver is there to read, or the sender's query is started meanwhile.
    """
    view, settings = LinkLedgerView(storage.child("ledger")), read_settings(storage)
    view.refresh()
    if not receivers_of(view):
        raise LinkError(
            f"the link {storage}: sender {name!r} is not finished: the link has no receivers, so "
            "nobody reads what it has left. Start one, or delete the link"
        )
    assert settings is not None  # a ledger with a sender in it belongs to a link
    query = view.members[f"sender/{name}"].state["query"]
    sender = LinkSender(storage, settings, name, query, reset=True)
    ends = [log.end for log in sender.output.logs]
    try:
        # Nobody is waited for if receivers are removed meanwhile.
        sender.wait_until_read(
            ends, lambda: _is_taken_over(sender) or not receivers_of(sender.ledger)
        )
        is_taken_over = _is_taken_over(sender)
    except FencedError:
        is_taken_over = True
    finally:
        sender.ledger.close()
    if is_taken_over:
        raise LinkError(
            f"the link {storage}: sender {name!r} is not finished: its query was started again and "
            "does that itself. Stop it and remove it again, or leave it"
        )


def _is_taken_over(sender: LinkSender) -> bool:
    """Whether another process has committed as this sender: each does so as it starts."""
    newest = sender.ledger.latest
    return newest is not None and newest.state["epoch"] != sender.epoch
