"""What must hold after a history, from what was put in, the sinks, and the ledger's commits."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from typing import TYPE_CHECKING, Any

from modules import load

if TYPE_CHECKING:
    from .history import History
    from .queries import ReceiverQuery


def check(history: History) -> None:
    """Check rows, their order, and credits. Raises AssertionError."""
    groups: dict[str, list[ReceiverQuery]] = {}
    for query in history.receivers:
        groups.setdefault(query.group, []).append(query)
    for group, queries in groups.items():
        _check_rows(history, group, queries)
    verify = load("tests/link/verify.py")
    verify.LedgerCheck(*history.first_settings).check(ledger_rows(history))


def _check_rows(history: History, group: str, queries: list[ReceiverQuery]) -> None:
    sent = {row[:4]: row for one in history.senders for batch in one.batches for row in batch}
    committed = Counter(row[:4] for one in history.senders for row in one.committed)
    found: Counter[Any] = Counter()
    for query in queries:
        for rows in query.sink.values():
            found.update(row[:4] for row in rows)
        _check_order(history, query)
    doubled = [row for row, count in found.items() if count > 1]
    assert not doubled, f"{group}: doubled: {doubled}"
    strange = [row for row in found if row not in sent]
    assert not strange, f"{group}: never sent: {strange}"
    if any(one.is_out for one in queries):
        return
    lost = [row for row in committed if row not in found]
    if history.first_group() == group or not lost:
        assert not lost, f"{group}: lost: {lost}"
        return
    # It came when others had read: it has all behind what they had consumed.
    others: set[Any] = set()
    for query in history.receivers:
        if query.group != group:
            others.update(row[:4] for rows in query.sink.values() for row in rows)
    nowhere = [row for row in lost if row not in others]
    assert not nowhere, f"{group}: lost for all: {nowhere}"
    if history.settings.key is not None:
        _check_gapless(history, group, queries)


def _check_order(history: History, query: ReceiverQuery) -> None:
    """Check that the rows of each key, or of each channel, are in order; late ones are gapless."""
    has_key = history.settings.key is not None
    last: dict[Any, int] = {}
    for number in sorted(query.sink):
        for row in query.sink[number]:
            place = row.source, row.key if has_key else row.channel
            assert row.number > last.get(place, -1), f"{query.name}: {row} after {last[place]}"
            last[place] = row.number


def _check_gapless(history: History, group: str, queries: list[ReceiverQuery]) -> None:
    """Check that a late receiver has all rows of a key behind its first one."""
    sinks = [rows for query in queries for rows in query.sink.values()]
    taken = {(row.source, row.number) for rows in sinks for row in rows}
    begun: set[Any] = set()
    for one in history.senders:
        for row in one.committed:
            if (row.source, row.number) in taken:
                begun.add((row.source, row.key))
            else:
                assert (row.source, row.key) not in begun, f"{group}: lost: {row}"


def ledger_rows(history: History) -> list[tuple[str, Any]]:
    """Return every row of the ledger with its member, in the order of commits."""
    found = []
    files = history.files
    commits = sorted((path, content) for path, content in files.commits if "/ledger/" in path)
    base = f"{history.place.removeprefix('s3://')}/ledger"
    for _, content in commits:
        for line in content.splitlines():
            add = json.loads(line).get("add")
            if add is None or ".L0." not in add["path"]:
                continue
            member = json.loads(add["stats"])["member"]
            if member.startswith("settings"):
                continue
            for row in pickle.loads(files.archive[f"{base}/{add['path']}"]):
                found.append((member, row))
    return found
