"""Backpressure in stream processing, on PySpark: emulate it, or put it into a pipeline.

Importing the package loads no engine: pyspark, numba and plotting come with what needs them.
"""

from typing import TYPE_CHECKING, Any

from flowcontrol.errors import (
    FlowControlError,
    InsufficientBuffersError,
    LinkError,
    ProtocolError,
    RunError,
    ScenarioError,
)
from flowcontrol.version import __version__ as __version__

if TYPE_CHECKING:
    from flowcontrol.experiments.advise.advise import advise
    from flowcontrol.experiments.capacity import capacity
    from flowcontrol.experiments.compare.compare import compare
    from flowcontrol.experiments.sweep.sweep import sweep
    from flowcontrol.experiments.tune.tune import tune
    from flowcontrol.ledger.audit import Violation, audit
    from flowcontrol.link.link import Link
    from flowcontrol.report.result import Result
    from flowcontrol.run import RunResult
    from flowcontrol.run.emulate import emulate
    from flowcontrol.run.jobs import rounds
    from flowcontrol.run.plan import plan
    from flowcontrol.run.scale import scale
    from flowcontrol.scenario import Scenario, load_scenario
    from flowcontrol.stepview.step import step
    from flowcontrol.trace.round_state import RoundState

__all__ = [
    "FlowControlError",
    "InsufficientBuffersError",
    "Link",
    "LinkError",
    "ProtocolError",
    "Result",
    "RoundState",
    "RunError",
    "RunResult",
    "Scenario",
    "ScenarioError",
    "Violation",
    "advise",
    "audit",
    "capacity",
    "compare",
    "emulate",
    "load_scenario",
    "plan",
    "rounds",
    "scale",
    "step",
    "sweep",
    "tune",
]

_LAZY = {
    "Link": "flowcontrol.link.link",
    "Result": "flowcontrol.report.result",
    "RoundState": "flowcontrol.trace.round_state",
    "RunResult": "flowcontrol.run",
    "Scenario": "flowcontrol.scenario",
    "Violation": "flowcontrol.ledger.audit",
    "advise": "flowcontrol.experiments.advise.advise",
    "audit": "flowcontrol.ledger.audit",
    "capacity": "flowcontrol.experiments.capacity",
    "compare": "flowcontrol.experiments.compare.compare",
    "emulate": "flowcontrol.run",
    "load_scenario": "flowcontrol.scenario",
    "plan": "flowcontrol.run.plan",
    "rounds": "flowcontrol.run",
    "scale": "flowcontrol.run.scale",
    "step": "flowcontrol.stepview.step",
    "sweep": "flowcontrol.experiments.sweep.sweep",
    "tune": "flowcontrol.experiments.tune.tune",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for."""
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
