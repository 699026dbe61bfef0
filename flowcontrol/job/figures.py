"""Figures of result tables, for both clocks: pool usages, latencies, and when a heap was full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from flowcontrol.scenario import Scenario

if TYPE_CHECKING:
    import pyarrow as pa

Ints = npt.NDArray[np.int64]

LARGEST_SUM = 2.0**62
"""Above it a sum of whole numbers may not fit into 64 bits."""


def input_usages(
    exclusive: Ints, exclusive_used: Ints, floating: Ints, floating_used: Ints
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the usages of subtasks' input pools (Flink's ``inPoolUsage`` and its two parts).

    Parameters
    ----------
    exclusive, floating : ndarray of int, shape (subtasks,)
        Exclusive buffers of the remote channels, and sizes of the floating pools.
    exclusive_used, floating_used : ndarray of int, shape (subtasks,)
        Those in use; a floating buffer that a channel holds for a credit is in use.
    """
    return {
        "in_pool_usage": usage(exclusive_used + floating_used, exclusive + floating),
        "floating_buffers_usage": usage(floating_used, floating),
        "exclusive_buffers_usage": usage(exclusive_used, exclusive),
    }


def usage(used: Ints, size: Ints) -> npt.NDArray[np.float64]:
    """Return the share of each pool that is in use; 0 of an empty pool."""
    return np.divide(used, size, out=np.zeros(len(used)), where=size > 0)


def latency_figures(ages: Ints, counts: Ints, round_ms: float) -> dict[str, Any]:
    """Return the count, the mean and nearest-rank percentiles of latencies, ms.

    Parameters
    ----------
    ages : ndarray of int
        Latencies in rounds, ascending; at least one.
    counts : ndarray of int
        Records of each.
    round_ms : float, ms
        Emulated time of a round.
    """
    upto = np.cumsum(counts)
    total = int(upto[-1])
    figures: dict[str, Any] = {"count": total, "mean_ms": _dot(ages, counts) / total * round_ms}
    for name, percent in (("p50_ms", 50), ("p90_ms", 90), ("p99_ms", 99), ("max_ms", 100)):
        rank = -(-total * percent // 100)
        figures[name] = float(ages[np.searchsorted(upto, rank)]) * round_ms
    return figures


def heap_exhausted_s(channels: pa.Table, scenario: Scenario) -> float | None:
    """Return when a task manager's heap was full.

    Parameters
    ----------
    channels : pyarrow.Table
        Of a run.
    scenario : Scenario
        Its scenario.

    Returns
    -------
    float or None
        Time of the first sample at which the records that wait for the receivers on one task
        manager are more than ``heap_bytes`` of the transport, s; None if there is none, or the
        transport states no heap. The run itself goes on.

    Notes
    -----
    Records count as they are serialised; as objects on a heap they would take a multiple.
    """
    heap_bytes = scenario.system.transport_values.get("heap_bytes")
    if heap_bytes is None or channels.num_rows == 0:
        return None
    placement = {edge.name: scenario.stage(edge.receiver).placement for edge in scenario.edges}
    ends = zip(channels["edge"].to_pylist(), channels["receiver"].to_pylist(), strict=True)
    managers = [placement[edge][receiver] for edge, receiver in ends]
    held = channels.select(["t_s", "in_flight_bytes"]).append_column("manager", [managers])
    sums = held.group_by(["t_s", "manager"]).aggregate([("in_flight_bytes", "sum")])
    moments = sums["t_s"].to_numpy()[sums["in_flight_bytes_sum"].to_numpy() > heap_bytes]
    return float(moments.min()) if len(moments) else None


def _dot(ages: Ints, counts: Ints) -> float:
    """Return the sum of the products, exactly where 64 bits hold it."""
    about = float(ages.astype(np.float64) @ counts)
    return about if about > LARGEST_SUM else int(ages @ counts)
