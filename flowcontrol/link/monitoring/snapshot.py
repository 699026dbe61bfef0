"""The figures of a link at one moment, each with its meaning and unit."""

from dataclasses import dataclass

from flowcontrol.analysis.pressure import Pressure, pressure_of


def in_seconds(moment: int | None) -> float | None:
    """Return a time in ms as one in seconds."""
    return None if moment is None else moment / 1000


@dataclass(frozen=True)
class ChannelSnapshot:
    """One channel from a sender to a receiver.

    Attributes
    ----------
    sender : str
        Name of the sender.
    receiver : str
        Name of the receiver; empty as long as the link has none.
    channel : int
        Which.
    written, released, announced, sent, consumed : int
        Cursors, messages.
    credit : int
        Messages that the receiver may take: announced - sent. Buffers.
    in_flight : int
        Released and not consumed, buffers.
    waiting : int
        Written and not released: outside the buffers. Messages.
    waiting_bytes : int
        Size of what waits, bytes.
    backlog_rows, backlog_bytes : int
        Written and not consumed by this receiver.
    age_s : float
        How long the oldest of the backlog has waited since it was written; 0 without backlog.
    drain_s : float or None
        How long the backlog takes at the rate of the last batches if nothing comes after it; 0
        without backlog, None if nothing of the channel moved in them.
    rows_in_per_s, bytes_in_per_s : float
        Written by the sender.
    rows_out_per_s, bytes_out_per_s : float
        Consumed by the receiver.
    blocked_ratio : float
        Share of the window for which messages of the channel waited for a buffer.
    is_holding : bool
        Whether this receiver is the one whose buffers the channel's sender waits for: of several
        the slowest.
    written_watermark_ms : int or None
        Watermark of what the sender has written into the channel, Unix time, ms. This and what
        follows is None in a link without event time.
    watermark_ms : int or None
        Watermark of what the receiver has consumed of it; None before the first.
    watermark_lag_s : float or None
        How far that is behind the clock.
    watermark_behind_s : float or None
        How far that is behind the most advanced of the receiver's channels.
    is_idle : bool or None
        Whether it has had no rows for so long that it holds nobody back.
    is_paused : bool or None
        Whether its sender gets no credit, as it is more than ``align_s`` ahead of the others.
    holds_watermark : bool or None
        Whether it holds the receiver's watermark back: it counts, and is the slowest.
    """

    sender: str
    receiver: str
    channel: int
    written: int
    released: int
    announced: int
    sent: int
    consumed: int
    credit: int
    in_flight: int
    waiting: int
    waiting_bytes: int
    backlog_rows: int
    backlog_bytes: int
    age_s: float
    drain_s: float | None
    rows_in_per_s: float
    bytes_in_per_s: float
    rows_out_per_s: float
    bytes_out_per_s: float
    blocked_ratio: float
    is_holding: bool
    written_watermark_ms: int | None = None
    watermark_ms: int | None = None
    watermark_lag_s: float | None = None
    watermark_behind_s: float | None = None
    is_idle: bool | None = None
    is_paused: bool | None = None
    holds_watermark: bool | None = None

    @property
    def written_watermark_s(self) -> float | None:
        """Watermark of what the sender has written, Unix time, s."""
        return in_seconds(self.written_watermark_ms)

    @property
    def watermark_s(self) -> float | None:
        """Watermark of what the receiver has consumed, Unix time, s."""
        return in_seconds(self.watermark_ms)

    @property
    def held_ratio(self) -> float:
        """Share of the window for which messages waited for a buffer because of this receiver."""
        return self.blocked_ratio if self.is_holding else 0.0

    @property
    def backpressure_level(self) -> Pressure:
        """Back pressure by this receiver, as Flink grades it."""
        return pressure_of(1000 * self.held_ratio)


@dataclass(frozen=True)
class SenderSnapshot:
    """One sender.

    Attributes
    ----------
    name : str
        Its name.
    rows_written : int
        Rows ever written.
    rows_per_s, bytes_per_s : float
        Written.
    pool_used, pool_size : int
        Buffers of the output pool in use, and all of them.
    waiting_bytes : int
        Written and not released: outside the buffers.
    blocked_ratio : float
        Share of the window for which rows of any channel waited for a buffer.
    silent_s : float
        Time since its last commit, or its last start if that is later, s.
    """

    name: str
    rows_written: int
    rows_per_s: float
    bytes_per_s: float
    pool_used: int
    pool_size: int
    waiting_bytes: int
    blocked_ratio: float
    silent_s: float

    @property
    def backpressure_level(self) -> Pressure:
        """How much of its time the sender is blocked, as Flink grades it."""
        return pressure_of(1000 * self.blocked_ratio)


@dataclass(frozen=True)
class ReceiverSnapshot:
    """One receiver; receivers of one name share the channels between them.

    Attributes
    ----------
    name : str
        Its name.
    member : str
        Its application id in the ledger.
    channels : tuple of int
        Those that it reads.
    rows_read : int
        Rows ever consumed.
    rows_per_s, bytes_per_s : float
        Consumed.
    batch_s : float or None
        How long its last micro-batches took on average; None as long as none has ended.
    running_s : float or None
        How long the one that runs has taken so far; None if none runs.
    target_s : float or None
        How long a micro-batch should take; None: no target.
    busy_ratio : float
        Share of the window for which a micro-batch ran.
    pool_used, pool_size : int
        Floating buffers of its gate in use, and all of them.
    is_detached : bool
        Whether a sender has cut it off.
    silent_s : float
        Time since its last commit, or its last start if that is later, s.
    fixed_s : float or None
        What a micro-batch takes without any rows; None without a target, or not known yet.
    keeps_target : bool
        Whether the target can be met; False if a micro-batch takes longer even without rows.
    rows_skipped : int
        Rows that it never reads: all others had consumed them when it came.
    is_starting : bool
        Whether it has rows to read and has not ended its first micro-batch: how fast it is, is
        not known yet.
    watermark_ms : int or None
        The least watermark of its channels that are not idle, Unix time, ms; None without event
        time, or before the first.
    watermark_lag_s : float or None
        How far that is behind the clock.
    paused : tuple of str
        Senders that got no credit at some time in the window, as they were more than ``align_s``
        ahead of the others.
    """

    name: str
    member: str
    channels: tuple[int, ...]
    rows_read: int
    rows_per_s: float
    bytes_per_s: float
    batch_s: float | None
    running_s: float | None
    target_s: float | None
    busy_ratio: float
    pool_used: int
    pool_size: int
    is_detached: bool
    silent_s: float
    fixed_s: float | None = None
    keeps_target: bool = True
    rows_skipped: int = 0
    is_starting: bool = False
    watermark_ms: int | None = None
    watermark_lag_s: float | None = None
    paused: tuple[str, ...] = ()

    @property
    def watermark_s(self) -> float | None:
        """Its watermark, Unix time, s."""
        return in_seconds(self.watermark_ms)

    @property
    def longest_batch_s(self) -> float | None:
        """Mean time of the last micro-batches, or of the running one if that is longer, s."""
        times = [time for time in (self.batch_s, self.running_s) if time is not None]
        return max(times, default=None)


@dataclass(frozen=True)
class LinkSnapshot:
    """A link at one moment.

    Attributes
    ----------
    label : str
        Short name: the last part of its path.
    path : str
        Its folder.
    at : float
        When, Unix time, seconds.
    window_s : float
        What rates and shares cover: the time before ``at``, or since the link's first commit.
    senders : tuple of SenderSnapshot
        In the order in which they came.
    receivers : tuple of ReceiverSnapshot
        By name and first channel.
    channels : tuple of ChannelSnapshot
        By sender, receiver and channel.
    max_pool_bytes : int or None
        What a sender's pool may grow to; None if it does not size itself.
    event_time_column : str or None
        Column with the event time of a row; None: the link has no watermarks.
    align_s : float or None
        How far a sender may be ahead of the slowest in event time; None: as far as it likes.
    """

    label: str
    path: str
    at: float
    window_s: float
    senders: tuple[SenderSnapshot, ...]
    receivers: tuple[ReceiverSnapshot, ...]
    channels: tuple[ChannelSnapshot, ...]
    max_pool_bytes: int | None = None
    event_time_column: str | None = None
    align_s: float | None = None

    @property
    def starting(self) -> tuple[ReceiverSnapshot, ...]:
        """Receivers that have not ended their first micro-batch: no verdict as long as any has."""
        return tuple(receiver for receiver in self.receivers if receiver.is_starting)

    @property
    def blocked_ratio(self) -> float:
        """Share of the window for which the sender that waited most was blocked."""
        return max((sender.blocked_ratio for sender in self.senders), default=0.0)

    @property
    def backpressure_level(self) -> Pressure:
        """Grade of the sender that waited most."""
        return pressure_of(1000 * self.blocked_ratio)
