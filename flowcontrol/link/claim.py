"""How a sender takes its name over: from which query, and under which number."""

from __future__ import annotations

from flowcontrol.errors import LinkError
from flowcontrol.ledger.commit import Writer
from flowcontrol.ledger.link_ledger import LinkLedger
from flowcontrol.link.members import senders_of


def check_query(ledger: LinkLedger, name: str, query: str) -> None:
    """Refuse a sender's name that another checkpoint has used.

    Raises
    ------
    LinkError
        Naming both queries.
    """
    other = query if ledger.latest is None else ledger.latest.state["query"]
    if other != query:
        raise LinkError(
            f"{ledger.storage}: sender {name!r} belongs to the query {other}, this one is {query}: "
            "another query sends under this name, or its checkpoint was deleted. Give the sender "
            "another name, use the old checkpoint, or take the name over with "
            "link.sender(name, reset=True): then rows of an unfinished batch may come twice"
        )


def own_index(ledger: LinkLedger, name: str) -> int:
    """Return a sender's index; a new sender takes the next one."""
    registry = Writer(ledger.storage, "senders")
    while True:
        for sender in senders_of(ledger):
            if sender.name == name:
                return sender.number
        # A transaction each: of two that register at once one finds its number taken.
        known = [sender.number for sender in senders_of(ledger)]
        index = max(registry.last_batch(), *known, -1) + 1
        if registry.commit(index, []):
            return index
