"""How much of a connection's bandwidth the exchanges between two task managers took."""

from __future__ import annotations

from collections import defaultdict
from typing import Final, NamedTuple

from flowcontrol.analysis.panel import Panel, mean_over_time
from flowcontrol.scenario import Edge, Scenario

SATURATED: Final = 0.8
"""Share of a bandwidth from which it limits; headers and whole rounds take the rest."""


class Connection(NamedTuple):
    """An ordered pair of task managers."""

    sender: int
    receiver: int
    bytes_per_s: float  # Bytes of records that it carried, mean over the samples


def busiest_connection(scenario: Scenario, edge: Edge, samples: Panel) -> Connection | None:
    """Return the connection of an exchange that carries most, with all that shares it.

    Records are taken to be spread evenly over the senders of a receiving subtask.

    ``samples``: rows of the table ``stages``.

    Returns None if the exchange is local.
    """
    loads: dict[tuple[int, int], float] = defaultdict(float)
    for other in scenario.edges:
        for pair, load in _loads(scenario, other, samples).items():
            loads[pair] += load
    own = [pair for pair in _loads(scenario, edge, samples) if pair[0] != pair[1]]
    if not own:
        return None
    pair = max(own, key=lambda pair: loads[pair])
    return Connection(*pair, loads[pair])


def _loads(scenario: Scenario, edge: Edge, samples: Panel) -> dict[tuple[int, int], float]:
    """Return the bytes/s of an exchange between each two task managers."""
    sender, receiver = scenario.stage(edge.sender), scenario.stage(edge.receiver)
    inputs = len(scenario.inputs(edge.receiver))
    loads: dict[tuple[int, int], float] = defaultdict(float)
    for subtask, there in enumerate(receiver.placement):
        rows = samples.of("stage", edge.receiver).of("subtask", subtask)
        rate = mean_over_time(rows, "rate_in") / inputs
        is_forward = edge.partitioner == "forward"
        senders = sender.placement[subtask : subtask + 1] if is_forward else sender.placement
        for here in senders:
            loads[here, there] += rate * sender.record_bytes / len(senders)
    return loads
