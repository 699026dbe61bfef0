"""A peer of the virtual clock: source -> middle -> sink as a network of three queues in Ciw.

Blocking of type I: what is served stays with its server until the next queue has room. The source
is a node that serves in no time and has no room to wait in, so that what falls due while it is
blocked is lost, as in the emulated job. A customer is a buffer, and the room of a node is what
both pools of the edge before it hold.
"""

from __future__ import annotations

import time

import ciw


def run(
    duration_s: float, *, rates: tuple[float, float, float], pool: int, gate: int
) -> tuple[int, float]:
    """Run the chain for so much emulated time.

    Parameters
    ----------
    duration_s : float, s
        Emulated time.
    rates : tuple of float, buffers/s
        What the source emits at most, what the middle and the sink process at most.
    pool, gate : int, buffers
        Of the sender and of the receiver of each edge.

    Returns
    -------
    transfers : int
        Buffers that went over the two edges.
    seconds : float
        What that took.
    """
    source, middle, sink = (1 / rate for rate in rates)
    fixed = ciw.dists.Deterministic
    network = ciw.create_network(
        arrival_distributions=[fixed(source), None, None],
        service_distributions=[fixed(0.0), fixed(middle), fixed(sink)],
        routing=[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]],
        number_of_servers=[1, 1, 1],
        queue_capacities=[0, pool + gate, pool + gate],
    )
    ciw.seed(1)
    simulation = ciw.Simulation(network)
    began = time.perf_counter()
    simulation.simulate_until_max_time(duration_s)
    seconds = time.perf_counter() - began
    # A record is written when a customer leaves a node, so one of nodes 1 and 2 is a transfer.
    records = simulation.get_all_records(only=["service"])
    return sum(record.node in (1, 2) for record in records), seconds
