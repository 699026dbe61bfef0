"""A sender's side of a link: what its foreachBatch does with the rows of a source batch.

Steps, and what a crash right after each one leaves:

1. What an earlier start left unreleased is released: nothing else is begun before.
2. Executors write files: orphans, which no commit names; the batch runs again.
3. The exchange log is committed: the batch runs again, finds its rows there and goes on.
4. Messages are released as receivers consume, a commit to the ledger each time: the batch runs
   again and goes on with those that wait.
5. All are released and the function returns. While it waits, Spark asks the source for nothing.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from flowcontrol.errors import LinkError
from flowcontrol.ledger.channel_log import ChannelLog
from flowcontrol.ledger.commit import Writer
from flowcontrol.ledger.link_files import LinkFiles
from flowcontrol.ledger.link_index import PackedRows
from flowcontrol.ledger.link_ledger import LinkLedger
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.members import Receiver, receivers_of, senders_of
from flowcontrol.link.schema import columns_of
from flowcontrol.link.settings import LinkSettings, altered
from flowcontrol.live import faults
from flowcontrol.protocol.free_running import OutputPool
from flowcontrol.protocol.rules import credit_of, unsent

if TYPE_CHECKING:
    from collections.abc import Sequence

ASK_EVERY_S = 0.1
"""How often a blocked sender asks whether its query was stopped."""


class LinkSender:
    """One sender of a link; lives in the process that runs foreachBatch.

    Parameters
    ----------
    storage : Storage
        The link's folder.
    settings : LinkSettings
        The link's.
    name : str
        The sender's.
    query : str
        Identity of its query's checkpoint.
    reset : bool
        Whether a new checkpoint may go on under a name that another has used.
    columns : sequence of str, optional
        Of its rows; by default all that the link has.

    Raises
    ------
    LinkError
        If the name belongs to another checkpoint.
    """

    def __init__(
        self,
        storage: Storage,
        settings: LinkSettings,
        name: str,
        query: str,
        *,
        reset: bool,
        columns: Sequence[str] | None = None,
    ) -> None:
        self.settings = self._made = settings
        self.name, self.query = name, query
        self.member = f"sender/{name}"
        self.ledger = LinkLedger(storage.child("ledger"), self.member)
        self._lock = threading.RLock()
        self._releasing: threading.Thread | None = None
        self._failure: Exception | None = None
        self._check_query(reset)
        self.epoch = self.ledger.claim()
        self._check_query(reset)  # another may have come between the look and the claim
        self.index = self._own_index()
        self.files = LinkFiles(
            storage.child("exchange"), self.member, self.index, settings.buffer_bytes
        )
        carried = columns_of(settings.schema, self.ledger)
        self.files.schema = (
            len(carried.counts) - 1 if columns is None else carried.version_with(columns)
        )
        self._check_log()  # before anything is committed in place of what is missing
        self.files.claim()
        faults.reach(self.name, self.epoch, faults.AFTER_CLAIM)
        self._detached: list[str] = []
        self.released = [0] * settings.channels
        self._trimmed = [0] * settings.channels
        self._first_batch = 0
        self._acted_on = -1
        self._restore()

    # ------------------------------------------------------------------ who this is

    def _check_query(self, reset: bool) -> None:
        latest = self.ledger.latest
        if latest is not None and not reset and latest.state["query"] != self.query:
            raise self._other_checkpoint(latest.state["query"])

    def _other_checkpoint(self, other: str) -> LinkError:
        return LinkError(
            f"{self.ledger.storage}: sender {self.name!r} belongs to the query {other}, this one "
            f"is {self.query}: another query sends under this name, or its checkpoint was deleted. "
            "Give the sender another name, use the old checkpoint, or take the name over with "
            "link.sender(name, reset=True): then rows of a batch that was in the middle may come "
            "twice"
        )

    def _own_index(self) -> int:
        """Return this sender's index; a new sender takes the next one."""
        registry = Writer(self.ledger.storage, "senders")
        while True:
            for sender in senders_of(self.ledger):
                if sender.name == self.name:
                    return sender.number
            # A transaction each: of two that come at once one finds its number taken.
            known = [sender.number for sender in senders_of(self.ledger)]
            index = max(registry.last_batch(), *known, -1) + 1
            if registry.commit(index, []):
                return index

    def _check_log(self) -> None:
        """Make sure that the log holds what the ledger says that this sender has written."""
        if self.ledger.latest is not None:
            state = self.ledger.latest.state
            for channel, known in enumerate(zip(state["written"], state["records"], strict=True)):
                self.files.log.check_holds(self.index, channel, *known)

    def _restore(self) -> None:
        """Take up what an earlier start left."""
        latest = self.ledger.latest
        written, records = [0] * self.settings.channels, [0] * self.settings.channels
        if latest is not None:
            self.released = list(latest.state["released"])
            self._detached = list(latest.state["detached"])
            self._trimmed = list(latest.state.get("trimmed", self._trimmed))
            same = latest.state["query"] == self.query
            self._first_batch = latest.state["first_batch"] if same else self._next_batch()
            written, records = latest.state["written"], latest.state["records"]
        self._pool = OutputPool(
            self.settings.exclusive_buffers, self.settings.floating_buffers, self._in_use()
        )
        # What an earlier start had written and not said, as it was killed in between.
        logs = self._logs
        rows = [log.records - known for log, known in zip(logs, records, strict=True)]
        nbytes = [log.nbytes(known, log.end) for log, known in zip(logs, written, strict=True)]
        self._commit(0, rows, nbytes)

    @property
    def _logs(self) -> list[ChannelLog]:
        """What stands in the exchange log of each channel."""
        return [self.files.log.channel(self.index, c) for c in range(self.settings.channels)]

    def _next_batch(self) -> int:
        return self.files.last_batch() + 1

    # ------------------------------------------------------------------ writing

    def is_written(
        self, batch_id: int, source: str | None = None, count: Callable[[], int] | None = None
    ) -> bool:
        """Whether the rows of a source batch are in the exchange log.

        Parameters
        ----------
        batch_id : int
            Number of the batch.
        source : str, optional
            What identifies its rows in the source, if that is known.
        count : callable, optional
            Returns how many rows it has; asked where the source does not identify them.

        Raises
        ------
        LinkError
            If the batch is older than the last one, or the last one had other rows: the
            checkpoint was put back.
        """
        with self._lock:
            number, last = self._first_batch + batch_id, self.files.last_batch()
        if number < last:
            raise LinkError(
                f"{self.ledger.storage}: sender {self.name!r} runs batch {batch_id} again, but "
                f"batch {last - self._first_batch} is in the link: its checkpoint was put back to "
                "an earlier time. Use the newest one, or another name"
            )
        if number == last:
            self._check_same(batch_id, source, count)
        return number <= last

    def _check_same(
        self, batch_id: int, source: str | None, count: Callable[[], int] | None
    ) -> None:
        """Make sure that the last batch, which runs again, has the rows that it had."""
        with self._lock:  # not while rows are counted: that may take long
            known = self.files.log.newest(self.index)
        if source and known.source:
            here, there = f"the source's offsets {source}", f"{known.source}"
        elif count is not None:
            here, there = f"{count()} rows", f"{known.rows} rows"
            source, known = here, known._replace(source=there)
        else:
            return
        if source != known.source:
            raise LinkError(
                f"{self.ledger.storage}: sender {self.name!r} runs batch {batch_id} again with "
                f"other rows: it has {here}, the batch {batch_id} that is in the link had {there}. "
                "Its checkpoint was put back by a batch and the source has gone on. Nothing was "
                "written: use the newest checkpoint; if that is lost, a new one with "
                "link.sender(name, reset=True), then the source's rows come again from its start"
            )

    def write(self, batch_id: int, files: Sequence[PackedRows], source: str | None = None) -> None:
        """Commit the rows of a source batch, and what identifies them, if there are any."""
        with self._lock:
            self._raise_failure()
            if not files:
                return
            rows, nbytes = [0] * self.settings.channels, [0] * self.settings.channels
            for file in files:
                for channel, pieces in file.channels:
                    rows[channel] += sum(piece[0] for piece in pieces)
                    nbytes[channel] += sum(piece[1] for piece in pieces)
            self.step()  # register whoever has come since before anything is trimmed
            faults.reach(self.name, batch_id, faults.BEFORE_EXCHANGE)
            number = self._first_batch + batch_id
            self.files.commit(number, files, dict(enumerate(self._trimmable())), source)
            faults.reach(self.name, batch_id, faults.BEFORE_LEDGER)
            self._release()
            self._commit(batch_id, rows, nbytes, self._consumed())
            faults.reach(self.name, batch_id, faults.AFTER_LEDGER)

    # ------------------------------------------------------------------ releasing

    def settle(self, is_stopped: Callable[[], bool]) -> bool:
        """Release what waits as receivers consume; return when nothing, or little, waits.

        Parameters
        ----------
        is_stopped : callable
            Asked every 0.1 s, also while messages are released; then this returns at once.

        Returns
        -------
        bool
            False if it was stopped: the rest is released at the next start.
        """
        shortest, longest = self.ledger.storage.waits_s
        wait, asked = shortest, time.monotonic()
        while self.waiting_bytes() > self.settings.spill_bytes:
            self._raise_failure()
            moved = self.step()
            if time.monotonic() - asked > ASK_EVERY_S:
                asked = time.monotonic()
                if is_stopped():
                    return False
            if moved:
                wait = shortest
                continue
            time.sleep(wait)
            wait = min(2 * wait, longest)
        if self.waiting_bytes():
            self._release_in_background()
        return True

    def step(self) -> bool:
        """Look for news of the receivers and act on it; whether there was anything to say."""
        with self._lock:
            self.ledger.refresh()
            if self.ledger.version == self._acted_on:
                return False
            # The commit below looks at the ledger as well: what it finds there is still to be done.
            self._acted_on = self.ledger.version
            self.settings = altered(self._made, self.ledger)
            before = list(self.released), list(self._detached)
            self._detach()
            self._recycle()
            self._release()
            if (self.released, self._detached) == before:
                return False
            latest = self.ledger.latest
            number = 0 if latest is None else latest.batch_id + 1
            faults.reach(self.name, number, faults.BEFORE_RELEASE)
            self._commit(-1, [0] * self.settings.channels, [0] * self.settings.channels)
            faults.reach(self.name, number, faults.AFTER_RELEASE)
            return True

    def _release_in_background(self) -> None:
        """Go on releasing when foreachBatch has returned: what spilled must not wait for it."""
        with self._lock:
            if self._releasing is None:
                self._releasing = threading.Thread(
                    target=self._run_background, name="flowcontrol-release", daemon=True
                )
                self._releasing.start()

    def _run_background(self) -> None:
        shortest, longest = self.ledger.storage.waits_s
        wait = shortest
        while True:
            with self._lock:  # whoever adds to what waits sees this thread go on, or none
                moved = self._released_some()
                if moved is None:
                    self._releasing = None
                    return
            wait = shortest if moved else min(2 * wait, longest)
            time.sleep(wait)

    def _released_some(self) -> bool | None:
        """Release what can be; None if nothing waits, or nothing can be done."""
        if not self.waiting_bytes():
            return None
        try:
            return self.step()
        except Exception as error:  # said when the query's next batch comes
            self._failure = error
            return None

    def _raise_failure(self) -> None:
        with self._lock:
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _release(self) -> None:
        """Release a message of each channel in turn as long as the pool has a buffer."""
        ends = [log.end for log in self._logs]
        moved = True
        while moved:
            moved = False
            for channel, end in enumerate(ends):
                if self.released[channel] < end and self._pool.request(channel):
                    self.released[channel] += 1
                    moved = True

    def _recycle(self) -> None:
        """Take the buffers back of what all receivers have consumed.

        A receiver that has just come may have consumed less than those before it: what lies
        before it is in flight again, and takes buffers as far as there are any.
        """
        more = [used - had for used, had in zip(self._in_use(), self._pool.used, strict=True)]
        for channel, count in enumerate(more):
            self._pool.recycle(channel, max(0, -count))
        for channel, count in enumerate(more):
            for _ in range(count):
                if not self._pool.request(channel):
                    break

    def _in_use(self) -> list[int]:
        paced = self._consumed(self._pacing())
        return [
            released - min(done, released)
            for released, done in zip(self.released, paced, strict=True)
        ]

    # ------------------------------------------------------------------ receivers

    def _groups(self) -> dict[str, list[int]]:
        """Messages that each attached receiver has consumed, per channel."""
        found: dict[str, list[int]] = {}
        for receiver in receivers_of(self.ledger):
            if receiver.group in self._detached:
                continue
            own = found.setdefault(receiver.group, [0] * self.settings.channels)
            self._fill(own, receiver)
        return found

    def _fill(self, own: list[int], receiver: Receiver) -> None:
        done = receiver.consumed.get(self.index, [0] * len(receiver.channels))
        for channel, count in zip(receiver.channels, done, strict=True):
            own[channel] = count

    def _consumed(self, groups: Mapping[str, list[int]] | None = None) -> list[int]:
        """Messages of each channel that all of some receivers have consumed."""
        groups = self._groups() if groups is None else groups
        if not groups:
            return [0] * self.settings.channels
        return [min(counts) for counts in zip(*groups.values(), strict=True)]

    def _trimmable(self) -> list[int]:
        """Messages of each channel that may leave the log.

        They were announced in an earlier commit, so that a receiver that registered after it begins
        behind them; one that registered before it is known by now, and has consumed them.
        """
        return [min(both) for both in zip(self._trimmed, self._consumed(), strict=True)]

    def _pacing(self) -> dict[str, list[int]]:
        """Receivers whose buffers hold the sender up: all, or with a limit the fastest."""
        groups = self._groups()
        if self.settings.detach_after_bytes is None or len(groups) < 2:
            return groups
        fastest = max(groups, key=lambda group: sum(groups[group]))
        return {fastest: groups[fastest]}

    def _detach(self) -> None:
        """Cut off who lags too far behind the fastest; forget those that were removed."""
        if self._detached:
            known = {receiver.group for receiver in receivers_of(self.ledger)}
            self._detached = [group for group in self._detached if group in known]
        limit = self.settings.detach_after_bytes
        groups = self._groups()
        if limit is None or len(groups) < 2:
            return
        for group, own in groups.items():
            lag = sum(
                self.files.log.channel(self.index, channel).nbytes(done, self.released[channel])
                for channel, done in enumerate(own)
            )
            if lag > limit and group not in self._pacing():
                self._detached.append(group)

    # ------------------------------------------------------------------ the ledger

    def waiting_bytes(self) -> int:
        """Bytes that are written and not released."""
        with self._lock:
            return sum(self._waiting(channel) for channel in range(self.settings.channels))

    def _waiting(self, channel: int) -> int:
        log = self.files.log.channel(self.index, channel)
        return log.nbytes(self.released[channel], log.end)

    def _commit(
        self, batch_id: int, rows: list[int], nbytes: list[int], trimmed: list[int] | None = None
    ) -> None:
        """Commit what is written and released now, and announce what is trimmed next."""
        logs, trimmed = self._logs, self._trimmed if trimmed is None else trimmed
        task = {
            "name": self.name,
            "epoch": self.epoch,
            "query": self.query,
            "source_batch": batch_id,
            "detached": self._detached,
        }
        entries = []
        for channel, log in enumerate(logs):
            sent, announced = self._seen(channel)
            state = {"records": log.records, "waiting_bytes": self._waiting(channel)}
            entries.append(
                {
                    "sender": self.index,
                    "receiver": channel,
                    "written": log.end,
                    "released": self.released[channel],
                    "credit": credit_of(announced, sent),
                    "backlog": unsent(self.released[channel], sent),
                    "pool_used": self._pool.in_use,
                    "pool_size": self._pool.size,
                    "rows": rows[channel],
                    "bytes": nbytes[channel],
                    "channel_state": json.dumps(state),
                    "task_state": json.dumps(task) if channel == 0 else None,
                }
            )
        self.ledger.commit(entries, {**self._state(logs), "trimmed": trimmed})
        self._trimmed = trimmed
        for log, done in zip(logs, self._consumed(), strict=True):
            log.forget(done)

    def _state(self, logs: Sequence[ChannelLog]) -> dict[str, Any]:
        """What receivers wait for, and what the next start checks."""
        return {
            "index": self.index,
            "written": [log.end for log in logs],
            "records": [log.records for log in logs],
            "released": list(self.released),
            "detached": list(self._detached),
            "query": self.query,
            "first_batch": self._first_batch,
            "epoch": self.epoch,
        }

    def _seen(self, channel: int) -> tuple[int, int]:
        """Messages sent on a channel and credits announced, by the receiver that lags most."""
        found = []
        for receiver in receivers_of(self.ledger):
            if receiver.group in self._detached:
                continue
            if channel in receiver.channels and self.index in receiver.sent:
                place = receiver.channels.index(channel)
                own = receiver.sent[self.index][place], receiver.announced[self.index][place]
                found.append(own)
        return min(found, default=(0, 0))
