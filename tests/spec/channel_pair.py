"""Two ends of a channel and the wire between them, for tests of anything that talks over one.

The wire is a pair of queues that keep their order and deliver when told to. A test with
several pairs decides whose message arrives next: that delays and reorders between channels,
never within one. What must not live here: a rule of the protocol.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from flowcontrol.errors import ProtocolError
from flowcontrol.spec import (
    Buffer,
    ConnectionQueue,
    InputChannel,
    LocalBufferPool,
    Message,
    SequenceNumberingReader,
    Subpartition,
)
from flowcontrol.spec.subpartition import BufferHandle

__all__ = ["ChannelPair", "InvariantError", "send_next"]


class InvariantError(AssertionError):
    """An invariant of the model does not hold."""


BLOCKING = ("aligned_barrier", "timeoutable_barrier", "recovery_completion")


@dataclass(frozen=True)
class Parcel:
    """A message on its way to the receiver."""

    sequence: int
    message: Message


@dataclass
class Written:
    """A buffer of the sender that is not yet sent to its end."""

    handle: BufferHandle
    buffer: Buffer | None
    is_counted: bool = False
    """Its unread bytes are already a message in ``written`` and ``released``."""
    bytes_seen: int = 0
    """Bytes in messages that were sent."""


class ChannelPair:
    """One channel: a subpartition with its reader, a remote channel, and the wire.

    Parameters
    ----------
    channel : InputChannel
        The receiver's end.
    connection : ConnectionQueue
        The sender's end of the connection; pairs may share one.
    pool : LocalBufferPool, optional
        The sender's result partition; without one the sender never waits for a buffer.
    subpartition : int, optional
        Index in ``pool``, if that counts quotas.

    Attributes
    ----------
    written, released, announced, sent, consumed : int
        The cursors of a channel, in data messages and credits; they only grow.
    revoked : int
        Credit that a blocked channel without exclusive buffers took back.
    waiting_bytes : deque of int
        Sizes of the buffers that wait for room in the sender's pool.
    received : deque of (Message, Buffer or None)
        Arrived and not consumed; the buffer of an event is None.
    bytes_in, bytes_out : int
        Data bytes written and consumed.
    events_in, events_out : list of str
        Kinds of the events sent and consumed, in order.
    """

    def __init__(
        self,
        channel: InputChannel,
        connection: ConnectionQueue,
        pool: LocalBufferPool | None = None,
        subpartition: int | None = None,
    ) -> None:
        self.channel = channel
        self.connection = connection
        self.pool = pool
        self.index = subpartition
        self.subpartition = Subpartition(channel.initial_credit)
        self.reader = SequenceNumberingReader(self.subpartition)
        connection.add_reader(self.reader)
        self.written = self.released = self.sent = self.consumed = 0
        self.announced = channel.initial_credit
        self.revoked = 0
        self.bytes_in = self.bytes_out = 0
        self.events_in: list[str] = []
        self.events_out: list[str] = []
        self.waiting_bytes: deque[int] = deque()
        self.received: deque[tuple[Message, Buffer | None]] = deque()
        self.forward: deque[Parcel | int] = deque()
        self.backward: deque[int | str] = deque()
        self._buffers: deque[Written] = deque()
        self._arrived = 0
        self._next_sequence = 0
        self._is_blocked = False

    # -- sender -------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """The last buffer can still be written to."""
        return bool(self._buffers) and not self._buffers[-1].handle.is_finished

    def write(self, nbytes: int) -> bool:
        """Fill a whole buffer; False if it has to wait for room in the sender's pool."""
        self.close()
        self.bytes_in += nbytes
        self.written += int(nbytes > 0)
        self.waiting_bytes.append(nbytes)
        self.release()
        return not self.waiting_bytes

    def release(self) -> None:
        """Queue what waits, as far as the sender's pool has room."""
        self._collect()
        while self.waiting_bytes:
            buffer = self._request()
            if self.pool is not None and buffer is None:
                return
            nbytes = self.waiting_bytes.popleft()
            handle = self.subpartition.add_buffer(nbytes, is_finished=True)
            self._buffers.append(Written(handle, buffer, is_counted=nbytes > 0))
            self.released += int(nbytes > 0)

    def open(self, nbytes: int) -> bool:
        """Start a buffer that stays open; False (nothing done) if there is no room for it."""
        self.close()
        self.release()
        if self.waiting_bytes:
            return False
        buffer = self._request()
        if self.pool is not None and buffer is None:
            return False
        self._buffers.append(Written(self.subpartition.add_buffer(nbytes), buffer))
        self.bytes_in += nbytes
        self._count_tail()
        return True

    def append(self, nbytes: int) -> None:
        """Write more into the open buffer."""
        self._buffers[-1].handle.append(nbytes)
        self.bytes_in += nbytes
        self._count_tail()

    def close(self) -> None:
        """Close the open buffer, if there is one."""
        if self.is_open:
            self._buffers[-1].handle.finish()
            self._count_tail()

    def flush(self) -> None:
        """Flush the subpartition."""
        self.subpartition.flush()
        self._count_tail()

    def add_event(self, kind: str) -> bool:
        """Queue an event; False (nothing done) while buffers wait for room before it."""
        self.close()
        self.release()
        if self.waiting_bytes:
            return False
        self.subpartition.add_event(kind)
        return True

    def on_sent(self, message: Message) -> None:
        """Put a message of this pair's reader on the wire."""
        if message.is_event:
            self.events_in.append(message.kind)
        else:
            self._count_sent(message.nbytes)
        self.forward.append(Parcel(self.reader.sequence_number - 1, message))

    # -- wire ---------------------------------------------------------------------------------

    def deliver(self) -> None:
        """Let the oldest message on its way to the receiver arrive.

        Raises
        ------
        ProtocolError
            If messages changed their order, or there is no buffer for one.
        """
        parcel = self.forward.popleft()
        if isinstance(parcel, int):
            self.channel.on_backlog(parcel)
            return
        if parcel.sequence != self._next_sequence:
            raise ProtocolError(f"message {parcel.sequence}, expected {self._next_sequence}")
        self._next_sequence += 1
        message = parcel.message
        if message.is_event:
            self._receive_event(message)
        else:
            self._receive_data(message)
        self.channel.on_backlog(message.backlog)

    def deliver_back(self) -> None:
        """Let the oldest message on its way to the sender arrive."""
        message = self.backward.popleft()
        if isinstance(message, int):
            self.connection.add_credit(self.reader, message)
        else:
            self.connection.resume(self.reader)

    # -- receiver -----------------------------------------------------------------------------

    def announce(self) -> int:
        """Send all unannounced credit; return it. With none nothing is sent."""
        credit = self.channel.announce()
        if credit > 0:
            self.announced += credit
            self.revoked += credit if self._is_blocked else 0
            self.backward.append(credit)
        return credit

    def consume(self) -> Message:
        """Recycle the oldest received message; a barrier resumes, the end releases."""
        message, buffer = self.received.popleft()
        if buffer is not None:
            buffer.recycle()
            self.consumed += 1
            self.bytes_out += message.nbytes
            return message
        self.events_out.append(message.kind)
        if message.kind in BLOCKING:
            self._is_blocked = False
            self.channel.on_resumed()
            self.backward.append("resume")
        elif message.kind == "end_of_partition":
            self.channel.release()
        return message

    def check(self) -> None:
        """Check the invariants of one channel.

        Raises
        ------
        InvariantError
            Naming the first that does not hold, with its figures.
        """
        if not self.consumed <= self.sent <= self.released <= self.written:
            raise self._broken("consumed <= sent <= released <= written")
        if self.sent > self.announced - self.revoked:
            raise self._broken("sent <= announced")
        if self.reader.credit < 0:
            raise self._broken("0 <= credit")
        in_flight = sum(credit for credit in self.backward if isinstance(credit, int))
        told = self.reader.credit + self.sent + in_flight
        is_settled = "resume" not in self.backward and not self._is_blocked
        if is_settled and told != self.announced - self.revoked:
            raise self._broken(f"credit + sent + {in_flight} on the way = announced")
        if self.channel.is_released:
            return
        held = self.channel.available + sum(buffer is not None for _, buffer in self.received)
        granted = self.announced - self.revoked - self.consumed
        if granted > held:
            raise self._broken(f"announced - consumed <= {held} buffers held")
        if not self._is_blocked and granted + self.channel.unannounced_credit != held:
            raise self._broken(f"announced + unannounced - consumed = {held} buffers held")

    def _request(self) -> Buffer | None:
        return None if self.pool is None else self.pool.request(self.index)

    def _count_tail(self) -> None:
        """Count the unread bytes of the last buffer as a message once they are one."""
        tail = self._buffers[-1] if self._buffers else None
        if tail is None or tail.is_counted or tail.handle.unread == 0:
            return
        if tail.handle.is_finished or self.subpartition.is_flush_pending:
            tail.is_counted = True
            self.written += 1
            self.released += 1

    def _count_sent(self, nbytes: int) -> None:
        """Note that a data message left the subpartition."""
        source = self._buffers[0]
        if nbytes > 0:
            source = next(b for b in self._buffers if b.handle.bytes_read > b.bytes_seen)
        source.bytes_seen = source.handle.bytes_read
        if not source.is_counted:
            self.written += 1
            self.released += 1
        source.is_counted = False
        self.sent += 1
        self._collect()

    def _collect(self) -> None:
        """Give back the buffers that left the subpartition."""
        while self._buffers and not self._buffers[0].handle.is_queued:
            buffer = self._buffers.popleft().buffer
            if buffer is not None:
                buffer.recycle()

    def _receive_event(self, message: Message) -> None:
        self.received.append((message, None))
        if message.kind in BLOCKING:
            self.channel.on_blocked()
            if self.channel.initial_credit == 0:
                self._is_blocked = True
                self.revoked = self.announced - self._arrived

    def _receive_data(self, message: Message) -> None:
        buffer = self.channel.take()
        if buffer is None:
            raise ProtocolError("a data message arrived and there is no buffer for it")
        self._arrived += 1
        if message.nbytes > 0:
            self.received.append((message, buffer))
        else:
            buffer.recycle()
            self.consumed += 1

    def _broken(self, rule: str) -> InvariantError:
        return InvariantError(
            f"{rule}: written {self.written}, released {self.released}, sent {self.sent}, "
            f"announced {self.announced}, revoked {self.revoked}, consumed {self.consumed}, "
            f"credit {self.reader.credit}"
        )


def send_next(connection: ConnectionQueue, pairs: Sequence[ChannelPair]) -> ChannelPair | None:
    """Put a connection's next message on the wire of its pair, announcements before it.

    Returns
    -------
    ChannelPair or None
        The pair whose message it was; None if there was none.
    """
    by_reader = {pair.reader: pair for pair in pairs}
    while connection.announcements:
        announcement = connection.announcements.popleft()
        by_reader[announcement.reader].forward.append(announcement.backlog)
    sent = connection.next_message()
    if sent is None:
        return None
    pair = by_reader[sent[0]]
    pair.on_sent(sent[1])
    return pair
