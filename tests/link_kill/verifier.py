"""What must hold in the end: known are the input, the sink's table and the ledgers, no code."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import rows
from deltalake import DeltaTable

CHANNELS, EXCLUSIVE, FLOATING = 4, 1, 2
POOL = CHANNELS * EXCLUSIVE + FLOATING

Row = Mapping[str, Any]


def check_table(path: Path, total: int) -> None:
    """Check that every row of the input is there once, as it must be, in order of its channel."""
    found = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    found.sort(key=lambda row: (row["batch"], row["place"]))
    numbers = Counter(row["number"] for row in found)
    doubled = sorted(number for number, count in numbers.items() if count > 1)
    assert not doubled, f"{len(doubled)} rows are there twice: {doubled[:20]}"
    lost = sorted(set(range(total)) - set(numbers))
    assert not lost, f"{len(lost)} of {total} rows are lost: {lost[:20]}"
    assert len(found) == total, f"{len(found)} rows of {total}"
    channels: dict[int, int] = {}
    last: dict[int, int] = {}
    for row in found:
        number, channel = row["number"], row["channel"]
        assert row["key"] == rows.key_of(number), number
        assert row["text"] == rows.text_of(number), number
        assert row["doubled"] == 2 * number, number
        assert channels.setdefault(row["key"], channel) == channel, number
        assert number > last.get(channel, -1), f"channel {channel}: {number} after {last[channel]}"
        last[channel] = number
    assert set(last) == set(range(CHANNELS))


def at_most(row: Row, name: str, value: int, limit: str, most: int) -> None:
    """Check a value of a row against its limit."""
    assert value <= most, f"{name} {value} > {limit} {most}: {row}"


class LedgerCheck:
    """Goes through a ledger in the order of its commits and holds each row against the limits.

    Parameters
    ----------
    link : Path
        Folder of the link.
    commits : sequence of (str, int)
        Application id and number of every commit, in order.

    Attributes
    ----------
    blocked, waiting : int
        Commits of the sender with messages that were not released, and of the receiver with a
        channel that had used up its credit.
    """

    def __init__(self, link: Path, commits: Sequence[tuple[str, int]]) -> None:
        self.link, self.commits = link, commits
        self.blocked = self.waiting = 0
        self._sender: dict[int, Row] = {}
        self._receiver: dict[int, Row] = {}

    def check(self, total: int) -> None:
        """Check all rows, and that in the end all of the input has gone through."""
        table = DeltaTable(str(self.link / "ledger")).to_pyarrow_table().to_pylist()
        found: dict[tuple[str, int], list[Row]] = {}
        for row in table:
            found.setdefault((row["side"], row["batch_id"]), []).append(row)
        last: dict[str, int] = {}
        for app, number in self.commits:
            side = app.partition("/")[0]
            assert number == last.get(side, -1) + 1, f"{app}: {number} after {last.get(side)}"
            last[side] = number
            if side == "settings":
                continue  # the link's columns: a commit without rows
            rows_of = found.pop((side, number), [])
            if not rows_of and side == "receiver" and not self._receiver:
                continue  # it takes its place before there is a sender
            own = sorted(rows_of, key=lambda row: row["receiver"])
            assert [row["receiver"] for row in own] == list(range(CHANNELS)), (app, number)
            getattr(self, f"_check_{side}")(own)
        assert not found, f"rows that no commit has brought: {sorted(found)[:5]}"
        self._check_end(total)

    def _check_sender(self, own: list[Row]) -> None:
        for row in own:
            before = self._sender.get(row["receiver"], {"written": 0, "released": 0})
            for cursor in ("written", "released"):
                at_most(row, "before", before[cursor], cursor, row[cursor])
            at_most(row, "pool_used", row["pool_used"], "pool_size", row["pool_size"])
            at_most(row, "0", 0, "credit and backlog", min(row["credit"], row["backlog"]))
            assert row["pool_size"] == POOL, row
            self._sender[row["receiver"]] = row
        self.blocked += any(row["released"] < row["written"] for row in own)
        self._check_both()

    def _check_receiver(self, own: list[Row]) -> None:
        for row in own:
            before = self._receiver.get(row["receiver"])
            for cursor in ("announced", "sent", "consumed") if before else ():
                at_most(row, "before", before[cursor], cursor, row[cursor])
            at_most(row, "sent", row["sent"], "announced", row["announced"])
            credit, held = row["announced"] - row["consumed"], row["floating_held"]
            at_most(row, "credit", credit, "buffers", EXCLUSIVE + held)
            at_most(row, "pool_used", row["pool_used"], "pool_size", row["pool_size"])
            assert (row["exclusive"], row["pool_size"]) == (EXCLUSIVE, FLOATING), row
            self._receiver[row["receiver"]] = row
        held = sum(row["floating_held"] for row in own)
        assert held == own[0]["pool_used"], own
        assert min(row["floating_held"] for row in own) >= 0, own
        self.waiting += any(row["sent"] == row["announced"] for row in own)
        self._check_both()

    def _check_both(self) -> None:
        """Check the cursors of both sides, as they stand after a commit, against each other."""
        in_flight = 0
        for channel in range(CHANNELS):
            sender = self._sender.get(channel, {"written": 0, "released": 0})
            receiver = self._receiver.get(channel, {"sent": 0, "consumed": 0})
            cursors = [receiver["consumed"], receiver["sent"], sender["released"]]
            cursors.append(sender["written"])
            assert cursors == sorted(cursors), f"{self.link}, channel {channel}: {cursors}"
            in_flight += sender["released"] - receiver["consumed"]
        assert in_flight <= POOL, f"{self.link}: {in_flight} buffers in flight, {POOL} there are"

    def _check_end(self, total: int) -> None:
        written = [json.loads(row["channel_state"])["records"] for row in self._sender.values()]
        assert sum(written) == total, f"{self.link}: records {written} of {total}"
        # A receiver's record is where its last batch began: a stage that is ended right after that
        # batch has not yet said that it is over.
        read = [
            json.loads(row["channel_state"])["record"] + row["rows"]
            for row in self._receiver.values()
        ]
        assert read == written, f"{self.link}: read {read} of {written}"
        for channel, row in self._sender.items():
            assert row["written"] == row["released"] == self._receiver[channel]["sent"], row
