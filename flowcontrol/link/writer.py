"""The sink ``flowcontrol``: a sender as a data source to which Spark writes a stream.

Spark makes a writer twice a micro-batch, each time in a process of the driver's side that it keeps
for a minute; what a sender does is shared out between them and the tasks:

1. :func:`prepare`, before the tasks: takes the sender's place if no start of the query has it,
   releases what an earlier start left, takes over more channels. The writer then carries the epoch,
   the sender's number and its channels to the tasks.
2. :meth:`LinkWriter.write`, in each attempt at a task: writes files, and waits for nobody. Those of
   an attempt whose message Spark drops are named by no commit.
3. :meth:`LinkWriter.commit`: joins the epoch that the messages carry, commits the batch unless it
   is in the link, and releases messages until none waits. Meanwhile Spark plans nothing.

Executors import this module as well.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

from flowcontrol.errors import LinkError, StoppedError
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.checkpoint import METADATA, Checkpoint
from flowcontrol.link.members import check_name
from flowcontrol.link.options import number, stored_options, truth
from flowcontrol.link.packing import PackRows, packed_rows
from flowcontrol.link.settings import DEFAULTS, LinkSettings, read_made, read_setting, schema_json
from flowcontrol.spark.crash_points import CrashPoint, crash_point
from flowcontrol.spark.writer import ArrowSink, is_committing

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from flowcontrol.ledger.link_ledger import LinkLedgerView
    from flowcontrol.link.sender import LinkSender


# --- The options of a sink.


OWN = ("path", "name", "wait_s", "reset", "evolve_schema", "storage_options")
"""Options beside the link's settings."""

SPARKS = ("checkpointlocation", "queryname")
"""What Spark hands on, in lower case."""

ALIKE = 0.8
"""From here on a name is taken for a known one that was mistyped; others may be Spark's."""


@dataclass(frozen=True)
class SinkOptions:
    """Options of a sink."""

    storage: Storage  # The link's folder
    name: str  # The sender's
    checkpoint: str  # Folder of the query's checkpoint
    given: Mapping[str, Any]  # Settings of the link that are stated
    evolves: bool  # Whether the link may take columns that it does not have
    reset: bool  # Whether a new checkpoint may take the name over
    wait_s: float  # How long to wait while no receiver takes anything; inf: for ever

    def query(self) -> str:
        """Return the identity of the query.

        Raises LinkError if its checkpoint is not where the option says.
        """
        found = Checkpoint(self.checkpoint).query()
        if found is None:
            raise LinkError(
                f"the sink of {self.storage} finds no file {METADATA} in {self.checkpoint}, which "
                "is no checkpoint of a query then: give .option('checkpointLocation', ...) as a "
                "folder of this machine, or with its scheme (s3://..., hdfs://...)"
            )
        return found


def read_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Read the options of a sink, names in any case.

    ``path`` of the link; ``name`` of the sender, by default that of the query; ``wait_s``, how long
    a batch waits while no receiver takes anything (by default for ever); ``reset`` (``true``);
    ``evolve_schema`` (``true``); ``storage_options``, JSON; the settings of ``Link`` as texts.

    Raises LinkError: naming everything that is wrong.
    """
    stated = {key.lower(): value for key, value in options.items()}
    if not stated.get("path"):
        raise LinkError("a link's path is missing: .option('path', ...) of the sink")
    wrong = [*_wrong_names(stated)]
    wait = number("wait_s", stated.get("wait_s", "inf"), wrong)
    if wait is not None and wait < 0:
        wrong.append(f"wait_s is {wait:g}: needs seconds, at least 0")
    stored = stored_options(stated.get("storage_options", "{}"), wrong)
    name = stated.get("name", stated.get("queryname", ""))
    if not name:
        wrong.append("a sender's name is missing: .option('name', ...)")
    else:
        try:
            check_name("sender", name)
        except LinkError as error:
            wrong.append(str(error))
    reset, evolves = (truth(one, stated, wrong) for one in ("reset", "evolve_schema"))
    checkpoint = stated.get("checkpointlocation", "")
    if not checkpoint:
        wrong.append(
            "the query's checkpoint is not known, by which its batches are: give it as "
            ".option('checkpointLocation', ...), not as a setting of the session"
        )
    if wrong:
        raise LinkError(f"the sink of {stated['path']} is refused: {'; '.join(wrong)}")
    return SinkOptions(
        storage=Storage(stated["path"], stored),
        name=name,
        checkpoint=str(Storage(checkpoint)),
        given={one: read_setting(one, stated[one]) for one in DEFAULTS if one in stated},
        evolves=evolves,
        reset=reset,
        wait_s=float("inf") if wait is None else wait,
    )


def _wrong_names(stated: Mapping[str, str]) -> Iterator[str]:
    known = [*OWN, *SPARKS, *DEFAULTS]
    for name in stated:
        alike = [] if name in known else difflib.get_close_matches(name, known, 1, ALIKE)
        if alike:
            yield f"{name} is not an option: did you mean {alike[0]}?"


# --- Before the tasks.


class Ticket(NamedTuple):
    """What tasks need to write a batch."""

    epoch: int  # Of the start that the batch belongs to
    work: PackRows


class Target:
    """A link as the sinks of this process write into it."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        from flowcontrol.ledger.link_ledger import LinkLedgerView
        from flowcontrol.link.folder import LEDGER, agree, make_tables
        from flowcontrol.link.key_hash import unhashed

        storage, text = options.storage, schema_json(schema)
        self.settings: LinkSettings = agree(storage, options.given, text, evolve=options.evolves)
        for name in self.settings.key or ():
            for why in unhashed(schema[name].dataType):
                raise LinkError(
                    f"the link {storage} cannot route these rows: key {name!r} is of the type "
                    f"{schema[name].dataType.simpleString()}, and {why}: choose another key"
                )
        make_tables(storage, self.settings)
        self.view: LinkLedgerView = LinkLedgerView(storage.child(LEDGER))


def made_at(storage: Storage) -> LinkSettings:
    """Return the settings with which a link in use was made.

    Raises LinkError if it was moved or deleted.
    """
    made = read_made(storage)
    if made is None:
        raise LinkError(f"{storage}: the link was deleted while this query ran")
    return made


_targets: dict[tuple[str, str, str], Target] = {}


def _target(options: SinkOptions, schema: StructType) -> Target:
    key = str(options.storage), schema.json(), repr(options.given)
    found = _targets.pop(key, None)
    if found is None or made_at(options.storage).link_id != found.settings.link_id:
        found = Target(options, schema)
    _targets[key] = found
    return found


def prepare(options: SinkOptions, schema: StructType) -> Ticket:
    """Make sure that a batch may be written, and return what tasks need for it.

    Raises LinkError if the rows have other columns than the link, the name belongs to another
    checkpoint, or no receiver takes what waits in time.
    """
    from flowcontrol.link.event_time import check_event_column
    from flowcontrol.link.folder import EXCHANGE
    from flowcontrol.link.schema import types_of
    from flowcontrol.link.settings import altered

    target, storage = _target(options, schema), options.storage
    query = options.query()
    target.view.refresh()
    member = f"sender/{options.name}"
    latest = target.view.members.get(member)
    settings = altered(target.settings, target.view)
    newest, _ = target.view.starts.get(member, (0, 0.0))
    if latest is not None and not options.reset:
        _check_not_refreshed(options, latest.state["query"], query)
    if latest is None or not _is_at_rest(latest.state, query, settings.channels, newest):
        sender = _opened(options, settings, query, schema.fieldNames(), None)
        try:
            patience = Patience(options, sender)
            sender.settle(patience, spills=False)
            sender.widen(patience)
        finally:
            sender.ledger.close()
        settings, epoch, index, channels = (
            sender.settings, sender.epoch, sender.index, sender.channels
        )  # fmt: skip
    else:
        epoch, index = latest.state["epoch"], latest.state["index"]
        channels = len(latest.state["released"])
    work = PackRows(
        storage.child(EXCHANGE), index, settings.buffer_bytes, channels=channels, key=settings.key
    )
    work.event_time_column = settings.event_time_column
    check_event_column(str(storage), work.event_time_column, types_of(schema))
    return Ticket(epoch, work)


def _check_not_refreshed(options: SinkOptions, known: str, query: str) -> None:
    """Refuse a flow of a declarative pipeline that a full refresh begins anew.

    Its checkpoint then has the next number in the flow's folder; those before stay.

    ``known``: the query that has the sender's name.

    Raises LinkError: saying how the pipeline goes on.
    """
    flow, _, number = options.checkpoint.rpartition("/")
    if known == query or not number.isdigit():
        return
    for before in range(int(number) - 1, -1, -1):
        if Checkpoint(f"{flow}/{before}").query() == known:
            raise LinkError(
                f"{options.storage}: sender {options.name!r} is a flow that was begun anew by a "
                f"full refresh (--full-refresh, --full-refresh-all): checkpoint {number} in place "
                f"of {before} in {flow}. All rows of its sources come again then. Nothing was "
                f"written. To go on without a refresh delete {options.checkpoint}; to refresh all, "
                "give the link another folder in the pipelines at both of its ends and refresh "
                "both; to send the rows a second time into this link set the option 'reset' to "
                "'true'"
            )


def _is_at_rest(state: Mapping[str, Any], query: str, channels: int, newest: int) -> bool:
    """Whether a sender's next batch can be written without doing anything as the sender first.

    ``newest``: the last epoch that anybody has claimed.
    """
    return (
        (state["query"], state.get("run")) == (query, run_of_spark())
        and state["epoch"] >= newest
        and "removed" not in state
        and "barrier" not in state
        and state["written"] == state["released"]
        and len(state["released"]) == channels
    )


def run_of_spark() -> str:
    """Return what the processes of one Spark application share, and no others have.

    The driver's folders have random names, and it gives them to all of its Python processes. Spark
    itself runs a query once at a time.
    """
    folders = os.environ.get("SPARK_LOCAL_DIRS") or f"session {os.getsid(0)}"
    return hashlib.sha256(folders.encode()).hexdigest()[:16]


def _opened(
    options: SinkOptions,
    settings: LinkSettings,
    query: str,
    columns: Sequence[str],
    epoch: int | None,
) -> LinkSender:
    from flowcontrol.link.sender import LinkSender

    return LinkSender(
        options.storage,
        settings,
        options.name,
        query,
        reset=options.reset,
        columns=columns,
        run=run_of_spark(),
        epoch=epoch,
    )


class Patience:
    """Asked by a sender that waits: ends the wait by an error, as nothing else ends it.

    Spark does not tell a process of Python that the query is to stop.
    """

    def __init__(self, options: SinkOptions, sender: LinkSender) -> None:
        self._options, self._sender, self._parent = options, sender, os.getppid()
        self._seen = self._progress()
        self._since = time.monotonic()

    def _progress(self) -> tuple[int, int]:
        output = self._sender.output
        return sum(output.released), sum(output.consumed())

    def __call__(self) -> bool:
        """Return False: go on.

        Raises StoppedError if Spark is gone. Raises LinkError if no receiver has taken anything for
        ``wait_s``.
        """
        options = self._options
        if os.getppid() != self._parent:
            raise StoppedError(
                f"{options.storage}: sender {options.name!r} was left by Spark while it waited; "
                "its batch is run again at the next start"
            )
        seen = self._progress()
        if seen != self._seen:
            self._seen, self._since = seen, time.monotonic()
        elif time.monotonic() - self._since > options.wait_s:
            raise LinkError(
                f"{options.storage}: sender {options.name!r} has waited {options.wait_s:g} s while "
                f"no receiver took anything: {self._sender.waiting_bytes()} bytes have no buffer. "
                "They are in the link and nothing is lost: start a receiver, and this query again "
                "with the same checkpoint, or wait longer with .option('wait_s', ...)"
            )
        return False


# --- The writer.


class Written(NamedTuple):
    """What a task has written."""

    epoch: int
    reports: tuple[str, ...]  # A file each, as PackRows has them


class Message(WriterCommitMessage):
    """What a task sends to the driver."""

    def __init__(self, written: Written) -> None:
        self.written = written


def writer_of(
    options: Mapping[str, str], schema: StructType, *, is_complete: bool = False
) -> LinkWriter:
    """Return the writer of a micro-batch; where tasks are to write, what they need is in it.

    ``is_complete``: whether each batch has the whole result.

    Raises LinkError: see :func:`prepare`, :func:`read_sink_options`.
    """
    own = read_sink_options(options)
    if is_complete:
        raise LinkError(
            f"the sink of {own.storage} is refused: outputMode('complete') sends the whole result "
            "with each batch, and a link keeps what it was sent: use append"
        )
    ticket = None if is_committing() else prepare(own, schema)
    return LinkWriter(own, schema.fieldNames(), ticket)


_senders: dict[tuple[str, str], LinkSender] = {}
"""By link and name: what this process holds of them between two batches."""


class LinkWriter(ArrowSink):
    """Writes a micro-batch into a link.

    ``columns``: of its rows.
    """

    def __init__(
        self, options: SinkOptions, columns: Sequence[str], ticket: Ticket | None = None
    ) -> None:
        self._options, self._columns, self._ticket = options, columns, ticket

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Message:
        """Write the rows of a task into files that no commit names yet."""
        assert self._ticket is not None  # else it was made to commit
        reports = tuple(self._ticket.work.reports(iterator))
        return Message(Written(self._ticket.epoch, reports))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Commit a batch unless it is in the link, and wait until it is released.

        Raises FencedError if another process has taken the sender's place since the tasks began.
        Raises LinkError if the batch runs again with other rows, or no receiver takes what waits in
        time.
        """
        written = [one.written for one in messages if isinstance(one, Message)]
        if not written:  # a batch without tasks
            return
        options = self._options
        key = str(options.storage), options.name
        sender = self._joined(_senders.pop(key, None), min(one.epoch for one in written))
        try:
            self._publish(sender, batchId, [text for one in written for text in one.reports])
        except BaseException:  # what it holds may be ahead of what was committed
            sender.ledger.close()
            raise
        _senders[key] = sender

    def _joined(self, held: LinkSender | None, epoch: int) -> LinkSender:
        """Return the sender, in the place that the tasks began with."""
        options = self._options
        made, query = made_at(options.storage), options.query()
        if held is not None:
            if (held.query, held.epoch) == (query, epoch) and held.is_current():
                return held
            held.ledger.close()
        return _opened(options, made, query, self._columns, epoch)

    def _publish(self, sender: LinkSender, batch_id: int, reports: list[str]) -> None:
        source = Checkpoint(self._options.checkpoint).digest(batch_id)
        files = packed_rows(reports)
        if not sender.is_written(batch_id, source, lambda: sum(file.rows for file in files)):
            sender.write(batch_id, files, source)
        sender.settle(Patience(self._options, sender), spills=False)
        crash_point(self._options.name, batch_id, CrashPoint.BEFORE_RETURN)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: the files may be in the link, if it was the commit that failed.

        What no commit names goes with the sender's next sweep.
        """
