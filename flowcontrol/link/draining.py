"""Take a link out of a pipeline: senders stop, receivers read to the end, the pipeline goes on.

A mark in the ledger keeps senders out: one that starts finds it behind its own claim, one that runs
before its next commit. The drain takes the place of each and releases what it has left. A sender's
query may have ended when its batch was in the link and Spark had not noted it. So the function that
takes the link's place asks the log first whether a batch is there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flowcontrol.errors import FencedError, LinkError
from flowcontrol.ledger.link_ledger import LinkLedger, LinkLedgerView, create_ledger
from flowcontrol.ledger.link_log import LinkFiles
from flowcontrol.link.folder import EXCHANGE, LEDGER, figures_of, unread_of
from flowcontrol.link.members import drain_of, receivers_of, senders_of, view_of
from flowcontrol.link.sender import LinkSender, is_in_log
from flowcontrol.link.settings import DRAINING, LinkSettings, no_link, read_settings
from flowcontrol.spark.crash_points import CrashPoint, crash_point

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from flowcontrol.ledger.storage import Storage

REPORT_EVERY_S = 5.0
"""How often a drain that waits says for whom, if that has changed."""


def drain(storage: Storage, *, wait_s: float | None = None) -> Iterator[str]:
    """Keep senders out, and wait until receivers have read all; yield who is waited for.

    A kill leaves the mark, and the next call goes on.

    ``wait_s``: how long to wait; None waits for ever.

    Raises LinkError if there is no link, nobody reads its rows, another process drains the link or
    lets senders in again, or receivers have not read all in time.
    """
    settings = read_settings(storage)
    if settings is None:
        raise no_link(storage)
    ledger = storage.child(LEDGER)
    create_ledger(ledger)
    mark = LinkLedger(ledger, DRAINING)
    try:
        epoch = mark.claim()
        mark.commit([], {"is_draining": True, "is_drained": False})
        crash_point("drain", 0, CrashPoint.STEP)
        if senders_of(mark):
            until = None if wait_s is None else time.monotonic() + wait_s
            yield from _finish(storage, settings, mark, epoch, until)
        mark.commit([], {"is_draining": True, "is_drained": True})
    except FencedError as error:
        raise LinkError(
            f"the link {storage} is not drained: another process drains it now, or lets senders in "
            "again (--undo)"
        ) from error
    finally:
        mark.close()


def undo_drain(storage: Storage) -> None:
    """Let senders into a link again: their queries go on with their checkpoints.

    Raises LinkError if the link is not being drained.
    """
    if drain_of(view_of(storage)) is None:
        raise LinkError(f"the link {storage} is not being drained: there is nothing to undo")
    mark = LinkLedger(storage.child(LEDGER), DRAINING)
    try:
        mark.claim()
        mark.commit([], {"is_draining": False, "is_drained": False})
    finally:
        mark.close()


def _finish(
    storage: Storage, settings: LinkSettings, mark: LinkLedger, epoch: int, until: float | None
) -> Iterator[str]:
    """Release what senders have left, in their place, until receivers have read all of it."""
    senders = dict[str, LinkSender]()
    shortest, longest = storage.waits_s
    wait, reported, report_at = shortest, "", time.monotonic() + REPORT_EVERY_S
    try:
        while True:
            mark.refresh()
            newest, _ = mark.starts[DRAINING]
            if newest != epoch:
                raise FencedError(
                    f"{mark.storage}: {DRAINING} has been taken over (epoch {newest}, this one is "
                    f"{epoch})"
                )
            _take_places(storage, settings, mark, senders)
            try:
                steps = [sender.step() for sender in senders.values()]  # every one of them
                moved = any(steps)
                if all(one.is_all_read() for one in senders.values()):
                    return
            except FencedError:  # a query has started again; it finds the mark and ends
                moved = False
            _check_read_by_somebody(storage, mark)
            now = time.monotonic()
            is_late = until is not None and now > until
            if is_late or now > report_at:
                waits = "; ".join(unread_of(figures_of(storage)))
                if is_late:
                    raise LinkError(
                        f"the link {storage} is not drained yet: {waits or 'its last batch runs'}. "
                        "Its senders stay out: start the receivers' queries, and run the same "
                        "command again; or let senders in again with --undo (undo=True)"
                    )
                report_at = now + REPORT_EVERY_S
                if waits != reported:
                    reported = waits
                    yield f"waiting: {waits or 'the last batch of a receiver runs'}"
            wait = shortest if moved else min(2 * wait, longest)
            time.sleep(wait)
    finally:
        for sender in senders.values():
            sender.ledger.close()


def _take_places(
    storage: Storage, settings: LinkSettings, view: LinkLedgerView, senders: dict[str, LinkSender]
) -> None:
    """Open each sender that is not, or whose query has started again meanwhile."""
    for known in senders_of(view):
        sender = senders.get(known.name)
        if known.is_removed or (sender is not None and not sender.is_taken_over):
            continue
        if sender is not None:
            sender.ledger.close()
        query = view.members[f"sender/{known.name}"].state["query"]
        senders[known.name] = LinkSender(
            storage, settings, known.name, query, reset=True, finishes=True
        )


def _check_read_by_somebody(storage: Storage, view: LinkLedgerView) -> None:
    if not receivers_of(view):
        raise LinkError(
            f"the link {storage} is not drained: it has no receivers, so nobody reads the rows in "
            "it. Start one and run the same command again, or delete the link"
        )


class Bypass:
    """The foreachBatch function of a sender's query behind a drained link.

    - ``name``: of the sender.
    - ``function``: takes the rows of a source batch that is not in the link, and its number.
    """

    def __init__(
        self, storage: Storage, name: str, function: Callable[[DataFrame, int], None]
    ) -> None:
        self.storage, self.name, self.function = storage, name, function
        self._passed: str | None = None
        """The query whose batches are behind those in the link."""

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Call the function unless receivers have had the batch.

        Raises LinkError if the link is not drained, the query is not the sender's, or its
        checkpoint was put back.
        """
        from flowcontrol.link.batches import QUERY_ID, local_property  # with pyspark

        query = local_property(rows, QUERY_ID) or f"sender {self.name}"
        if query != self._passed:
            if self._is_in_link(rows, batch_id, query):
                return
            self._passed = query
        self.function(rows, batch_id)

    def _is_in_link(self, rows: DataFrame, batch_id: int, query: str) -> bool:
        from flowcontrol.link.batches import checkpoint_of

        settings = read_settings(self.storage)
        if settings is None:
            raise LinkError(
                f"{self.storage}: there is no link here any more: start the query with the "
                "function itself in place of link.bypass(...)"
            )
        view = view_of(self.storage)
        if drain_of(view) != "done":
            raise LinkError(
                f"{self.storage}: the link is not drained: run flowcontrol link drain "
                f"{self.storage} first, and start this query when that has ended"
            )
        latest = view.members.get(f"sender/{self.name}")
        if latest is None or latest.state["query"] != query:
            names = ", ".join(one.name for one in senders_of(view)) or "none"
            raise LinkError(
                f"{self.storage}: query {query} has not sent as {self.name!r} (senders: {names}): "
                "give it the sender's name and checkpoint, or its rows come again; if the link has "
                "never had a batch of it, start it with the function itself"
            )
        index, place = latest.state["index"], f"{self.storage}: sender {self.name!r}"
        files = LinkFiles(
            self.storage.child(EXCHANGE), f"sender/{self.name}", index, settings.buffer_bytes
        )
        checkpoint = checkpoint_of(rows, query)
        return is_in_log(
            place,
            batch_id,
            latest.state["first_batch"],
            files.last_batch(),
            files.log.newest(index),
            None if checkpoint is None else checkpoint.digest(batch_id),
            rows.count,
        )
