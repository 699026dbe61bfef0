"""Tables of a run that are not what it left: another run's commits, files gone or torn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowcontrol.errors import DamagedError, LedgerError
from flowcontrol.ledger import commit as commits
from flowcontrol.ledger.exchange import ExchangeView
from flowcontrol.ledger.ledger import (
    COMPACT_EVERY,
    NEIGHBOUR_MAY_READ,
    Ledger,
    LedgerView,
    read_history,
)
from flowcontrol.records import LEDGER

ROW: dict[str, Any] = dict.fromkeys(LEDGER.names) | {"sender": 0, "receiver": 0}
REMEDY = r"Put it back as it was .* --overwrite"


def ledger_of(path: Path, side: str = "sender", run_id: str = "run", batches: int = 3) -> Ledger:
    """Write some batches of a side."""
    ledger = Ledger(path, side, run_id)
    for number in range(batches):
        ledger.commit(number, [ROW])
    return ledger


def only_file(path: Path, pattern: str) -> Path:
    """Return the one file of a table whose name is of a pattern."""
    [found] = path.glob(pattern)
    return found


def look(path: Path, run_id: str) -> LedgerView:
    """Return what a run finds in a ledger."""
    view = LedgerView(path, run_id)
    view.refresh()
    return view


@pytest.mark.parametrize("every", [1000, 2], ids=["a commit", "a checkpoint"])
def test_what_another_run_has_committed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    """Its rows were read as this run's, and the run went on with them."""
    monkeypatch.setattr(commits, "CHECKPOINT_EVERY", every)
    ledger_of(tmp_path)
    assert look(tmp_path, "run").last_batch("sender") == 2
    ledger_of(tmp_path, "receiver", "other")
    with pytest.raises(DamagedError, match=rf"'other/receiver'.* is 'run'\. {REMEDY}") as caught:
        look(tmp_path, "run")
    assert f"{tmp_path}/_delta_log/" in str(caught.value)
    with pytest.raises(DamagedError, match="another run"):
        ExchangeView(tmp_path, "run").refresh()


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "gone": (Path.unlink, "is missing although the log needs it"),
    "torn": (lambda file: file.write_bytes(file.read_bytes()[:-9]), "is damaged: "),
    "empty": (lambda file: file.write_bytes(b""), "is damaged: "),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, how: str) -> None:
    ledger_of(tmp_path)
    view, file = look(tmp_path, "run"), only_file(tmp_path, "sender-00000001-*.parquet")
    damage, text = DAMAGE[how]
    damage(file)
    for read in (lambda: view.rows("sender", 1), lambda: read_history(tmp_path)):
        with pytest.raises(DamagedError, match=rf"{text}.*\. {REMEDY}") as caught:
            read()
        assert str(file) in str(caught.value)
        assert "\n" not in str(caught.value)  # the last line of a failure is what is shown


def test_a_packed_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    ledger_of(tmp_path, batches=COMPACT_EVERY + NEIGHBOUR_MAY_READ)
    view, file = look(tmp_path, "run"), only_file(tmp_path, "sender-*-*-*.parquet")
    assert view.rows("sender", 0)
    file.unlink()
    with pytest.raises(DamagedError, match=f"{file.name} is missing.*{REMEDY}"):
        view.rows("sender", 0)


def test_a_batch_that_the_ledger_has_not_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """A query's checkpoint is ahead of the ledger: one of the two was put back."""
    ledger_of(tmp_path)
    view = look(tmp_path, "run")
    with pytest.raises(LedgerError, match=rf"for batch 5, the last one is 2: .*{REMEDY}"):
        view.rows("sender", 5)


def test_records_that_the_exchange_log_has_not_are_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=f"0->1 holds no records 3 to 5: .*{REMEDY}"):
        ExchangeView(tmp_path).locate(0, 1, 3, 2)
