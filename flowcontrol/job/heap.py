"""The memory that queues without a bound take, and when it is more than a heap."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    ends = zip(channels["edge"].to_pylist(), channels["receiver"].to_pylist(), strict=True)
    managers = [placement[edge][receiver] for edge, receiver in ends]
    held = channels.select(["t_s", "in_flight_bytes"]).append_column("manager", [managers])
    sums = held.group_by(["t_s", "manager"]).aggregate([("in_flight_bytes", "sum")])
    moments = sums["t_s"].to_numpy()[sums["in_flight_bytes_sum"].to_numpy() > heap_bytes]
    return float(moments.min()) if len(moments) else None
