"""One violation of each invariant, planted into an otherwise good ledger, is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from flowcontrol.ledger.audit import audit
from flowcontrol.ledger.audit_rules import INVARIANTS

Rows = list[dict[str, Any]]
Place = tuple[int, int, int]


class Ledger:
    """Rows of one link, to be spoilt."""

    def __init__(self, rows: Rows) -> None:
        self.rows = [dict(row) for row in rows]

    def of(self, side: str, batch: int) -> Rows:
        return [r for r in self.rows if (r["side"], r["batch_id"]) == (side, batch)]

    def row(self, side: str, batch: int, sender: int = 0, receiver: int = 0) -> dict[str, Any]:
        found = [
            r for r in self.of(side, batch) if (r["sender"], r["receiver"]) == (sender, receiver)
        ]
        [row] = found
        return row

    def set(
        self, side: str, batch: int, sender: int = 0, receiver: int = 0, /, **values: Any
    ) -> None:
        self.row(side, batch, sender, receiver).update(values)

    def add(
        self, side: str, batch: int, sender: int = 0, receiver: int = 0, /, **values: int
    ) -> None:
        row = self.row(side, batch, sender, receiver)
        row.update({name: row[name] + value for name, value in values.items()})

    def state(self, side: str, batch: int, change: Callable[[dict[str, Any]], object]) -> None:
        row = self.row(side, batch)
        state = json.loads(row["channel_state"])
        change(state)
        row["channel_state"] = json.dumps(state)

    def drop(self, side: str, first: int, last: int = 10**9) -> None:
        self.rows = [
            r for r in self.rows if r["side"] != side or not first <= r["batch_id"] <= last
        ]


Plant = tuple[str, Callable[[Ledger], object], Place]

# In batch 16 of `single` the sink is slow: the sender has written and released 44 and sent 34,
# which is all that was announced; the receiver has consumed 24 and reads the 25th, of whose
# records (the 246th to the 256th) it takes 5 up and has taken 255 then, of 431 that had been
# routed; 10 buffers (2 exclusive, 8 floating) are full, and so are the 10 of the sender's pool.
# In batch 14 of `local` 35 of the messages handed over had been consumed a batch ago; the pool
# has 10 buffers and 5 for overdraft. In `fan_in` and `two_by_two` a task has several channels.
PLANTS: dict[str, Plant] = {
    "row": ("single", lambda x: x.set("sender", 16, sent=None), (16, 0, 0)),
    "one_row": ("two_by_two", lambda x: x.rows.remove(x.row("sender", 16, 1, 0)), (16, 1, 0)),
    "gap_free": ("two_by_two", lambda x: x.drop("sender", 16, 16), (16, 0, 0)),
    "lock_step": ("single", lambda x: x.drop("receiver", 16), (17, 0, 0)),
    "written_grows": ("single", lambda x: x.set("sender", 16, written=42), (16, 0, 0)),
    "released_grows": ("single", lambda x: x.set("sender", 16, released=42), (16, 0, 0)),
    "sent_grows": ("single", lambda x: x.set("sender", 16, sent=33), (16, 0, 0)),
    "released_within_written": ("single", lambda x: x.set("sender", 16, released=45), (16, 0, 0)),
    "sent_within_released": ("single", lambda x: x.set("sender", 16, sent=45), (16, 0, 0)),
    "backlog": ("single", lambda x: x.add("sender", 16, backlog=1), (16, 0, 0)),
    "sent_within_announced": (
        "single",
        lambda x: x.add("sender", 16, sent=1, backlog=-1),
        (16, 0, 0),
    ),
    "credit_not_negative": ("single", lambda x: x.set("sender", 16, credit=-1), (16, 0, 0)),
    "credit": ("single", lambda x: x.set("sender", 16, credit=1), (16, 0, 0)),
    "local_credit": ("local", lambda x: x.set("sender", 14, credit=1), (14, 0, 0)),
    "local_handed_over": (
        "local",
        lambda x: x.set("sender", 14, written=51, released=51, sent=51, backlog=0),
        (14, 0, 0),
    ),
    "sent_messages": (
        "single",
        lambda x: x.state("sender", 15, lambda s: s["messages"].pop()),
        (15, 0, 0),
    ),
    "sent_rows_were_routed": (
        "single",
        lambda x: x.state("sender", 15, lambda s: s["messages"][0].update(records=109)),
        (15, 0, 0),
    ),
    "output_pool_limit": ("single", lambda x: x.set("sender", 16, pool_used=16), (16, 0, 0)),
    "output_pool_is_its_channels": (
        "single",
        lambda x: x.set("sender", 16, pool_used=15),
        (16, 0, 0),
    ),
    "output_pool_size": (
        "two_by_two",
        lambda x: x.add("sender", 16, 1, 1, pool_size=1),
        (16, 1, 1),
    ),
    "sender_state": (
        "single",
        lambda x: x.state("sender", 16, lambda s: s.update(routed=s["routed"] + 1)),
        (16, 0, 0),
    ),
    "announced_grows": ("single", lambda x: x.set("receiver", 16, announced=33), (16, 0, 0)),
    "consumed_grows": ("single", lambda x: x.set("receiver", 18, consumed=24), (18, 0, 0)),
    "consumed_within_sent": ("single", lambda x: x.set("receiver", 16, consumed=35), (16, 0, 0)),
    "exclusive_constant": ("single", lambda x: x.set("receiver", 16, exclusive=3), (16, 0, 0)),
    "local_buffers": ("local", lambda x: x.set("receiver", 14, floating_held=1), (14, 0, 0)),
    "local_announced": ("local", lambda x: x.add("receiver", 14, announced=1), (14, 0, 0)),
    "credit_is_backed": ("single", lambda x: x.set("receiver", 16, announced=35), (16, 0, 0)),
    "window": ("single", lambda x: x.set("receiver", 16, pool_size=7), (16, 0, 0)),
    "floating_is_the_pools": (
        "fan_in",
        lambda x: x.add("receiver", 13, 2, 0, floating_held=1),
        (13, 0, 0),
    ),
    "floating_pool_limit": (
        "single",
        lambda x: x.set("receiver", 16, floating_held=9, pool_used=9),
        (16, 0, 0),
    ),
    "floating_pool_size": (
        "fan_in",
        lambda x: x.add("receiver", 16, 2, 0, pool_size=1),
        (16, 2, 0),
    ),
    "rows_conserved": ("single", lambda x: x.add("receiver", 16, rows=177), (16, 0, 0)),
    "batch_rows": ("single", lambda x: x.add("receiver", 16, rows=176), (16, 0, 0)),
    "taken_within_read": ("single", lambda x: x.set("receiver", 16, rows=7), (16, 0, 0)),
    "consumed_were_taken": ("single", lambda x: x.set("receiver", 17, rows=0), (17, 0, 0)),
    "receiver_state": ("single", lambda x: x.set("receiver", 16, rows=6), (16, 0, 0)),
}

ELSEWHERE = {"exchange": "test_audit_disk.py"}
"""Invariants that a table alone cannot break."""


@pytest.fixture(scope="module")
def ledgers(jobs: ModuleType) -> dict[str, Rows]:
    return {
        name: jobs.ledger_rows(jobs.run(make()))
        for name, make in jobs.GOOD.items()
        if name != "mixed"
    }


def test_every_invariant_has_a_plant() -> None:
    assert set(PLANTS) | set(ELSEWHERE) == set(INVARIANTS)
    assert all(INVARIANTS.values())


@pytest.mark.parametrize("invariant", PLANTS)
def test_a_planted_violation_is_named(ledgers: Any, jobs: ModuleType, invariant: str) -> None:
    name, spoil, place = PLANTS[invariant]
    assert audit(jobs.table(ledgers[name])) is None
    ledger = Ledger(ledgers[name])
    spoil(ledger)
    found = audit(jobs.table(ledger.rows))
    assert found is not None
    assert (found.invariant, found.batch_id, found.sender, found.receiver) == (invariant, *place)


# Each limit by hand: the last value that holds, and the first that does not.
LIMITS = [
    ("sent_within_announced", lambda x, n: x.set("sender", 16, sent=n, backlog=44 - n), 34, 35),
    ("output_pool_limit", lambda x, n: x.set("sender", 16, pool_used=n), 15, 16),
    ("consumed_within_sent", lambda x, n: x.set("receiver", 16, consumed=n), 34, 35),
    ("credit_is_backed", lambda x, n: x.set("receiver", 16, announced=n), 34, 35),
    ("window", lambda x, n: x.set("receiver", 16, pool_size=n), 8, 7),
    ("rows_conserved", lambda x, n: x.set("receiver", 13, rows=n), 143, 144),
    ("taken_within_read", lambda x, n: x.set("receiver", 16, rows=n), 6, 7),
    ("consumed_were_taken", lambda x, n: x.set("receiver", 17, rows=n), 1, 0),
]  # fmt: skip


@pytest.mark.parametrize(("invariant", "change", "last", "first"), LIMITS)
def test_a_limit_is_where_it_is(
    ledgers: Any, jobs: ModuleType, invariant: str, change: Any, last: int, first: int
) -> None:
    named = []
    for number in (last, first):
        ledger = Ledger(ledgers["single"])
        change(ledger, number)
        found = audit(jobs.table(ledger.rows))
        named.append(None if found is None else found.invariant)
    assert named[0] != invariant
    assert named[1] == invariant


# Before its first batch a sender has sent nothing and knows of the 2 exclusive buffers only. In
# batch 0 of `single` it has released 3 and sends 2; in that of `local` it hands 7 over.
FIRST = [
    ("single", "sent_within_announced", lambda x: x.set("sender", 0, sent=3, backlog=0)),
    ("single", "sent_messages", lambda x: x.set("sender", 0, sent=1, backlog=2, credit=1)),
    ("single", "credit", lambda x: x.set("sender", 0, credit=1)),
    ("single", "sender_state", lambda x: x.add("sender", 0, rows=1)),
    ("single", "sent_rows_were_routed", lambda x: x.set("sender", 0, rows=19)),
    ("single", "consumed_within_sent", lambda x: x.set("receiver", 0, consumed=1)),
    ("single", "credit_is_backed", lambda x: x.set("receiver", 0, announced=3)),
    ("single", "announced_grows", lambda x: x.set("receiver", 0, announced=1)),
    ("single", "rows_conserved", lambda x: x.set("receiver", 0, rows=1)),
    ("local", "local_announced", lambda x: x.set("receiver", 0, announced=1)),
    ("local", "local_handed_over",
     lambda x: x.set("sender", 0, written=16, released=16, sent=16, backlog=0)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "invariant", "spoil"), FIRST, ids=[f[1] for f in FIRST])
def test_the_first_batch_stands_on_nothing(
    ledgers: Any, jobs: ModuleType, name: str, invariant: str, spoil: Any
) -> None:
    ledger = Ledger(ledgers[name])
    spoil(ledger)
    found = audit(jobs.table(ledger.rows))
    assert found is not None
    assert (found.invariant, found.batch_id) == (invariant, 0)
    assert "batch 0: " in found.message


@pytest.mark.parametrize("side", ["sender", "receiver"])
def test_the_last_batch_is_looked_at(ledgers: Any, jobs: ModuleType, side: str) -> None:
    ledger = Ledger(ledgers["two_by_two"])
    ledger.rows.remove(ledger.row(side, 39, 1, 1))
    found = audit(jobs.table(ledger.rows))
    assert found is not None
    assert (found.invariant, found.batch_id, found.sender, found.receiver) == ("one_row", 39, 1, 1)


@pytest.mark.parametrize(("side", "other"), [("sender", "receiver"), ("receiver", "sender")])
def test_a_side_is_a_batch_ahead_at_most(
    ledgers: Any, jobs: ModuleType, side: str, other: str
) -> None:
    ledger = Ledger(ledgers["single"])
    ledger.drop(other, 39)
    assert audit(jobs.table(ledger.rows)) is None
    ledger.drop(other, 38)
    found = audit(jobs.table(ledger.rows))
    assert found is not None
    assert (found.invariant, found.batch_id) == ("lock_step", 39)
    assert f"the {side} ran batch 39, the {other}'s last one is 37" in found.message


@pytest.mark.parametrize(
    ("edge", "size", "overdraft"), [("source->a", 10, 5), ("source->b", 12, 2)]
)
def test_each_partition_of_a_task_has_an_overdraft_of_its_own(
    jobs: ModuleType, edge: str, size: int, overdraft: int
) -> None:
    stages = [
        jobs.source(300, placement=[0]),
        {"name": "a", "placement": [1]},
        {"name": "b", "placement": [1, 1], "parallelism": 2},
    ]
    edges = [("source", "a", "forward"), ("source", "b", "rebalance")]
    made = jobs.job(stages, edges, {jobs.BUFFERS: 29})
    rows = jobs.ledger_rows(jobs.run(made), edge)
    assert audit(jobs.table(rows)) is None
    named = []
    for used in (size + overdraft, size + overdraft + 1):
        ledger = Ledger(rows)
        ledger.set("sender", 16, pool_used=used)
        found = audit(jobs.table(ledger.rows))
        named.append(found and found.invariant)
    assert named == ["output_pool_is_its_channels", "output_pool_limit"]


# ---------------------------------------------------------------- rows that are none

MALFORMED: dict[str, tuple[Callable[[Ledger], object], Place]] = {
    "sent is None": (lambda x: x.set("sender", 16, sent=None), (16, 0, 0)),
    "rows is None": (lambda x: x.set("receiver", 16, rows=None), (16, 0, 0)),
    "sent is -1": (lambda x: x.set("sender", 16, sent=-1), (16, 0, 0)),
    "bytes is None": (lambda x: x.set("sender", 0, bytes=None), (0, 0, 0)),
    "announced is 3, must be null": (lambda x: x.set("sender", 16, announced=3), (16, 0, 0)),
    "backlog is 0, must be null": (lambda x: x.set("receiver", 16, backlog=0), (16, 0, 0)),
    "side is 'middle'": (lambda x: x.set("sender", 16, side="middle"), (16, 0, 0)),
    "side is None": (lambda x: x.set("sender", 16, side=None), (16, 0, 0)),
    "batch_id is None": (lambda x: x.set("sender", 16, batch_id=None), (-1, 0, 0)),
    "receiver is None": (lambda x: x.set("sender", 16, receiver=None), (16, 0, -1)),
    "JSONDecodeError": (lambda x: x.set("sender", 16, channel_state="{"), (16, 0, 0)),
    "NoneType": (lambda x: x.set("receiver", 16, channel_state=None), (16, 0, 0)),
    "KeyError: 'messages'": (
        lambda x: x.state("sender", 16, lambda s: s.pop("messages")),
        (16, 0, 0),
    ),
    "KeyError: 'announced'": (
        lambda x: x.state("receiver", 16, lambda s: s["channel"].clear()),
        (16, 0, 0),
    ),
    "KeyError: 'partitions'": (lambda x: x.set("sender", 16, task_state="{}"), (16, 0, 0)),
    "carries the state of its task": (lambda x: x.set("sender", 16, task_state=None), (16, 0, 0)),
}  # fmt: skip


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_row_is_a_violation(ledgers: Any, jobs: ModuleType, text: str) -> None:
    spoil, place = MALFORMED[text]
    ledger = Ledger(ledgers["single"])
    spoil(ledger)
    found = audit(jobs.table(ledger.rows))
    assert found is not None
    assert (found.invariant, found.batch_id, found.sender, found.receiver) == ("row", *place)
    assert text in found.message


def test_a_doubled_row_is_a_violation(ledgers: Any, jobs: ModuleType) -> None:
    ledger = Ledger(ledgers["two_by_two"])
    ledger.rows.append(dict(ledger.row("receiver", 16, 1, 0)))
    found = audit(jobs.table(ledger.rows))
    assert found is not None
    assert (found.invariant, found.batch_id, found.sender, found.receiver) == ("one_row", 16, 1, 0)
    assert "more than one" in found.message


def test_a_channel_that_comes_later_is_a_violation(ledgers: Any, jobs: ModuleType) -> None:
    ledger = Ledger(ledgers["two_by_two"])
    ledger.rows.append({**ledger.row("receiver", 16, 1, 0), "sender": 7})
    found = audit(jobs.table(ledger.rows))
    assert found is not None
    assert (found.invariant, found.batch_id, found.sender, found.receiver) == ("one_row", 16, 7, 0)


def test_a_ledger_that_starts_late_has_a_gap(ledgers: Any, jobs: ModuleType) -> None:
    ledger = Ledger([row for row in ledgers["single"] if row["batch_id"] > 0])
    found = audit(jobs.table(ledger.rows))
    assert found is not None
    assert (found.invariant, found.batch_id) == ("gap_free", 0)


def test_a_side_without_rows_stops_the_other(ledgers: Any, jobs: ModuleType) -> None:
    ledger = Ledger([row for row in ledgers["single"] if row["side"] == "sender"])
    found = audit(jobs.table(ledger.rows))
    assert found is not None
    assert (found.invariant, found.batch_id) == ("lock_step", 1)
