"""A disk that fails: every write is refused by name, and housekeeping stops no query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from flowcontrol.errors import LinkError
from flowcontrol.ledger import commit as listing
from flowcontrol.ledger.commit import CHECKPOINT_EVERY, Writer
from flowcontrol.ledger.link_ledger import LinkLedger, create_ledger
from flowcontrol.ledger.link_log import LinkFiles, create_log
from flowcontrol.ledger.storage import Storage
from flowcontrol.records import LEDGER


def full(*_: Any, **__: Any) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("side", ["ledger", "exchange"])
def test_a_claim_on_a_full_disk_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    storage = Storage(tmp_path / side)
    if side == "ledger":
        create_ledger(storage)
        own: Any = LinkLedger(storage, "sender/a")
    else:
        create_log(storage, LEDGER.arrow_schema())
        own = LinkFiles(storage, "sender/a", 0, 1024)
    monkeypatch.setattr(Writer, "_transact", full)
    with pytest.raises(LinkError, match=f"{side}.*claim of sender.*No space left.*free space"):
        own.claim()


@pytest.mark.parametrize("error", [OSError(28, "full"), DeltaError("read-only")])
def test_a_checkpoint_that_cannot_be_written_fails_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """What was committed counts; to raise would have its writer believe that it does not."""
    storage = Storage(tmp_path)
    create_ledger(storage)
    tried = []

    def fails(writer: Writer) -> None:
        tried.append(1)
        raise error

    writer = Writer(storage, "sender/a")
    with monkeypatch.context() as patched:
        patched.setattr(Writer, "checkpoint", fails)
        assert all(writer.commit(number, []) for number in range(CHECKPOINT_EVERY + 2))
    assert len(tried) == 3
    writer.commit(CHECKPOINT_EVERY + 2, [])
    assert storage.exists("_delta_log/_last_checkpoint")


def test_a_disk_that_is_full_for_a_checkpoint_fails_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is the log damaged, as delta-rs's message would have it."""
    storage, tried = Storage(tmp_path), []
    create_ledger(storage)

    def fails(_: DeltaTable) -> None:
        tried.append(1)
        raise DeltaError("Unable to copy data to file: No space left on device (os error 28)")

    writer = Writer(storage, "sender/a")
    with monkeypatch.context() as patched:
        patched.setattr(listing, "WAITS_S", ())
        patched.setattr(DeltaTable, "create_checkpoint", fails)
        assert all(writer.commit(number, []) for number in range(CHECKPOINT_EVERY + 2))
    assert len(tried) == 3
    assert writer.commit(CHECKPOINT_EVERY + 2, [])
    assert storage.exists("_delta_log/_last_checkpoint")


def test_a_file_that_goes_while_files_are_listed_is_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logs are cleaned, and files trimmed, by other processes."""
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    stat = Path.stat

    def goes(path: Path, **named: Any) -> Any:
        found = stat(path, **named)
        if path.name == "one":
            path.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(Path, "stat", goes)
    assert [name for name, _ in Storage(tmp_path).files()] == ["two"]
