"""The figures of the newest look as Prometheus reads them: text over HTTP.

Names follow Prometheus' conventions: base units in the name, ``_total`` for what only grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from flowcontrol.errors import LinkError
from flowcontrol.link.members import ranges
from flowcontrol.link.monitoring.snapshot import (
    ChannelSnapshot,
    LinkSnapshot,
    ReceiverSnapshot,
    SenderSnapshot,
)

if TYPE_CHECKING:
    from prometheus_client import Metric

LOOPBACK = "127.0.0.1"


class _Gauge(NamedTuple):
    """One metric: name, what it says, and its value of a channel, a sender or a receiver."""

    name: str
    help: str
    value: Callable[..., float | None]


PREFIX = "flowcontrol_link_"

_CHANNEL = ("link", "sender", "receiver", "channel")
_CHANNELS = (
    _Gauge("backlog_rows", "Rows written and not consumed.", lambda c: c.backlog_rows),
    _Gauge("backlog_bytes", "Size of the rows not consumed.", lambda c: c.backlog_bytes),
    _Gauge(
        "backlog_age_seconds",
        "Time since the oldest message that is not consumed was written.",
        lambda c: c.age_s,
    ),
    _Gauge(
        "drain_seconds",
        "Time that the backlog takes at the rate of the last batches; absent if that is 0.",
        lambda c: c.drain_s,
    ),
    _Gauge("credit_buffers", "Messages that the receiver may still take.", lambda c: c.credit),
    _Gauge("in_flight_buffers", "Messages released and not consumed.", lambda c: c.in_flight),
    _Gauge("waiting_messages", "Messages written and not released.", lambda c: c.waiting),
    _Gauge("waiting_bytes", "Size of what waits outside the buffers.", lambda c: c.waiting_bytes),
    _Gauge(
        "blocked_ratio",
        "Share of the last seconds for which the channel's messages waited for a buffer because "
        "of this receiver, 0 to 1. Flink's grades: OK <= 0.1 < LOW <= 0.5 < HIGH.",
        lambda c: c.blocked_ratio if c.is_holding else 0.0,
    ),
    _Gauge("in_rows_per_second", "Rows written by the sender.", lambda c: c.rows_in_per_s),
    _Gauge("out_rows_per_second", "Rows consumed by the receiver.", lambda c: c.rows_out_per_s),
)

_SENDER = ("link", "sender")
_SENDERS = (
    _Gauge("sender_rows_total", "Rows ever written.", lambda s: s.rows_written),
    _Gauge(
        "sender_blocked_ratio",
        "Share of the last seconds for which rows of any channel waited for a buffer, 0 to 1.",
        lambda s: s.blocked_ratio,
    ),
    _Gauge("sender_pool_used_buffers", "Buffers of the output pool in use.", lambda s: s.pool_used),
    _Gauge("sender_pool_size_buffers", "Buffers of the output pool.", lambda s: s.pool_size),
    _Gauge("sender_silent_seconds", "Time since its last commit.", lambda s: s.silent_s),
)

_RECEIVER = ("link", "receiver", "channels")
_RECEIVERS = (
    _Gauge("receiver_rows_total", "Rows ever consumed.", lambda r: r.rows_read),
    _Gauge(
        "receiver_batch_seconds",
        "Time of its last micro-batches on average; of the one that runs if that is longer.",
        lambda r: max((t for t in (r.batch_s, r.running_s) if t is not None), default=None),
    ),
    _Gauge(
        "receiver_batch_target_seconds",
        "Time that a micro-batch should take; absent without a target.",
        lambda r: r.target_s,
    ),
    _Gauge(
        "receiver_batch_fixed_seconds",
        "Time that a micro-batch takes without any rows; absent without a target.",
        lambda r: r.fixed_s,
    ),
    _Gauge(
        "receiver_busy_ratio",
        "Share of the last seconds for which a micro-batch ran, 0 to 1.",
        lambda r: r.busy_ratio,
    ),
    _Gauge("receiver_pool_used_buffers", "Floating buffers in use.", lambda r: r.pool_used),
    _Gauge("receiver_pool_size_buffers", "Floating buffers of its gate.", lambda r: r.pool_size),
    _Gauge("receiver_detached", "1 if a sender has cut it off.", lambda r: float(r.is_detached)),
    _Gauge("receiver_silent_seconds", "Time since its last commit.", lambda r: r.silent_s),
)

METRICS = tuple(PREFIX + gauge.name for gauge in (*_CHANNELS, *_SENDERS, *_RECEIVERS))
"""Names of all metrics."""


class LinkCollector:
    """Gives Prometheus the newest look.

    Attributes
    ----------
    looks : sequence of LinkSnapshot
        What was found last.
    """

    def __init__(self) -> None:
        self.snapshots: Sequence[LinkSnapshot] = ()

    def note(self, snapshots: Sequence[LinkSnapshot]) -> None:
        """Take what was found."""
        self.snapshots = snapshots

    def collect(self) -> Iterable[Metric]:
        """Yield every metric with the values of the newest look."""
        snapshots = self.snapshots  # one reference: the watching thread may replace it meanwhile
        channels = [(_channel(snapshot, c), c) for snapshot in snapshots for c in snapshot.channels]
        senders = [
            ([snapshot.label, s.name], s) for snapshot in snapshots for s in snapshot.senders
        ]
        receivers = [
            (_receiver(snapshot, r), r) for snapshot in snapshots for r in snapshot.receivers
        ]
        yield from _metrics(_CHANNELS, _CHANNEL, channels)
        yield from _metrics(_SENDERS, _SENDER, senders)
        yield from _metrics(_RECEIVERS, _RECEIVER, receivers)


def _channel(snapshot: LinkSnapshot, channel: ChannelSnapshot) -> list[str]:
    return [snapshot.label, channel.sender, channel.receiver, str(channel.channel)]


def _receiver(snapshot: LinkSnapshot, receiver: ReceiverSnapshot) -> list[str]:
    return [snapshot.label, receiver.name, ranges(receiver.channels)]


def _metrics(
    gauges: Iterable[_Gauge],
    labels: Sequence[str],
    found: Sequence[tuple[list[str], ChannelSnapshot | SenderSnapshot | ReceiverSnapshot]],
) -> Iterable[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    for gauge in gauges:
        family = CounterMetricFamily if gauge.name.endswith("_total") else GaugeMetricFamily
        metric = family(PREFIX + gauge.name, gauge.help, labels=labels)
        for values, one in found:
            value = gauge.value(one)
            if value is not None:
                metric.add_metric(values, value)
        yield metric


def serve(collector: LinkCollector, port: int, address: str = LOOPBACK) -> Callable[[], None]:
    """Serve a collector's metrics at ``http://address:port/metrics``; return what ends it.

    Raises
    ------
    LinkError
        If prometheus_client is not installed, or the port cannot be had.
    """
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ModuleNotFoundError as error:
        raise LinkError(
            "--port needs the package prometheus_client: pip install 'flowcontrol[metrics]'"
        ) from error
    registry = CollectorRegistry()
    registry.register(collector)
    try:
        server, thread = start_http_server(port, addr=address, registry=registry)
    except OSError as error:
        raise LinkError(f"port {port} of {address} cannot be served: {error}") from error

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop
