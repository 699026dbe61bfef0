"""Links without Spark: their senders and receivers are driven by hand, on a clock of the test's."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from flowcontrol.ledger.link_ledger import create_ledger
from flowcontrol.ledger.link_log import PackedRows, create_log
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.input import Cursors
from flowcontrol.link.receiver import LinkReceiver
from flowcontrol.link.sender import LinkSender
from flowcontrol.link.settings import DEFAULTS, LinkSettings

SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


class Clock:
    """What all members of a test's links read as the time."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def forward(self, seconds: float) -> None:
        self.now += seconds

    def datetime(self, zone: Any = None) -> datetime:
        return datetime.fromtimestamp(self.now, zone or UTC)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return a clock that stands until a test moves it."""
    clock = Clock()
    fake = SimpleNamespace(time=lambda: clock.now, monotonic=lambda: clock.now)
    monkeypatch.setattr("flowcontrol.ledger.commit.time", fake)
    monkeypatch.setattr("flowcontrol.link.receiver.time", fake)
    monkeypatch.setattr("flowcontrol.link.event_time.time", fake)
    monkeypatch.setattr("flowcontrol.ledger.link_ledger.time", fake)
    monkeypatch.setattr(
        "flowcontrol.ledger.link_ledger.datetime", SimpleNamespace(now=clock.datetime)
    )
    return clock


class DrySender:
    """A sender whose rows are numbers only: no file is written, though commits name some."""

    def __init__(self, link: DryLink, name: str, query: str = "query") -> None:
        self.own = LinkSender(link.storage, link.settings, name, query, reset=False)
        self.batch = -1

    def write(
        self, rows: Mapping[int, int], row_bytes: int = 100, latest_s: float | None = None
    ) -> None:
        """Write a source batch: rows per channel, and the latest event time in each."""
        self.batch += 1
        most = max(1, self.own.settings.buffer_bytes // row_bytes)
        channels = []
        for channel, count in rows.items():
            pieces = [min(most, count - done) for done in range(0, count, most)]
            channels.append((channel, [(piece, piece * row_bytes) for piece in pieces]))
        total = sum(rows.values())
        path = f"sender={self.own.index}/{uuid.uuid4().hex}.parquet"
        pieces = sum(len(own) for _, own in channels)
        latest = [] if latest_s is None else [round(1000 * latest_s)] * pieces
        file = PackedRows(path, total * row_bytes, total, channels, latest=latest)
        self.own.write(self.batch, [file])

    def step(self) -> bool:
        """Release what the receivers have made room for."""
        return self.own.step()


class DryReceiver:
    """A receiver whose batches take as long as the test says."""

    def __init__(self, link: DryLink, name: str, channels: list[int], target: float | None) -> None:
        self.own = LinkReceiver(link.storage, link.settings, name, channels, target)
        self.at: Cursors = self.own.start(reset=False)

    def take(self) -> int:
        """Ask for the next batch, as Spark does when one has ended; return its rows."""
        self.own.refresh()
        before, self.at = self.at, self.own.next(self.at)
        return sum(map(sum, self.at.values())) - sum(map(sum, before.values()))


class DryLink:
    """A link in a folder."""

    def __init__(self, path: Path, **settings: Any) -> None:
        self.path, self.storage = path, Storage(path)
        sizes = {"channels": 2, "buffer_bytes": 1000, "max_pool_bytes": None}
        chosen = {**DEFAULTS, **sizes, **settings}
        self.settings = LinkSettings(uuid.uuid4().hex[:12], **chosen, schema=SCHEMA)
        assert self.storage.create("link.json", self.settings.to_json().encode())

    def make_tables(self) -> None:
        create_log(self.storage.child("exchange"), pa.schema([("id", pa.int64())]))
        create_ledger(self.storage.child("ledger"))

    def sender(self, name: str = "events", query: str = "query") -> DrySender:
        self.make_tables()
        return DrySender(self, name, query)

    def receiver(
        self, name: str = "main", channels: list[int] | None = None, target: float | None = None
    ) -> DryReceiver:
        self.make_tables()
        own = list(range(self.settings.channels)) if channels is None else channels
        return DryReceiver(self, name, own, target)


@pytest.fixture
def make_link(tmp_path: Path, clock: Clock) -> Callable[..., DryLink]:
    """Return a function that makes a link: ``make_link("orders", channels=2)``."""

    return lambda name="orders", **settings: DryLink(tmp_path / name, **settings)


@pytest.fixture
def link(make_link: Callable[..., DryLink]) -> DryLink:
    """Return a link of two channels with two exclusive buffers each and four floating ones.

    A buffer holds ten rows of a hundred bytes.
    """
    return make_link(exclusive_buffers=2, floating_buffers=4)


@pytest.fixture
def live_link(tmp_path: Path) -> DryLink:
    """Return a link like ``link`` whose members read the real time."""
    return DryLink(tmp_path / "live", exclusive_buffers=2, floating_buffers=4)
