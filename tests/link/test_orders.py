"""Every order of the steps of a sender that trims and of receivers that register."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

from flowcontrol.ledger.link_ledger import LinkLedgerView
from flowcontrol.ledger.link_log import LinkLog
from flowcontrol.link.members import receivers_of, senders_of
from flowcontrol.link.packing import packed_rows

IS_LONG = settings.default is not None and settings.default.max_examples >= 100
ALL = 1 << 30


class Link:
    """A link in which the next batch trims: copied anew for each order."""

    def __init__(self, pipeline, dry, folder: Path) -> None:
        self.pipeline, self.dry, self.folder = pipeline, dry, folder
        self.query = pipeline.sender("a")
        pipeline.receiver("main")
        for number in range(3):
            rows = dry.source_rows("a", 8 * number, [0, 1] * 4, 200)
            self.query.batches.append(rows)
            pipeline.drain()
        self.rows = dry.source_rows("a", 24, [0, 1] * 4, 200)
        for query in pipeline.queries:
            query.kill()
        self.trimmed, self.moved, self.senders = 0, 0, []

    def begin(self, late):
        """Put the link back, open its members, and return what they do."""
        place = Path(str(self.pipeline.storage))
        if self.folder.exists():
            shutil.rmtree(place)
            shutil.copytree(self.folder, place)
        else:
            shutil.copytree(place, self.folder)
        self.close()
        sender = self.query.open()
        files = packed_rows(self.query._pack(self.rows, sender))
        self.before = len(sender.files.log.files)
        work = {"sender": lambda: sender.write(3, files)}
        self.late = {name: self.dry.ReceiverQuery(self.pipeline, name) for name in late}
        for name, query in self.late.items():
            receiver = query.open()._made()
            work[name] = lambda receiver=receiver: receiver.start(reset=False)
        return work

    def close(self) -> None:
        for query in [self.query, *getattr(self, "late", {}).values()]:
            query.kill()

    def check(self, order: str) -> None:
        """Whatever a receiver has still to read is in the log."""
        view = LinkLedgerView(self.pipeline.storage.child("ledger"))
        view.refresh()
        log = LinkLog(self.pipeline.storage.child("exchange"))
        log.refresh()
        [sender] = senders_of(view)
        names = {receiver.group for receiver in receivers_of(view)}
        assert names == {"main", *self.late}, order
        for name, query in self.late.items():
            begin = query.reader._made().input.filled({})
            for channel, record in enumerate(begin["0"]):
                found = log.extents(0, channel, record, sender.records[channel])
                rows = sum(extent.rows for extent in found)
                assert rows == sender.records[channel] - record, f"{name} after {order}"
                self.moved += record > 4
        self.trimmed += len(log.files) <= self.before


@pytest.mark.parametrize(
    ("late", "most"),
    [(["one"], ALL), (["one", "two"], 2000 if IS_LONG else 8)],
    ids=["one receiver", "two receivers"],
)
def test_no_order_takes_from_a_receiver_what_it_has_to_read(
    make, dry, orders, tmp_path, monkeypatch, late, most
):
    link = Link(make(buffer_bytes=1 << 16), dry, tmp_path / "copy")
    orders.planted(monkeypatch)
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    count = orders.explore(lambda: link.begin(late), link.check, most, seed)
    print(f"{count} orders, {link.trimmed} of them trimmed, {link.moved} channels began later")
    link.close()
    assert count >= min(16, most)
    assert link.trimmed == count  # the hard case: in each of them files went
