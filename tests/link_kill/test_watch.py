"""The watch of the kill test sees every commit, whenever it looks, and notices one that is gone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest


def commit(folder: Path, number: int) -> Path:
    path = folder / "ledger" / "_delta_log" / f"{number:020d}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"txn": {"appId": "sender/a", "version": number}}))
    return path


def test_commits_that_come_while_it_looks_are_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from watch import LedgerWatch

    watch, glob, late = LedgerWatch(tmp_path), Path.glob, [1, 2]
    commit(tmp_path, 0)

    def listing(folder: Path, pattern: str) -> Iterator[Path]:
        while late:
            commit(tmp_path, late.pop(0))
        return glob(folder, pattern)

    monkeypatch.setattr(Path, "glob", listing)
    watch.look()
    assert watch.commits == [("sender/a", number) for number in range(3)]


def test_a_commit_that_is_gone_is_noticed(tmp_path: Path) -> None:
    from watch import LedgerWatch

    for number in range(3):
        commit(tmp_path, number)
    commit(tmp_path, 1).unlink()
    with pytest.raises(AssertionError, match=r"1 is gone, there is .*00002\.json"):
        LedgerWatch(tmp_path).look()
