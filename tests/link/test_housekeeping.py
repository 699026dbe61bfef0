"""A long life in small batches: time, files and reading stay what they were.

``FLOWCONTROL_ROUNDS`` says how many rounds; a day of ten batches a second is past what a test can
run, and what grows shows in far fewer.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from statistics import median

import pytest

from flowcontrol.ledger import commit as commits
from flowcontrol.ledger.link_ledger import LinkLedgerView
from flowcontrol.ledger.link_log import LinkLog

ROUNDS = int(os.environ.get("FLOWCONTROL_ROUNDS", "96"))
LOOKS = 48
"""Looks at the folder in a run, evenly spread."""

FILES = 1000
"""Most files of a link with a sender and a receiver: of each member up to 2 x 64 of each of its
three levels, both tables' commits since the checkpoint before last, a few files of rows."""


class Look:
    """What a newcomer finds, and how long it takes to read it.

    Times are of the processor: a machine that is busy with something else is no slower for that.
    """

    def __init__(self, pipeline, took_s: float) -> None:
        root = Path(str(pipeline.storage))
        self.took_s = took_s
        paths = [path for path in root.rglob("*") if path.is_file()]
        self.files, self.nbytes = len(paths), sum(path.stat().st_size for path in paths)
        self.rows = len(list((root / "exchange").rglob("*.parquet")))
        began = time.process_time()
        view = LinkLedgerView(pipeline.storage.child("ledger"))
        view.refresh()
        view.last_rows("receiver/main/0-1")
        LinkLog(pipeline.storage.child("exchange")).refresh()
        self.read_s = time.process_time() - began
        log = pipeline.senders["a"].sender.files.log
        self.messages = sum(len(channel.messages) for channel in log.channels.values())


def live(pipeline, dry, rounds: int) -> list[Look]:
    """Send and receive a batch of two rows a round; return what is seen on the way."""
    sender, receiver = pipeline.senders["a"], pipeline.receivers[0]
    looks: list[Look] = []
    times: list[float] = []
    for number in range(rounds):
        sender.batches.append(dry.source_rows("a", 2 * number, [0, 1], 20))
        began = time.process_time()
        while sender.done < number or receiver.sunk < 2 * (number + 1):
            sender.advance()
            receiver.advance()
        times.append(time.process_time() - began)
        sender.batches[number] = None  # the test's own memory
        if (number + 1) % (rounds // LOOKS) == 0:
            looks.append(Look(pipeline, median(times)))
            times = []
    return looks


@pytest.fixture
def quick_logs(monkeypatch):
    """Keep no log behind a checkpoint, so that a run of minutes shows what a day does."""
    monkeypatch.setitem(
        commits.CONFIGURATION, "delta.logRetentionDuration", "interval 0 milliseconds"
    )


@pytest.mark.slow
def test_a_long_life_in_small_batches_costs_the_same_all_along(make, dry, verify, quick_logs):
    pipeline = make(floating_buffers=8)
    pipeline.sender("a")
    pipeline.receiver("main", is_forgetful=True)
    looks = live(pipeline, dry, ROUNDS)
    quarter = LOOKS // 4
    second, last = looks[quarter : 2 * quarter], looks[-quarter:]
    figures = {
        name: (median(getattr(look, name) for look in second),
               median(getattr(look, name) for look in last),
               max(getattr(look, name) for look in looks))
        for name in ("took_s", "read_s", "files", "rows", "nbytes", "messages")
    }  # fmt: skip
    print(json.dumps({"rounds": ROUNDS, **figures}), file=sys.stderr)
    for name in ("took_s", "read_s"):
        early, late, _ = figures[name]
        assert late / early < 1.5, (name, figures)
    assert figures["files"][2] <= FILES, figures
    assert figures["rows"][2] <= 10, figures
    assert figures["messages"][2] <= 40, figures
    check = verify.LedgerCheck(pipeline.settings)
    assert check.check(verify.ledger_rows(pipeline.storage)) >= 2 * ROUNDS
