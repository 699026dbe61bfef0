"""The figures of the newest snapshot for Prometheus: text over HTTP.

Names follow Prometheus' conventions: base units in the name, ``_total`` for what only grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from flowcontrol.errors import LinkError
from flowcontrol.link.members import ranges
from flowcontrol.link.monitoring.figures import (
    ChannelSnapshot,
    Figure,
    LinkSnapshot,
    ReceiverSnapshot,
    SenderSnapshot,
    figures_of,
)
from flowcontrol.version import how_to_install

if TYPE_CHECKING:
    from prometheus_client import Metric

LOOPBACK = "127.0.0.1"

PREFIX = "flowcontrol_link_"

LABELS: dict[type, tuple[str, ...]] = {
    ChannelSnapshot: ("link", "sender", "receiver", "channel"),
    SenderSnapshot: ("link", "sender"),
    ReceiverSnapshot: ("link", "receiver", "channels"),
}


def metrics_of(kind: type) -> dict[str, tuple[str, Figure]]:
    """Return the metrics of senders, receivers or channels: name and declaration of the figure."""
    return {
        PREFIX + one.metric: (name, one) for name, one in figures_of(kind).items() if one.metric
    }


METRICS = {metric: labels for kind, labels in LABELS.items() for metric in metrics_of(kind)}
"""Names of all metrics, and their labels."""


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
        found: dict[type, list[tuple[list[str], Any]]] = {kind: [] for kind in LABELS}
        for link in snapshots:
            for c in link.channels:
                own = [link.label, c.sender, c.receiver, str(c.channel)]
                found[ChannelSnapshot].append((own, c))
            found[SenderSnapshot] += (([link.label, one.name], one) for one in link.senders)
            for r in link.receivers:
                found[ReceiverSnapshot].append(([link.label, r.name, ranges(r.channels)], r))
        for kind, rows in found.items():
            yield from _metrics(kind, rows)


def _metrics(kind: type, rows: Sequence[tuple[list[str], Any]]) -> Iterable[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    for metric, (name, figure) in metrics_of(kind).items():
        family = CounterMetricFamily if metric.endswith("_total") else GaugeMetricFamily
        said = figure.meaning.replace("Whether ", "1 if ")
        made = family(metric, said, labels=LABELS[kind])
        for labels, one in rows:
            value = getattr(one, name)
            if value is not None:
                made.add_metric(labels, float(value))
        yield made


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
