"""An audit passes what keeps every rule, and names the first thing that does not."""

from __future__ import annotations

import json
import random
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowcontrol
from flowcontrol.errors import LedgerError
from flowcontrol.ledger.audit import Violation, audit
from modules import load

jobs = load("tests/job/small_jobs.py")

Rows = list[dict[str, Any]]

CREDIT = {"floating buffers held", "a channel waited", "credit reached 0", "floating pool used up"}

COUNTS = {
    ("single", "source->sink"): CREDIT | {"pool used up", "quota reached", "backlog"},
    ("fan_in", "source->sink"): CREDIT | {"pool used up", "backlog"},
    ("two_by_two", "source->sink"): (CREDIT - {"floating pool used up"}) | {"quota reached"},
    ("local", "source->sink"): {"pool used up", "quota reached"},
    ("slow_sink", "source->sink"): CREDIT | {"overdraft used", "quota reached"},
    ("mixed", "source->map"): CREDIT | {"pool used up"},
    ("mixed", "map->sink"): CREDIT | {"pool used up", "quota reached"},
}
"""Good runs by job and edge, and what has to happen in them to make them count."""


@pytest.fixture(scope="module")
def ledgers() -> dict[tuple[str, str], Rows]:
    """Rows of the ledger of every link of every good run; not to be changed."""
    runs = {name: jobs.run(make()) for name, make in jobs.GOOD.items()}
    return {(name, edge): jobs.ledger_rows(runs[name], edge) for name, edge in COUNTS}


def copied(rows: Rows) -> Rows:
    return [dict(row) for row in rows]


def at(rows: Rows, side: str, batch: int, sender: int = 0, receiver: int = 0) -> dict[str, Any]:
    place = (side, batch, sender, receiver)
    keys = ("side", "batch_id", "sender", "receiver")
    [row] = [row for row in rows if tuple(row[key] for key in keys) == place]
    return row


def place(found: Violation | None) -> tuple[Any, ...]:
    assert found is not None
    return (found.invariant, found.batch_id, found.sender, found.receiver)


@pytest.mark.parametrize(("name", "edge"), COUNTS)
def test_good_runs_pass_and_count(ledgers: Any, name: str, edge: str) -> None:
    rows = ledgers[name, edge]
    assert audit(jobs.table(rows)) is None
    assert jobs.seen(rows) >= COUNTS[name, edge]
    assert {row["batch_id"] for row in rows} == set(range(40))
    assert sum(row["rows"] for row in rows if row["side"] == "receiver") >= 30


def test_every_good_run_is_looked_at() -> None:
    assert {name for name, _ in COUNTS} == set(jobs.GOOD)
    edges = {(name, link.name) for name, make in jobs.GOOD.items() for link in make().links}
    assert edges == set(COUNTS)


def test_the_order_of_rows_is_of_no_account(ledgers: Any) -> None:
    rows = copied(ledgers["fan_in", "source->sink"])
    random.Random(3).shuffle(rows)
    assert audit(jobs.table(rows)) is None
    at(rows, "receiver", 20, 1)["consumed"] += 50
    assert place(audit(jobs.table(rows))) == ("consumed_within_sent", 20, 1, 0)


@pytest.mark.parametrize("ahead", ["sender", "receiver"])
def test_a_side_may_be_a_batch_ahead(ledgers: Any, ahead: str) -> None:
    """As a kill between the two sides' commits leaves it."""
    rows = ledgers["single", "source->sink"]
    kept = [row for row in rows if row["batch_id"] < 20 + (row["side"] == ahead)]
    assert len(kept) == 41
    assert audit(jobs.table(kept)) is None


@pytest.mark.parametrize("side", ["sender", "receiver"])
def test_one_side_may_have_run_its_first_batch_alone(ledgers: Any, side: str) -> None:
    rows = [row for row in ledgers["single", "source->sink"] if row["batch_id"] == 0]
    assert audit(jobs.table([row for row in rows if row["side"] == side])) is None


def test_an_empty_ledger_breaks_nothing() -> None:
    assert audit(jobs.table([])) is None


# ---------------------------------------------------------------- which is the first


def first_of(jobs: ModuleType, rows: Rows, *changes: tuple[dict[str, Any], str, int]) -> Any:
    for row, column, value in changes:
        row[column] += value
    return place(audit(jobs.table(rows)))


def test_the_earlier_batch_is_named(ledgers: Any) -> None:
    rows = copied(ledgers["fan_in", "source->sink"])
    late, early = at(rows, "sender", 21), at(rows, "receiver", 20, 2)
    changes = ((late, "backlog", 1), (early, "consumed", 50))
    assert first_of(jobs, rows, *changes) == ("consumed_within_sent", 20, 2, 0)


def test_the_lower_sender_is_named(ledgers: Any) -> None:
    rows = copied(ledgers["fan_in", "source->sink"])
    low, high = at(rows, "receiver", 20, 1), at(rows, "sender", 20, 2)
    changes = ((high, "backlog", 1), (low, "consumed", 50))
    assert first_of(jobs, rows, *changes) == ("consumed_within_sent", 20, 1, 0)


def test_the_lower_receiver_is_named(ledgers: Any) -> None:
    rows = copied(ledgers["two_by_two", "source->sink"])
    low, high = at(rows, "receiver", 20, 1, 0), at(rows, "sender", 20, 1, 1)
    changes = ((high, "backlog", 1), (low, "consumed", 50))
    assert first_of(jobs, rows, *changes) == ("consumed_within_sent", 20, 1, 0)


def test_the_sender_is_looked_at_before_the_receiver(ledgers: Any) -> None:
    rows = copied(ledgers["single", "source->sink"])
    changes = ((at(rows, "receiver", 20), "consumed", 50), (at(rows, "sender", 20), "backlog", 1))
    assert first_of(jobs, rows, *changes) == ("backlog", 20, 0, 0)


def test_a_batch_that_is_not_whole_is_not_looked_into(ledgers: Any) -> None:
    """One row is missing; what the others then add up to is no violation of its own."""
    rows = copied(ledgers["fan_in", "source->sink"])
    rows.remove(at(rows, "receiver", 20, 2))
    assert place(audit(jobs.table(rows))) == ("one_row", 20, 2, 0)
    at(rows, "sender", 19, 2)["backlog"] += 1
    assert place(audit(jobs.table(rows))) == ("backlog", 19, 2, 0)


# ---------------------------------------------------------------- what is said


def test_a_violation_shows_the_figures_and_the_last_transitions(ledgers: Any) -> None:
    rows = copied(ledgers["single", "source->sink"])
    at(rows, "receiver", 17)["consumed"] = 40
    found = audit(jobs.table(rows))
    assert found is not None
    lines = found.message.splitlines()
    assert lines[0] == "consumed <= sent as the receiver saw it, but 40 > 34"
    assert len(lines) == 1 + 2 * 3
    assert lines[-2].strip() == (
        "sender   batch 17: written 44, released 44, sent 34, credit 0, backlog 10, "
        "pool 10 of 10, rows 0"
    )
    assert lines[-1].startswith("  receiver batch 17: announced 35, consumed 40, exclusive 2")
    assert "batch 15" in lines[1]
    text = "consumed_within_sent: batch 17, channel 0->0: consumed <= sent as the receiver saw it"
    assert str(found).startswith(text)


def test_a_violation_cannot_be_changed(ledgers: Any) -> None:
    found = Violation("credit", 1, 2, 3, "text")
    with pytest.raises(AttributeError):
        found.batch_id = 2  # type: ignore[misc]
    assert found == Violation("credit", 1, 2, 3, "text", "")
    assert str(found) == "credit: batch 1, channel 2->3: text"


def test_the_package_exports_it() -> None:
    assert flowcontrol.audit is audit
    assert flowcontrol.Violation is Violation


def test_what_is_no_ledger_is_refused(tmp_path: Any) -> None:
    table = jobs.table([]).drop_columns(["credit", "task_state"])
    with pytest.raises(LedgerError, match="no column credit, task_state"):
        audit(table)
    with pytest.raises(LedgerError, match="no Delta table"):
        audit(tmp_path)
    with pytest.raises(LedgerError, match="no column side"):
        audit(pa.table({"a": [1]}))


def test_a_ledger_whose_cursors_count_records_is_refused() -> None:
    """Its figures are no messages: the claims would name faults that are none."""
    made = jobs.job(
        [jobs.source(30), jobs.sink(10)],
        [("source", "sink", "forward")],
        system={"transport": {"name": "blocking_queue", "slots": 4}},
    )
    table = jobs.table(jobs.ledger_rows(jobs.run(made), "source->sink"))
    with pytest.raises(LedgerError, match="the table is the ledger of a transport without credits"):
        audit(table)


# ---------------------------------------------------------------- nothing goes unnoticed

PINNED = {
    "sender": ("released", "sent", "credit", "backlog", "pool_used", "rows"),
    "receiver": ("announced", "consumed", "exclusive", "floating_held", "pool_used", "rows"),
}
"""Figures that only one value fits. Of ``written`` and ``pool_size`` there is only a limit."""


@given(data=st.data())
def test_no_figure_can_be_another_unnoticed(ledgers: Any, data: Any) -> None:
    name = data.draw(st.sampled_from(sorted(COUNTS)))
    rows = copied(ledgers[name])
    row = data.draw(st.sampled_from(rows))
    column = data.draw(st.sampled_from(PINNED[row["side"]]))
    wrong = data.draw(st.integers(-20, 20).filter(bool))
    row[column] += wrong
    found = audit(jobs.table(rows))
    assert found is not None
    assert row["batch_id"] <= found.batch_id <= row["batch_id"] + 1, (row["side"], column, wrong)


@pytest.mark.parametrize("side", ["sender", "receiver"])
def test_the_state_agrees_with_the_columns(ledgers: Any, side: str) -> None:
    """What a run resumes from is what was audited."""
    good = ledgers["single", "source->sink"]
    state = json.loads(at(good, side, 16)["channel_state"])
    columns = ("initial", "consumed", "announced", "processed")
    for name in {"sender": ("sent", "announced"), "receiver": columns}[side]:
        rows, changed = copied(good), json.loads(json.dumps(state))
        changed["channel"][name] += 1
        at(rows, side, 16)["channel_state"] = json.dumps(changed)
        assert place(audit(jobs.table(rows))) == (f"{side}_state", 16, 0, 0)
