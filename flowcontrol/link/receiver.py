"""A receiver's side of a link, on the driver: which rows the next micro-batch reads, and why.

Every decision is committed to the ledger before Spark learns of it: the rows of the batch, and with
them that the batch before is consumed. So a decision that Spark never noted is found and repeated,
and the ledger records what each batch was allowed to read.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from flowcontrol.errors import FencedError, LinkError
from flowcontrol.ledger.link_index import Extent
from flowcontrol.ledger.link_ledger import LinkLedger
from flowcontrol.ledger.link_log import LinkLog
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.batch_size import Budget
from flowcontrol.link.event_time import receiver_watermark
from flowcontrol.link.input import (
    Channel,
    Cursors,
    LinkInput,
    check_from_start,
    note_beginning,
    oldest_of,
    skipped_rows,
    skipped_text,
    written_of,
)
from flowcontrol.link.members import (
    PaceMeter,
    Sender,
    check_attached,
    check_kept,
    check_unshared,
    receiver_id,
    remove_member,
    senders_of,
)
from flowcontrol.link.schema import check_known
from flowcontrol.link.sealed_files import FileRows
from flowcontrol.link.settings import SETTINGS, LinkSettings, Presence, altered
from flowcontrol.spark.crash_points import CrashPoint, crash_point

FIRST_BYTES = 16 << 10
"""What a batch with a target may take before anything was measured: a slow sink has not yet been
seen to be slow. It is some 600 narrow rows, which a sink of 1 ms a row takes in a second. One that
is not slow has its size one to three batches later than from 512 KiB on (docs/decisions/008)."""

NEW_BYTES = 512 << 10
"""What channels that have had no rows yet may take together in a batch of a known size."""

NO_TARGET: dict[str, object] = {"rates": {}, "target_batch_s": None}
"""What the ledger holds of a receiver without a target."""


class LinkReceiver:
    """One receiver of a link.

    - ``channels``: those that it reads, in order.
    - ``columns``: those that its query knows: rows with others are refused. By default none are.
    - ``has_own_target``: whether ``target_s`` was stated for this receiver; else it changes with
      the link's.
    - ``reads_all``: whether it takes over channels that the link gets later. ``channels`` are then
      those that the link was made with: they are part of its application id, which stays.
    - ``input``: its channels.
    """

    def __init__(
        self,
        storage: Storage,
        settings: LinkSettings,
        group: str,
        channels: list[int],
        target_s: float | None,
        columns: Sequence[str] | None = None,
        *,
        has_own_target: bool = False,
        reads_all: bool = False,
    ) -> None:
        self.settings, self.group, self._known = settings, group, columns
        self._has_own_target, self._adopted = has_own_target, -1
        self.member = receiver_id(group, channels)
        self.ledger = LinkLedger(storage.child("ledger"), self.member)
        self.log = LinkLog(storage.child("exchange"))
        self._planned_at: float | None = None
        self._was_limited = False
        self._committed: list[int] = []
        self._skipped = 0
        self._watermark: tuple[str | None, int | None] = (settings.event_time_column, None)
        self._acted_on = -1
        self._batch: dict[Channel, tuple[int, int]] = {}
        self._meter = PaceMeter(target_s)
        check_unshared(self.ledger, group, self.member, channels)
        self.epoch = self.ledger.claim()
        self._presence = Presence(storage)
        self._presence.check(at_once=True)
        crash_point(group, self.epoch, CrashPoint.AFTER_CLAIM)
        # Not before: until the claim an older process could still commit, and take channels over.
        latest = self.ledger.latest
        known = channels if latest is None else list(latest.state["channels"])
        self._reads_all = reads_all or len(known) > len(channels)
        self.input = LinkInput(settings, self.log, known)
        self._budget = None if target_s is None else self._new_budget(target_s)
        self._restore()
        self._widen(settings.channels)

    def _new_budget(self, target_s: float) -> Budget:
        channels = max(1, len(self.input.channels))
        most = self.settings.buffer_bytes
        first, new = (min(most, nbytes) // channels for nbytes in (FIRST_BYTES, NEW_BYTES))
        return Budget(target_s, first, new)

    def _adopt(self) -> None:
        """Take over what was altered since the last micro-batch."""
        latest = self.ledger.members.get(SETTINGS)
        if latest is None or latest.batch_id == self._adopted:
            return
        self._adopted = latest.batch_id
        now = replace(altered(self.settings, self.ledger), schema=self.settings.schema)
        self.settings = now
        self.input.adopt(now)
        self._widen(now.channels)
        before, target_s = self._budget, now.target_batch_s
        if self._has_own_target or target_s == (before and before.target_s):
            return
        self._meter.target_s = target_s
        self._budget = None if target_s is None else self._new_budget(target_s)
        if self._budget is not None and before is not None:
            self._budget.restore(before.rates, before.fixed_s)

    def _widen(self, channels: int) -> None:
        if self._reads_all and channels > len(self.input.channels):
            self.input.widen(channels)

    def _restore(self) -> None:
        rows = [] if self.ledger.latest is None else self.ledger.last_rows(self.member)
        if not rows:  # no sender had come
            return
        task = json.loads(rows[0]["task_state"])
        self.input.restore(task, rows)
        self._batch = {
            (row["sender"], row["receiver"]): (row["rows"], row["bytes"]) for row in rows
        }
        self._skipped = task.get("skipped", 0)
        column, watermark = task.get("watermark", (None, None))
        self._watermark = column, watermark
        self._meter.restore(task.get("pace", ()))
        if self._budget is not None:
            self._budget.restore(task["rates"], task.get("fixed_s"))
        self._committed = self.input.consumed()

    # ------------------------------------------------------------------ beginning

    def start(self, *, reset: bool, from_start: bool = False) -> Cursors:
        """Return where a query with a new checkpoint begins.

        With ``reset`` that is where the last batch of the old one began, whether the sink has
        its rows or not: rather twice than never.

        - ``reset``: whether the receiver may have read before, or been removed.
        - ``from_start``: whether it must begin at the first row.

        Raises LinkError if the receiver has read before, or was removed, and ``reset`` was not
        asked for; or if the first rows are gone.
        """
        own = self.input
        if not reset:
            check_kept(self.ledger, self.group, self.member)
        latest = self.ledger.latest
        if latest is None or latest.state.get("removed", False):
            self._register(from_start=from_start)
        elif own.filled(own.end) == own.origin:
            if latest.state.get("is_new", True):  # killed before it knew where it begins
                self._begin_at_oldest({}, from_start=from_start)
        elif own.filled(own.begin) != own.origin:
            # Spark asks again until the first batch is done, also when it was killed in it.
            if not reset:
                raise LinkError(
                    f"{self.ledger.storage}: receiver {self.group!r} has read this link before, "
                    "with another checkpoint. Use that checkpoint, give the receiver another name, "
                    "or go on where the ledger says that it is with .option('reset', True) and "
                    "give a sink that goes by batch numbers another txnAppId: they begin at 0 "
                    "again. A full refresh of a pipeline (--full-refresh) begins such a checkpoint "
                    "too; what was read is no more in the link: refresh its senders as well, with "
                    "the link in another folder"
                )
            own.origin = own.end = own.filled(own.begin)
            self._commit({}, own.end)
        return own.filled(own.begin)

    def _register(self, *, from_start: bool = False) -> None:
        """Register in the ledger, then read what is there.

        Once a sender knows of this receiver it trims nothing that this one has not consumed.
        What it trimmed, or announced that it would, before the registration lies behind it.
        """
        own = self.input
        self.refresh()
        senders = senders_of(self.ledger)
        if from_start:  # before anything is written
            now = oldest_of(self.log, senders, own.channels)
            skipped = skipped_text(senders, own.channels, now, own.begin)
            check_from_start(self.ledger.storage, self.group, skipped)
        had = dict(own.begin)
        own.add(senders)
        own.origin = own.end = own.filled(own.begin)
        self._commit({}, own.end, is_new=True)  # without a row if there is no sender yet
        self._begin_at_oldest(had, from_start=from_start)

    def _begin_at_oldest(self, had: Cursors, *, from_start: bool) -> None:
        """Move to the oldest rows that stay, and commit that."""
        own = self.input
        self.refresh()
        self._adopt()  # channels that senders have taken over already: they may have trimmed them
        senders = senders_of(self.ledger)
        own.add(senders)
        origin = own.begin_at_oldest(senders)
        skipped = skipped_text(senders, own.channels, origin, had)
        if from_start and skipped:  # trimmed while this receiver registered
            remove_member(self.ledger)
            check_from_start(self.ledger.storage, self.group, skipped)
        note_beginning(self.ledger.storage, self.group, skipped)
        own.begin = own.end = own.origin = origin
        self._skipped += skipped_rows(origin, had)
        if senders:
            self._commit({}, own.end)

    # ------------------------------------------------------------------ decisions

    def refresh(self) -> bool:
        """Read all new commits; whether there were any.

        The ledger first: a sender commits rows before it counts them there, so a log that ends
        before the ledger's count has lost a commit.
        """
        self.ledger.refresh()
        if self.ledger.version == self._acted_on:
            self._presence.check()
            return False
        self._acted_on = self.ledger.version
        self.log.refresh()
        for sender in senders_of(self.ledger):
            for channel in self.input.channels:
                known = sender.written[channel], sender.records[channel]
                self.log.check_holds(sender.number, channel, *known)
        return True

    def make_room(self, start: Cursors) -> bool:
        """Commit by itself that a batch has been read, if senders wait for its buffers.

        Else a batch would get the part of the pool that the one before it left: what that one
        read would be free only with this one's decision.

        Returns whether senders will release more at once.
        """
        own = self.input
        if self._was_limited or own.filled(start) != own.filled(own.end):
            return False
        check_kept(self.ledger, self.group, self.member)
        own.consume()
        if own.consumed() == self._committed or not self._is_awaited():
            return False
        self._learn()
        own.align(senders_of(self.ledger))
        self._note_watermark()
        self._commit({}, own.end)
        return True

    def _is_awaited(self) -> bool:
        """Whether senders have written messages that they have not released."""
        return any(
            written > released
            for sender in senders_of(self.ledger)
            for written, released in zip(sender.written, sender.released, strict=True)
        )

    def released(self) -> list[list[int]]:
        """Return the messages of each channel that each sender has released."""
        return [sender.released for sender in senders_of(self.ledger)]

    def next(
        self, start: Cursors, *, is_over: bool = False, last: Cursors | None = None
    ) -> Cursors:
        """Return where the batch that begins at ``start`` ends; ``start`` itself if it must wait.

        - ``is_over``: whether the query is ending: then nothing more is taken.
        - ``last``: where it ends: senders that are read so far hold no other back any more.

        Raises LinkError if ``start`` is neither where the last decision ended nor where it began.
        Raises DetachedError if a sender has cut this receiver off.
        """
        own = self.input
        check_kept(self.ledger, self.group, self.member)
        if own.filled(start) != own.filled(own.end):
            return self._again(start)
        self._learn()
        self._adopt()
        if self.ledger.latest is None:
            self._register()
        senders = senders_of(self.ledger)
        check_attached(self.ledger, self.group, senders, self.settings.detach_after_bytes)
        own.add(senders)
        own.consume()
        own.align(senders, () if last is None else _finished(own.end, last))
        self._note_watermark()
        takes = {} if is_over else self._take(senders)
        if any(rows for rows, _ in takes.values()):
            self._commit(takes, own.after(takes))
            self._planned_at = time.monotonic()
        elif own.consumed() != self._committed:
            self._commit({}, own.end)
        return own.end

    def _note_watermark(self) -> None:
        """Advance the watermark by what is consumed."""
        own = self.input
        if own.times.column != self._watermark[0]:
            self._watermark = own.times.column, None
        column, before = self._watermark
        if column is not None:
            channels = [own.times.of(channel) for channel in own.numbers]
            now = receiver_watermark(
                [(one.watermark, one.is_idle == 1) for one in channels], before
            )
            self._watermark = column, now.watermark

    @property
    def waits_for_others(self) -> bool:
        """Whether a sender gets no credit until the others have caught up in event time."""
        return bool(self.input.paused)

    def _again(self, start: Cursors) -> Cursors:
        """Repeat the last decision, which Spark has not noted."""
        own = self.input
        if own.filled(start) != own.filled(own.begin):
            raise LinkError(
                f"{self.ledger.storage}: receiver {self.group!r} asks for what comes after "
                f"{json.dumps(start)}, but the ledger has it between {json.dumps(own.begin)} and "
                f"{json.dumps(own.end)}: the checkpoint belongs to another time. Use the newest "
                "one, or a new one and .option('reset', True)"
            )
        self._planned_at = None
        return own.end

    def _learn(self) -> None:
        """Measure the batch that has just ended."""
        if self._planned_at is not None:
            taken = {_label(channel): nbytes for channel, (_, nbytes) in self._batch.items()}
            duration = time.monotonic() - self._planned_at
            self._meter.observe(sum(taken.values()), duration)
            if self._budget is not None:
                self._budget.observe(taken, duration, is_limited=self._was_limited)
        self._planned_at = None

    def _take(self, senders: Sequence[Sender]) -> dict[Channel, tuple[int, int]]:
        """Move ``sent`` as far as released, credit and budget allow; rows and bytes taken."""
        own = self.input
        released = own.released(senders)
        own.resize(self._meter.pace, released)
        reach = own.reach(released)
        available = {channel: own.unread_bytes(channel, end) for channel, end in reach.items()}
        allowed = available
        if self._budget is not None:
            named = {_label(channel): nbytes for channel, nbytes in available.items()}
            budget = self._budget.allow(named)
            allowed = {channel: budget.get(_label(channel), 0) for channel in available}
        self._was_limited = allowed != available
        takes = {
            channel: own.read(channel, end, allowed[channel], released[channel])
            for channel, end in reach.items()
        }
        if any(available.values()) and not any(rows for rows, _ in takes.values()):
            # No channel's share is a row: one gets all of them, and at least a row, for an empty
            # batch gets nowhere.
            most = max(available, key=lambda channel: available[channel])
            share = sum(allowed.values())
            takes[most] = own.read(most, reach[most], share, released[most], least=1)
        return takes

    def written(self) -> Cursors:
        """Return how many records each channel is known to have."""
        return written_of(self.log, senders_of(self.ledger), self.input.channels)

    def extents(self, start: Cursors, end: Cursors) -> list[tuple[int, list[FileRows]]]:
        """Return rows and places of each channel of the batch between two cursors.

        Raises LinkError if some of it has been trimmed, or is missing. Raises DetachedError if a
        sender has cut this receiver off.
        """
        crash_point(self.group, max(0, self.ledger.next_number - 1), CrashPoint.PLANNED)
        found = []
        begin = self.input.filled(start)
        for sender, ends in self.input.filled(end).items():
            for channel, low, high in zip(self.input.channels, begin[sender], ends, strict=True):
                try:
                    own = self.log.extents(int(sender), channel, low, high)
                except LinkError:  # of one that was cut off after it had decided, rows are gone
                    limit = self.settings.detach_after_bytes
                    check_attached(self.ledger, self.group, senders_of(self.ledger), limit)
                    raise
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
        """Commit a decision, and adopt it only then."""
        own, begin = self.input, self.input.end
        task = {
            "name": self.group,
            "epoch": self.epoch,
            "begin": begin,
            "end": end,
            "origin": own.origin,
            "skipped": self._skipped,
            **({} if self._watermark[0] is None else {"watermark": self._watermark}),
            "gate": own.task_state(),
            "pace": self._meter.pace.to_json(),
            **(NO_TARGET if self._budget is None else self._budget.to_json()),
        }
        state = {
            "channels": own.channels,
            "epoch": self.epoch,
            "is_new": is_new,
            "pace": self._meter.pace.to_json(),
            **own.cursors(),
        }
        number = self.ledger.next_number
        crash_point(self.group, number, CrashPoint.BEFORE_LEDGER)
        try:
            self.ledger.commit(own.rows(takes, task), state)
        except FencedError:
            self.ledger.refresh()
            check_kept(self.ledger, self.group, self.member)  # removed, or taken over
            raise
        crash_point(self.group, number, CrashPoint.AFTER_LEDGER)
        own.begin, own.end = begin, end
        self._batch = dict(takes)
        self._committed = own.consumed()
        own.forget()


def _finished(read: Cursors, last: Cursors) -> set[int]:
    """Return the senders of which no channel has more to read before the end of the query."""
    return {
        int(sender)
        for sender, own in read.items()
        if all(done >= end for done, end in zip(own, last.get(sender, ()), strict=False))
    }


def _label(channel: Channel) -> str:
    """Return a channel's name in the ledger: the sender's index and its own number."""
    return f"{channel[0]}/{channel[1]}"
