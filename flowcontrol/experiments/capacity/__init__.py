"""The sustainable rate of a source: the highest one without sustained backpressure.

Karimov et al., "Benchmarking Distributed Stream Data Processing Systems" (ICDE 2018): sustainable
throughput is the highest load that a system can handle without prolonged backpressure, that is
without a latency that grows for ever. :mod:`~flowcontrol.experiments.capacity.probe` defines
"prolonged"; :mod:`~flowcontrol.experiments.capacity.find` finds the rate.
"""

from flowcontrol.experiments.capacity.find import capacity
from flowcontrol.experiments.capacity.probe import Probe
from flowcontrol.experiments.capacity.result import Capacity, describe

__all__ = ["Capacity", "Probe", "capacity", "describe"]
