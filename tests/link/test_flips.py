"""A flipped bit anywhere in a link's folder is refused, or changes no row."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from flowcontrol.errors import LinkError
from flowcontrol.ledger.link_ledger import LinkLedgerView
from flowcontrol.ledger.link_log import LinkLog
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.packing import CHANNEL, PackRows
from flowcontrol.link.sealed_files import FileRows, LinkPartition, read_rows

SEED = 20261122
STEP = 1 if "FLOWCONTROL_LONG" in os.environ else 3
"""The quick form flips a bit of each third place."""
EACH = 2
"""Flips of each kind of file in whole pipelines."""

KINDS = {
    "rows": "exchange/link_sender=0/*.parquet",
    "exchange commit": "exchange/_delta_log/*.json",
    "exchange checkpoint": "exchange/_delta_log/*.checkpoint.parquet",
    "exchange pointer": "exchange/_delta_log/_last_checkpoint",
    "ledger rows": "ledger/*.parquet",
    "ledger commit": "ledger/_delta_log/*.json",
    "ledger checkpoint": "ledger/_delta_log/*.checkpoint.parquet",
    "ledger pointer": "ledger/_delta_log/_last_checkpoint",
    "settings": "link.json",
}


def flip(path: Path, place: int, bit: int) -> bytes:
    """Flip a bit of a file; return what it held."""
    content = path.read_bytes()
    changed = bytearray(content)
    changed[place] ^= 1 << bit
    path.write_bytes(changed)
    return content


def batches(dry, first, count):
    return [dry.source_rows("a", n * 20, [i % 2 for i in range(20)], 100)
            for n in range(first, first + count)]  # fmt: skip


# ---------------------------------------------------------------------- every byte of a file


def test_no_bit_of_a_row_file_can_change_a_row(tmp_path, dry):
    """Magic, page headers, pages, footer: a bit in each byte, or in each third."""
    random.seed(SEED)
    storage, table = Storage(tmp_path), batches(dry, 0, 1)[0]
    rows = table.append_column(CHANNEL, table.column("channel").cast("int32"))
    report = PackRows(storage, 0, 1024).write(rows)
    extent = FileRows(report["path"], 0, report["rows"], report["bytes"], tuple(report["footer"]))
    part, path = LinkPartition(0, 20, [extent]), tmp_path / report["path"]
    expected = [batch.to_pydict() for batch in read_rows(storage, part, table.schema)]
    size, refused = path.stat().st_size, 0
    places = range(random.randrange(STEP), size, STEP)
    for place in places:
        content = flip(path, place, random.randrange(8))
        try:
            found = [batch.to_pydict() for batch in read_rows(storage, part, table.schema)]
            assert found == expected, place
        except LinkError:
            refused += 1
        path.write_bytes(content)
    assert size > 2000
    assert refused == len(places)


@pytest.fixture
def link(make, dry):
    """A link with checkpoints of both logs, read in part, whose queries are killed."""
    pipeline = make(floating_buffers=8)
    query = pipeline.sender("a", batches(dry, 0, 2))
    receiver = pipeline.receiver()
    pipeline.drain()
    for table in ("exchange", "ledger"):
        DeltaTable(str(pipeline.storage.child(table))).create_checkpoint()
    query.batches += batches(dry, 2, 1)
    for _ in range(10):
        query.advance()
    receiver.advance()
    query.batches += batches(dry, 3, 1)
    for _ in range(10):
        query.advance()
    for one in pipeline.queries:
        one.kill()
    return pipeline


def positions(log: LinkLog) -> dict[object, object]:
    return {place: (own.end, own.records, own.messages[-1:]) for place, own in log.channels.items()}


def test_no_bit_of_a_commit_can_change_what_is_believed(link):
    """Commits of both logs and what checkpoints say, as followers read them."""
    random.seed(SEED)
    root = Path(str(link.storage))

    def look() -> object:
        log, view = LinkLog(link.storage.child("exchange")), None
        log.refresh()
        view = LinkLedgerView(link.storage.child("ledger"))
        view.refresh()
        rows = {name: json.dumps(view.last_rows(name), default=str) for name in view.members}
        return positions(log), view.members, rows

    expected, refused = look(), 0
    last = [max((root / t / "_delta_log").glob("0*.json")) for t in ("exchange", "ledger")]
    files = [*last, *(root / "exchange/_delta_log").glob("*.checkpoint.parquet")]
    for path in files:
        for place in range(0, path.stat().st_size, STEP * (37 if path.suffix == ".parquet" else 7)):
            content = flip(path, place, random.randrange(8))
            try:
                assert look() == expected, (path.name, place)
            except LinkError:
                refused += 1
            path.write_bytes(content)
    assert refused > 200 // STEP


# ---------------------------------------------------------------------- whole pipelines


@pytest.mark.parametrize("kind", KINDS)
def test_a_pipeline_stops_at_a_flipped_bit_or_delivers_every_row(link, dry, verify, tmp_path, kind):
    chance = random.Random(f"{SEED} {kind}")
    paths = sorted(Path(str(link.storage)).glob(KINDS[kind]))
    assert paths, f"no file of this kind: {kind}"
    outcomes = [run_flipped(link, dry, verify, tmp_path / str(n), paths, chance)
                for n in range(EACH)]  # fmt: skip
    print(kind, outcomes)
    assert kind != "rows" or "refused" in outcomes


def run_flipped(link, dry, verify, folder, paths, chance) -> str:
    """Go on with a copy of a link in which a bit is flipped."""
    root = Path(str(link.storage))
    shutil.copytree(root, folder)
    path = folder / chance.choice(paths).relative_to(root)
    place, bit = chance.randrange(path.stat().st_size), chance.randrange(8)
    flip(path, place, bit)
    where = f"{path.relative_to(folder)}, byte {place}, bit {bit}"
    old_sender, old_receiver = link.senders["a"], link.receivers[0]
    pipeline = None
    try:
        pipeline = dry.Pipeline(folder, floating_buffers=8)
        sender = pipeline.sender("a", [*old_sender.batches, *batches(dry, 4, 2)])
        sender.planned, sender.done = old_sender.planned, old_sender.done
        receiver = pipeline.receiver()
        receiver.offsets, receiver.done = list(old_receiver.offsets), old_receiver.done
        receiver.sink = dict(old_receiver.sink)
        pipeline.drain(200)
        verify.check_rows([*sender.batches], [receiver.rows])
        return "nothing changed"
    except LinkError:
        if pipeline is not None and pipeline.receivers:
            found = pipeline.receivers[0].rows
            verify.check_rows(pipeline.senders["a"].batches, [found], is_all=False)
        return "refused"
    except BaseException as error:
        raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
    finally:
        if pipeline is not None:
            pipeline.close()
