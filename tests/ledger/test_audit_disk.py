"""Audits of Delta tables: one ledger, a link with its exchange log, and a whole run."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flowcontrol.errors import LedgerError
from flowcontrol.ledger.audit import audit, audit_run
from flowcontrol.ledger.exchange import Exchange, PackedFile
from flowcontrol.ledger.ledger import Ledger, read_history
from flowcontrol.records import LEDGER

Rows = list[dict[str, Any]]

BATCHES = 70
"""More than a side leaves before it compacts its files."""

SCHEMA = pa.schema([("number", pa.int64())])


def write_ledger(path: Path, rows: Rows) -> None:
    """Commit rows as the two sides do, in turn."""
    sides = {side: Ledger(path, side, "run") for side in ("sender", "receiver")}
    for batch in range(1 + max(row["batch_id"] for row in rows)):
        for side, ledger in sides.items():
            own = [r for r in rows if (r["side"], r["batch_id"]) == (side, batch)]
            assert ledger.commit(batch, own)


def write_exchange(path: Path, rows: Rows) -> None:
    """Commit a file for each sender and batch that routed something, trimming as a sender does."""
    exchange = Exchange(path, SCHEMA, "run")
    routed: dict[tuple[int, int], int] = {}
    taken: dict[int, dict[tuple[int, int], int]] = {-2: {}, -1: {}}
    for batch in range(1 + max(row["batch_id"] for row in rows)):
        now = [row for row in rows if row["batch_id"] == batch]
        files = [
            pack(path, batch, sender, [r for r in now if r["sender"] == sender], routed)
            for sender in sorted({row["sender"] for row in now})
        ]
        taken[batch] = dict(taken[batch - 1])
        for row in now:
            if row["side"] == "receiver":
                channel = (row["sender"], row["receiver"])
                taken[batch][channel] = taken[batch].get(channel, 0) + row["rows"]
        exchange.commit(
            batch,
            [file for file in files if file is not None],
            partial(taken.__getitem__, batch - 2),
        )


def pack(
    path: Path, batch: int, sender: int, rows: Rows, routed: dict[tuple[int, int], int]
) -> PackedFile | None:
    """Write the records that a sender routed in a batch to one file, as its writer task does."""
    index, total = [], 0
    for row in rows:
        if row["side"] == "sender" and row["rows"] > 0:
            channel = (sender, row["receiver"])
            index.append((row["receiver"], routed.get(channel, 0), total, row["rows"]))
            routed[channel] = routed.get(channel, 0) + row["rows"]
            total += row["rows"]
    if not index:
        return None
    name = f"batch_id={batch}/sender={sender}/file.parquet"
    (path / name).parent.mkdir(parents=True)
    pq.write_table(pa.table({"number": range(total)}, schema=SCHEMA), path / name)
    return PackedFile(name, sender, (path / name).stat().st_size, total, tuple(index))


@pytest.fixture(scope="module")
def rows(jobs: ModuleType) -> Rows:
    """A ledger with two senders and two receivers, none of them to be changed."""
    made: Callable[[], Any] = jobs.two_by_two
    longer = jobs.job(
        [
            jobs.source(500, parallelism=2, placement=[0, 1]),
            jobs.sink([400, 60], parallelism=2, placement=[2, 3]),
        ],
        [("source", "sink", "rebalance")],
        {jobs.QUOTA: 3},
        cluster={"task_managers": 4},
        duration_s=BATCHES / 10,
    )
    assert longer.sizes == made().sizes
    return jobs.ledger_rows(jobs.run(longer))


@pytest.fixture(scope="module")
def link(rows: Rows, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a link that keeps every rule; not to be changed."""
    folder = tmp_path_factory.mktemp("link")
    write_ledger(folder / "ledger", rows)
    write_exchange(folder / "exchange", rows)
    return folder


def test_a_good_link_passes(link: Path, rows: Rows) -> None:
    assert read_history(link / "ledger").num_rows == len(rows) == BATCHES * 2 * 4
    assert len(list((link / "ledger").glob("*.parquet"))) < BATCHES
    assert audit(link / "ledger") is None
    assert audit(str(link / "ledger"), str(link / "exchange")) is None
    assert 0 < len(list((link / "exchange").rglob("file.parquet"))) < 2 * BATCHES


def test_a_table_and_its_rows_are_audited_alike(rows: Rows, tmp_path: Path) -> None:
    spoilt = [dict(row) for row in rows if row["batch_id"] < 6]
    [row] = [r for r in spoilt if (r["side"], r["batch_id"]) == ("receiver", 4)][2:3]
    row["consumed"] += 100
    write_ledger(tmp_path / "ledger", spoilt)
    found = audit(tmp_path / "ledger")
    assert found is not None
    assert found == audit(pa.Table.from_pylist(spoilt, schema=LEDGER.arrow_schema()))
    place = (found.invariant, found.batch_id, found.sender, found.receiver)
    assert place == ("consumed_within_sent", 4, row["sender"], row["receiver"])


# ---------------------------------------------------------------- the exchange log


def spoilt_link(tmp_path: Path, rows: Rows, spoil: Callable[[Rows], Rows]) -> Any:
    """Audit a good ledger with an exchange log that was written from other rows."""
    write_ledger(tmp_path / "ledger", rows)
    write_exchange(tmp_path / "exchange", spoil([dict(row) for row in rows]))
    return audit(tmp_path / "ledger", tmp_path / "exchange")


def test_rows_that_never_reached_the_log_are_missed(rows: Rows, tmp_path: Path) -> None:
    def without_the_last(changed: Rows) -> Rows:
        last = max(row["batch_id"] for row in changed)
        for row in changed:
            if (row["side"], row["batch_id"], row["sender"]) == ("sender", last, 1):
                row["rows"] = 0
        return changed

    short = [row for row in rows if row["batch_id"] < 8]
    found = spoilt_link(tmp_path, short, without_the_last)
    assert (found.invariant, found.batch_id, found.sender) == ("exchange", 7, 1)
    assert "holds no records" in found.message
    assert audit(tmp_path / "ledger") is None


def test_a_file_that_is_gone_is_missed(rows: Rows, tmp_path: Path) -> None:
    short = [row for row in rows if row["batch_id"] < 8]
    assert spoilt_link(tmp_path, short, lambda same: same) is None
    files = sorted((tmp_path / "exchange").rglob("sender=0/file.parquet"))
    assert len(files) > 1
    files[-1].unlink()
    found = audit(tmp_path / "ledger", tmp_path / "exchange")
    assert found is not None
    assert (found.invariant, found.sender) == ("exchange", 0)
    assert f"{files[-1]} is named in the log, but is not there" in found.message


def test_an_exchange_log_that_does_not_exist(link: Path, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="no Delta table"):
        audit(link / "ledger", tmp_path)


# ---------------------------------------------------------------- a whole run


def make_run(folder: Path, jobs: ModuleType, spoil: bool) -> None:
    """Write a run of three stages whose second link is perhaps spoilt; stage names have dashes."""
    made = jobs.job(
        [
            {"name": "a-b", "emit_rate": 300},
            {"name": "c", "service_rate": 200},
            {"name": "d-e", "service_rate": 100},
        ],
        [("a-b", "c", "forward"), ("c", "d-e", "forward")],
        duration_s=1,
    )
    rounds = jobs.run(made)
    for edge in made.links:
        rows = jobs.ledger_rows(rounds, edge.name)
        if spoil and edge.name == "c->d-e":
            rows[8]["rows"] += 1000
            rows[8]["channel_state"] = rows[9]["channel_state"] = "{}"
        write_ledger(folder / "links" / edge.folder / "ledger", rows)
    text = json.dumps({"scenario": made.scenario.canonical(), "run_id": "x", "finished": True})
    (folder / "run.json").write_text(text)


def test_a_good_run_passes(jobs: ModuleType, tmp_path: Path) -> None:
    make_run(tmp_path, jobs, spoil=False)
    assert audit_run(tmp_path) is None
    assert audit_run(str(tmp_path)) is None
    assert audit(tmp_path) is None  # the whole run, by its folder


@pytest.mark.parametrize("run_file", [None, "", "{}", '{"scenario": {"edges": 3}}'])
def test_the_edge_is_named(jobs: ModuleType, tmp_path: Path, run_file: str | None) -> None:
    make_run(tmp_path, jobs, spoil=True)
    if run_file is not None:
        (tmp_path / "run.json").write_text(run_file)
    found = audit_run(tmp_path)
    assert found is not None
    assert (found.invariant, found.batch_id, found.sender, found.receiver) == ("row", 4, 0, 0)
    name = "c->d-e" if run_file is None else "c-d-e"
    assert found.edge == name
    assert str(found).startswith(f"row: batch 4, channel {name} 0->0: ")


def test_the_exchange_logs_of_a_run_are_looked_at(
    jobs: ModuleType, rows: Rows, tmp_path: Path
) -> None:
    short = [row for row in rows if row["batch_id"] < 4]
    folder = tmp_path / "links" / "source-sink"
    assert spoilt_link(folder, short, lambda same: same) is None
    assert audit_run(tmp_path) is None
    for file in (folder / "exchange").rglob("file.parquet"):
        file.unlink()
    found = audit_run(tmp_path)
    assert found is not None
    assert (found.invariant, found.edge) == ("exchange", "source-sink")


def test_a_folder_without_links_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="holds no links"):
        audit_run(tmp_path)
