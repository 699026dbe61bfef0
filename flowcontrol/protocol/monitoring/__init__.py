"""How Flink watches a job: sampling, meters, gauges of time, levels of back pressure, data skew.

Pure, as the whole of :mod:`flowcontrol.protocol`: time is an argument, and what is watched is
given. Source: Flink 1.12 and 1.20 (``reference/deployment-and-diagnosis.md`` section 5,
``flink-network.md`` section 9).
"""

from flowcontrol.protocol.monitoring.levels import Pressure as Pressure
from flowcontrol.protocol.monitoring.levels import pressure_level as pressure_level
from flowcontrol.protocol.monitoring.meter import MeterView as MeterView
from flowcontrol.protocol.monitoring.meter import TimerGaugeView as TimerGaugeView
from flowcontrol.protocol.monitoring.sampler import BackPressureSampler as BackPressureSampler
from flowcontrol.protocol.monitoring.sampler import Stats as Stats
from flowcontrol.protocol.monitoring.skew import data_skew as data_skew
