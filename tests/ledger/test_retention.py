"""Users' tables keep Delta's own retention; only ledgers and exchange logs are kept short."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from flowcontrol.ledger.commit import CHECKPOINT_EVERY, CONFIGURATION, Writer, create_table
from flowcontrol.ledger.exchange import OutputTable, PackedFile
from flowcontrol.ledger.ledger import create_ledger
from flowcontrol.ledger.link_ledger import create_ledger as create_link_ledger
from flowcontrol.ledger.link_log import create_log
from flowcontrol.ledger.log import NewFile
from flowcontrol.ledger.storage import Storage

NUMBERS = pa.schema([("number", pa.int64())])
DELTAS_INTERVAL = 100
"""Commits between the checkpoints that delta-rs makes where a table does not say."""


def properties(table: Path | str) -> dict[str, Any]:
    return dict(DeltaTable(str(table)).metadata().configuration)


def checkpoints(table: Path) -> list[str]:
    return sorted(path.name for path in (table / "_delta_log").glob("*.checkpoint*.parquet"))


def test_ledgers_and_logs_are_kept_short(tmp_path: Path) -> None:
    create_ledger(tmp_path / "run")
    create_link_ledger(Storage(tmp_path / "link"))
    create_log(Storage(tmp_path / "exchange"), NUMBERS)
    for name in ("run", "link", "exchange"):
        assert properties(tmp_path / name) == CONFIGURATION


def test_a_sinks_table_has_deltas_own_defaults(tmp_path: Path) -> None:
    OutputTable(tmp_path, NUMBERS, "run/sink")
    assert properties(tmp_path) == {}


def test_a_table_of_users_is_checkpointed_as_it_says_itself(tmp_path: Path) -> None:
    """However often its writer is started again: the log that a reader must follow stays short."""
    output = OutputTable(tmp_path, NUMBERS, "run/sink")
    for number in range(2 * DELTAS_INTERVAL + 10):
        if number % 7 == 0:
            output = OutputTable(tmp_path, NUMBERS, "run/sink")
        assert output.commit(number, [PackedFile(f"{number}.parquet", 0, 1, 1, ())])
    assert [int(name[:20]) + 1 for name in checkpoints(tmp_path)] == [100, 200]
    last = json.loads((tmp_path / "_delta_log" / "_last_checkpoint").read_text())
    found = DeltaTable(str(tmp_path))
    assert found.version() - last["version"] < DELTAS_INTERVAL
    assert len(found.file_uris()) == 2 * DELTAS_INTERVAL + 10
    assert found.transaction_version("run/sink") == 2 * DELTAS_INTERVAL + 9
    # Nothing of the log is cleaned away: every version can still be read.
    assert len(DeltaTable(str(tmp_path), version=3).file_uris()) == 3


@pytest.mark.parametrize(("for_users", "made"), [(True, 0), (False, 1)])
def test_only_ledgers_are_checkpointed_every_few_commits(
    tmp_path: Path, for_users: bool, made: int
) -> None:
    create_table(tmp_path, NUMBERS, "Numbers.", for_users=for_users)
    writer = Writer(tmp_path, "run/side", for_users=for_users)
    for number in range(CHECKPOINT_EVERY):
        writer.commit(number, [NewFile(f"{number}.parquet", 1, 1)])
    assert len(checkpoints(tmp_path)) == made
