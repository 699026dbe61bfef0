"""Types of arrays; pyarrow as ``pa`` and its functions as ``pc``, loaded at their first use.

A process that only steps tasks makes no table, and loading takes 0.2 s.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:

    class _Late:
        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            found = self.__dict__[name] = getattr(import_module(self._name), name)
            return found

    pa, pc = _Late("pyarrow"), _Late("pyarrow.compute")

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

__all__ = ["Floats", "Ints", "pa", "pc"]
