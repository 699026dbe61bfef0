"""pyarrow as ``pa`` and its functions as ``pc``, loaded when something of them is asked for.

Most of what makes tables never does in a process that only steps tasks, and loading takes 0.2 s.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:

    class _Late:
        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module(self._name), name)

    pa, pc = _Late("pyarrow"), _Late("pyarrow.compute")

__all__ = ["pa", "pc"]
