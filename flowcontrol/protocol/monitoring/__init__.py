"""How Flink watches a job: sampling, meters, gauges of time, levels of back pressure, data skew.

Pure, as the whole of :mod:`flowcontrol.protocol`: time is an argument, and what is watched is
given. Source: Flink 1.12 and 1.20 (``reference/deployment-and-diagnosis.md`` section 5,
``flink-network.md`` section 9).
"""

from flowcontrol.protocol.monitoring.levels import Pressure, pressure_level
from flowcontrol.protocol.monitoring.meter import MeterView, TimerGaugeView
from flowcontrol.protocol.monitoring.sampler import BackPressureSampler, Stats
from flowcontrol.protocol.monitoring.skew import data_skew

__all__ = [
    "BackPressureSampler",
    "MeterView",
    "Pressure",
    "Stats",
    "TimerGaugeView",
    "data_skew",
    "pressure_level",
]
