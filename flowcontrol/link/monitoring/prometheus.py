"""The figures of the newest snapshot for Prometheus: text over HTTP.

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
    """One metric: its name, the figure of a snapshot that it shows, and what that is."""

    name: str
    figure: str
    help: str


PREFIX = "flowcontrol_link_"

_CHANNEL = ("link", "sender", "receiver", "channel")
_CHANNELS = (
    _Gauge("backlog_rows", "backlog_rows", "Rows written and not consumed."),
    _Gauge("backlog_bytes", "backlog_bytes", "Size of the rows not consumed."),
    _Gauge("backlog_age_seconds", "age_s", "Age of the oldest message that is not consumed."),
    _Gauge(
        "drain_seconds", "drain_s", "Time to drain the backlog at the recent rate; absent at 0."
    ),
    _Gauge("credit_buffers", "credit", "Messages that the receiver may still take."),
    _Gauge("in_flight_buffers", "in_flight", "Messages released and not consumed."),
    _Gauge("waiting_messages", "waiting", "Messages written and not released."),
    _Gauge("waiting_bytes", "waiting_bytes", "Size of what waits outside the buffers."),
    _Gauge(
        "blocked_ratio",
        "held_ratio",
        "Share of the last seconds for which the channel's messages waited for a buffer because "
        "of this receiver, 0 to 1. Flink's grades: OK <= 0.1 < LOW <= 0.5 < HIGH.",
    ),
    _Gauge("in_rows_per_second", "rows_in_per_s", "Rows written by the sender."),
    _Gauge("out_rows_per_second", "rows_out_per_s", "Rows consumed by the receiver."),
)

_SENDER = ("link", "sender")
_SENDERS = (
    _Gauge("sender_rows_total", "rows_written", "Rows ever written."),
    _Gauge(
        "sender_blocked_ratio",
        "blocked_ratio",
        "Share of the last seconds for which rows of any channel waited for a buffer, 0 to 1.",
    ),
    _Gauge("sender_pool_used_buffers", "pool_used", "Buffers of the output pool in use."),
    _Gauge("sender_pool_size_buffers", "pool_size", "Buffers of the output pool."),
    _Gauge("sender_silent_seconds", "silent_s", "Time since its last commit."),
)

_RECEIVER = ("link", "receiver", "channels")
_RECEIVERS = (
    _Gauge("receiver_rows_total", "rows_read", "Rows ever consumed."),
    _Gauge(
        "receiver_batch_seconds",
        "longest_batch_s",
        "Mean time of its last micro-batches, or of the running one if that is longer.",
    ),
    _Gauge(
        "receiver_batch_target_seconds", "target_s", "Target time of a micro-batch, if it has one."
    ),
    _Gauge(
        "receiver_batch_fixed_seconds",
        "fixed_s",
        "Time that a micro-batch takes without any rows; absent without a target.",
    ),
    _Gauge(
        "receiver_busy_ratio", "busy_ratio", "Share of the last seconds that batches ran, 0 to 1."
    ),
    _Gauge("receiver_pool_used_buffers", "pool_used", "Floating buffers in use."),
    _Gauge("receiver_pool_size_buffers", "pool_size", "Floating buffers of its gate."),
    _Gauge("receiver_detached", "is_detached", "1 if a sender has cut it off."),
    _Gauge("receiver_silent_seconds", "silent_s", "Time since its last commit."),
)

METRICS = tuple(PREFIX + gauge.name for gauge in (*_CHANNELS, *_SENDERS, *_RECEIVERS))
"""Names of all metrics."""


class LinkCollector:
    """Exports the newest snapshots.

    Attributes
    ----------
    snapshots : sequence of LinkSnapshot
        One of each link.
    """

    def __init__(self) -> None:
        self.snapshots: Sequence[LinkSnapshot] = ()

    def note(self, snapshots: Sequence[LinkSnapshot]) -> None:
        """Replace the snapshots."""
        self.snapshots = snapshots

    def collect(self) -> Iterable[Metric]:
        """Yield every metric with the values of the newest snapshots."""
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
            value = getattr(one, gauge.figure)
            if value is not None:
                metric.add_metric(values, float(value))
        yield metric


def serve(collector: LinkCollector, port: int, address: str = LOOPBACK) -> Callable[[], None]:
    """Serve a collector's metrics at ``http://address:port/metrics``; return what stops it.

    Raises
    ------
    LinkError
        If prometheus_client is not installed, or the port cannot be opened.
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
