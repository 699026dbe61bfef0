"""Who may send under a name: the query whose checkpoint has it, and one start of it at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from flowcontrol.errors import FencedError, LinkError, RemovedError
from flowcontrol.ledger.commit import Writer
from flowcontrol.ledger.link_ledger import LinkLedger
from flowcontrol.link.members import senders_of

HOW_TO_RESET = "link.sender(name, reset=True), or .option('reset', True) of a sink by name"
"""In both forms of a sender."""


class Start(NamedTuple):
    """A start of a query, whose processes act as one sender."""

    run: str | None
    epoch: int  # Of the ledger
    log_epoch: int  # Of the exchange log


def joined_start(
    ledger: LinkLedger, query: str, run: str | None, epoch: int | None
) -> Start | None:
    """Join the start of a query that has a sender's place; None if there is none to join.

    ``epoch``: the one that must be joined.

    Raises FencedError if that has lost its place.
    """
    state = {} if ledger.latest is None else ledger.latest.state
    is_own = (state.get("query"), state.get("run")) == (query, run) and "removed" not in state
    is_wanted = run is not None and is_own and epoch in (None, state["epoch"])
    if is_wanted and ledger.join(state["epoch"]):
        return Start(run, state["epoch"], state["log_epoch"])
    if epoch is not None:
        raise FencedError(
            f"{ledger.storage}: {ledger.member} has been taken over while a batch was written (it "
            f"began with epoch {epoch}): it runs twice, or was started again while this process "
            "lived; stop one of them"
        )
    return None


MOST_REPLACED = 16
"""Queries that a sender remembers to have had its name before."""


def replaced_queries(state: Mapping[str, Any], query: str) -> list[str]:
    """Return the queries from which a sender's name was taken over, the last one last."""
    before = [*state.get("replaced", ()), *filter(None, [state.get("query")])]
    return [one for one in dict.fromkeys(before) if one != query][-MOST_REPLACED:]


def check_query(
    ledger: LinkLedger, name: str, query: str, *, reset: bool, is_shared: bool = False
) -> None:
    """Refuse a sender's name that another checkpoint has used.

    ``is_shared``: whether several processes act for the query, so that none of them can know by
    itself that it was taken over: a query that was is refused for good.

    Raises LinkError: naming both queries.
    """
    state = {} if ledger.latest is None else ledger.latest.state
    other = state.get("query", query)
    if is_shared and other != query and query in state.get("replaced", ()):
        raise LinkError(
            f"{ledger.storage}: sender {name!r} was taken over from the query {query} by the query "
            f"{other}, which sends under this name now. Stop one of them: use the checkpoint of "
            "the other, a new checkpoint, or another name"
        )
    if reset:
        return
    if state.get("removed", False):
        raise RemovedError(
            f"{ledger.storage}: sender {name!r} was removed from the link. Start it under another "
            f"name, or let it come back with {HOW_TO_RESET}"
        )
    if other != query:
        raise LinkError(
            f"{ledger.storage}: sender {name!r} belongs to the query {other}, this one is {query}: "
            "another query sends under this name, or its checkpoint was deleted. Give the sender "
            f"another name, use the old checkpoint, or take the name over with {HOW_TO_RESET}: "
            "then rows of an unfinished batch may come twice"
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
