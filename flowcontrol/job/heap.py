"""The memory that queues without a bound take, and when it is more than a heap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flowcontrol.scenario import Scenario

if TYPE_CHECKING:
    import pyarrow as pa


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
    managers = np.array(
        [
            placement[edge][receiver]
            for edge, receiver in zip(
                channels["edge"].to_pylist(), channels["receiver"].to_pylist(), strict=True
            )
        ]
    )
    times = channels["t_s"].to_numpy()
    nbytes = channels["in_flight_bytes"].to_numpy()
    full = []
    for manager in np.unique(managers):
        own = managers == manager
        moments, which = np.unique(times[own], return_inverse=True)
        sums = np.bincount(which, weights=nbytes[own])
        full += list(moments[sums > heap_bytes][:1])
    return float(min(full)) if full else None
