"""Where the bottleneck is: pressure statuses, figures per stage, and one plain sentence.

Reads result tables only (:mod:`flowcontrol.records`), so that a live run, a virtual one and a
run made elsewhere are judged alike.
"""

from flowcontrol.analysis.bottleneck import (
    Bottleneck,
    Pressure,
    find_bottleneck,
    pressure_of,
    worst_pressure,
)
from flowcontrol.analysis.frames import combine_latencies
from flowcontrol.analysis.summary import summarise
from flowcontrol.protocol.monitoring import data_skew

__all__ = [
    "Bottleneck",
    "Pressure",
    "combine_latencies",
    "data_skew",
    "find_bottleneck",
    "pressure_of",
    "summarise",
    "worst_pressure",
]
