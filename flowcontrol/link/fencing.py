"""What retiring, moving and deleting share: who uses a link now, and how it is kept out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowcontrol.errors import LinkError
from flowcontrol.ledger.commit import Writer
from flowcontrol.ledger.link_ledger import LinkLedger, LinkLedgerView
from flowcontrol.ledger.storage import Storage

if TYPE_CHECKING:
    from flowcontrol.link.monitoring.figures import LinkSnapshot

ACTIVE_S = 30.0
"""A member that has committed within this time counts as running, seconds. An idle query commits
nothing, so this is courtesy; that nobody commits any more is for :func:`fence_members`."""


def figures_of(storage: Storage) -> LinkSnapshot:
    """Return the figures of a link."""
    from flowcontrol.link.monitoring.monitor import LinkMonitor

    return LinkMonitor(storage).snapshot()


def running_of(found: LinkSnapshot) -> list[str]:
    """Return what each member says that has just committed."""
    members = [(f"sender {one.name}", one.silent_s) for one in found.senders]
    members += [(f"receiver {one.name}", one.silent_s) for one in found.receivers]
    return [f"{name} committed {ago:.0f} s ago" for name, ago in members if ago < ACTIVE_S]


def unread_of(found: LinkSnapshot, *, sender: str = "", receiver: str = "") -> list[str]:
    """Return what is unread, by sender and receiver; those that are cut off do not count."""
    lost = {one.name for one in found.receivers if one.is_detached}
    sums: dict[tuple[str, str], int] = {}
    for one in found.channels:
        is_meant = sender in ("", one.sender) and receiver in ("", one.receiver)
        if is_meant and one.receiver not in lost:
            pair = one.sender, one.receiver
            sums[pair] = sums.get(pair, 0) + one.backlog_rows
    return [
        f"receiver {reader} has {rows} rows of sender {writer} to read"
        if reader
        else f"nobody has read the {rows} rows of sender {writer}"
        for (writer, reader), rows in sums.items()
        if rows
    ]


def check_not_running(storage: Storage, what: str) -> None:
    """Refuse to go on while queries use the link.

    Raises LinkError: naming those that have just committed.
    """
    running = running_of(figures_of(storage))
    if running:
        raise LinkError(
            f"the link {storage} is not {what}: {'; '.join(running)}. Stop the queries and wait "
            f"{ACTIVE_S:.0f} s, or cut them off with --force (force=True): they fail at their "
            "next commit"
        )


def fence_members(storage: Storage) -> None:
    """Take the place of every member: no process that runs now can commit any more.

    Who starts after this reads ``link.json`` behind its own claim (:mod:`.presence`), and finds
    there what has become of the link.
    """
    ledger, exchange = storage.child("ledger"), storage.child("exchange")
    view = LinkLedgerView(ledger)
    if not view.is_there():
        return
    view.refresh()
    for member in list(view.members):
        if member.startswith(("sender/", "receiver/")):
            own = LinkLedger(ledger, member)
            own.claim()
            own.close()
        if member.startswith("sender/"):
            Writer(exchange, member).claim()
