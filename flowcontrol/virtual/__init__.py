"""The virtual clock: the same rounds in a compiled loop over arrays, no Spark.

:func:`simulate` runs a scenario. Importing the package loads no compiler; the first run does.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flowcontrol.virtual.choose import choose_round_us
    from flowcontrol.virtual.clock import prepare_job, run_job, simulate

__all__ = ["choose_round_us", "prepare_job", "run_job", "simulate"]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for."""
    if name in __all__:
        from importlib import import_module

        module = "choose" if name == "choose_round_us" else "clock"
        return getattr(import_module(f"flowcontrol.virtual.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
