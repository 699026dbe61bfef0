"""Tables of a run that are not what it left: another run's commits, files gone or torn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flowcontrol.errors import DamagedError
from flowcontrol.ledger import commit as commits
from flowcontrol.ledger.exchange import ExchangeView
from flowcontrol.ledger.ledger import Ledger, LedgerView
from flowcontrol.records import LEDGER

ROW: dict[str, Any] = dict.fromkeys(LEDGER.names) | {"sender": 0, "receiver": 0}
REMEDY = r"Put it back as it was .* --overwrite"


def ledger_of(path: Path, side: str = "sender", run_id: str = "run", batches: int = 3) -> Ledger:
    """Write some batches of a side."""
    ledger = Ledger(path, side, run_id)
    for number in range(batches):
        ledger.commit(number, [ROW])
    return ledger


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
