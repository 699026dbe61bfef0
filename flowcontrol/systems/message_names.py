"""What the messages of other systems than Flink are called: of a transport, and of a throttle.

The names are those of the systems that a part is taken from. What a message weighs besides its
records is known of Flink's only (:mod:`flowcontrol.protocol.frames`).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from flowcontrol.protocol.queues import CANCEL_MARKER, END_OF_DATA, END_OF_PARTITION


class TransportNames(NamedTuple):
    """The messages of a transport that counts records.

    Attributes
    ----------
    data : str
        Records from a sender to a receiver.
    grant : str
        What a receiver says of what its sender may send; "": it says nothing.
    stop, go : str
        In its place, of a receiver that stops its senders and lets them go on; "": it has none.
    """

    data: str
    grant: str = ""
    stop: str = ""
    go: str = ""


EVENT_NAMES: Final[Mapping[int, str]] = MappingProxyType(
    {END_OF_PARTITION: "End", END_OF_DATA: "EndOfData", CANCEL_MARKER: "CancelBarrier"}
)
"""Events among the records of a channel, by kind; all others are BARRIER."""

BARRIER: Final = "Barrier"
"""A barrier among the records of a channel."""

TRANSPORT_NAMES: Final[Mapping[str, TransportNames]] = MappingProxyType(
    {
        # Pulsar's FLOW of a consumer; of Reactive Streams it is request(n).
        "half_return_credit": TransportNames("Message", "Flow"),
        "batched_credit": TransportNames("StreamChunk", "AddPermits"),
        "cumulative_credit": TransportNames("Transfer", "Flow"),
        # Jet: an item is acknowledged by the limit in the next of these packets.
        "rate_window": TransportNames("StreamPacket", "FlowControlPacket"),
        "bdp_window": TransportNames("Data", "WindowUpdate"),
        # Storm 2 sends lists of tasks under pressure, JStorm 1 and 0.
        "hop_hysteresis": TransportNames(
            "TupleBatch", stop="BackPressureStatus on", go="BackPressureStatus off"
        ),
        "unbounded": TransportNames("Batch"),
    }
)
"""By transport; those that are not here send nothing, or Flink's messages."""

HERON: Final = "heron"
"""The throttle ``global_hysteresis`` with marks in bytes, as Heron has it; else it is Storm's."""

_STORM = {
    "claim": "ZooKeeper setData",
    "relief": "ZooKeeper delete",
    "stop": "ZooKeeper watch: on",
    "go": "ZooKeeper watch: off",
}
_RATE = {"rate": "Rate"}

THROTTLE_NAMES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "none": {},
        "global_hysteresis": _STORM,
        HERON: {
            "claim": "Pressure",
            "relief": "Relief",
            "stop": "StartBackPressureMessage",
            "go": "StopBackPressureMessage",
        },
        "stepwise_sleep": {
            "start": "TopologyMaster: start event",
            "stop": "TopologyMaster: stop event",
            "slower": "TopologyMaster: start command",
            "faster": "TopologyMaster: stop command",
            "awake": "TopologyMaster: sleeps no more",
            "released": "TopologyMaster: released",
        },
        "pid_rate": _RATE,
        "aimd_rate": _RATE,
        "frontier_lag": {"step": "Frontier"},
        "static_admission": {},  # nothing tells its sources how the job fares
    }
)
"""By throttle, what it calls each message (:attr:`.throttles.controller.Controller.spoken`)."""


def throttle_names(throttle: str, values: Mapping[str, float]) -> Mapping[str, str]:
    """Return what a throttle with such parameters calls its messages."""
    if throttle == "global_hysteresis" and values["high_bytes"] > 0:
        return THROTTLE_NAMES[HERON]
    return THROTTLE_NAMES[throttle]
