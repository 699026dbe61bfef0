"""The marks that a checkpoint has in flight, on the live clock.

Stamps of records are in the exchange log, under the numbers of the records. Marks stand in the
sender's rows of the ledger, round by round. So a subtask keeps those that wait with it when it
takes a checkpoint. The others came in that round and in later ones, before the sender's own
barrier. How many they are follows from the counts of the cuts at both ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from flowcontrol.errors import LedgerError
from flowcontrol.job import Subtask
from flowcontrol.job.channel_elements import Mark
from flowcontrol.job.kept_time import Marks, marks_of
from flowcontrol.ledger.ledger import LedgerView


class WaitingMarks(NamedTuple):
    """What a subtask keeps of marks when it takes a checkpoint.

    Attributes
    ----------
    number : int
        The round.
    marks : list of list of list of Mark
        By gate and channel, the marks that had come and that it had not taken.
    """

    number: int
    marks: Marks


def waiting_document(subtask: Subtask) -> dict[str, Any]:
    """Return what stands with a cut of a subtask: the marks that wait; empty without event time."""
    if subtask.time is None:
        return {}
    return {"waiting": [[list(own.marks) for own in gate] for gate in subtask.time.inputs]}


def waiting_from(number: int, document: Mapping[str, Any]) -> WaitingMarks:
    """Return the marks of a cut that was kept in a round."""
    gates = document.get("waiting", [])
    return WaitingMarks(number, [[[Mark(*kept) for kept in own] for own in gate] for gate in gates])


class SentMarks:
    """The marks that senders have put into their channels, as the ledgers have them.

    Parameters
    ----------
    views : mapping of str to LedgerView
        The ledger of each edge, by name.
    """

    def __init__(self, views: Mapping[str, LedgerView]) -> None:
        self._views = views
        self._rounds: dict[tuple[str, int], dict[tuple[int, int], tuple[Mark, ...]]] = {}

    def forget(self) -> None:
        """Forget what has been read."""
        self._rounds.clear()

    def first(
        self,
        edge: str,
        channel: tuple[int, int],
        waiting: WaitingMarks,
        place: tuple[int, int],
        count: int,
    ) -> list[Mark]:
        """Return the oldest marks that a cut has in flight in a channel.

        Parameters
        ----------
        edge : str
            Name of the edge.
        channel : (int, int)
            Sender and receiver.
        waiting : WaitingMarks
            What the receiver has kept.
        place : (int, int)
            Its gate, and the channel of that.
        count : int
            How many.

        Raises
        ------
        LedgerError
            If the ledger has fewer.
        """
        gate, at = place
        found = waiting.marks[gate][at][:count] if count > 0 else []
        later = self._since(edge, channel, waiting.number) if len(found) < count else iter(())
        found = [*found, *islice(later, count - len(found))]
        if len(found) < count:
            raise LedgerError(
                f"{self._views[edge].path}: channel {channel[0]}->{channel[1]} had {count} marks "
                f"in flight at a checkpoint of round {waiting.number}, of which {len(found)} are "
                "there"
            )
        return found

    def _since(self, edge: str, channel: tuple[int, int], number: int) -> Iterator[Mark]:
        """Yield the marks that a sender put into a channel from a round on."""
        for each in range(number, self._views[edge].last_batch("sender") + 1):
            yield from self._of_round(edge, each)[channel]

    def _of_round(self, edge: str, number: int) -> dict[tuple[int, int], tuple[Mark, ...]]:
        """Return the marks of a round by channel."""
        if (edge, number) not in self._rounds:
            self._rounds[edge, number] = {
                (row["sender"], row["receiver"]): marks_of(json.loads(row["channel_state"]))
                for row in self._rows(edge, number)
            }
        return self._rounds[edge, number]

    def _rows(self, edge: str, number: int) -> list[dict[str, Any]]:
        """Return the sender's rows of a round; the other side may be packing files of old ones."""
        view = self._views[edge]
        try:
            return view.rows("sender", number)
        except FileNotFoundError:
            view.refresh(at_once=True)
            return view.rows("sender", number)


def elements_of(first: int, end: int, marks: Sequence[Mark]) -> list[tuple[int, int]]:
    """Return what is in a channel in order: a mark's kind and value, or zeros for a record.

    Parameters
    ----------
    first, end : int
        Numbers of the first record, and of the one behind the last.
    marks : sequence of Mark
        The marks among them.
    """
    found, number = list[tuple[int, int]](), first
    for mark in marks:
        found += [(0, 0)] * (mark.before - number)
        found.append((mark.kind, mark.watermark))
        number = max(number, mark.before)
    return found + [(0, 0)] * (end - number)
