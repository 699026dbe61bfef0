"""Spark's streaming shuffle: a writer pushes out of one memory, a reader has a quota per writer.

``StreamingShuffleWriter``, ``StreamingShuffleReader`` and their handlers, Spark 4.3. A writer has a
place for each buffer, and one count of places for all its partitions: the first row of a buffer
takes one, and it comes back when the kernel has taken the whole message. A buffer goes out when it
is nearly full, when the flusher runs, and, with all others, when there is no place for a new one.
The reader stops reading a writer's channel while what it holds of it uses up the quota; then the
sockets fill, and then the writer's places. Spark's credit messages hold nobody up: TCP does.

Where this differs:

- A place comes back at once where the sockets have room, else when the writer hears what the reader
  has let go of, which is once a round. A writer waits for a place in steps of 10 ms there, and gets
  one as soon as there is one.
- A reader lets go of a message when its last row is taken up. Here messages of unlike size in the
  sockets and at the reader count at the size of the next one.
- Sockets take whole messages: as many as they have room for, at least one.
- A writer keeps ``RUNS`` runs of messages of one size apart that wait for the sockets; the sizes of
  what is behind them are evened out.
- At the end of a batch what is in open buffers goes out with the flusher, not at once.
"""

from typing import Final

from flowcontrol.state.network import InputChannel, Subpartition
from flowcontrol.state.queues import append, drop, is_event, message_at, next_slot
from flowcontrol.state.rows import Partition
from flowcontrol.systems.transports import transport as t

MILLIONTHS: Final = 1_000_000

RUNS: Final = 32
"""Runs of messages of one size that a channel keeps apart while they wait."""

HELD_PARTS: Final = 1 << 16
"""Parts of a byte in which a writer counts what the other side holds: it is rounded down, by less
than a row in all."""


# --- The formulas


def writer_budget(writer_bytes: int, buffer_bytes: int, socket_bytes: int, channels: int) -> int:
    """Return the bytes of a writer's buffers (``spark.shuffle.streaming.writerMaxMemory``).

    What the sockets of its channels take is not for buffers, but two buffers a channel are.
    """
    return max(2 * buffer_bytes * channels, writer_bytes - channels * socket_bytes)


def reader_quota(reader_bytes: int, writers: int) -> int:
    """Return what a reader may hold of each of its writers before it stops reading it, bytes.

    ``reader_bytes``: ``spark.shuffle.streaming.readerMaxMemory``.
    """
    return max(1, reader_bytes // writers)


def messages_read(quota: int, nbytes: int) -> int:
    """Return how many messages of one size a reader holds when it does not read any more.

    It reads while the quota is not used up, so the last one may go below 0.
    """
    return -(-quota // nbytes)


def messages_taken(quota: int, kernel_bytes: int, nbytes: int) -> int:
    """Return how many messages of one size a reader and the sockets before it hold at the most."""
    return messages_read(quota, nbytes) + max(1, kernel_bytes // nbytes)


def is_taken(held: int, quota: int, kernel_bytes: int, nbytes: int) -> int:
    """Tell whether the sockets take a message now: 1 if so.

    - ``held``: what they and the reader hold, bytes; a message of which a row is left counts whole.
    - ``nbytes``: the message, its header included.
    """
    return 1 if -(-held // nbytes) < messages_taken(quota, kernel_bytes, nbytes) else 0


def let_go(held: int, left: int, before: int) -> int:
    """Return what is held when so many records of those before are left, in any unit, rounded down.

    ``held * left // before``, which does not fit into 64 bits. Of billions of records the last
    three bits do not count.
    """
    if before >> 31 > 0:
        before, left = before >> 3, left >> 3
    return held // before * left + held % before * left // before


# --- A channel of a writer


def open_records(own: Subpartition) -> int:
    """Return the records in a channel's open buffer; at none it has none."""
    return own.buffers - own.closed


def _parameters(given: t.Given) -> t.RecordTransport:
    buffer_bytes = given.whole("buffer_bytes")
    return t.RecordTransport(
        writer_bytes=given.whole("writer_bytes"),
        reader_bytes=given.whole("reader_bytes"),
        buffer_bytes=buffer_bytes,
        full_bytes=buffer_bytes * round(MILLIONTHS * given.values["fill"]) // MILLIONTHS,
        flush_us=round(given.values["flush_ms"] * 1000),
        socket_bytes=given.whole("socket_bytes"),
        kernel_bytes=given.whole("kernel_bytes"),
        header_bytes=given.whole("header_bytes"),
    )


def _places(transport: t.RecordTransport, channels: int) -> int:
    nbytes, socket = transport.buffer_bytes, transport.socket_bytes
    return writer_budget(transport.writer_bytes, nbytes, socket, channels) // nbytes


def _quota(transport: t.RecordTransport, writers: int) -> int:
    return reader_quota(transport.reader_bytes, writers)


def most_records(transport: t.RecordTransport, record_bytes: int) -> int:
    """Return a number of records that the other side of a channel never holds more of."""
    largest = max(transport.full_bytes, 1) + record_bytes + transport.header_bytes
    most = transport.reader_bytes + largest + max(transport.kernel_bytes, largest)
    return most // record_bytes + 1


def _first_grant(transport: t.RecordTransport, state: t.ChannelGrant, record_bytes: int) -> int:
    return most_records(transport, record_bytes)


def _next_grant(
    transport: t.RecordTransport, state: t.ChannelGrant, channel: InputChannel, end: t.RoundEnd
) -> int:
    """Add what was let go of: it is what the sender is after, and TCP tells it."""
    fresh = channel.processed - state.seen
    state.seen = channel.processed
    return channel.announced + fresh


def _room(transport: t.RecordTransport, channel: Subpartition, record_bytes: int) -> int:
    """Return how many records an open buffer takes without becoming nearly full."""
    rows = open_records(channel)
    if rows == 0:
        return 0
    return max(0, (transport.full_bytes - 1) // record_bytes - rows)


def _never(transport: t.RecordTransport, channel: Subpartition) -> int:
    """Leave it to ``pull``: what may be sent is what the sockets have."""
    return 0


def close_buffer(partition: Partition, channel: int, record_bytes: int) -> None:
    """Make a message of a channel's open buffer, if it has one: it waits for the sockets."""
    own, queue = partition.channels[channel], partition.queues[channel]
    records = open_records(own)
    if records == 0:
        return
    own.closed += records
    count = queue.ends.count
    if count > 0:
        newest = message_at(queue, count - 1)
        is_alike = newest.records == records * newest.backlog
        if is_event(newest) == 0 and (is_alike or count >= RUNS):
            newest.records += records
            newest.nbytes += records * record_bytes
            newest.backlog += 1
            return
    message = next_slot(queue)
    t.fill_message(message, records, record_bytes)
    message.backlog = 1  # how many messages of one size it stands for
    append(queue)


def hear(transport: t.RecordTransport, own: Subpartition, record_bytes: int) -> None:
    """Take notice of what the reader has let go of."""
    gone = own.announced - most_records(transport, record_bytes)
    before = own.sent + own.handed - own.consumed
    if gone > own.consumed:
        if before > 0:
            own.held = let_go(own.held, own.sent + own.handed - gone, before)
        own.consumed = gone


def hand_over(
    transport: t.RecordTransport, partition: Partition, channel: int, record_bytes: int
) -> None:
    """Let the sockets take what they have room for; the place of each message is free again."""
    own, queue = partition.channels[channel], partition.queues[channel]
    hear(transport, own, record_bytes)
    while queue.ends.count > 0:
        oldest = message_at(queue, 0)
        if is_event(oldest) == 1:
            return
        records = oldest.records // oldest.backlog
        nbytes = records * record_bytes + transport.header_bytes
        if is_taken(-(-own.held // HELD_PARTS), own.quota, transport.kernel_bytes, nbytes) == 0:
            return
        own.held += nbytes * HELD_PARTS
        own.handed += records
        partition.pool.in_use -= 1
        oldest.records -= records
        oldest.nbytes -= records * record_bytes
        oldest.backlog -= 1
        if oldest.backlog == 0:
            drop(queue)


def _send_all(transport: t.RecordTransport, partition: Partition, record_bytes: int) -> None:
    for channel in range(len(partition.channels)):
        close_buffer(partition, channel, record_bytes)
        hand_over(transport, partition, channel, record_bytes)


def _places_missing(partition: Partition, first: int, after: int) -> int:
    missing = 0
    for channel in range(first, after):
        missing += 1 if open_records(partition.channels[channel]) == 0 else 0
    return missing


def make_room(
    transport: t.RecordTransport, partition: Partition, first: int, after: int, record_bytes: int
) -> int:
    """Take a place for each of the channels that has no open buffer; 0: the writer waits.

    Without a place all that it has goes out first, which may bring some back.
    """
    pool = partition.pool
    missing = _places_missing(partition, first, after)
    if pool.in_use + missing > pool.size:
        _send_all(transport, partition, record_bytes)
        missing = after - first
    if pool.in_use + missing > pool.size:
        return 0
    pool.in_use += missing
    return 1


def _written(
    transport: t.RecordTransport, partition: Partition, first: int, after: int, record_bytes: int
) -> None:
    """Send the buffers that a row has nearly filled."""
    for channel in range(first, after):
        rows = open_records(partition.channels[channel])
        if rows * record_bytes >= transport.full_bytes:
            close_buffer(partition, channel, record_bytes)
            hand_over(transport, partition, channel, record_bytes)


def _flush(
    transport: t.RecordTransport, partition: Partition, channel: int, record_bytes: int
) -> None:
    close_buffer(partition, channel, record_bytes)


def _pull(
    transport: t.RecordTransport, partition: Partition, channel: int, record_bytes: int
) -> int:
    """Return the records that the sockets have taken: they are on their way."""
    hand_over(transport, partition, channel, record_bytes)
    own = partition.channels[channel]
    records = own.handed
    own.handed = 0
    return records


RULES = t.Transport(
    _next_grant,
    _parameters,
    _first_grant,
    room=_room,
    may_send=_never,
    make_room=make_room,
    written=_written,
    flush=_flush,
    pull=_pull,
    places=_places,
    quota=_quota,
    runs=RUNS,
)
