"""Trims, checkpoints, restarts and batches of several files, in any order: no row is lost.

The model is a list of numbers a channel. Three queries share a receiver's name, a channel each, so
that one may lag behind another and hold files back.
"""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path

from deltalake import DeltaTable
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from modules import load

IS_LONG = settings.default is not None and settings.default.max_examples >= 100
CHANNELS = 3
TURNS = 12
"""Steps of a sender in which it writes a batch, if it is not blocked."""

HARD = "a fresh reader met a message of which some files, not all, had been trimmed"

FILES = st.lists(
    st.lists(st.sampled_from([0, 0, 1, 2]), min_size=1, max_size=4), min_size=1, max_size=3
)
SPREAD = st.lists(
    st.lists(st.sampled_from([1, 2]), max_size=3).map(lambda rows: [0, *rows]),
    min_size=2,
    max_size=3,
)
"""Files over which a message of channel 0 is spread; the others are in some of them."""

met: dict[str, int] = {}


class LogMachine(RuleBasedStateMachine):
    """A link's life, as its two ends see it."""

    def __init__(self) -> None:
        super().__init__()
        dry = load("tests/link/dry.py")
        self._folder = tempfile.TemporaryDirectory()
        self.rows_of = dry.source_rows
        self.pipeline = dry.Pipeline(
            Path(self._folder.name) / "link", channels=CHANNELS, floating_buffers=12
        )
        self.sender = self.pipeline.sender("a")
        self.readers = [self.pipeline.receiver("main", str(c)) for c in range(CHANNELS)]
        self.sent: list[list[int]] = [[] for _ in range(CHANNELS)]
        self.messages: dict[tuple[int, int], set[str]] = {}
        self.count = 0

    @property
    def _exchange(self) -> str:
        return str(self.pipeline.storage.child("exchange"))

    @precondition(lambda self: self.sender.done + 1 == len(self.sender.batches))
    @rule(files=FILES, size=st.sampled_from([10, 10, 300]))
    def send(self, files: list[list[int]], size: int) -> None:
        """Write a source batch as several tasks do."""
        channels = [channel for own in files for channel in own]
        self.sender.batches.append(self.rows_of("a", self.count, channels, size))
        self.sender.cuts = [len(own) for own in files]
        for number, channel in enumerate(channels, self.count):
            self.sent[channel].append(number)
        self.count += len(channels)
        self.go_on()

    @rule()
    def go_on(self) -> None:
        """Let the sender write, release and trim."""
        for _ in range(TURNS):
            self.sender.advance()
            self._learn()

    def _learn(self) -> None:
        """Note which files each message is in."""
        if self.sender.sender is not None:
            for (_, channel), log in self.sender.sender.files.log.channels.items():
                for number, message in enumerate(log.messages, log.first):
                    paths = {extent.path for extent in message.extents}
                    self.messages.setdefault((channel, number), set()).update(paths)

    @rule(channel=st.integers(0, CHANNELS - 1), batches=st.integers(1, 3))
    def read(self, channel: int, batches: int) -> None:
        """Let a query read its channel: exactly what was sent, from the first row on."""
        reader = self.readers[channel]
        if reader.reader is None:
            self._look_at_log()
        for _ in range(batches):
            reader.advance()
        found = reader.rows.column("number").to_pylist()
        assert found == self.sent[channel][: len(found)]

    def _look_at_log(self) -> None:
        """Say whether a reader that starts now meets the hard case."""
        if not DeltaTable.is_deltatable(self._exchange):
            return
        table = DeltaTable(self._exchange)
        if not Path(self._exchange, "_delta_log", "_last_checkpoint").exists():
            return
        there = {path.removeprefix(f"{self._exchange}/") for path in table.file_uris()}
        if any(paths & there and paths - there for paths in self.messages.values()):
            met[HARD] = met.get(HARD, 0) + 1

    @precondition(lambda self: DeltaTable.is_deltatable(self._exchange))
    @rule(is_cleaned=st.booleans())
    def checkpoint(self, is_cleaned: bool) -> None:
        """Write a checkpoint; who starts now does not see the commits before it."""
        table = DeltaTable(self._exchange)
        table.create_checkpoint()
        if is_cleaned:
            table.cleanup_metadata()

    @initialize(files=SPREAD, lagging=st.integers(1, CHANNELS - 1), more=FILES)
    def begin(self, files: list[list[int]], lagging: int, more: list[list[int]]) -> None:
        """Begin every life with one that lags."""
        self.lag(files, lagging, more, is_sudden=True)

    @precondition(lambda self: self.sender.done + 1 == len(self.sender.batches))
    @rule(files=SPREAD, lagging=st.integers(1, CHANNELS - 1), more=FILES, is_sudden=st.booleans())
    def lag(
        self, files: list[list[int]], lagging: int, more: list[list[int]], is_sudden: bool
    ) -> None:
        """Let one query fall behind while batches come and what others consumed is trimmed."""
        ahead = [channel for channel in range(CHANNELS) if channel != lagging]
        self.send(files, 10)
        for channel in ahead:
            self.read(channel, 2)
        for _ in range(2):  # one says what is trimmed, the next one trims it
            self.go_on()
            if self.sender.done + 1 == len(self.sender.batches):
                self.send(more, 10)
        for channel in ahead if is_sudden else ():
            self.restart_reader(channel, is_checkpointed=channel == ahead[0])
            self.read(channel, 1)

    @rule(channel=st.integers(0, CHANNELS - 1), is_checkpointed=st.booleans())
    def restart_reader(self, channel: int, is_checkpointed: bool) -> None:
        """Kill a query, after a checkpoint perhaps; it begins again when it reads next."""
        if is_checkpointed and DeltaTable.is_deltatable(self._exchange):
            self.checkpoint(is_cleaned=False)
        self.readers[channel].kill()

    @rule()
    def restart_sender(self) -> None:
        """Kill the upstream query; it begins again when it goes on."""
        self.sender.kill()

    def teardown(self) -> None:
        """Whatever happened: all that was sent arrives, once and in order."""
        try:
            self.pipeline.drain()
            for reader, sent in zip(self.readers, self.sent, strict=True):
                assert reader.rows.column("number").to_pylist() == sent
        finally:
            self.pipeline.close()
            self._folder.cleanup()


def test_no_row_is_lost_whatever_is_trimmed_checkpointed_or_restarted(dry):
    importlib.import_module("hypothesis.stateful").run_state_machine_as_test(
        LogMachine,
        settings=settings(
            max_examples=max(4, settings.default.max_examples // 8),
            stateful_step_count=15 if IS_LONG else 9,
        ),
    )
    print(met)
    assert met.get(HARD), f"never met: {HARD}"
