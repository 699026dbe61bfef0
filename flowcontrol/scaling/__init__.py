"""Choosing parallelism from what a job measures: DS2, and Flink's autoscaler.

What lives here: the rules, which know names and numbers only. What must not: a run.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flowcontrol.scaling.alignment import align_parallelism
    from flowcontrol.scaling.autoscaler import FlinkAutoscaler
    from flowcontrol.scaling.true_rates import ds2

__all__ = ["FlinkAutoscaler", "align_parallelism", "ds2"]

_MODULES = {"FlinkAutoscaler": "autoscaler", "align_parallelism": "alignment", "ds2": "true_rates"}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for."""
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(f"flowcontrol.scaling.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
