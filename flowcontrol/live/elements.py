"""The stamps of a stage's records on the live clock: read with its inputs, sent with its outputs.

The rules of a stage run in two processes on the driver, and its records are in files that tasks on
executors write. A hidden column of the files has the stamps. Either process reads them where its
rules ask for one, a file once a round.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from flowcontrol.job import JobVertex, Subtask
from flowcontrol.job.channel_elements import ChannelElements, Mark
from flowcontrol.ledger.exchange import ExchangeView
from flowcontrol.live.take import STAMP

Ints = npt.NDArray[np.int64]


class ReceivedElements(ChannelElements):
    """What a channel has for its receiver; stamps are fetched when one is asked for.

    Parameters
    ----------
    fetch : callable
        Given the number of a record, returns the stamps from that one on, as far as they are known.

    Attributes
    ----------
    restored : int
        Number of the record behind those that were in flight when the channel began anew. What is
        known of those behind may be of the attempt before, until one of them has come.
    """

    def __init__(self, fetch: Callable[[int], list[int]]) -> None:
        super().__init__()
        self._fetch, self.restored = fetch, 0

    def stamps_of(self, first: int, count: int) -> list[int]:
        """Return the stamps of records by number, of such as are not taken up."""
        known = self.taken + len(self.stamps)
        if known < first + count:
            found = self._fetch(known)
            if first + count <= self.restored:
                del found[self.restored - known :]
            self.stamps.extend(found)
        return super().stamps_of(first, count)

    def begin_with(self, taken: tuple[int, int], elements: Iterable[tuple[int, int]]) -> None:
        """Have a fresh channel begin with what was in flight; stamps of records are in the log."""
        self.first, self.taken, number = taken, taken[0], taken[0]
        for kind, value in elements:
            if kind == 0:
                number += 1
            else:
                self.marks.append(Mark(number, kind, value))
        self.restored = number

    def take(self, count: int) -> None:
        """Have the receiver take up records, oldest first; of few has it asked for the stamp."""
        for _ in range(min(count, len(self.stamps))):
            self.stamps.popleft()
        self.taken += count

    def in_flight(self) -> tuple[tuple[int, int], ...]:
        """Return nothing: nobody knows it all here."""
        return ()


class StageElements:
    """What is between the records of a stage's channels, in one process.

    Parameters
    ----------
    plan : JobVertex
        The stage.
    exchanges : mapping of str to ExchangeView
        The exchange log of each of its inputs, by edge name; none of a job without stamps.
    """

    def __init__(self, plan: JobVertex, exchanges: Mapping[str, ExchangeView]) -> None:
        self._plan, self._exchanges = plan, exchanges
        self._columns: dict[str, Ints] = {}

    def connect(self, subtask: Subtask) -> None:
        """Have a fresh subtask ask the exchange logs."""
        if subtask.time is None:
            return
        subtask.time.inputs = [
            [
                ReceivedElements(self._fetcher(link.name, channel.sender, subtask.index))
                for channel in own
            ]
            for link, own in subtask.in_links
        ]

    @staticmethod
    def go_on(subtask: Subtask, until: Sequence[Sequence[int]]) -> None:
        """Have a restored subtask know what was in flight to it when it began anew.

        Parameters
        ----------
        subtask : Subtask
            Restored.
        until : sequence of sequence of int
            Per gate and channel: number of the record behind the last one.
        """
        if subtask.time is None:
            return
        for gate, ends in zip(subtask.time.inputs, until, strict=True):
            for elements, end in zip(gate, ends, strict=True):
                if isinstance(elements, ReceivedElements):
                    elements.restored = end

    def begin_round(self, subtasks: list[Subtask]) -> None:
        """Have the rows of the round before be seen; what was sent then is not kept here."""
        self._columns.clear()
        for exchange in self._exchanges.values():
            exchange.refresh()
        for subtask in subtasks:
            for part in [] if subtask.time is None else subtask.time.outputs:
                for elements in part:
                    elements.pass_on()

    def _fetcher(self, edge: str, sender: int, receiver: int) -> Callable[[int], list[int]]:
        """Return what reads the stamps of a channel."""

        def fetch(first: int) -> list[int]:
            exchange, found = self._exchanges[edge], list[int]()
            count = exchange.end_of(sender, receiver) - first
            for span in exchange.locate(sender, receiver, first, count):
                column = self._column(span.path)
                found += column[span.first_row : span.first_row + span.rows].tolist()
            return found

        return fetch

    def _column(self, path: str) -> Ints:
        """Return the stamps of a file; all receivers of a stage read the same files."""
        if path not in self._columns:
            with pq.ParquetFile(path) as file:
                found = file.read(columns=[STAMP], use_threads=False).column(0).to_numpy()
            self._columns[path] = np.asarray(found, np.int64)
        return self._columns[path]


def sent_stamps(subtask: Subtask, number: int) -> Ints | None:
    """Return the stamps of what a subtask sent over an edge in the round, channel by channel.

    None: the records of its job have no stamps.
    """
    if subtask.time is None or subtask.task.has_stamps == 0:
        return None
    part = subtask.time.outputs[number]
    return np.array([stamp for elements in part for stamp in elements.stamps], np.int64)
