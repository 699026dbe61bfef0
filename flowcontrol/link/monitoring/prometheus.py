"""The figures of the newest snapshot for Prometheus: text over HTTP.

The metrics stand in ``metrics.yaml``. Names follow Prometheus' conventions: base units in the name,
``_total`` for what only grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from flowcontrol.errors import LinkError
from flowcontrol.files import package_yaml
from flowcontrol.install import how_to_install
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


PREFIX = "flowcontrol_link_"

_GAUGES: dict[str, list[dict[str, str]]] = package_yaml(
    "flowcontrol.link.monitoring", "metrics.yaml"
)
_CHANNEL = ("link", "sender", "receiver", "channel")
_SENDER = ("link", "sender")
_RECEIVER = ("link", "receiver", "channels")

METRICS = tuple(PREFIX + gauge["name"] for own in _GAUGES.values() for gauge in own)
"""Names of all metrics."""


class LinkCollector:
    """Exports the newest snapshots.

    ``snapshots``: one of each link.
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
        yield from _metrics(_GAUGES["channels"], _CHANNEL, channels)
        yield from _metrics(_GAUGES["senders"], _SENDER, senders)
        yield from _metrics(_GAUGES["receivers"], _RECEIVER, receivers)


def _channel(snapshot: LinkSnapshot, channel: ChannelSnapshot) -> list[str]:
    return [snapshot.label, channel.sender, channel.receiver, str(channel.channel)]


def _receiver(snapshot: LinkSnapshot, receiver: ReceiverSnapshot) -> list[str]:
    return [snapshot.label, receiver.name, ranges(receiver.channels)]


def _metrics(
    gauges: Iterable[Mapping[str, str]],
    labels: Sequence[str],
    found: Sequence[tuple[list[str], ChannelSnapshot | SenderSnapshot | ReceiverSnapshot]],
) -> Iterable[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    for gauge in gauges:
        family = CounterMetricFamily if gauge["name"].endswith("_total") else GaugeMetricFamily
        metric = family(PREFIX + gauge["name"], gauge["help"], labels=labels)
        for values, one in found:
            value = getattr(one, gauge["figure"])
            if value is not None:
                metric.add_metric(values, float(value))
        yield metric


def serve(collector: LinkCollector, port: int, address: str = LOOPBACK) -> Callable[[], None]:
    """Serve a collector's metrics at ``http://address:port/metrics``; return what stops it.

    Raises LinkError if prometheus_client is not installed, or the port cannot be opened.
    """
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ModuleNotFoundError as error:
        raise LinkError(
            f"--port needs the package prometheus_client: {how_to_install('metrics')}"
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
