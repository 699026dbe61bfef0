"""What every sink must hold: each row once, whole, in order per key, from where it began."""

from __future__ import annotations

import json
from bisect import bisect_right
from functools import cache
from pathlib import Path
from typing import Any

import faulty_rows as rows
import pyarrow.parquet as pq


@cache
def numbers_of(source: str, channel: int, upto: int) -> tuple[int, ...]:
    """Return the numbers of a sender's rows on a channel, in order."""
    return tuple(n for n in range(upto) if rows.channel_of(source, n) == channel)


Columns = list[tuple[int, list[list[str]]]]
"""From which row on a sender's rows have which columns; more than one choice where that is open."""


class SinkCheck:
    """Follows the sink of one receiver.

    Parameters
    ----------
    folder : Path
        Of the receiver.
    channels : sequence of int
        That it reads.
    is_late : bool
        Whether it came when rows had gone by.

    Attributes
    ----------
    rows : int
        That were checked.
    """

    def __init__(self, folder: Path, channels: list[int], *, is_late: bool) -> None:
        self.folder, self.channels, self.is_late = folder, channels, is_late
        self.rows = 0
        self._next_file = 0
        self._next: dict[tuple[str, int], int] = {}
        """By sender and channel, place in that channel of the row that must come next."""

    def look(self, columns: dict[str, Columns], upto: dict[str, int]) -> None:
        """Check what has come since the last time.

        Parameters
        ----------
        columns : dict of str to Columns
            By sender.
        upto : dict of str to int
            By sender, rows that it has been given.
        """
        while (path := self.folder / "sink" / f"{self._next_file:06d}.parquet").exists():
            for row in pq.read_table(path).to_pylist():
                self._check_row(path, row, columns, upto)
            self._next_file += 1

    def _check_row(
        self, path: Path, row: dict[str, Any], columns: dict[str, Columns], upto: dict[str, int]
    ) -> None:
        source, number = row["source"], row["number"]
        assert source in upto, f"{path}: no sender {source!r}: {row}"
        assert 0 <= number < upto[source], f"{path}: {source}{number} was never sent"
        channel = rows.channel_of(source, number)
        assert channel in self.channels, f"{path}: {source}{number} is of channel {channel}"
        own = numbers_of(source, channel, upto[source])
        place = self._next.get((source, channel))
        if place is None:
            place = self._origin(source, channel)
        wanted = own[place] if place < len(own) else None
        assert number == wanted, (
            f"{path}: channel {channel}: {source}{number} where {source}{wanted} must come: "
            + (f"{own.index(number) - place} rows are lost" if wanted is not None
               and number > wanted else "it came before")
        )  # fmt: skip
        self._next[source, channel] = place + 1
        self._check_values(path, row, columns[source])
        self.rows += 1

    def _origin(self, source: str, channel: int) -> int:
        """Return which of a channel's rows must come first."""
        if not self.is_late:
            return 0
        cursors = json.loads((self.folder / "began.json").read_text())["cursors"]
        index = self._index(source)
        return int(cursors[index][self.channels.index(channel)]) if index in cursors else 0

    def _index(self, source: str) -> str:
        """Return a sender's index in the link; the harness writes it down."""
        indices = json.loads((self.folder.parent / "indices.json").read_text())
        return str(indices.get(source, ""))

    def _check_values(self, path: Path, row: dict[str, Any], columns: Columns) -> None:
        source, number = row["source"], row["number"]
        place = bisect_right(columns, number, key=lambda entry: entry[0]) - 1
        wanted = [_values(source, number, names) for names in columns[max(0, place)][1]]
        found = {name: value for name, value in row.items() if value is not None}
        assert found in wanted, f"{path}: {source}{number} is {found}, not one of {wanted}"

    def missing(self, upto: dict[str, int]) -> int:
        """Return how many rows are still to come."""
        if self.is_late and not (self.folder / "began.json").exists():
            return 1  # it has not found its place yet
        found = 0
        for source, end in upto.items():
            for channel in self.channels:
                place = self._next.get((source, channel))
                if place is None:
                    place = self._origin(source, channel)
                found += len(numbers_of(source, channel, end)) - place
        return found


def _values(source: str, number: int, columns: list[str]) -> dict[str, Any]:
    """Return all values of a row."""
    base = {"source": source, "number": number, "key": rows.key_of(source, number)}
    more = {name: rows.more_of(name, source, number) for name in columns}
    return {**base, "text": rows.text_of(source, number), **more}
