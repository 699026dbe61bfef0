"""What must hold of a link, checked from the input, the sinks and the ledger's rows alone."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from flowcontrol.ledger.link_ledger import rows_since
from flowcontrol.ledger.storage import Storage

Row = Mapping[str, Any]


def check_rows(
    inputs: Iterable[pa.Table],
    sinks: Sequence[pa.Table],
    *,
    is_all: bool = True,
    is_late: bool = False,
) -> None:
    """Check what the sinks of one receiver's name hold.

    Parameters
    ----------
    inputs : iterable of pyarrow.Table
        Batches of all senders.
    sinks : sequence of pyarrow.Table
        One of each query of that name; each has channels of its own.
    is_all : bool, default True
        Whether everything must have arrived.
    is_late : bool, default False
        Whether the receiver came when others had read: then a channel may begin later.
    """
    found = Counter(_keys(sinks))
    first: dict[Any, int] = {}
    for key in found:
        first[key[0], key[2]] = min(key[1], first.get((key[0], key[2]), key[1]))
    begun = [
        key
        for key in _keys(inputs)
        if not is_late or key[1] >= first.get((key[0], key[2]), 1 << 60)
    ]
    expected = Counter(begun)
    doubled = {key: count for key, count in found.items() if count > 1}
    assert not doubled, f"doubled: {doubled}"
    assert not found - expected, f"never sent: {found - expected}"
    if is_all:
        assert not expected - found, f"lost: {expected - found}"
    for sink in sinks:
        check_order(sink)


def _keys(tables: Iterable[pa.Table]) -> list[tuple[Any, ...]]:
    return [
        (row["source"], row["number"], row["channel"], len(row["text"]))
        for table in tables
        for row in table.to_pylist()
    ]


def check_order(sink: pa.Table) -> None:
    """Check that the rows of every channel are in the order in which they were sent, gapless."""
    last: dict[tuple[str, int], int] = {}
    for row in sink.select(["source", "channel", "number"]).to_pylist():
        place = row["source"], row["channel"]
        assert row["number"] > last.get(place, -1), f"{place}: {row['number']} after {last[place]}"
        last[place] = row["number"]


def ledger_rows(storage: Storage) -> list[tuple[str, dict[str, Any]]]:
    """Return every row of a link's ledger with the member that wrote it, in order of time."""
    members = rows_since(storage.child("ledger"), {})[1]
    found = [(member, row) for member, rows in members.items() for row in rows.to_pylist()]
    return sorted(found, key=lambda entry: entry[1]["committed_at"])


def records_of(row: Row) -> int:
    """Return the records of a channel that a sender has ever written."""
    return int(json.loads(row["channel_state"] or '{"records": 0}')["records"])


class LedgerCheck:
    """Goes through a ledger's rows and holds each against the limits.

    Parameters
    ----------
    settings : sequence of LinkSettings
        All that the link has had: where buffers were altered, members take them over one by one,
        and use what they have to its end.
    """

    def __init__(self, *settings: Any) -> None:
        self.settings = settings[0]
        self.exclusive = {own.exclusive_buffers for own in settings}
        self.floating = {
            number
            for own in settings
            for number in range(own.floating_buffers, own.most_floating + 1)
        }
        self.window = max(self.exclusive) + max(self.floating)
        self.widths = {own.channels for own in settings}
        self.sizes = {
            width * exclusive + floating
            for width in self.widths
            for exclusive in self.exclusive
            for floating in self.floating
        }
        self.size = max(self.sizes)
        self.senders: dict[tuple[int, int], Row] = {}
        self.receivers: dict[str, dict[tuple[int, int], Row]] = defaultdict(dict)
        self.detached: set[str] = set()
        self.removed: dict[str, set[int]] = {}
        """By member, the senders that have committed since."""
        self.seen: dict[int, set[str]] = defaultdict(set)
        self.numbers: dict[str, int] = {}
        self.settled: set[tuple[int, str]] = set()

    def check(self, rows: Sequence[tuple[str, Row]]) -> int:
        """Check all rows; return how many commits they are."""
        commits: dict[tuple[str, int], list[Row]] = {}
        for member, row in rows:
            commits.setdefault((member, row["batch_id"]), []).append(row)
        for (member, number), own in commits.items():
            # A receiver that comes before any sender begins with a commit without rows.
            first = {0} if member.startswith("sender/") else {0, 1}
            expected = {self.numbers[member] + 1} if member in self.numbers else first
            assert number in expected, f"{member}: gap before {number}"
            self.numbers[member] = number
            if member.startswith("sender/"):
                self._sender(own)
            else:
                self._receiver(member, own)
        return len(commits)

    # ------------------------------------------------------------------ rows of a sender

    def _sender(self, rows: list[Row]) -> None:
        assert [row["receiver"] for row in rows] == list(range(len(rows)))
        assert len(rows) in self.widths
        self.detached |= set(json.loads(rows[0]["task_state"])["detached"])
        sender, grown = rows[0]["sender"], []
        for row in rows:
            place = sender, row["receiver"]
            before = self.senders.get(place, {"written": 0, "released": 0, "channel_state": None})
            assert records_of(row) == records_of(before) + row["rows"], f"rows not counted: {row}"
            for cursor in ("written", "released"):
                assert row[cursor] >= before[cursor], f"{place}: {cursor} goes back: {row}"
            assert row["released"] <= row["written"], row
            assert row["pool_used"] <= row["pool_size"], row
            assert row["pool_size"] in self.sizes, row
            assert row["backlog"] >= 0, row
            if row["released"] > before["released"]:
                grown.append(row["receiver"])
            self.senders[place] = row
        self._in_flight(sender, [row["released"] for row in rows], grown)
        for since in self.removed.values():
            since.add(sender)

    def _in_flight(self, sender: int, released: list[int], grown: list[int]) -> None:
        """Check what the pool has in flight where more of it was just released.

        A receiver that came late may lag behind all that the pool holds: until it has been within
        the limit once, no channel on which it lags is released, but others are. One that came
        after the sender's commit before may have come after its look too.
        """
        pacing = self._pacing(sender)
        seen, self.seen[sender] = self.seen[sender], set(pacing)
        for group, consumed in pacing.items():
            if group not in seen:
                continue
            own = [most - done for most, done in zip(released, consumed, strict=False)]
            for channel in grown:
                text = f"{sender}/{channel}: {own[channel]} buffers of {self.window} for {group}"
                assert own[channel] <= self.window, text
            if grown and (sender, group) in self.settled:
                assert sum(own) <= self.size, f"{sender}: {own} buffers of {self.size} for {group}"
            if sum(own) <= self.size and max(own) <= self.window:
                self.settled.add((sender, group))

    def _pacing(self, sender: int) -> dict[str, list[int]]:
        """Messages consumed, per channel, by each receiver that holds a sender up.

        Where the fastest sets the pace, one that was removed after the sender's commit before may
        have been removed after its look too.
        """
        found: dict[str, list[int]] = {}
        by_fastest = self.settings.detach_after_bytes is not None
        for member, rows in self.receivers.items():
            group, since = member.split("/")[1], self.removed.get(member)
            is_removed = since is not None and not (by_fastest and sender not in since)
            if group not in self.detached and not is_removed:
                own = found.setdefault(group, [0] * max(self.widths))
                for (number, channel), row in rows.items():
                    if number == sender:
                        own[channel] = row["consumed"]
        if by_fastest and found:
            return {"the fastest": [max(counts) for counts in zip(*found.values(), strict=True)]}
        return found

    # ------------------------------------------------------------------ rows of a receiver

    def _receiver(self, member: str, rows: list[Row]) -> None:
        held = 0
        states = [json.loads(row["task_state"]) for row in rows if row["task_state"]]
        if states[0].get("removed", False):
            self.removed.setdefault(member, set())
        else:
            self.removed.pop(member, None)
        for row in rows:
            place = row["sender"], row["receiver"]
            before = self.receivers[member].get(place)
            if before is not None:
                for cursor in ("announced", "sent", "consumed"):
                    assert row[cursor] >= before[cursor], f"{place}: {cursor} goes back: {row}"
            released = self.senders[place]["released"] if place in self.senders else 0
            assert row["consumed"] <= row["sent"] <= released, f"{released} released: {row}"
            assert row["sent"] <= row["announced"], row
            limit = row["exclusive"] + row["floating_held"]
            assert row["announced"] - row["consumed"] <= limit, row
            assert min(self.exclusive) <= row["exclusive"] <= max(self.exclusive)
            assert min(self.floating) <= row["pool_size"] <= max(self.floating)
            held += row["floating_held"]
            self.receivers[member][place] = row
        assert held == rows[0]["pool_used"] <= rows[0]["pool_size"], rows


def check_pipeline(pipeline: Any, *, is_all: bool = True, before: Sequence[Any] = ()) -> None:
    """Check rows and ledger of a dry pipeline; each receiver's name by itself.

    ``before``: the settings that it had before it was altered.
    """
    inputs = [batch for query in pipeline.senders.values() for batch in query.batches]
    groups: dict[str, list[Any]] = {}
    for query in pipeline.receivers:
        groups.setdefault(query.name, []).append(query)
    for queries in groups.values():
        is_late = any(query.is_late for query in queries)
        is_whole = is_all and not any(query.is_detached for query in queries)
        check_rows(inputs, [q.rows for q in queries], is_all=is_whole, is_late=is_late)
    LedgerCheck(pipeline.settings, *before).check(ledger_rows(pipeline.storage))
