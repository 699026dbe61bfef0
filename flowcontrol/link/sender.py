"""A sender's side of a link: what is done with the rows of a source batch.

Steps, and what a crash right after each one leaves:

1. What an earlier start left unreleased is released, before anything else begins.
2. Executors write files: orphans, which no commit names; the batch runs again.
3. The exchange log is committed: the batch runs again and finds its rows there.
4. Messages are released as receivers consume, a commit to the ledger each time: the batch runs
   again and releases the rest.
5. All are released and the batch ends. While it waits, Spark asks the source for nothing.

A function of foreachBatch does all of it; of a sink by name (:mod:`.writer`) tasks do step 2.
"""

import threading
import time
from collections.abc import Callable, Sequence

from flowcontrol.errors import DamagedError, LinkError
from flowcontrol.ledger.link_index import PackedRows
from flowcontrol.ledger.link_ledger import LinkLedger
from flowcontrol.ledger.link_log import LinkFiles, Newest
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.members import check_not_draining
from flowcontrol.link.output import LinkOutput
from flowcontrol.link.schema import columns_of
from flowcontrol.link.sender_place import (
    HOW_TO_RESET,
    Start,
    check_query,
    joined_start,
    own_index,
    replaced_queries,
)
from flowcontrol.link.settings import LinkSettings, Presence, altered
from flowcontrol.spark.crash_points import CrashPoint, crash_point

# --- A thread that goes on releasing when a sender's batch has ended with messages that wait.


class BackgroundRelease:
    """Repeats a step until nothing waits.

    - ``lock``: the sender's. Each step holds it, and so does the end of the thread: a caller that
      adds messages sees either a running thread or none.
    - ``step``: releases what it can: True if it did, False if it could not, None if nothing waits.
    - ``waits_s``: shortest and longest pause between two steps, seconds.
    """

    def __init__(
        self, lock: threading.RLock, step: Callable[[], bool | None], waits_s: tuple[float, float]
    ) -> None:
        self._lock, self._step, self._waits_s = lock, step, waits_s
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None

    @property
    def is_running(self) -> bool:
        """Whether the thread is at work."""
        return self._thread is not None

    def start(self) -> None:
        """Start the thread unless it runs."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="flowcontrol-release", daemon=True
                )
                self._thread.start()

    def raise_failure(self) -> None:
        """Raise what ended the thread, once."""
        with self._lock:
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _run(self) -> None:
        shortest, longest = self._waits_s
        wait = shortest
        while (moved := self.try_step()) is not None:
            wait = shortest if moved else min(2 * wait, longest)
            time.sleep(wait)

    def try_step(self) -> bool | None:
        """Run a step; keep its failure for the query's next batch, which raises it."""
        with self._lock:
            try:
                moved = self._step()
            except Exception as error:
                moved, self._failure = None, error
            if moved is None:
                self._thread = None
            return moved


ASK_EVERY_S = 0.1
"""How often a blocked sender asks whether its query was stopped."""


class LinkSender:
    """One sender of a link; lives in the process that commits its batches.

    - ``reset``: whether a new checkpoint may go on under a name that another has used.
    - ``columns``: of its rows; by default all that the link has.
    - ``finishes``: whether it only releases what is written, also while the link is drained.
    - ``run``: a start of the query whose processes act one after the other: the first of them takes
      the sender's place, the others join it. None: this process acts alone.
    - ``epoch``: the start that must be joined; None: take the place if there is none to join.
    - ``output``: its channels.

    Raises LinkError if the name belongs to another checkpoint, or the link is being drained. Raises
    FencedError if the start that must be joined has lost the sender's place.
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
        finishes: bool = False,
        run: str | None = None,
        epoch: int | None = None,
    ) -> None:
        self._made, self.name, self.query = settings, name, query
        self._finishes, self._run = finishes, run
        self._lock = threading.RLock()
        member = f"sender/{name}"
        self.ledger = LinkLedger(storage.child("ledger"), member)
        self._check_name(reset=reset)
        joined = joined_start(self.ledger, query, run, epoch)
        if joined is None:
            self.epoch = self.ledger.claim()
            self._check_name(reset=reset)  # another may have come before the claim
        else:
            self.epoch = joined.epoch
        self._presence = Presence(storage)
        self._presence.check(at_once=True)
        index = self.index = own_index(self.ledger, name)
        self.files = LinkFiles(storage.child("exchange"), member, index, settings.buffer_bytes)
        carried = columns_of(settings.schema, self.ledger)
        self.files.schema = (
            len(carried.counts) - 1 if columns is None else carried.version_with(columns)
        )
        latest = self.ledger.latest
        state = {} if latest is None else latest.state
        none = [0] * settings.channels
        written, records = state.get("written", none), state.get("records", none)
        # Before anything is committed in place of what is missing.
        for channel, known in enumerate(zip(written, records, strict=True)):
            self.files.log.check_holds(index, channel, *known)
        if joined is None:
            self._start = Start(run, self.epoch, self._claim_log())
            crash_point(name, self.epoch, CrashPoint.AFTER_CLAIM)
        else:
            self._start = joined
            self.files.join(joined.log_epoch)
        next_batch = self.files.last_batch() + 1 if state else 0
        is_own = state.get("query") == query
        self._first_batch = state["first_batch"] if is_own else next_batch
        self._replaced = replaced_queries(state, query)
        self._acted_on = -1
        self._settled_at: float | None = None
        self._away_s = 0.0
        self.output = LinkOutput(settings, index, self.ledger, self.files.log)
        self._background = BackgroundRelease(self._lock, self._release_some, storage.waits_s)
        self._committed = -1 if latest is None else latest.batch_id
        # Rows that an earlier start wrote and did not count, as it was killed in between.
        logs = self.output.logs
        rows = [log.records - known for log, known in zip(logs, records, strict=True)]
        nbytes = [log.nbytes(known, log.end) for log, known in zip(logs, written, strict=True)]
        if joined is None or any(rows):
            self._commit(0, rows, nbytes)

    def _check_name(self, *, reset: bool) -> None:
        if not self._finishes:
            check_not_draining(self.ledger, self.name)
        is_shared = self._run is not None
        check_query(self.ledger, self.name, self.query, reset=reset, is_shared=is_shared)

    def _claim_log(self) -> int:
        """Claim the exchange log behind the ledger; return the epoch.

        Raises FencedError if another start has taken the sender's place meanwhile.
        """
        self.ledger.check_claim()  # one that was held up here would throw its successor out
        try:
            return self.files.claim()
        except DamagedError:
            self.ledger.check_claim()  # the newest rows are its successor's, of another index
            raise

    @property
    def settings(self) -> LinkSettings:
        """The link's settings, as this sender has seen them last."""
        return self.output.settings

    @property
    def channels(self) -> int:
        """Into how many channels it writes."""
        return self.output.channels

    @property
    def is_taken_over(self) -> bool:
        """Whether another process has committed as this sender: each does so as it starts."""
        newest = self.ledger.latest
        return newest is not None and newest.state["epoch"] != self.epoch

    def is_current(self) -> bool:
        """Whether this process was the last to act as the sender: what it holds is then the state.

        Of the processes of a start another may have acted since.
        """
        with self._lock:
            self.ledger.refresh()
            self.files.log.refresh()
            latest, newest = self.ledger.latest, self.files.log.newest(self.index)
            is_last = latest is not None and latest.batch_id == self._committed
            return is_last and newest.batch == self.files.last_batch()

    # ------------------------------------------------------------------ writing

    def is_written(
        self, batch_id: int, source: str | None = None, count: Callable[[], int] | None = None
    ) -> bool:
        """Whether the rows of a source batch are in the exchange log.

        - ``source``: what identifies its rows in the source, if that is known.
        - ``count``: returns how many rows it has; asked where the source does not identify them.

        Raises LinkError if the batch is older than the last one, or the last one had other rows:
        the checkpoint was put back.
        """
        with self._lock:
            last, newest = self.files.last_batch(), self.files.log.newest(self.index)
        # Without the lock: counting rows may take long.
        place = f"{self.ledger.storage}: sender {self.name!r}"
        return is_in_log(place, batch_id, self._first_batch, last, newest, source, count)

    def write(self, batch_id: int, files: Sequence[PackedRows], source: str | None = None) -> None:
        """Commit the rows of a source batch, and what identifies them, if there are any."""
        with self._lock:
            self._background.raise_failure()
            if not files:
                return
            rows, nbytes = [0] * self.channels, [0] * self.channels
            for file in files:
                for channel, pieces in file.channels:
                    rows[channel] += sum(piece[0] for piece in pieces)
                    nbytes[channel] += sum(piece[1] for piece in pieces)
            self.step()  # learn of new receivers before anything is trimmed
            crash_point(self.name, batch_id, CrashPoint.BEFORE_EXCHANGE)
            trimmable = dict(enumerate(self.output.trimmable()))
            self.files.commit(self._first_batch + batch_id, files, trimmable, source)
            crash_point(self.name, batch_id, CrashPoint.BEFORE_LEDGER)
            self._note_away()
            self.output.resize(self._away_s)
            self.output.release()
            self._commit(batch_id, rows, nbytes, self.output.consumed())
            crash_point(self.name, batch_id, CrashPoint.AFTER_LEDGER)

    # ------------------------------------------------------------------ releasing

    def settle(self, is_stopped: Callable[[], bool], *, spills: bool = True) -> bool:
        """Release what waits as receivers consume; return when at most ``spill_bytes`` wait.

        - ``is_stopped``: asked every 0.1 s, also while messages are released; then this returns at
          once.
        - ``spills``: whether ``spill_bytes`` counts: a thread of this process then releases the
          rest, so it must live on.

        Returns False if it was stopped: the rest is released at the next start.
        """

        def is_settled() -> bool:
            return self.waiting_bytes() <= (self.settings.spill_bytes if spills else 0)

        was_short = not is_settled()
        if not self._wait(is_settled, is_stopped):
            return False
        if was_short:
            self._settled_at = time.monotonic()
        if self.waiting_bytes():  # what spilled must not wait for the next batch
            self._background.start()
        return True

    def widen(self, is_stopped: Callable[[], bool]) -> bool:
        """Take more channels over if the link has them now; between two source batches.

        With a key its rows go to other channels from then on. So that they stay in order, all that
        was written before must be in the sinks first, and whoever reads from here on begins behind
        it: what lies before is announced as trimmed.

        Returns False if it was stopped before.
        """
        self.step()  # learn of what was altered
        output, wanted = self.output, self.settings.channels
        if wanted > self.channels:
            ends = [log.end for log in output.logs] if self.settings.key is not None else []
            if not self.wait_until_read(ends, is_stopped):
                return False
            with self._lock:
                output.widen(wanted, ends)
                none = [0] * wanted
                self._commit(-1, none, none, output.consumed() if ends else None)
        # A receiver that came between the last look and this commit begins before it.
        if not self.wait_until_read(output.barrier, is_stopped):
            return False
        output.barrier = []
        return True

    def wait_until_read(self, ends: Sequence[int], is_stopped: Callable[[], bool]) -> bool:
        """Wait until receivers have read the first channels so far; False if stopped before."""
        return self._wait(lambda: self._is_read(ends), is_stopped)

    def _wait(self, is_over: Callable[[], bool], is_stopped: Callable[[], bool]) -> bool:
        """Release what can be until something is over; whether it was when this was stopped."""
        shortest, longest = self.ledger.storage.waits_s
        wait, asked = shortest, time.monotonic()
        while not is_over():
            self._background.raise_failure()
            moved = self.step()
            if time.monotonic() - asked > ASK_EVERY_S:
                asked = time.monotonic()
                if is_stopped():
                    return is_over()
            if moved:
                wait = shortest
                continue
            time.sleep(wait)
            wait = min(2 * wait, longest)
        self._background.raise_failure()  # it may have released what it could not commit
        return True

    def is_all_read(self) -> bool:
        """Whether receivers have read all that is written."""
        return self._is_read([log.end for log in self.output.logs])

    def _is_read(self, ends: Sequence[int]) -> bool:
        if not ends:
            return True
        with self._lock:
            self.ledger.refresh()
            return all(done >= end for done, end in zip(self.output.consumed(), ends, strict=False))

    def _note_away(self) -> None:
        """Measure how long nothing was released, if the batch before waited for buffers.

        One that did not wait may have been followed by a pause of the source.
        """
        if self._settled_at is not None:
            away_s = time.monotonic() - self._settled_at
            self._away_s = away_s if not self._away_s else (self._away_s + away_s) / 2
        self._settled_at = None

    def step(self) -> bool:
        """Act on what receivers and settings have committed; whether that released anything."""
        with self._lock:
            output = self.output
            self.ledger.refresh()
            if self.ledger.version == self._acted_on:
                self._presence.check()
                return False
            # The commit below reads the ledger as well: what it finds is left for the next step.
            self._acted_on = self.ledger.version
            if not self._finishes:
                check_not_draining(self.ledger, self.name)
            output.adopt(altered(self._made, self.ledger))
            before = list(output.released), list(output.detached)
            output.detach()
            output.recycle()
            output.resize(self._away_s)
            output.release()
            if (output.released, output.detached) == before:
                return False
            number = self.ledger.next_number
            crash_point(self.name, number, CrashPoint.BEFORE_RELEASE)
            none = [0] * self.channels
            self._commit(-1, none, none)
            crash_point(self.name, number, CrashPoint.AFTER_RELEASE)
            return True

    def _release_some(self) -> bool | None:
        """Release what can be; None if nothing waits."""
        return self.step() if self.waiting_bytes() else None

    def waiting_bytes(self) -> int:
        """Return the bytes that are written and not released."""
        with self._lock:
            return self.output.waiting_bytes()

    def _commit(
        self,
        batch_id: int,
        rows: Sequence[int],
        nbytes: Sequence[int],
        trimmed: list[int] | None = None,
    ) -> None:
        """Commit what is written and released now, and announce what is trimmed next."""
        output = self.output
        output.note_times()
        trimmed = output.trimmed if trimmed is None else trimmed
        who = {"query": self.query, "epoch": self.epoch}
        task = {"name": self.name, **who, "source_batch": batch_id, "detached": output.detached}
        own = {**who, "first_batch": self._first_batch, "trimmed": trimmed}
        if self._run is not None:
            own |= {"run": self._run, "log_epoch": self._start.log_epoch}
        if self._replaced:
            own["replaced"] = self._replaced
        state = {**output.state(), **own}
        self._committed = self.ledger.commit(output.rows(rows, nbytes, task), state)
        output.trimmed = trimmed
        output.forget()


def is_in_log(
    sender: str,
    batch_id: int,
    first_batch: int,
    last: int,
    newest: Newest,
    source: str | None,
    count: Callable[[], int] | None,
) -> bool:
    """Whether the rows of a source batch are in the exchange log.

    - ``sender``: its place and name, for errors.
    - ``first_batch``: number in the log of batch 0 of the query.
    - ``last``: number of the last batch in the log; ``newest`` is what the log has of it.
    - ``source``, ``count``: as :meth:`LinkSender.is_written` has them.

    Raises LinkError as that does.
    """
    number = first_batch + batch_id
    if number < last:
        raise LinkError(
            f"{sender} runs batch {batch_id} again, but batch {last - first_batch} is in the link: "
            "its checkpoint was put back to an earlier time. Use the newest one, or another name"
        )
    if number == last:
        _check_same(sender, batch_id, newest, source, count)
    return number == last


def _check_same(
    sender: str, batch_id: int, known: Newest, source: str | None, count: Callable[[], int] | None
) -> None:
    """Make sure that a batch that runs again has the rows that are in the link.

    ``count``: returns how many rows it has; asked where one of the two does not identify them.

    Raises LinkError if it has other rows.
    """
    if source and known.source:
        here, there = f"the source's offsets {source}", f"the source's offsets {known.source}"
    elif count is not None:
        here, there = f"{count()} rows", f"{known.rows} rows"
    else:
        return
    if here != there:
        raise LinkError(
            f"{sender} runs batch {batch_id} again with other rows: it has {here}, the batch "
            f"{batch_id} that is in the link had {there}. Its checkpoint was put back by a batch "
            "and the source has gone on. Nothing was written: use the newest checkpoint; if that "
            f"is lost, a new one with {HOW_TO_RESET}; then the source's rows come again from its "
            "start"
        )
