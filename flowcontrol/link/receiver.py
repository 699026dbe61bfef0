"""A receiver's side of a link, on the driver: which rows the next micro-batch reads, and why.

Every decision is a commit to the ledger before Spark hears of it: the rows of the batch, and with
it everything of the batch before is consumed. So a decision that Spark never noted is found and
made again, and the ledger says of every batch what it was allowed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence

from flowcontrol.errors import FencedError, LinkError
from flowcontrol.ledger.channel_log import Extent
from flowcontrol.ledger.link_ledger import LinkLedger
from flowcontrol.ledger.link_log import LinkLog
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.beginning import (
    check_from_start,
    note_beginning,
    oldest,
    oldest_of,
    skipped_rows,
    skipped_text,
    written_of,
)
from flowcontrol.link.budget import Budget
from flowcontrol.link.extents import FileRows
from flowcontrol.link.members import (
    Sender,
    check_attached,
    check_kept,
    check_unshared,
    receiver_id,
    remove_member,
    senders_of,
)
from flowcontrol.link.reading import take_rows, unread_bytes
from flowcontrol.link.receiver_rows import cursors_of, label, receiver_row
from flowcontrol.link.schema import check_known
from flowcontrol.link.settings import LinkSettings
from flowcontrol.live import faults
from flowcontrol.protocol.free_running import LinkGate
from flowcontrol.protocol.rules import unsent

Cursors = dict[str, list[int]]
"""Records read of each of the receiver's channels, by the sender's index."""

FIRST_BYTES = 512 << 10
"""What a batch with a target may take before anything was measured: a slow sink has not yet been
seen to be slow, and sizes double from batch to batch where it is not."""

NO_TARGET: dict[str, object] = {"rates": {}, "target_batch_s": None}
"""What stands in the ledger of a receiver without a target."""

Channel = tuple[int, int]
"""Index of the sender, channel."""


class LinkReceiver:
    """One receiver of a link.

    Parameters
    ----------
    storage : Storage
        The link's folder.
    settings : LinkSettings
        The link's.
    group : str
        The receiver's name.
    channels : list of int
        Those that it reads, in order.
    target_s : float or None
        How long a batch should take.
    columns : sequence of str, optional
        Those that its query knows: rows with others are refused. By default none are.

    Attributes
    ----------
    begin, end : dict of str to list of int
        Between which the last batch that was decided stands.
    origin : dict of str to list of int
        Where the receiver began to read each sender's channels.
    """

    def __init__(
        self,
        storage: Storage,
        settings: LinkSettings,
        group: str,
        channels: list[int],
        target_s: float | None,
        columns: Sequence[str] | None = None,
    ) -> None:
        self.settings, self.group, self.channels = settings, group, channels
        self._known = columns
        self.member = receiver_id(group, channels)
        self.ledger = LinkLedger(storage.child("ledger"), self.member)
        self.log = LinkLog(storage.child("exchange"))
        self._gate = LinkGate(settings.exclusive_buffers, settings.floating_buffers)
        self._numbers: dict[Channel, int] = {}
        self._planned_at: float | None = None
        self._was_limited = False
        self._noted: list[int] = []
        self._skipped = 0
        self._acted_on = -1
        self.begin: Cursors = {}
        self.end: Cursors = {}
        self.origin: Cursors = {}
        self._batch: dict[Channel, tuple[int, int]] = {}
        first = min(settings.buffer_bytes, FIRST_BYTES) // max(1, len(channels))
        self._budget = None if target_s is None else Budget(target_s, first)
        check_unshared(self.ledger, group, channels)
        self.epoch = self.ledger.claim()
        faults.reach(self.group, self.epoch, faults.AFTER_CLAIM)
        self._restore()  # not before: until then whoever was here could still commit

    def _restore(self) -> None:
        if self.ledger.latest is None:
            return
        rows = self.ledger.last_rows(self.member)
        if not rows:  # no sender had come
            return
        task = json.loads(rows[0]["task_state"])
        states = []
        for number, row in enumerate(rows):
            self._numbers[row["sender"], row["receiver"]] = number
            states.append(json.loads(row["channel_state"])["gate"])
            self._batch[row["sender"], row["receiver"]] = (row["rows"], row["bytes"])
        own = self.settings
        self._gate = LinkGate.restore(
            own.exclusive_buffers, own.floating_buffers, task["gate"], states
        )
        self.begin, self.end, self.origin = task["begin"], task["end"], task["origin"]
        self._skipped = task.get("skipped", 0)
        if self._budget is not None:
            self._budget.restore(task["rates"], task.get("fixed_s"))
        self._noted = [self._gate.consumed(number) for number in self._numbers.values()]

    # ------------------------------------------------------------------ beginning

    def start(self, *, reset: bool, from_start: bool = False) -> Cursors:
        """Return where a query with a new checkpoint begins.

        With ``reset`` that is where the last batch of the old one began, whether the sink has
        its rows or not: rather twice than never.

        Parameters
        ----------
        reset : bool
            Whether the receiver may have read before, or been removed.
        from_start : bool, default False
            Whether it must begin at the first row.

        Raises
        ------
        LinkError
            If the receiver has read before, or was removed, and ``reset`` was not asked for; or
            if the first rows are gone.
        """
        if not reset:
            check_kept(self.ledger, self.group, self.member)
        latest = self.ledger.latest
        if latest is None or latest.state.get("removed", False):
            self._register(from_start=from_start)
        elif self.filled(self.end) == self.origin:
            if latest.state.get("is_new", True):  # killed before it knew where it begins
                self._begin_at_oldest({}, from_start=from_start)
        elif self.filled(self.begin) != self.origin:
            # Spark asks again until the first batch is done, also when it was killed in it.
            if not reset:
                raise LinkError(
                    f"{self.ledger.storage}: receiver {self.group!r} has read this link before, "
                    "with another checkpoint. Use that checkpoint, give the receiver another name, "
                    "or go on where the ledger says that it is with .option('reset', True)"
                )
            self.origin = self.end = self.filled(self.begin)
            self._commit({}, self.end)
        return self.filled(self.begin)

    def _register(self, *, from_start: bool = False) -> None:
        """Take a place in the ledger, then see what is there.

        Once a sender knows of this receiver it trims nothing that this one has not consumed.
        What it trimmed, or announced that it would, before the registration lies behind it.
        """
        self.refresh()
        senders = senders_of(self.ledger)
        if from_start:  # before anything is written
            now = oldest_of(self.log, senders, self.channels)
            skipped = skipped_text(senders, self.channels, now, self.begin)
            check_from_start(self.ledger.storage, self.group, skipped)
        had = dict(self.begin)
        self._add_channels(senders)
        self.origin = self.end = self.filled(self.begin)
        self._commit({}, self.end, is_new=True)  # without a row if there is no sender yet
        self._begin_at_oldest(had, from_start=from_start)

    def _begin_at_oldest(self, had: Cursors, *, from_start: bool) -> None:
        """Move to the oldest rows that stay, and commit that."""
        self.refresh()
        senders = senders_of(self.ledger)
        self._add_channels(senders)
        origin = {sender: list(own) for sender, own in self.filled(self.end).items()}
        for sender in senders:
            for place, channel in enumerate(self.channels):
                first, record = oldest(self.log, sender, channel)
                self._gate.skip_to(self._numbers[sender.number, channel], first)
                own = origin[str(sender.number)]
                own[place] = max(record, own[place])
        skipped = skipped_text(senders, self.channels, origin, had)
        if from_start and skipped:  # trimmed while this receiver registered
            remove_member(self.ledger)
            check_from_start(self.ledger.storage, self.group, skipped)
        note_beginning(self.ledger.storage, self.group, skipped)
        self.begin = self.end = self.origin = origin
        self._skipped += skipped_rows(origin, had)
        if senders:
            self._commit({}, self.end)

    # ------------------------------------------------------------------ decisions

    def refresh(self) -> bool:
        """Take notice of all commits; whether there were any since the last look.

        The ledger first: a sender commits rows before it says so, and a log that ends before what
        the ledger knows of has lost a commit.
        """
        self.ledger.refresh()
        if self.ledger.version == self._acted_on:
            return False
        self._acted_on = self.ledger.version
        self.log.refresh()
        for sender in senders_of(self.ledger):
            for channel in self.channels:
                known = sender.written[channel], sender.records[channel]
                self.log.check_holds(sender.number, channel, *known)
        return True

    def next(self, start: Cursors, *, is_over: bool = False) -> Cursors:
        """Return where the batch that begins at ``start`` ends; ``start`` itself if it must wait.

        Parameters
        ----------
        start : Cursors
            Up to where all is read and in the sink.
        is_over : bool, default False
            Whether the query is to end: then nothing more is taken.

        Raises
        ------
        LinkError
            If ``start`` is neither where the last decision ended nor where it began.
        DetachedError
            If a sender has cut this receiver off.
        """
        check_kept(self.ledger, self.group, self.member)
        if self.filled(start) != self.filled(self.end):
            return self._again(start)
        self._learn()
        if self.ledger.latest is None:
            self._register()
        senders = senders_of(self.ledger)
        check_attached(self.ledger, self.group, senders, self.settings.detach_after_bytes)
        self._add_channels(senders)
        self._consume()
        takes = {} if is_over else self._take(senders)
        if any(rows for rows, _ in takes.values()):
            self._commit(takes, self._after(takes))
            self._planned_at = time.monotonic()
        elif self._consumed() != self._noted:
            self._commit({}, self.end)
        return self.end

    def filled(self, cursors: Cursors) -> Cursors:
        """Return cursors with the senders that appeared later, at their origin."""
        return {**self.origin, **cursors}

    def _again(self, start: Cursors) -> Cursors:
        """Repeat the last decision, of which Spark has not taken note."""
        if self.filled(start) != self.filled(self.begin):
            raise LinkError(
                f"{self.ledger.storage}: receiver {self.group!r} asks for what comes after "
                f"{json.dumps(start)}, but the ledger has it between {json.dumps(self.begin)} and "
                f"{json.dumps(self.end)}: the checkpoint belongs to another time. Use the newest "
                "one, or a new one and .option('reset', True)"
            )
        self._planned_at = None
        return self.end

    def _learn(self) -> None:
        """Measure the batch that has just ended."""
        if self._planned_at is not None and self._budget is not None:
            taken = {label(channel): nbytes for channel, (_, nbytes) in self._batch.items()}
            duration = time.monotonic() - self._planned_at
            self._budget.observe(taken, duration, is_limited=self._was_limited)
        self._planned_at = None

    def _add_channels(self, senders: list[Sender]) -> None:
        """Open the channels of senders that are new, at the oldest message still in the log."""
        for sender in senders:
            if str(sender.number) in self.end:
                continue
            cursors = []
            for channel in self.channels:
                number = self._gate.add_channel()
                self._numbers[sender.number, channel] = number
                first, record = oldest(self.log, sender, channel)
                self._gate.skip_to(number, first)
                cursors.append(record)
            self.origin = {**self.origin, str(sender.number): cursors}
            self.end = {**self.end, str(sender.number): cursors}

    def _consume(self) -> None:
        """Recycle the buffers of what has been read to its end."""
        for (sender, channel), number in self._numbers.items():
            log = self.log.channel(sender, channel)
            read = log.holding(self._position(sender, channel))
            done = min(read, self._gate.sent(number)) - self._gate.consumed(number)
            self._gate.consume(number, max(0, done))

    def _position(self, sender: int, channel: int) -> int:
        return self.end[str(sender)][self.channels.index(channel)]

    def _consumed(self) -> list[int]:
        return [self._gate.consumed(number) for number in self._numbers.values()]

    def _take(self, senders: list[Sender]) -> dict[Channel, tuple[int, int]]:
        """Move ``sent`` as far as released, credit and budget allow; rows and bytes taken."""
        released = {
            (sender.number, channel): min(sender.released[channel], log.end)
            for sender in senders
            for channel in self.channels
            for log in [self.log.channel(sender.number, channel)]
        }
        self._announce(released)
        while self._recycle_begun(released):
            self._announce(released)
        reach = {
            channel: max(
                self._gate.sent(number), min(released[channel], self._gate.announced(number))
            )
            for channel, number in self._numbers.items()
        }
        available = {channel: self._unread(channel, reach[channel]) for channel in reach}
        allowed = available
        if self._budget is not None:
            named = {label(channel): nbytes for channel, nbytes in available.items()}
            budget = self._budget.allow(named)
            allowed = {channel: budget.get(label(channel), 0) for channel in available}
        self._was_limited = allowed != available
        takes = {
            channel: self._read(channel, reach[channel], allowed[channel], released[channel])
            for channel in reach
        }
        if not any(rows for rows, _ in takes.values()):
            self._force(takes, available, reach, released)
        return takes

    def _force(
        self,
        takes: dict[Channel, tuple[int, int]],
        available: Mapping[Channel, int],
        reach: Mapping[Channel, int],
        released: Mapping[Channel, int],
    ) -> None:
        """Take one row where the budget is less than any: a batch of nothing gets nowhere."""
        most = max(available.values(), default=0)
        for channel, nbytes in available.items():
            if nbytes == most > 0:
                takes[channel] = self._read(channel, reach[channel], 0, released[channel], least=1)
                return

    def _announce(self, released: Mapping[Channel, int]) -> None:
        """Ask for buffers for what waits, and grant credit for those that there are."""
        for channel, number in self._numbers.items():
            backlog = max(0, unsent(released[channel], self._gate.sent(number)))
            self._gate.see_backlog(number, backlog)
        self._gate.announce()

    def _recycle_begun(self, released: Mapping[Channel, int]) -> bool:
        """Take and recycle messages in which no record ends; whether there were any.

        Flink's deserializer copies such a buffer out when it polls it (section 1.9); else a row
        larger than all of a channel's buffers would never get through.
        """
        before = self._consumed()
        for channel, number in self._numbers.items():
            read = self.log.channel(*channel).holding(self._position(*channel))
            reach = min(read, released[channel], self._gate.announced(number))
            self._take_to(channel, reach, released[channel])
        self._consume()
        return self._consumed() != before

    def _take_to(self, channel: Channel, reach: int, released: int) -> None:
        """Take a buffer for every message before ``reach``."""
        number = self._numbers[channel]
        while (sent := self._gate.sent(number)) < reach:
            if not self._gate.take(number, unsent(released, sent) - 1):
                raise LinkError(f"channel {channel}: no credit for message {sent}")

    def _unread(self, channel: Channel, reach: int) -> int:
        """Bytes of a channel that may be read up to message ``reach``."""
        return unread_bytes(self.log.channel(*channel), self._position(*channel), reach)

    def _read(
        self, channel: Channel, reach: int, budget: int, released: int, least: int = 0
    ) -> tuple[int, int]:
        """Take rows of a channel within a budget of bytes, and a buffer for each message."""
        log, position = self.log.channel(*channel), self._position(*channel)
        rows, nbytes, messages = take_rows(log, position, reach, budget, least=least)
        self._take_to(channel, messages, released)
        return rows, nbytes

    def _after(self, takes: Mapping[Channel, tuple[int, int]]) -> Cursors:
        return {
            sender: [
                record + takes.get((int(sender), channel), (0, 0))[0]
                for channel, record in zip(self.channels, own, strict=True)
            ]
            for sender, own in self.end.items()
        }

    def written(self) -> Cursors:
        """Return how many records each channel has that is known of now."""
        return written_of(self.log, senders_of(self.ledger), self.channels)

    def extents(self, start: Cursors, end: Cursors) -> list[tuple[int, list[FileRows]]]:
        """Return rows and places of each channel of the batch between two cursors.

        Raises
        ------
        LinkError
            If some of it has been trimmed, or is missing.
        """
        latest = self.ledger.latest
        faults.reach(self.group, 0 if latest is None else latest.batch_id, faults.PLANNED)
        found = []
        begin = self.filled(start)
        for sender, ends in self.filled(end).items():
            for channel, low, high in zip(self.channels, begin[sender], ends, strict=True):
                own = self.log.extents(int(sender), channel, low, high)
                if own:
                    found.append((high - low, [self._file_rows(extent) for extent in own]))
        return found

    def _file_rows(self, extent: Extent) -> FileRows:
        file = self.log.files[extent.path]
        check_known(self.ledger, self.settings.schema, file.schema, self._known, self.group)
        return FileRows(extent.path, extent.first_row, extent.rows, file.nbytes, file.footer)

    # ------------------------------------------------------------------ the ledger

    def _commit(
        self, takes: Mapping[Channel, tuple[int, int]], end: Cursors, *, is_new: bool = False
    ) -> None:
        """Commit a decision, and only then believe in it."""
        begin = self.end
        task = {
            "name": self.group,
            "epoch": self.epoch,
            "begin": begin,
            "end": end,
            "origin": self.origin,
            "skipped": self._skipped,
            "gate": self._gate.task_state(),
            **(NO_TARGET if self._budget is None else self._budget.to_json()),
        }
        rows = [
            receiver_row(
                self._gate,
                number,
                channel,
                takes.get(channel, (0, 0)),
                self._position(*channel),
                task,
            )
            for channel, number in self._numbers.items()
        ]
        state = {"channels": self.channels, "epoch": self.epoch, "is_new": is_new}
        state |= cursors_of(self._gate, self._numbers)
        latest = self.ledger.latest
        number = 0 if latest is None else latest.batch_id + 1
        faults.reach(self.group, number, faults.BEFORE_LEDGER)
        try:
            self.ledger.commit(rows, state)
        except FencedError:
            self.ledger.refresh()
            check_kept(self.ledger, self.group, self.member)  # removed, or taken over
            raise
        faults.reach(self.group, number, faults.AFTER_LEDGER)
        self.begin, self.end = begin, end
        self._batch = dict(takes)
        self._noted = self._consumed()
        for (sender, channel), number in self._numbers.items():
            self.log.channel(sender, channel).forget(self._gate.consumed(number))
