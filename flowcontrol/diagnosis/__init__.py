"""Why a job is slow: how its systems watch it, what the figures mean, what a real job was.

The objects of the reference's section 9, by its names, each loaded when it is first asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flowcontrol.analysis.causes import Finding, root_cause

__all__ = ["Finding", "root_cause"]

_LAZY = {"Finding": "flowcontrol.analysis.causes", "root_cause": "flowcontrol.analysis.causes"}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for."""
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
