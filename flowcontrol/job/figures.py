"""Pool usages and latencies of the result tables, for both clocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

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


def _dot(ages: Ints, counts: Ints) -> float:
    """Return the sum of the products, exactly where 64 bits hold it."""
    about = float(ages.astype(np.float64) @ counts)
    return about if about > LARGEST_SUM else int(ages @ counts)
