"""Commit files to a Delta table through delta-rs, once per transaction.

delta-rs *records* an application transaction and does not *enforce* it, and a handle does not
move with its own commit. So every commit goes: bring the handle up to date, look whether the
transaction is there, commit on that same handle. One writer a side makes this safe: whoever
else commits (the other side of a link) never uses this side's application id.

Where a second writer of the same side may turn up (a job started twice, a zombie that was thought
dead), a writer *claims* its side first and takes a higher **epoch** (Flink's fencing token), an
application transaction of its own that every later commit repeats. delta-rs refuses a commit whose
transactions another commit has touched since the handle was last brought up to date, so between
the look at the epoch and the commit nobody can slip in.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from flowcontrol.errors import DamagedError, FencedError, LedgerError
from flowcontrol.ledger.appending import UNLINKED, Appender, claimed, has_hard_links
from flowcontrol.ledger.log import EPOCH, NewFile, noted_checkpoint
from flowcontrol.ledger.storage import Storage, as_storage, damaged, has_gap

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction


# --- Read a table's log again when its listing had a hole.
#
# delta-rs lists the folder of a log. While others write commits and clean old ones away, no file
# system lists a folder as it is at one moment: a file may be left out although a later one is
# there. So a gap is an error only if it stays.


WAITS_S = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Waiting times before further attempts, seconds."""

_CLEANED = re.compile(
    r"not found\b.*_delta_log|_delta_log.*\bnot found|Invalid table version", re.IGNORECASE
)
T = TypeVar("T")


def is_cleaned(error: Exception) -> bool:
    """Whether a file of the log that a handle has listed is gone: others have cleaned it away."""
    return _CLEANED.search(str(error)) is not None


def listed(place: object, look: Callable[[], T]) -> T:
    """Read a table's log; retry while it cannot be read.

    ``look``: reads the log through delta-rs; it may be repeated.

    Raises DamagedError if it stays so: of a gap with the name of the commit that is missing.
    """
    from deltalake.exceptions import DeltaError

    for wait_s in WAITS_S:
        with suppress(DeltaError, OSError):
            return look()
        time.sleep(wait_s)
    try:
        return look()
    except (DeltaError, OSError) as error:
        raise damaged(place, error) from error


CHECKPOINT_EVERY = 25
"""Commits between checkpoints: without them reading the log grows with its age (measured: from
9 to 90 ms within 600 commits). A commit costs more the more commits there are since the last one:
with 10 to 600 files in a table 7 to 10 ms of CPU at 25, 11 to 19 ms at 100; 12 gained nothing."""

ATTEMPTS = 20
"""Times that a commit is tried: one that removes files conflicts with the other side's."""

HELD_UP_S = 20.0
"""How long after a look a commit is sure to lie where others read on: commits stay for a minute."""

LOG_KEPT = "interval 60 seconds"
"""How long commits stay in the log once a checkpoint covers them. Neighbours lag by one round."""

# Of ledgers and exchange logs, whose files and commits are of no use to anybody once they are
# consumed. A table that users read keeps Delta's own defaults: time travel, and files that a VACUUM
# leaves to whoever is reading them.
CONFIGURATION = {
    "delta.logRetentionDuration": LOG_KEPT,
    "delta.deletedFileRetentionDuration": "interval 0 seconds",
    "delta.checkpointInterval": str(1 << 30),
}


def create_table(
    path: Path | Storage,
    schema: pa.Schema,
    description: str,
    partition_by: Sequence[str] = (),
    *,
    for_users: bool = False,
) -> None:
    """Create an empty Delta table unless it is there.

    ``for_users``: a table that users read has Delta's own defaults, no retention of ours.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import CommitFailedError

    storage = as_storage(path)

    def is_there() -> bool:
        return DeltaTable.is_deltatable(str(path), storage_options=storage.options or None)

    if is_there():
        return

    def create(more: Mapping[str, str]) -> None:
        DeltaTable.create(
            str(path),
            storage_options={**storage.options, **more} or None,
            schema=schema,
            mode="ignore",
            description=description,
            partition_by=list(partition_by),
            configuration={} if for_users else dict(CONFIGURATION),
        )

    if storage.is_local:
        Path(storage.root).mkdir(parents=True, exist_ok=True)
    if _is_linked(storage):
        try:
            create({})
        except CommitFailedError:
            if not is_there():  # else another was first: the "protocol changed" under this one
                raise
        return
    with claimed(storage.root, 0) as is_ours:
        if is_ours:
            create(UNLINKED)


def _is_linked(storage: Storage) -> bool:
    """Whether delta-rs can commit by itself: in a store, and where there are hard links."""
    return not storage.is_local or has_hard_links(storage.root)


def commit_options(storage: Storage) -> dict[str, str]:
    """Return delta-rs's options to commit to a table that only one process writes."""
    return {**storage.options, **({} if _is_linked(storage) else UNLINKED)}


class Writer:
    """One side's commits to one table.

    - ``path``: the table; it exists.
    - ``app_id``: application id of this side; its versions are batch ids.
    - ``for_users``: checkpoint and clean the log as the table's properties say (delta-rs does), not
      as often as a ledger needs it.
    - ``appends``: nobody else ever commits under the application id: commits are files of the log,
      where the file system has hard links (:mod:`flowcontrol.ledger.appending`).
    - ``epoch``: what :meth:`claim` took; None for a writer that cannot have a rival.
    - ``seen``: a commit of the table before the last one that this writer, or its epoch, has made.
    """

    def __init__(
        self, path: Path | Storage, app_id: str, *, for_users: bool = False, appends: bool = False
    ) -> None:
        self.path, self.app_id, self._for_users = path, app_id, for_users
        self._storage = as_storage(path)
        self._is_linked = _is_linked(self._storage)
        self._table = listed(path, self._opened)
        self.epoch: int | None = None
        self.seen = -1
        self._fields = self._table.schema()
        self._partition_by = self._table.metadata().partition_columns
        self._last: int | None = None
        self._is_in_doubt = False
        self._looked_at = time.monotonic(), time.time()
        self._since_checkpoint = 0
        self._appender: Appender | None = None
        if appends and isinstance(path, Path) and self._is_linked:
            self._appender = Appender(path, app_id, self._partition_by)

    def _opened(self) -> DeltaTable:
        from deltalake import DeltaTable

        options = {**self._storage.options, **({} if self._is_linked else UNLINKED)}
        return DeltaTable(str(self.path), storage_options=options or None)

    def _update(self) -> None:
        """Bring the handle up to date."""
        from deltalake.exceptions import DeltaError

        self._looked_at = time.monotonic(), time.time()

        def look() -> None:
            try:
                self._table.update_incremental()
            except (DeltaError, OSError):  # what it would go on from may be cleaned away
                self._table = self._opened()

        listed(self.path, look)

    def last_batch(self) -> int:
        """Return the last batch that this side has committed; -1 before the first."""
        if self._last is None:
            self._repeat("a look at the last batch", self._look_at_last)
        assert self._last is not None
        return self._last

    def _look_at_last(self) -> bool:
        self._update()
        version = self._table.transaction_version(self.app_id)
        self._last = -1 if version is None else version
        return True

    def claim(self) -> int:
        """Take this side over: whoever wrote it before can commit no more.

        Returns the new epoch, 1 for the first.
        """
        self._repeat("a claim", self._try_claim)
        assert self.epoch is not None
        return self.epoch

    def _try_claim(self) -> bool:
        self._update()
        self.epoch = (self._table.transaction_version(self._fence) or 0) + 1
        self._transact([], {self._fence: self.epoch})
        return True

    def check_claim(self) -> None:
        """Make sure that nobody has claimed this side since; a look, which a commit repeats.

        Raises FencedError if another has.
        """

        def look() -> bool:
            self._update()
            self._check_epoch()
            return True

        self._repeat("a look at the epoch", look)

    def join(self, epoch: int) -> bool:
        """Write with an epoch that another process of this side has claimed.

        Returns False if there is a newer one.
        """
        self._repeat("a look at the epoch", self._look_at_last)
        if self._table.transaction_version(self._fence) != epoch:
            return False
        self.epoch, self.seen = epoch, self._table.version() - 1
        return True

    @property
    def _fence(self) -> str:
        """Application id of the epoch."""
        return f"{self.app_id}{EPOCH}"

    def commit(
        self, batch_id: int, adds: Sequence[NewFile], removes: Sequence[NewFile] = ()
    ) -> bool:
        """Commit files as one transaction, unless this batch has been committed already.

        What it removes is deleted once that is committed.

        Returns False if the batch, or a later one, was there: nothing was committed. Raises
        LedgerError if other commits got in between again and again. Raises FencedError if another
        writer has claimed this side.
        """
        from deltalake.exceptions import DeltaError

        self._is_in_doubt = False
        done = self._repeat(f"batch {batch_id}", lambda: self._commit_once(batch_id, adds, removes))
        self._last = batch_id if done else self._last
        self._since_checkpoint += done
        if self._since_checkpoint >= CHECKPOINT_EVERY and not self._for_users:
            # The commit counts; the next one tries again, or finds what is damaged.
            with suppress(OSError, DeltaError, DamagedError):
                self.checkpoint()
        for gone in removes if done else ():
            with suppress(OSError):  # no commit names it any more: a sweep finds it
                self._storage.delete(gone.path)
        return done

    def _commit_once(
        self, batch_id: int, adds: Sequence[NewFile], removes: Sequence[NewFile]
    ) -> bool:
        from deltalake.exceptions import DeltaError

        if self._appender is not None and self._appender.is_followed:
            return self._append(self._appender, batch_id, adds, removes)
        self._update()
        self._check_epoch()
        seen = self._table.transaction_version(self.app_id)
        self._last = -1 if seen is None else seen
        if self._last >= batch_id:
            # After its commit delta-rs looks at the log. If that fails, the commit may be there; it
            # is ours if nobody else can have made it.
            return self._is_in_doubt and self.epoch is not None and self._last == batch_id
        if self._appender is not None:
            self._appender.begin(self._table.version(), self._last)
            return self._append(self._appender, batch_id, adds, removes)
        try:
            self._try_commit(batch_id, adds, removes)
        except DeltaError as error:
            self._is_in_doubt |= may_pass(error)
            raise
        return True

    def _append(
        self, log: Appender, batch_id: int, adds: Sequence[NewFile], removes: Sequence[NewFile]
    ) -> bool:
        done = log.append(batch_id, adds, removes)
        if done is None:
            is_ours = log.is_in_doubt  # if it turns out to be there
            if not is_ours:  # the table is not what it was: delta-rs knows
                self._appender = None
            return self._commit_once(batch_id, adds, removes) or is_ours
        self._last = log.last
        return done

    def _check_epoch(self) -> None:
        if self.epoch is None:
            return
        newest = self._table.transaction_version(self._fence)
        if newest != self.epoch:
            raise FencedError(
                f"{self.path}: {self.app_id} has been taken over (epoch {newest}, this one is "
                f"{self.epoch}): it runs twice, or was started again while this process lived; "
                "stop one of them"
            )

    def _repeat(self, what: str, attempt: Callable[[], bool]) -> bool:
        """Try until no other commit gets in between, and the log is listed whole."""
        from deltalake.exceptions import CommitFailedError, DeltaError

        # delta-rs itself tries 15 times where it has hard links.
        attempts = ATTEMPTS if self._is_linked else 15 * ATTEMPTS
        for number in range(1, attempts + 1):
            try:
                return attempt()
            except DeltaError as error:
                if not isinstance(error, CommitFailedError) and not may_pass(error):
                    raise
                if is_cleaned(error):
                    self._table = listed(self.path, self._opened)
                if number == attempts:
                    raise LedgerError(
                        f"{self.path}: {what} failed in {attempts} attempts: {error}"
                    ) from error
        raise AssertionError("unreachable")

    def _try_commit(
        self, batch_id: int, adds: Sequence[NewFile], removes: Sequence[NewFile]
    ) -> None:
        from deltalake.transaction import AddAction, RemoveAction

        now = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            AddAction(f.path, f.nbytes, dict(f.partition), now, True, _json(f)) for f in adds
        ]
        actions += [RemoveAction(f.path, True, now, f.nbytes, dict(f.partition)) for f in removes]
        versions = {self.app_id: batch_id}
        if self.epoch is not None:
            versions[self._fence] = self.epoch
        self._transact(actions, versions)

    def _transact(
        self, actions: Sequence[AddAction | RemoveAction], versions: Mapping[str, int]
    ) -> None:
        """Commit; without hard links only the number that this process has claimed.

        Raises CommitFailedError if the process was held up meanwhile: others may have cleaned the
        log, and its number was free again. The next look shows whether the commit counts.
        """
        from deltalake.exceptions import CommitFailedError

        seen = self.seen = self._table.version()
        if self._is_linked:
            before = self._looked_at
            self._write(actions, versions)
            self._check_counts(seen, versions if actions else {})
            if max(time.monotonic() - before[0], time.time() - before[1]) > HELD_UP_S:
                self._is_in_doubt = True
                raise CommitFailedError("the commit took so long that the log may be another")
            return
        with claimed(str(self.path), seen + 1) as is_ours:
            if is_ours:  # also if that commit was cleaned away since it was made
                self._update()
            if not is_ours or self._table.version() != seen:
                raise CommitFailedError(f"commit {seen + 1} is there: another was first")
            self._write(actions, versions, max_commit_retries=0)

    def _check_counts(self, seen: int, own: Mapping[str, int]) -> None:
        """Make sure that a commit behind the one seen is not behind a checkpoint without it.

        One whose clock is ahead may have cleaned the log since, and a number was free again.

        ``own``: transactions that only this commit has; none if it takes an epoch or a number,
        which another process may have taken at once.

        Raises CommitFailedError if it is, or may be.
        """
        from deltalake.exceptions import CommitFailedError

        if noted_checkpoint(self._storage) <= seen:
            return
        if not own:
            self._is_in_doubt = True
            raise CommitFailedError("others have written a checkpoint since the last look")
        self._table = listed(self.path, self._opened)
        for app, version in own.items():
            counted = self._table.transaction_version(app)
            if counted is None or counted < version:
                raise CommitFailedError("the commit lies behind a checkpoint without it")

    def _write(
        self,
        actions: Sequence[AddAction | RemoveAction],
        versions: Mapping[str, int],
        max_commit_retries: int | None = None,
    ) -> None:
        from deltalake import CommitProperties, PostCommitHookProperties, Transaction
        from deltalake.exceptions import CommitFailedError, DeltaError

        try:
            self._table.create_write_transaction(
                list(actions),
                mode="append",
                schema=self._fields,
                partition_by=self._partition_by or None,
                commit_properties=CommitProperties(
                    max_commit_retries=max_commit_retries,
                    app_transactions=[
                        Transaction(app, version) for app, version in versions.items()
                    ],
                ),
                post_commithook_properties=None
                if self._for_users
                else PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False),
            )
        except DeltaError as error:
            if isinstance(error, CommitFailedError) or may_pass(error):
                raise
            raise damaged(self.path, error) from error

    def checkpoint(self) -> None:
        """Write a checkpoint and clean the log behind it."""
        self._update()
        listed(self.path, self._table.create_checkpoint)
        # The other side may be cleaning up too: what one deletes, the other does not find.
        with suppress(FileNotFoundError):
            self._table.cleanup_metadata()
        self._since_checkpoint = 0


def may_pass(error: Exception) -> bool:
    """Whether the log may be whole at the next look: others write and clean it meanwhile."""
    return has_gap(error) or is_cleaned(error)


def _json(file: NewFile) -> str:
    """Return a file's statistics as the log keeps them."""
    return json.dumps({"numRecords": file.rows, **file.stats}, separators=(",", ":"))
