"""The verifier of the kill test finds what it is there to find."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from flowcontrol.records import LEDGER

TOTAL = 120


def sunk() -> list[dict[str, Any]]:
    """Rows as the sink has them, one batch."""
    import rows

    return [
        {"number": n, "key": rows.key_of(n), "text": rows.text_of(n), "doubled": 2 * n,
         "channel": rows.key_of(n) % 4, "batch": 0, "place": n}
        for n in range(TOTAL)
    ]  # fmt: skip


def check(folder: Path, found: list[dict[str, Any]]) -> None:
    from verifier import check_table

    write_deltalake(str(folder / "table"), pa.Table.from_pylist(found))
    check_table(folder / "table", TOTAL)


def test_a_whole_table_passes(tmp_path: Path) -> None:
    check(tmp_path, sunk())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows[:-1], "1 of 120 rows are lost"),
        (lambda rows: [*rows, {**rows[7], "batch": 1}], "1 rows are there twice: .7."),
        (lambda rows: [*rows, {**rows[7], "number": TOTAL}], "121 rows of 120"),
        (lambda rows: [*rows[:-1], {**rows[-1], "text": "other"}], "119"),
        (lambda rows: [*rows[1:], {**rows[0], "place": TOTAL}], "channel 0: 0 after"),
    ],
)
def test_a_table_that_is_wrong_is_refused(tmp_path: Path, change: Any, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check(tmp_path, change(sunk()))


def sender(number: int, written: int, released: int, channel: int = 0, **more: Any) -> Any:
    """A sender's row."""
    state = json.dumps({"records": written})
    found = {"side": "sender", "batch_id": number, "receiver": channel, "written": written,
             "released": released, "credit": 0, "backlog": 0, "pool_used": released,
             "pool_size": 6, "channel_state": state}  # fmt: skip
    return {**found, **more}


def receiver(
    number: int, announced: int, sent: int, consumed: int, held: int = 0, channel: int = 0
) -> Any:
    """A receiver's row."""
    return {"side": "receiver", "batch_id": number, "receiver": channel, "announced": announced,
            "sent": sent, "consumed": consumed, "exclusive": 1, "floating_held": held,
            "pool_used": held, "pool_size": 2,
            "rows": 0, "channel_state": json.dumps({"record": sent})}  # fmt: skip


def check_ledger(
    folder: Path, first: list[dict[str, Any]], empty: Sequence[tuple[str, int]] = ()
) -> None:
    """Check a ledger of which every row belongs to channel 0; the others stand still."""
    from verifier import LedgerCheck

    found = list(first)
    for row in first:
        still = sender(row["batch_id"], 0, 0, pool_used=row["pool_used"])
        if row["side"] == "receiver":
            still = {**receiver(row["batch_id"], 1, 0, 0), "pool_used": row["pool_used"]}
        found += [{**still, "receiver": channel} for channel in (1, 2, 3)]
    names = {"sender": "sender/a", "receiver": "receiver/b/0-3"}
    commits = [(names[row["side"]], row["batch_id"]) for row in first]
    write_deltalake(
        str(folder / "ledger"), pa.Table.from_pylist(found, schema=LEDGER.arrow_schema())
    )
    LedgerCheck(folder, [*empty, *commits]).check(3)


GOOD = [
    sender(0, 0, 0),
    receiver(0, 1, 0, 0),
    sender(1, 3, 3),
    receiver(1, 3, 3, 0, 2),
    receiver(2, 4, 3, 3, 0),
]


def test_a_ledger_within_its_limits_passes(tmp_path: Path) -> None:
    check_ledger(tmp_path, GOOD)


def test_a_receiver_takes_its_place_without_a_row(tmp_path: Path) -> None:
    later = [{**row, "batch_id": row["batch_id"] + (row["side"] == "receiver")} for row in GOOD]
    check_ledger(tmp_path, later, [("receiver/b/0-3", 0)])


def test_a_sender_has_a_row_of_every_commit(tmp_path: Path) -> None:
    later = [{**row, "batch_id": row["batch_id"] + (row["side"] == "sender")} for row in GOOD]
    with pytest.raises(AssertionError, match=r"\('sender/a', 0\)"):
        check_ledger(tmp_path, later, [("sender/a", 0)])


@pytest.mark.parametrize(
    ("place", "row", "said"),
    [
        (3, receiver(1, 2, 3, 0, 2), "sent 3 > announced 2"),  # sent without credit
        (3, receiver(1, 4, 3, 0, 2), "credit 4 > buffers 3"),  # more than its buffers
        (
            3,
            receiver(1, 4, 3, 0, 3),
            "pool_used 3 > pool_size 2",
        ),  # more floating buffers than there are
        (3, receiver(1, 3, 3, 4, 2), "channel 0: .4, 3, 3, 3."),  # consumed what was not sent
        (4, receiver(2, 2, 2, 1, 1), "before 3 > announced 2"),
        (2, sender(1, 3, 4), "channel 0: .0, 0, 4, 3."),  # released what was not written
        (2, sender(1, 2, 2), "channel 0: .0, 3, 2, 2."),  # read what was not released
        (2, sender(1, 7, 7, pool_used=6), "7 buffers in flight, 6 there are"),
        (2, sender(1, 3, 3, pool_used=7), "pool_used 7 > pool_size 6"),
        (2, sender(2, 3, 3), "sender/a: 2 after 0"),  # a commit is missing
    ],
)
def test_a_ledger_beyond_its_limits_is_refused(
    tmp_path: Path, place: int, row: Any, said: str
) -> None:
    wrong = [*GOOD[:place], row, *GOOD[place + 1 :]]
    with pytest.raises(AssertionError, match=said):
        check_ledger(tmp_path, wrong)


def test_rows_that_have_not_gone_through_are_seen(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"read \[.*\] of \["):
        check_ledger(tmp_path, [*GOOD[:3], receiver(1, 3, 2, 0, 2), receiver(2, 4, 2, 2, 1)])
