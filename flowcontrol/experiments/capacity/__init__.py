"""The sustainable rate of a source: the most it can emit without sustained back pressure.

Karimov et al., "Benchmarking Distributed Stream Data Processing Systems" (ICDE 2018): sustainable
throughput is the highest load that a system can handle without prolonged back pressure, that is
without a latency that grows for ever. What "prolonged" means here, exactly, stands in
:mod:`~flowcontrol.experiments.capacity.probe`; how the rate is found in
:mod:`~flowcontrol.experiments.capacity.search`.
"""

from __future__ import annotations

from flowcontrol.experiments.capacity.find import Capacity, find_capacity
from flowcontrol.experiments.capacity.probe import Probe
from flowcontrol.experiments.capacity.wording import describe

__all__ = ["Capacity", "Probe", "describe", "find_capacity"]
