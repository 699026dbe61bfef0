"""Why an exchange between two stages limits: its disk, its connection, its window, barriers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowcontrol.analysis.causes.disturbances import aligned_exchange, blocked_share
from flowcontrol.analysis.causes.run import Cause, Run, Times
from flowcontrol.analysis.frames import panel_of
from flowcontrol.analysis.waits import SATURATED, busiest_connection
from flowcontrol.analysis.wording import percent
from flowcontrol.scenario import Edge
from flowcontrol.scenario.models import SPILLING

DEFAULT_WINDOW: Final = 10
"""Flink's buffers of a channel by default, 2 exclusive and 8 floating ones of its gate."""

FAR_MS: Final = 1.0
"""Latency from which two task managers are further apart than in one data centre, ms."""


def exchange_causes(run: Run, edge: Edge, times: Times) -> Iterator[Cause]:
    """Yield why an exchange limits although neither of its stages does.

    ``times`` (s): samples in whose intervals it limits.
    """
    if edge.partition_type in SPILLING:
        yield _of_disk(run, edge, times)
        return
    aligned = aligned_exchange(run, edge, times)
    if aligned is not None:
        yield aligned
        return
    yield _of_bandwidth(run, edge, times) or _of_window(run, edge, times)


def _of_disk(run: Run, edge: Edge, times: Times) -> Cause:
    blocked = run.worst(edge.sender, "backpressured_ms_per_s", times) / 1000
    used = run.mean(edge.sender, "out_pool_usage", times)
    text = (
        f"{edge.sender} was blocked {percent(blocked)} of the time with {percent(used)} of its "
        f"output pool in use (stages, {run.span(times)}); its result is {edge.partition_type}, "
        "which is written to disk."
    )
    return Cause(
        stage=edge.receiver,
        subtask=None,
        cause="disk",
        evidence=(text,),
        confidence=0.9,
        reason="only the disk takes buffers from such a result",
        advice="use a faster disk, spread the producers over more task managers, or add memory",
        limited_s=run.length(times),
    )


def _of_bandwidth(run: Run, edge: Edge, times: Times) -> Cause | None:
    """Return the cause if the connection is full."""
    bandwidth = run.scenario.cluster.bandwidth_bytes_per_s
    rows = panel_of(run.tables, "stages").among("t_s", times)
    found = busiest_connection(run.scenario, edge, rows) if bandwidth is not None else None
    if bandwidth is None or found is None or found.bytes_per_s < SATURATED * float(bandwidth):
        return None
    used = found.bytes_per_s / float(bandwidth)
    text = (
        f"The connection from task manager {found.sender} to {found.receiver} carried "
        f"{found.bytes_per_s:,.0f} bytes/s of records, {percent(used)} of its bandwidth."
    )
    return Cause(
        stage=edge.receiver,
        subtask=None,
        cause="network",
        evidence=(f"{blocked_share(run, edge, times)}.", text),
        confidence=0.95,
        reason="the connection is full; headers take what is left",
        advice="raise the bandwidth, send less, or place both stages together",
        limited_s=run.length(times),
    )


def _of_window(run: Run, edge: Edge, times: Times) -> Cause:
    """Return the cause if the buffers of a channel carry too little in a round trip."""
    scenario, options = run.scenario, run.scenario.options
    rows = run.channels[(run.channels["edge"] == edge.name) & run.channels["t_s"].isin(times)]
    waits = rows[(rows["backlog"] > 0)]
    empty = float((waits["credit"] == 0).mean()) if len(waits) else 0.0
    into, out = (
        run.mean(edge.receiver, "in_pool_usage", times),
        run.mean(edge.sender, "out_pool_usage", times),
    )
    latency = scenario.cluster.network_latency_ms
    window = options.exclusive_buffers + options.floating_buffers
    is_small = scenario.system.counts_records or window < DEFAULT_WINDOW or latency < FAR_MS
    evidence = [
        f"{blocked_share(run, edge, times)}.",
        f"Output pools of {edge.sender} were used to {percent(out)}, input pools of "
        f"{edge.receiver} to {percent(into)}; with a backlog, {percent(empty)} of the channels had "
        f"no credit left (channels, {run.span(times)}).",
    ]
    if not scenario.system.counts_records:
        rate = _busiest_rate(run, edge, times)
        size = options.segment_bytes
        evidence.append(
            f"A channel has {options.exclusive_buffers} exclusive buffers and up to "
            f"{options.floating_buffers} floating ones, {window * size / 1024:,.0f} KiB for each "
            f"round trip of at least {2 * latency:g} ms; the busiest carried {rate:,.0f} buffers/s."
        )
    return Cause(
        stage=edge.receiver,
        subtask=None,
        cause="buffers" if is_small else "network",
        evidence=tuple(evidence),
        confidence=0.8 if empty > 0.5 or scenario.system.counts_records else 0.6,
        reason="credit is used up while the receiver has time to spare; too few buffers and too "
        "long a way are two sides of it, and what is unusual is named",
        advice="give its channels more buffers, or larger ones"
        if is_small
        else "bring both ends closer together, or give its channels more buffers",
        limited_s=run.length(times),
    )


def _busiest_rate(run: Run, edge: Edge, times: Times) -> float:
    """Return the messages/s of the channel of an edge that carried most."""
    rows = run.channels[run.channels["edge"] == edge.name]
    first, last = min(times) - run.lengths[min(times)], max(times)
    sent = rows[rows["t_s"] <= last].groupby(["sender", "receiver"])["sent"].max()
    before = rows[rows["t_s"] <= first + 1e-9].groupby(["sender", "receiver"])["sent"].max()
    grown = sent.sub(before, fill_value=0.0)
    return float(grown.max()) / (last - first) if len(grown) else 0.0
